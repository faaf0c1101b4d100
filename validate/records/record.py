"""Records: a card's measured runs with their raw samples, so that a comparison needs no card.

Records hold recipes in place of schedules, which are a hundred times as long, with a digest of the measured schedule. A
:class:`Recipe` is a pattern, its arguments and a workload, from which anybody builds the same ops. A program's recipe
names its kernels by what they compute. Their times are measured beside the program.

Each time of a record is of a schedule: closed for the host's times, with timing events for the device's. A host's calls
cost 10 to 25 % more or less within minutes. So a record holds the times of some chains of calls among its schedules and
in its calibrations. :mod:`streamsim_validate.calibrate` has the schedules of the chains, and fits the cost of each
call.
"""

import hashlib
import os
import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from streamsim.device import Device, Host, without_retired
from streamsim.errors import LARGEST_BYTES, LONGEST_S, MOST_CHUNKS, InputError, check_whole
from streamsim.program import (
    Config,
    Copy,
    Kernel,
    Op,
    Order,
    RecordEvent,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
    Workload,
    WorkloadKernel,
    breadth_first,
    build,
    depth_first,
    prefetch,
    remembered,
    ring,
    serial,
)

Value = int | str
CHUNK_RELAY = "chunk-relay"  # the issue order relay: all kernels of a chunk wait once
ORDER_OF: dict[str, Order] = {
    "serial": "serial",
    "depth-first": "depth-first",
    "breadth-first": "breadth-first",
    CHUNK_RELAY: "relay",
}
MOST_CALLS = 50_000  # thirty times the longest of the suites


# Patterns that only records and suites need.


def legacy(workload: Workload, chunks: int) -> Schedule:
    """Return the program chunk by chunk in the legacy default stream: asynchronous, in order."""
    return _in_default_stream(depth_first(workload, chunks, 1), (Copy, Kernel), f"legacy N={chunks}", ())


def legacy_kernels(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Return a program depth-first in blocking streams, with kernels in the legacy default stream behind them."""
    plain = blocking_streams(workload, chunks, streams)
    return _in_default_stream(plain, (Kernel,), f"legacy-kernels N={chunks} S={streams}", plain.streams)


def _in_default_stream(
    plain: Schedule, kinds: tuple[type[Op], ...], name: str, streams: tuple[StreamKind, ...]
) -> Schedule:
    ops = tuple(replace(op, stream=0) if isinstance(op, kinds) else op for op in plain.ops)
    return replace(plain, ops=ops, streams=streams, name=name)


def blocking_streams(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Return a program depth-first in streams that synchronise with the legacy default stream, which nothing uses."""
    plain = depth_first(workload, chunks, streams)
    kinds = ("blocking",) * streams
    return replace(plain, streams=kinds, name=f"blocking-streams N={chunks} S={streams}")


def stages(workload: Workload, chunks: int, lanes: int) -> Schedule:
    """Return a program: one stream copies in, ``lanes`` streams run kernels, one copies out; events hand chunks on."""
    check_whole("lanes", lanes, 1, MOST_CHUNKS)
    plain = depth_first(workload, chunks, 1)
    copy_out, ops = lanes + 2, list[Op]()
    for chunk, (inputs, kernels, outputs) in enumerate(_parts(plain, workload)):
        lane, arrive, leave = 2 + chunk % lanes, 2 * chunk, 2 * chunk + 1
        ops += (*_over(inputs, 1), RecordEvent(arrive, 1))
        ops += (WaitEvent(arrive, lane), *_over(kernels, lane), RecordEvent(leave, lane))
        ops += (WaitEvent(leave, copy_out), *_over(outputs, copy_out))
    streams = ("non-blocking",) * (lanes + 2)
    name = f"stages N={chunks} L={lanes}"
    return replace(plain, ops=(*ops, Synchronize()), streams=streams, events=2 * chunks, name=name)


def relay(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Return a program depth-first, with each kernel behind the last one of the chunk before, by an event."""
    plain = depth_first(workload, chunks, streams)
    ops: list[Op] = []
    for chunk, (inputs, kernels, outputs) in enumerate(_parts(plain, workload)):
        ops += inputs
        for kernel in kernels:
            ops += (WaitEvent(chunk - 1, kernel.stream),) if chunk else ()
            ops += (kernel, RecordEvent(chunk, kernel.stream))
        ops += outputs
    name = f"relay N={chunks} S={streams}"
    return replace(plain, ops=(*ops, Synchronize()), events=chunks, name=name)


ChunkOps = tuple[Copy | Kernel, ...]


def _parts(schedule: Schedule, workload: Workload) -> Iterator[tuple[ChunkOps, ChunkOps, ChunkOps]]:
    """Yield the copies in, kernels and copies out of each chunk of a depth-first schedule."""
    work = iter(cast("ChunkOps", schedule.ops[:-1]))  # the last op synchronises
    sizes = len(workload.inputs), len(workload.kernels), len(workload.outputs)
    for _ in range((len(schedule.ops) - 1) // sum(sizes)):
        inputs, kernels, outputs = (tuple(islice(work, size)) for size in sizes)
        yield inputs, kernels, outputs


def _over(ops: ChunkOps, stream: int) -> Iterator[Op]:
    return (replace(op, stream=stream) for op in ops)


PATTERNS: dict[str, Callable[..., Schedule]] = {
    "serial": serial,
    "depth-first": depth_first,
    "breadth-first": breadth_first,
    "ring": ring,
    "prefetch": prefetch,
    "legacy": legacy,
    "legacy-kernels": legacy_kernels,
    "blocking-streams": blocking_streams,
    "stages": stages,
    "relay": relay,
    CHUNK_RELAY: partial(build, order="relay"),
}


class Recipe(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule by its pattern, arguments and workload, and the ``effect`` that it is there to show."""

    pattern: str
    arguments: dict[str, Value]
    workload: Workload
    effect: str

    def schedule(self) -> Schedule:
        """Build the schedule.

        Raises InputError if the pattern is unknown or refuses the arguments, and for more ops than any run measures.
        """
        if self.pattern not in PATTERNS:
            raise InputError(f"pattern = {self.pattern!r}: expected one of {', '.join(PATTERNS)}")
        chunks = self.arguments.get("chunks", 1)
        if isinstance(chunks, int) and (calls := self.workload.calls(chunks)) > MOST_CALLS:
            raise InputError(
                f"chunks = {chunks}: {calls} calls, more than the {MOST_CALLS} that any run measures; give fewer"
            )
        try:
            return PATTERNS[self.pattern](self.workload, **self.arguments)
        except TypeError as error:
            raise InputError(f"arguments = {self.arguments!r}: {error}") from error

    @property
    def simplicity(self) -> tuple[int, ...]:
        """The smaller, the simpler, as for :class:`~streamsim.program.patterns.Config`; other patterns come last."""
        if self.pattern == "ring" or self.pattern in ORDER_OF:
            return (0, *config_of(self).simplicity)
        arguments: dict[str, Any] = self.arguments
        buffers = arguments.get("buffers", 0)
        streams = arguments.get("streams", arguments.get("lanes", buffers or 1))
        return (1, arguments.get("chunks", 1), streams, buffers, arguments.get("launch") == "graph")

    @property
    def key(self) -> str:
        """One line that names this recipe and no other."""
        arguments = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.pattern} {arguments} of {workload_key(self.workload)}"


def recipe_of(config: Config, workload: Workload, effect: str) -> Recipe:
    """Return the recipe of a workload with this configuration."""
    numbers: dict[str, Value | None] = {"chunks": config.chunks, "buffers": config.buffers}
    if not config.issued.own_streams:
        numbers["streams"] = config.streams
    ways: dict[str, Value] = {
        name: getattr(config, name) for name in ("memory", "launch") if getattr(config, name) != getattr(Config(), name)
    }
    given = {name: value for name, value in numbers.items() if value is not None}
    return Recipe(CHUNK_RELAY if config.order == "relay" else config.pattern, {**given, **ways}, workload, effect)


def workload_key(workload: Workload) -> str:
    """Return one line that names a workload by what it does."""
    kernels = "+".join(map(_kernel_key, workload.kernels))
    arrays = "+".join(map(str, workload.inputs)) + ">" + "+".join(map(str, workload.outputs))
    return f"{workload.elements} x {arrays} B {kernels}"


def _kernel_key(kernel: WorkloadKernel) -> str:
    time = [] if kernel.duration_s is None else [f"{kernel.duration_s} s"]
    fill = [] if kernel.fill is None else [f"fill {kernel.fill}"]
    return f"{kernel.name}({', '.join([str(kernel.parameter), *time, *fill])})"


def digest(schedule: Schedule) -> str:
    """Return a short fingerprint of a schedule, which changes if a pattern builds another one than was measured."""
    # A fill that is not given was written as 1.0 once, and a kernel that the profile knows makes no use of it.
    ops = tuple(
        replace(op, fill=1.0) if isinstance(op, Kernel) and op.fill is op.duration_s is None else op
        for op in schedule.ops
    )
    measured = replace(schedule, ops=ops, unchunked=None)
    return hashlib.sha256(msgspec.json.encode(measured)).hexdigest()[:16]


def closed(schedule: Schedule) -> Schedule:
    """Return the schedule with a synchronisation of the whole device at its end."""
    if schedule.ops[-1] == Synchronize():
        return schedule
    return replace(schedule, ops=(*schedule.ops, Synchronize()))


@remembered
def with_timing_events(schedule: Schedule) -> Schedule:
    """Return the schedule as a timed program issues it, closed.

    Event ``schedule.events`` is recorded first, in the first stream used, and every other stream waits for it. Before
    the closing synchronisation, the first stream waits for an event at the end of every other stream. Then event
    ``schedule.events + 1`` is recorded in the first stream. The device's time lies between the two. A graph is timed by
    events before and after its launch, so it is only closed.
    """
    schedule = closed(schedule)
    streams = schedule.used_streams
    if schedule.launch == "graph" or not streams:
        return schedule
    first, *others = streams
    start, stop = schedule.events, schedule.events + 1
    before: list[Op] = [RecordEvent(start, first), *(WaitEvent(start, stream) for stream in others)]
    after: list[Op] = []
    for event, stream in enumerate(others, stop + 1):
        after += (RecordEvent(event, stream), WaitEvent(event, first))
    cut = first_closing(schedule)
    return replace(
        schedule,
        ops=(*before, *schedule.ops[:cut], *after, RecordEvent(stop, first), *schedule.ops[cut:]),
        events=stop + 1 + len(others),
    )


def first_closing(schedule: Schedule) -> int:
    """Return the index of the first of the synchronisations that end the schedule."""
    first = len(schedule.ops)
    while first and isinstance(schedule.ops[first - 1], Synchronize):
        first -= 1
    return first


STAND_IN = "stand_in"  # a kernel beside LINEAR; rounds and features are their parameters
PROGRAMS = "programs"  # the suite
# Calls by their letters in a round, and what each costs: i, o copies in and out, k a kernel, l a linear layer, n a
# kernel that no other round has, r and w record and wait for an event, s synchronises, | enters a stream.
CALLS = {"i": "copy_s", "o": "copy_s", "k": "kernel_s", "r": "record_s", "w": "wait_s", "s": "synchronize_s"}
CALLS |= {"|": "enter_s", "l": "linear_s", "n": "kernel_s"}
KERNELS = "kln"
ENTERS, TURN = "|", "turn_s"  # and what each that is not behind one of its kind costs more
# Beside each run as well: a copy each way at once, as long as a program's, since what others leave of the link changes
# within milliseconds.
LINK_BYTES = 32 << 20
LINK_PAIR = Schedule(
    (Copy("h2d", LINK_BYTES, 1), Copy("d2h", LINK_BYTES, 2), Synchronize()), streams=("non-blocking",) * 2
)


def costs_in(kind: str) -> Counter[str]:
    """Return how often a round of that kind, one of many in a row, pays each cost of a host.

    Raises InputError for an unknown call.
    """
    if not set(kind) <= CALLS.keys():
        raise InputError(f"pace = {kind!r}: expected letters of {''.join(CALLS)}; measure it again")
    called = ["kernel" if letter in KERNELS else letter for letter in kind if letter != ENTERS]
    turns = sum(one != other for one, other in zip(called, called[-1:] + called, strict=False))
    return Counter(CALLS[letter] for letter in kind) + Counter({TURN: turns})


def round_s(host: Host, kind: str) -> float:
    """Return the seconds of a round of that kind. Raises InputError as :func:`costs_in` does."""
    known = host if host.linear_s else replace(host, linear_s=host.kernel_s)
    return sum(float(getattr(known, name)) * times for name, times in costs_in(kind).items())


def config_of(recipe: Recipe) -> Config:
    """Return how the program is cut and issued."""
    numbers: dict[str, Any] = dict(recipe.arguments)
    if recipe.pattern == "ring":
        return Config(**{"streams": numbers["buffers"], **numbers})
    return Config(ORDER_OF.get(recipe.pattern, "prefetch"), **numbers)


SHORTEST_S = 1e-9  # no clock here resolves less


class Chain(NamedTuple):
    """A probe: a chain of ``length`` links of one ``kind``. ``size``: bytes, elements or streams, by the kind."""

    kind: str
    size: int
    length: int

    @property
    def key(self) -> str:
        """The name of the chain among the results."""
        return f"{self.kind} {self.size} x{self.length}"


Seconds = Annotated[float, msgspec.Meta(ge=-LONGEST_S, le=LONGEST_S)]  # a difference may be below 0
Times = tuple[Seconds, ...]
Size = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_BYTES)]


class Timing(NamedTuple):
    """The seconds of one run: on the card between events, for the host until all was done, and until all was issued."""

    device_s: Seconds
    wall_s: Seconds
    issue_s: Seconds


ChainRow = tuple[str, Size, Size, tuple[Timing, ...]]  # a chain and its runs, as a file holds them
PaceRow = tuple[str, Size, Size, Times]  # a chain, and how long the pace beside each of its runs took
T = TypeVar("T")


def rows_of(chains: Mapping[Chain, Iterable[T]]) -> tuple[tuple[str, int, int, tuple[T, ...]], ...]:
    """Return the form that a file holds of what each chain has."""
    return tuple((*chain, tuple(each)) for chain, each in chains.items())


# Copies h and d, and kernels k, over few and over many streams: what shows the host's speed in older records.
MIXES = tuple(Chain(f"mix {letters}", streams, 64) for letters, streams in (("hd", 4), ("hkd", 4), ("hkd", 32)))
PACE_CHAIN = MIXES[1]  # issued beside each sample of a schedule


class CallCosts(NamedTuple):
    """Seconds of calls that wait for nothing: numbers of :class:`streamsim.device.profile.Host`."""

    copy_s: float
    kernel_s: float
    record_s: float
    wait_s: float
    synchronize_s: float
    first_on_stream_s: float


CALIBRATED_ON = "calibrated on "  # then the card's whole name


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
    # "NVIDIA H200 NVL" is another card than "NVIDIA H200"
    if calibrated and not f"{on},".startswith((f"{card.name},", f"{card.name};")):
        raise InputError(
            f"device {device.name!r} is another card's profile ({named}); the record is of {card.name}:"
            " use the profile in the record or calibrate that card"
        )


SCHEMA_VERSION = 3

PACE_ROUND = "iko"  # beside each run, in one stream; that of C++, which enters none, and of all records of before


class Machine(msgspec.Struct, frozen=True):
    """The host that issued the calls."""

    system: str
    processor: str
    processors: int
    python: str


class ProgramTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The language of a recipe that was written as a program, and the measurements beside it, in seconds.

    - ``kernels_s``, ``chunks_s``: each kernel alone, over all the work and over the largest chunk; empty if not
      measured.
    - ``pace``: the kind of round beside each run.
    - ``run_links_s``: a copy each way at once beside each run
      (:data:`~streamsim_validate.records.record.LINK_PAIR`), the mean of before and after, or empty.
    """

    language: str
    kernels_s: Times = ()
    chunks_s: Times = ()
    pace: str = PACE_ROUND
    run_links_s: Times = ()


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="entry"):
    """A schedule and its samples, in seconds (:mod:`streamsim_validate.records.record` has the schedule of each time).

    - ``recipe`` (in files ``case``) or ``schedule``: the schedule, from a suite or given whole. ``digest``: its
      fingerprint, "" in records that had none.
    - ``status``: "ok", or the reason why it was skipped or failed. ``verified``: its output was compared; False if it
      has none.
    - ``group``: the number of its :class:`Group`, 0 for none.
    - ``program``: for a program of the suite of programs. A program has ``wall_s``, and in that suite ``issue_s``; no
      ``device_s``.
    - ``paces_s``: seconds to issue :data:`~streamsim_validate.records.record.PACE_CHAIN`, or a round of the
      program's ``pace``: the mean of just before and just after each sample.
    - ``links_s``: the same for a copy each way at once beside a replay
      (:data:`~streamsim_validate.records.record.LINK_PAIR`). Both are empty if not measured.
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
    group: int = 0
    program: ProgramTimes | None = None
    paces_s: Times = ()
    links_s: Times = ()

    def __post_init__(self) -> None:
        what, of_program = f"entry {self.key!r}", self.program or ProgramTimes("")
        if self.program is not None and self.recipe is None:
            raise InputError(f"{what}: is a program and has no case; measure it again")
        if self.device_s and not self.issue_s:
            raise InputError(f"{what}: has device_s and no issue_s; measure it again")
        of_runs = {name: getattr(self, name) for name in ("device_s", "issue_s", "paces_s", "links_s")}
        of_runs["run_links_s"] = of_program.run_links_s
        for name, times in of_runs.items():
            if len(times) not in (len(self.wall_s), 0):
                raise InputError(f"{what}: {name} and wall_s have different numbers of samples")

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


class Group(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="line", tag="group"):
    """Schedules whose repeats were interleaved, by number from 1, and the probes among them, in seconds.

    Only older records have groups. Their probes show the cost of the host's calls in those seconds
    (:mod:`streamsim_validate.compare.predictions`); newer records have it beside each sample.
    """

    number: int
    probes: tuple[ChainRow, ...] = ()


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
            raise InputError(f"the record's profile {when} the run: {error}; calibrate again") from None


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


def median_and_spread(samples: Times) -> tuple[float, float]:
    """Return (median, half the distance between the quartiles), in the samples' unit."""
    if len(samples) < 2:
        return (samples[0] if samples else 0.0), 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return middle, (high - low) / 2


def relative_deviation(samples: Times) -> float:
    """Return the standard deviation of normal scatter, over the median; outliers count for little."""
    middle, half = median_and_spread(samples)
    return 1.4826 * half / middle  # normal scatter has a standard deviation of 1.4826 times that half


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
