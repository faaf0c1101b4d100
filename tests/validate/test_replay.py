"""The replayer on an emulated card that runs asynchronous work in a random order: calls, timing, verification."""

from collections.abc import Callable
from contextlib import closing
from inspect import signature
from itertools import chain, count
from typing import Any

import msgspec
import numpy as np
import pytest
from effort import examples
from fake_gpu.card import LEGACY, FakeError
from fake_gpu.cuda import Launch, fake_gpu, plainly, replayed
from hypothesis import given
from hypothesis import strategies as st
from strategies import pipeline_of

from streamsim import program
from streamsim.program import Copy, RecordEvent, Region, Schedule, Synchronize, WaitEvent, Workload, WorkloadKernel
from streamsim_validate.gpu import Bench, KernelSpec, Replayer, buffers_of, kernels, prepare, register
from streamsim_validate.gpu.cuda_source import NS_BITS
from streamsim_validate.gpu.memory import PERIOD, WrongOutputError, check_content, data
from streamsim_validate.gpu.replayer import Sample
from streamsim_validate.records.record import PATTERNS, stages
from streamsim_validate.run import Planned
from streamsim_validate.suites import sincos

SMALL = sincos(1003, 3)
N = 64
HOST, DEVICE = Region("h", 0, N), Region("d", 16, N)
BUFFERS = (program.Buffer("h", N, "pinned"), program.Buffer("p", N, "pageable"), program.Buffer("d", 2 * N, "device"))


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
    names |= dict(zip(gpu.events(2, "timing"), ("start", "stop"), strict=True))
    for key in buffers_of(schedule):
        address = bench.arena.address(key)
        names |= {address: key.name, address + 16: f"{key.name}+16"}
    cuda.log.clear()
    replayer.issue()
    calls = list(cuda.log)
    cuda.log.clear()
    replayer.run()
    return [
        tuple(names.get(part, str(part)) for part in call if part != 0)
        for call in (*calls, ("--",), *cuda.log[len(calls) :])
    ]


def one(op: program.Op, events: int = 1) -> list[tuple[str, ...]]:
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
        (Copy("h2d", 8, 1), [("memcpyAsync", "(scratch in) on the card", "(scratch in)", "8", "1", "s1")]),
        (Copy("d2h", 8, 1), [("memcpyAsync", "(scratch out)", "(scratch out) on the card", "8", "2", "s1")]),
        (RecordEvent(0, 2), [("eventRecord", "e0", "s2")]),
        (WaitEvent(0, 1), [("streamWaitEvent", "s1", "e0")]),
        (Synchronize(stream=2), [("streamSynchronize", "s2")]),
        (Synchronize(event=0), [("eventSynchronize", "e0")]),
        (Synchronize(), []),  # it is the closing one
    ],
)
def test_each_op_is_the_cuda_call_it_stands_for(op: program.Op, calls: list[tuple[str, ...]]) -> None:
    assert one(op) == calls


def test_the_stand_in_has_no_more_blocks_than_fit_and_is_told_its_time_less_that_of_a_launch() -> None:
    """62 registers a thread leave room for 4 blocks of 256 on a multiprocessor, not 8: of more, half would wait.

    On 4 multiprocessors the whole card is then 16 blocks, and a quarter of it 4. A launch takes 5 us for all of them in
    8 waves, and 3 us for a quarter in 64 slices.
    """
    gpu, cuda = fake_gpu()
    cuda.resident_blocks = 4
    bench = Bench(gpu)
    bench._launch_s = {(1, 1): 2e-6, (16, 8): 5e-6, (4, 64): 3e-6}
    all_of_it = bench.spin_of(program.Kernel(1, duration_s=105e-6))
    quarter = bench.spin_of(program.Kernel(1, duration_s=643e-6, fill=0.25))
    assert [(one.blocks, one.slices) for one in (all_of_it, quarter)] == [(8 * 16, 1), (4, 64)]
    assert [8 * all_of_it.slice_s, 64 * quarter.slice_s] == pytest.approx([100e-6, 640e-6])
    nothing = bench.spin_of(program.Kernel(1, duration_s=1e-6))  # what no launch is over in
    assert (nothing.blocks, nothing.parameter(0) & ((1 << NS_BITS) - 1)) == (1, 0)


def test_a_program_is_issued_in_order_and_timed_by_events_around_it() -> None:
    """The plain run is the program; in the timed one the other stream waits for the start, and its end is joined."""
    there, back = Copy("h2d", N, 1, HOST, DEVICE), Copy("d2h", N, 2, HOST, DEVICE)
    ops = (there, RecordEvent(0, 1), WaitEvent(0, 2), back, Synchronize(stream=2))
    schedule = Schedule(ops, ("non-blocking", "non-blocking"), BUFFERS, 1)
    issued = [
        ("memcpyAsync", "d+16", "h", "64", "1", "s1"),
        ("eventRecord", "e0", "s1"),
        ("streamWaitEvent", "s2", "e0"),
        ("memcpyAsync", "h", "d+16", "64", "2", "s2"),
    ]
    closing = [("streamSynchronize", "s2"), ("deviceSynchronize",)]
    timed = [
        ("eventRecord", "start", "s1"),
        ("streamWaitEvent", "s2", "start"),
        *issued,
        ("eventRecord", "e3", "s2"),
        ("streamWaitEvent", "s1", "e3"),
        ("eventRecord", "stop", "s1"),
        *closing,
        ("eventElapsedTime", "start", "stop"),
    ]
    assert logged(schedule) == [*issued, *closing, ("--",), *timed]


def test_a_graph_is_launched_once_between_two_timing_events() -> None:
    calls = logged(program.depth_first(SMALL, 3, 2, launch="graph"))
    names = [call[0] for call in calls]
    assert names == [
        "graphLaunch", "deviceSynchronize", "--",
        "eventRecord", "graphLaunch", "eventRecord", "deviceSynchronize", "eventElapsedTime",
    ]  # fmt: skip
    assert [calls[3][1], calls[5][1]] == ["start", "stop"]


FLOATS = [WorkloadKernel("sincos", parameter=3), WorkloadKernel("vector_add")]
BYTES = [WorkloadKernel("copy"), WorkloadKernel("sleep", parameter=10), WorkloadKernel("timed", 1e-5)]


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Any pattern of any small workload, or of one whose host data repeats."""
    kernels = draw(st.lists(st.sampled_from(FLOATS + BYTES), min_size=1, max_size=2))
    widths = st.sampled_from([4, 8, 16] if set(kernels) & set(FLOATS) else [2, 3, 5, 8])
    inputs = draw(st.lists(widths, max_size=3))
    outputs = draw(st.lists(widths, min_size=not inputs, max_size=3))
    elements = draw(st.integers(30, 400) | st.just(2 * PERIOD + 1001))
    workload = Workload(elements, tuple(inputs), tuple(outputs), tuple(kernels))
    build: Callable[..., Schedule] = draw(st.sampled_from(list(PATTERNS.values())))
    most = {"chunks": 9, "streams": 5, "lanes": 5, "buffers": 4}
    given: dict[str, Any] = {name: draw(st.integers(1, count)) for name, count in most.items()}
    given |= draw(st.sampled_from([{"memory": "pageable"}, {"launch": "graph"}, {}]))
    known = signature(build).parameters
    found: Schedule = build(workload, **{name: value for name, value in given.items() if name in known})
    return found


@examples(100)
@given(programs(), st.integers(0, 1 << 30))
def test_every_pattern_leaves_what_its_bytes_would_in_any_order_cuda_allows(schedule: Schedule, seed: int) -> None:
    """In every buffer, not only in the output."""
    gpu, cuda = fake_gpu(seed)
    (result,) = replayed([Planned("x", schedule)], gpu, 1)
    assert (result.status, result.verified, len(result.wall_s)) == ("ok", True, 1)
    assert cuda.device_bytes == 0  # everything is given back
    plain = plainly(schedule)
    with closing(Bench(gpu)) as bench:
        prepare(bench, [schedule])
        replayer = Replayer(schedule, bench)
        for timed in (False, True):
            replayer.verify(timed)
            for key, size in buffers_of(schedule).items():
                assert np.array_equal(bench.arena.read(key, size), plain[key.name]), key


@given(st.integers(1, 5000), st.data())
def test_one_wrong_byte_is_found_wherever_it_is(n: int, draw: st.DataObject) -> None:
    expected = data("x", n)
    got = expected.copy()
    check_content("x", got, expected)
    place = draw.draw(st.integers(0, n - 1))
    got[place] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(WrongOutputError, match=rf"byte {place} of 'x' .* \(1 of {n} bytes differ\)"):
        check_content("x", got, expected)


def _statuses(schedule: Schedule, seeds: int = 12) -> list[str]:
    gpus = (fake_gpu(seed)[0] for seed in range(seeds))
    return [replayed([Planned("x", schedule)], gpu, 1, allow_races=True)[0].status for gpu in gpus]


RINGS = [program.ring(SMALL, 8, 3, 2, launch=launch) for launch in ("live", "graph")]


@pytest.mark.parametrize("schedule", [*RINGS, program.prefetch(SMALL, 6, 2), stages(SMALL, 6, 2)])
def test_a_race_is_caught(schedule: Schedule) -> None:
    """Without its waits the pattern computes something else in some order that CUDA allows."""
    racing = msgspec.structs.replace(schedule, ops=tuple(op for op in schedule.ops if not isinstance(op, WaitEvent)))
    assert set(_statuses(schedule)) == {"ok"}
    assert any("wrong output" in status for status in _statuses(racing))


def test_a_copy_that_never_ran_is_caught() -> None:
    """The destination is poisoned, so what an earlier run left there does not pass for output."""
    bench = Bench(fake_gpu()[0])
    schedule = program.depth_first(SMALL, 3, 1)
    prepare(bench, [schedule])
    replayer = Replayer(schedule, bench)
    assert replayer.verify()
    lost = replayer._plain.issue.pop()  # the last D2H copy
    assert lost[0].__name__ == "logged"
    with pytest.raises(WrongOutputError, match=r"byte 2680 of 'h_out0' is 0xa5, .* \(1\d{3} of 4012 bytes differ\)"):
        replayer.verify()  # chunks of 335, 335 and 333 elements: the last begins at 670


def test_a_kernel_that_goes_wrong_later_loses_its_samples() -> None:
    """Correct when first verified, wrong from the fifth launch on: the second verification sees it."""
    register(KernelSpec("wrong", 'extern "C" __global__ void wrong(const Arrays a) { drifts }'))
    launches = count(1)

    def emulated(launch: Launch) -> None:
        launch.writes[0][:] = launch.reads[0] if next(launches) < 5 else 7

    gpu, _ = fake_gpu(kernels={"wrong": emulated})
    workload = Workload(100, (4,), (4,), (WorkloadKernel("wrong"),))
    (result,) = replayed([Planned("x", program.depth_first(workload, 1, 1))], gpu, 3)
    assert "wrong output" in result.status
    assert result.wall_s == ()


def test_a_wait_for_an_event_not_recorded_is_a_no_op_live_and_in_a_graph() -> None:
    """In a capture CUDA would refuse it; the language says that it does nothing.

    CUDA also refuses to wait, outside a capture, for an event that was last recorded in one.
    """
    later = (WaitEvent(0, 1), Copy("h2d", N, 1, HOST, DEVICE), RecordEvent(0, 1), Synchronize())
    never = Schedule((WaitEvent(0, 1), Copy("h2d", N, 1), Synchronize(event=0)), ("non-blocking",), events=1)
    graph = program.ring(SMALL, 4, 3, 2, launch="graph")
    jobs = [Planned(way, Schedule(later, ("non-blocking",), BUFFERS, 1, way)) for way in ("live", "graph")]
    jobs += [Planned("ring", graph), Planned("never", never)]
    for order in (jobs, jobs[::-1]):
        assert [found.status for found in replayed(order, fake_gpu()[0], 2)] == ["ok"] * 4


# Many schedules: groups, order, interruption, probes


replace = msgspec.structs.replace


def _items(n: int) -> list[Planned]:
    return [Planned(str(i), replace(program.depth_first(SMALL, 1 + i, 2), name=str(i))) for i in range(n)]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the schedules that are run, in order."""
    found: list[str] = []
    run = Replayer.run

    def watched(self: Replayer) -> Sample:
        found.append(self.schedule.name)
        return run(self)

    monkeypatch.setattr(Replayer, "run", watched)
    return found


def test_repeats_are_interleaved_in_an_order_shuffled_by_the_seed(order: list[str]) -> None:
    for seed in (1, 1, 2):
        replayed(_items(5), fake_gpu()[0], 4, seed)
    first, again, other = (order[end - 20 : end] for end in (30, 60, 90))  # behind ten runs that warm up
    rounds = [first[i : i + 5] for i in range(0, 20, 5)]
    assert all(sorted(a_round) == list("01234") for a_round in rounds)
    assert len({tuple(a_round) for a_round in rounds}) > 1
    assert first == again != other


SMALL_COPY = Schedule((Copy("h2d", N, 1, HOST, DEVICE),), ("non-blocking",), BUFFERS)


def test_host_and_link_are_measured_just_before_each_sample_of_a_job_and_just_after(
    order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host that takes 1, 2, 3 ... ms for the pace, the means are 1.5, 3.5, 5.5 ... ms; so for the link."""
    pace, link = (replace(SMALL_COPY, name=name) for name in ("pace", "link"))
    results = replayed(_items(3), fake_gpu()[0], 2)
    assert [(result.paces_s, result.links_s) for result in results] == [((), ())] * 3
    order.clear()

    def read(self: Replayer) -> float:
        order.append(self.schedule.name)
        return order.count(self.schedule.name) * 1e-3

    run_s = Replayer.device_s
    monkeypatch.setattr(Replayer, "issue", read)
    monkeypatch.setattr(Replayer, "device_s", lambda self: (read if self.schedule.name == "link" else run_s)(self))
    results = replayed(_items(3), fake_gpu()[0], 2, probes=(pace, link))
    for name in ("paces_s", "links_s"):
        each = [getattr(result, name) for result in results]
        assert sorted(chain(*each)) == pytest.approx([(2 * k + 1.5) * 1e-3 for k in range(6)])
        assert [len(own) for own in each] == [2] * 3
    around = [name if name in ("pace", "link") else "job" for name in order[order.index("pace") :]]
    assert around == ["pace", "link", "job", "link", "pace"] * 6


def test_a_cuda_error_in_one_schedule_is_one_line_and_the_others_go_on() -> None:
    gpu, cuda = fake_gpu()

    def fail(name: str, arguments: tuple[object, ...]) -> None:
        if name == "memcpyAsync" and arguments[2] == N:
            raise FakeError("invalid argument")

    cuda.fail_at = fail
    bad, good = replayed([Planned("bad", SMALL_COPY), Planned("good", program.depth_first(SMALL, 2, 2))], gpu, 2)
    assert bad.status == "failed: the schedule: FakeError: invalid argument"
    assert good.status == "ok"


def test_memory_is_checked_before_it_is_allocated() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_device_bytes = 100 << 20  # 64 MiB of it are kept spare
    large = program.depth_first(pipeline_of(5 << 20), 2, 2)  # 20 MiB each way
    cuda.log.clear()
    big, small = replayed([Planned("big", large), Planned("small", program.depth_first(SMALL, 2, 2))], gpu, 1)
    assert big.status.startswith("skipped: buffers: 40 MiB of device memory are needed and 36 MiB are free")
    assert small.status == "ok"
    assert max(call[1] for call in cuda.log if call[0] == "malloc") < 1 << 20
