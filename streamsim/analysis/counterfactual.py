"""The same work without a cause of lost time, whether that can be done or not: what the cause is worth.

A counterfactual is again a schedule and a device, so that the model says what it takes. What can be done to a program
is made by :mod:`streamsim.transform`.
"""

from collections.abc import Collection

from msgspec.structs import replace

from streamsim.checks import LARGEST_BYTES, SHORTEST_KERNEL_S
from streamsim.device import MOST_CONNECTIONS, Device, with_values, without
from streamsim.program import Copy, HostWork, Kernel, Op, Region, Schedule, WaitThread
from streamsim.transform import NON_BLOCKING, Scenario, last_work, working_streams

ALL_AT_ONCE = 1024  # kernels
SLIVER = 1e-6  # of the card: kernels of this width never wait for room


# Without a cause that lies in the device


def has_few_connections(scenario: Scenario) -> bool:
    """Return True if streams must share a hardware queue in front of some engine."""
    least = min(scenario.device.connections, scenario.device.copy_engines.connections)
    return len({stream or 1 for stream in working_streams(scenario.schedule)}) > least  # the legacy one uses stream 1's


def all_connections(device: Device) -> Device:
    """Return the device with as many hardware queues as CUDA gives at most."""
    return device.with_connections(MOST_CONNECTIONS)


def without_duplex_loss(device: Device) -> Device:
    """Return the device on which neither direction of the link slows the other one down."""
    return without(device, "duplex")


def without_host_costs(scenario: Scenario) -> Scenario:
    """Return the scenario in which the host's calls take no time."""
    ops = [replace(op, call_s=0.0) if _is_dear(op) else op for op in scenario.schedule.ops]
    return Scenario(replace(scenario.schedule, ops=tuple(ops)), without(scenario.device, "host"))


def _is_dear(op: Op) -> bool:
    """Return True if an op says that its call takes time."""
    return not isinstance(op, HostWork | WaitThread) and bool(op.call_s)


def has_host_work(scenario: Scenario) -> bool:
    """Return True if the host does something between its calls before the last copy or kernel is issued."""
    ops = scenario.schedule.ops[: max(0, last_work(scenario.schedule))]
    return any(isinstance(op, HostWork) and op.duration_s for op in ops)


def without_host_work(schedule: Schedule) -> Schedule:
    """Return the schedule in which the host does nothing except its calls."""
    return replace(schedule, ops=tuple(op for op in schedule.ops if not isinstance(op, HostWork)))


def without_once(schedule: Schedule, once: Collection[Copy]) -> Schedule:
    """Return the schedule with the copies ``once`` in a stream of their own and in nobody's way.

    Those to the card come last and those from it first: none waits for another op, and none for it.
    """
    which = {(op.direction, op.device) for op in once}
    moved = {i: op for i, op in enumerate(schedule.ops) if isinstance(op, Copy) and (op.direction, op.device) in which}
    own = len(schedule.streams) + 1
    apart = [replace(op, stream=own, blocking=False) for op in moved.values()]
    last = last_work(schedule) + 1
    ops = (
        *(op for op in apart if op.direction == "d2h"),
        *(op for i, op in enumerate(schedule.ops[:last]) if i not in moved),
        *(op for op in apart if op.direction == "h2d"),
        *schedule.ops[last:],
    )
    return replace(schedule, ops=ops, streams=(*schedule.streams, *NON_BLOCKING))


def without_latencies(scenario: Scenario) -> Scenario:
    """Return the scenario in which copies take their bytes' time and kernels their elements', and hand-overs none.

    Nor what a crowd costs a copy's first bytes, which it pays before any of them flows.
    """
    schedule, device = scenario
    ops = [_bare(op, device) if isinstance(op, Kernel) and op.duration_s is None else op for op in schedule.ops]
    return Scenario(replace(schedule, ops=tuple(ops)), without(device, "crowd", "copy-latency", "launch", "hand-over"))


def _bare(kernel: Kernel, device: Device) -> Kernel:
    alone_s, share, *_ = device.occupancy(kernel)
    return replace(kernel, duration_s=alone_s * share, fill=1.0, share=1.0, threads=0, parts=())


def with_enough_blocks(schedule: Schedule) -> Schedule:
    """Return the schedule whose kernels all fill the card, and end so much earlier."""

    def filled(op: Op) -> Op:
        if not isinstance(op, Kernel) or op.fill is None or op.duration_s is None:
            return op
        return replace(op, fill=1.0, threads=0, duration_s=max(SHORTEST_KERNEL_S, op.duration_s * op.fill))

    return replace(schedule, ops=tuple(map(filled, schedule.ops)))


# Other amounts of work


def scaled(schedule: Schedule, device: Device, factors: dict[str, float]) -> Schedule:
    """Return the schedule with the lengths of copies ("h2d", "d2h") and kernels ("kernel") times a factor."""
    ops: list[Op] = []
    for op in schedule.ops:
        if isinstance(op, Copy):
            ops.append(_resized(op, factors[op.direction]))
        elif isinstance(op, Kernel):
            alone_s, share, *_ = device.occupancy(op)
            ops.append(_timed(op, alone_s * factors["kernel"], max(share, SLIVER)))
        else:
            ops.append(op)
    roomy = tuple(replace(buffer, bytes=LARGEST_BYTES) for buffer in schedule.buffers)
    return replace(schedule, ops=tuple(ops), buffers=roomy)


def _timed(kernel: Kernel, alone_s: float, fill: float) -> Kernel:
    """The kernel with this time, however many elements it has."""
    return replace(kernel, duration_s=alone_s, fill=fill, elements=0, share=1.0, threads=0, parts=())


def _resized(copy: Copy, factor: float) -> Copy:
    n_bytes = max(1, round(copy.bytes * factor))
    host = copy.host and Region(copy.host.buffer, 0, n_bytes)
    return replace(copy, bytes=n_bytes, host=host, device=None)


def without_width(scenario: Scenario) -> Scenario:
    """Return the scenario in which all kernels run side by side, each for the time that it takes alone."""
    schedule, device = scenario
    ops = [_timed(op, device.occupancy(op).alone_s, SLIVER) if isinstance(op, Kernel) else op for op in schedule.ops]
    return Scenario(replace(schedule, ops=tuple(ops)), with_values(device, {"compute.concurrent_kernels": ALL_AT_ONCE}))
