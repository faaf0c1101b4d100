"""The kernels of tuned programs: the number of rounds of their stand-in, or the time that the user's own take.

The stand-in computes in rounds, and only the card shows how long a round takes. So before the first candidate, the
number of rounds is found that takes the time that the workload gives its kernels. The model predicts with the measured
time of these rounds, or of the user's own kernels.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.device import Device
from streamsim.program import Workload, WorkloadKernel

FEW, MANY, MOST = 1, 64, 1_000_000  # rounds of the stand-in
TRIES = 8
NEAR = 0.02
FLAT, STEEPER = 0.2, 16  # if the time rises by less than this share, STEEPER times as many rounds are tried next


class Kernels(NamedTuple):
    """Seconds of all kernels over all the work, said and measured. ``work``: rounds of the stand-in; 0: no stand-in."""

    work: int
    said_s: float
    measured_s: float


def timed(
    workload: Workload, device: Device, has_own: bool, time_of: Callable[[int], float]
) -> tuple[Kernels, Workload]:
    """Return the time of the workload's kernels in its programs, and the workload whose kernels take it.

    ``has_own``: the kernels are the user's. ``time_of``: measures all kernels with so many rounds of the stand-in.
    """
    said = said_s(workload, device)
    work, measured_s = (0, time_of(FEW)) if has_own else rounds_for(sum(said), time_of)
    found = Kernels(work, sum(said), measured_s)
    ratio = found.measured_s / found.said_s
    kernels = (_taking(kernel, one, ratio) for kernel, one in zip(workload.kernels, said, strict=True))
    return found, replace(workload, kernels=tuple(kernels))


def said_s(workload: Workload, device: Device) -> list[float]:
    """Return the seconds of each kernel over all the work. Raises InputError for an unknown kernel."""
    (whole,) = workload.cut(1)
    alone = (replace(workload, kernels=(kernel,)) for kernel in workload.kernels)
    return [sum(device.occupancy(launch).alone_s for launch in one.launches(whole)) for one in alone]


def _taking(kernel: WorkloadKernel, said: float, ratio: float) -> WorkloadKernel:
    """Return the kernel with ``ratio`` times the time ``said``."""
    if kernel.is_timed:
        return kernel.scaled(ratio)
    return WorkloadKernel(kernel.name, said * ratio, fill=kernel.fill, launches=kernel.launches)


def rounds_for(wanted_s: float, time_of: Callable[[int], float]) -> tuple[int, float]:
    """Return how many rounds take nearest to ``wanted_s``, and their seconds. ``time_of`` measures some rounds.

    The time grows with the rounds once it exceeds the time of the memory. So times above ``wanted_s`` show the growth.
    """
    known = {FEW: time_of(FEW)}
    while known[FEW] < wanted_s * (1 - NEAR) and len(known) < TRIES:
        work = round(min(max(_guess(known, wanted_s), FEW), MOST))
        if work in known:
            break
        known[work] = time_of(work)
        if abs(known[work] / wanted_s - 1) <= NEAR:
            break
    found = min(known, key=lambda work: abs(known[work] - wanted_s))
    return found, known[found]


def _guess(known: dict[int, float], wanted_s: float) -> float:
    """Return the rounds to try next, by a line.

    The line goes through two known times above ``wanted_s``, else from 0 to the only one above, else through the two
    longest.
    """
    longer = sorted(work for work, seconds in known.items() if seconds > wanted_s)[:2]
    if len(longer) == 1:
        return longer[0] * wanted_s / known[longer[0]]
    if len(known) == 1:
        return MANY
    below, above = longer or sorted(known)[-2:]
    rise_s = known[above] - known[below]
    if not longer and rise_s < FLAT * known[above]:
        return STEEPER * above
    return below + (wanted_s - known[below]) * (above - below) / rise_s if rise_s > 0 else FEW
