"""Laws of the order in which ops run: CUDA's, that of hardware queues, the host's, and that of the critical path."""

import oracle
import oracle_queues
import strategies as card
from hypothesis import assume, example, given
from laws import DRAINING, makespan, works
from msgspec.structs import replace

from streamsim.device import Device
from streamsim.lowering import lower
from streamsim.model import simulate
from streamsim.program import Kernel, RecordEvent, Schedule, WaitThread
from streamsim.timeline import Timeline, critical_path

# -- order ------------------------------------------------------------------------------------------------------------


@given(card.schedules(), card.devices())
def test_streams_events_and_the_legacy_stream_keep_cudas_order(schedule: Schedule, device: Device) -> None:
    """And what has come before the end of what it waits for, a hand-over behind that."""
    timeline = simulate(schedule, device)
    order = oracle.cuda_order(schedule, device)
    for i, op in enumerate(schedule.ops):
        for j in order.works[i]:
            waits = oracle.is_work(op) and came(timeline, device, i) < timeline.end[j]
            gap = oracle.hand_over_ticks(schedule, device, j, i) if waits else 0
            assert timeline.end[j] + gap <= timeline.start[i]


def came(timeline: Timeline, device: Device, op: int) -> int:
    """The tick at which the card had an op: ``submit`` after its call, which may have held the host for longer."""
    call = oracle.calls(timeline.schedule, device)[op]
    return timeline.issued[op] + call + oracle.in_ticks(device.host.submit_s)


@given(card.schedules(), card.devices())
def test_hardware_queues_dispatch_in_issue_order(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    queues: dict[tuple[int, int], list[int]] = {}
    for i, queue in oracle_queues.queues_of(schedule, device).items():
        queues.setdefault((timeline.engine[i], queue), []).append(i)
    for ops in queues.values():
        starts = [timeline.start[i] for i in ops]
        assert starts == sorted(starts)


def come_through(schedule: Schedule, device: Device) -> list[tuple[int, list[tuple[int, int]]]]:
    """Of each engine its number of queues, and as issued the stream (the legacy one is the first) and queue of each op.

    Read off the compiled program.
    """
    lowered = lower(schedule, device)
    queue = lowered.queue
    engines: dict[str, list[tuple[int, int]]] = {}
    for i in (i for i in works(schedule) if i not in lowered.runs_on):
        op = schedule.ops[i]
        engines.setdefault(oracle.engine_name(op, device), []).append((getattr(op, "stream", 0) or 1, queue[i]))
    most = {"compute": device.connections}
    return [(most.get(engine, device.copy_engines.connections), ops) for engine, ops in engines.items()]


@given(card.schedules(most=40, streams=8), card.devices())
def test_no_streams_share_a_queue_while_there_are_enough(schedule: Schedule, device: Device) -> None:
    """On each engine, up to the first op of one stream more than it has queues; and each stream has but one."""
    for queues, ops in come_through(schedule, device):
        for n in range(1, len(ops) + 1):
            pairs = set(ops[:n])
            streams, used = map(set, zip(*pairs, strict=True))
            assert len(streams) == len(used) == len(pairs) or len(streams) > queues


@given(card.schedules(most=40, streams=8), card.devices())
def test_a_stream_keeps_its_queue_until_it_is_the_one_used_least_recently(schedule: Schedule, device: Device) -> None:
    """And another stream, which has none, needs one when all have been used."""
    for queues, ops in come_through(schedule, device):
        latest: dict[int, int] = {}  # the last op of each queue, which is its owner's
        for i, (stream, queue) in enumerate(ops):
            owned = [its for its, k in latest.items() if ops[k][0] == stream]
            if owned:
                assert owned == [queue]
            elif queue in latest:
                assert len(latest) == queues
                assert latest[queue] == min(latest.values())
            latest[queue] = i


# Where kernels take no least time and leave no gap, the host and events cost nothing, and nothing is in the way of
# hand-overs nor crowds copies, only queues tell a graph from a live program.
GRAPHS = card.schedules(most=40, streams=8, launch="graph")
SLOWED = card.link(latency=2, shared=0.5, duplex_latency=3, crowded_latency=2, crowded_duplex_latency=3)
QUIET = {"floor": 0, "graph_gap": 0, "event": 0, "event_streams": 0, "h2d": SLOWED, "d2h": card.link(1)}


@given(GRAPHS, card.plain_devices(connections=8, copy_connections=8, **QUIET))
def test_with_a_queue_for_each_stream_a_graph_runs_as_a_live_program(graph: Schedule, device: Device) -> None:
    assert simulate(graph, device).start == simulate(replace(graph, launch="live"), device).start


@given(GRAPHS, card.plain_devices(**QUIET))
def test_a_graph_without_runs_of_kernels_runs_as_a_live_program(graph: Schedule, device: Device) -> None:
    """An event that nobody waits for is recorded behind each kernel."""
    events = {i: RecordEvent(graph.events, op.stream) for i, op in enumerate(graph.ops) if isinstance(op, Kernel)}
    ops = (its for i, op in enumerate(graph.ops) for its in ((op, events[i]) if i in events else (op,)))
    graph = replace(graph, ops=tuple(ops), events=graph.events + 1)
    assert simulate(graph, device).start == simulate(replace(graph, launch="live"), device).start


@given(GRAPHS, card.plain_devices(copy_engines=2, concurrent_kernels=128))
def test_where_all_kernels_find_room_those_of_a_run_follow_each_other(graph: Schedule, device: Device) -> None:
    """However many streams share a queue."""
    slim = (replace(op, fill=1 / 128) if isinstance(op, Kernel) and op.duration_s else op for op in graph.ops)
    ops = tuple(op for op in slim if not isinstance(op, Kernel) or op.duration_s)
    assume(any(map(oracle.is_work, ops)))
    graph = replace(graph, ops=ops)
    timeline = simulate(graph, device)
    for i in works(graph):
        if oracle.is_behind_a_kernel(graph, i):
            (before,) = oracle.cuda_order(graph, device).works[i]
            assert timeline.start[i] == timeline.end[before] + oracle.hand_over_ticks(graph, device, before, i)


@given(card.schedules(), card.devices())
def test_the_host_calls_one_after_another_and_blocking_calls_hold_it(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    order = oracle.cuda_order(schedule, device)
    wake = oracle.in_ticks(device.host.wake_s)
    threads: dict[int, int] = {}  # when each has come so far
    for i, (op, call) in enumerate(zip(schedule.ops, oracle.calls(schedule, device), strict=True)):
        now = threads.get(op.thread, oracle.launch_ticks(schedule, device))
        assert timeline.issued[i] == now
        now = max([now + call, *(timeline.end[j] + wake for j in order.awaited[i])])
        if isinstance(op, WaitThread):
            now = max(now, threads.get(op.other, 0))
        assert timeline.returned[i] == now
        threads[op.thread] = now
    assert round(timeline.host_s * 1e9) == max(threads.values())


@given(card.schedules(), card.devices())
@example(DRAINING, card.make_device(resident_threads=16, kernels=(card.COST,)))
def test_no_engine_idles_while_a_head_of_its_queues_is_ready(schedule: Schedule, device: Device) -> None:
    """Holds because every arbitration rule is work conserving; an engine of one op at a time.

    A kernel whose work is done is no reason to wait.
    """
    timeline, queue = simulate(schedule, device), oracle_queues.queues_of(schedule, device)
    for k, name in enumerate(timeline.engine_names):
        mine = [i for i in works(schedule) if timeline.engine[i] == k]
        if name == "compute" and device.compute.concurrent_kernels > 1:
            continue
        for i in mine:
            ahead = [timeline.start[j] for j in mine if j < i and i in queue and queue.get(j) == queue[i]]
            could = max([timeline.ready[i], *ahead])
            drain = {j: oracle.need_of(schedule, device, j).drain for j in mine}
            running = [(timeline.start[j], timeline.end[j] - drain[j]) for j in mine if j != i]
            assert all(any(s <= t < e for s, e in running) for t in range(could, timeline.start[i]))


@given(card.schedules(most=40), card.devices())
def test_what_an_event_stands_for_is_at_most_one_op_a_stream(schedule: Schedule, device: Device) -> None:
    """Otherwise long chains of waits, or of records in the legacy stream, take quadratic time and memory."""
    program = lower(schedule, device)
    assert program is not None
    done = (*program.frontier.values(), *(segment.waits_for for segment in program.segments))
    assert all(len({schedule.ops[i].stream for i in ops}) == len(ops) for ops in done)


# The kernel of stream 2 could start at once, but stands behind one that waits for a copy: the path leads over that one.
BLOCKED_HEAD = card.plan(card.h2d(1, 10), card.kernel(1, 5, fill=0.5), card.kernel(2, 8, fill=0.5))
# As the first kernel leaves the card at 10, that of stream 2, which was ready, and the second of stream 1 start. It was
# behind the first in its queue, and not behind the second, which stands in none.
BEHIND_A_RUN = card.plan(card.kernel(1, 10), card.kernel(1, 5, fill=0.5), card.kernel(2, 8, fill=0.5), launch="graph")
# Stream 2's kernel has what is left of the card until 4 and then all of it, until 12. Then that of stream 3 starts, and
# the second of stream 1, which was ready at 4 and stands in no queue, so not behind it either.
BESIDE_A_HEAD = card.plan(
    card.kernel(1, 4, fill=0.5),
    card.kernel(2, 10),
    card.kernel(3, 5, fill=0.5),
    card.kernel(1, 8, fill=0.5),
    launch="graph",
)


# -- the critical path ------------------------------------------------------------------------------------------------


@given(card.schedules(), card.devices())
@example(BLOCKED_HEAD, card.make_device(connections=1, concurrent_kernels=4))
@example(DRAINING, card.make_device(resident_threads=16, kernels=(card.COST,)))
@example(DRAINING, card.make_device(resident_threads=16, kernels=(card.COST,), concurrent_kernels=2))
def test_the_critical_path_is_a_chain_from_the_beginning_to_the_makespan(schedule: Schedule, device: Device) -> None:
    check_critical_path(schedule, device)


@given(card.runs())
@example((BEHIND_A_RUN, card.make_device(connections=1, concurrent_kernels=4)))
@example((BESIDE_A_HEAD, card.make_device(connections=1, concurrent_kernels=4)))
def test_the_critical_path_of_runs_of_kernels_is_such_a_chain(case: tuple[Schedule, Device]) -> None:
    check_critical_path(*case)


def check_critical_path(schedule: Schedule, device: Device) -> None:
    """Each step's reason against ends, hand-overs, waits of the host, and queues."""
    timeline = simulate(schedule, device)
    path = critical_path(timeline)
    waits = oracle.dependences(schedule, device, oracle.cuda_order(schedule, device))
    submit = oracle.in_ticks(device.host.submit_s)
    queue, calls = oracle_queues.queues_of(schedule, device), oracle.calls(schedule, device)
    if not works(schedule):
        assert path == []
        return
    assert timeline.end[path[-1].op] == makespan(timeline)
    for a, b in zip((None, *path), path, strict=False):
        start = timeline.start[b.op]
        if a is None:  # nothing held the host on its way here
            assert b.because in ("start", "host")
            assert start == timeline.ready[b.op] == timeline.issued[b.op] + calls[b.op] + submit
            assert not held_by(timeline, device, b.op)
            continue
        if b.because == "engine":  # it was ready, and started when the one before it left (or, at its side, started)
            assert timeline.ready[b.op] < start
            assert timeline.engine[a.op] == timeline.engine[b.op]
            leaves = timeline.end[a.op] - oracle.need_of(schedule, device, a.op).drain
            ahead = a.op in queue and queue[a.op] == queue.get(b.op)
            assert start == leaves or (ahead and start == timeline.start[a.op])
            continue
        assert start == timeline.ready[b.op]
        if b.because in ("stream", "event"):
            waited = came(timeline, device, b.op) < timeline.end[a.op]
            assert timeline.end[a.op] + waits[b.op][a.op] * waited == start
            same = schedule.ops[a.op].stream == schedule.ops[b.op].stream
            assert b.because == ("stream" if same else "event")
        else:  # the host waited for the op before it, and then issued without a pause
            assert start == timeline.issued[b.op] + calls[b.op] + submit
            assert a.op in held_by(timeline, device, b.op)


def held_by(timeline: Timeline, device: Device, op: int) -> list[int]:
    """The ops whose end the last call waited for from which one call followed another without a pause up to ``op``."""
    schedule, wake = timeline.schedule, oracle.in_ticks(device.host.wake_s)
    order, calls = oracle.cuda_order(schedule, device), oracle.calls(schedule, device)
    while True:
        thread = schedule.ops[op].thread
        before = [i for i in range(op) if schedule.ops[i].thread == thread]
        if not before:
            return []
        op, last = before[-1], schedule.ops[before[-1]]
        returned = timeline.returned[op]
        found = [j for j in order.awaited[op] if timeline.end[j] + wake == returned]
        if found:
            return found
        if isinstance(last, WaitThread):
            others = [i for i in range(op) if schedule.ops[i].thread == last.other]
            if others and timeline.returned[others[-1]] == returned:
                op = others[-1]
                found = [j for j in order.awaited[op] if timeline.end[j] + wake == returned]
                if found:
                    return found
        assert returned >= timeline.issued[op] + calls[op]
