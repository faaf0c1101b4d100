"""What a kernel takes between the sizes that were measured: stairs, and what is known of them."""

import pytest

from streamsim.device import KernelCost
from streamsim_validate.calibrate.parts import stairs

POINTS = [(4, 1.0), (9, 2.0), (10, 2.5), (40, 6.0), (80, 10.0), (81, 11.0), (200, 30.0)]


def test_a_kernels_curve_has_a_stair_for_each_block_of_a_multiprocessor() -> None:
    """Seen on an H100: 67,584 threads take 25.1 us, one more 35.2, and 101,376 as long."""
    second, third = 11 / 3, 14.5 / 3  # on the line from the first stair, 2.5, to the fourth, 6.0
    expected = [(4, 1.0), (9, 2.0), (10, 2.5), (11, second), (20, second), (21, third), (30, third)]
    found = stairs(POINTS, 10, 30)
    assert [n for n, _ in found] == [*(n for n, _ in expected), 40, 80, 81, 200]
    assert [t for _, t in found] == pytest.approx([*(t for _, t in expected), 6.0, 10.0, 11.0, 30.0])


def test_what_is_measured_of_a_stair_holds_for_all_of_it() -> None:
    elements, duration_s = zip(*stairs(POINTS, 10, 90), strict=True)
    cost = KernelCost("k", 0, elements, duration_s)
    assert [cost.at(n) for n in (35, 71, 80, 81, 90)] == pytest.approx([6.0, 10.0, 10.0, 11.0, 11.0])
