"""Recipes: a schedule by pattern, arguments and workload, from which anybody builds the same ops.

Records hold recipes in place of schedules, which are a hundred times as long, with a digest of the measured schedule.
Recipes are in this room because reading a record must not need the rooms that measure.

Also here: the schedule of each time of a record (closed for the host's times, with timing events for the device's), and
programs in a language with the rounds of calls beside them. A program's recipe names its kernels by what they compute.
Their times are measured beside the program.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, cast

import msgspec

from streamsim.checks import MOST_CHUNKS, check_whole
from streamsim.device import Host
from streamsim.errors import InputError
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
    ring_config,
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
    ops = tuple(msgspec.structs.replace(op, stream=0) if isinstance(op, kinds) else op for op in plain.ops)
    return msgspec.structs.replace(plain, ops=ops, streams=streams, name=name)


def blocking_streams(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Return a program depth-first in streams that synchronise with the legacy default stream, which nothing uses."""
    plain = depth_first(workload, chunks, streams)
    kinds = ("blocking",) * streams
    return msgspec.structs.replace(plain, streams=kinds, name=f"blocking-streams N={chunks} S={streams}")


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
    return msgspec.structs.replace(plain, ops=(*ops, Synchronize()), streams=streams, events=2 * chunks, name=name)


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
    return msgspec.structs.replace(plain, ops=(*ops, Synchronize()), events=chunks, name=name)


Part = tuple[Copy | Kernel, ...]


def _parts(schedule: Schedule, workload: Workload) -> Iterator[tuple[Part, Part, Part]]:
    """Yield the copies in, kernels and copies out of each chunk of a depth-first schedule."""
    work = iter(cast("Part", schedule.ops[:-1]))  # the last op synchronises
    sizes = len(workload.inputs), len(workload.kernels), len(workload.outputs)
    for _ in range((len(schedule.ops) - 1) // sum(sizes)):
        inputs, kernels, outputs = (tuple(islice(work, size)) for size in sizes)
        yield inputs, kernels, outputs


def _over(ops: Part, stream: int) -> Iterator[Op]:
    return (msgspec.structs.replace(op, stream=stream) for op in ops)


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
        if isinstance(chunks, int) and (calls := chunks * self.workload.calls_of_chunk) > MOST_CALLS:
            raise InputError(
                f"chunks = {chunks}: {calls} calls, more than the {MOST_CALLS} that any run measures; give fewer"
            )
        try:
            return PATTERNS[self.pattern](self.workload, **self.arguments)
        except TypeError as error:
            raise InputError(f"arguments = {self.arguments!r}: {error}") from error

    @property
    def simplicity(self) -> tuple[int, ...]:
        """The smaller, the simpler, as for :class:`~streamsim.program.config.Config`; other patterns come last."""
        arguments: dict[str, Any] = self.arguments
        if self.pattern == "ring":
            return (0, *ring_config(**arguments).simplicity)
        if self.pattern in ORDER_OF:
            return (0, *Config(ORDER_OF[self.pattern], **arguments).simplicity)
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
    if not config.own_streams:
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
        msgspec.structs.replace(op, fill=1.0) if isinstance(op, Kernel) and op.fill is op.duration_s is None else op
        for op in schedule.ops
    )
    measured = msgspec.structs.replace(schedule, ops=ops, unchunked=None)
    return hashlib.sha256(msgspec.json.encode(measured)).hexdigest()[:16]


def closed(schedule: Schedule) -> Schedule:
    """Return the schedule with a synchronisation of the whole device at its end."""
    if schedule.ops[-1] == Synchronize():
        return schedule
    return msgspec.structs.replace(schedule, ops=(*schedule.ops, Synchronize()))


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
    return msgspec.structs.replace(
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
CHUNK_ROUND = "|iko"  # of calls, as the front ends are calibrated with: what says how fast the host is
LINEAR_ROUND = "|ilo"  # the same with a linear layer
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
    known = host if host.linear_s else msgspec.structs.replace(host, linear_s=host.kernel_s)
    return sum(float(getattr(known, name)) * times for name, times in costs_in(kind).items())


def key_of(language: str, recipe: Recipe) -> str:
    """Return one line that names the program and no other."""
    return f"{language}: {recipe.key}"


def config_of(recipe: Recipe) -> Config:
    """Return how the program is cut and issued."""
    numbers: dict[str, Any] = dict(recipe.arguments)
    if recipe.pattern == "ring":
        return ring_config(**numbers)
    return Config(ORDER_OF.get(recipe.pattern, "prefetch"), **numbers)
