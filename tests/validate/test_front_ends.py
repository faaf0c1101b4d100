"""Rounds of a library's calls, and the costs that are found in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, combinations
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import TIMES
from streamsim.errors import InputError
from streamsim_validate.calibrate import front_ends
from streamsim_validate.gpu import Calls

SOURCE = "measured: by hand"


class Costs(NamedTuple):
    """Seconds of each call, in the order of ``TIMES``.

    The last three are more: of a call behind one of another kind, of the first copy and kernel behind a wait, and of an
    operation that nothing else calls.
    """

    copy: float
    kernel: float
    record: float
    wait: float
    synchronize: float
    enter: float
    linear: float = 0.0
    turn: float = 0.0
    after_wait: float = 0.0
    first_launch: float = 0.0


class Emulated(Calls):
    """A library whose calls take what they are told on a clock of its own."""

    name, version = "emulated", "a library of nobody"

    def __init__(self, costs: Costs) -> None:
        self.now, self._costs = 0.0, costs
        self._cold: set[str] = set()
        self._before = ""

    def _call(self, kind: str, seconds: float) -> None:
        self.now += seconds + self._costs.turn * (kind != self._before)
        self._before = kind

    def _cold_s(self, call: str) -> float:
        was_cold = call in self._cold
        self._cold.discard(call)
        return self._costs.after_wait if was_cold else 0.0

    def copy_in(self, _: int, way: str = "in") -> None:
        self._call(way, self._costs.copy + self._cold_s("copy"))

    def copy_out(self, turn: int) -> None:
        self.copy_in(turn, "out")

    def kernel(self, _: int, more_s: float = 0.0) -> None:
        self._call("kernel", self._costs.kernel + self._cold_s("kernel") + more_s)

    def other(self, turn: int) -> None:
        self.kernel(turn, self._costs.first_launch)

    def linear(self, _: int) -> None:
        if not self._costs.linear:
            raise NotImplementedError
        self._call("kernel", self._costs.linear)

    def record(self, _: int) -> None:
        self._call("record", self._costs.record)

    def wait(self, _: int) -> None:
        self._call("wait", self._costs.wait)

    def synchronize(self) -> None:
        self._call("synchronize", self._costs.synchronize)
        self._cold = {"copy", "kernel"}

    @contextmanager
    def entered(self, _: int) -> Iterator[None]:
        self.now += self._costs.enter
        yield


def rounds_of(costs: Costs) -> dict[str, tuple[float, ...]]:
    calls = Emulated(costs)
    return front_ends.measure_front_end(calls, clock=lambda: calls.now)


@examples(20)
@given(st.builds(Costs, *[st.floats(1e-7, 1e-4)] * 6, st.just(0.0) | st.floats(1e-7, 1e-4), *[st.just(0.0)] * 3))
def test_a_known_library_is_found_again(costs: Costs) -> None:
    """Costs that add up are found to rounding, and nothing of them scatters; what it lacks costs nothing."""
    found = front_ends.fit_front_end(rounds_of(costs), SOURCE)
    assert [getattr(found, name) for name in TIMES] == pytest.approx(list(costs), rel=1e-6, abs=1e-12)
    assert found.spread < 1e-6
    assert found.source == SOURCE


@examples(20)
@given(
    st.builds(Costs, *[st.floats(1e-7, 1e-4)] * 6, *[st.just(0.0)] * 4),
    st.floats(1.05, 3),
    st.randoms(use_true_random=False),
)
def test_a_host_that_was_slowed_for_most_of_the_rounds_is_calibrated_as_it_is(
    costs: Costs, slowed: float, draws: Random
) -> None:
    """Seven of ten runs of each kind take longer, which of them is chance."""
    rounds = {}
    for kind, seconds in rounds_of(costs).items():
        slow = set(draws.sample(range(front_ends.REPEATS), front_ends.REPEATS * 7 // 10))
        rounds[kind] = tuple(s * (slowed if run in slow else 1) for run, s in enumerate(seconds))
    found = front_ends.fit_front_end(rounds, SOURCE)
    assert [getattr(found, name) for name in TIMES[:6]] == pytest.approx(list(costs)[:6], rel=1e-6, abs=1e-15)
    assert found.spread >= 0


@examples(20)
@given(
    st.builds(Costs, *[st.floats(1e-6, 1e-5)] * 7, st.floats(0, 1e-6), *[st.just(0.0)] * 2),
    st.builds(Costs, *[st.floats(1e-6, 1e-4)] * 6, *[st.just(0.0)] * 2, *[st.floats(0, 1e-4)] * 2),
)
def test_what_a_call_behind_another_kind_or_a_wait_takes_longer_is_found_again(turns: Costs, waits: Costs) -> None:
    """But for a 40th: of the first call of each loop, which is behind one of another kind, and behind a wait."""
    found = front_ends.fit_front_end(rounds_of(turns), SOURCE)
    assert found.turn_s == pytest.approx(turns.turn, rel=0.1, abs=1e-12)
    assert [getattr(found, name) for name in TIMES[:7]] == pytest.approx(list(turns)[:7], abs=turns.turn / 10 + 1e-12)
    found = front_ends.fit_front_end(rounds_of(waits), SOURCE)
    assert found.after_wait_s == pytest.approx(waits.after_wait, rel=0.1, abs=1e-12)
    assert found.first_launch_s == pytest.approx(waits.first_launch, rel=1e-6, abs=1e-12)


def test_compiled_programs_enter_nothing() -> None:
    """What rounds that go round the streams take longer is of their other calls, and no call's where they do not."""
    costs = Costs(2e-6, 4e-6, 2e-7, 2e-7, 5e-7, 0.0)
    rounds = {kind: seconds for kind, seconds in rounds_of(costs).items() if kind not in front_ends.ALONE_KINDS}
    found = front_ends.fit_front_end(rounds, SOURCE, is_library=False)
    assert [getattr(found, name) for name in TIMES[:6]] == pytest.approx(list(costs)[:6], rel=1e-6, abs=1e-12)
    slower = {kind: tuple(s * (1.1 if "|" in kind else 1) for s in seconds) for kind, seconds in rounds.items()}
    found = front_ends.fit_front_end(slower, SOURCE, is_library=False)
    assert found.enter_s == found.turn_s == 0
    assert costs.copy < found.copy_s < 1.1 * costs.copy
    assert front_ends.fit_front_end(slower, SOURCE).enter_s > 0


@pytest.mark.parametrize("iko", [None, (), (0.0,)], ids=("missing", "empty", "no time"))
def test_rounds_that_are_no_calibration_are_refused(iko: tuple[float, ...] | None) -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5)) | ({} if iko is None else {"iko": iko})
    if iko is None:
        del rounds["iko"]
    with pytest.raises(InputError, match="calibrate again"):
        front_ends.fit_front_end(rounds, SOURCE)


# Least squares without negative numbers, held to what makes a solution the best one, and to every other one.


SEEDS = st.integers(0, 1 << 32)


def problem(seed: int, scales: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and sums of costs of which some are zero or would come out negative, in units that may be far apart."""
    drawn = np.random.default_rng(seed)
    unknowns = int(drawn.integers(1, 7))
    matrix = drawn.integers(0, 5, (int(drawn.integers(unknowns, 15)), unknowns)).astype(float)
    sums = matrix @ drawn.normal(0.5, 1, unknowns) + drawn.normal(0, 0.3, len(matrix))
    return (matrix * 10.0 ** drawn.integers(-6, 6, unknowns) if scales else matrix), sums


@examples(300)
@given(SEEDS, st.booleans())
def test_no_solution_without_negative_numbers_is_nearer(seed: int, scales: bool) -> None:
    """The conditions of Karush, Kuhn and Tucker, which are necessary and sufficient, as the problem is convex.

    Of half the squared distance with respect to an unknown the slope is 0 where it is positive, and not below 0 where
    it is 0: else some more of it, or less, would come nearer.
    """
    matrix, sums = problem(seed, scales)
    found = front_ends.non_negative(matrix, sums)
    lengths = np.linalg.norm(matrix, axis=0)
    used = lengths > 0
    assert (found >= 0).all()
    assert (found[~used] == 0).all()
    slope = (matrix.T @ (matrix @ found - sums))[used] / lengths[used]  # in the units of the sums
    small = 1e-9 * (1 + np.linalg.norm(sums))
    assert (slope >= -small).all()
    assert (np.abs(slope[found[used] > 0]) <= small).all()


@examples(100)
@given(SEEDS)
def test_it_is_the_best_of_every_choice_of_unknowns_that_are_zero(seed: int) -> None:
    """Some unknowns are zero; of those that are left it is the plain least squares. Every choice is tried."""
    matrix, sums = problem(seed, scales=False)
    unknowns = range(matrix.shape[1])
    least = np.linalg.norm(sums)
    for chosen in chain.from_iterable(combinations(unknowns, n) for n in range(1, len(unknowns) + 1)):
        part = matrix[:, chosen]
        each = np.linalg.lstsq(part, sums, rcond=None)[0]
        if (each >= 0).all():
            least = min(least, np.linalg.norm(part @ each - sums))
    assert np.linalg.norm(matrix @ front_ends.non_negative(matrix, sums) - sums) == pytest.approx(least, abs=1e-9)


def test_without_scipy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"^calibration needs SciPy; pip install '\.\[calibrate\]'"):
        front_ends.non_negative([[1.0]], [1.0])
