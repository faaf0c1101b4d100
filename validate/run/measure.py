"""Measure many schedules: repeats interleaved in shuffled order, output verified, nothing lost when one fails."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim_validate.gpu import (
    Bench,
    Key,
    LostGpuError,
    Replayer,
    Sample,
    buffers_of,
    check_fits,
    free_host_bytes,
    prepare,
    union,
)
from streamsim_validate.progress import OnStep, quietly

if TYPE_CHECKING:
    from streamsim.program.schedule import Schedule
    from streamsim_validate.gpu import Gpu, Meter

WARM_UP_RUNS = 2
GROUP_SIZE = 64  # schedules whose repeats are interleaved


class Job(NamedTuple):
    """A schedule to measure. ``key`` names it in the results."""

    key: str
    schedule: Schedule


class Beside(NamedTuple):
    """Measured just before each sample of a job and just after.

    ``pace``: how long the host takes to issue it; it may use no more streams than there are hardware queues. ``link``:
    how long the card takes for it.
    """

    pace: Job
    link: Job


@dataclass
class Measured:
    """What came of a job. Samples count only with ``status`` "ok"; ``verified``: there was output to verify.

    ``paces_s``, ``links_s``: of each sample how long the host took to issue the pace around it, and the card for the
    link's copies; none unless measured. ``group``: number of the group that it was measured in; 0 for none.
    """

    job: Job
    samples: list[Sample] = field(default_factory=list)
    paces_s: list[float] = field(default_factory=list)
    links_s: list[float] = field(default_factory=list)
    verified: bool = False
    status: str = "ok"
    group: int = 0


OnResult = Callable[[Measured], None]
OnSample = Callable[[Job, Sample], None]
OnGroup = Callable[[int, Sequence[Measured]], None]


def measure(
    jobs: Sequence[Job],
    gpu: Gpu,
    repeats: int,
    seed: int = 0,
    on_result: OnResult = lambda _: None,
    on_sample: OnSample = lambda _job, _sample: None,
    allow_races: bool = False,
    companions: Sequence[Job] = (),
    beside: Beside | None = None,
    on_group: OnGroup = lambda _number, _companions: None,
    first_group: int = 1,
    on_step: OnStep = quietly,
) -> list[Measured]:
    """Measure every job ``repeats`` times, repeats interleaved in shuffled order within groups of jobs.

    Each job is verified before its repeats as it stands and after them with the timing events; one that
    fails, races (unless ``allow_races``) or does not fit is reported with its reason in ``status`` and the
    others go on. ``on_result`` is called with each job as soon as it is settled; on Ctrl-C the group under way
    is settled with the samples it has, then KeyboardInterrupt rises. The results come in the order of the
    jobs.

    ``companions`` are measured again with every group, their repeats among those of its jobs. Once a group is
    settled, ``on_group`` is called with its number, from ``first_group`` on, and what came of them; one that fails
    is missed by nobody else. They are no results, and ``on_sample`` is not told of their samples. ``beside``: what
    tells how fast the host was by each sample of a job, and what others left of the link. ``on_step`` is told what is
    being done, and how far that is.

    Raises LostGpuError when a schedule has broken the card's context, after settling it (status
    "lost: ...") and those before it.
    """
    if len({job.key for job in jobs}) != len(jobs):
        raise InputError("key: two jobs have the same key; give each its own")
    bench = Bench(gpu, allow_races)
    results: dict[str, Measured] = {}

    def settle(measured: Measured) -> None:
        results[measured.job.key] = measured
        on_result(measured)

    try:
        found = list(groups(jobs, gpu, settle, companions))
        for number, group in enumerate(found, first_group):
            among: list[Measured] = []
            members = [_Member(job, number, settle, on_sample) for job in group]
            members += [_Member(job, number, among.append, lambda _job, _sample: None, False) for job in companions]
            of_all = f"group {number - first_group + 1} of {len(found)} ({len(group)} schedules)"
            try:
                rng = random.Random(f"{seed} {number}")
                _measure_group(members, bench, beside, repeats, rng, of_all, on_step)
            finally:
                if companions:
                    on_group(number, among)
    finally:
        bench.close()
    return [results[job.key] for job in jobs]


def groups(jobs: Sequence[Job], gpu: Gpu, settle: OnResult, companions: Sequence[Job] = ()) -> Iterator[list[Job]]:
    """Cut the jobs into groups whose buffers fit together, with those of the companions.

    One that does not even fit alone beside the companions is settled as skipped.
    """
    group: list[Job] = []
    together: dict[Key, int] = {}
    free_device, free_host = gpu.free_bytes(), free_host_bytes()
    always = union(buffers_of(companion.schedule) for companion in companions)
    for job in jobs:
        need = union((always, buffers_of(job.schedule)))
        try:
            check_fits(need, free_device, free_host)
        except InputError as error:
            settle(Measured(job, status=f"skipped: {error}"))
            continue
        grown = union((together, need))
        if group and (len(group) == GROUP_SIZE or not _fits(grown, free_device, free_host)):
            yield group
            group, grown = [], need
        group.append(job)
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
    """A job of a group, and who is told of it. ``is_metered``: it is measured what was beside its samples."""

    job: Job
    group: int
    settle: OnResult
    on_sample: OnSample
    is_metered: bool = True


class _Entrant(NamedTuple):
    """A member that is ready."""

    member: _Member
    replayer: Replayer
    measured: Measured


def _measure_group(
    members: Sequence[_Member],
    bench: Bench,
    beside: Beside | None,
    repeats: int,
    rng: random.Random,
    name: str,
    on_step: OnStep,
) -> None:
    on_step(f"{name}: making memory ready", 0, len(members))
    jobs = [*(member.job for member in members), *(beside or ())]
    try:
        prepare(bench, (job.schedule for job in jobs))
    except InputError:
        bench.arena.clear()  # buffers of earlier groups may be in the way
        prepare(bench, (job.schedule for job in jobs))
    entrants: list[_Entrant] = []
    try:
        for i, member in enumerate(members):
            on_step(f"{name}: making ready and verifying", i, len(members))
            entrant = _enter(member, bench)
            if entrant is not None:
                entrants.append(entrant)
        with _meters(beside, bench) as meters:
            _run_rounds(entrants, meters, repeats, rng, f"{name}: measuring", on_step)
    finally:
        _leave(entrants, f"{name}: verifying again", on_step)


@contextmanager
def _meters(beside: Beside | None, bench: Bench) -> Iterator[list[Meter]]:
    """What reads the seconds of the pace and of the link."""
    if beside is None:
        yield []
        return
    with closing(Replayer(beside.pace.schedule, bench)) as pace, closing(Replayer(beside.link.schedule, bench)) as link:
        yield [pace.issue, link.device_s]


def _enter(member: _Member, bench: Bench) -> _Entrant | None:
    """Make a job ready, verify and warm it up; one that fails is settled with the reason."""
    job = member.job
    measured = Measured(job, group=member.group)
    replayer: Replayer | None = None
    try:
        replayer = Replayer(job.schedule, bench)
        measured.verified = replayer.verify()
        for _ in range(WARM_UP_RUNS):
            replayer.run()
    except InputError as error:
        if replayer is not None:
            replayer.close()
        measured.status = _failure(error)
        member.settle(measured)
        if isinstance(error, LostGpuError):
            raise
        return None
    return _Entrant(member, replayer, measured)


def _failure(error: InputError) -> str:
    return f"{'lost' if isinstance(error, LostGpuError) else 'failed'}: {error}"


def _run_rounds(
    entrants: list[_Entrant], meters: list[Meter], repeats: int, rng: random.Random, what: str, on_step: OnStep
) -> None:
    order = list(entrants)
    gc.collect()
    with collector_off():
        for turn in range(repeats):
            rng.shuffle(order)
            for i, entrant in enumerate(order, turn * len(order)):
                on_step(what, i, repeats * len(order))
                if entrant.measured.status == "ok":
                    _sample(entrant, meters if entrant.member.is_metered else [])


def _sample(entrant: _Entrant, meters: list[Meter]) -> None:
    measured = entrant.measured
    try:
        sample, read_s = entrant.replayer.run_beside(meters)
    except InputError as error:
        measured.status = _failure(error)
        if isinstance(error, LostGpuError):
            raise
        return
    measured.samples.append(sample)
    for times, seconds in zip((measured.paces_s, measured.links_s), read_s, strict=False):
        times.append(seconds)
    entrant.member.on_sample(measured.job, sample)


def _leave(entrants: list[_Entrant], what: str, on_step: OnStep) -> None:
    """Verify once more and settle every job of the group, whatever ended its rounds.

    Once the context is lost, or on Ctrl-C, nothing is verified any more: what was verified before its samples stands.
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
                measured.status = _failure(error)
            except KeyboardInterrupt as error:  # a second Ctrl-C, say: what was measured is to be kept all the same
                stopped = error
        if measured.status != "ok":
            measured.samples.clear()
            measured.paces_s.clear()
            measured.links_s.clear()
        elif not measured.samples:
            measured.status = "interrupted"
        replayer.close()
        member.settle(measured)
    if stopped:
        raise stopped
