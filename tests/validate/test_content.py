"""What a replay leaves in memory: against the bytes themselves, one wrong one found wherever it is."""

import ctypes
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest
from fake_gpu.cuda import fake_gpu, plainly
from hypothesis import given
from hypothesis import strategies as st

from streamsim.program import Kernel, Schedule, Workload, WorkloadKernel, breadth_first, depth_first, prefetch, ring
from streamsim_validate.gpu import Arrays, Bench, Replayer, buffers_of, prepare
from streamsim_validate.gpu.kernels import Argument, stand_in
from streamsim_validate.gpu.memory import PERIOD, WrongOutputError, check_content, data


@given(st.integers(1, 5000), st.data())
def test_one_wrong_byte_is_found_wherever_it_is(n: int, draw: st.DataObject) -> None:
    expected = data("x", n)
    got = expected.copy()
    check_content("x", got, expected)
    place = draw.draw(st.integers(0, n - 1))
    got[place] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(WrongOutputError, match=rf"byte {place} of 'x' .* \(1 of {n} bytes differ\)"):
        check_content("x", got, expected)


# Schedules


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
        lambda workload: ring(workload, 8, 3, 2, launch="graph"),
    ],
    ids=("whole", "breadth-first", "ring", "prefetch", "graph"),
)
def test_a_schedule_leaves_what_its_bytes_would(workload: Workload, cut: Callable[[Workload], Schedule]) -> None:
    """In every buffer, whatever the order in which the card runs its ops."""
    schedule = cut(workload)
    plain = plainly(schedule)
    with closing(Bench(fake_gpu(seed=5)[0])) as bench:
        prepare(bench, [schedule])
        assert Replayer(schedule, bench).verify() is bool(schedule.buffers)
        for key, size in buffers_of(schedule).items():
            assert np.array_equal(bench.arena.read(key, size), plain[key.name]), key


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
