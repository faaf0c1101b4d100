"""The model once more, compiled: the same ticks as ``streamsim.model``, a hundred and more times as fast.

Needs numba (``pip install 'streamsim[fast]'``), which is imported at the first call. The first call on a
machine compiles for some ten seconds (``telling`` says when); the result is kept beside this file, or in the user's
cache where that cannot be written.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from streamsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from streamsim.device.profile import Device
    from streamsim.lowering.lowered import Lowered
    from streamsim.program.config import Config
    from streamsim.program.schedule import Schedule
    from streamsim.program.workload import Workload
    from streamsim.timeline.timeline import Timeline

__all__ = [
    "COMPILATION",
    "available",
    "keeps_code",
    "makespans",
    "run_one_of_many",
    "simulate",
    "simulate_one_of_many",
    "telling",
]

SWITCH = "NUMBA_DISABLE_JIT"  # numba's own: its functions run uncompiled, which ours cannot
COMPILATION = "which takes 10 to 30 seconds"
LOADING_OPS = 20_000  # that SimPy simulates in the second that loading numba takes
MANY = 1000  # schedules of a job that cannot say how many it will simulate
_to_tell: list[Callable[[], None]] = []  # who wants to know that compilation begins
_listening: list[Any] = []  # numba's listener that tells them


def available() -> bool:
    """Tell whether numba is installed and its compiler is on (``NUMBA_DISABLE_JIT``); does not import numba."""
    is_off = os.environ.get(SWITCH, "0").strip() not in ("", "0")
    return not is_off and find_spec("numba") is not None


def keeps_code() -> bool:
    """Tell whether numba finds a folder in which it can keep what it compiles; True before it has looked."""
    numba_code = sys.modules.get("streamsim.compiled.numba_code")
    return numba_code is None or numba_code.keeps_code()


def _check_available() -> None:
    if os.environ.get(SWITCH) and not available():
        raise InputError(f"{SWITCH} = {os.environ[SWITCH]!r}: switches numba's compiler off; unset it")
    if not available():
        raise InputError("numba is not installed: the compiled model needs it; pip install 'streamsim[fast]'")
    try:
        import numba.core.event  # a NumPy that is too new for it, say
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"numba is installed but cannot be imported ({reason}): pip install --upgrade 'streamsim[fast]',"
            " or uninstall numba to go on without it"
        ) from None

    if _to_tell and not _listening:
        _listen(numba.core.event)


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell``, once and in whatever thread, when the model begins to be compiled within the block."""
    _to_tell.append(tell)
    try:
        yield
    finally:
        if tell in _to_tell:
            _to_tell.remove(tell)


def _listen(events: Any) -> None:
    """Hear of numba's compilations; what is in its cache is none."""

    class Begins(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:  # noqa: ARG002
            while _to_tell:
                _to_tell.pop()()

        def on_end(self, event: Any) -> None:
            pass

    _listening.append(Begins())
    events.register("numba:compile", _listening[0])


def simulate(schedule: Schedule, device: Device) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device``: what ``streamsim.model.simulate`` gives.

    Raises InputError without numba, and when the device has no cost for a kernel that the schedule names.
    """
    _check_available()
    from streamsim.compiled.timelines import run
    from streamsim.lowering.lowered import lower

    return run(lower(schedule, device))


def simulate_one_of_many(schedule: Schedule, device: Device, many: int = MANY) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device``, in a job of about so ``many`` schedules of its size.

    Errors as of :func:`streamsim.model.simulate`; on which simulator: see :func:`run_one_of_many`.
    """
    from streamsim.lowering.lowered import lower

    return run_one_of_many(lower(schedule, device), many)


def run_one_of_many(lowered: Lowered, many: int = 1) -> Timeline:
    """The same of a schedule that has been made ready for a device.

    Both simulators give the same ticks. Loading numba takes a second, so a job that SimPy does in less is SimPy's, and
    a larger one the compiled model's where numba is installed. What ran before makes no difference.
    """
    if many * len(lowered.kind) > LOADING_OPS and available():
        _check_available()
        from streamsim.compiled.timelines import run

        return run(lowered)
    from streamsim.model import run as run_on_simpy

    return run_on_simpy(lowered)


def makespans(
    workload: Workload, configs: Sequence[Config], device: Device, threads: int | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Predict the makespan, in ticks (ns), of the pattern that each config names, in the order of ``configs``.

    The work is spread over ``threads`` (None: one for each core). Raises InputError without numba, for a config
    of more chunks than the workload has elements and for a kernel of which the device has no cost.
    """
    _check_available()
    from streamsim.compiled.configurations import makespans

    return makespans(workload, configs, device, threads)
