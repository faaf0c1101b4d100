"""What a replay leaves in memory: against the bytes themselves, one wrong one found wherever it is."""

from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest
from fake_gpu.cuda import fake_gpu, plainly
from hypothesis import given
from hypothesis import strategies as st

from streamsim.program import Schedule, Workload, WorkloadKernel, breadth_first, depth_first, prefetch, ring
from streamsim_validate.gpu import Bench, Replayer, buffers_of, prepare
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
