"""A program whose steps are alike is a workload, a chunk a step: there and back, and what is no such program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from perfect_profiler import profiled
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim import program
from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.recorded import program_of
from streamsim.rules import ticks
from streamsim.transform import Work, in_pieces, in_streams, repeated_step
from streamsim.transform import changes as make

BYTES = 16 * 12  # that can be cut in up to 12 pieces of whole 16 bytes


def loop(steps: int, *between: program.Op, inputs: int = 1, outputs: int = 1, kernels: int = 1) -> program.Schedule:
    """Copies in, kernels and copies back in one stream, and what the host does after each step."""
    step = [h2d(1, BYTES * (1 + k)) for k in range(inputs)]
    work = [kernel(1, 120, name=f"k{k}") for k in range(kernels)]
    back = [d2h(1, BYTES * (2 + k)) for k in range(outputs)]
    return plan(*[*step, *work, *back, *between] * steps, program.Synchronize(), streams=1)


def issued(schedule: program.Schedule) -> list[tuple[object, ...]]:
    """Every copy and kernel in the order of issue: what it is, how much, and where."""
    found: list[tuple[object, ...]] = []
    for op in schedule.ops:
        if isinstance(op, program.Copy):
            found.append((op.direction, op.bytes, op.stream, op.blocking))
        if isinstance(op, program.Kernel):
            found.append((op.name, round((op.duration_s or 0) / NS), op.stream))
    return found


@given(
    st.integers(2, 6), st.sampled_from((1, 2, 3, 4, 6)), st.integers(1, 5), st.integers(1, 2), st.integers(0, 2),
    st.integers(1, 3),
)  # fmt: skip
def test_the_pipeline_that_is_read_issues_what_the_schedule_does(
    steps: int, pieces: int, streams: int, inputs: int, outputs: int, kernels: int
) -> None:
    """Steps cut and dealt out, read as a workload, cut again: the same copies and kernels in the same streams."""
    cut, _ = in_pieces(loop(steps, inputs=inputs, outputs=outputs, kernels=kernels), pieces)
    schedule = in_streams(cut, min(streams, steps * pieces))
    workload, config = repeated_step(schedule)
    assert config == program.Config(
        "depth-first", steps * pieces, min(streams, steps * pieces), min(streams, steps * pieces)
    )
    assert issued(config.schedule(workload)) == issued(schedule)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 2), st.integers(0, 2), st.booleans())
def test_a_program_issued_stage_by_stage_is_read_as_such(
    chunks: int, streams: int, inputs: int, outputs: int, is_named: bool
) -> None:
    """By what its memory says; without that each stream is a chunk, and there must be one for each."""
    chunks = streams if not is_named else chunks
    kernels = (program.WorkloadKernel(duration_s=chunks * 1e-6),)
    workload = program.Workload(inputs=(chunks * BYTES,) * inputs, outputs=(chunks * BYTES,) * outputs, kernels=kernels)
    schedule = program.breadth_first(workload, chunks, min(streams, chunks))
    if not is_named:
        bare = [replace(op, host=None, device=None) if isinstance(op, program.Copy) else op for op in schedule]
        bare = [replace(op, reads=(), writes=()) if isinstance(op, program.Kernel) else op for op in bare]
        schedule = replace(schedule, ops=tuple(bare), buffers=())
    if chunks == 1:
        with pytest.raises(InputError, match="no step is repeated"):
            repeated_step(schedule)
        return
    found, config = repeated_step(schedule)
    assert config == program.Config("breadth-first", chunks, min(streams, chunks))
    assert issued(config.schedule(found)) == issued(schedule)


@pytest.mark.parametrize(("waits", "blocking"), [((program.Synchronize(stream=1),), False), ((), True)])
def test_a_host_that_waits_for_every_copy_has_the_serial_program(waits: tuple[program.Op, ...], blocking: bool) -> None:
    step = h2d(1, BYTES, blocking=blocking), *waits, kernel(1, 10), d2h(1, BYTES, blocking=blocking), *waits
    workload, config = repeated_step(plan(*step * 3, streams=1))
    assert config == program.Config("serial", 3)
    assert [(name, size) for name, size, *_ in issued(config.schedule(workload))] == [
        ("h2d", BYTES), ("kernel", 10), ("d2h", BYTES)
    ] * 3  # fmt: skip


def test_what_only_the_first_step_copies_in_or_the_last_one_back_is_copied_once() -> None:
    """Weights before the first step; of kernels one behind another what has one name is launched twice."""
    step = h2d(1, 64), kernel(1, 10, name="a"), kernel(1, 12, name="a"), d2h(1, 32)
    workload, config = repeated_step(plan(h2d(1, 640), *step, *step, *step, d2h(1, 16), streams=1))
    assert (workload.inputs, workload.outputs) == ((3 * 64,), (3 * 32,))
    assert (workload.h2d_once, workload.d2h_once) == ((640,), (16,))
    assert [(k.name, k.launches, round((k.duration_s or 0) / NS)) for k in workload.kernels] == [("a", 2, 3 * 22)]
    assert config.chunks == 3


def test_memory_and_launch_are_the_schedules() -> None:
    region = program.Region("host", 0, 64)
    step = program.Copy("h2d", 64, 1, region), kernel(1, 10), d2h(1, 64)
    pageable = plan(*step * 2, streams=1, buffers=(program.Buffer("host", 64, "pageable"),))
    assert repeated_step(pageable)[1].memory == "pageable"
    assert repeated_step(loop(3))[1].memory == "pinned"
    assert repeated_step(make.GRAPH.make(Work(loop(3), make_device())).schedule)[1].launch == "graph"


STEP = h2d(1, 64), kernel(1, 10), d2h(1, 64)


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        (STEP, "no step is repeated"),
        ((*STEP, *STEP, h2d(1, 32), *STEP[1:]), "step 3 has a copy of 32 B to the card where step 2 has a"),
        ((*STEP, *STEP, *STEP[:2]), "step 3 has nothing where step 2 has a copy of 64 B from the card"),
        ((*STEP, *STEP, STEP[0], kernel(1, 9, name="b")), "step 3 has the kernel 'b' where step 2 has"),
        ((*STEP, kernel(1, 5)) * 2, "a step has the kernel 'kernel' behind a copy of 64 B from the card"),
        ((program.RecordEvent(0, 1), program.WaitEvent(0, 2), *STEP * 2), "streams wait for events"),
        ((h2d(1, 64), kernel(2, 10)) * 2, "step 1 is in 2 streams"),
        ((*STEP, *STEP, h2d(2, 64), kernel(2, 10), d2h(2, 64)), "in 2 streams, but not in turn"),
        (tuple(h2d(k, 64, blocking=True) if n == 0 else kernel(k, 5) for k in (1, 2) for n in (0, 1)), "with --async"),
        ((h2d(1, 64), kernel(1, 4, thread=1), h2d(1, 64)), "issued by several host threads"),
    ],
)  # fmt: skip
def test_what_is_no_pipeline_is_refused_with_its_reason(ops: tuple[program.Op, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        repeated_step(plan(*ops))


@given(st.integers(2, 9), st.integers(1_000_001, 20_000_000), st.integers(0, 3))
def test_the_hosts_own_work_for_a_step_is_before_its_chunk(steps: int, work: int, streams: int) -> None:
    """A program of like steps, each behind so many nanoseconds of work, recorded at no cost: the pipeline has that.

    So its makespan is that of the program as it was written down in the first place.
    """
    streams, device, kernels = (
        min(streams, steps),
        load_device("h200"),
        (program.WorkloadKernel(duration_s=steps * 1e-4),),
    )
    asked = program.Config("depth-first", steps, streams, streams) if streams else program.Config("serial", steps)
    loaded = program.Workload(inputs=(steps << 16,), outputs=(steps << 15,), kernels=kernels, host_work_s=work * 1e-9)
    was = simulate(asked.schedule(loaded), device)
    found, config = repeated_step(program_of(profiled(was), device=device).schedule)
    assert config == asked
    assert ticks(found.host_work_s) == work
    assert simulate(config.schedule(found), device).makespan_s == was.makespan_s


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_step_that_is_cut_has_its_hosts_work_once(pieces: int) -> None:
    """Three steps with 6 ms each are 18 ms over all their pieces, before a step or behind it; or less, with a name."""
    step = h2d(1, BYTES), kernel(1, 120), d2h(1, BYTES)
    steps: list[list[program.Op]] = [[program.HostWork(6e-3), *step], [*step, program.HostWork(6e-3)]]
    for ops in steps:
        cut, _ = in_pieces(plan(*ops * 3, streams=1), pieces)
        assert repeated_step(cut)[0].host_work_s == pytest.approx(6e-3 / pieces)
    named = plan(*(program.HostWork(2e-6, "load a batch"), *step) * 3, streams=1)
    assert repeated_step(named)[0].host_work_s == pytest.approx(2e-6)
