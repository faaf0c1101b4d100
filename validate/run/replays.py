"""Replays of many schedules, measured: repeats interleaved, output verified, and no sample lost when one fails."""

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

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
        device_s: Iterable[float] = (),
        wall_s: Iterable[float] = (),
        issue_s: Iterable[float] = (),
        paces_s: Iterable[float] = (),
        links_s: Iterable[float] = (),
        program: Program | None = None,
        group: int = 0,
    ) -> Entry:
        """Return the entry of a record with these times. ``verified``: None if a program verifies its own output."""
        return Entry(
            key=self.key,
            digest=digest(self.schedule),
            status=status,
            verified=status == "ok" if verified is None else verified,
            recipe=self.recipe,
            schedule=None if self.recipe else self.schedule,
            device_s=to_times(device_s),
            wall_s=to_times(wall_s),
            issue_s=to_times(issue_s),
            paces_s=to_times(paces_s),
            links_s=to_times(links_s),
            program=program,
            group=group,
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
OnGroup = Callable[[int, Sequence[Measured]], None]


def measure(
    items: Sequence[Planned],
    gpu: Gpu,
    repeats: int,
    seed: int = 0,
    on_result: OnResult = lambda _: None,
    allow_races: bool = False,
    companions: Sequence[Planned] = (),
    probes: SampleProbes | None = None,
    on_group: OnGroup = lambda _number, _companions: None,
    first_group: int = 1,
    on_step: OnStep = quietly,
) -> list[Measured]:
    """Replay every schedule ``repeats`` times, repeats interleaved in shuffled order within groups of schedules.

    The output of each is verified before its repeats as it stands, and after them with the timing events. If one fails,
    races (unless ``allow_races``) or does not fit, its ``status`` gives the reason and the others go on. ``on_result``
    is called with each as soon as it is settled. On Ctrl-C the current group is settled with the samples it has, then
    KeyboardInterrupt rises. Return the results in the order of ``items``.

    - ``companions``: schedules that are measured again with every group, their repeats among those of its members. They
      are no results. If one fails, nothing else does. ``on_group`` is called with the number of each settled group,
      from ``first_group`` on, and the companions' samples.
    - ``probes``: what is timed around each sample of ``items``.
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
        found = list(groups(items, gpu, settle, companions))
        for number, group in enumerate(found, first_group):
            among: list[Measured] = []
            members = [_Member(item, number, settle) for item in group]
            members += [_Member(item, number, among.append, is_probed=False) for item in companions]
            name = f"group {number - first_group + 1} of {len(found)} ({len(group)} schedules)"
            try:
                _measure_group(members, bench, probes, repeats, random.Random(f"{seed} {number}"), name, on_step)
            finally:
                if companions:
                    on_group(number, among)
    finally:
        bench.close()
    return [results[item.key] for item in items]


def groups(
    items: Sequence[Planned], gpu: Gpu, settle: OnResult, companions: Sequence[Planned] = ()
) -> Iterator[list[Planned]]:
    """Yield the schedules in groups whose buffers fit together, with those of the companions.

    A schedule that does not even fit alone beside the companions is settled as skipped.
    """
    group: list[Planned] = []
    together: dict[Key, int] = {}
    free_device, free_host = gpu.free_bytes(), free_host_bytes()
    always = union(buffers_of(companion.schedule) for companion in companions)
    for item in items:
        need = union((always, buffers_of(item.schedule)))
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


class _Member(NamedTuple):
    """A schedule of a group, and what is called with its samples. ``is_probed``: probes stand around its samples."""

    item: Planned
    group: int
    settle: OnResult
    is_probed: bool = True


class _Entrant(NamedTuple):
    """A member that is ready to be measured."""

    member: _Member
    replayer: Replayer
    measured: Measured


def _measure_group(
    members: Sequence[_Member],
    bench: Bench,
    probes: SampleProbes | None,
    repeats: int,
    rng: random.Random,
    name: str,
    on_step: OnStep,
) -> None:
    on_step(f"{name}: making memory ready", 0, len(members))
    schedules = [item.schedule for item in (*(member.item for member in members), *(probes or ()))]
    try:
        prepare(bench, schedules)
    except InputError:
        bench.arena.clear()  # buffers of earlier groups may be in the way
        prepare(bench, schedules)
    entrants: list[_Entrant] = []
    try:
        for i, member in enumerate(members):
            on_step(f"{name}: making ready and verifying", i, len(members))
            entrant = _enter(member, bench)
            if entrant is not None:
                entrants.append(entrant)
        gc.collect()
        with _meters(probes, bench) as meters, collector_off():
            for _, entrant in shuffled_rounds(entrants, repeats, rng, f"{name}: measuring", on_step):
                if entrant.measured.status == "ok":
                    _sample(entrant, meters if entrant.member.is_probed else [])
    finally:
        _leave(entrants, f"{name}: verifying again", on_step)


@contextmanager
def _meters(probes: SampleProbes | None, bench: Bench) -> Iterator[list[Meter]]:
    """Yield the functions that time the pace and the link; none without ``probes``."""
    if probes is None:
        yield []
        return
    pace, link = (Replayer(item.schedule, bench) for item in probes)
    with closing(pace), closing(link):
        yield [pace.issue, link.device_s]


def _enter(member: _Member, bench: Bench) -> _Entrant | None:
    """Make a schedule ready, verify it and warm it up. Settle it with the reason, and return None, if it fails."""
    measured = Measured(member.item, group=member.group)
    replayer: Replayer | None = None
    try:
        replayer = Replayer(member.item.schedule, bench)
        measured.verified = replayer.verify()
        for _ in range(WARM_UP_RUNS):
            replayer.run()
    except InputError as error:
        if replayer is not None:
            replayer.close()
        measured.status = failure(error)
        member.settle(measured)
        if isinstance(error, LostGpuError):
            raise
        return None
    return _Entrant(member, replayer, measured)


def failure(error: InputError) -> str:
    """Return the status of what failed so."""
    return f"{'lost' if isinstance(error, LostGpuError) else 'failed'}: {error}"


def _sample(entrant: _Entrant, meters: list[Meter]) -> None:
    measured = entrant.measured
    try:
        sample, read_s = entrant.replayer.run_beside(meters)
    except InputError as error:
        measured.status = failure(error)
        if isinstance(error, LostGpuError):
            raise
        return
    measured.samples.append(sample)
    for times, seconds in zip((measured.paces_s, measured.links_s), read_s, strict=False):
        times.append(seconds)


def _leave(entrants: list[_Entrant], what: str, on_step: OnStep) -> None:
    """Verify once more and settle every schedule of the group, whatever ended its rounds.

    If the context is lost, or after Ctrl-C, nothing more is verified: what was verified before its samples stands.
    """
    is_lost = any(entrant.measured.status.startswith("lost") for entrant in entrants)
    stopped: KeyboardInterrupt | None = None
    for i, (member, replayer, measured) in enumerate(entrants):
        on_step(what, i, len(entrants))
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
        member.settle(measured)
    if stopped:
        raise stopped
