"""A workload before it is predicted: its room on the card, and what its kernels take or are assumed to take.

A kernel's time may have been measured between two CUDA events, which are recorded in the kernel's stream, before it and
behind it. The first one is on the card before the kernel is: the host still makes the call that launches it. So the
events show more than the kernel takes, by 4 to 6 us on the cards that were measured: a kernel of 3 us shows 8. How much
more is no number of its own in a profile. The model says what the events show, from the calls and hand-overs that the
profile has.
"""

from itertools import product
from pathlib import Path

from msgspec.structs import replace

from streamsim.device import Device, as_device
from streamsim.errors import MOST_CHUNKS, SHORTEST_KERNEL_S, InputError, counted
from streamsim.model import simulate
from streamsim.program import (
    Config,
    Kernel,
    Launch,
    Op,
    Order,
    Point,
    RecordEvent,
    Schedule,
    Synchronize,
    Workload,
    WorkloadKernel,
    most_streams,
)
from streamsim.rules import TICKS_PER_S
from streamsim.text import format_bytes, format_seconds

MOST_SIMULATED = 2_000  # launches: of more of them a pair of events shows the same beyond their own time
DECIDES = 0.25  # of a kernel's time: what is less is not worth a line


# Its room on the card


def check_room(workload: Workload, config: Config, device: Device) -> None:
    """Raise NoRoomError, that says what would have room, for a workload cut and issued so that has none."""
    n_bytes = config.device_bytes(workload)
    if not device.has_room(n_bytes):
        device.check_room(n_bytes, remedy(workload, config, device.memory_bytes or 0))


def remedy(workload: Workload, config: Config, room_bytes: int) -> str:
    """Name the ring with the fewest chunks that fits into so many bytes: of two buffers, or else of one."""
    is_prefetch, most = config.order == "prefetch", min(workload.most_chunks, MOST_CHUNKS)
    order: Order = "prefetch" if is_prefetch else "depth-first"
    doubled = {min(config.chunks << i, most) for i in range(MOST_CHUNKS.bit_length())}
    for buffers, chunks in product((2, 1), sorted(doubled)):
        streams = 1 if is_prefetch else min(buffers, most_streams(workload, order))
        ring = replace(config, order=order, buffers=buffers, chunks=chunks, streams=streams).fitted()
        if (n_bytes := ring.device_bytes(workload)) <= room_bytes:
            over = f" over {ring.streams} streams" if ring.streams > 1 else ""
            return f"use buffers = {ring.buffers}, chunks = {chunks}, {order}{over}: that holds {format_bytes(n_bytes)}"
    return "no number of chunks makes it fit: allow more memory, cut what is copied once, or take a larger card"


# Times that were measured between two events


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
    points = tuple(Point(point.at, _own_s(kernel, point.duration_s, device)) for point in kernel.points)
    duration_s = None if kernel.duration_s is None else _own_s(kernel, kernel.duration_s, device)
    return replace(kernel, timed="alone", duration_s=duration_s, points=points)


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


# What is taken for granted of kernels


def kernel_assumptions(workload: Workload, chunks: int, device: Device, launch: Launch = "live") -> list[str]:
    """Return a line for each thing that the model takes for granted of a timed kernel in so many chunks.

    If a kernel has several launches, a line says whose they are. A time of the whole may lie beyond the times given.
    If the number of threads is not given, the launch may take a quarter more or less than the whole, and all chunks
    together than the whole and the least times of launches.
    """
    found = []
    for kernel in (kernel for kernel in workload.kernels if kernel.is_timed):
        alone, whole_s = replace(workload, kernels=(kernel,)), kernel.whole_s(workload.work)
        runs = ((part.many, alone.kernels_of(part)) for part in alone.cut(chunks))
        launches = [(one, chunks_alike * many) for chunks_alike, kernels in runs for one, many in kernels]
        floor_s = device.compute.floor_s if launch == "live" else 0.0
        taken_s = sum(many * device.occupancy(one, floor_s > 0).alone_s for one, many in launches)
        known_s = whole_s if chunks == 1 else max(whole_s, floor_s * sum(many for _, many in launches))
        said, taken = f"kernel {kernel.name!r}: {format_seconds(whole_s)} over everything", format_seconds(taken_s)
        if kernel.is_extrapolated(workload.work):
            found.append(f"{said}, on the line through the times given; say what the whole takes where you know it")
        if kernel.launches > 1 and chunks > 1:
            each = f"each of {chunks} chunks makes {kernel.launches_in(chunks):,} launches (per={kernel.per})"
            other = "belongs to an item, say per=item" if kernel.per == "chunk" else "is each chunk's, say per=chunk"
            found.append(f"{said}; {each}, {taken} in all; if each launch {other}")
        elif not kernel.threads and abs(taken_s - known_s) > DECIDES * known_s:
            known = "if you know better, say threads=N or a part's time, as 9us@1/64"
            threads = alone.threads(kernel)
            assumed = f", as it is taken to have {threads:,} threads" if threads else ""
            found.append(f"{said}; launched in {counted(chunks, 'chunk')}, it takes {taken} in all{assumed}; {known}")
    return found
