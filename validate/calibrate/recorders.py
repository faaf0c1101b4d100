"""The cost of profilers: calls of PyTorch timed in turn without a recording and inside one.

The ratio carries over from host to host, since a fast host records faster, too. So a profile keeps ratios
(:mod:`streamsim.device.recorders`): the median over the kinds of calls, the median of those with a backward pass, and
the least and the most.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from statistics import median, quantiles
from typing import Protocol

import msgspec

from streamsim.collector import collector_off
from streamsim.device import LARGEST_RATIO, Recorder
from streamsim_validate.progress import OnStep, quietly

REPEATS, TURNS = 5, 20  # recordings, and calls of a kind in each and beside it
BACKWARD = "backward"  # in the names of kinds with a backward pass
TENTHS = 10  # the least and the most are the first and the last tenth of the kinds

Pairs = dict[str, tuple[tuple[float, float], ...]]  # by kind, for each repeat: seconds of a call plain, and recorded


class RecorderSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The times of a profiler's recordings, and the library's and the profiler's version in words."""

    version: str
    pairs: Pairs


class RecordedWork(Protocol):
    """A library and a profiler of it. ``kinds``: calls by name, whose work on the card ends before the host's."""

    name: str  # of the recorder
    version: str
    kinds: Mapping[str, Callable[[], object]]

    def recording(self) -> AbstractContextManager[object]:
        """Return a context that records everything done in it."""

    def synchronize(self) -> None:
        """Wait for the card."""


def measure_recorders(
    works: Iterable[RecordedWork], clock: Callable[[], float] = time.perf_counter, on_step: OnStep = quietly
) -> dict[str, RecorderSamples]:
    """Return the times of each kind of call, plain and recorded in turn, by the name of the profiler."""
    found: dict[str, RecorderSamples] = {}
    for work in works:
        pairs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in work.kinds}
        for call in work.kinds.values():  # warm
            call()
        with work.recording():
            _timed(work, clock)
        with collector_off():
            for k in range(REPEATS):
                on_step(f"calibrating the recorder {work.name}", k, REPEATS)
                plain_s = _timed(work, clock)
                with work.recording():
                    recorded_s = _timed(work, clock)
                for kind in pairs:
                    pairs[kind].append((plain_s[kind], recorded_s[kind]))
        found[work.name] = RecorderSamples(work.version, {kind: tuple(both) for kind, both in pairs.items()})
    return found


def _timed(work: RecordedWork, clock: Callable[[], float]) -> dict[str, float]:
    """Return the host's seconds for a call of each kind, without waiting between calls."""
    found = {}
    for kind, call in work.kinds.items():
        work.synchronize()
        begin = clock()
        for _ in range(TURNS):
            call()
        found[kind] = (clock() - begin) / TURNS
    work.synchronize()
    return found


def fit_recorder(pairs: Pairs, source: str) -> Recorder:
    """Return the recorder that these pairs show."""
    ratios = {kind: _ratio(both) for kind, both in pairs.items()}
    ratio = median(ratios.values())
    backward = median([found for kind, found in ratios.items() if BACKWARD in kind] or [ratio])
    tenths = quantiles(ratios.values(), n=TENTHS, method="inclusive") if len(ratios) > 1 else [ratio]
    least, most = min(tenths[0], ratio, backward), max(tenths[-1], ratio, backward)
    return Recorder(ratio=ratio, backward=backward, least=least, most=most, source=source)


def _ratio(both: tuple[tuple[float, float], ...]) -> float:
    """Return the median over the repeats of recorded over plain time, at least 1."""
    found = median(recorded / plain for plain, recorded in both)
    return min(max(found, 1.0), LARGEST_RATIO)
