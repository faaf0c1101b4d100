"""On a real card: every pattern replays with its output verified, and wrong output is caught."""

import statistics
from contextlib import closing

import msgspec
import numpy as np
import pytest
from fake_gpu.cuda import plainly, replayed

from streamsim import program
from streamsim_validate.gpu import Bench, Gpu, KernelSpec, Key, Replayer, kernels, prepare, register
from streamsim_validate.gpu.memory import check_content, outputs
from streamsim_validate.records import Recipe
from streamsim_validate.records.record import PATTERNS
from streamsim_validate.run import Planned
from streamsim_validate.suites import KI, MI

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_REGISTRY", dict(kernels._REGISTRY))


SINCOS = program.WorkloadKernel("sincos", parameter=20)
WORKLOADS = {
    "sincos": program.Workload(1_000_003, (4,), (4,), (SINCOS,)),
    "vector add": program.Workload(300_001, (4, 4), (4,), (program.WorkloadKernel("vector_add"),)),
    "quarter output": program.Workload(300_001, (16,), (4,), (SINCOS,)),
    "no output": program.Workload(300_001, (4,), (), (SINCOS,)),
    "odd bytes": program.Workload(300_001, (3, 5), (2, 7), (program.WorkloadKernel("copy"),)),
    "sleep": program.Workload(300_001, (4,), (4,), (program.WorkloadKernel("sleep", parameter=2000),)),
    "anonymous": program.Workload(300_001, (4,), (4,), (program.WorkloadKernel(duration_s=1e-4),)),
    "several kernels": program.Workload(300_001, (4,), (4,), (SINCOS, program.WorkloadKernel("copy"), SINCOS)),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_pattern_replays_with_its_output_verified(gpu: Gpu, name: str) -> None:
    workload = WORKLOADS[name]
    schedules = []
    for memory in ("pinned", "pageable"):
        schedules += [
            program.serial(workload, 3, memory=memory),
            program.depth_first(workload, 7, 3, memory=memory),
            program.breadth_first(workload, 7, 3, memory=memory),
            program.ring(workload, 7, 2, memory=memory),
            program.ring(workload, 7, 3, 2, memory=memory),
            program.prefetch(workload, 5, memory=memory),
        ]
    schedules += [
        program.depth_first(workload, 7, 3, launch="graph"),
        program.ring(workload, 7, 3, 2, launch="graph"),
        program.prefetch(workload, 5, launch="graph"),
    ]
    results = replayed([Planned(str(i), schedule) for i, schedule in enumerate(schedules)], gpu, repeats=3)
    assert [(r.status, r.verified, len(r.wall_s)) for r in results] == [("ok", True, 3) for _ in schedules]
    for found in results:
        times = zip(found.device_s, found.issue_s, found.wall_s, strict=True)
        assert all(device_s > 0 and 0 < issue_s <= wall_s for device_s, issue_s, wall_s in times)


@pytest.mark.parametrize("pattern", ["legacy", "legacy-kernels", "blocking-streams", "stages", "relay"])
def test_the_suites_own_patterns_replay(gpu: Gpu, pattern: str) -> None:
    second = {"stages": {"lanes": 2}, "legacy": {}}.get(pattern, {"streams": 3})
    recipe = Recipe(pattern, {"chunks": 5, **second}, WORKLOADS["sincos"], "test")
    assert pattern in PATTERNS
    (result,) = replayed([Planned("x", recipe.schedule())], gpu, repeats=2)
    assert (result.status, result.verified) == ("ok", True)


def test_every_op_of_the_language_replays(gpu: Gpu) -> None:
    """Blocking copies, also in the legacy stream, anonymous ones, an event not recorded, every synchronise."""
    n = 1 << 16
    host, device = program.Region("h", 0, n), program.Region("d", 0, n)
    schedule = program.Schedule(
        ops=(
            program.WaitEvent(1, 1),
            program.Copy("h2d", n, 1, host, device, blocking=True),
            program.Kernel(2, duration_s=5e-5),
            program.Copy("h2d", 4096, 2),
            program.Copy("d2h", 4096, 2, blocking=True),
            program.RecordEvent(0, 2),
            program.Synchronize(event=0),
            program.Synchronize(stream=2),
            program.Copy("d2h", n, 0, program.Region("back", 0, n), device, blocking=True),
            program.Synchronize(),
        ),
        streams=("non-blocking", "blocking"),
        buffers=(
            program.Buffer("h", n, "pinned"),
            program.Buffer("back", n, "pageable"),
            program.Buffer("d", n, "device"),
        ),
        events=2,
    )
    (result,) = replayed([Planned("x", schedule)], gpu, repeats=2)
    assert (result.status, result.verified, len(result.wall_s)) == ("ok", True, 2)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_card_leaves_what_numpy_computes(gpu: Gpu, name: str) -> None:
    """Sinf and cosf are within 2 ulp each, and the map shrinks earlier errors: they add up like a square root."""
    schedule = program.ring(WORKLOADS[name], 7, 3, 2)
    with closing(Bench(gpu)) as bench:
        prepare(bench, [schedule])
        Replayer(schedule, bench).verify()
        plain = plainly(schedule)
        for key, size in outputs(schedule).items():
            found, expected = bench.arena.read(key, size), plain[key.name]
            if size % 4:
                check_content(key.name, found, expected)
            else:
                np.testing.assert_allclose(found.view(np.float32), expected.view(np.float32), rtol=0, atol=4e-6)


def test_a_kernel_that_writes_wrong_output_is_caught(gpu: Gpu) -> None:
    """One that adds the card's clock to an element, so that no two runs agree."""
    source = """extern "C" __global__ void never_the_same(const Arrays a) {
        long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (i < a.elements) ((long long*)a.out[0])[i] = ((const long long*)a.in[0])[i] + (i == 20000 ? clock64() : 0);
    }"""
    register(KernelSpec("never_the_same", source))
    workload = program.Workload(100_000, (8,), (8,), (program.WorkloadKernel("never_the_same"),))
    jobs = [
        Planned("wrong", program.depth_first(workload, 3, 2)),
        Planned("right", program.depth_first(WORKLOADS["sincos"], 3, 2)),
    ]
    wrong, right = replayed(jobs, gpu, 2)
    assert "wrong output: byte 1600" in wrong.status
    assert not wrong.wall_s
    assert right.status == "ok"


def test_a_kernel_that_does_not_compile_is_one_clear_line(gpu: Gpu) -> None:
    register(KernelSpec("broken", 'extern "C" __global__ void broken(const Arrays a) { a.elements = 1 }'))
    workload = program.Workload(1000, (4,), (4,), (program.WorkloadKernel("broken"),))
    (result,) = replayed([Planned("x", program.depth_first(workload, 1, 1))], gpu, 2)
    assert "kernel 'broken': the CUDA source does not compile" in result.status
    assert "error" in result.status
    assert "\n" not in result.status


def test_a_users_kernel(gpu: Gpu) -> None:
    source = """extern "C" __global__ void twice(const Arrays a) {
        long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (i < a.elements) ((float*)a.out[0])[i] = 2.0f * ((const float*)a.in[0])[i];
    }"""
    register(KernelSpec("twice", source))
    workload = program.Workload(200_000, (4,), (4,), (program.WorkloadKernel("twice"),))
    (result,) = replayed([Planned("x", program.depth_first(workload, 4, 2))], gpu, 2)
    assert (result.status, result.verified) == ("ok", True)


def launch_s(bench: Bench, kernel: program.Kernel, lengths: tuple[int, int] = (3, 11), runs: int = 7) -> float:
    """Seconds of one launch among others in one stream: the difference of two chains over that of their lengths."""
    buffers = tuple(
        program.Buffer(region.buffer, region.bytes, "device")
        for region in dict.fromkeys((*kernel.reads, *kernel.writes))
    )
    schedules = [program.Schedule((kernel,) * n, ("non-blocking",), buffers) for n in lengths]
    prepare(bench, schedules)
    short, long = (Replayer(schedule, bench) for schedule in schedules)
    difference_s = statistics.median(long.run().device_s - short.run().device_s for _ in range(runs))
    return difference_s / (lengths[1] - lengths[0])


FILLS = (0.1, 0.3, 0.5, 0.6, 0.9, 1.0)


@pytest.mark.parametrize("duration_s", [50e-6, 200e-6, 1e-3, 5e-3])
def test_the_stand_in_takes_the_time_it_is_told(gpu: Gpu, duration_s: float) -> None:
    """Within 1 %, wherever passing its bytes through, which a kernel that is told no time does, takes under half of it.

    Over the whole range of launches and shares of the card; at the full share the grid is just what fits at once, and
    one block more than fits would take twice the time.
    """
    bench = Bench(gpu)
    told = [_told(elements, fill, duration_s) for elements in (64 * KI, MI, 16 * MI) for fill in FILLS]
    passes_s = [launch_s(bench, msgspec.structs.replace(kernel, duration_s=1e-9), runs=3) for kernel in told]
    held = [kernel for kernel, pass_s in zip(told, passes_s, strict=True) if pass_s < duration_s / 2]
    assert len(held) >= 5
    missed = [kernel for kernel in held if launch_s(bench, kernel) != pytest.approx(duration_s, rel=0.01)]
    bench.close()
    bench = Bench(gpu)  # of six on an H100 one had all launches half a microsecond farther apart
    again_s = {(kernel.elements, kernel.fill): launch_s(bench, kernel) for kernel in missed}
    bench.close()
    assert {key: found for key, found in again_s.items() if found != pytest.approx(duration_s, rel=0.01)} == {}


def _told(elements: int, fill: float, duration_s: float) -> program.Kernel:
    reads, writes = ((program.Region(name, 0, 4 * elements),) for name in ("from", "to"))
    return program.Kernel(1, "told", elements, duration_s=duration_s, fill=fill, reads=reads, writes=writes)


def test_the_stand_in_leaves_the_rest_of_the_card_to_others(gpu: Gpu) -> None:
    """Two that fill 0.4 of it each run side by side.

    Of two that fill 0.8 the second has 0.2 of the card until the first is over, so a quarter of its work is done, and
    three quarters of its time are left. One that fills the card has the 0.6 that the other leaves, and then all.
    """
    for fills, times in (((0.4, 0.4), 1.0), ((0.8, 0.8), 1.75), ((0.4, 1.0), 1.4)):
        ops = tuple(program.Kernel(stream, duration_s=2e-3, fill=fill) for stream, fill in enumerate(fills, 1))
        (result,) = replayed([Planned("x", program.Schedule(ops, ("non-blocking",) * 2))], gpu, 7)
        assert statistics.median(result.device_s) == pytest.approx(times * 2e-3, rel=0.04)


@pytest.mark.parametrize(
    ("reads", "writes"),
    [
        (((0, 4096),), ((0, 4096),)),  # words of 16 bytes
        (((4, 1000),), ((8, 1000),)),  # of 4 bytes
        (((1, 999),), ((3, 1001),)),  # byte by byte, and repeated
        (((0, 7),), ((0, 100_003),)),
        (((0, 48),), ((16, 1_000_001),)),  # repeated by words, and the rest of one
        (((0, 5000), (8192, 3000)), ((0, 1234), (4096, 3001), (16384, 70_000))),
    ],
)
def test_the_stand_in_passes_bytes_of_any_number_through(
    gpu: Gpu, reads: tuple[tuple[int, int], ...], writes: tuple[tuple[int, int], ...]
) -> None:
    """At any place; byte for byte what NumPy makes of it, the bytes around them untouched."""
    n = 1 << 21
    sides = [
        tuple(program.Region(name, *place) for place in places) for name, places in (("in", reads), ("out", writes))
    ]
    kernel = program.Kernel(1, "told", duration_s=2e-5, reads=sides[0], writes=sides[1])
    there = program.Copy("h2d", n, 1, program.Region("h_in", 0, n), program.Region("in", 0, n))
    back = program.Copy("d2h", n, 1, program.Region("h_out", 0, n), program.Region("out", 0, n))
    pinned, device = (("h_in", "h_out"), ("in", "out"))
    buffers = (
        *(program.Buffer(name, n, "pinned") for name in pinned),
        *(program.Buffer(name, n, "device") for name in device),
    )
    schedule = program.Schedule((there, kernel, back), ("non-blocking",), buffers)
    with closing(Bench(gpu)) as bench:
        prepare(bench, [schedule])
        assert Replayer(schedule, bench).verify()
        assert np.array_equal(bench.arena.read(Key("pinned", "h_out"), n), plainly(schedule)["h_out"])
