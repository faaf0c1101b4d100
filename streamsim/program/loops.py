"""Issue orders: the ways to issue the chunks of a workload, each as one loop.

A :class:`ChunkLoop` says which calls a program makes for each chunk, in which stream, and what waits for what. It is
the one description of an issue order: :mod:`streamsim.program.builder` builds the schedule from it,
:mod:`streamsim.code.loops` writes the program, and :mod:`streamsim.compiled.configurations` lays out the compiled
model's records. A new order is a new row of ``ISSUE_ORDERS``.

A loop makes passes over all chunks, one after another. In each round of a pass its bodies come in turn, each for one
chunk. Arrays that are copied once go in stream 0 before the passes, and back after them (``ChunkLoop.ends``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, get_args

from streamsim.program.workload import Workload

Order = Literal["depth-first", "breadth-first", "serial", "prefetch", "relay"]
ORDERS: tuple[Order, ...] = get_args(Order)
Stage = Literal["copy in", "run", "copy out"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Distance = Literal[0, 1, "buffers"]  # from chunk to chunk
Stages = tuple[Stage, ...]
TURN = -1  # in place of a stream: stream i mod S for chunk i
PREFETCH_BUFFERS = 2  # default: one for this chunk, one for the next


class Prepare(NamedTuple):
    """The host's own work before it issues the chunk."""


class Issue(NamedTuple):
    """The calls for the chunk's copies in, its kernels, or its copies out."""

    stage: Stage
    stream: int = TURN


class RecordStep(NamedTuple):
    """The record of the chunk's event in a stream.

    - ``awaited``: the distance to the later chunk that waits for the event. If there is no such chunk, the event is not
      recorded. None: the event is always recorded.
    - ``between_streams``: the event is not recorded if both chunks are in one stream.
    """

    event: str
    stream: int = TURN
    awaited: Distance | None = None
    between_streams: bool = False


class WaitStep(NamedTuple):
    """The wait of a stream for the event of an earlier chunk, if the event was recorded.

    - ``before``: the distance to the earlier chunk.
    - ``between_streams``: the stream does not wait if both chunks are in one stream.
    """

    event: str
    stream: int = TURN
    before: Distance = 0
    between_streams: bool = False


Step = Prepare | Issue | RecordStep | WaitStep


class Body(NamedTuple):
    """The calls for one chunk, in one round.

    - ``follows``: the calls are made in the round of the next chunk, if the buffers have room for both chunks.
    - ``needs_output``: the body is left out for a chunk without copies back.
    """

    steps: tuple[Step, ...]
    follows: bool = False
    needs_output: bool = False


Pass = tuple[Body, ...]


@dataclass(frozen=True)
class ChunkLoop:
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


class Turns(NamedTuple):
    """A loop's numbers of chunks, streams and buffers. ``slots``: buffers of one chunk; None: one for each chunk."""

    chunks: int
    streams: int
    slots: int | None

    @property
    def ahead(self) -> int:
        """Return the number of rounds by which a body that follows is behind the others."""
        return 0 if self.slots == 1 else 1

    def distance(self, distance: Distance) -> int:
        """Return a distance in chunks."""
        return (self.slots or 1) if distance == "buffers" else distance

    def recorded(self, step: RecordStep) -> int:
        """Return the number of chunks, from the first on, that make the record ``step``."""
        if step.awaited is None:
            return self.chunks
        distance = self.distance(step.awaited)
        is_needless = step.between_streams and distance % self.streams == 0
        return 0 if is_needless else max(0, self.chunks - distance)


class IssueOrder(NamedTuple):
    """An issue order.

    - ``loop``: returns the loop for the stages that a workload has.
    - ``ring``: returns the loop over buffers of one chunk each, used in turn; None: the order has no such loop.
    - ``own_streams``: the fixed number of streams, explained by ``only_own``; 0: the user chooses the number.
    - ``least_buffers``: the default number of buffers; None: one for each chunk.
    - ``is_blocking``: True if the host waits for each copy.
    - ``keeps_order``: True if each chunk's kernels run after those of the chunk before, over any number of streams.
    """

    loop: Callable[[Stages], ChunkLoop]
    ring: Callable[[Stages], ChunkLoop] | None = None
    own_streams: int = 0
    only_own: str = ""
    least_buffers: int | None = None
    is_blocking: bool = False
    keeps_order: bool = False


def stages_of(workload: Workload) -> Stages:
    """Return the stages that the chunks of a workload have, in order."""
    known = workload.inputs, workload.kernels, workload.outputs
    return tuple(stage for stage, has in zip(STAGES, known, strict=True) if has)


@cache
def loop_of(order: Order, is_ring: bool, stages: Stages) -> ChunkLoop:
    """Return the loop of an issue order for chunks with these stages; ``is_ring``: over buffers used in turn."""
    issued = ISSUE_ORDERS[order]
    return (issued.ring if is_ring and issued.ring else issued.loop)(stages)


def _pass(*steps: Step) -> Pass:
    return (Body(steps),)


def _by_chunk(stages: Stages) -> ChunkLoop:
    return ChunkLoop((_pass(Prepare(), *map(Issue, stages)),))


def _by_stage(stages: Stages) -> ChunkLoop:
    passes = [_pass(Issue(stage)) for stage in stages[1:]]
    return ChunkLoop((*(_pass(Prepare(), Issue(stage)) for stage in stages[:1]), *passes))


def _ring(stages: Stages) -> ChunkLoop:
    wait = WaitStep("done", before="buffers", between_streams=True)
    record = RecordStep("done", awaited="buffers", between_streams=True)
    return ChunkLoop((_pass(Prepare(), wait, *map(Issue, stages), record),), ("done",))


def _relay(stages: Stages) -> ChunkLoop:
    """Chunk by chunk; the kernels of each chunk wait for those of the chunk before."""
    run: list[Step] = [WaitStep("ran", before=1), Issue("run"), RecordStep("ran")]
    steps = [step for stage in stages for step in (run if stage == "run" else [Issue(stage)])]
    return ChunkLoop((_pass(Prepare(), *steps),), ("ran",) if "run" in stages else ())


def _prefetch(stages: Stages) -> ChunkLoop:
    """Each chunk is copied in beside the kernels of the one before it; events hand it from stream to stream."""
    load, compute, store = range(3)
    loads: list[Step] = [Prepare(), WaitStep("ran", load, "buffers")]
    computes: list[Step] = [WaitStep("loaded", compute)]
    stores: list[Step] = [WaitStep("ran", store), Issue("copy out", store), RecordStep("stored", store)]
    if "copy in" in stages:
        loads.append(Issue("copy in", load))
    if "copy out" in stages:
        computes.append(WaitStep("stored", compute, "buffers"))
    if "run" in stages:
        computes.append(Issue("run", compute))
    loads.append(RecordStep("loaded", load))
    computes.append(RecordStep("ran", compute))
    bodies = [Body(tuple(loads)), Body(tuple(computes), follows=True)]
    if "copy out" in stages:
        bodies.append(Body(tuple(stores), follows=True, needs_output=True))
    return ChunkLoop((tuple(bodies),), ("loaded", "ran", "stored"), ("load", "compute", "store"), (store, compute))


ISSUE_ORDERS: dict[Order, IssueOrder] = {
    "depth-first": IssueOrder(_by_chunk, _ring),
    "breadth-first": IssueOrder(_by_stage),
    "serial": IssueOrder(
        _by_chunk, own_streams=1, only_own="a serial program has one stream; use another order", is_blocking=True
    ),
    "prefetch": IssueOrder(
        _prefetch,
        _prefetch,
        own_streams=3,
        only_own="a prefetching program has 3 of its own; leave it out",
        least_buffers=PREFETCH_BUFFERS,
        keeps_order=True,
    ),
    "relay": IssueOrder(_relay, keeps_order=True),
}
