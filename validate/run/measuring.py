"""The measurement of many schedules or programs: repeats interleaved, output verified, no sample lost when one fails.

A :class:`Runner` makes each item ready and runs it: schedules (:class:`Replays`, by bare calls), or programs in a
language (:mod:`~streamsim_validate.run.programs`).
"""

import gc
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from streamsim.code import Language
from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.program import Config, Schedule, Workload
from streamsim_validate.gpu import (
    Bench,
    Gpu,
    Key,
    LostGpuError,
    Replayer,
    buffers_of,
    check_fits,
    free_host_bytes,
    outputs,
    prepare,
    union,
)
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import Entry, ProgramTimes, Recipe, config_of, digest, to_times

Seconds = Mapping[str, Sequence[float]]  # by the name of a time in an entry


class Planned(msgspec.Struct, frozen=True):
    """A schedule to measure, named by ``key``, and the recipe that it comes from, if any.

    With a ``language``, its program is measured, and there is a recipe. ``work``: rounds of the program's stand-in
    kernel. ``times``: how often it makes each launch. ``is_probed``: its kernels, and the host and the link beside each
    run, are measured too.
    """

    key: str
    schedule: Schedule
    recipe: Recipe | None = None
    language: Language | None = None
    work: int = 1
    times: int = 1
    is_probed: bool = False

    @property
    def workload(self) -> Workload:
        """Return what is cut into chunks."""
        assert self.recipe is not None
        return self.recipe.workload

    @property
    def config(self) -> Config:
        """How the program cuts and issues its work."""
        assert self.recipe is not None
        return config_of(self.recipe)

    def entry(
        self, status: str, verified: bool, group: int, seconds: Seconds, program: ProgramTimes | None = None
    ) -> Entry:
        """Return the entry of a record. Programs with probes of their own stand in no group."""
        samples: dict[str, Any] = {name: to_times(values) for name, values in seconds.items()}
        if self.is_probed:
            samples |= {"program": program or ProgramTimes(str(self.language))}
        return Entry(
            key=self.key,
            digest=digest(self.schedule),
            status=status,
            verified=verified,
            recipe=self.recipe,
            schedule=None if self.recipe else self.schedule,
            group=0 if self.is_probed else group,
            **samples,
        )


class SkippedError(InputError):
    """Something cannot be measured here, and will not be tried again."""


class Ready(ABC):
    """A schedule or program that can be run. ``program``: what was measured of its kernels and beside its runs.

    ``verified``: it has output, and that was right; if it was wrong, nothing is ready.
    """

    verified = True
    program: ProgramTimes | None = None

    @abstractmethod
    def run(self, repeats: int) -> Seconds:
        """Return the seconds of so many runs. Raises InputError."""

    def verify(self) -> None:  # noqa: B027 - a program verifies itself
        """Verify the output once more. Raises InputError."""

    def close(self) -> None:  # noqa: B027 - a program holds nothing
        """Free what it holds."""


class Runner(ABC):
    """What makes items ready and runs them."""

    @abstractmethod
    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        """Do what needs no quiet host, and return the groups whose repeats are interleaved."""

    def turns(self, group: Sequence[Planned], repeats: int) -> int:  # noqa: ARG002
        """Return in how many turns the repeats of a group are run."""
        return repeats

    def begin(self, group: Sequence[Planned]) -> None:  # noqa: B027 - programs make their own memory
        """Make memory ready for a group. Raises InputError if there is too little."""

    @abstractmethod
    def ready(self, item: Planned) -> Ready:
        """Make an item ready and verify it. Raises InputError, or SkippedError if it cannot be measured here."""

    @abstractmethod
    def close(self) -> None:
        """Free everything."""


def measure(
    items: Sequence[Planned],
    runner: Runner,
    repeats: int,
    seed: int = 0,
    on_entry: Callable[[Entry], None] = lambda _: None,
    first_group: int = 1,
    on_step: OnStep = quietly,
) -> list[Entry]:
    """Run every item ``repeats`` times, repeats interleaved in shuffled order within groups.

    The output of each is verified before its repeats and after them. If one fails or does not fit, its ``status`` gives
    the reason and the others go on. ``on_entry`` is called with the result of each as soon as it is settled. On Ctrl-C
    the current group is settled with the samples it has, then KeyboardInterrupt rises. Return the results in the order
    of ``items``. ``first_group``: the number of the first group. ``on_step``: is called with the progress.

    Raises LostGpuError if an item has broken the card's context, after settling it (status "lost: ...") and those
    before it; and InputError if two have the same key.
    """
    if len({item.key for item in items}) != len(items):
        raise InputError("key: two schedules have the same key; give each its own")
    entries: dict[str, Entry] = {}

    def settle(entry: Entry) -> None:
        entries[entry.key] = entry
        on_entry(entry)

    groups = runner.plan(items, on_step)
    are_apart = len(groups) > 1 and all(len(group) == 1 for group in groups)
    for i, group in enumerate(groups):
        name, number = f"group {i + 1} of {len(groups)} ({len(group)} schedules)", first_group + i
        if are_apart:
            on_step("measuring", i, len(groups))
        tell = quietly if are_apart else partial(_tell, on_step, name)
        _Group(runner, number, settle, tell).measure(group, repeats, random.Random(f"{seed} {number}"))
    return [entries[item.key] for item in items]


def _tell(on_step: OnStep, group: str, what: str, done: int, of_all: int) -> None:
    on_step(f"{group}: {what}", done, of_all)


class _Measured:
    """An item while it is measured; its samples count only if ``status`` is "ok"."""

    def __init__(self, item: Planned, ready: Ready) -> None:
        self.item, self.ready, self.status = item, ready, "ok"
        self.seconds: dict[str, list[float]] = {}

    def run(self, repeats: int) -> None:
        for name, values in self.ready.run(repeats).items():
            self.seconds.setdefault(name, []).extend(values)


class _Group:
    """Items whose repeats are interleaved."""

    def __init__(self, runner: Runner, number: int, settle: Callable[[Entry], None], on_step: OnStep) -> None:
        self._runner, self._number, self._settle, self._on_step = runner, number, settle, on_step
        self._ready: list[_Measured] = []

    def measure(self, items: Sequence[Planned], repeats: int, rng: random.Random) -> None:
        """Measure the items and settle each."""
        self._on_step("making memory ready", 0, len(items))
        try:
            self._runner.begin(items)
        except InputError as error:
            for item in items:
                self._settle(item.entry(f"skipped: {error}", False, self._number, {}))
            return
        try:
            for i, item in enumerate(items):
                self._on_step("making ready and verifying", i, len(items))
                try:
                    self._ready.append(_Measured(item, self._runner.ready(item)))
                except InputError as error:
                    self._settle(item.entry(failure(error), False, self._number, {}))
                    if isinstance(error, LostGpuError):
                        raise
            turns = self._runner.turns(items, repeats)
            gc.collect()
            with collector_off():
                for _, one in shuffled_rounds(self._ready, turns, rng, "measuring", self._on_step):
                    self._guard(one, partial(one.run, -(-repeats // turns)))
        finally:
            self._leave()

    def _guard(self, one: _Measured, action: Callable[[], None]) -> None:
        """Do something with an item that has not failed, and note if it fails now. Raises LostGpuError."""
        if one.status == "ok":
            try:
                action()
            except InputError as error:
                one.status = failure(error)
                if isinstance(error, LostGpuError):
                    raise

    def _leave(self) -> None:
        """Verify once more and settle every item that was ready, whatever ended the rounds.

        If the context is lost, or after Ctrl-C, nothing more is verified: what was verified before its samples stands.
        """
        is_lost = any(one.status.startswith("lost") for one in self._ready)
        stopped: KeyboardInterrupt | None = None
        for i, one in enumerate(self._ready):
            self._on_step("verifying again", i, len(self._ready))
            if one.seconds and not is_lost and not stopped:
                try:
                    self._guard(one, one.ready.verify)
                except LostGpuError:
                    is_lost = True
                except KeyboardInterrupt as error:  # perhaps a second Ctrl-C: the samples are kept all the same
                    stopped = error
            if one.status == "ok" and not one.seconds:
                one.status = "interrupted"
            is_ok = one.status == "ok"
            one.ready.close()
            seconds, program = (one.seconds, one.ready.program) if is_ok else ({}, None)
            self._settle(one.item.entry(one.status, is_ok and one.ready.verified, self._number, seconds, program))
        if stopped:
            raise stopped


def failure(error: InputError) -> str:
    """Return the status of what failed so."""
    kinds = {LostGpuError: "lost", SkippedError: "skipped"}
    return f"{kinds.get(type(error), 'failed')}: {error}"


WARM_UP_RUNS = 2
GROUP_SIZE = 64  # schedules whose repeats are interleaved


class SampleProbes(NamedTuple):
    """Two schedules that are timed just before each sample and just after.

    - ``pace``: what counts is how long the host takes to issue it. It may use no more streams than there are hardware
      queues.
    - ``link``: what counts is how long the card takes for it.
    """

    pace: Schedule
    link: Schedule


class Replays(Runner):
    """A runner of schedules. ``probes``: what is timed around each sample; then samples have a pace and a link."""

    def __init__(self, gpu: Gpu, allow_races: bool = False, probes: SampleProbes | None = None) -> None:
        self._gpu, self._bench, self._probes = gpu, Bench(gpu, allow_races), probes
        self._beside: list[Replayer] = []

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:  # noqa: ARG002
        """Return the schedules in groups whose buffers fit together, beside the outputs that are expected of each."""
        found: list[list[Planned]] = []
        together: dict[Key, int] = {}
        kept = 0
        free_device, free_host = self._gpu.free_bytes(), free_host_bytes()
        for item in items:
            need = buffers_of(item.schedule)
            grown = union((together, need))
            kept += sum(outputs(item.schedule).values())
            fits = False
            with suppress(InputError):
                check_fits(grown, free_device, free_host - kept)
                fits = bool(found) and len(found[-1]) < GROUP_SIZE
            if not fits:
                found.append([])
                grown, kept = need, sum(outputs(item.schedule).values())
            found[-1].append(item)
            together = grown
        return list(found)

    def begin(self, group: Sequence[Planned]) -> None:
        """Allocate the buffers of a group and of the probes. Raises InputError if there is not enough memory."""
        self._end()
        probes = self._probes or ()
        schedules = [*(item.schedule for item in group), *probes]
        try:
            prepare(self._bench, schedules)
        except InputError:
            self._bench.arena.clear()  # buffers of earlier groups may be in the way
            prepare(self._bench, schedules)
        self._beside = [Replayer(schedule, self._bench) for schedule in probes]

    def ready(self, item: Planned) -> Ready:
        """Make a schedule ready, verify it and warm it up."""
        replayer = Replayer(item.schedule, self._bench)
        try:
            found = _Replay(replayer, self._beside, replayer.verify())
            for _ in range(WARM_UP_RUNS):
                replayer.run()
        except InputError:
            replayer.close()
            raise
        return found

    def _end(self) -> None:
        for replayer in self._beside:
            replayer.close()

    def close(self) -> None:
        """Give the memory back."""
        self._end()
        self._bench.close()


class _Replay(Ready):
    """A schedule that is ready."""

    def __init__(self, replayer: Replayer, beside: list[Replayer], verified: bool) -> None:
        self._replayer, self.verified = replayer, verified
        self._meters = [beside[0].issue, beside[1].device_s] if beside else []

    def run(self, repeats: int) -> Seconds:
        runs = [self._replayer.run_beside(self._meters) for _ in range(repeats)]
        samples, read_s = zip(*runs, strict=True)
        names = [*samples[0]._fields, *(("paces_s", "links_s") if self._meters else ())]
        rows = (sample + read for sample, read in zip(samples, read_s, strict=True))
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def verify(self) -> None:
        self._replayer.verify(timed=True)

    def close(self) -> None:
        self._replayer.close()
