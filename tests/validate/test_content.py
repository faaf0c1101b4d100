"""What a schedule leaves in its buffers: against the bytes themselves, one wrong one found wherever it is."""

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.program import (
    Copy,
    Kernel,
    Region,
    Schedule,
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    prefetch,
    ring,
)
from streamsim_validate.gpu import Arrays, Key, buffers_of, find_kernel, kernels
from streamsim_validate.gpu.kernels import PERIOD, Argument, compute_reference, elements_of, stand_in
from streamsim_validate.gpu.memory import (
    DEVICE_POISON,
    HOST_POISON,
    Content,
    WrongOutputError,
    data,
    host_buffers,
    outputs,
    run_reference,
)


@given(st.integers(1, 5000), st.data())
def test_one_wrong_byte_is_found_wherever_it_is(n: int, draw: st.DataObject) -> None:
    content = Content.of(data("x", n))
    got = content.bytes.copy()
    content.check("x", got)
    place = draw.draw(st.integers(0, n - 1))
    got[place] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(WrongOutputError, match=rf"byte {place} of 'x' .* \(1 of {n} bytes differ\)"):
        content.check("x", got)


@given(st.integers(0, PERIOD - 1), st.integers(1, 2 * PERIOD), st.data())
def test_one_float_too_far_is_found_wherever_it_is(first: int, n: int, draw: st.DataObject) -> None:
    """All floats are off by less than the tolerance, and one by more."""
    floats = np.resize(np.roll(data("x", 4 * PERIOD).view(np.float32), -first), n)
    content = Content.of(floats.view(np.uint8), tolerance=1e-3)
    of_card = floats + np.float32(5e-4)
    content.check("x", of_card.view(np.uint8))
    place = draw.draw(st.integers(0, n - 1))
    of_card[place] += np.float32(1e-3)
    with pytest.raises(WrongOutputError, match=rf"float {place} of 'x' .* \(1 of {n} differ\)"):
        content.check("x", of_card.view(np.uint8))


# Schedules


def plainly(schedule: Schedule) -> dict[str, np.ndarray]:
    """The outputs, by the bytes of every buffer and each kernel's own reference on all of its elements."""
    sources = host_buffers(schedule, "h2d")
    memory = {}
    for key, size in buffers_of(schedule).items():
        poison = DEVICE_POISON if key.memory == "device" else HOST_POISON
        memory[key.name] = data(key.name, size) if key.name in sources else np.full(size, poison, np.uint8)

    def at(region: Region) -> np.ndarray:
        return memory[region.buffer][region.offset : region.offset + region.bytes]

    for op in schedule.ops:
        if isinstance(op, Copy):
            assert op.host
            assert op.device
            to, source = (op.device, op.host) if op.direction == "h2d" else (op.host, op.device)
            at(to)[:] = at(source)
        elif isinstance(op, Kernel):
            spec = find_kernel(op)
            n = elements_of(spec, op)
            assert spec.reference
            inputs = [at(region).copy().reshape(n, -1) for region in op.reads]
            results = spec.reference(inputs, [region.bytes // n for region in op.writes], n, op.parameter)
            for region, result in zip(op.writes, results, strict=False):
                at(region)[:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)
    return {key.name: memory[key.name] for key in outputs(schedule)}


SINCOS, ADD, COPY = WorkloadKernel("sincos", None, 2), WorkloadKernel("vector_add"), WorkloadKernel("copy")
TIMED = WorkloadKernel("timed", 1e-4)
LARGE = 2 * PERIOD + 1001
WORKLOADS = [
    Workload(LARGE, kernels=(SINCOS,)),
    Workload(LARGE, (4, 12), (8, 4), (SINCOS, ADD)),
    Workload(LARGE, (16,), (4,), (SINCOS, COPY)),
    Workload(LARGE, (8, 4), (), (SINCOS, ADD)),
    Workload(4 * LARGE, (3, 5), (2, 7), (COPY,)),
    Workload(LARGE, (4, 8), (8, 4, 12), (TIMED,)),
    Workload(LARGE, (4,), (), (TIMED, SINCOS)),
    Workload(LARGE, (), (4,), (ADD,)),
    Workload(997, (4, 4), (4, 4), (SINCOS, COPY)),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
@pytest.mark.parametrize(
    "cut",
    [
        lambda workload: depth_first(workload, 1, 1),
        lambda workload: breadth_first(workload, 7, 3),
        lambda workload: ring(workload, 5, 2),
        lambda workload: prefetch(workload, 3),
    ],
    ids=("whole", "breadth-first", "ring", "prefetch"),
)
def test_a_schedule_leaves_what_its_bytes_would(workload: Workload, cut: Callable[[Workload], Schedule]) -> None:
    schedule = cut(workload)
    found = run_reference(schedule)
    plain = plainly(schedule)
    assert {key.name for key in found} == set(plain)
    for key, content in found.items():
        assert np.array_equal(content.bytes, plain[key.name])


# Kernels


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_REGISTRY", dict(kernels._REGISTRY))


def apply(name: str, reads: list[np.ndarray], widths: list[int], elements: int, parameter: int = 0) -> list[np.ndarray]:
    rows = [array.reshape(elements, -1) for array in reads]
    return compute_reference(find_kernel(Kernel(1, name, elements, parameter)), rows, widths, elements, parameter)


def test_float32_iteration_stays_within_the_tolerance() -> None:
    """An independent single-precision iteration, as the card does it, over many starts."""
    start = np.random.default_rng(0).random(20_000, np.float32) * np.float32(4)
    for iterations in (1, 2, 10, 40, 176):
        x = start.copy()
        for _ in range(iterations):
            x = np.sin(x) * np.cos(x)
        (want,) = apply("sincos", [start.view(np.uint8)], [4], len(start), iterations)
        worst = float(np.abs(x - want.view(np.float32)).max())
        assert 0 < worst < kernels.sincos_tolerance(iterations)


def test_the_argument_is_laid_out_as_in_the_source() -> None:
    """Four 8-byte numbers, then four pointers and four widths for each side; a launch takes a pointer to a pointer."""
    argument = Argument(7, 9, [(0x1000, 4)], [(0x2000, 8), (0x3000, 16)])
    assert ctypes.sizeof(Arrays) == 8 * (4 + 4 * 4)
    inner = ctypes.c_void_p.from_address(argument.address).value
    assert inner is not None
    words = list((ctypes.c_longlong * 20).from_address(inner))
    assert words == [7, 9, 1, 2, 0x1000, 0, 0, 0, 4, 0, 0, 0, 0x2000, 0x3000, 0, 0, 8, 16, 0, 0]


def test_the_stand_in_takes_what_is_predicted() -> None:
    """2 ms over a million elements, on a card of 8192 threads: all of it, or the share that it is said to fill.

    A part of a launch takes what the model says of it: of 2 ms, of which 4 us are the launch, an eighth takes
    4 + 1996 / 8 us on all of the card. A small part takes and holds what a few threads do.
    """
    assert stand_in(Kernel(1, elements=10**6, duration_s=2e-3), 8192, 4e-6) == pytest.approx((2e-3, 1.0))
    assert stand_in(Kernel(1, elements=10**6, duration_s=2e-3, fill=0.3), 8192, 4e-6) == pytest.approx((2e-3, 0.3))
    assert stand_in(Kernel(1, duration_s=250e-6, share=1 / 8), 8192, 4e-6) == pytest.approx((253.5e-6, 1.0))
    waves = 2**20 / 8192
    took_s, share = stand_in(Kernel(1, duration_s=2e-3 / 2048, share=1 / 2048, threads=512), 8192, 0.0)
    assert took_s == pytest.approx(2e-3 / waves / 4)
    assert share == pytest.approx(2e-3 / 2048 / took_s)


# Whole schedules


def test_the_tolerance_follows_the_data() -> None:
    """Twice sincos in a row may be off twice as far; a ring's slot that is filled anew starts anew."""
    once, twice = (
        run_reference(ring(Workload(100, (4,), (4,), (WorkloadKernel("sincos", parameter=4),) * n), 10, 2))[
            Key("pinned", "h_out0")
        ].tolerance.max()
        for n in (1, 2)
    )
    assert once == np.float32(kernels.sincos_tolerance(4))
    assert twice == once  # both kernels of a chunk read the input and write the output
    in_place = run_reference(ring(Workload(100, (4,), (), (WorkloadKernel("sincos", parameter=4),) * 2), 10, 2))
    assert {output.tolerance.max() for output in in_place.values()} == {2 * once}
