"""The search within a budget: where it looks first, by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from strategies import make_device

from streamsim.program import Config, Copy, Kernel, Workload, WorkloadKernel
from streamsim.search import CONFIG_OPS, coarse_to_fine, cost_ops, search
from streamsim.search.coarse_to_fine import _around, _coarse, _few


@pytest.mark.parametrize(
    ("number", "around"), [(1, (1, 3)), (3, (1, 3, 5)), (4, (3, 5, 9)), (5, (3, 5, 9)), (9, (5, 9)), (10, (5, 9))]
)
def test_next_to_a_number_are_those_on_both_sides_of_it(number: int, around: tuple[int, ...]) -> None:
    assert _around((1, 3, 5, 9), number) == around


@pytest.mark.parametrize(("inputs", "kernels", "outputs"), [(2, 1, 1), (1, 1, 2), (3, 3, 1), (0, 1, 1)])
def test_a_program_costs_what_it_copies_and_launches(inputs: int, kernels: int, outputs: int) -> None:
    kernel = WorkloadKernel(duration_s=1e-6)
    workload, config = Workload(8, (4,) * inputs, (4,) * outputs, (kernel,) * kernels), Config(chunks=3, streams=2)
    works = [op for op in config.schedule(workload) if isinstance(op, Copy | Kernel)]
    assert cost_ops(workload, config) == CONFIG_OPS + len(works)


def test_few_numbers_are_powers_of_two_and_those_half_way_between() -> None:
    assert _few({*range(1, 50)}) == {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}
    assert _few({5, 7, 20}) == {5, 7, 20}  # the least not below: 5 for 1 to 4, 7 for 6, 20 for 8 to 16


def test_first_come_those_of_whose_numbers_both_are_few() -> None:
    """Of 1 to 8 chunks all but 5 and 7, of 1 to 5 streams all but 5; in the order in which they were."""
    queue = [(n, Config(chunks=n, streams=s)) for n in range(8, 0, -1) for s in range(1, 6)]
    found = [(config.chunks, config.streams) for _, config in _coarse(queue)]
    assert found == [(n, s) for n in (8, 6, 4, 3, 2, 1) for s in (1, 2, 3, 4)]


def test_the_walk_goes_over_all_numbers_of_chunks_a_sixteenth_apart() -> None:
    """On 4 streams where there are so many, else on the next more; on fewer where there are no more chunks."""
    queue = [(0, Config(chunks=n, streams=s)) for n in range(1, 41) for s in ((1, 2, 4, 7) if n % 2 else (1, 3, 5))]
    found = [(c.chunks, c.streams) for _, c in coarse_to_fine._Places(queue).along(Config(chunks=9, streams=4))]
    assert [n for n, _ in found] == [*range(1, 18), 19, 21, 23, 25, 27, 29, 31, 33, 36, 39]
    assert [s for _, s in found] == [1, 3, 4, *(4 if n % 2 else 5 for n, _ in found[3:])]


def test_what_its_bound_proves_slower_does_not_end_the_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound and makespan, by chunks and streams. First come 1, 2, 3, 4, 6 and 8 chunks on one stream; 6 is the best.

    Next to it are 5, whose bound of 150 is above its 100, and 7, which takes 90. The budget pays for one more; (5, 5)
    has the lowest bound and is next to nothing that is good.
    """
    made = {
        (1, 1): (50, 400), (2, 1): (50, 300), (3, 1): (50, 200), (4, 1): (50, 150), (6, 1): (50, 100),
        (8, 1): (50, 500), (5, 1): (150, 160), (5, 2): (150, 160), (5, 5): (60, 200), (7, 1): (80, 90),
    }  # fmt: skip
    configs = {Config(chunks=n, streams=s): times for (n, s), times in made.items()}

    def table(_workload: Workload, some: Sequence[Config], *_: Any) -> list[int]:
        return [configs[config][1] for config in some]

    monkeypatch.setattr(coarse_to_fine, "evaluate_ticks", table)
    workload = Workload(100, (1,), (1,), (WorkloadKernel(duration_s=1e-6),))
    queue = sorted(((bound, config) for config, (bound, _) in configs.items()), key=lambda item: item[0])
    budget = sum(cost_ops(workload, Config(chunks=n)) for n in (1, 2, 3, 4, 6, 8, 7))
    found = search(workload, make_device(), queue, False, budget)
    assert found.shortest == 90
    assert Config(chunks=5, streams=5) in found.left


def test_a_simpler_one_that_is_as_good_is_looked_for_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound and makespan by chunks. 8 take 1000, which the bounds of all others are above; within 1 % are 4 and 6.

    The simplest first, 3 and then 4, which ends it: the budget pays for no more. 1 and 2 cannot be within 1 %.
    """
    made = {1: (2000, 2500), 2: (1011, 2000), 3: (1003, 1200), 4: (1004, 1006), 6: (1002, 1005), 8: (900, 1000)}
    configs = {Config(chunks=n): times for n, times in made.items()}

    def table(_workload: Workload, some: Sequence[Config], *_: Any) -> list[int]:
        return [configs[config][1] for config in some]

    monkeypatch.setattr(coarse_to_fine, "evaluate_ticks", table)
    monkeypatch.setitem(coarse_to_fine.BLOCKS, False, (1, 1))
    workload = Workload(100, (1,), (1,), (WorkloadKernel(duration_s=1e-6),))
    queue = sorted(((bound, config) for config, (bound, _) in configs.items()), key=lambda item: item[0])
    budget = sum(cost_ops(workload, Config(chunks=n)) for n in (8, 3, 4))
    found = search(workload, make_device(), queue, False, budget)
    assert [config.chunks for config in found.ticks] == [8, 3, 4]
