"""Batches in CuPy: to the card, some ufuncs, and back.

``whole`` and ``chunked`` are of three large arrays. The ``small`` variants are of many small batches, whose calls take
the host longer than the card.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import cupy
import cupyx
import numpy as np
from cupyx.profiler import time_range

from campaigns.recorded.rounds import Work, main

Loop = Callable[[Any, Any, Any], object]

LARGE, ARRAYS, SMALL = (12, 4 << 20), (3, 8 << 20), (96, 16 << 10)  # batches, and the floats of each
UFUNCS, CHUNKS = 8, 8
STREAMS = 4
DEFAULT = 4  # cudaMemcpyDefault: the addresses say from where to where


def compute(x: Any) -> None:
    for _ in range(UFUNCS // 2):
        cupy.sin(x, out=x)
        cupy.add(x, 1, out=x)


# The loops, as one writes them: batches and scores are on the host, ``on_card`` has a place for each batch


def blocking(batches: Any, scores: Any, on_card: Any, synchronised: bool = False) -> None:
    for batch, score, x in zip(batches, scores, on_card, strict=True):
        x.set(batch)
        compute(x)
        if synchronised:
            cupy.cuda.Device().synchronize()
        x.get(out=score)


def non_blocking(batches: Any, scores: Any, on_card: Any) -> None:
    for batch, score, x in zip(batches, scores, on_card, strict=True):
        x.set(batch)
        compute(x)
        x.get(out=score, blocking=False)
    cupy.cuda.Device().synchronize()


def over_streams(count: int) -> Loop:
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(count)]

    def loop(batches: Any, scores: Any, on_card: Any) -> None:
        for batch, score, x, stream in zip(batches, scores, on_card, cycle(streams), strict=False):
            with stream:
                x.set(batch)
                compute(x)
                x.get(out=score, blocking=False)
        cupy.cuda.Device().synchronize()

    return loop


def in_chunks(count: int, chunks: int) -> Loop:
    """Return each array in so many parts, the next in the next stream."""
    inner = over_streams(count)

    def loop(batches: Any, scores: Any, on_card: Any) -> None:
        inner(*(one.reshape(chunks * len(one), -1) for one in (batches, scores, on_card)))

    return loop


def as_graph(count: int, batches: Any, scores: Any, on_card: Any) -> Callable[[], None]:
    """Of all batches, over so many streams, which begin behind the first and end before it does."""
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(count)]
    first = streams[0]
    first.begin_capture()
    for other in streams[1:]:
        other.wait_event(first.record())
    for batch, score, x, stream in zip(batches, scores, on_card, cycle(streams), strict=False):
        with stream:
            cupy.cuda.runtime.memcpyAsync(x.data.ptr, batch.ctypes.data, batch.nbytes, DEFAULT, stream.ptr)
            compute(x)
            cupy.cuda.runtime.memcpyAsync(score.ctypes.data, x.data.ptr, score.nbytes, DEFAULT, stream.ptr)
    for other in streams[1:]:
        first.wait_event(other.record())
    graph = first.end_capture()

    def run() -> None:
        graph.launch(first)
        first.synchronize()

    return run


# What they work on


def data(shape: tuple[int, int], pinned: bool) -> tuple[Any, Any, Any]:
    batches, scores = ((cupyx.zeros_pinned if pinned else np.zeros)(shape, "float32") for _ in range(2))
    batches[:] = np.linspace(0, 1, shape[1], dtype="float32")
    return batches, scores, cupy.empty(shape, "float32")


def is_right(batches: Any, scores: Any) -> bool:
    x = cupy.asarray(batches)
    compute(x)
    return bool(np.allclose(x.get(), scores, rtol=1e-5))


def pipeline(make: Callable[[], Loop], shape: tuple[int, int], pinned: bool = True) -> Work:
    batches, scores, on_card = data(shape, pinned)
    return Work(partial(make(), batches, scores, on_card), partial(is_right, batches, scores))


def graph_of(count: int, shape: tuple[int, int]) -> Work:
    batches, scores, on_card = data(shape, True)
    compute(on_card[0])  # kernels are compiled here
    return Work(as_graph(count, batches, scores, on_card), partial(is_right, batches, scores))


VARIANTS = {
    "pageable": lambda: pipeline(lambda: blocking, LARGE, pinned=False),
    "pinned": lambda: pipeline(lambda: blocking, LARGE),
    "synchronised": lambda: pipeline(lambda: partial(blocking, synchronised=True), LARGE),
    "async": lambda: pipeline(lambda: non_blocking, LARGE),
    "streams": lambda: pipeline(lambda: over_streams(STREAMS), LARGE),
    "graph": lambda: graph_of(STREAMS, LARGE),
    "whole": lambda: pipeline(lambda: blocking, ARRAYS),
    "chunked": lambda: pipeline(lambda: in_chunks(STREAMS, CHUNKS), ARRAYS),
    "small": lambda: pipeline(lambda: non_blocking, SMALL),
    "small-streams": lambda: pipeline(lambda: over_streams(STREAMS), SMALL),
    "small-graph": lambda: graph_of(1, SMALL),
}

if __name__ == "__main__":
    main(VARIANTS, time_range)
