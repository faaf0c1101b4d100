"""Records: measured runs, raw samples included, so that a comparison needs no card."""

import os
import platform
import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from streamsim.device.files import without_retired
from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.program.schedule import Schedule
from streamsim.text.shown import one_line
from streamsim_validate.records.card import Card
from streamsim_validate.records.chains import ChainRow, check_rows, check_times
from streamsim_validate.records.recipe import Recipe, digest
from streamsim_validate.records.spans import Spans

SCHEMA_VERSION = 3

PACE_ROUND = "iko"  # beside each run, in one stream; that of C++, which enters none, and of all records of before

Times = tuple[float, ...]


class Machine(msgspec.Struct, frozen=True):
    """The host that issued the calls."""

    system: str
    processor: str
    processors: int
    python: str


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """The language in which a recipe was written as a program, and what was measured beside it, in seconds.

    - ``kernels_s``, ``chunks_s``: each kernel alone, over all the work and the largest chunk; empty if not measured.
    - ``rounds_s``: a round of a chunk's calls just before the program and, if measured, just after it.
    - ``others_s``: by kind, rounds of other kinds.
    - ``pace``: the kind of round beside each run.
    - ``run_links_s``: a copy each way at once beside each run
      (:data:`~streamsim_validate.records.program_rounds.LINK_PAIR`), the mean of before and after, or empty.
    """

    language: str
    kernels_s: Times = ()
    chunks_s: Times = ()
    rounds_s: Times = ()
    others_s: dict[str, Times] = {}
    pace: str = PACE_ROUND
    run_links_s: Times = ()

    @property
    def all_times(self) -> tuple[Times, ...]:
        """The times of its kernels, chunks, rounds and copies."""
        return self.kernels_s, self.chunks_s, self.rounds_s, self.run_links_s, *self.others_s.values()


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="entry"):
    """A schedule and its samples, in seconds (see :mod:`streamsim_validate.records.timed` for what each time is of).

    The schedule is a suite's ``recipe`` (in files ``case``) or a ``schedule`` given whole; ``digest``: its fingerprint,
    "" in a record of before there was one. ``status`` is "ok", or says why it was skipped or failed. ``verified``: its
    output was compared; False when it names none. ``timeline``: where the run was told to trace. ``group``: number of
    the :class:`Group` in which it was measured, 0 for none. A program in a language has ``wall_s`` alone; one of the
    suite of them says more (``program``), and ``issue_s`` as well. ``paces_s``: how long the host took to issue
    :data:`~streamsim_validate.records.host_calls.PACE_CHAIN` just before each sample and just after, the mean of both,
    or a round of its program's ``pace``; ``links_s``: of a replay how long a copy each way at once took likewise
    (:data:`~streamsim_validate.records.program_rounds.LINK_PAIR`). Both are empty where that was not measured.
    """

    key: str
    digest: str
    status: str = "ok"
    verified: bool = False
    recipe: Recipe | None = msgspec.field(default=None, name="case")
    schedule: Schedule | None = None
    device_s: Times = ()
    wall_s: Times = ()
    issue_s: Times = ()
    timeline: Spans | None = None
    group: int = 0
    program: Program | None = None
    paces_s: Times = ()
    links_s: Times = ()

    def __post_init__(self) -> None:
        of_device, of_issue = len(self.device_s), len(self.issue_s)
        is_replay = of_device == of_issue == len(self.wall_s)
        if not (is_replay or (of_device == 0 and of_issue in (0, len(self.wall_s)))):
            raise InputError(f"entry {self.key!r}: device_s, wall_s and issue_s have different numbers of samples")
        if self.program is not None and self.recipe is None:
            raise InputError(f"entry {self.key!r}: is a program and has no case; measure it again")
        for name in ("paces_s", "links_s"):
            if len(getattr(self, name)) not in (len(self.wall_s), 0):
                raise InputError(f"entry {self.key!r}: {name} and wall_s have different numbers of samples")
        if self.program is not None and len(self.program.run_links_s) not in (len(self.wall_s), 0):
            raise InputError(f"entry {self.key!r}: run_links_s and wall_s have different numbers of samples")
        of_program = () if self.program is None else self.program.all_times
        for times in (self.device_s, self.wall_s, self.issue_s, self.paces_s, self.links_s, *of_program):
            check_times(f"entry {self.key!r}", times)

    def build(self) -> Schedule:
        """Return the schedule that was measured.

        Raises InputError when the pattern builds another one today than when it was measured.
        """
        schedule = self.schedule if self.recipe is None else self.recipe.schedule()
        if schedule is None:
            raise InputError(f"entry {self.key!r}: has neither a case nor a schedule; measure it again")
        if self.digest and digest(schedule) != self.digest:
            raise InputError(f"entry {self.key!r}: its pattern builds another schedule now; measure it again")
        return schedule

    @property
    def effect(self) -> str:
        """The effect that the recipe is there to show."""
        return "" if self.recipe is None else self.recipe.effect


class Group(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="group"):
    """Schedules whose repeats were interleaved, by number from 1, and the probes measured among them, in seconds.

    They say what the host's calls cost in those seconds (:mod:`streamsim_validate.compare.profiles`).
    """

    number: int
    probes: tuple[ChainRow, ...] = ()

    def __post_init__(self) -> None:
        check_rows(self.probes)


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """The measurements of one process, with one number of connections.

    ``before`` and ``after``: the device profile calibrated then, as plain data so that a record outlives
    changes of the profile's form; see :meth:`profile`. ``samples`` and ``samples_after``: what they were fitted to,
    likewise. ``groups``: what was probed meanwhile. ``seed``: of the order of the repeats and, with the number
    ``count`` of them (0 for the other suites), of the schedules of the suite ``random``.
    """

    connections: int
    started: str
    seed: int
    repeats: int
    finished: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    entries: tuple[Entry, ...] = ()
    samples: dict[str, Any] | None = None
    samples_after: dict[str, Any] | None = None
    groups: tuple[Group, ...] = ()
    count: int = 0

    def profile(self, when: str = "before") -> Device | None:
        """Return the profile calibrated ``"before"`` or ``"after"``; None when there was no calibration.

        Without numbers that profiles no longer have. Raises InputError when it is of another form for another reason.
        """
        plain = getattr(self, when)
        if plain is None:
            return None
        try:
            return msgspec.convert(without_retired(plain)[0], Device)
        except (msgspec.ValidationError, InputError) as error:
            raise InputError(one_line(f"the record's profile {when} the run: {error}; calibrate again")) from None


class Record(msgspec.Struct, frozen=True):
    """Measured runs of one suite on one card."""

    card: Card
    machine: Machine
    suite: str
    runs: tuple[Run, ...]
    streamsim: str = ""
    schema_version: int = SCHEMA_VERSION

    def measured(self) -> Iterator[tuple[Run, Entry]]:
        """Yield every entry that has samples, with its run."""
        return ((run, entry) for run in self.runs for entry in run.entries if entry.status == "ok" and entry.wall_s)

    def skipped(self) -> Iterator[tuple[Run, Entry]]:
        """Yield every entry without, with its run; its ``status`` says why."""
        return ((run, entry) for run in self.runs for entry in run.entries if entry.status != "ok" or not entry.wall_s)


NORMAL = 1.4826  # standard deviations in half the distance between the quartiles of what scatters normally


def median_and_spread(samples: Times) -> tuple[float, float]:
    """Return (median, half the distance between the quartiles), in the samples' unit."""
    if len(samples) < 2:
        return (samples[0] if samples else 0.0), 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return middle, (high - low) / 2


def relative_deviation(samples: Times) -> float:
    """Return the standard deviation of what scatters normally, over its median; outliers count for little."""
    middle, half = median_and_spread(samples)
    return NORMAL * half / middle


def to_times(values: Iterable[float]) -> Times:
    """Return the seconds in whole nanoseconds: no clock here resolves more."""
    return tuple(round(value, 9) for value in values)


def this_machine() -> Machine:
    """Return the host this runs on; no name of it, so that a record can be published."""
    system = f"{platform.system()} {platform.machine()}"
    return Machine(system, _processor(), os.cpu_count() or 1, platform.python_version())


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def now() -> str:
    """Return the time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
