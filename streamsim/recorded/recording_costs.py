"""What recording a program cost its host, as the recording itself tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamsim.recorded.call_names import plain
from streamsim.recorded.recording import CallKind

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.recorded.recording import Recording

OPERATION = 2 / 3  # of what recording a call costs, what recording an operation of PyTorch does: 2.5 to 4 of 4.7 us
# Calls that look at a variable of their thread, which takes 20 ns: array libraries make several for each that works.
QUERIES = {"cuCtxGetCurrent", "cuCtxGetDevice"} | {
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("GetDevice", "GetLastError", "PeekAtLastError")
}
ENOUGH = 8  # of them, to say what recording costs
SHORT = 0.1  # of the gaps behind them, the part in which the host does nothing else


class HostCosts(msgspec.Struct, frozen=True):
    """What recording cost the host, to be taken out: seconds for each call, before it, and for each operation recorded.

    ``first``: whether the first copy or launch takes what the others do.
    """

    call_s: float = 0.0
    operation_s: float = 0.0
    first: bool = False
    between_s: float = 0.0

    def scaled(self, factor: float) -> HostCosts:
        """So many times as much of each."""
        return HostCosts(self.call_s * factor, self.operation_s * factor, self.first, self.between_s * factor)


def costs_of(recording: Recording, device: Device) -> HostCosts:
    """What each record cost.

    Where the program asks for what takes no time, such as which card is the current one: what that took, and what
    passed until the next call where the host did nothing else. Else what launches took longer, at the median, than
    those of ``device``; nothing where its host was not measured.
    """
    return by_queries(recording) or per_call(_excess_s(recording, device))


def per_call(call_s: float) -> HostCosts:
    """Of recorders that take so long for each call, and for each operation a part of that."""
    return HostCosts(call_s, call_s * OPERATION, first=True)


def by_queries(recording: Recording) -> HostCosts | None:
    """What each record cost by calls that do nothing; None where there are too few of them."""
    calls = recording.calls
    names = [k for k, name in enumerate(recording.names) if plain(name) in QUERIES]
    asked = np.flatnonzero(np.isin(calls.name, names) & (calls.kind == CallKind.OTHER))
    if len(asked) < ENOUGH:
        return None
    took_ns = float(np.median((calls.end_ns - calls.start_ns)[asked]))
    before = asked[asked < len(calls) - 1]
    behind = before[calls.thread[before] == calls.thread[before + 1]]
    gaps_ns = (calls.start_ns[behind + 1] - calls.end_ns[behind]).clip(0)
    between_ns = float(np.quantile(gaps_ns, SHORT)) if len(gaps_ns) else 0.0
    return HostCosts(took_ns * 1e-9, 0.0, first=True, between_s=between_ns * 1e-9)


def _excess_s(recording: Recording, device: Device) -> float:
    """How much longer launches took than the profile's, at the median; 0 where its host was not measured."""
    calls = recording.calls
    took_ns = (calls.end_ns - calls.start_ns)[calls.kind == CallKind.LAUNCH]
    if not len(took_ns) or device.source("host.kernel_s")[0] != "measured":
        return 0.0
    return max(0.0, float(np.median(took_ns)) * 1e-9 - device.host.kernel_s)
