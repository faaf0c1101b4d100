"""What a schedule leaves in its buffers: against the bytes themselves, one wrong one found wherever it is."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsim.program import (
    Buffer,
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
from streamsim_validate.gpu import buffers_of, find_kernel
from streamsim_validate.gpu.kernels import PERIOD, elements_of
from streamsim_validate.gpu.memory import DEVICE_POISON, HOST_POISON, data
from streamsim_validate.gpu.reference import Content, WrongOutputError, host_buffers, outputs, run_reference


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


def test_a_region_that_is_read_partly_from_elsewhere_counts_its_worst_part() -> None:
    """Half of what the second kernel adds is as the first left it, half as it was copied: as far off as the first."""
    n = 64
    first = Kernel(1, "sincos", n // 2, 3, reads=(Region("d", 0, 2 * n),), writes=(Region("d", 0, 2 * n),))
    second = Kernel(1, "vector_add", n, reads=(Region("d", 0, 4 * n),), writes=(Region("e", 0, 4 * n),))
    there = Copy("h2d", 4 * n, 1, Region("h", 0, 4 * n), Region("d", 0, 4 * n))
    back = Copy("d2h", 4 * n, 1, Region("back", 0, 4 * n), Region("e", 0, 4 * n))
    host = (Buffer("h", 4 * n, "pinned"), Buffer("back", 4 * n, "pinned"))
    buffers = (*host, *(Buffer(name, 4 * n, "device") for name in ("d", "e")))
    (output,) = run_reference(Schedule((there, first, second, back), ("non-blocking",), buffers)).values()
    assert output.tolerance.max() == np.float32(find_kernel(first).tolerance(3)) > 0
