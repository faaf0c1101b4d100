"""The result of a tuning: its values, its tables and its JSON."""

from typing import Any

import msgspec

from streamsim.answer import Answer
from streamsim.displayed import Result, attributes
from streamsim.program import Config, Workload
from streamsim.report import Table, facts
from streamsim.text import counted, format_change, format_seconds
from streamsim_validate.run.kernels import Kernels

HEADS = ("measured, in order", "time", "scatter", "error of the prediction")


class Tried(msgspec.Struct, frozen=True):
    """A measured candidate. ``scatter``: the standard deviation of the measured times, over their median."""

    config: Config
    predicted_s: float
    measured_s: float
    scatter: float

    def plain(self) -> dict[str, Any]:
        """Return the configuration and the numbers as one flat object."""
        return {**msgspec.to_builtins(self.config), **attributes(self, "predicted_s", "measured_s", "scatter")}


class Tuned(Result, msgspec.Struct, frozen=True):
    """The result of a tuning. Times in seconds: wall times from the first call until the last synchronisation ends.

    - ``workload``: the work that is predicted.
    - ``tried``: in the order of measuring, the model's pick first. ``found``: the fastest of them.
    - ``picked_s``, ``found_s``: the times of these two, measured side by side.
    - ``gain``: ``picked_s`` over ``found_s``, from ``gain_low`` to ``gain_high`` with a probability of 90 %.
    - ``promise``: the share by which any other candidate is expected to be faster.
    - ``left_out``: the candidates that could not be measured, with the reasons.
    - ``known_within``: the relative error of the predictions if the profile's latencies are assumed; else 0.
    - ``kernels``: the time of the kernels in programs; None if schedules were replayed.
    """

    workload: Workload
    tried: tuple[Tried, ...]
    found: Config
    picked_s: float
    found_s: float
    gain: float
    gain_low: float
    gain_high: float
    promise: float
    candidates: int
    left_out: dict[str, str]
    known_within: float = 0.0
    kernels: Kernels | None = None

    @property
    def picked(self) -> Config:
        """Return the model's pick: the first candidate that could be measured."""
        return self.tried[0].config

    @property
    def is_sure(self) -> bool:
        """True if the found program is faster than the model's pick beyond the scatter of the measurements."""
        return self.gain_low > 1

    @property
    def _measured(self) -> Table:
        rows = tuple(
            (
                one.config.words,
                format_seconds(one.measured_s),
                f"+- {one.scatter:.1%}",
                format_change(one.predicted_s / one.measured_s - 1),
            )
            for one in self.tried
        )
        return Table("", (rows,), HEADS, frozenset({1, 2, 3}))

    @property
    def _side_by_side(self) -> Table:
        both = (("model", self.picked_s, self.picked.words), ("found", self.found_s, self.found.words))
        return facts("", (both,))

    def _verdict(self) -> str:
        if self.picked == self.found:
            return "What the model picked is the fastest that was measured"
        between = f"{self.gain:.3f}x, 90 % interval {self.gain_low:.3f}x to {self.gain_high:.3f}x, side by side"
        if not self.is_sure:
            return f"What was found is no faster than what the model picked, beyond what measuring scatters: {between}"
        return f"What was found is faster than what the model picked: {between}"

    @property
    def _about_kernels(self) -> tuple[str, ...]:
        """Return a sentence about the time of the kernels, unless schedules were replayed."""
        if self.kernels is None:
            return ()
        rounds = counted(self.kernels.work, "round")
        who = f"A stand-in of {rounds} takes" if self.kernels.work else "Your kernels take"
        took, said = format_seconds(self.kernels.measured_s), format_seconds(self.kernels.said_s)
        return (f"{who} {took} over all the work, where {said} was said; the predictions are of that",)

    def answer(self, data: dict[str, Any], notes: tuple[str, ...] = ()) -> Answer:
        """Return the measured programs, those that failed, and what was found beside the model's pick."""
        failed = (f"not measured: {words}: {why}" for words, why in self.left_out.items())
        return Answer(
            title=f"{len(self.tried)} of {self.candidates} programs measured",
            verdict=(self._verdict(), f"No other program promises to be more than {self.promise:.1%} faster"),
            tables=(self._measured, *failed, self._side_by_side),
            notes=(*self._about_kernels, *notes),
            data=data,
            rows=[one.plain() for one in self.tried],
        )

    def _answer(self) -> Answer:
        return self.answer(self.to_json())

    def _json(self) -> dict[str, Any]:
        gains = ("picked_s", "found_s", "gain", "gain_low", "gain_high", "is_sure", "promise")
        return {
            **attributes(self, "picked", "found", *gains),
            "tried": [one.plain() for one in self.tried],
            **attributes(self, "candidates", "left_out", "workload"),
            **({} if self.kernels is None else {"kernels": self.kernels._asdict()}),
        }
