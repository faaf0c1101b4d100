"""Records: a card's measured runs with their raw samples and time lines, so that a comparison needs no card.

A host's calls cost 10 to 25 % more or less within minutes. So a record holds the times of some chains of calls among
its schedules and in its calibrations. :mod:`streamsim_validate.calibrate` has the schedules of the chains, and fits the
cost of each call.
"""

import os
import platform
import statistics
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from streamsim.checks import LARGEST_BYTES, LONGEST_S, check_whole
from streamsim.device import Device, without_retired
from streamsim.errors import InputError
from streamsim.program import Copy, Kernel, Op, Schedule
from streamsim.text import one_line
from streamsim.timeline import Timeline
from streamsim_validate.records.recipe import Recipe, digest

SHORTEST_S = 1e-9  # no clock here resolves less

# A chain's kind, size and length, and of each of its runs device_s, wall_s and issue_s.
ChainRow = tuple[str, int, int, tuple[tuple[float, float, float], ...]]
PaceRow = tuple[str, int, int, tuple[float, ...]]  # of each of its runs how long the pace beside it took


class Chain(NamedTuple):
    """A probe: a chain of ``length`` links of one ``kind``. ``size``: bytes, elements or streams, by the kind."""

    kind: str
    size: int
    length: int

    @property
    def key(self) -> str:
        """The name of the chain among the results."""
        return f"{self.kind} {self.size} x{self.length}"


class Timing(NamedTuple):
    """The seconds of one run: on the card between events, for the host until all was done, and until all was issued."""

    device_s: float
    wall_s: float
    issue_s: float


Timings = Mapping[Chain, Sequence[Timing]]  # of each chain its runs


def rows_of(timings: Timings) -> tuple[ChainRow, ...]:
    """Return the form that a file holds."""
    return tuple((*chain, tuple((t.device_s, t.wall_s, t.issue_s) for t in runs)) for chain, runs in timings.items())


def timings_of(rows: Iterable[ChainRow]) -> dict[Chain, list[Timing]]:
    """Return the timings from the form that a file holds."""
    return {Chain(kind, size, n): [Timing(*run) for run in runs] for kind, size, n, runs in rows}


def check_rows(rows: Iterable[ChainRow]) -> None:
    """Raise InputError for a chain that no card could have run, or a time that no clock shows."""
    for kind, size, length, runs in rows:
        for name, value in (("size", size), ("length", length)):
            check_whole(f"chain {kind!r}: {name}", value, 0, LARGEST_BYTES)
        check_times(f"chain {kind!r}", [seconds for run in runs for seconds in run])


def check_times(what: str, seconds: Sequence[float]) -> None:
    """Raise InputError for a time that no clock shows."""
    if not all(abs(time) <= LONGEST_S for time in seconds):  # a difference may be below 0
        raise InputError(f"{what}: has a time of more than {LONGEST_S:g} s, which no clock shows; measure it again")


COPIES, CHUNK, MIX_LENGTH = "hd", "hkd", 64  # the calls of a link of a mix, by their letters, and its links
FEW_STREAMS, MANY_STREAMS = 4, 32
MIXES = ((COPIES, FEW_STREAMS), (CHUNK, FEW_STREAMS), (CHUNK, MANY_STREAMS))


class HostCalls(NamedTuple):
    """Seconds of calls that wait for nothing: numbers of :class:`streamsim.device.profile.Host`."""

    copy_s: float
    kernel_s: float
    record_s: float
    wait_s: float
    synchronize_s: float
    first_on_stream_s: float


def mix_kind(letters: str) -> str:
    """Return the kind of the chains of a mix of calls."""
    return f"mix {letters}"


def mix_chain(letters: str, streams: int) -> Chain:
    """Return the chain of a mix of calls over this many streams."""
    return Chain(mix_kind(letters), streams, MIX_LENGTH)


PACE_CHAIN = mix_chain(CHUNK, FEW_STREAMS)  # issued beside each sample of a schedule


def usual_pace_s(paces_s: Iterable[Sequence[float]]) -> float:
    """Return the median seconds in which the host issued the pace beside the programs of a calibration.

    Raises InputError if there are none.
    """
    found = [*chain.from_iterable(paces_s)]
    if not found:
        raise InputError("calibration: no paces beside the programs, of an earlier version; calibrate again")
    return float(statistics.median(found))


CALIBRATED_ON = "calibrated on "  # then the card's whole name
AFTER_A_NAME = ("", ",", ";")  # what may stand behind a card's name in a description


class Card(msgspec.Struct, frozen=True):
    """The card of a record, and the software that measured on it."""

    name: str
    pci_bus: str
    memory_bytes: int
    multiprocessors: int
    threads_per_multiprocessor: int
    copy_engines: int
    compute_capability: str
    driver: str
    cuda_driver: str
    cuda_runtime: str
    cupy: str

    @property
    def resident_threads(self) -> int:
        """The threads that fill the card."""
        return self.multiprocessors * self.threads_per_multiprocessor


def check_same_card(card: Card, device: Device) -> None:
    """Raise InputError if the profile is of another card than the record that it is to predict.

    A profile of ``calibrate`` names its card in its description. A profile that names none is accepted.
    """
    named = device.description
    _, calibrated, on = named.rpartition(CALIBRATED_ON)
    behind = on.removeprefix(card.name).lstrip()[:1]  # "NVIDIA H200 NVL" is another card than "NVIDIA H200"
    if calibrated and not (on.startswith(card.name) and behind in AFTER_A_NAME):
        raise InputError(
            f"device {device.name!r} is another card's profile ({named}); the record is of {card.name}:"
            " use the profile in the record or calibrate that card"
        )


ENGINES = ("h2d", "d2h", "compute")
H2D, D2H, COMPUTE = range(3)
NOTHING = -1  # the engine of ops that occupy none
LONGEST_NS = round(LONGEST_S * 1e9)


class Spans(msgspec.Struct, frozen=True):
    """A measured time line: the start and the end of each copy and kernel of a schedule, in issue order.

    Nanoseconds on the card's clock since the first start. The profiler saw them in a run of its own. Tracing slows the
    host, so they show order, engines, gaps and durations, and not the time of the whole.
    """

    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.start_ns) != len(self.end_ns):
            raise InputError("timeline: start_ns and end_ns have different numbers of ops")
        times = (*self.start_ns, *self.end_ns)
        if times and not 0 <= min(times) <= max(times) <= LONGEST_NS:
            raise InputError(f"timeline: expected times from 0 to {LONGEST_NS} ns")


def spans_of(timeline: Timeline) -> Spans:
    """Return a measured time line as a record keeps it."""
    ran = [op for op, engine in enumerate(timeline.engine) if engine != NOTHING]
    return Spans(tuple(timeline.start[op] for op in ran), tuple(timeline.end[op] for op in ran))


def timeline_of(schedule: Schedule, spans: Spans) -> Timeline:
    """Return the measured time line of ``schedule`` from a record. Raises InputError if it is another schedule's."""
    columns = MeasuredColumns(schedule, 0)
    ran = [(index, *engine_of(op)) for index, op in enumerate(schedule.ops) if engine_of(op)[0] != NOTHING]
    if len(ran) != len(spans.start_ns):
        raise InputError(f"timeline: has {len(spans.start_ns)} ops where the schedule has {len(ran)}; trace it again")
    for (index, engine, size), start_ns, end_ns in zip(ran, spans.start_ns, spans.end_ns, strict=True):
        columns.put(index, Activity(engine, start_ns, end_ns, size, 0))
    return columns.timeline()


class Activity(NamedTuple):
    """A copy or kernel that ran: its engine, the card's times in ns, bytes (0 for a kernel) and CUPTI's stream."""

    engine: int
    start_ns: int
    end_ns: int
    bytes: int
    stream: int


def engine_of(op: Op) -> tuple[int, int]:
    """Return (engine, bytes) that an op occupies."""
    if isinstance(op, Copy):
        return (H2D if op.direction == "h2d" else D2H), op.bytes
    return (COMPUTE, 0) if isinstance(op, Kernel) else (NOTHING, 0)


class MeasuredColumns:
    """The columns of a measured time line, filled op by op. ``zero_ns``: its time 0 on the card's clock."""

    def __init__(self, schedule: Schedule, zero_ns: int) -> None:
        self._schedule = schedule
        self._zero = zero_ns
        n = len(schedule.ops)
        self._engine, self._start, self._end = (array("q", [NOTHING]) * n for _ in range(3))

    def put(self, op: int, activity: Activity) -> None:
        """Enter the activity of op number ``op``. Raises InputError if it is another op's."""
        engine, size = engine_of(self._schedule.ops[op])
        if (engine, size) != (activity.engine, activity.bytes):
            raise InputError(f"the profiler has seen another op than ops[{op}]: no measured time line; try again")
        self._engine[op] = engine
        self._start[op], self._end[op] = activity.start_ns - self._zero, activity.end_ns - self._zero

    def timeline(self) -> Timeline:
        """Return the time line. An op that was not entered ran on no engine."""
        unknown = array("q", [NOTHING]) * len(self._schedule.ops)
        return Timeline(self._schedule, ENGINES, self._engine, unknown, unknown, unknown, self._start, self._end)


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
    """The language of a recipe that was written as a program, and the measurements beside it, in seconds.

    - ``kernels_s``, ``chunks_s``: each kernel alone, over all the work and over the largest chunk; empty if not
      measured.
    - ``pace``: the kind of round beside each run.
    - ``run_links_s``: a copy each way at once beside each run
      (:data:`~streamsim_validate.records.recipe.LINK_PAIR`), the mean of before and after, or empty.
    """

    language: str
    kernels_s: Times = ()
    chunks_s: Times = ()
    pace: str = PACE_ROUND
    run_links_s: Times = ()


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="entry"):
    """A schedule and its samples, in seconds (:mod:`streamsim_validate.records.recipe` has the schedule of each time).

    - ``recipe`` (in files ``case``) or ``schedule``: the schedule, from a suite or given whole. ``digest``: its
      fingerprint, "" in records that had none.
    - ``status``: "ok", or the reason why it was skipped or failed. ``verified``: its output was compared; False if it
      has none.
    - ``timeline``: the measured time line, if the run traced it. ``group``: the number of its :class:`Group`, 0 for
      none.
    - ``program``: for a program of the suite of programs. A program has ``wall_s``, and in that suite ``issue_s``; no
      ``device_s``.
    - ``paces_s``: seconds to issue :data:`~streamsim_validate.records.record.PACE_CHAIN`, or a round of the
      program's ``pace``: the mean of just before and just after each sample.
    - ``links_s``: the same for a copy each way at once beside a replay
      (:data:`~streamsim_validate.records.recipe.LINK_PAIR`). Both are empty if not measured.
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
        what, n, issued, program = f"entry {self.key!r}", len(self.wall_s), len(self.issue_s), self.program
        if len(self.device_s) not in (0, n) or issued not in (0, n) or (self.device_s and not issued):
            raise InputError(f"{what}: device_s, wall_s and issue_s have different numbers of samples")
        if program is not None and self.recipe is None:
            raise InputError(f"{what}: is a program and has no case; measure it again")
        beside = {"paces_s": self.paces_s, "links_s": self.links_s}
        if program is not None:
            beside["run_links_s"] = program.run_links_s
        for name, times in beside.items():
            if len(times) not in (n, 0):
                raise InputError(f"{what}: {name} and wall_s have different numbers of samples")
        of_kernels = () if program is None else (program.kernels_s, program.chunks_s)
        for times in (self.device_s, self.wall_s, self.issue_s, *beside.values(), *of_kernels):
            check_times(what, times)

    def build(self) -> Schedule:
        """Return the schedule that was measured.

        Raises InputError if the pattern builds another one today.
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
    """Schedules whose repeats were interleaved, by number from 1, and the probes among them, in seconds.

    Only older records have groups. Their probes show the cost of the host's calls in those seconds
    (:mod:`streamsim_validate.compare.profiles`); newer records have it beside each sample.
    """

    number: int
    probes: tuple[ChainRow, ...] = ()

    def __post_init__(self) -> None:
        check_rows(self.probes)


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """The measurements of one process, with one number of connections.

    - ``before``, ``after``: the calibrated device profiles, as plain data that outlives changes of the profile's form;
      see :meth:`profile`. ``samples``, ``samples_after``: the samples to which they were fitted.
    - ``groups``: the probes among the entries.
    - ``seed``: of the order of the repeats and, with their number ``count``, of drawn schedules (0 for the other
      suites).
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
        """Return the profile calibrated ``"before"`` or ``"after"``, without numbers that profiles no longer have.

        None if there was no calibration. Raises InputError if it has another form for another reason.
        """
        plain = getattr(self, when)
        if plain is None:
            return None
        try:
            return msgspec.convert(without_retired(plain), Device)
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
        """Yield every entry without samples, with its run; its ``status`` gives the reason."""
        return ((run, entry) for run in self.runs for entry in run.entries if entry.status != "ok" or not entry.wall_s)


NORMAL = 1.4826  # standard deviations in half the distance between the quartiles of what scatters normally


def median_and_spread(samples: Times) -> tuple[float, float]:
    """Return (median, half the distance between the quartiles), in the samples' unit."""
    if len(samples) < 2:
        return (samples[0] if samples else 0.0), 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return middle, (high - low) / 2


def relative_deviation(samples: Times) -> float:
    """Return the standard deviation of normal scatter, over the median; outliers count for little."""
    middle, half = median_and_spread(samples)
    return NORMAL * half / middle


def to_times(values: Iterable[float]) -> Times:
    """Return the seconds in whole nanoseconds: no clock here resolves less."""
    return tuple(round(value, 9) for value in values)


def this_machine() -> Machine:
    """Return the host of this process, without its name, so that a record can be published."""
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
