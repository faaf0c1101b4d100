"""What of the oracle is about hardware queues: which op stands in which, and what crowds the card."""

from fractions import Fraction

from oracle import Order, Times, engine_name, is_behind_a_kernel, latest_of_each_stream

from streamsim.device import Device
from streamsim.program import Copy, Kernel, Schedule
from streamsim.timeline import Timeline


def queues_of(schedule: Schedule, device: Device) -> dict[int, int]:
    """The hardware queue in which a copy or kernel stands, of its engine's; the legacy stream counts as stream 1.

    A stream stays in its queue until another one takes that. Without one it takes its own (the first stream's is the
    first, and so on, round and round) if that is nobody's yet, else the one whose latest op is the oldest. A kernel of
    a graph right behind another one of its stream stands in none.
    """
    found: dict[int, int] = {}
    owners: dict[str, list[int | None]] = {}
    latest: dict[str, list[int]] = {}  # the last op of each queue
    for i, op in enumerate(schedule.ops):
        if not isinstance(op, Copy | Kernel) or (schedule.launch == "graph" and is_behind_a_kernel(schedule, i)):
            continue
        engine, stream = engine_name(op, device), max(1, op.stream)
        n = device.connections if engine == "compute" else device.copy_engines.connections
        owner, last = owners.setdefault(engine, [None] * n), latest.setdefault(engine, [-1] * n)
        if stream in owner:
            queue = owner.index(stream)
        elif owner[(stream - 1) % n] is None:
            queue = (stream - 1) % n
        else:
            queue = last.index(min(last))
        owner[queue], last[queue], found[i] = stream, i, queue
    return found


def copies_before(schedule: Schedule, device: Device, order: Order) -> dict[int, list[int]]:
    """For every kernel that waits for copies on another engine: those copies, the latest of each stream."""
    found: dict[int, list[int]] = {}
    for i, op in enumerate(schedule.ops):
        latest = latest_of_each_stream(schedule, order.works[i]) if isinstance(op, Kernel) else ()
        copies = [j for j in latest if isinstance(schedule.ops[j], Copy)]
        if copies and device.copy_engines.count:
            found[i] = copies
    return found


def crowd_of(
    schedule: Schedule, device: Device, order: Order, arrived: list[int], times: Times | Timeline, now: int
) -> Fraction:
    """How crowded the card is at a tick, 0..1: not by kernels that wait in one hardware queue, fully by four."""
    kernels = copies_before(schedule, device, order)
    waiting = [
        i
        for i, copies in kernels.items()
        if 0 <= arrived[i] <= now and any(times.end[j] < 0 or times.end[j] > now for j in copies)
    ]
    queue = queues_of(schedule, device)
    most = len({queue[i] for i in kernels})
    return min(Fraction(1), max(Fraction(0), Fraction(min(len(waiting), most) - 1, 3)))
