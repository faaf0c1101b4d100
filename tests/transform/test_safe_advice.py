"""Whatever is proposed is safe: the same work on the same bytes, and free of races if the program was."""

from contextlib import suppress
from typing import Any

import pytest
from effort import examples
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from race_oracle import Graph, end, of_rule, races, start
from same_work import Terms, amounts, output, own_work_ps, pipelines
from strategies import NS, hosted, make_device, plan

from streamsim import program
from streamsim.advice import advise, what_if
from streamsim.cli.whatif import _changes, whatif_command
from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.races import check, repaired
from streamsim.search import best_program
from streamsim.transform import (
    ORDERS_NO_STREAMS,
    Change,
    Dependences,
    Work,
    changed_by,
    chunk_count,
    in_chunks,
)
from streamsim.transform import changes as make

DEVICE = make_device(copy=2, kernel=3)
ONCE = st.lists(st.sampled_from((8, 16, 32, 96)), max_size=1).map(tuple)
WHOLE = st.lists(st.just(96), max_size=1).map(tuple)
ARRAYS = st.lists(st.sampled_from((96, 192)), max_size=2).map(tuple)


@st.composite
def patterns(draw: st.DrawFn) -> program.Schedule:
    """Any pattern with all options, over a few bytes: rings, arrays that are copied once, sums, a host that works."""
    order: Any = draw(st.sampled_from(program.ORDERS))
    chunks, outputs = draw(st.integers(1, 6)), draw(ARRAYS)
    once = ONCE if chunks > 1 else WHOLE  # of one chunk nothing shows what is a table: it is cut like any array
    kernels = [
        program.WorkloadKernel(name, duration_s=n * 12 * NS) for name, n in zip("ab", draw(KERNELS), strict=False)
    ]
    workload = program.Workload(
        inputs=draw(ARRAYS),
        outputs=outputs,
        kernels=tuple(kernels),
        h2d_once=draw(once),
        d2h_once=draw(once),
        host_work_s=draw(st.sampled_from((0.0, 0.0, 5 * NS))),
    )
    streams = 1 if order in ("serial", "prefetch") else draw(st.integers(1, 4))
    buffers = draw(st.none() | st.integers(1, 4)) if order in ("depth-first", "prefetch") else None
    memory: Any = draw(st.sampled_from(("pinned", "pinned", "pageable")))
    config = program.Config(order, chunks, streams, buffers, memory)
    try:
        return config.schedule(workload)
    except InputError:
        assume(False)
        raise


KERNELS = st.lists(st.integers(1, 8), min_size=1, max_size=2)


@st.composite
def like_recorded(draw: st.DrawFn) -> program.Schedule:
    """A pattern with what a host does between its calls, and waits."""
    schedule = draw(patterns())
    ops: list[program.Op] = []
    for op in schedule.ops[:-1]:
        more: tuple[program.Op, ...] = draw(MORE)
        ops += (*more, op)
    return replace(schedule, ops=(*ops, schedule.ops[-1]))


BETWEEN: list[tuple[program.Op, ...]] = [
    (),
    (),
    (program.HostWork(3 * NS),),
    (program.HostWork(4 * NS, "load"),),
    (program.Synchronize(),),
]
MORE = st.sampled_from(BETWEEN)


@st.composite
def of_threads(draw: st.DrawFn) -> program.Schedule:
    """Any program whose ops name their memory, issued by two threads."""
    schedule = draw(pipelines())
    return replace(schedule, ops=tuple(draw(hosted(schedule.ops, st.just(2)))))


PROGRAMS = st.one_of(patterns(), patterns(), like_recorded(), pipelines(), of_threads())
COUNTS = st.sampled_from((1, 2, 4, 8))  # every range can be halved so often: then a piece has whole elements
CHANGES = st.lists(
    st.one_of(
        st.sampled_from((make.PIN, make.ASYNC, make.DROP_SYNC, make.GRAPH, make.OFF_LEGACY)),
        st.sampled_from((make.DROP_WAITS, make.WARM_CALLS, make.buffers(2), make.buffers(0), make.STEP_GRAPHS)),
        st.builds(make.chunks, COUNTS),
        st.builds(make.chunks, COUNTS),
        st.builds(make.streams, st.integers(1, 5)),
        st.builds(make.streams, st.integers(1, 5)),
        st.builds(make.order, st.sampled_from(("depth-first", "breadth-first"))),
        st.builds(make.prefetch, st.integers(1, 3)),
    ),
    min_size=1,
    max_size=3,
)


def tables_of(schedule: program.Schedule) -> set[str | program.Region]:
    """What every kernel reads whole; of one chunk nothing shows it, and none is assumed."""
    if "N=1 " in f"{schedule.name} ":
        return set()
    once: set[str | program.Region] = {
        buffer.name for buffer in schedule.buffers if buffer.name.startswith("d_once_in")
    }
    shared = Dependences(schedule).shared
    tables: set[str | program.Region] = set().union(*shared.values())
    read = {(i, r) for i, op in enumerate(schedule) if isinstance(op, program.Kernel) for r in op.reads if r in tables}
    assume(once or all(region in shared.get(i, ()) for i, region in read))  # else it is a table here, and not there
    return once or tables


def check_safe(schedule: program.Schedule, changed: program.Schedule) -> None:
    """The same bytes copied between the same places, the same work on the same bytes, and no race."""
    assert not races(changed)
    assert not of_rule(check(changed), "race")
    assert of_rule(check(schedule), "unsynchronised-output") or not of_rule(check(changed), "unsynchronised-output")
    was, now = amounts(schedule), amounts(changed)
    assert {key: now[key] for key in was if key != "host"} == pytest.approx(
        {key: was[key] for key in was if key != "host"}, abs=2 * len(changed)
    )
    terms: Terms = {}
    tables = tables_of(schedule)
    assert output(changed, terms, whole=tables) == output(schedule, terms, whole=tables)


WRITTEN = program.Region("card", 0, 8)
BESIDE_LEGACY = (
    program.Schedule(  # the legacy stream alone orders the copy and the second kernel; the first names no memory
        (
            program.Copy("h2d", 8, 0, program.Region("host", 0, 8), WRITTEN),
            program.Kernel(2, duration_s=NS),
            program.Kernel(1, duration_s=NS, writes=(WRITTEN,)),
            program.Synchronize(),
        ),
        ("blocking", "non-blocking"),
        (program.Buffer("host", 8, "pinned"), program.Buffer("card", 16, "device")),
    )
)
TABLE, SUM = program.Region("d_once_in0", 0, 8), program.Region("d_once_out0", 0, 8)
SUM_AND_READER = program.Schedule(  # both kernels read all that is copied in; the first makes a sum of it
    (
        program.Copy("h2d", 8, 1, program.Region("h_once_in0", 0, 8), TABLE),
        program.Kernel(1, "a", duration_s=NS, reads=(TABLE,), writes=(SUM,), share=0.5),
        program.Kernel(1, "a", duration_s=NS, reads=(TABLE,), share=0.5),
        program.Copy("d2h", 8, 1, program.Region("h_once_out0", 0, 8), SUM),
        program.Synchronize(),
    ),
    ("non-blocking",),
    tuple(program.Buffer(region.buffer, 8, "device") for region in (TABLE, SUM))
    + tuple(program.Buffer(f"h{region.buffer[1:]}", 8, "pinned") for region in (TABLE, SUM)),
)


@examples(200)
@given(PROGRAMS, CHANGES)
@example(BESIDE_LEGACY, [make.streams(2)])
@example(SUM_AND_READER, [make.chunks(2)])
def test_what_whatif_writes_does_the_same_without_a_race(schedule: program.Schedule, changes: list[Change]) -> None:
    schedule = repaired(schedule, check(schedule))
    with suppress(InputError):  # what cannot be done is refused
        check_safe(schedule, changed_by(changes, Work(schedule, DEVICE)).work.schedule)


IN, K2 = program.Copy("h2d", 8, 1), program.Kernel(2, duration_s=NS)
NAMED_IN, NAMED_K2 = replace(IN, device=WRITTEN), replace(K2, reads=(WRITTEN,))
HOST_WAITS, EVENT = program.Synchronize(stream=1), (program.RecordEvent(0, 1), program.WaitEvent(0, 2))


@pytest.mark.parametrize("change", [make.DROP_SYNC, make.ASYNC])
@pytest.mark.parametrize(
    ("ops", "assumes"),
    [
        ((IN, HOST_WAITS, K2), True),
        ((replace(IN, blocking=True), K2), True),
        ((NAMED_IN, HOST_WAITS, K2), True),  # which may read what was copied
        ((IN, HOST_WAITS, NAMED_K2), True),
        ((NAMED_IN, HOST_WAITS, NAMED_K2), False),  # data shows it, and a wait for an event takes the host's place
        ((IN, HOST_WAITS, replace(K2, stream=1)), False),
        ((IN, *EVENT, HOST_WAITS, K2), False),
        ((IN, K2, HOST_WAITS), False),
    ],
)
def test_fewer_waits_of_the_host_say_that_they_may_order_streams(
    ops: tuple[program.Op, ...], assumes: bool, change: Change
) -> None:
    """Where the host waits for a copy before it launches a kernel elsewhere, the kernel may need the copy."""
    schedule = plan(*ops, program.Synchronize(), streams=2, buffers=BESIDE_LEGACY.buffers)
    made = changed_by([change], Work(schedule, DEVICE))
    copy, kernel = (
        next(i for i, op in enumerate(made.work.schedule) if isinstance(op, of))
        for of in (program.Copy, program.Kernel)
    )
    assert (ORDERS_NO_STREAMS in made.condition) == assumes
    if not assumes and ops[-1] != HOST_WAITS:
        assert Graph(made.work.schedule).is_behind(end(copy), start(kernel))


STAGED = program.Copy("d2h", 8, 1, program.Region("out", 0, 8))


@pytest.mark.parametrize(
    ("ops", "assumes"),
    [
        ((STAGED, K2), True),
        ((STAGED, HOST_WAITS, K2), False),  # the host waits for the copy all the same
        ((STAGED, *EVENT, K2), False),
        ((STAGED, replace(K2, stream=1)), False),
        ((replace(STAGED, blocking=True), K2), False),
    ],
)
def test_pinned_memory_says_that_staging_may_order_streams(ops: tuple[program.Op, ...], assumes: bool) -> None:
    """The host is held until a copy back into pageable memory is done. A kernel that it launches then may need this."""
    schedule = plan(*ops, program.Synchronize(), streams=2, buffers=(program.Buffer("out", 8, "pageable"),))
    assert (ORDERS_NO_STREAMS in changed_by([make.PIN], Work(schedule, DEVICE)).condition) == assumes


@pytest.mark.parametrize("before", [make.order("breadth-first"), make.buffers(2), make.DROP_WAITS])
@pytest.mark.parametrize("chunks", [2, 4, 8])
def test_no_change_hides_an_array_that_all_chunks_read_from_a_later_cut(before: Change, chunks: int) -> None:
    """Of two chunks that read one table alone each writes a buffer of its own. Each later chunk reads all of it."""
    table = program.Workload(outputs=(192,), kernels=(program.WorkloadKernel(duration_s=96 * NS),), h2d_once=(8,))
    schedule = program.Config("prefetch", 2, 1, 2).schedule(table)
    with suppress(InputError):  # no buffer is used twice
        made = changed_by((before, make.chunks(chunks)), Work(schedule, DEVICE)).work.schedule
        terms: Terms = {}
        assert not races(made)
        assert output(made, terms, {"d_once_in0"}) == output(schedule, terms, {"d_once_in0"})
        assert [op.reads[0].bytes for op in made if isinstance(op, program.Kernel)] == [8] * chunks


@examples(40)
@given(PROGRAMS, st.booleans())
def test_what_best_recommends_does_the_same_without_a_race(schedule: program.Schedule, independent: bool) -> None:
    assume(any(isinstance(op, program.Copy | program.Kernel) for op in schedule))
    schedule = repaired(schedule, check(schedule))
    with suppress(InputError):  # threads that show no chunks
        found = best_program(schedule, DEVICE, independent, most_chunks=12, most_streams=4)
        for trial in (found.simplest.config, found.best.config):
            check_safe(schedule, trial.work.schedule)


@examples(30)
@given(PROGRAMS)
def test_what_explain_proposes_does_the_same_without_a_race(schedule: program.Schedule) -> None:
    """A change is tried of the program with the waits that its races lack. The host works as long for the program."""
    sound = repaired(schedule, check(schedule))
    for trial in advise(schedule, DEVICE, budget_ops=0).alone:
        check_safe(sound, trial.work.schedule)
        assert own_work_ps(trial.work.schedule) == own_work_ps(schedule), trial.text


@examples(20)
@given(PROGRAMS)
def test_what_explain_tries_whatif_makes_with_the_same_words_time_and_assumption(schedule: program.Schedule) -> None:
    schedule = repaired(schedule, check(schedule))
    for trial in advise(schedule, DEVICE).trials:
        asked = whatif_command.make_context("whatif", ["program.json", *trial.options]).params
        said = what_if(schedule, DEVICE, list(_changes(**asked)), independent=True)
        assert said.together.takes_s == trial.takes_s, trial.text
        assert said.to_json()["first"] == trial.to_json()


WORKLOAD = program.Workload(inputs=(5 << 20,), outputs=(5 << 20,), kernels=(program.WorkloadKernel(duration_s=60e-6),))


@pytest.mark.parametrize("pattern", [program.depth_first, program.breadth_first, lambda w, n, s: program.ring(w, n, s)])
@pytest.mark.parametrize("name", ["ideal", "h200", "t4"])
@pytest.mark.parametrize(("chunks", "streams"), [(8, 4), (8, 1), (4, 3), (2, 2)])
def test_each_step_of_a_pattern_in_two_takes_what_the_pattern_of_twice_the_chunks_takes(
    pattern: Any, name: str, chunks: int, streams: int
) -> None:
    """5 MiB in and out, 60 us: 8 chunks on 4 streams of an H200 in two take 199.6 us, as 16 chunks do."""
    device = load_device(name)
    (cut, _), meant = in_chunks(pattern(WORKLOAD, chunks, streams), 2 * chunks), pattern(WORKLOAD, 2 * chunks, streams)
    assert chunk_count(cut) == 2 * chunks
    assert simulate(cut, device).makespan_s == simulate(meant, device).makespan_s
    kernels = [replace(op, reads=(), writes=()) for op in cut if isinstance(op, program.Kernel)]
    assert kernels == [replace(op, reads=(), writes=()) for op in meant if isinstance(op, program.Kernel)]
