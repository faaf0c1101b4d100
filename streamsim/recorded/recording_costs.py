"""What recording a program cost: its host, as the recording itself tells it, and its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamsim.device.variations import with_values
from streamsim.recorded.call_names import lookups, queries
from streamsim.recorded.recording import AnnotationKind, CallKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from streamsim.device.profile import Device
    from streamsim.recorded.recording import Recording

# Of what recording a call costs, what recording the work does that it puts on the card: 0.8 us of 0.2. Of programs that
# the host binds, recorded by CUPTI on an H100 and an H200; docs/evidence.md judges it on another.
WORK = 4.0
# Longer that an engine takes to hear of another one, as each op is given two stamps of time: of programs in one stream
# that the card binds, recorded by CUPTI and as they are, on an H100 and two H200; docs/evidence.md judges it on others.
STAMPS_S = 1e-6
ENOUGH = 8  # calls that do nothing, to say what recording costs
ENOUGH_LOOKUPS = 3  # of which a step of PyTorch has one for each copy and each matrix product
SHORT = 0.1  # of the gaps behind such calls, the part in which the host does nothing else
MOST = 0.9  # of the calls, those beside which nothing else ran on the host

# Calls that a library makes for each that puts work on the card, and that PyTorch's profiler records but does not
# write: by CUPTI 12 to 16 of PyTorch, in inference, training and streamed layers, and 3 or 4 of CuPy.
UNWRITTEN_OF_PYTORCH, UNWRITTEN_OF_OTHERS = 14, 3
# Of what recording takes in a call, what it takes behind it, and for an operation of PyTorch: 0.2 and 1.8 us of 0.4, of
# a chunk's operations on an H100, one by one as they are and recorded. docs/evidence.md judges both on others.
BEHIND, OPERATION = 0.5, 4.0


class HostCosts(msgspec.Struct, frozen=True):
    """What recording cost the host, to be taken out: seconds for each call, before it, and for each operation recorded.

    ``first``: whether the first copy or launch takes what the others do. ``work_s``: for each call that puts work on
    the card, which is recorded too. ``unwritten_s``: between it and the one before, for calls that were recorded and
    are not in the recording.
    """

    call_s: float = 0.0
    operation_s: float = 0.0
    first: bool = False
    between_s: float = 0.0
    work_s: float = 0.0
    unwritten_s: float = 0.0

    def scaled(self, factor: float) -> HostCosts:
        """So many times as much of each."""
        times = (self.call_s * factor, self.operation_s * factor)
        more = (self.between_s * factor, self.work_s * factor, self.unwritten_s * factor)
        return HostCosts(*times, self.first, *more)


def costs_of(recording: Recording, device: Device) -> HostCosts:
    """What each record cost.

    Where the program asks for what takes no time, such as which card is the current one: what that took, and what
    passed until the next call where the host did nothing else; PyTorch's profiler does not write most of these calls.
    Else what launches took longer, at the median, than those of ``device``; nothing where its host was not measured.
    """
    return by_asking(recording) or per_call(_excess_s(recording, device))


def while_recorded(device: Device) -> Device:
    """The card while somebody records it: ops hear later of those that run on another engine."""
    engines = [name for name in device.hand_over.__struct_fields__ if "_to_" in name and name != "kernel_to_kernel_s"]
    return with_values(device, {f"hand_over.{name}": getattr(device.hand_over, name) + STAMPS_S for name in engines})


def per_call(call_s: float) -> HostCosts:
    """Of recorders that take so long for each call, and as long for each operation.

    Of what recording cost two programs in PyTorch that the host binds, beside 1.4 and 1.2 us a call, an operation has
    1.4 and 3 times as much, of a third 1.1 and 2.7 us; of those that it does not bind half to all of it.
    """
    return HostCosts(call_s, call_s, first=True)


def by_asking(recording: Recording) -> HostCosts | None:
    """What each record cost by calls that do nothing; None where there are too few of them."""
    return _by_queries(recording) or _by_lookups(recording)


def _by_queries(recording: Recording) -> HostCosts | None:
    calls = recording.calls
    asked = _asked(recording, queries(recording.names))
    if len(asked) < ENOUGH:
        return None
    before = asked[asked < len(calls) - 1]
    behind = before[calls.thread[before] == calls.thread[before + 1]]
    gaps_ns = (calls.start_ns[behind + 1] - calls.end_ns[behind]).clip(0)
    between_ns = float(np.quantile(gaps_ns, SHORT)) if len(gaps_ns) else 0.0
    took_s = _took_s(recording, asked)
    return HostCosts(took_s, 0.0, first=True, between_s=between_ns * 1e-9, work_s=took_s * WORK)


def _by_lookups(recording: Recording) -> HostCosts | None:
    """Of PyTorch's profiler, which writes few of the calls that do nothing, and none of those that are most."""
    asked = _asked(recording, lookups(recording.names))
    if recording.format != "Kineto" or len(asked) < ENOUGH_LOOKUPS:
        return None
    took_s = _took_s(recording, asked)
    is_pytorch = (recording.annotations.kind == AnnotationKind.OP).any()
    unwritten = UNWRITTEN_OF_PYTORCH if is_pytorch else UNWRITTEN_OF_OTHERS
    return HostCosts(
        call_s=took_s,
        operation_s=took_s * OPERATION,
        first=True,
        between_s=took_s * BEHIND,
        work_s=took_s * WORK,
        unwritten_s=unwritten * took_s * (1 + BEHIND),
    )


def _asked(recording: Recording, names: Sequence[int]) -> NDArray[np.int64]:
    """The calls of these names."""
    calls = recording.calls
    return np.flatnonzero(np.isin(calls.name, names) & (calls.kind == CallKind.OTHER))


def _took_s(recording: Recording, calls: NDArray[np.int64]) -> float:
    """What calls took on average, but for the longest: of profilers that count whole microseconds most take none."""
    took_ns = (recording.calls.end_ns - recording.calls.start_ns)[calls]
    return float(took_ns[took_ns <= np.quantile(took_ns, MOST)].mean()) * 1e-9


def _excess_s(recording: Recording, device: Device) -> float:
    """How much longer launches took than the profile's, at the median; 0 where its host was not measured."""
    calls = recording.calls
    took_ns = (calls.end_ns - calls.start_ns)[calls.kind == CallKind.LAUNCH]
    if not len(took_ns) or device.source("host.kernel_s")[0] != "measured":
        return 0.0
    return max(0.0, float(np.median(took_ns)) * 1e-9 - device.host.kernel_s)
