"""Tuning: the model ranks the programs of a grid, and the card measures the few that promise most.

:mod:`streamsim.search.tuning` says what to measure next. Candidates are schedules, replayed, or programs in a language.
Every measurement is in the journal at once, so that an interrupted tuning goes on. At the end, what the model would
have picked and what measuring found are measured once more, side by side.
"""

import hashlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamsim.code import Language
from streamsim.device import Device, known_within
from streamsim.errors import InputError
from streamsim.files import check_writable
from streamsim.program import Config, Workload
from streamsim.search import Proposals, proposals
from streamsim_validate.gpu import Gpu
from streamsim_validate.gpu import connections as default_connections
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import (
    Entry,
    Journal,
    RunBegins,
    RunEnds,
    check_unused,
    digest,
    finish,
    header,
    journal_path,
    median_and_spread,
    now,
    recipe_of,
    relative_deviation,
)
from streamsim_validate.run.campaign import REPEATS, fingerprint
from streamsim_validate.run.kernels import FEW, Kernels, timed
from streamsim_validate.run.measuring import Planned, Runner, measure
from streamsim_validate.run.programs import Programs
from streamsim_validate.run.replays import Replays
from streamsim_validate.run.tuned import Tried, Tuned

BUDGET = 10
LEAST_FAILURES = 10
SIDE_BY_SIDE = 3  # times as many repeats as the others have
LEVEL = 0.9
RESAMPLES = 2000
AGAIN = "again: "
TITLE = EFFECT = "tune"
MORE = 8  # more launches of each kernel: the program takes longer by the time of that many kernels


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
    check_output(task.output)
    if runner is None:
        runner = Programs.of(gpu, task.language, task.kernels) if task.language else Replays(gpu)
    title = f"{TITLE} as {task.language}" if task.language else TITLE
    first = header(gpu.card, title, fingerprint(task.kernels), _task(task))
    with closing(runner), Journal(journal_path(task.output), first) as journal:
        measuring = _Measuring(task, runner, journal)
        found = _tuned(task, measuring, on_step)
        measuring.end()
    finish(journal_path(task.output), task.output)
    return found


def check_output(output: str) -> None:
    """Raise InputError unless a record can be written there, and none is there."""
    check_writable(Path(output))
    check_unused(output)


def _task(task: Task) -> str:
    """Return a fingerprint of what all measurements of a journal have in common, whatever is measured next."""
    what = (task.workload, sorted({config.memory for config in task.configs}))
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()[:16]


class _Measuring:
    """Measures what the journal does not have yet."""

    def __init__(self, task: Task, runner: Runner, journal: Journal) -> None:
        self._task, self._runner, self._journal = task, runner, journal
        self.work = FEW  # rounds of a program's stand-in
        self.connections = default_connections()
        self._done = {line.key: line for line in journal.entries(self.connections)}

    def planned(self, config: Config, key: str = "", times: int = 1) -> Planned:
        """Return the candidate with this configuration. ``times``: how often a program makes each launch."""
        recipe = recipe_of(config, self._task.workload, EFFECT)
        return Planned(key or config.words, recipe.schedule(), recipe, self._task.language, self.work, times)

    def kernels(self, on_step: OnStep) -> tuple[Kernels | None, Workload]:
        """Return the time of the kernels in the task's programs, and the workload to predict."""
        task = self._task
        if not isinstance(self._runner, Programs) or not task.workload.kernels:
            return None, task.workload
        simplest = next((config for config in task.configs if config.streams == 1), task.configs[0])
        has_own = self._runner.own.has_own

        def time_of(work: int) -> float:
            on_step("timing the kernels", 0, 1)
            self.work, what = work, "kernels" if has_own else f"stand-in of {work} rounds"
            more = self.planned(simplest, f"{what}, {1 + MORE} times", times=1 + MORE)
            once_s, more_s = _walls_s(self.of([self.planned(simplest, what), more]))
            return max(1e-9, (more_s - once_s) / MORE)

        found, workload = timed(task.workload, task.device, has_own, time_of)
        self.work = found.work or FEW
        return found, workload

    def of(self, items: Sequence[Planned], times: int = 1, is_final: bool = False) -> list[Entry]:
        """Return the entries of these: from the journal, or measured now and then in the journal.

        ``times``: as many repeats as the task says. ``is_final``: a failed one is not measured again.
        """
        for item in items:
            if item.key in self._done:
                self._journal.check_same(self._done[item.key], digest(item.schedule))
        repeats = times * self._task.repeats
        if not all(self._is_done(item.key, repeats, is_final) for item in items):
            if self._journal.unended != self.connections:
                self._journal.append(RunBegins(self.connections, now(), self._task.seed, self._task.repeats))
            measure(items, self._runner, repeats, self._task.seed, self._keep, self._journal.next_group)
        return [self._done[item.key] for item in items]

    def _is_done(self, key: str, repeats: int, is_final: bool) -> bool:
        line = self._done.get(key)
        if line is None or line.status == "interrupted":
            return False
        return len(line.wall_s) >= repeats if line.status == "ok" else is_final

    def _keep(self, line: Entry) -> None:
        self._journal.append(line)
        self._done[line.key] = line

    def end(self) -> None:
        """Note in the journal that everything is measured."""
        if self._journal.unended is not None:
            self._journal.append(RunEnds(now()))


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
    return {k: median_and_spread(walls)[0] for k, walls in samples.items()}


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
                task.configs[k], float(offers.predicted_s[k]), times[k], relative_deviation(walls) if times[k] else 0.0
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


def _walls_s(entries: Sequence[Entry]) -> list[float]:
    """Return the median wall times. Raises InputError if one could not be measured."""
    for entry in entries:
        if entry.status != "ok":
            raise InputError(f"{entry.key}: {entry.status}")
    return [median_and_spread(entry.wall_s)[0] for entry in entries]


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
