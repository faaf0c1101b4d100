"""Laws of the model, on random schedules and random devices. tests/INVARIANTS.md states each in a sentence."""

import os
import re
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import oracle
import oracle_queues
import strategies as card
from effort import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from laws import DRAINING, makespan, works
from oracle_card import tick_by_tick

from streamsim.device import Device, LinkDirection
from streamsim.model import simulate
from streamsim.program import Copy, HostWork, Kernel, Op, RecordEvent, Schedule, WaitEvent, WaitThread
from streamsim.timeline import Timeline

TESTS = Path(__file__).parents[1]


COLUMNS = ("issued", "returned", "ready", "start", "end")


def columns(timeline: Timeline) -> dict[str, list[int]]:
    """The whole result as plain lists."""
    return {name: list(getattr(timeline, name)) for name in ("engine", *COLUMNS)}


def most_ticks(need: oracle.Need) -> int:
    """An upper bound on the ticks of an op that is alone on its engine: copies at their shared rate."""
    return need.ticks + need.crowded_duplex_latency + (-(-need.bytes // need.shared) if need.shared else 0)


def least_ticks(need: oracle.Need) -> int:
    """The ticks of an op that has the card and the link to itself."""
    return need.ticks + need.latency + (-(-need.bytes // need.alone) if need.alone else 0)


# -- the model against independent oracles ----------------------------------------------------------------------------


@examples(600)
@given(card.CASES)
def test_equals_the_tick_by_tick_oracle(case: tuple[Schedule, Device]) -> None:
    """Every column of the time line, tick for tick."""
    found, expected = simulate(*case), tick_by_tick(*case)
    assert {name: list(getattr(found, name)) for name in COLUMNS} == vars(expected)


def recurrence(schedule: Schedule, device: Device) -> tuple[list[int], list[int]]:
    """Start = max(engine free, stream free, events waited for), op by op: one queue per engine in issue order."""
    free: dict[str, int] = {}
    stream: dict[int, int] = {}
    event: dict[int, int] = {}
    start, end = [-1] * len(schedule.ops), [-1] * len(schedule.ops)
    for i, op in enumerate(schedule.ops):
        if isinstance(op, RecordEvent):
            event[op.event] = stream.get(op.stream, 0)
        elif isinstance(op, WaitEvent):
            stream[op.stream] = max(stream.get(op.stream, 0), event.get(op.event, 0))
        elif isinstance(op, Copy | Kernel):
            engine = oracle.engine_name(op, device)
            ticks = op.bytes if isinstance(op, Copy) else oracle.in_ticks(op.duration_s or 0)
            start[i] = max(free.get(engine, 0), stream.get(op.stream, 0))
            end[i] = stream[op.stream] = free[engine] = start[i] + ticks
    return start, end


@st.composite
def asynchronous(draw: st.DrawFn) -> Schedule:
    """Copies, kernels and events of arbitrary lengths over non-blocking streams; nothing holds the host."""
    stream, event = st.integers(1, 5), st.integers(0, 3)
    ticks = st.one_of(st.integers(1, 4), st.integers(1, 10**6))
    op = st.one_of(
        st.builds(card.h2d, stream, ticks),
        st.builds(card.d2h, stream, ticks),
        st.builds(card.kernel, stream, ticks),
        st.builds(RecordEvent, event, stream),
        st.builds(WaitEvent, event, stream),
    )
    return card.plan(*draw(st.lists(op, min_size=1, max_size=60)), streams=5)


@given(asynchronous(), st.sampled_from((0, 1, 2)))
def test_single_queues_in_issue_order_follow_the_recurrence(schedule: Schedule, copy_engines: int) -> None:
    device = card.make_device(copy_engines=copy_engines, connections=1)
    timeline = simulate(schedule, device)
    start, end = recurrence(schedule, device)
    for i in works(schedule):
        assert (timeline.start[i], timeline.end[i]) == (start[i], end[i])


# -- everything runs, and within capacity ------------------------------------------------------------------------------


@given(card.schedules(), card.devices())
def test_every_op_runs_exactly_once(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    assert len(timeline) == len(schedule.ops) == len(list(timeline))
    for i, op in enumerate(schedule.ops):
        assert 0 <= timeline.issued[i] <= timeline.returned[i]
        if oracle.is_work(op):
            assert timeline.engine_names[timeline.engine[i]] == oracle.engine_name(op, device)
            assert timeline.issued[i] <= timeline.ready[i] <= timeline.start[i] < timeline.end[i]
        else:
            assert timeline.engine[i] == -1
            assert timeline.ready[i] == timeline.start[i] == timeline.end[i] >= timeline.returned[i]


@examples(200)
@given(card.CASES)
def test_no_engine_exceeds_its_capacity(case: tuple[Schedule, Device]) -> None:
    """Ops whose work is not done, and the work of all."""
    schedule, device = case
    timeline = simulate(schedule, device)
    for k, name in enumerate(timeline.engine_names):
        mine = [i for i in works(schedule) if timeline.engine[i] == k]
        most = device.compute.concurrent_kernels if name == "compute" else 1
        needs = {i: oracle.need_of(schedule, device, i) for i in mine}
        leaves = {i: timeline.end[i] - need.drain for i, need in needs.items()}  # when its work is done
        for i in mine:
            beside = [j for j in mine if timeline.start[j] <= timeline.start[i] < leaves[j]]
            assert len(beside) <= most
        # The card cannot do more work than it is busy for; a kernel's work may take up to one tick more than it has.
        area = sum(need.works * need.share for need in needs.values())
        assert area <= len({t for i in mine for t in range(timeline.start[i], leaves[i])})


@given(card.schedules(), card.devices())
def test_no_op_is_faster_than_alone(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    for i in works(schedule):
        need = oracle.need_of(schedule, device, i)
        assert timeline.end[i] - timeline.start[i] >= least_ticks(need)


def delay(timeline: Timeline, device: Device, copy: int, needs: dict[int, oracle.Need]) -> int:
    """Ticks from a copy's start until its bytes flow, read off the final time line."""
    start = timeline.start
    beside = any(
        start[j] < start[copy] < timeline.end[j]
        or (start[j] == start[copy] and timeline.engine[j] < timeline.engine[copy])
        for j in needs
        if timeline.engine[j] != timeline.engine[copy]
    )
    need, submit = needs[copy], oracle.in_ticks(device.host.submit_s)
    quiet, crowded = (
        (need.duplex_latency, need.crowded_duplex_latency) if beside else (need.latency, need.crowded_latency)
    )
    arrived = [returned + submit for returned in timeline.returned]
    order = oracle.cuda_order(timeline.schedule, device)
    crowd = oracle_queues.crowd_of(timeline.schedule, device, order, arrived, timeline, start[copy])
    return int(quiet + crowd * (crowded - quiet) + Fraction(1, 2))


def rate_over(timeline: Timeline, copy: int, needs: dict[int, oracle.Need], flows: dict[int, int]) -> list[Fraction]:
    """Bytes that a copy moves in each tick of its span; ``flows``: the tick from which each copy's bytes flow."""
    rates = []
    for tick in range(flows[copy], timeline.end[copy]):
        others = (j for j in needs if j != copy and flows[j] <= tick < timeline.end[j])
        rates.append(needs[copy].shared if any(True for _ in others) else needs[copy].alone)
    return rates


@given(card.schedules(), card.devices(copy_engines=2))
def test_bytes_are_conserved_under_sharing(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    needs = {i: oracle.need_of(schedule, device, i) for i in works(schedule) if isinstance(schedule.ops[i], Copy)}
    flows = {i: timeline.start[i] + delay(timeline, device, i, needs) for i in needs}
    for i, need in needs.items():
        rates = rate_over(timeline, i, needs, flows)
        assert sum(rates[:-1]) < need.bytes <= sum(rates)  # all of them moved, in the last tick and not before


# -- determinism ------------------------------------------------------------------------------------------------------


@given(card.schedules(), card.devices())
def test_the_same_schedule_gives_the_same_time_line(schedule: Schedule, device: Device) -> None:
    assert columns(simulate(schedule, device)) == columns(simulate(schedule, device))


HASHED = """
import sys
from msgspec.json import decode, encode
from streamsim import Device, Schedule, simulate
cases = decode(sys.stdin.buffer.read(), type=list[tuple[Schedule, Device]])
lines = [simulate(*case) for case in cases]
sys.stdout.buffer.write(encode([[list(getattr(line, name)) for name in sys.argv[1:]] for line in lines]))
"""


def test_the_time_line_does_not_depend_on_the_hash_seed() -> None:
    cases: list[tuple[Schedule, Device]] = []

    @settings(deadline=None, max_examples=40, database=None, derandomize=True)
    @given(card.CASES)
    def collect(case: tuple[Schedule, Device]) -> None:
        cases.append(case)

    collect()
    lines = [simulate(*case) for case in cases]
    expected = msgspec.json.encode([[list(getattr(line, name)) for name in COLUMNS] for line in lines])
    call, given_cases = [sys.executable, "-c", HASHED, *COLUMNS], msgspec.json.encode(cases)
    for seed in ("0", "4242"):
        hashed = os.environ | {"PYTHONHASHSEED": seed}
        assert subprocess.run(call, input=given_cases, capture_output=True, check=True, env=hashed).stdout == expected


# -- bounds -----------------------------------------------------------------------------------------------------------


def longest_chain(schedule: Schedule, device: Device) -> int:
    """Of ops alone on their engines with hand-overs between them, by CUDA's order and the host's waits."""
    order = oracle.cuda_order(schedule, device)
    end: dict[int, int] = {}
    host = 0
    for i, op in enumerate(schedule.ops):
        if oracle.is_work(op):
            waits = (end[j] + oracle.hand_over_ticks(schedule, device, j, i) for j in order.works[i])
            end[i] = max([host, *waits]) + least_ticks(oracle.need_of(schedule, device, i))
        host = max([host, *(end[j] for j in order.awaited[i])])
    return max(end.values(), default=0)


@given(card.schedules(), card.devices())
@example(DRAINING, card.make_device(resident_threads=16, kernels=(card.COST,)))
def test_the_makespan_lies_between_the_bounds(schedule: Schedule, device: Device) -> None:
    timeline = simulate(schedule, device)
    needs = {i: oracle.need_of(schedule, device, i) for i in works(schedule)}
    busiest = max(timeline.busy_s.values()) if needs else 0.0
    assert round(busiest * 1e9) <= makespan(timeline)
    assert longest_chain(schedule, device) <= makespan(timeline)
    for name in timeline.engine_names:  # the same without trusting the time line's own sums
        if name != "compute" or device.compute.concurrent_kernels == 1:
            mine = [need for i, need in needs.items() if oracle.engine_name(schedule.ops[i], device) == name]
            drain = min((need.drain for need in mine), default=0)  # of the last to work
            assert sum(least_ticks(need) - need.drain for need in mine) + drain <= makespan(timeline)
    gaps = [oracle.in_ticks(getattr(device.hand_over, f)) for f in card.HAND_OVERS if not f.startswith("event")]
    host = device.host
    there_and_back = oracle.in_ticks(host.submit_s) + oracle.in_ticks(host.wake_s)
    overhead = max(gaps) + oracle.event_ticks(schedule, device) + there_and_back
    calls = sum(oracle.calls(schedule, device)) + oracle.launch_ticks(schedule, device)
    assert makespan(timeline) <= calls + sum(map(most_ticks, needs.values())) + overhead * len(needs)


@given(card.schedules(streams=1, launch="graph"), card.plain_devices())
def test_one_stream_equals_the_serial_sum_plus_hand_overs(schedule: Schedule, device: Device) -> None:
    """Nothing is ever shared and nothing overlaps, whatever the engines and rules. A graph: no call holds the host."""
    mine = works(schedule)
    expected = sum(least_ticks(oracle.need_of(schedule, device, i)) for i in mine)
    expected += sum(oracle.hand_over_ticks(schedule, device, a, b) for a, b in pairwise(mine))
    assert makespan(simulate(schedule, device)) == expected


# -- scale ------------------------------------------------------------------------------------------------------------


def scaled(device: Device, c: int) -> Device:
    """Every latency c times as long; bandwidths as they are (the bytes are scaled instead)."""

    def part(value: msgspec.Struct) -> msgspec.Struct:
        times = {f: getattr(value, f) * c for f in value.__struct_fields__ if f.endswith("_s") and "_per_" not in f}
        return msgspec.structs.replace(value, **times)

    table = tuple(
        msgspec.structs.replace(k, duration_s=tuple(s * c for s in k.duration_s)) for k in device.compute.kernels
    )
    parts = {
        name: part(getattr(device, name)) for name in ("h2d", "d2h", "copy_engines", "compute", "hand_over", "host")
    }
    parts["compute"] = msgspec.structs.replace(parts["compute"], kernels=table)
    return msgspec.structs.replace(device, **parts)


def stretched(schedule: Schedule, c: int) -> Schedule:
    """Every time c times as long and every copy c times as large; no regions, which would grow too."""
    ops: list[Op] = []
    for op in schedule.ops:
        longer: dict[str, Any] = {}
        if isinstance(op, Copy):
            longer |= {"bytes": op.bytes * c, "host": None, "device": None}
        elif isinstance(op, Kernel | HostWork) and op.duration_s is not None:
            longer["duration_s"] = oracle.in_ticks(op.duration_s) * c * card.NS
        if not isinstance(op, HostWork | WaitThread) and op.call_s is not None:
            longer["call_s"] = oracle.in_ticks(op.call_s) * c * card.NS
        ops.append(msgspec.structs.replace(op, **longer))
    return msgspec.structs.replace(schedule, ops=tuple(ops))


@given(card.schedules(), card.devices(concurrent_kernels=1), st.sampled_from((2, 3, 7, 1000)))
def test_scaling_all_times_scales_every_time(schedule: Schedule, device: Device, c: int) -> None:
    """Exact where no tick is rounded: rates of 1 and 1/2 byte per tick halve what is left at most once a copy.

    With 2**copies ticks to the tick, every time on the coarse clock is a whole number of ticks on the fine one. (A
    kernel that loses all of its time still works for one tick, on either; and parts of launches are rounded.)
    """
    kernels = [op for op in schedule.ops if isinstance(op, Kernel)]
    needs = [oracle.need_of(schedule, device, i) for i, op in enumerate(schedule.ops) if isinstance(op, Kernel)]
    assume(all(need.drain < need.ticks - 1 for need in needs if need.drain))
    floor = oracle.in_ticks(device.compute.floor_s)
    assume(all(op.share == 1 and oracle.in_ticks(op.duration_s) > floor + 1 for op in kernels if op.duration_s))
    device = msgspec.structs.replace(device, h2d=halving(device.h2d), d2h=halving(device.d2h))
    copies = sum(isinstance(op, Copy) for op in schedule.ops)
    fine = 2**copies
    base = columns(simulate(stretched(schedule, fine), scaled(device, fine)))
    times = columns(simulate(stretched(schedule, fine * c), scaled(device, fine * c)))
    for name in COLUMNS:
        assert times[name] == [t * c for t in base[name]]


def halving(direction: LinkDirection) -> LinkDirection:
    """The same latencies; half the rate while the other direction is busy."""
    return msgspec.structs.replace(
        direction,
        bandwidth_bytes_per_s=card.BYTE_PER_TICK,
        duplex_bandwidth_bytes_per_s=card.BYTE_PER_TICK / 2,
        crowded_bandwidth_bytes_per_s=card.BYTE_PER_TICK,
        pageable_bandwidth_bytes_per_s=card.BYTE_PER_TICK,
    )


# -- graphs -----------------------------------------------------------------------------------------------------------


@examples(100)
@given(card.schedules(launch="graph"), card.devices())
def test_a_launch_takes_its_copies_and_nothing_for_the_rest(schedule: Schedule, device: Device) -> None:
    """Kernels and events go with the copies."""
    node = oracle.in_ticks(device.host.graph_node_s)
    timeline = simulate(schedule, device)
    for op, issued, returned in zip(schedule.ops, timeline.issued, timeline.returned, strict=True):
        assert returned - issued == node * isinstance(op, Copy) or not oracle.is_in_stream(op)


# -- the list of laws -------------------------------------------------------------------------------------------------


def test_every_law_is_listed_among_the_invariants() -> None:
    listed = (TESTS / "INVARIANTS.md").read_text()
    paths = Path(__file__).parent.glob("test_laws*.py")
    files = [path.read_text() for path in paths if f"`{path.name}`" not in listed]
    laws = [law for text in files for law in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)]
    missing = [law for law in laws if law not in listed and not law.startswith("test_every_")]
    assert not missing
