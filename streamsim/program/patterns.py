"""Patterns: the usual ways to cut a workload into chunks and to issue them.

A :class:`Config` says how a workload is cut and issued, and which choices go together. All code that cuts, searches,
prices or bounds programs makes a Config and asks it.

A :class:`ChunkLoop` says which calls a program makes for each chunk, in which stream, and what waits for what. It is
the one description of an issue order: the schedule is built from it here, :mod:`streamsim.code.loops` writes the
program, and :mod:`streamsim.compiled.configurations` lays out the compiled model's records. A new order is a new row of
``ISSUE_ORDERS``.

A loop makes passes over all chunks, one after another. In each round of a pass its bodies come in turn, each for one
chunk. Arrays that are copied once go in stream 0 before the passes, and back after them (``ChunkLoop.ends``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec.structs import replace

from streamsim.collector import collector_off
from streamsim.errors import MOST_CHUNKS, Checked, InputError, Limits, check_calls, counted
from streamsim.program import schedule as calls
from streamsim.program.schedule import Launch, Schedule
from streamsim.program.workload import Workload

Order = Literal["depth-first", "breadth-first", "serial", "prefetch", "relay"]
ORDERS: tuple[Order, ...] = get_args(Order)
Stage = Literal["copy in", "run", "copy out"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Distance = Literal[0, 1, "buffers"]  # from chunk to chunk
Stages = tuple[Stage, ...]
TURN = -1  # in place of a stream: stream i mod S for chunk i
PREFETCH_BUFFERS = 2  # default: one for this chunk, one for the next


class Step(NamedTuple):
    """The calls of one kind for a chunk.

    - ``does``: a stage: the chunk's copies in, its kernels, or its copies out. "prepare": the host's own work before it
      issues the chunk. "record": the record of the chunk's event. "wait": the stream waits for the event of an earlier
      chunk, if the event was recorded.
    - ``distance``: from a chunk that records to the later chunk that waits, or from one that waits to the earlier
      chunk. If there is no such later chunk, the event is not recorded. 0: the chunk itself.
    - ``between_streams``: there is no record and no wait if both chunks are in one stream.
    """

    does: Stage | Literal["prepare", "record", "wait"]
    stream: int = TURN
    event: str = ""
    distance: Distance = 0
    between_streams: bool = False


class Body(NamedTuple):
    """The calls for one chunk, in one round.

    ``follows``: the calls are made in the round of the next chunk, if the buffers have room for both chunks.
    """

    steps: tuple[Step, ...]
    follows: bool = False


Pass = tuple[Body, ...]


class ChunkLoop(NamedTuple):
    """The calls of a program over all chunks.

    - ``events``: the names of a chunk's events. Events are numbered chunk by chunk.
    - ``roles``: the purpose of each stream; empty: chunks take turns over the streams.
    - ``ends``: in a loop with roles, the stream that copies back the arrays copied once, and the stream that it waits
      for. Empty: stream 0 copies them back and waits for all other streams.
    """

    passes: tuple[Pass, ...]
    events: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()

    @property
    def steps(self) -> Iterator[Step]:
        """All steps, in the order of issue."""
        return (step for bodies in self.passes for body in bodies for step in body.steps)


class IssueOrder(NamedTuple):
    """An issue order.

    - ``loop``: returns the loop for the stages that a workload has.
    - ``ring``: returns the loop over buffers of one chunk each, used in turn; None: the order has no such loop.
    - ``own_streams``: the fixed number of streams; 0: the user chooses it.
    - ``least_buffers``: the default number of buffers; None: one for each chunk.
    - ``is_blocking``: True if the host waits for each copy.
    - ``keeps_order``: True if each chunk's kernels run after those of the chunk before, over any number of streams.
    """

    loop: Callable[[Stages], ChunkLoop]
    ring: Callable[[Stages], ChunkLoop] | None = None
    own_streams: int = 0
    least_buffers: int | None = None
    is_blocking: bool = False
    keeps_order: bool = False


PREPARE = Step("prepare")


def _pass(*steps: Step) -> Pass:
    return (Body(steps),)


def _by_chunk(stages: Stages) -> ChunkLoop:
    return ChunkLoop((_pass(PREPARE, *map(Step, stages)),))


def _by_stage(stages: Stages) -> ChunkLoop:
    passes = [_pass(Step(stage)) if k else _pass(PREPARE, Step(stage)) for k, stage in enumerate(stages)]
    return ChunkLoop(tuple(passes))


def _ring(stages: Stages) -> ChunkLoop:
    wait, record = (Step(does, TURN, "done", "buffers", between_streams=True) for does in ("wait", "record"))
    return ChunkLoop((_pass(PREPARE, wait, *map(Step, stages), record),), ("done",))


def _relay(stages: Stages) -> ChunkLoop:
    """Chunk by chunk; the kernels of each chunk wait for those of the chunk before."""
    run = [Step("wait", event="ran", distance=1), Step("run"), Step("record", event="ran")]
    steps = [step for stage in stages for step in (run if stage == "run" else [Step(stage)])]
    return ChunkLoop((_pass(PREPARE, *steps),), ("ran",) if "run" in stages else ())


def _prefetch(stages: Stages) -> ChunkLoop:
    """Each chunk is copied in beside the kernels of the one before it; events hand it from stream to stream."""
    load, compute, store = range(3)
    loads = [PREPARE, Step("wait", load, "ran", "buffers"), Step("copy in", load), Step("record", load, "loaded")]
    stored = [Step("wait", compute, "stored", "buffers")] if "copy out" in stages else []
    computes = [Step("wait", compute, "loaded"), *stored, Step("run", compute), Step("record", compute, "ran")]
    stores = [Step("wait", store, "ran"), Step("copy out", store), Step("record", store, "stored")]
    has = {"prepare", "record", "wait", *stages}
    bodies = [tuple(step for step in steps if step.does in has) for steps in (loads, computes, stores)]
    own = (Body(bodies[0]), *(Body(steps, follows=True) for steps in bodies[1 : 3 if stored else 2]))
    return ChunkLoop((own,), ("loaded", "ran", "stored"), ("load", "compute", "store"), (store, compute))


ISSUE_ORDERS: dict[Order, IssueOrder] = {
    "depth-first": IssueOrder(_by_chunk, _ring),
    "breadth-first": IssueOrder(_by_stage),
    "serial": IssueOrder(_by_chunk, own_streams=1, is_blocking=True),
    "prefetch": IssueOrder(_prefetch, _prefetch, own_streams=3, least_buffers=PREFETCH_BUFFERS, keeps_order=True),
    "relay": IssueOrder(_relay, keeps_order=True),
}


def stages_of(workload: Workload) -> Stages:
    """Return the stages that the chunks of a workload have, in order."""
    known = workload.inputs, workload.kernels, workload.outputs
    return tuple(stage for stage, has in zip(STAGES, known, strict=True) if has)


@cache
def loop_of(order: Order, is_ring: bool, stages: Stages) -> ChunkLoop:
    """Return the loop of an issue order for chunks with these stages; ``is_ring``: over buffers used in turn."""
    issued = ISSUE_ORDERS[order]
    return (issued.ring if is_ring and issued.ring else issued.loop)(stages)


# Configurations

HostMemory = Literal["pinned", "pageable"]
HOST_MEMORIES: tuple[HostMemory, ...] = get_args(HostMemory)
Count = Annotated[int, Limits(1, MOST_CHUNKS)]


def useful_streams(order: Order, chunks: int) -> int:
    """Return the most streams over which ``chunks`` chunks can take turns; 1 if the order has streams of its own."""
    return 1 if ISSUE_ORDERS[order].own_streams else chunks


def most_streams(workload: Workload, order: Order = "depth-first") -> int:
    """Return the most streams over which the chunks of a workload may take turns."""
    return 1 if workload.in_order and not ISSUE_ORDERS[order].keeps_order else MOST_CHUNKS


class Config(Checked, frozen=True):
    """A way to cut and issue a workload.

    - ``streams``: the number of streams over which chunks take turns; 1 for a prefetching program, which has three
      streams of its own: one for each direction, and one for kernels.
    - ``buffers``: the number of device buffers of one chunk that chunks use in turn. None: the card holds the whole
      workload, or two chunks if the order is prefetch.

    Raises InputError naming the field if the fields do not go together.
    """

    order: Order = "depth-first"
    chunks: Count = 1
    streams: Count = 1
    buffers: Count | None = None
    memory: HostMemory = "pinned"
    launch: Launch = "live"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        issued = self.issued
        if self.buffers is not None and issued.ring is None:
            raise InputError(
                f"buffers = {self.buffers}: a ring of buffers is issued depth-first or prefetched, not {self.order}"
            )
        if issued.own_streams and self.streams > 1:
            own = counted(issued.own_streams, "stream")
            raise InputError(f"streams = {self.streams}: the order {self.order} has {own} of its own; leave it out")
        if self.launch == "graph" and (issued.is_blocking or self.memory == "pageable"):
            raise InputError("launch = 'graph': no graph has blocking or pageable copies; use another order or memory")

    @property
    def issued(self) -> IssueOrder:
        """The issue order: its loop and its rules."""
        return ISSUE_ORDERS[self.order]

    @property
    def slots(self) -> int | None:
        """The number of device buffers of one chunk that are in use, in turn; None: no buffer is used twice."""
        buffers = self.issued.least_buffers if self.buffers is None else self.buffers
        return None if buffers is None else min(buffers, self.chunks)

    @property
    def pattern(self) -> str:
        """The name of such programs: "ring", or the issue order."""
        return "ring" if self.buffers is not None and self.issued.ring is not self.issued.loop else self.order

    def distance(self, distance: Distance) -> int:
        """Return a distance in chunks."""
        return (self.slots or 1) if distance == "buffers" else distance

    def records(self, step: Step) -> int:
        """Return the number of chunks, from the first on, that make the record ``step``."""
        distance = self.distance(step.distance)
        is_needless = step.between_streams and distance % self.streams == 0
        return 0 if is_needless else max(0, self.chunks - distance)

    def loop(self, workload: Workload) -> ChunkLoop:
        """Return the loop that issues the chunks of a workload."""
        return loop_of(self.order, self.buffers is not None, stages_of(workload))

    @property
    def simplicity(self) -> tuple[int, int, int, int, int]:
        """A key to sort by simplicity: fewest chunks, then streams, then no or the smallest ring, depth-first, live."""
        streams = max(self.issued.own_streams, self.streams)
        order, launch = ORDERS.index(self.order), calls.LAUNCHES.index(self.launch)
        return self.chunks, streams, self.buffers or 0, order, launch

    @property
    def words(self) -> str:
        """A description such as "16 chunks on 4 streams, depth-first"."""
        ring = f", {counted(self.buffers, 'buffer')}" if self.buffers else ""
        graph = ", as a graph" if self.launch == "graph" else ""
        on_streams = "" if self.order == "prefetch" else f" on {counted(self.streams, 'stream')}"
        return f"{counted(self.chunks, 'chunk')}{on_streams}, {self.order}{ring}{graph}"

    def fitted(self) -> Config:
        """Return the same program with the least numbers: at most as many streams and buffers as chunks."""
        streams = min(self.streams, useful_streams(self.order, self.chunks))
        return replace(self, streams=streams, buffers=self.slots)

    def check(self, workload: Workload) -> None:
        """Raise InputError unless the workload can be cut and issued in this way."""
        if self.chunks > workload.most_chunks:
            workload.cut(self.chunks)  # says why
        check_calls(f"chunks = {self.chunks}", workload.calls(self.chunks))
        if self.streams > most_streams(workload, self.order):
            raise InputError(
                f"streams = {self.streams}: in_order = true: chunks need each other's result, so their kernels stay in"
                " one stream; use 1, or the order prefetch or relay"
            )
        if self.launch == "graph" and workload.has_host_work:
            raise InputError(
                "launch = 'graph': the host cannot work between the steps of a graph, which it launches once; use live,"
                " or leave host_work_s and host_load_s out"
            )

    def schedule(self, workload: Workload) -> Schedule:
        """Return the program of a workload. Raises InputError if it cannot be cut and issued in this way."""
        self.check(workload)
        unchunked = None
        if self.chunks > 1 or not self.issued.is_blocking:
            unchunked = Config("serial", memory=self.memory).schedule(workload.loaded_once(self.chunks))
        streams = "" if self.issued.own_streams else f" S={self.streams}"
        ring = "" if self.slots is None else f" K={self.slots}"
        with collector_off():  # nothing that is made here becomes garbage before the end
            return _Pipeline(workload, self).schedule(f"{self.pattern} N={self.chunks}{streams}{ring}", unchunked)

    def device_bytes(self, workload: Workload) -> int:
        """Return the bytes of all device buffers of the program."""
        slots = self.slots
        if slots is None:
            return sum(workload.input_bytes) + sum(workload.output_bytes) + workload.once_bytes
        sizes: list[tuple[int, ...]] = [part.inputs + part.outputs for part in workload.cut(self.chunks)]
        chunk: int = sum(max(column) for column in zip(*sizes, strict=True))
        return slots * chunk + workload.once_bytes


# Pipelines: workloads cut into chunks and issued by a loop.
#
# Copies name their buffers, so that a schedule can be checked for races and replayed with its output verified. Host and
# device arrays hold the whole workload, unless chunks use buffers in turn. Arrays that are copied once go in before the
# first chunk, in the loop's first stream, for which the other streams wait. They go back after the last chunk.

NON_BLOCKING: calls.StreamKind = "non-blocking"
Piece = tuple[calls.Region, calls.Region]  # of an array: on the card, and on the host
Arrays = list[list[Piece | None]]  # the piece that each chunk has of each array


class _Pipeline:
    """The program of a workload, while it is issued: what each chunk copies and runs, and which events are recorded."""

    def __init__(self, workload: Workload, config: Config) -> None:
        self._config, self._loop = config, config.loop(workload)
        self._ops, self._buffers, self._recorded = list[calls.Op](), list[calls.Buffer](), set[int]()
        runs = workload.cut(config.chunks)
        self._kernels = [kernels for part in runs for kernels in [list(workload.kernels_of(part))] * part.many]
        chunks = [part for part in runs for _ in range(part.many)]
        self._host_s = [workload.host_s(part) for part in chunks]
        self._inputs = self._arrays("in", [part.inputs for part in chunks], config.slots)
        self._outputs = self._arrays("out", [part.outputs for part in chunks], config.slots)
        self._once_in = _at(self._arrays("once_in", [workload.h2d_once]), 0)
        self._once_out: list[Piece] = [
            (calls.Region(f"d_once_out{k}", 0, n), calls.Region(f"h_once_out{k}", 0, n))
            for k, n in enumerate(workload.d2h_once)
        ]
        sums = self._arrays("once_out", [part.d2h_once for part in chunks])
        # Without an output array, kernels write the last input.
        self._written = [*self._outputs, *sums] or self._inputs[-1:]
        recorded = (config.records(step) for step in self._loop.steps if step.does == "record")
        self._events = max(recorded, default=0) * len(self._loop.events)

    def _arrays(self, prefix: str, sizes: Sequence[tuple[int, ...]], slots: int | None = None) -> Arrays:
        """Declare arrays of which each chunk has these bytes.

        ``slots``: the chunks that the card holds at a time, in buffers of their own; None: all, in one buffer.
        """
        return [self._array(f"{prefix}{k}", column, slots) for k, column in enumerate(zip(*sizes, strict=True))]

    def _array(self, name: str, sizes: Sequence[int], slots: int | None) -> list[Piece | None]:
        starts = [*accumulate(sizes, initial=0)]
        self._buffers.append(calls.Buffer(f"h_{name}", starts[-1], self._config.memory))
        if slots is None:
            self._buffers.append(calls.Buffer(f"d_{name}", starts[-1], "device"))
            places = [(f"d_{name}", start) for start in starts]
        else:
            self._buffers += [calls.Buffer(f"d_{name}_{slot}", max(sizes), "device") for slot in range(slots)]
            places = [(f"d_{name}_{i % slots}", 0) for i in range(len(sizes))]
        return [
            (calls.Region(*place, size), calls.Region(f"h_{name}", start, size)) if size else None
            for place, start, size in zip(places, starts, sizes, strict=False)
        ]

    def schedule(self, name: str, unchunked: Schedule | None) -> Schedule:
        """Issue what is copied once, and all passes over the chunks; at the end the host waits for all."""
        config, loop = self._config, self._loop
        behind = 0 if config.slots == 1 else 1  # rounds by which a body that follows is behind the others
        streams = [*range(1, 1 + (len(loop.roles) or config.streams))]
        first, *others = streams[: config.chunks]
        self._copy_in_once(first, [] if loop.roles else others)
        for bodies in loop.passes:
            for i in range(config.chunks + behind * any(body.follows for body in bodies)):
                for body in bodies:
                    chunk = i - behind if body.follows else i
                    if 0 <= chunk < config.chunks:
                        for step in body.steps:
                            self._ops += self._calls(step, chunk)
        if loop.ends:
            first, *others = [streams[k] for k in loop.ends]
        self._copy_out_once(first, others)
        ops, kinds = (*self._ops, calls.Synchronize()), (NON_BLOCKING,) * len(streams)
        return Schedule(ops, kinds, tuple(self._buffers), self._events, config.launch, name, unchunked)

    def _calls(self, step: Step, chunk: int) -> Iterator[calls.Op]:
        config = self._config
        stream = 1 + (chunk % config.streams if step.stream == TURN else step.stream)
        match step.does:
            case "prepare" if self._host_s[chunk]:
                yield calls.HostWork(self._host_s[chunk], "host work")
            case "copy in":
                yield from self._copies("h2d", _at(self._inputs, chunk), stream)
            case "run":
                yield from self._runs(chunk, stream)
            case "copy out":
                yield from self._copies("d2h", _at(self._outputs, chunk), stream)
            case "record" if chunk < config.records(step):
                event = self._event(step.event, chunk)
                yield calls.RecordEvent(event, stream)
                self._recorded.add(event)
            case "wait":
                event = self._event(step.event, chunk - config.distance(step.distance))
                if event in self._recorded:
                    yield calls.WaitEvent(event, stream)

    def _runs(self, chunk: int, stream: int) -> Iterator[calls.Kernel]:
        reads = tuple([card for card, _ in (*_at(self._inputs, chunk), *self._once_in)])
        writes = tuple([card for card, _ in _at(self._written, chunk)])
        for kernel, launches in self._kernels[chunk]:
            yield from [replace(kernel, stream=stream, reads=reads, writes=writes)] * launches

    def _event(self, name: str, chunk: int) -> int:
        """Return the number of a chunk's event; negative before the first chunk."""
        return chunk * len(self._loop.events) + self._loop.events.index(name)

    def _new_event(self) -> int:
        self._events += 1
        return self._events - 1

    def _copies(self, direction: calls.Direction, pieces: Sequence[Piece], stream: int) -> list[calls.Op]:
        is_blocking = self._config.issued.is_blocking
        return [calls.Copy(direction, card.bytes, stream, host, card, is_blocking) for card, host in pieces]

    def _copy_in_once(self, first: int, others: Sequence[int]) -> None:
        """Copy the arrays of ``h2d_once`` to the card in the first stream, and let the other streams wait for them."""
        self._ops += self._copies("h2d", self._once_in, first)
        if others and (self._once_in or self._once_out):  # the events of the last copies have later numbers
            loaded = self._new_event()
            if self._once_in:
                self._ops += [calls.RecordEvent(loaded, first), *(calls.WaitEvent(loaded, stream) for stream in others)]

    def _copy_out_once(self, first: int, others: Sequence[int]) -> None:
        """Let the first stream wait for the others, and copy the arrays of ``d2h_once`` back."""
        for stream in others if self._once_out else ():
            event = self._new_event()
            self._ops += [calls.RecordEvent(event, stream), calls.WaitEvent(event, first)]
        self._ops += self._copies("d2h", self._once_out, first)


def _at(arrays: Arrays, chunk: int) -> list[Piece]:
    """Return the pieces that a chunk has of some arrays."""
    return [piece for array in arrays if (piece := array[chunk])]


# The usual ways to cut and issue a workload. Chunk i of N runs in stream i mod S. ``more`` holds further
# fields of a Config: ``buffers``, ``memory`` and ``launch``.


def build(workload: Workload, order: Order = "depth-first", chunks: int = 1, streams: int = 1, **more: Any) -> Schedule:
    """Return the schedule that the command's options describe. Raises InputError if they do not go together."""
    return Config(order, chunks, streams, **more).schedule(workload)


def serial(workload: Workload, chunks: int = 1, **more: Any) -> Schedule:
    """Return the program that most people begin with: blocking copies, chunk by chunk, without overlap."""
    return build(workload, "serial", chunks, **more)


def depth_first(workload: Workload, chunks: int, streams: int, **more: Any) -> Schedule:
    """Return the program that issues chunk by chunk: H2D copies, kernels, D2H copies."""
    return build(workload, "depth-first", chunks, streams, **more)


def breadth_first(workload: Workload, chunks: int, streams: int, **more: Any) -> Schedule:
    """Return the program that issues stage by stage: all H2D copies, then all kernels, then all D2H copies."""
    return build(workload, "breadth-first", chunks, streams, **more)


def ring(workload: Workload, chunks: int, buffers: int, streams: int | None = None, **more: Any) -> Schedule:
    """Return a depth-first program with ``buffers`` device buffers of one chunk each (2: double buffering).

    Chunk i uses the buffer of chunk i - ``buffers`` again, and waits until the ops of that chunk have ended: by stream
    order if both run in one stream, otherwise by an event. Default of ``streams``: ``buffers``.
    """
    return build(workload, "depth-first", chunks, buffers if streams is None else streams, buffers=buffers, **more)


def prefetch(workload: Workload, chunks: int, buffers: int = 2, **more: Any) -> Schedule:
    """Return the program that copies batch i + 1 beside the kernels of batch i, as training and inference loops do.

    Stream 1 copies in, stream 2 runs the kernels, stream 3 copies out. The card holds ``buffers`` batches. Event 3i:
    batch i is on the card; 3i + 1: its kernels have run; 3i + 2: its output is back. Arrays that are copied once go in
    before the first batch, and out behind the last batch's kernels.
    """
    return build(workload, "prefetch", chunks, buffers=buffers, **more)


def serialized(schedule: Schedule) -> Schedule:
    """Return the same copies, kernels and host work one by one: by one thread, in one stream, with blocking copies.

    Its time is the time of the schedule without overlap, cut in the same way.
    """
    calls.check_schedule("schedule", schedule)
    one: dict[str, Any] = {"stream": 1}
    changes = {calls.Copy: one | {"blocking": True}, calls.Kernel: one, calls.HostWork: {}}
    ops = [replace(op, thread=0, **changes[type(op)]) for op in schedule.ops if type(op) in changes]
    name = f"{schedule.name} one by one".strip()
    return Schedule((*ops, calls.Synchronize()), ("non-blocking",), schedule.buffers, name=name)
