"""The measurement of many schedules or programs: repeats interleaved, output verified, no sample lost when one fails.

A :class:`Runner` makes a :class:`Job` of each item: of schedules (:class:`Replays`, by bare calls), or of programs in a
language (:mod:`~streamsim_validate.run.programs`).
"""

import gc
import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any

import msgspec

from streamsim.code import Language
from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.program import Schedule
from streamsim_validate import gpu as hardware
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import Entry, ProgramTimes, Recipe, digest, to_times


class Planned(msgspec.Struct, frozen=True):
    """A schedule to measure, named by ``key``, and the recipe that it comes from, if any.

    With a ``language``, its program is measured, and there is a recipe. ``work``: rounds of the program's stand-in
    kernel; None: the program finds them. ``times``: how often it makes each launch. ``is_probed``: its kernels, and the
    host and the link beside each run, are measured too.
    """

    key: str
    schedule: Schedule
    recipe: Recipe | None = None
    language: Language | None = None
    work: int | None = 1
    times: int = 1
    is_probed: bool = False


class SkippedError(InputError):
    """Something cannot be measured here, and will not be tried again."""


class Job(ABC):
    """An item that is measured. Its samples count only if ``status`` is "ok".

    ``seconds``: by the name of a time in an entry. ``verified``: it has output, and that was right. ``program``: what
    was measured of its kernels and beside its runs.
    """

    def __init__(self, item: Planned) -> None:
        self.item, self.status, self.verified = item, "ok", True
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.program = ProgramTimes(str(item.language)) if item.is_probed else None

    @abstractmethod
    def make_ready(self) -> None:
        """Verify the item. Raises InputError, or SkippedError if it cannot be measured here."""

    @abstractmethod
    def run(self, repeats: int) -> None:
        """Run it so many times and keep the seconds. Raises InputError."""

    def verify(self) -> None:  # noqa: B027 - a program verifies itself
        """Verify the output once more. Raises InputError."""

    def close(self) -> None:  # noqa: B027 - a program holds nothing
        """Free what it holds."""

    def attempt(self, action: Callable[[], None]) -> None:
        """Do something with an item that has not failed, and note if it fails now. Raises LostGpuError."""
        if self.status == "ok":
            try:
                action()
            except InputError as error:
                kinds = {hardware.LostGpuError: "lost", SkippedError: "skipped"}
                self.status = f"{kinds.get(type(error), 'failed')}: {error}"
                if isinstance(error, hardware.LostGpuError):
                    raise

    def entry(self, group: int) -> Entry:
        """Return the entry of a record. Programs with probes of their own stand in no group."""
        item, is_ok = self.item, self.status == "ok"
        samples: dict[str, Any] = {name: to_times(values) for name, values in self.seconds.items() if is_ok}
        if self.program:
            samples["program"] = self.program if is_ok else ProgramTimes(self.program.language)
        return Entry(
            key=item.key,
            digest=digest(item.schedule),
            status=self.status,
            verified=is_ok and self.verified,
            recipe=item.recipe,
            schedule=None if item.recipe else item.schedule,
            group=0 if item.is_probed else group,
            **samples,
        )


class Runner(ABC):
    """What makes items ready and runs them. ``most_turns``: in which the repeats of a group are run."""

    most_turns: int

    @abstractmethod
    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        """Do what needs no quiet host, and return the groups whose repeats are interleaved."""

    def begin(self, group: Sequence[Planned]) -> None:  # noqa: B027 - programs make their own memory
        """Make memory ready for a group. Raises InputError if there is too little."""

    @abstractmethod
    def job(self, item: Planned) -> Job:
        """Return an item that is not ready yet."""

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
    groups = runner.plan(items, on_step)
    for i, group in enumerate(groups):
        number, tell = first_group + i, partial(_tell, on_step, f"group {i + 1} of {len(groups)}")
        begun: list[Job] = []
        try:
            _run(group, runner, repeats, random.Random(f"{seed} {number}"), begun, tell)
        finally:
            for job in _settled(begun, tell):
                entries[job.item.key] = job.entry(number)
                on_entry(entries[job.item.key])
    return [entries[item.key] for item in items]


def _tell(on_step: OnStep, group: str, what: str, done: int, of_all: int) -> None:
    on_step(f"{group}: {what}", done, of_all)


def _run(
    group: Sequence[Planned], runner: Runner, repeats: int, rng: random.Random, begun: list[Job], on_step: OnStep
) -> None:
    """Measure a group. ``begun``: gets each job before anything is done for it."""
    on_step("making memory ready", 0, len(group))
    try:
        runner.begin(group)
    except InputError as error:
        begun += map(runner.job, group)
        for job in begun:
            job.status = f"skipped: {error}"
        return
    for i, item in enumerate(group):
        on_step("making ready and verifying", i, len(group))
        begun.append(runner.job(item))
        begun[-1].attempt(begun[-1].make_ready)
    turns = min(repeats, runner.most_turns) if len(group) > 1 else 1
    gc.collect()
    with collector_off():
        for _, job in shuffled_rounds(begun, turns, rng, "measuring", on_step):
            job.attempt(partial(job.run, -(-repeats // turns)))


def _settled(begun: Sequence[Job], on_step: OnStep) -> Iterator[Job]:
    """Verify every job once more and yield it, whatever ended the rounds.

    If the context is lost, or after Ctrl-C, nothing more is verified: what was verified before its samples stands.
    """
    is_over = any(job.status.startswith("lost") for job in begun)
    stopped: KeyboardInterrupt | None = None
    for i, job in enumerate(begun):
        on_step("verifying again", i, len(begun))
        if job.seconds and not is_over:
            try:
                job.attempt(job.verify)
            except hardware.LostGpuError:
                is_over = True
            except KeyboardInterrupt as error:  # perhaps a second Ctrl-C: the samples are kept all the same
                is_over, stopped = True, error
        if job.status == "ok" and not job.seconds:
            job.status = "interrupted"
        job.close()
        yield job
    if stopped:
        raise stopped


WARM_UP_RUNS = 2
GROUP_SIZE = 64  # schedules whose repeats are interleaved


class Replays(Runner):
    """A runner of schedules.

    ``probes``: two schedules that are timed just before each sample and just after. Of the first counts how long the
    host takes to issue it, so it may use no more streams than there are hardware queues; of the second, how long the
    card takes for it. Then samples have a pace and a link.
    """

    most_turns = 10_000

    def __init__(self, gpu: hardware.Gpu, probes: tuple[Schedule, ...] = ()) -> None:
        self._gpu, self._bench, self._probes = gpu, hardware.Bench(gpu), probes
        self._beside: list[hardware.Replayer] = []

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:  # noqa: ARG002
        """Return the schedules in groups whose buffers fit together, beside the outputs that are expected of each."""
        found: list[list[Planned]] = []
        together: dict[hardware.Key, int] = {}
        kept = 0
        free_device, free_host = self._gpu.free_bytes(), hardware.free_host_bytes()
        for item in items:
            need, output = hardware.buffers_of(item.schedule), sum(hardware.outputs(item.schedule).values())
            grown = hardware.union((together, need))
            fits = False
            with suppress(InputError):
                hardware.check_fits(grown, free_device, free_host - kept - output)
                fits = bool(found) and len(found[-1]) < GROUP_SIZE
            if not fits:
                found.append([])
                grown, kept = need, 0
            found[-1].append(item)
            together, kept = grown, kept + output
        return list(found)

    def begin(self, group: Sequence[Planned]) -> None:
        """Allocate the buffers of a group and of the probes. Raises InputError if there is not enough memory."""
        schedules = [*(item.schedule for item in group), *self._probes]
        try:
            hardware.prepare(self._bench, schedules)
        except InputError:
            self._bench.arena.clear()  # buffers of earlier groups may be in the way
            hardware.prepare(self._bench, schedules)
        self._beside = [hardware.Replayer(schedule, self._bench) for schedule in self._probes]

    def job(self, item: Planned) -> Job:
        """Return a schedule to replay."""
        meters = [self._beside[0].issue, self._beside[1].device_s] if self._beside else []
        return _Replay(item, self._bench, meters)

    def close(self) -> None:
        """Give the memory back."""
        self._bench.close()


class _Replay(Job):
    """A schedule that is replayed."""

    _replayer: hardware.Replayer

    def __init__(self, item: Planned, bench: hardware.Bench, meters: Sequence[Callable[[], float]]) -> None:
        super().__init__(item)
        self._bench, self._meters, self._held = bench, meters, ExitStack()

    def make_ready(self) -> None:
        self._replayer = self._held.enter_context(closing(hardware.Replayer(self.item.schedule, self._bench)))
        self.verified = self._replayer.verify()
        for _ in range(WARM_UP_RUNS):
            self._replayer.run()

    def run(self, repeats: int) -> None:
        for _ in range(repeats):
            sample, read_s = self._replayer.run_beside(self._meters)
            for name, seconds in zip((*sample._fields, "paces_s", "links_s"), (*sample, *read_s), strict=False):
                self.seconds[name].append(seconds)

    def verify(self) -> None:
        self._replayer.verify(timed=True)

    def close(self) -> None:
        self._held.close()
