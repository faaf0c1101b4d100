"""The check for races against a brute-force second opinion, by hand, and on everything that streamsim builds.

The second opinion shares no code with the check: CUDA's rules as a graph of calls, starts and ends, and its transitive
closure.
"""

from collections.abc import Callable
from itertools import product

import executions
import msgspec
import pytest
import race_oracle
import strategies as card
from counted import growth
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from whole_workloads import built

from streamsim import program
from streamsim.races import Finding, check, repaired
from streamsim_validate.calibrate import all_probes
from streamsim_validate.suites import SUITES, suite


def clashes_of(finding: Finding) -> set[race_oracle.Clash]:
    return {(h.kind, h.buffer, h.offset, h.offset + h.bytes) for h in finding.hazards}


REGIONS = st.lists(
    st.builds(program.Region, st.just(card.ON_CARD.name), st.integers(0, 64), st.sampled_from((4, 8, 40))), max_size=2
).map(tuple)


@st.composite
def programs(draw: st.DrawFn, most: int = 14, streams: int = 4, threads: bool = False) -> program.Schedule:
    """Any schedule, its kernels reading and writing some of the bytes that its copies touch.

    ``threads``: of two or three threads of the host.
    """
    schedule = draw(card.schedules(most, streams, "live" if threads else None, one_thread=threads))
    ops = [
        msgspec.structs.replace(op, reads=draw(REGIONS), writes=draw(REGIONS)) if isinstance(op, program.Kernel) else op
        for op in schedule
    ]
    several = draw(card.hosted(ops, st.sampled_from((2, 2, 3)))) if threads else ops
    return msgspec.structs.replace(schedule, ops=tuple(several))


ANY = st.one_of(programs(), programs(24, 8), programs(threads=True), programs(24, 8, threads=True))
ANY_SMALL = st.one_of(programs(), programs(threads=True))
MANY = examples(400)


KINDS: tuple[program.StreamKind, ...] = ("non-blocking", "blocking")
FEW_REGIONS = st.builds(program.Region, st.just("d"), st.sampled_from((0, 8, 8)), st.sampled_from((8, 16)))
HOST_REGIONS = st.builds(program.Region, st.sampled_from("hppp"), st.sampled_from((0, 0, 8)), st.just(8))


@st.composite
def small_programs(draw: st.DrawFn) -> program.Schedule:
    """Up to eight ops of two or three threads that use little memory in few streams, so that races abound."""
    threads, kinds = draw(st.sampled_from((2, 2, 3))), draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    thread, stream, event = st.integers(0, threads - 1), st.integers(0, len(kinds)), st.integers(0, 1)
    more = {"thread": thread}
    region = st.one_of(st.none(), st.builds(program.Region, st.just("d"), st.sampled_from((0, 8)), st.just(8)))
    host = st.one_of(st.none(), HOST_REGIONS, HOST_REGIONS)
    copy = st.builds(
        program.Copy, card.WAYS, st.just(8), stream, host=host, device=region, blocking=card.SELDOM, **more
    )
    regions = st.lists(FEW_REGIONS, max_size=1).map(tuple)
    kernel = st.builds(program.Kernel, stream, duration_s=st.just(1e-6), reads=regions, writes=regions, **more)
    sync = st.one_of(
        st.builds(program.Synchronize, **more),
        st.builds(program.Synchronize, stream=stream, **more),
        st.builds(program.Synchronize, event=event, **more),
    )
    events = st.one_of(
        st.builds(program.RecordEvent, event, stream, **more), st.builds(program.WaitEvent, event, stream, **more)
    )
    waits = thread.flatmap(
        lambda t: st.integers(1, threads - 1).map(lambda k: program.WaitThread((t + k) % threads, t))
    )
    op = st.one_of(copy, copy, copy, kernel, events, events, sync, waits)
    ops = draw(st.lists(op, min_size=2, max_size=8))
    assume(len({op.thread for op in ops}) > 1)
    buffers = (
        program.Buffer("h", 64, "pinned"),
        program.Buffer("p", 64, "pageable"),
        program.Buffer("d", 64, "device"),
    )
    return program.Schedule(tuple(ops), tuple(kinds), buffers, 2)


@examples(300)
@given(small_programs())
def test_finds_a_race_where_some_execution_has_one_whatever_the_threads(schedule: program.Schedule) -> None:
    """All executions are tried, one move of a thread or a stream at a time. The larger oracle below agrees as well."""
    every = executions.races(schedule)
    found = race_oracle.of_rule(check(schedule), "race")
    assert bool(found) == bool(every)
    assert {finding.ops for finding in found} <= every
    assert race_oracle.races(schedule).keys() == every


@examples(100)
@given(small_programs())
def test_no_execution_of_a_repaired_program_has_a_race_whatever_the_threads(schedule: program.Schedule) -> None:
    fixed = repaired(schedule, check(schedule))
    assume(len(fixed) <= len(schedule) + 3)
    assert executions.races(fixed) == set()


@MANY
@given(ANY)
def test_finds_what_brute_force_finds(schedule: program.Schedule) -> None:
    """Which races with their bytes, and none exactly when no two ops race."""
    (expected, graph), every, findings = race_oracle.reported(schedule), race_oracle.races(schedule), check(schedule)
    found = {finding.ops: clashes_of(finding) for finding in race_oracle.of_rule(findings, "race")}
    assert found == expected
    assert bool(found) == bool(every)
    assert found.keys() <= every.keys()
    assert {finding.ops[0] for finding in race_oracle.of_rule(findings, "redundant-wait")} == race_oracle.redundant(
        graph
    )


@MANY
@given(ANY_SMALL)
def test_the_waits_that_are_missing_leave_no_race(schedule: program.Schedule) -> None:
    fixed = repaired(schedule, check(schedule))
    assert race_oracle.races(fixed) == {}
    assert race_oracle.of_rule(check(fixed), "race") == []
    events = program.RecordEvent | program.WaitEvent | program.Synchronize
    assert [op for op in fixed if not isinstance(op, events)] == [op for op in schedule if not isinstance(op, events)]
    rest = iter(fixed)
    assert all(op in rest for op in schedule)


@MANY
@given(ANY_SMALL)
def test_every_missing_wait_is_needed(schedule: program.Schedule) -> None:
    """Without those in front of one op it races still."""
    found = race_oracle.of_rule(check(schedule), "race")
    for late in {finding.ops[1] for finding in found}:
        assert race_oracle.races(repaired(schedule, [finding for finding in found if finding.ops[1] != late]))


def order_of_work(schedule: program.Schedule) -> list[set[int]]:
    """For each copy and kernel, and for the host in the end, the copies and kernels before it, by their number."""
    graph = race_oracle.Graph(schedule)
    works = [i for i, op in enumerate(schedule) if isinstance(op, program.Copy | program.Kernel)]
    number = {i: k for k, i in enumerate(works)}
    moments = [*(race_oracle.start(i) for i in works), race_oracle.call(len(schedule))]
    return [{number[i] for i in graph.works_behind(moment)} for moment in moments]


@MANY
@given(ANY_SMALL)
def test_without_its_redundant_waits_a_schedule_has_the_same_order(schedule: program.Schedule) -> None:
    schedule = repaired(schedule, check(schedule))
    idle = {finding.ops[0] for finding in race_oracle.of_rule(check(schedule), "redundant-wait")}
    assume(len(idle) < len(schedule))
    bare = msgspec.structs.replace(schedule, ops=tuple(op for i, op in enumerate(schedule) if i not in idle))
    assert order_of_work(bare) == order_of_work(schedule)


@MANY
@given(ANY_SMALL)
def test_outputs_the_host_never_waits_for_and_events_never_recorded(schedule: program.Schedule) -> None:
    """Which copies, with the waits that its races lack: so the check goes on."""
    (_, graph), findings = race_oracle.reported(schedule), check(schedule)
    seen = graph.works_behind(race_oracle.call(len(schedule)))
    copies = {i for i, op in enumerate(schedule) if isinstance(op, program.Copy) and op.direction == "d2h"}
    unsynchronised = [set(finding.ops) for finding in race_oracle.of_rule(findings, "unsynchronised-output")]
    assert set().union(*unsynchronised) == copies - seen
    unrecorded = {
        i
        for i, op in enumerate(schedule)
        if isinstance(op, program.WaitEvent | program.Synchronize)
        and op.event is not None
        and not graph.latest_record(op.event, i)
    }
    assert {finding.ops[0] for finding in race_oracle.of_rule(findings, "unrecorded-event")} == unrecorded


# -- what streamsim ships ---------------------------------------------------------------------------------------------


@examples(300)
@given(built())
def test_every_pattern_is_free_of_races(made: tuple[program.Workload, program.Schedule, int]) -> None:
    """Any N, S and K. With arrays on both sides and a kernel there is nothing else to say of it either.

    But of pageable memory: its copies hold the host, which then issues nothing that would have to wait for them.
    """
    workload, schedule, _ = made
    findings = check(schedule)
    assert {finding.rule for finding in findings} <= {"redundant-wait"}
    if workload.inputs and workload.outputs and workload.kernels and not schedule.pageable_names:
        assert findings == ()


def patterns_with_waits() -> list[program.Schedule]:
    workload = program.Workload(24, (4, 2), (4,), (card.MS_KERNEL,))
    found = [program.ring(workload, n, k, s) for n, k, s in product((3, 7, 9), (1, 2, 3, 4, 5, 7), (1, 2, 3, 4))]
    found += [program.prefetch(workload, n, k) for n, k in product((1, 3, 7), (1, 2, 3, 4))]
    return [schedule for schedule in found if any(isinstance(op, program.WaitEvent) for op in schedule)]


def test_removing_any_one_wait_that_is_needed_is_found() -> None:
    """Which waits are needed is brute force's to say; of a pattern's all are."""
    removed = 0
    for schedule in patterns_with_waits():
        for i, op in enumerate(schedule):
            if isinstance(op, program.WaitEvent):
                bare = msgspec.structs.replace(schedule, ops=schedule.ops[:i] + schedule.ops[i + 1 :])
                racing = race_oracle.races(bare).keys()
                assert racing, (schedule.name, i)
                found = race_oracle.of_rule(check(bare), "race")
                assert found, (schedule.name, i)
                assert {finding.ops for finding in found} <= racing
                removed += 1
    assert removed > 200


@pytest.mark.parametrize("name", SUITES)
def test_the_suites_are_free_of_races(name: str) -> None:
    racing = [case.key for case in suite(name) if race_oracle.of_rule(check(case.schedule()), "race")]
    assert racing == []


def test_the_calibration_is_free_of_races() -> None:
    """Its probes use a card buffer again and again, but only within one stream."""
    assert [schedule.name for _, schedule in all_probes(270_336) if race_oracle.of_rule(check(schedule), "race")] == []


# -- work -------------------------------------------------------------------------------------------------------------

LARGE = card.pipeline_of(1 << 24)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: program.depth_first(LARGE, n, 32),
        lambda n: program.breadth_first(LARGE, n, 32),
        lambda n: program.ring(LARGE, n, 33, 32),
        lambda n: program.prefetch(LARGE, n, 3),
        lambda n: program.serial(LARGE, n),
    ],
    ids=["depth-first", "breadth-first", "ring", "prefetch", "serial"],
)
def test_the_work_is_in_proportion_to_the_ops(make: Callable[[int], program.Schedule]) -> None:
    """Twice the chunks, twice the steps: not four times, as if every op were held against all before it."""

    def checking(chunks: int) -> Callable[[], object]:
        schedule = make(chunks)
        assert check(schedule) == ()
        return lambda: check(schedule)

    assert growth(checking, 300) < 2.1


def test_the_work_is_in_proportion_to_the_ops_where_all_of_them_race() -> None:
    """Twice the ops have four times the pairs."""

    def checking(count: int) -> Callable[[], object]:
        ops = tuple(
            race_oracle.work(1 + i % 8, reads=(race_oracle.ON_CARD,), writes=(race_oracle.ON_CARD,))
            for i in range(count)
        )
        schedule = race_oracle.plan(*ops, streams=8)
        assert len(check(schedule)) == count - 1
        return lambda: check(schedule)

    assert growth(checking, 300) < 2.1


def test_findings_that_tie_have_one_order_whatever_the_hash_seed() -> None:
    """Clashes of the same kind that begin at the same byte, in 24 buffers, come with the fewer bytes first."""
    names = [f"buffer {k:02}" for k in range(24)]
    whole, half = ([program.Region(name, 0, n) for name in names] for n in (8, 4))
    schedule = card.plan(
        program.Kernel(1, duration_s=1e-6, writes=tuple(whole)),
        program.Kernel(2, duration_s=1e-6, reads=(*whole, *half)),
        streams=2,
        buffers=tuple(program.Buffer(name, 8, "device") for name in names),
    )
    (race,) = (found for found in check(schedule) if found.rule == "race")
    assert [(h.buffer, h.bytes) for h in race.hazards] == [(name, n) for name in names for n in (4, 8)]
