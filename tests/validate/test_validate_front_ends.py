"""Rounds of a library's calls, and the costs that are found in them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device.front_ends import TIMES
from streamsim.errors import InputError
from streamsim_validate.calibrate.front_ends import (
    REPEATS,
    ROUNDS,
    fit_front_end,
    measure_front_end,
    measure_front_ends,
    variation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "measured: by hand"


class Costs(NamedTuple):
    """Seconds of each call, in the order of ``TIMES``."""

    copy: float
    kernel: float
    record: float
    wait: float
    synchronize: float
    enter: float


class Emulated:
    """A library whose calls take what they are told on a clock of its own."""

    name, version = "emulated", "a library of nobody"

    def __init__(self, costs: Costs) -> None:
        self.now, self._costs = 0.0, costs

    def copy_in(self, _: int) -> None:
        self.now += self._costs.copy

    copy_out = copy_in

    def kernel(self, _: int) -> None:
        self.now += self._costs.kernel

    def record(self, _: int) -> None:
        self.now += self._costs.record

    def wait(self, _: int) -> None:
        self.now += self._costs.wait

    def synchronize(self) -> None:
        self.now += self._costs.synchronize

    @contextmanager
    def entered(self, _: int) -> Iterator[None]:
        self.now += self._costs.enter
        yield


def rounds_of(costs: Costs) -> dict[str, tuple[float, ...]]:
    calls = Emulated(costs)
    return measure_front_end(calls, clock=lambda: calls.now)


@examples(20)
@given(st.builds(Costs, *[st.floats(1e-7, 1e-4)] * 6))
def test_a_known_library_is_found_again(costs: Costs) -> None:
    """Costs that add up are found to rounding, and nothing of them scatters."""
    found = fit_front_end(rounds_of(costs), SOURCE)
    assert [getattr(found, name) for name in TIMES] == pytest.approx(list(costs), rel=1e-6)
    assert found.spread < 1e-6
    assert found.source == SOURCE


def test_every_round_is_measured_as_often_as_any_other() -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5))
    assert {kind: len(seconds) for kind, seconds in rounds.items()} == dict.fromkeys(ROUNDS, REPEATS)


def test_a_cost_that_would_be_negative_is_none() -> None:
    """Entering takes less than no time by these rounds: a block made its calls cheaper."""
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 0.0))
    cheaper = {kind: tuple(s * (0.8 if "|" in kind else 1) for s in seconds) for kind, seconds in rounds.items()}
    assert fit_front_end(cheaper, SOURCE).enter_s == 0.0


def test_how_far_the_host_varied_is_the_slow_tenth_over_the_fast() -> None:
    """Every second run of each kind takes 1.5 times as long; the medians of odd numbers of runs are the faster."""
    runs = tuple(1.5 if run % 2 else 1.0 for run in range(REPEATS))
    assert variation(dict.fromkeys(ROUNDS, runs)) == pytest.approx(1.5)


def test_every_library_is_measured_by_its_name() -> None:
    found = measure_front_ends([Emulated(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5))])
    assert [(name, library.version) for name, library in found.items()] == [("emulated", "a library of nobody")]


@pytest.mark.parametrize("damage", ["missing", "empty", "no time"])
def test_rounds_that_are_no_calibration_are_refused(damage: str) -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5))
    if damage == "missing":
        del rounds["iko"]
    else:
        rounds["iko"] = () if damage == "empty" else (0.0,)
    with pytest.raises(InputError, match="calibrate again"):
        fit_front_end(rounds, SOURCE)
