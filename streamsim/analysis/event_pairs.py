"""What a kernel takes whose time was measured between two CUDA events.

The events are recorded in the kernel's stream, before it and behind it. The first one is on the card before the kernel
is: the host still makes the call that launches it. So the events show more than the kernel takes, by 4 to 6 us on the
cards that were measured: a kernel of 3 us shows 8. How much more is no number of its own in a profile. The model says
what the events show, from the calls and hand-overs that the profile has.
"""

from pathlib import Path

from msgspec.structs import replace

from streamsim.checks import SHORTEST_KERNEL_S
from streamsim.device import Device, as_device
from streamsim.errors import InputError
from streamsim.model import simulate  # heavy, and most workloads have no such kernel
from streamsim.program import Kernel, Op, Point, RecordEvent, Schedule, Synchronize, Workload, WorkloadKernel
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_seconds

MOST_SIMULATED = 2_000  # launches: of more of them a pair of events shows the same beyond their own time


def timed_alone(workload: Workload, device: Device | str | Path) -> Workload:
    """The workload with its kernels' own times, where these were taken with events on such a card and host.

    Raises InputError where the events would show a time that is no shorter, however little the kernel takes.
    """
    device = as_device(device)
    kernels = (_alone(kernel, device) if kernel.timed == "events" else kernel for kernel in workload.kernels)
    return replace(workload, kernels=tuple(kernels))


def shown_s(kernel: WorkloadKernel, took_s: float, launches: int, device: Device) -> float:
    """Seconds that two events show around so many launches of a kernel that take ``took_s`` together."""
    launch = Kernel(1, kernel.name, duration_s=took_s / launches)

    timed: list[Op] = [RecordEvent(0, 1), *[launch] * launches, RecordEvent(1, 1), Synchronize()]
    schedule = Schedule((launch, Synchronize(), *timed), ("non-blocking",), events=2)  # the first launch warms up
    timeline = simulate(schedule, device)
    return (timeline.end[-2] - timeline.end[2]) / TICKS_PER_S


def _alone(kernel: WorkloadKernel, device: Device) -> WorkloadKernel:
    def own_s(seconds: float) -> float:
        return _own_s(kernel, seconds, device)

    return replace(
        kernel,
        timed="alone",
        duration_s=None if kernel.duration_s is None else own_s(kernel.duration_s),
        points=tuple(Point(point.at, own_s(point.duration_s)) for point in kernel.points),
    )


def _own_s(kernel: WorkloadKernel, seconds: float, device: Device) -> float:
    """What all launches take of so many seconds between events."""
    launches = min(kernel.launches, MOST_SIMULATED)
    shown = seconds * launches / kernel.launches
    found_s = shown - (shown_s(kernel, shown, launches, device) - shown)
    least_s = max(SHORTEST_KERNEL_S, device.compute.floor_s) * launches
    if found_s < least_s or abs(shown_s(kernel, found_s, launches, device) - shown) > launches / TICKS_PER_S:
        least = format_seconds(shown_s(kernel, least_s, launches, device) * kernel.launches / launches)
        what = "it" if kernel.launches == 1 else f"its {kernel.launches} launches"
        raise InputError(
            f"kernel {kernel.name!r}: {format_seconds(seconds)} with timed=events: on {device.name} two events around"
            f" {what} show {least} at least, so they do not tell its time; give its own time without timed=events, as a"
            " profiler shows it"
        )
    return found_s + (seconds - shown)
