"""The replayer on an emulated card that runs asynchronous work in a random order: calls, timing, verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from effort import examples
from fake_cuda import LEGACY, FakeCuda, FakeError, Launch, fake_gpu
from hypothesis import given
from hypothesis import strategies as st
from strategies import pipeline_of

from streamsim.errors import InputError
from streamsim.program.patterns import breadth_first, depth_first, prefetch, ring, serial
from streamsim.program.schedule import Buffer, Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim_validate.gpu import kernels
from streamsim_validate.gpu.kernels import KernelSpec, pass_through_reference, register
from streamsim_validate.gpu.replay import (
    Bench,
    LostGpuError,
    Replayer,
    Sample,
    closed,
    measure_launch_s,
    prepare,
    with_timing_events,
)
from streamsim_validate.run.measure import Job, Measured, groups, measure
from streamsim_validate.suites.suites import blocking_streams, legacy, legacy_kernels, relay, sincos, stages

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

SMALL = sincos(1003, 3)
N = 64
HOST, DEVICE = Region("h", 0, N), Region("d", 16, N)
BUFFERS = (Buffer("h", N, "pinned"), Buffer("p", N, "pageable"), Buffer("d", 2 * N, "device"))


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_REGISTRY", dict(kernels._REGISTRY))


def logged(schedule: Schedule) -> list[tuple[str, ...]]:
    """The calls of one replay of the program as it stands, with streams, events and buffers by name."""
    gpu, cuda = fake_gpu()
    bench = Bench(gpu)
    prepare(bench, [schedule])
    replayer = Replayer(schedule, bench)
    names: dict[int, str] = {LEGACY: "s0"}
    names |= {address: f"s{i}" for i, address in enumerate(gpu.streams(schedule.streams)) if i}
    names |= {address: f"e{i}" for i, address in enumerate(gpu.events(schedule.events + 8))}
    names |= dict(zip(gpu.timing_events(), ("start", "stop"), strict=True))
    for key in (key for key in bench.arena._blocks):
        address = bench.arena[key].address
        names |= {address: key.name, address + 16: f"{key.name}+16"}
    cuda.log.clear()
    replayer.replay()
    calls = list(cuda.log)
    cuda.log.clear()
    replayer.run()
    return [
        tuple(names.get(part, str(part)) for part in call if part != 0)
        for call in (*calls, ("--",), *cuda.log[len(calls) :])
    ]


def one(op: Op, events: int = 1) -> list[tuple[str, ...]]:
    """The calls of one op, without the closing synchronisation."""
    schedule = Schedule((op,), ("non-blocking", "blocking"), BUFFERS, events)
    calls = logged(schedule)
    calls = calls[: calls.index(("--",))]
    assert calls[-1] == ("deviceSynchronize",)
    return calls[:-1]


@pytest.mark.parametrize(
    ("op", "calls"),
    [
        (Copy("h2d", N, 1, HOST, DEVICE), [("memcpyAsync", "d+16", "h", "64", "1", "s1")]),
        (Copy("d2h", N, 2, HOST, DEVICE), [("memcpyAsync", "h", "d+16", "64", "2", "s2")]),
        (Copy("h2d", N, 0, HOST, DEVICE), [("memcpyAsync", "d+16", "h", "64", "1", "s0")]),
        (Copy("h2d", N, 1, Region("p", 0, N), DEVICE), [("memcpyAsync", "d+16", "p", "64", "1", "s1")]),
        (
            Copy("h2d", N, 1, HOST, DEVICE, blocking=True),
            [("memcpyAsync", "d+16", "h", "64", "1", "s1"), ("streamSynchronize", "s1")],
        ),
        (Copy("d2h", N, 0, HOST, DEVICE, blocking=True), [("memcpy", "h", "d+16", "64", "2")]),
        (Copy("h2d", 8, 1), [("memcpyAsync", "(scratch in, device)", "(scratch in)", "8", "1", "s1")]),
        (Copy("d2h", 8, 1), [("memcpyAsync", "(scratch out)", "(scratch out, device)", "8", "2", "s1")]),
        (RecordEvent(0, 2), [("eventRecord", "e0", "s2")]),
        (WaitEvent(0, 1), [("streamWaitEvent", "s1", "e0")]),
        (Synchronize(stream=2), [("streamSynchronize", "s2")]),
        (Synchronize(event=0), [("eventSynchronize", "e0")]),
        (Synchronize(), []),  # it is the closing one
    ],
)
def test_each_op_is_the_cuda_call_it_stands_for(op: Op, calls: list[tuple[str, ...]]) -> None:
    assert one(op) == calls


@pytest.mark.parametrize(
    ("kernel", "threads"),
    [
        # one thread for each element, in blocks of 256
        (Kernel(1, "sincos", 1000, 2), [("streamsim_sincos", 1024)]),
        (Kernel(1, "sleep", 257, 50), [("streamsim_sleep", 512)]),
        # elements from the largest region: 64 bytes are 16 floats
        (Kernel(1, "copy", duration_s=1e-3, reads=(DEVICE,), writes=(DEVICE,)), [("streamsim_copy", 256)]),
        # an anonymous kernel is one wave of its share of the card: 4 multiprocessors x 2048 threads
        (Kernel(1, duration_s=1e-3), [("streamsim_spin", 8192)]),
        (Kernel(1, duration_s=1e-3, fill=0.25), [("streamsim_spin", 2048)]),
        (Kernel(1, duration_s=1e-3, fill=1e-6), [("streamsim_spin", 256)]),
        (Kernel(1, duration_s=1e-3, elements=10**6, reads=(DEVICE,), writes=(DEVICE,)), [("streamsim_spin", 8192)]),
    ],
)
def test_a_kernel_has_the_threads_it_needs(kernel: Kernel, threads: list[tuple[str, int]]) -> None:
    gpu, cuda = fake_gpu()
    bench = Bench(gpu)
    bench._launch_s = {1: 0.0, 32: 0.0}
    schedule = Schedule((kernel,), ("non-blocking",), BUFFERS)
    prepare(bench, [schedule])
    Replayer(schedule, bench).replay()
    assert cuda.threads_launched == threads


def test_the_stand_in_has_no_more_blocks_than_the_driver_says_fit() -> None:
    """62 registers a thread leave room for 4 blocks of 256 on a multiprocessor, not 8: of more, half would wait.

    On 4 multiprocessors the whole card is then 16 blocks, and a quarter of it 4.
    """
    gpu, cuda = fake_gpu()
    cuda.resident_blocks = 4
    bench = Bench(gpu)
    bench._launch_s = {1: 0.0, 16: 0.0}
    assert bench.spin_of(Kernel(1, duration_s=1e-3)) == (16, 1_000_000)
    assert bench.spin_of(Kernel(1, duration_s=2e-3, fill=0.25)) == (4, 2_000_000)


def test_the_stand_in_is_told_its_time_less_what_a_launch_takes() -> None:
    """2 us for one block and 5 us for all 32, so 3.5 us for the 16.5th: halves of the card have 16 blocks, 3.45 us."""
    bench = Bench(fake_gpu()[0])
    bench._launch_s = {1: 2e-6, 32: 5e-6}
    assert bench.spin_of(Kernel(1, duration_s=100e-6)) == (32, 95_000)
    assert bench.spin_of(Kernel(1, duration_s=100e-6, fill=0.5)) == (16, 100_000 - 2_000 - round(3_000 * 15 / 31))
    assert bench.spin_of(Kernel(1, duration_s=1e-6)) == (1, 0)  # a launch that does nothing


def test_what_a_launch_takes_is_the_time_of_a_longer_chain_less_that_of_a_shorter_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A card on which each launch takes 3 us beyond the 50 it is told, and a run 20 us whatever is in it."""
    gpu, cuda = fake_gpu()

    def elapsed_ms(_start: int, _stop: int) -> float:
        since = max(i for i, call in enumerate(cuda.log) if call[0] == "eventRecord" and call[1] == _start)
        launches: int = sum(call[0] == "launchKernel" for call in cuda.log[since:])
        return 1e3 * (20e-6 + 53e-6 * launches)

    monkeypatch.setattr(cuda, "eventElapsedTime", elapsed_ms)
    assert measure_launch_s(Bench(gpu), 7) == pytest.approx(3e-6)
    assert {threads for _, threads in cuda.threads_launched} == {7 * 256}


def test_a_program_is_issued_in_order_and_timed_by_events_around_it() -> None:
    """The plain run is the program; in the timed one the other stream waits for the start, and its end is joined."""
    schedule = Schedule(
        (
            Copy("h2d", N, 1, HOST, DEVICE),
            RecordEvent(0, 1),
            WaitEvent(0, 2),
            Copy("d2h", N, 2, HOST, DEVICE),
            Synchronize(stream=2),
        ),
        ("non-blocking", "non-blocking"),
        BUFFERS,
        1,
    )
    program = [
        ("memcpyAsync", "d+16", "h", "64", "1", "s1"),
        ("eventRecord", "e0", "s1"),
        ("streamWaitEvent", "s2", "e0"),
        ("memcpyAsync", "h", "d+16", "64", "2", "s2"),
    ]
    closing = [("streamSynchronize", "s2"), ("deviceSynchronize",)]
    timed = [
        ("eventRecord", "start", "s1"),
        ("streamWaitEvent", "s2", "start"),
        *program,
        ("eventRecord", "e3", "s2"),
        ("streamWaitEvent", "s1", "e3"),
        ("eventRecord", "stop", "s1"),
        *closing,
        ("eventElapsedTime", "start", "stop"),
    ]
    assert logged(schedule) == [*program, *closing, ("--",), *timed]


def test_a_graph_is_launched_once_between_two_timing_events() -> None:
    calls = logged(depth_first(SMALL, 3, 2, launch="graph"))
    names = [call[0] for call in calls]
    assert names == [
        "graphLaunch", "deviceSynchronize", "--",
        "eventRecord", "graphLaunch", "eventRecord", "deviceSynchronize", "eventElapsedTime",
    ]  # fmt: skip
    assert [calls[3][1], calls[5][1]] == ["start", "stop"]


def test_timing_events_leave_the_program_as_it_is() -> None:
    schedule = ring(SMALL, 7, 3, 2)
    timed = with_timing_events(schedule)
    added = {schedule.events, schedule.events + 1, schedule.events + 2}
    own = tuple(op for op in timed.ops if not (isinstance(op, RecordEvent | WaitEvent) and op.event in added))
    assert own == schedule.ops
    assert timed.events == schedule.events + 3  # start, stop, the end of the second stream
    assert with_timing_events(depth_first(SMALL, 3, 1)).events == 2


def test_a_schedule_is_closed_once() -> None:
    schedule = Schedule((Copy("h2d", 8, 1),), ("non-blocking",))
    assert closed(schedule).ops == (Copy("h2d", 8, 1), Synchronize())
    assert closed(closed(schedule)) == closed(schedule)


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Any pattern of any small workload."""
    kernel = draw(
        st.sampled_from(
            [
                WorkloadKernel("sincos", parameter=3),
                WorkloadKernel("vector_add"),
                WorkloadKernel("copy"),
                WorkloadKernel("sleep", parameter=10),
                WorkloadKernel(duration_s=1e-5),
            ]
        )
    )
    widths = st.sampled_from([4, 8, 16])
    workload = Workload(
        draw(st.integers(30, 400)),
        tuple(draw(st.lists(widths, min_size=1, max_size=3))),
        tuple(draw(st.lists(widths, max_size=3))),
        (kernel,) * draw(st.integers(1, 2)),
    )
    chunks, streams, buffers = (draw(st.integers(1, most)) for most in (9, 5, 4))
    memory: Any = draw(st.sampled_from(["pinned", "pageable"]))
    launch: Any = draw(st.sampled_from(["live", "graph"])) if memory == "pinned" else "live"
    builders: list[Callable[[], Schedule]] = [
        lambda: serial(workload, chunks, memory),
        lambda: depth_first(workload, chunks, streams, memory, launch),
        lambda: breadth_first(workload, chunks, streams, memory, launch),
        lambda: ring(workload, chunks, buffers, streams, memory, launch),
        lambda: prefetch(workload, chunks, buffers, memory, launch),
        lambda: legacy(workload, chunks),
        lambda: legacy_kernels(workload, chunks, streams),
        lambda: blocking_streams(workload, chunks, streams),
        lambda: stages(workload, chunks, streams),
        lambda: relay(workload, chunks, streams),
    ]
    return builders[draw(st.integers(0, len(builders) - 1))]()


@examples(60)
@given(programs(), st.integers(0, 1 << 30))
def test_every_pattern_gives_the_reference_output_in_any_order_cuda_allows(schedule: Schedule, seed: int) -> None:
    gpu, cuda = fake_gpu(seed)
    (result,) = measure([Job("x", schedule)], gpu, 1)
    assert (result.status, result.verified, len(result.samples)) == ("ok", True, 1)
    assert cuda.device_bytes == 0  # everything is given back


def _statuses(schedule: Schedule, seeds: int = 12) -> list[str]:
    gpus = (fake_gpu(seed)[0] for seed in range(seeds))
    return [measure([Job("x", schedule)], gpu, 1, allow_races=True)[0].status for gpu in gpus]


@pytest.mark.parametrize(
    "schedule",
    [ring(SMALL, 8, 3, 2), prefetch(SMALL, 6, 2), stages(SMALL, 6, 2), ring(SMALL, 8, 3, 2, launch="graph")],
)
def test_a_race_is_caught(schedule: Schedule) -> None:
    """Without its waits the pattern computes something else in some order that CUDA allows."""
    racing = msgspec.structs.replace(schedule, ops=tuple(op for op in schedule.ops if not isinstance(op, WaitEvent)))
    assert set(_statuses(schedule)) == {"ok"}
    assert any("wrong output" in status for status in _statuses(racing))


def test_a_copy_that_never_ran_is_caught() -> None:
    """The destination is poisoned, so what an earlier run left there does not pass for output."""
    gpu, cuda = fake_gpu()
    bench = Bench(gpu)
    schedule = depth_first(SMALL, 3, 1)
    prepare(bench, [schedule])
    replayer = Replayer(schedule, bench)
    assert replayer.verify()
    lost = replayer._plain.issue.pop()  # the last D2H copy
    assert lost[0].__name__ == "logged"
    with pytest.raises(InputError, match=r"wrong output: float 670 of 'h_out0' is .* \(333 of 1003 differ\)"):
        replayer.verify()  # chunks of 335, 335 and 333 elements: the last begins at 670
    assert cuda.log


def wrong_kernel(source_line: str) -> KernelSpec:
    source = f'extern "C" __global__ void wrong(const Arrays a) {{ {source_line} }}'
    return KernelSpec("wrong", source, reference=pass_through_reference)


def test_a_kernel_with_wrong_output_fails_alone() -> None:
    register(wrong_kernel("off by one in one byte"))

    def emulated(launch: Launch) -> None:
        for read, write in zip(launch.reads, launch.writes, strict=True):
            write[:] = read
            write[5, 1] ^= 1

    gpu, _ = fake_gpu(kernels={"wrong": emulated})
    jobs = [
        Job("wrong", depth_first(Workload(100, (4,), (4,), (WorkloadKernel("wrong"),)), 1, 1)),
        Job("right", depth_first(SMALL, 2, 2)),
    ]
    wrong, right = measure(jobs, gpu, 2)
    assert wrong.status.startswith("failed: depth-first N=1 S=1: wrong output: byte 21 of 'h_out0' is 0x")
    assert wrong.samples == []
    assert (right.status, len(right.samples)) == ("ok", 2)


def test_a_kernel_that_goes_wrong_later_loses_its_samples() -> None:
    """Correct when first verified, wrong from the fourth launch on: the second verification sees it."""
    register(wrong_kernel("drifts"))
    launches = []

    def emulated(launch: Launch) -> None:
        launches.append(launch)
        launch.writes[0][:] = launch.reads[0] if len(launches) < 4 else 7

    gpu, _ = fake_gpu(kernels={"wrong": emulated})
    (result,) = measure([Job("x", depth_first(Workload(100, (4,), (4,), (WorkloadKernel("wrong"),)), 1, 1))], gpu, 3)
    assert "wrong output" in result.status
    assert result.samples == []


def test_a_reference_that_raises_fails_its_schedule_alone() -> None:
    def reference(*_: object) -> list[NDArray[np.uint8]]:
        raise ValueError("boom")

    register(KernelSpec("mine", 'extern "C" __global__ void mine(const Arrays a) {}', reference=reference))
    jobs = [
        Job(name, depth_first(Workload(300, (4,), (4,), (WorkloadKernel(name, parameter=1),)), 2, 1))
        for name in ("mine", "sincos")
    ]
    broken, fine = measure(jobs, fake_gpu()[0], 2)
    assert broken.status.endswith("kernel 'mine': its reference raises ValueError: boom")
    assert (fine.status, len(fine.samples)) == ("ok", 2)


def test_a_kernel_without_reference_is_compared_with_its_ops_one_at_a_time() -> None:
    register(KernelSpec("mine", 'extern "C" __global__ void mine(const Arrays a) {}'))

    def emulated(launch: Launch) -> None:
        launch.writes[0][:] = launch.reads[0] ^ 0x55

    schedule = ring(Workload(300, (4,), (4,), (WorkloadKernel("mine"),)), 6, 3, 2)
    racing = msgspec.structs.replace(schedule, ops=tuple(op for op in schedule.ops if not isinstance(op, WaitEvent)))
    for program, expected in ((schedule, {"ok"}), (racing, {"ok", "failed"})):
        found = set()
        for seed in range(12):
            gpu, _ = fake_gpu(seed, kernels={"mine": emulated})
            found.add(measure([Job("x", program)], gpu, 1, allow_races=True)[0].status.partition(":")[0])
        assert found == expected


def test_a_wait_for_an_event_not_yet_recorded_is_a_no_op_live_and_in_a_graph() -> None:
    """In a capture CUDA would refuse it; the language says that it does nothing."""
    for launch in ("live", "graph"):
        schedule = Schedule(
            (WaitEvent(0, 1), Copy("h2d", N, 1, HOST, DEVICE), RecordEvent(0, 1), Synchronize()),
            ("non-blocking",), BUFFERS, 1, launch,
        )  # fmt: skip
        assert measure([Job("x", schedule)], fake_gpu()[0], 2)[0].status == "ok"


def test_an_event_of_a_graph_is_none_of_a_live_program() -> None:
    # CUDA refuses to wait, outside a capture, for an event that was last recorded in one; a wait for an event that the
    # program itself never records is nothing.
    waits = Schedule((WaitEvent(0, 1), Copy("h2d", N, 1), Synchronize(event=0)), ("non-blocking",), events=1, name="w")
    graph = msgspec.structs.replace(ring(SMALL, 4, 3, 2), launch="graph")
    for jobs in ([Job("graph", graph), Job("live", waits)], [Job("live", waits), Job("graph", graph)]):
        assert [found.status for found in measure(jobs, fake_gpu()[0], 2)] == ["ok", "ok"]


def test_a_buffer_that_one_schedule_writes_is_fresh_input_of_another() -> None:
    # There and back, the other way round, and a schedule that declares both buffers and touches one.
    a, b, card = Region("h", 0, N), Region("p", 0, N), Region("d", 0, N)
    there = Schedule((Copy("h2d", N, 1, a, card), Copy("d2h", N, 1, b, card)), ("non-blocking",), BUFFERS, name="there")
    back = Schedule((Copy("h2d", N, 1, b, card), Copy("d2h", N, 1, a, card)), ("non-blocking",), BUFFERS, name="back")
    only = Schedule((Copy("h2d", N, 1, a, card), Copy("d2h", N, 1, a, card)), ("non-blocking",), BUFFERS, name="only")
    jobs = [Job(schedule.name, schedule) for schedule in (there, back, only)]
    for order in (jobs, jobs[::-1]):
        assert [(found.status, found.verified) for found in measure(order, fake_gpu()[0], 2)] == [("ok", True)] * 3


def test_anonymous_copies_are_timed_but_have_no_output_to_verify() -> None:
    (result,) = measure([Job("x", Schedule((Copy("h2d", 4096, 1),), ("non-blocking",)))], fake_gpu()[0], 2)
    assert (result.status, result.verified, len(result.samples)) == ("ok", False, 2)


def test_the_samples_are_of_the_program() -> None:
    (result,) = measure([Job("x", depth_first(SMALL, 4, 2))], fake_gpu()[0], 5)
    assert len(result.samples) == 5
    for sample in result.samples:
        assert 0 < sample.issue_s <= sample.wall_s
        assert 0 < sample.device_s < 1


# Groups, order, interruption


def _jobs(n: int) -> list[Job]:
    return [Job(str(i), depth_first(SMALL, 1 + i, 2)) for i in range(n)]


def _order(seed: int) -> list[str]:
    seen: list[str] = []
    measure(_jobs(5), fake_gpu()[0], 4, seed, on_sample=lambda job, _: seen.append(job.key))
    return seen


def test_repeats_are_interleaved_in_an_order_shuffled_by_the_seed() -> None:
    order = _order(1)
    rounds = [order[i : i + 5] for i in range(0, 20, 5)]
    assert all(sorted(a_round) == list("01234") for a_round in rounds)
    assert len({tuple(a_round) for a_round in rounds}) > 1
    assert order == _order(1)
    assert order != _order(2)


def test_results_come_as_they_settle_and_are_returned_in_order() -> None:
    settled: list[Measured] = []
    results = measure(_jobs(3), fake_gpu()[0], 2, on_result=settled.append)
    assert [result.job.key for result in results] == ["0", "1", "2"]
    assert sorted(result.job.key for result in settled) == ["0", "1", "2"]


def test_two_jobs_cannot_have_one_key() -> None:
    with pytest.raises(InputError, match="same key"):
        measure([Job("x", SMALL_COPY), Job("x", SMALL_COPY)], fake_gpu()[0], 1)


SMALL_COPY = Schedule((Copy("h2d", N, 1, HOST, DEVICE),), ("non-blocking",), BUFFERS)


def interrupt_at(number: int) -> Callable[[Job, Sample], None]:
    """Ctrl-C with that sample."""
    left = number

    def interrupt(_job: Job, _sample: Sample) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    return interrupt


def test_ctrl_c_settles_what_was_measured() -> None:
    settled: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        measure(_jobs(5), fake_gpu()[0], 4, on_result=settled.append, on_sample=interrupt_at(7))
    assert sorted(result.job.key for result in settled) == list("01234")
    assert {result.status for result in settled} == {"ok"}
    assert sum(len(result.samples) for result in settled) == 7
    assert sorted(len(result.samples) for result in settled) == [1, 1, 1, 2, 2]


def test_ctrl_c_while_the_last_output_is_verified_loses_no_sample() -> None:
    """All are measured: two warm-up runs and three samples of each of five jobs."""
    gpu, cuda = fake_gpu()
    timed, pressed = 0, False

    def press(name: str, _arguments: tuple[object, ...]) -> None:
        nonlocal timed, pressed
        timed += name == "eventElapsedTime"
        if timed == 5 * (2 + 3) and name == "memset" and not pressed:
            pressed = True
            raise KeyboardInterrupt

    cuda.fail_at = press
    settled: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        measure(_jobs(5), gpu, 3, on_result=settled.append)
    assert [(result.job.key, result.status, len(result.samples)) for result in settled] == [
        (str(i), "ok", 3) for i in range(5)
    ]


# Companions

COMPANION = Job("beside", SMALL_COPY)


def _groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsim_validate.run.measure.GROUP_SIZE", 2)


def test_companions_are_measured_with_every_group_and_are_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    _groups_of_two(monkeypatch)
    seen: dict[int, list[Measured]] = {}
    heard: list[str] = []
    results = measure(
        _jobs(5), fake_gpu()[0], 3, on_sample=lambda job, _: heard.append(job.key), companions=[COMPANION],
        on_group=lambda number, companions: seen.update({number: list(companions)}), first_group=7,
    )  # fmt: skip
    assert [result.group for result in results] == [7, 7, 8, 8, 9]
    assert {key: heard.count(key) for key in heard} == dict.fromkeys("01234", 3)
    assert list(seen) == [7, 8, 9]
    for number, (beside,) in seen.items():
        assert (beside.job, beside.status, beside.group, len(beside.samples)) == (COMPANION, "ok", number, 3)


def test_repeats_of_companions_stand_among_those_of_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    run = Replayer.run

    def watched(self: Replayer) -> Sample:
        order.append(self.schedule.name)
        return run(self)

    monkeypatch.setattr(Replayer, "run", watched)
    companion = Job("beside", msgspec.structs.replace(SMALL_COPY, name="beside"))
    measure(_jobs(3), fake_gpu()[0], 8, companions=[companion])
    places = {order[-32:][i : i + 4].index("beside") for i in range(0, 32, 4)}  # in each of the eight rounds
    assert len(places) > 1


def test_a_companion_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _groups_of_two(monkeypatch)
    gpu, cuda = fake_gpu()

    def fail(name: str, arguments: tuple[object, ...]) -> None:
        if name == "memcpyAsync" and arguments[2] == N:
            raise FakeError("invalid argument")

    cuda.fail_at = fail
    seen: list[tuple[int, list[str]]] = []
    results = measure(
        _jobs(3), gpu, 2, companions=[COMPANION, Job("fine", depth_first(SMALL, 2, 2))],
        on_group=lambda number, companions: seen.append((number, [one.status[:6] for one in companions])),
    )  # fmt: skip
    assert [(result.status, len(result.samples)) for result in results] == [("ok", 2)] * 3
    assert seen == [(1, ["failed", "ok"]), (2, ["failed", "ok"])]


def test_ctrl_c_reports_what_the_companions_have() -> None:
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        measure(
            _jobs(2), fake_gpu()[0], 4, on_sample=interrupt_at(7), companions=[COMPANION],
            on_group=lambda _, companions: seen.extend(len(one.samples) for one in companions),
        )  # fmt: skip
    assert seen in ([3], [4])  # the last round was under way


def test_without_companions_no_group_is_reported() -> None:
    measure(_jobs(2), fake_gpu()[0], 1, on_group=lambda _number, _companions: pytest.fail("a group was reported"))


def test_ctrl_c_before_the_first_sample_leaves_nothing_ok() -> None:
    settled: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        measure(_jobs(3), fake_gpu()[0], 4, on_result=settled.append, on_sample=interrupt_at(1))
    assert sorted(result.status for result in settled) == ["interrupted", "interrupted", "ok"]


def test_a_lost_context_loses_nothing_measured_before() -> None:
    gpu, cuda = fake_gpu()
    settled: list[Measured] = []
    dead = False

    def fail(name: str, _arguments: tuple[object, ...]) -> None:
        nonlocal dead
        dead = dead or (name == "memcpyAsync" and len(samples) == 6)
        if dead:
            raise FakeError("an illegal memory access was encountered")

    samples: list[Sample] = []
    cuda.fail_at = fail
    with pytest.raises(LostGpuError, match="context is lost"):
        measure(_jobs(3), gpu, 4, on_result=settled.append, on_sample=lambda _, sample: samples.append(sample))
    assert sorted(result.status.partition(":")[0] for result in settled) == ["lost", "ok", "ok"]
    assert sum(len(result.samples) for result in settled) == 4


def test_a_cuda_error_in_one_schedule_is_one_line_and_the_others_go_on() -> None:
    gpu, cuda = fake_gpu()

    def fail(name: str, arguments: tuple[object, ...]) -> None:
        if name == "memcpyAsync" and arguments[2] == N:
            raise FakeError("invalid argument")

    cuda.fail_at = fail
    bad, good = measure([Job("bad", SMALL_COPY), Job("good", depth_first(SMALL, 2, 2))], gpu, 2)
    assert bad.status == "failed: the schedule: CUDA refuses it (invalid argument)"
    assert good.status == "ok"


def test_too_many_streams_is_one_line() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_streams = 4
    many, few = measure([Job("many", depth_first(SMALL, 9, 9)), Job("few", depth_first(SMALL, 2, 2))], gpu, 1)
    assert "streams = 9: the driver gave 4 and no more" in many.status
    assert few.status == "ok"


def test_memory_is_checked_before_it_is_allocated() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_device_bytes = 100 << 20  # 64 MiB of it are kept spare
    large = depth_first(pipeline_of(5 << 20), 2, 2)  # 20 MiB each way
    cuda.log.clear()
    big, small = measure([Job("big", large), Job("small", depth_first(SMALL, 2, 2))], gpu, 1)
    assert big.status.startswith("skipped: buffers: 40 MiB of device memory are needed and 36 MiB are free")
    assert small.status == "ok"
    assert max(call[1] for call in cuda.log if call[0] == "malloc") < 1 << 20


def test_jobs_that_fit_only_one_after_another_are_grouped_so() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_device_bytes = (64 << 20) + 100_000

    def job(key: str, buffer: str) -> Job:
        device = Region(buffer, 0, 60_000)
        copy = Copy("h2d", 60_000, 1, None, device)
        return Job(key, Schedule((copy,), ("non-blocking",), (Buffer(buffer, 60_000, "device"),)))

    jobs = [job("1", "a"), job("2", "a"), job("3", "b")]
    assert [[j.key for j in group] for group in groups(jobs, gpu, lambda _: None)] == [["1", "2"], ["3"]]
    small = [job("1", "a"), Job("small", SMALL_COPY)]
    assert [[j.key for j in group] for group in groups(small, gpu, lambda _: None, [jobs[1]])] == [["1", "small"]]
    skipped: list[Measured] = []
    assert list(groups([jobs[2]], gpu, skipped.append, [jobs[0]])) == []  # no room for both
    assert skipped[0].status.startswith("skipped: buffers")
    assert [result.status for result in measure(jobs, gpu, 1)] == ["ok"] * 3


def test_buffers_are_kept_from_one_schedule_to_the_next() -> None:
    gpu, cuda = fake_gpu()
    measure([Job(str(chunks), depth_first(SMALL, chunks, 2)) for chunks in range(1, 9)], gpu, 1)
    assert sum(call[0] == "malloc" for call in cuda.log) == 2
    assert sum(call[0] == "hostAlloc" for call in cuda.log) == 2


def test_stream_three_is_the_same_stream_in_every_schedule() -> None:
    gpu, cuda = fake_gpu()
    wide, narrow = gpu.streams(("non-blocking",) * 5), gpu.streams(("non-blocking",) * 3)
    assert wide[:4] == narrow
    mixed = gpu.streams(("blocking", "non-blocking"))
    assert mixed[2] == wide[1]
    assert mixed[1] not in wide
    gpu.close()
    assert isinstance(cuda, FakeCuda)


def test_the_reference_of_a_schedule_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its output is verified before its repeats and after them."""
    from streamsim_validate.gpu import reference, replay

    computed = []

    def run_reference(schedule: Schedule, memo: Any) -> Any:
        computed.append(schedule)
        return original(schedule, memo)

    original = reference.run_reference
    monkeypatch.setattr(replay, "run_reference", run_reference)
    measure(_jobs(6), fake_gpu()[0], 1)
    assert len(computed) == 6
