"""Chunks in CUDA C++: the library of ``cpp_pipeline.cu``, which the environment's ``CPP_PIPELINE`` names.

A recording sees what the library calls; the rounds are named by NVTX, as CuPy calls it.
"""

from __future__ import annotations

import ctypes
import os

from cupyx.profiler import time_range

from campaigns.recorded.rounds import Work, main

LIBRARY = "CPP_PIPELINE"
ELEMENTS, CHUNKS = 1 << 24, 16


def chunks(function: str, streams: int = 0, pinned: bool = True) -> Work:
    library = ctypes.CDLL(os.environ[LIBRARY])
    library.prepare.restype = ctypes.c_void_p
    prepared = ctypes.c_void_p(library.prepare(ELEMENTS, int(pinned), streams))
    run = getattr(library, function)
    return Work(lambda: run(prepared, CHUNKS), lambda: bool(library.is_right(prepared)))


VARIANTS = {
    "pageable": lambda: chunks("run_blocking", pinned=False),
    "pinned": lambda: chunks("run_blocking"),
    "async": lambda: chunks("run_streams", 1),
    "streams": lambda: chunks("run_streams", 4),
}

if __name__ == "__main__":
    main(VARIANTS, time_range)
