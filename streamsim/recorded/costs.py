"""The cost of recording a program, for its host and for its card.

The host's cost is known in two ways. Programs make calls that take no time, such as asking for the current card. A
profiler that writes these calls shows the cost of each record. PyTorch's profiler writes few of them; for it, the ratio
of the host's own time, recorded over plain, is measured (:mod:`streamsim.device.recorders`). For other recordings the
cost is unknown. Then nothing is subtracted, and the program's time without recording is a range.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.device import CALLS, PYTORCH, SHAPES, STACK, Device, recorder_of, with_values
from streamsim.recorded.recording import (
    LATEST_NS,
    LOOKUPS,
    QUERIES,
    SIMULATED,
    AnnotationKind,
    CallKind,
    Recording,
    places,
)

# The cost of recording a piece of work, over that of recording its call: 0.8 and 0.2 us. Measured on host-bound
# programs, recorded by CUPTI on an H100 and an H200; docs/evidence.md judges it on another card.
WORK = 4.0
# The time by which recording delays a hand-over to another engine, because each op gets two time stamps. Measured on
# card-bound programs in one stream, with CUPTI and without, on an H100 and two H200; docs/evidence.md judges it on
# others.
STAMPS_S = 1e-6
ENOUGH = 8  # the least number of calls that do nothing, to find the cost of recording
SHORT = 0.1  # the share of the gaps behind such calls in which the host does nothing else
MOST = 0.9  # the share of the calls beside which nothing else ran on the host
ENOUGH_LOOKUPS = 3  # the same for the few such calls of PyTorch's profiler, one for each copy and matrix product
# Calls that a library makes for each call that puts work on the card, recorded but not written by PyTorch's profiler.
# CUPTI shows 12 to 16 of PyTorch, in inference, training and streamed layers, and 3 or 4 of CuPy.
UNWRITTEN_OF_PYTORCH, UNWRITTEN_OF_OTHERS = 14, 3
# The cost behind a call, and of an operation of PyTorch, over the cost in a call: 0.2 and 1.8 us over 0.4 us. Measured
# on a chunk's operations on an H100, one by one, recorded and not; docs/evidence.md judges both on others.
BEHIND, OPERATION = 0.5, 4.0
MOST_S = 10e-6  # the most for one call or operation: up to 3 us on one host, and hosts differ by a factor of three
# The time of PyTorch's profiler in the first copy or launch of a recording: 0.31 to 0.50 ms in nine recordings.
FIRST_S = 0.25e-3, 0.6e-3


class HostCosts(msgspec.Struct, frozen=True):
    """The cost of recording that is taken out of the host's time, in seconds.

    - ``call_s``: for each call; ``between_s``: between two calls.
    - ``work_s``: for each call that puts work on the card, because this work is recorded, too.
    - ``unwritten_s``: before each such call, for calls that were recorded but are not in the recording.
    - ``operation_s``: for each recorded operation of PyTorch.
    - ``share``: of the host's time, in calls and between them, up to ``most_s`` for each call and operation.
    - ``first``: True if the first copy or launch loses the work of PyTorch's profiler in it.
    """

    call_s: float = 0.0
    between_s: float = 0.0
    work_s: float = 0.0
    unwritten_s: float = 0.0
    operation_s: float = 0.0
    share: float = 0.0
    most_s: float = MOST_S
    first: bool = False

    def scaled(self, factor: float) -> HostCosts:
        """Return the costs with all times multiplied by ``factor``."""
        times = (name for name in self.__struct_fields__ if name.endswith("_s") and name != "most_s")
        return msgspec.structs.replace(self, **{name: getattr(self, name) * factor for name in times})


class RecordingCosts(NamedTuple):
    """The likely, the least and the most cost of recording, and ``how`` it is known."""

    likely: HostCosts
    least: HostCosts
    most: HostCosts
    how: str


def costs_of(recording: Recording, device: Device) -> RecordingCosts:
    """Return the cost of a recording, and how it is known."""
    if recording.tool == SIMULATED:
        nothing = HostCosts()
        return RecordingCosts(nothing, nothing, nothing, "the program was simulated, and recording took no time")
    if recording.format == "Kineto":
        return _by_ratio(recording, device)
    asked = costs_of_queries(recording)
    if asked is not None:
        return RecordingCosts(asked, asked, asked, "by calls of the program that do nothing")
    nothing, most = HostCosts(), HostCosts(share=_share(recorder_of(device, CALLS).most))
    return RecordingCosts(nothing, nothing, most, "not known of this profiler; nothing is taken off")


def _by_ratio(recording: Recording, device: Device) -> RecordingCosts:
    """Return the cost of PyTorch's profiler, from its measured ratio.

    For a program without a backward pass, calls that do nothing give the cost if there are enough: they show the times
    of records on the same host.
    """
    notes = recording.annotations
    threads = np.unique(notes.thread[notes.kind == AnnotationKind.OP])  # PyTorch's backward pass has one of its own
    with_what = next((name for word, name in (("stack", STACK), ("shapes", SHAPES)) if word in recording.tool), PYTORCH)
    name = with_what if len(threads) else CALLS
    recorder = recorder_of(device, name)
    ratio = recorder.backward if len(threads) > 1 else recorder.ratio
    likely, least, most = (HostCosts(share=_share(it), first=True) for it in (ratio, recorder.least, recorder.most))
    known = None if len(threads) > 1 else costs_of_queries(recording)
    if known is not None:
        return RecordingCosts(known, least, known, "by calls of the program that do nothing; at the least by a ratio")
    kind, _, where = recorder.source.partition(": ")
    how = f"recorded, the host takes {ratio:g} times its own time; {kind}: {where}"
    return RecordingCosts(likely, least, most, how)


def _share(ratio: float) -> float:
    """Return the share of the recorded time that is the cost of recording, for a ratio of recorded over plain time."""
    return 1.0 - 1.0 / ratio


def while_recorded(device: Device) -> Device:
    """Return the device while a profiler records it: hand-overs to another engine take longer."""
    engines = [name for name in device.hand_over.__struct_fields__ if "_to_" in name and name != "kernel_to_kernel_s"]
    return with_values(device, {f"hand_over.{name}": getattr(device.hand_over, name) + STAMPS_S for name in engines})


def costs_of_queries(recording: Recording) -> HostCosts | None:
    """Return the cost of each record, from calls that do nothing; None for too few of them.

    PyTorch's profiler writes few of them, and its other costs follow. Of other profilers, the shortest gaps behind such
    calls are the cost between records: the host did nothing else in them.
    """
    calls, is_kineto = recording.calls, recording.format == "Kineto"
    wanted, enough = (LOOKUPS, ENOUGH_LOOKUPS) if is_kineto else (QUERIES, ENOUGH)
    asked = np.flatnonzero(np.isin(calls.name, places(recording.names, wanted)) & (calls.kind == CallKind.OTHER))
    if len(asked) < enough:
        return None
    # A mean without the longest tenth: some profilers count whole microseconds, so that most calls take 0.
    took_ns = (calls.end_ns - calls.start_ns)[asked]
    took_s = float(took_ns[took_ns <= np.quantile(took_ns, MOST)].mean()) * 1e-9
    if is_kineto:
        is_pytorch = (recording.annotations.kind == AnnotationKind.OP).any()
        unwritten_s = took_s * (1 + BEHIND) * (UNWRITTEN_OF_PYTORCH if is_pytorch else UNWRITTEN_OF_OTHERS)
        return HostCosts(took_s, took_s * BEHIND, took_s * WORK, unwritten_s, took_s * OPERATION, first=True)
    before = asked[asked < len(calls) - 1]
    behind = before[calls.thread[before] == calls.thread[before + 1]]
    gaps_ns = (calls.start_ns[behind + 1] - calls.end_ns[behind]).clip(0)
    between_s = float(np.quantile(gaps_ns, SHORT)) * 1e-9 if len(gaps_ns) else 0.0
    return HostCosts(min(took_s, MOST_S), min(between_s, MOST_S), min(took_s * WORK, MOST_S))


# Taken out of a program


def unwritten_ns(before_ns: NDArray[np.int64], has_work: NDArray[np.bool_], unwritten_ns: int) -> NDArray[np.int64]:
    """Return the nanoseconds of the gap before each call of a thread that went to calls that were not written.

    ``has_work``: True for the calls that put work on the card. ``unwritten_ns`` is the time of unwritten calls before
    each of these. It is taken from the gaps since the one before it, the same share of each gap.
    """
    turn: NDArray[np.int64] = np.cumsum(has_work) - has_work  # which of those with work is next
    together = np.bincount(turn, before_ns, minlength=1)
    share = np.minimum(unwritten_ns / np.maximum(together, 1), 1.0)
    share[int(has_work.sum()) :] = 0.0  # no work is behind these
    return np.rint(before_ns * share[turn]).astype(np.int64)


def share_ns(took_ns: NDArray[np.int64], costs: HostCosts, records: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the nanoseconds that recording took of the host's times in which it wrote ``records`` records."""
    most_ns = np.minimum(records * (costs.most_s * 1e9), float(LATEST_NS))
    return np.asarray(np.rint(np.minimum(took_ns * costs.share, most_ns)), np.int64)
