"""What the host does before it issues a chunk, such as a data loader, and prefetching beside it."""

from itertools import accumulate

import pytest
from effort import examples
from grids import EVALUATORS, grids, workloads
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import NS, devices, make_device
from sweeps import rows_of
from whole_workloads import whole_programs

from streamsim import program
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.search import Grid, evaluate_ticks, sweep

CARD = make_device()  # a byte a tick each way, calls cost nothing


def steps(host: int, kernel: int = 12, count: int = 3, back: int = 0, load: int = 0) -> program.Workload:
    """So many steps that copy 10 bytes in, run a kernel of so many ticks, and copy so many bytes back."""
    kernels = (program.WorkloadKernel(duration_s=count * kernel * NS),)
    outputs = (back,) if back else ()
    return program.Workload(count, (10,), outputs, kernels, host_work_s=host * NS, host_load_s=load * NS)


def starts(schedule: program.Schedule, device: Device = CARD) -> tuple[list[int], list[int], int]:
    """The ticks at which copies in and kernels start, and the last at which anything ends."""
    found = simulate(schedule, device)
    of = [
        [t for t, op in zip(found.start, schedule, strict=True) if isinstance(op, kind)]
        for kind in (program.Copy, program.Kernel)
    ]
    return of[0], of[1], round(found.makespan_s / NS)


def test_a_slow_loader_by_hand() -> None:
    # The host works 15 ticks before each step, a copy takes 10, a kernel 12. Blocking copies hold the host, kernels do
    # not: it loads beside them. 15 + 10 + max(12, 15) + 10 + max(12, 15) + 10 + 12 = 87.
    work = steps(15)
    assert starts(program.Config("serial", 3).schedule(work)) == ([15, 40, 65], [25, 50, 75], 87)
    # Copies that do not block: loaded at 15, 30, 45. In one stream a copy waits for the kernel before it.
    assert starts(program.Config("depth-first", 3).schedule(work)) == ([15, 37, 59], [25, 47, 69], 81)
    # With a prefetcher the kernel of a step is issued behind the copy in of the next, at 30, 45 and 45. The third copy
    # waits for the first kernel, whose buffer it takes, until 42, and is not issued before 45.
    assert starts(program.Config("prefetch", 3).schedule(work)) == ([15, 30, 45], [30, 45, 57], 69)


@examples(100)
@given(whole_programs())
def test_it_adds_its_time_before_each_chunk_and_nothing_else(asked: tuple[program.Workload, program.Config]) -> None:
    workload, config = asked
    made = config.schedule(workload)
    idle = config.schedule(replace(workload, host_work_s=0.0, host_load_s=0.0))
    assert [op for op in made if not isinstance(op, program.HostWork)] == list(idle.ops)  # and none where it has none
    work = [op.duration_s for op in made if isinstance(op, program.HostWork)]
    whole = config.chunks * workload.host_work_s + workload.host_load_s
    assert sum(work) == pytest.approx(whole)
    assert len(work) == (config.chunks if whole else 0)
    if made.unchunked is not None:  # the unchunked program does as much
        once = [op.duration_s for op in made.unchunked if isinstance(op, program.HostWork)]
        assert sum(once) == pytest.approx(whole)


@examples(100)
@given(whole_programs(), devices())
def test_no_program_ends_before_the_host_has_done_its_work(
    asked: tuple[program.Workload, program.Config], device: Device
) -> None:
    # It issues something behind each of its stretches, in whole ticks.
    made = asked[1].schedule(asked[0])
    work = [round(op.duration_s / NS) for op in made if isinstance(op, program.HostWork)]
    assert simulate(made, device).makespan_s / NS >= sum(work) - 0.5


@examples(100)
@given(
    st.integers(0, 30), st.integers(1, 30), st.integers(1, 8), st.integers(0, 20), st.integers(0, 60), st.integers(2, 5)
)
def test_more_buffers_never_make_prefetching_slower(
    host: int, kernel: int, count: int, back: int, load: int, buffers: int
) -> None:
    # On a card whose directions do not slow each other, with calls that cost nothing. Each engine serves one stream, in
    # the order of issue, which is the same from two buffers on: every start is the latest of sums of what comes before,
    # and another buffer only takes waits away.
    work = steps(host, kernel, count, back, load)
    took = [
        simulate(program.Config("prefetch", count, buffers=k).schedule(work), CARD).makespan_s
        for k in (buffers, buffers + 1)
    ]
    assert took[1] <= took[0]
    # Without a second buffer nothing is loaded ahead; where the host has nothing to load that is never faster.
    if not host and not load:
        assert took[0] <= simulate(program.Config("prefetch", count, buffers=1).schedule(work), CARD).makespan_s


@examples(60)
@given(st.integers(0, 30), st.integers(1, 30), st.integers(1, 8))
def test_a_prefetching_loop_is_a_sum_of_maxima(host: int, kernel: int, count: int) -> None:
    # Two buffers. An oracle of its own: copy i starts when loaded, behind copy i - 1 and kernel i - 2; kernel i when
    # load i + 1 is done, behind copy i and kernel i - 1.
    loaded = list(accumulate([host] * count))
    copied: list[int] = []
    ran: list[int] = []
    for i in range(count):
        copied.append(max(loaded[i], copied[i - 1] if i else 0, ran[i - 2] if i > 1 else 0) + 10)
        ran.append(max(loaded[min(i + 1, count - 1)], copied[i], ran[i - 1] if i else 0) + kernel)
    assert starts(program.Config("prefetch", count).schedule(steps(host, kernel, count)))[2] == ran[-1]


@pytest.mark.parametrize("fast", EVALUATORS)
@examples(60)
@given(workload=workloads(), grid=grids, device=devices())
def test_a_sweep_compares_with_what_the_unchunked_program_takes(
    fast: bool, workload: program.Workload, grid: Grid, device: Device
) -> None:
    chunks = [n for n in grid.chunks if n <= workload.most_chunks]
    assume(chunks)
    asked = sweep(workload, device, chunks=chunks, order=["serial", "prefetch"], memory=grid.memory)
    for row in rows_of(asked, fast=fast):
        made = program.Config(row["order"], row["chunks"], memory=grid.memory).schedule(workload)
        whole = simulate(made.unchunked or made, device)
        assert row["makespan_s"] == pytest.approx(simulate(made, device).makespan_s, abs=NS / 2)
        assert row["serial_s"] == pytest.approx(whole.makespan_s, abs=NS / 2)


@pytest.mark.parametrize("fast", EVALUATORS)
def test_a_graph_cannot_wait_for_the_host(fast: bool) -> None:
    work = steps(5)
    with pytest.raises(InputError, match="launch = 'graph': the host cannot work between the steps of a graph"):
        evaluate_ticks(work, [program.Config(launch="graph")], CARD, fast)
    with pytest.raises(InputError, match="an empty grid: launch = 'graph': the host cannot work"):
        Grid((1, 2), (1,), launch=("graph",)).configs(steps(0, load=5))
