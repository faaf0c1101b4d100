"""The compiled twin of the model: the same ticks as ``streamsim.model``, over a hundred times as fast.

It needs numba (the extra ``fast``), which is imported at the first call. The first call on a machine
compiles for some ten seconds (``telling`` says when). The result is kept beside this file, or in the user's cache if
that folder cannot be written.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from streamsim import model
from streamsim.device import Device
from streamsim.errors import InputError, install
from streamsim.lowering import Lowered, lower
from streamsim.program import Config, Schedule, Workload
from streamsim.timeline import Timeline

SWITCH = "NUMBA_DISABLE_JIT"  # numba's switch: its functions then run uncompiled, which ours cannot
COMPILATION = "which takes 10 to 30 seconds"
LOADING_OPS = 20_000  # ops that SimPy simulates in the second that loading numba takes
MANY = 1000  # schedules of a job of unknown size
TO_TELL: list[Callable[[], None]] = []  # called when compilation begins


def available() -> bool:
    """Return whether numba is installed and its compiler is on (``NUMBA_DISABLE_JIT``); does not import numba."""
    is_off = os.environ.get(SWITCH, "0").strip() not in ("", "0")
    return not is_off and find_spec("numba") is not None


def _check_available() -> None:
    if os.environ.get(SWITCH) and not available():
        raise InputError(f"{SWITCH} = {os.environ[SWITCH]!r}: switches numba's compiler off; unset it")
    if not available():
        raise InputError(f"numba is not installed: the compiled model needs it; {install('fast')}")
    try:
        import numba
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"numba is installed but cannot be imported ({reason}): pip install --upgrade numba,"
            " or uninstall numba to go on without it"
        ) from None


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` once, in any thread, if the model begins to be compiled within the block."""
    TO_TELL.append(tell)
    try:
        yield
    finally:
        if tell in TO_TELL:
            TO_TELL.remove(tell)


def simulate_one_of_many(schedule: Schedule, device: Device, many: int = MANY) -> Timeline:
    """Return the time line of ``schedule`` on ``device``, in a job of about ``many`` schedules of its size.

    Errors as in :func:`streamsim.model.simulate`. :func:`run_one_of_many` chooses the simulator.
    """
    return run_one_of_many(lower(schedule, device), many)


def run_one_of_many(lowered: Lowered, many: int = 1) -> Timeline:
    """Return the time line of a lowered schedule, in a job of about ``many`` schedules of its size.

    Both simulators give the same ticks. Loading numba takes a second. Jobs that SimPy does in less time run on SimPy,
    larger jobs on the compiled model if numba is installed. Earlier runs make no difference.
    """
    if many * len(lowered.kind) > LOADING_OPS and available():
        _check_available()
        from streamsim.compiled.loop import run

        return run(lowered)
    return model.run(lowered)


def makespans(
    workload: Workload, configs: Sequence[Config], device: Device, threads: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the makespan, in ticks (ns), of the program of each config, in the order of ``configs``.

    There is at least one config, and the chunks of all configs make equally many launches. The work is spread over
    ``threads`` (None: one for each core). Raises InputError without numba, for a config with more chunks than the
    workload has elements, and for a kernel without a cost on the device.
    """
    _check_available()
    from streamsim.compiled.configurations import makespans

    return makespans(workload, configs, device, threads)
