"""Replays of many schedules, measured: repeats interleaved, output verified, and no sample lost when one fails."""

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
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
    Meter,
    Replayer,
    Sample,
    buffers_of,
    check_fits,
    free_host_bytes,
    prepare,
    union,
)
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import Entry, Program, Recipe, config_of, digest, to_times

CUDA: Language = "cuda-c++"


class Planned(msgspec.Struct, frozen=True):
    """A schedule to measure, named by ``key``, and the recipe that it comes from, if any."""

    key: str
    schedule: Schedule
    recipe: Recipe | None = None

    def entry(
        self,
        status: str = "ok",
        *,
        verified: bool | None = None,
        program: Program | None = None,
        group: int = 0,
        **times: Iterable[float],
    ) -> Entry:
        """Return the entry of a record. ``verified``: None if a program verifies its own output. ``times``: seconds."""
        samples: dict[str, Any] = {name: to_times(seconds) for name, seconds in times.items()}
        return Entry(
            key=self.key,
            digest=digest(self.schedule),
            status=status,
            verified=status == "ok" if verified is None else verified,
            recipe=self.recipe,
            schedule=None if self.recipe else self.schedule,
            program=program,
            group=group,
            **samples,
        )


class WrittenProgram(Planned, frozen=True):
    """A program to measure in a language: it has a recipe.

    ``work``: rounds of its stand-in kernel. ``times``: how often it makes each launch.
    """

    language: Language = CUDA
    work: int = 1
    times: int = 1

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


WARM_UP_RUNS = 2
GROUP_SIZE = 64  # schedules whose repeats are interleaved


class SampleProbes(NamedTuple):
    """Two schedules that are timed just before each sample and just after.

    - ``pace``: what counts is how long the host takes to issue it. It may use no more streams than there are hardware
      queues.
    - ``link``: what counts is how long the card takes for it.
    """

    pace: Planned
    link: Planned


@dataclass
class Measured:
    """The samples of one schedule; they count only if ``status`` is "ok".

    - ``paces_s``, ``links_s``: for each sample, seconds to issue the pace and to run the link's copies around it. Both
      are empty without :class:`SampleProbes`.
    - ``verified``: True if the schedule has output and it was right.
    - ``group``: number of the group in which it was measured, 0 for none.
    """

    item: Planned
    samples: list[Sample] = field(default_factory=list)
    paces_s: list[float] = field(default_factory=list)
    links_s: list[float] = field(default_factory=list)
    verified: bool = False
    status: str = "ok"
    group: int = 0

    @property
    def entry(self) -> Entry:
        """The entry of a record."""
        return self.item.entry(
            self.status,
            verified=self.verified,
            device_s=(sample.device_s for sample in self.samples),
            wall_s=(sample.wall_s for sample in self.samples),
            issue_s=(sample.issue_s for sample in self.samples),
            paces_s=self.paces_s,
            links_s=self.links_s,
            group=self.group,
        )


OnResult = Callable[[Measured], None]


def measure(
    items: Sequence[Planned],
    gpu: Gpu,
    repeats: int,
    seed: int = 0,
    on_result: OnResult = lambda _: None,
    allow_races: bool = False,
    probes: SampleProbes | None = None,
    first_group: int = 1,
    on_step: OnStep = quietly,
) -> list[Measured]:
    """Replay every schedule ``repeats`` times, repeats interleaved in shuffled order within groups of schedules.

    The output of each is verified before its repeats as it stands, and after them with the timing events. If one fails,
    races (unless ``allow_races``) or does not fit, its ``status`` gives the reason and the others go on. ``on_result``
    is called with each as soon as it is settled. On Ctrl-C the current group is settled with the samples it has, then
    KeyboardInterrupt rises. Return the results in the order of ``items``.

    - ``probes``: what is timed around each sample. ``first_group``: the number of the first group.
    - ``on_step``: is called with what is being done, and how far it is.

    Raises LostGpuError if a schedule has broken the card's context, after settling it (status "lost: ...") and those
    before it; and InputError if two have the same key.
    """
    if len({item.key for item in items}) != len(items):
        raise InputError("key: two schedules have the same key; give each its own")
    bench = Bench(gpu, allow_races)
    results: dict[str, Measured] = {}

    def settle(measured: Measured) -> None:
        results[measured.item.key] = measured
        on_result(measured)

    try:
        found = list(groups(items, gpu, settle))
        for number, group in enumerate(found, first_group):
            name = f"group {number - first_group + 1} of {len(found)} ({len(group)} schedules)"
            members = [Measured(item, group=number) for item in group]
            _Group(name, bench, settle, on_step).measure(members, probes, repeats, random.Random(f"{seed} {number}"))
    finally:
        bench.close()
    return [results[item.key] for item in items]


def groups(items: Sequence[Planned], gpu: Gpu, settle: OnResult) -> Iterator[list[Planned]]:
    """Yield the schedules in groups whose buffers fit together. One that does not fit alone is skipped."""
    group: list[Planned] = []
    together: dict[Key, int] = {}
    free_device, free_host = gpu.free_bytes(), free_host_bytes()
    for item in items:
        need = buffers_of(item.schedule)
        try:
            check_fits(need, free_device, free_host)
        except InputError as error:
            settle(Measured(item, status=f"skipped: {error}"))
            continue
        grown = union((together, need))
        if group and (len(group) == GROUP_SIZE or not _fits(grown, free_device, free_host)):
            yield group
            group, grown = [], need
        group.append(item)
        together = grown
    if group:
        yield group


def _fits(need: dict[Key, int], free_device: int, free_host: int) -> bool:
    try:
        check_fits(need, free_device, free_host)
    except InputError:
        return False
    return True


class _Group:
    """Schedules whose repeats are interleaved. ``name``: as ``on_step`` is told."""

    def __init__(self, name: str, bench: Bench, settle: OnResult, on_step: OnStep) -> None:
        self._name, self._bench, self._settle, self._on_step = name, bench, settle, on_step
        self._ready: list[tuple[Measured, Replayer]] = []

    def measure(
        self, members: Sequence[Measured], probes: SampleProbes | None, repeats: int, rng: random.Random
    ) -> None:
        """Measure the members and settle each."""
        self._on_step(f"{self._name}: making memory ready", 0, len(members))
        schedules = [item.schedule for item in (*(member.item for member in members), *(probes or ()))]
        try:
            prepare(self._bench, schedules)
        except InputError:
            self._bench.arena.clear()  # buffers of earlier groups may be in the way
            prepare(self._bench, schedules)
        try:
            for i, member in enumerate(members):
                self._on_step(f"{self._name}: making ready and verifying", i, len(members))
                self._enter(member)
            gc.collect()
            rounds = shuffled_rounds(self._ready, repeats, rng, f"{self._name}: measuring", self._on_step)
            with _meters(probes, self._bench) as meters, collector_off():
                for _, (measured, replayer) in rounds:
                    if measured.status == "ok":
                        _sample(measured, replayer, meters)
        finally:
            self._leave()

    def _enter(self, measured: Measured) -> None:
        """Make a schedule ready, verify it and warm it up. Settle it with the reason if it fails."""
        replayer: Replayer | None = None
        try:
            replayer = Replayer(measured.item.schedule, self._bench)
            measured.verified = replayer.verify()
            for _ in range(WARM_UP_RUNS):
                replayer.run()
        except InputError as error:
            if replayer is not None:
                replayer.close()
            measured.status = failure(error)
            self._settle(measured)
            if isinstance(error, LostGpuError):
                raise
            return
        self._ready.append((measured, replayer))

    def _leave(self) -> None:
        """Verify once more and settle every schedule that was ready, whatever ended the rounds.

        If the context is lost, or after Ctrl-C, nothing more is verified: what was verified before its samples stands.
        """
        is_lost = any(measured.status.startswith("lost") for measured, _ in self._ready)
        stopped: KeyboardInterrupt | None = None
        for i, (measured, replayer) in enumerate(self._ready):
            self._on_step(f"{self._name}: verifying again", i, len(self._ready))
            if measured.status == "ok" and measured.samples and not is_lost and not stopped:
                try:
                    replayer.verify(timed=True)
                except InputError as error:
                    is_lost = isinstance(error, LostGpuError)
                    measured.status = failure(error)
                except KeyboardInterrupt as error:  # perhaps a second Ctrl-C: the samples are kept all the same
                    stopped = error
            if measured.status != "ok":
                for times in (measured.samples, measured.paces_s, measured.links_s):
                    times.clear()
            elif not measured.samples:
                measured.status = "interrupted"
            replayer.close()
            self._settle(measured)
        if stopped:
            raise stopped


@contextmanager
def _meters(probes: SampleProbes | None, bench: Bench) -> Iterator[list[Meter]]:
    """Yield the functions that time the pace and the link; none without ``probes``."""
    if probes is None:
        yield []
        return
    pace, link = (Replayer(item.schedule, bench) for item in probes)
    with closing(pace), closing(link):
        yield [pace.issue, link.device_s]


def _sample(measured: Measured, replayer: Replayer, meters: list[Meter]) -> None:
    try:
        sample, read_s = replayer.run_beside(meters)
    except InputError as error:
        measured.status = failure(error)
        if isinstance(error, LostGpuError):
            raise
        return
    measured.samples.append(sample)
    for times, seconds in zip((measured.paces_s, measured.links_s), read_s, strict=False):
        times.append(seconds)


def failure(error: InputError) -> str:
    """Return the status of what failed so."""
    return f"{'lost' if isinstance(error, LostGpuError) else 'failed'}: {error}"
