"""Rounds of a library's calls, and the costs that are found in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from streamsim.device import TIMES
from streamsim.errors import InputError
from streamsim_validate.calibrate.front_ends import (
    ALONE_KINDS,
    FIRST,
    KINDS,
    LINEAR_KINDS,
    NEW,
    REPEATS,
    fit_front_end,
    measure_front_end,
)
from streamsim_validate.gpu.libraries import CupyCalls, PytorchCalls, PytorchEagerCalls

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


class Emulated:
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

    def copy_in(self, _: int) -> None:
        self._call("in", self._costs.copy + self._cold_s("copy"))

    def copy_out(self, _: int) -> None:
        self._call("out", self._costs.copy + self._cold_s("copy"))

    def kernel(self, _: int) -> None:
        self._call("kernel", self._costs.kernel + self._cold_s("kernel"))

    def other(self, _: int) -> None:
        self._call("kernel", self._costs.kernel + self._cold_s("kernel") + self._costs.first_launch)

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
    return measure_front_end(calls, clock=lambda: calls.now)


@examples(20)
@given(st.builds(Costs, *[st.floats(1e-7, 1e-4)] * 6, st.just(0.0) | st.floats(1e-7, 1e-4), *[st.just(0.0)] * 3))
def test_a_known_library_is_found_again(costs: Costs) -> None:
    """Costs that add up are found to rounding, and nothing of them scatters; what it lacks costs nothing."""
    found = fit_front_end(rounds_of(costs), SOURCE)
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
        slow = set(draws.sample(range(REPEATS), REPEATS * 7 // 10))
        rounds[kind] = tuple(s * (slowed if run in slow else 1) for run, s in enumerate(seconds))
    found = fit_front_end(rounds, SOURCE)
    assert [getattr(found, name) for name in TIMES[:6]] == pytest.approx(list(costs)[:6], rel=1e-6, abs=1e-15)
    assert found.spread >= 0


@examples(20)
@given(st.builds(Costs, *[st.floats(1e-6, 1e-4)] * 6, *[st.just(0.0)] * 2, *[st.floats(0, 1e-4)] * 2))
def test_what_the_first_calls_behind_a_wait_take_longer_is_found_again(costs: Costs) -> None:
    """But for the part of it in the loops, a 40th a turn, which their calls come to cost more."""
    found = fit_front_end(rounds_of(costs), SOURCE)
    assert found.after_wait_s == pytest.approx(costs.after_wait, rel=0.1, abs=1e-12)
    assert found.first_launch_s == pytest.approx(costs.first_launch, rel=1e-6, abs=1e-12)


@examples(20)
@given(st.builds(Costs, *[st.floats(1e-6, 1e-5)] * 7, st.floats(0, 1e-6), *[st.just(0.0)] * 2))
def test_what_a_call_behind_another_kind_takes_longer_is_found_again(costs: Costs) -> None:
    """But for a 40th: the first call of each loop is behind one of another kind in rounds of a single kind, too."""
    found = fit_front_end(rounds_of(costs), SOURCE)
    assert found.turn_s == pytest.approx(costs.turn, rel=0.1, abs=1e-12)
    assert [getattr(found, name) for name in TIMES[:7]] == pytest.approx(list(costs)[:7], abs=costs.turn / 10 + 1e-12)


def test_compiled_programs_enter_nothing() -> None:
    """What rounds that go round the streams take longer is of their other calls, and no call's where they do not."""
    costs = Costs(2e-6, 4e-6, 2e-7, 2e-7, 5e-7, 0.0)
    rounds = {kind: seconds for kind, seconds in rounds_of(costs).items() if kind not in ALONE_KINDS}
    found = fit_front_end(rounds, SOURCE, is_library=False)
    assert [getattr(found, name) for name in TIMES[:6]] == pytest.approx(list(costs)[:6], rel=1e-6, abs=1e-12)
    slower = {kind: tuple(s * (1.1 if "|" in kind else 1) for s in seconds) for kind, seconds in rounds.items()}
    found = fit_front_end(slower, SOURCE, is_library=False)
    assert found.enter_s == found.turn_s == 0
    assert costs.copy < found.copy_s < 1.1 * costs.copy
    assert fit_front_end(slower, SOURCE).enter_s > 0


def test_of_rounds_without_a_single_turn_nothing_says_what_first_calls_take() -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5, after_wait=1e-5))
    del rounds[NEW]
    assert fit_front_end(rounds, SOURCE).first_launch_s == 0
    assert fit_front_end(rounds, SOURCE).after_wait_s > 0
    del rounds[FIRST]
    assert fit_front_end(rounds, SOURCE).after_wait_s == 0


def test_every_round_is_measured_as_often_as_any_other() -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5))
    assert {kind: len(seconds) for kind, seconds in rounds.items()} == dict.fromkeys((*KINDS, *ALONE_KINDS), REPEATS)
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5, 2e-5))
    assert {kind: len(seconds) for kind, seconds in rounds.items()} == dict.fromkeys(
        (*KINDS, *ALONE_KINDS, *LINEAR_KINDS), REPEATS
    )


def test_a_cost_that_would_be_negative_is_none() -> None:
    """Entering takes less than no time by these rounds: a block made its calls cheaper."""
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 0.0))
    cheaper = {kind: tuple(s * (0.8 if "|" in kind else 1) for s in seconds) for kind, seconds in rounds.items()}
    assert fit_front_end(cheaper, SOURCE).enter_s == 0.0


@pytest.mark.parametrize("damage", ["missing", "empty", "no time"])
def test_rounds_that_are_no_calibration_are_refused(damage: str) -> None:
    rounds = rounds_of(Costs(1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-5))
    if damage == "missing":
        del rounds["iko"]
    else:
        rounds["iko"] = () if damage == "empty" else (0.0,)
    with pytest.raises(InputError, match="calibrate again"):
        fit_front_end(rounds, SOURCE)


# What is called


class Tensor:
    """As much of a tensor as is touched, and what was done with it."""

    def __init__(self, log: list[str], name: str) -> None:
        self._log, self._name = log, name

    def __getitem__(self, _: slice) -> Tensor:
        return Tensor(self._log, f"{self._name}[]")

    def pin_memory(self) -> Tensor:
        return Tensor(self._log, "host")

    def to(self, where: str, non_blocking: bool) -> Tensor:
        self._log.append(f"{self._name}.to({where}, {non_blocking})")
        return Tensor(self._log, "new")

    def copy_(self, source: Tensor, non_blocking: bool) -> None:
        self._log.append(f"{self._name}.copy_({source._name}, {non_blocking})")


def torch_of(log: list[str]) -> Any:
    def operation(name: str) -> Any:
        def call(*arguments: Tensor, out: Tensor | None = None) -> Tensor:
            given = [argument._name for argument in arguments] + ([] if out is None else [f"out={out._name}"])
            log.append(f"{name}({', '.join(given)})")
            return Tensor(log, "new")

        return call

    cuda = SimpleNamespace(
        set_device=lambda _: None, stream=nullcontext, Stream=object, Event=object, synchronize=lambda: None
    )
    return SimpleNamespace(
        __version__="0",
        cuda=cuda,
        zeros=lambda *_, device="cpu": Tensor(log, "card" if device == "cuda" else "host"),
        sin=operation("sin"),
        nn=SimpleNamespace(functional=SimpleNamespace(linear=operation("linear"))),
    )


def test_pytorch_is_called_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of memory that is there, or new memory for all; a linear layer has new memory either way."""
    for library, expected in (
        (PytorchCalls, ["card[].copy_(host[], True)", "sin(card[], out=card[])", "host[].copy_(card[], True)"]),
        (PytorchEagerCalls, ["host[].to(cuda, True)", "sin(new)", "host[].copy_(new, True)"]),
    ):
        log: list[str] = []
        monkeypatch.setitem(sys.modules, "torch", torch_of(log))
        calls = library(0)
        calls.copy_in(3)
        calls.kernel(3)
        calls.copy_out(3)
        calls.linear(3)
        assert log == [*expected, "linear(card, card, card)"]


def test_cupy_has_no_linear_layer() -> None:
    with pytest.raises(NotImplementedError):
        CupyCalls.linear(None, 0)  # type: ignore[arg-type]
