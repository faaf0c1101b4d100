"""Tuning: the model ranks the programs of a grid, and the card measures the few that promise most.

:mod:`streamsim.search.tuning` says what to measure next. Candidates are schedules, replayed, or programs in a language.
Every measurement is in the journal at once, so that an interrupted tuning goes on. At the end, what the model would
have picked and what measuring found are measured once more, side by side.

A program finds for itself how many rounds of its stand-in take the time that the workload gives its kernels. The model
predicts with the measured time of these rounds, or of the user's own kernels.
"""

import hashlib
import re
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from streamsim.answer import Answer
from streamsim.code import Language
from streamsim.device import Device, known_within
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError, counted
from streamsim.program import Config, Workload, WorkloadKernel
from streamsim.report import Table, facts
from streamsim.search import Proposals, proposals
from streamsim.text import format_change, format_seconds
from streamsim_validate import records
from streamsim_validate.gpu import Gpu
from streamsim_validate.gpu import connections as default_connections
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.run.campaign import REPEATS, fingerprint
from streamsim_validate.run.measuring import Planned, Replays, Runner, measure
from streamsim_validate.run.programs import Programs, function_of


class Kernels(NamedTuple):
    """Seconds of all kernels over all the work, said and measured. ``work``: rounds of the stand-in; 0: no stand-in."""

    work: int
    said_s: float
    measured_s: float


def said_s(workload: Workload, device: Device) -> list[float]:
    """Return the seconds of each kernel over all the work. Raises InputError for an unknown kernel."""
    (whole,) = workload.cut(1)
    return [many * device.occupancy(launch).alone_s for launch, many in workload.kernels_of(whole)]


def _taking(workload: Workload, said: Sequence[float], ratio: float = 1.0) -> Workload:
    """Return the workload whose kernels take ``ratio`` times the times ``said``."""
    kernels = (
        kernel.scaled(ratio)
        if kernel.is_timed
        else WorkloadKernel(kernel.name, one * ratio, fill=kernel.fill, launches=kernel.launches)
        for kernel, one in zip(workload.kernels, said, strict=True)
    )
    return replace(workload, kernels=tuple(kernels))


HEADS = ("measured, in order", "time", "scatter", "error of the prediction")


class Tried(msgspec.Struct, frozen=True):
    """A measured candidate. ``scatter``: the standard deviation of the measured times, over their median."""

    config: Config
    predicted_s: float
    measured_s: float
    scatter: float

    @property
    def row(self) -> tuple[str, ...]:
        """The candidate as a row of a table."""
        error = format_change(self.predicted_s / self.measured_s - 1)
        return self.config.words, format_seconds(self.measured_s), f"+- {self.scatter:.1%}", error

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

    def _verdict(self) -> str:
        if self.picked == self.found:
            return "What the model picked is the fastest that was measured"
        between = f"{self.gain:.3f}x, 90 % interval {self.gain_low:.3f}x to {self.gain_high:.3f}x, side by side"
        if not self.is_sure:
            return f"What was found is no faster than what the model picked, beyond what measuring scatters: {between}"
        return f"What was found is faster than what the model picked: {between}"

    def _about_kernels(self, kernels: Kernels) -> str:
        who = f"A stand-in of {counted(kernels.work, 'round')} takes" if kernels.work else "Your kernels take"
        took, said = format_seconds(kernels.measured_s), format_seconds(kernels.said_s)
        return f"{who} {took} over all the work, where {said} was said; the predictions are of that"

    def answer(self, data: dict[str, Any], notes: tuple[str, ...] = ()) -> Answer:
        """Return the measured programs, those that failed, and what was found beside the model's pick."""
        both = (("model", self.picked_s, self.picked.words), ("found", self.found_s, self.found.words))
        return Answer(
            title=f"{len(self.tried)} of {self.candidates} programs measured",
            verdict=(self._verdict(), f"No other program promises to be more than {self.promise:.1%} faster"),
            tables=(
                Table("", (tuple(one.row for one in self.tried),), HEADS, frozenset({1, 2, 3})),
                *(f"not measured: {words}: {why}" for words, why in self.left_out.items()),
                facts("", (both,)),
            ),
            notes=(*([self._about_kernels(self.kernels)] if self.kernels else ()), *notes),
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


BUDGET = 10
LEAST_FAILURES = 10
SIDE_BY_SIDE = 3  # times as many repeats as the others have
LEVEL = 0.9
RESAMPLES = 2000
AGAIN = "again: "
MORE = 8  # more launches of each kernel: the program takes longer by the time of that many kernels
ROUNDS = re.compile(r"stand-in of (\d+) rounds")  # the key of the program that shows what one takes
Times = tuple[float, ...]


class Task(msgspec.Struct, frozen=True):
    """A tuning task: ``budget`` of the candidates ``configs`` of ``workload``, the simplest first, are measured.

    ``device``: the profile that predicts. ``kernels``: the user's files of kernels. ``seed``: of the order of the
    repeats. ``output``: the record. ``language``: of programs to measure; None: schedules are replayed. Raises
    InputError without candidates, budget or repeats.
    """

    output: str
    workload: Workload
    configs: tuple[Config, ...]
    device: Device
    budget: int = BUDGET
    repeats: int = REPEATS
    seed: int = 0
    kernels: tuple[str, ...] = ()
    language: Language | None = None

    def __post_init__(self) -> None:
        for name, least in (("configs", len(self.configs)), ("budget", self.budget), ("repeats", self.repeats)):
            if least < 1:
                raise InputError(f"{name} = {getattr(self, name)!r}: nothing to measure; give at least one")


def tune(task: Task, gpu: Gpu, on_step: OnStep = quietly, runner: Replays | Programs | None = None) -> Tuned:
    """Measure on an open card, or continue where the journal stopped, and write the record.

    ``runner``: of the candidates; None: that of the task. Raises InputError if the output cannot be written or exists,
    if the journal is of another task, and if no candidate can be measured. Ctrl-C leaves the journal.
    """
    records.check_unused(task.output)
    if runner is None:
        function = function_of(task.kernels[0]) if task.language and task.kernels else None
        runner = Programs(gpu, function) if task.language else Replays(gpu)
    title = f"tune as {task.language}" if task.language else "tune"
    what = (task.workload, sorted({config.memory for config in task.configs}))  # which all its measurements share
    digest = hashlib.sha256(msgspec.json.encode(what)).hexdigest()[:16]
    first = records.header(gpu.card, title, fingerprint(task.kernels), digest)
    with closing(runner), records.Journal(records.journal_path(task.output), first) as journal:
        measuring = _Measuring(task, runner, journal)
        found = _tuned(task, measuring, on_step)
        measuring.end()
    records.finish(records.journal_path(task.output), task.output)
    return found


class _Measuring:
    """Measures what the journal does not have yet."""

    def __init__(self, task: Task, runner: Runner, journal: records.Journal) -> None:
        self._task, self._runner, self._journal = task, runner, journal
        self.work = 1  # rounds of a program's stand-in
        self.connections = default_connections()
        self._done = {line.key: line for line in journal.entries(self.connections)}

    def planned(self, config: Config, key: str = "", times: int = 1, workload: Workload | None = None) -> Planned:
        """Return the candidate with this configuration. ``times``: how often a program makes each launch."""
        recipe = records.recipe_of(config, workload or self._task.workload, "tune")
        return Planned(key or config.words, recipe.schedule(), recipe, self._task.language, self.work, times)

    def kernels(self, on_step: OnStep) -> tuple[Kernels | None, Workload]:
        """Return the time of the kernels in the task's programs, and the workload to predict."""
        task = self._task
        if not isinstance(self._runner, Programs) or not task.workload.kernels:
            return None, task.workload
        on_step("timing the kernels", 0, 1)
        said, what = said_s(task.workload, task.device), "kernels"
        simplest = next((config for config in task.configs if config.streams == 1), task.configs[0])
        if not task.kernels:
            known = (ROUNDS.fullmatch(key) for key in self._done)
            timed = self.planned(simplest, workload=_taking(task.workload, said))
            self.work = next((int(one[1]) for one in known if one), None) or self._runner.rounds(timed)
            what = f"stand-in of {self.work} rounds"
        once, more = self.planned(simplest, what), self.planned(simplest, f"{what}, {1 + MORE} times", 1 + MORE)
        once_s, more_s = _walls_s(self.of([once, more]))
        found = Kernels(0 if task.kernels else self.work, sum(said), max(1e-9, (more_s - once_s) / MORE))
        return found, _taking(task.workload, said, found.measured_s / found.said_s)

    def of(self, items: Sequence[Planned], times: int = 1, is_final: bool = False) -> list[records.Entry]:
        """Return the entries of these: from the journal, or measured now and then in the journal.

        ``times``: as many repeats as the task says. ``is_final``: a failed one is not measured again.
        """
        for item in items:
            if item.key in self._done:
                self._journal.check_same(self._done[item.key], records.digest(item.schedule))
        repeats = times * self._task.repeats
        if not all(self._is_done(item.key, repeats, is_final) for item in items):
            if self._journal.unended != self.connections:
                self._journal.append(
                    records.RunBegins(self.connections, records.now(), self._task.seed, self._task.repeats)
                )
            measure(items, self._runner, repeats, self._task.seed, self._keep, self._journal.next_group)
        return [self._done[item.key] for item in items]

    def _is_done(self, key: str, repeats: int, is_final: bool) -> bool:
        line = self._done.get(key)
        if line is None or line.status == "interrupted":
            return False
        return len(line.wall_s) >= repeats if line.status == "ok" else is_final

    def _keep(self, line: records.Entry) -> None:
        self._journal.append(line)
        self._done[line.key] = line

    def end(self) -> None:
        """Note in the journal that everything is measured."""
        if self._journal.unended is not None:
            self._journal.append(records.RunEnds(records.now()))


def _search(
    task: Task, offers: Proposals, measuring: _Measuring, on_step: OnStep
) -> tuple[dict[int, Times], dict[int, str]]:
    """Measure one candidate after the other, each time the one that promises most, until the budget is spent.

    As many that fail, or ten, end it too: the others will hardly do better. Return the wall times of the candidates, in
    the order of measuring, and the reasons of those that failed.
    """
    samples: dict[int, Times] = {}
    left_out: dict[int, str] = {}
    while len(samples) < task.budget and len(left_out) < max(task.budget, LEAST_FAILURES):
        k = offers.next(_medians_s(samples), frozenset(left_out))
        if k is None:
            break
        item = measuring.planned(task.configs[k])
        on_step(f"measuring {item.key}", len(samples), task.budget)
        (got,) = measuring.of([item], is_final=True)
        if got.status == "ok":
            samples[k] = got.wall_s
        else:
            left_out[k] = got.status
    if not samples:
        k, why = next(iter(left_out.items()))
        raise InputError(f"no candidate could be measured; {task.configs[k].words}: {why}")
    return samples, left_out


def _medians_s(samples: dict[int, Times]) -> dict[int, float]:
    return {k: records.median_and_spread(walls)[0] for k, walls in samples.items()}


def _tuned(task: Task, measuring: _Measuring, on_step: OnStep) -> Tuned:
    """Measure, and say what came of it."""
    kernels, workload = measuring.kernels(on_step)
    offers = proposals(workload, task.configs, task.device.with_connections(measuring.connections))
    samples, left_out = _search(task, offers, measuring, on_step)
    times = _medians_s(samples)
    best = min(times, key=times.__getitem__)
    on_step("measuring what the model picked and what was found side by side", 0, 1)
    both = dict.fromkeys((next(iter(times)), best))
    again = measuring.of(
        [measuring.planned(task.configs[k], AGAIN + task.configs[k].words) for k in both], SIDE_BY_SIDE
    )
    picked_s, found_s = _walls_s(again)[0], _walls_s(again)[-1]
    gain, low, high = ratio_of(again[0].wall_s, again[-1].wall_s, task.seed)
    return Tuned(
        workload=workload,
        tried=tuple(
            Tried(
                task.configs[k],
                float(offers.predicted_s[k]),
                times[k],
                records.relative_deviation(walls) if times[k] else 0.0,
            )
            for k, walls in samples.items()
        ),
        found=task.configs[best],
        picked_s=picked_s,
        found_s=found_s,
        gain=gain,
        gain_low=low,
        gain_high=high,
        promise=offers.promise(times, frozenset(left_out)),
        candidates=len(task.configs),
        left_out={task.configs[k].words: why for k, why in left_out.items()},
        known_within=known_within(task.device),
        kernels=kernels,
    )


def _walls_s(entries: Sequence[records.Entry]) -> list[float]:
    """Return the median wall times. Raises InputError if one could not be measured."""
    for entry in entries:
        if entry.status != "ok":
            raise InputError(f"{entry.key}: {entry.status}")
    return [records.median_and_spread(entry.wall_s)[0] for entry in entries]


def ratio_of(one: Sequence[float], other: Sequence[float], seed: int) -> tuple[float, float, float]:
    """Return the ratio of the medians of two samples, and its interval from samples drawn again."""
    medians: list[Any] = []
    generator = np.random.default_rng(seed)
    for samples in (one, other):
        rows = generator.integers(len(samples), size=(RESAMPLES, len(samples)))
        medians.append(np.median(np.array(samples)[rows], axis=1))
    ratio = float(np.median(one) / np.median(other))
    low, high = np.quantile(medians[0] / medians[1], ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return ratio, float(low), float(high)
