"""The calibration's probes: isolated micro-benchmarks, each of them a Schedule.

They are replayed by the same machinery as any other schedule, so that a host call costs in a probe what it costs
in a pipeline. Probes come as chains of two lengths: the difference of their times over the difference of their
lengths is the time of one link, free of what a run costs once. Chains whose ops are shorter than the calls that
issue them stand behind a gate, which holds their engine until all is queued: a long copy for copies, a spinning
kernel for the rest. Behind a gate copies of several streams that take turns with kernels start later than in a program
that is issued as it runs, so these stand behind none: short ones are a graph. Mixes of calls come over few streams and
over many instead. None of them is a pipeline that is later predicted.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streamsim.lowering.costs import FEW_STREAMS, MOST_IN_THE_WAY, PAIR
from streamsim.program.schedule import (
    Buffer,
    Copy,
    Direction,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KI, MI = 1 << 10, 1 << 20
DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
COPY_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)
DUPLEX_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI)
STEP_BYTES = (64 * KI, 128 * KI, 256 * KI, MI, 4 * MI)
CROWDED_BYTES = (128 * KI, 256 * KI, 512 * KI, MI, 4 * MI, 16 * MI)
ISSUED_BYTES = 512 * KI  # from this size on a copy takes longer than the calls for it, another one and two kernels
PAGEABLE_BYTES = (256 * KI, MI, 4 * MI, 16 * MI)
LINK_BYTES, MIX_BYTES = 256 * KI, 64 * KI
CYCLES = ("hk", "kd", "hd", "hkd", "hdk")
COPIES, CHUNK, MIX_LENGTH = "hd", "hkd", 64
MANY_STREAMS = 32
# Kinds of chains that samples of earlier versions hold, for effects that are no longer in the model.
RETIRED = {"in a crowd", "side by side sincos(2)", "side by side sincos(40)"}
NOTHING_ON_CARD = {"synchronise"}  # kinds of chains that do: their time on the card is 0
COPY_KINDS = {*DIRECTIONS, "duplex", "crowded", *(f"{kind} {d}" for kind in ("duplex", "crowded") for d in DIRECTIONS)}
MIXES = ((COPIES, FEW_STREAMS), (CHUNK, FEW_STREAMS), (CHUNK, MANY_STREAMS))
STEP_STREAMS = CROWDED_STREAMS = 8
HOST_LENGTHS = (16, 64)
GRAPH_NODES = (8, 32, 128)
MOST_QUEUES = 32
ROUNDS, ROUND_STREAMS = ("k", "hk", "kd", "hd"), (PAIR, PAIR + MOST_IN_THE_WAY)
LATER = {"serial hkd", "serial hgkd", *(f"round {letters}" for letters in ROUNDS)}  # samples of before have none
QUEUES, RULES = {"compute": "queues compute", "copies": "queues copies"}, {"compute": "rule compute", "h2d": "rule h2d"}
KERNELS = (
    ("sincos", 2),
    ("sincos", 10),
    ("sincos", 40),
    ("sincos", 176),
    ("vector_add", 0),
    ("copy", 0),
    ("sleep", 100_000),
)
SMALL_ELEMENTS = (KI, 4 * KI, 16 * KI, 64 * KI, 128 * KI, 192 * KI, 256 * KI, 320 * KI, 384 * KI, 512 * KI, 768 * KI)
LARGE_ELEMENTS = (MI, 3 * MI // 2, 2 * MI, 3 * MI, 4 * MI, 8 * MI, 16 * MI, 64 * MI)
WAVES, BLOCK = (1, 2, 3, 4), 256

GATE_S, GATE_BYTES = 800e-6, 40 * MI  # long enough to queue some hundred ops
QUEUE_GATE_S = 500e-6
FLOAT_BYTES = 4
PAGEABLE, DEVICE_IN, DEVICE_OUT = "pageable", "card_in", "card_out"
HOST: dict[Direction, str] = {"h2d": "host_in", "d2h": "host_out"}
HOST_BYTES = 64 * MI  # copies of a chain share memory only with others of their stream
BUFFERS = (
    Buffer(PAGEABLE, 3 * max(PAGEABLE_BYTES), "pageable"),
    *(Buffer(name, HOST_BYTES, "pinned") for name in HOST.values()),
    Buffer(DEVICE_IN, LARGE_ELEMENTS[-1] * FLOAT_BYTES, "device"),
    Buffer(DEVICE_OUT, LARGE_ELEMENTS[-1] * FLOAT_BYTES, "device"),
)
TINY = Kernel(1, "sincos", KI, 2)
FULL = Kernel(1, "sincos", MI, 176)  # four waves of the largest cards: it leaves no room beside it until its last part


class Chain(NamedTuple):
    """A probe: ``length`` times what ``kind`` says, of ``size`` bytes or elements, or over so many streams."""

    kind: str
    size: int
    length: int

    @property
    def key(self) -> str:
        """Its name among the results."""
        return f"{self.kind} {self.size} x{self.length}"


Probe = tuple[Chain, Schedule]


def probes(resident_threads: int) -> Iterator[Probe]:
    """Every probe for a card that holds so many threads: what it is, and its schedule."""
    yield from copies()
    yield from duplex()
    yield from crowded()
    yield from _pageable()
    yield from kernels(resident_threads)
    yield from hand_overs()
    yield from host_calls()
    yield from _host()
    yield from serial()
    yield from rounds()
    yield from _queues()
    yield from rules()


def mix_kind(letters: str) -> str:
    """The kind of the chains of a mix of calls."""
    return f"mix {letters}"


def mix_chain(letters: str, streams: int) -> Chain:
    """The chain of a mix over so many streams."""
    return Chain(mix_kind(letters), streams, MIX_LENGTH)


def kernel_kind(name: str, parameter: int) -> str:
    """The kind of the chains of a kernel."""
    return f"kernel {name}({parameter})"


def elements_of(name: str, resident_threads: int) -> tuple[int, ...]:
    """The sizes at which a kernel is measured: also full waves of the card, and a block more."""
    waves = [wave * resident_threads + more for wave in WAVES for more in (0, BLOCK)]
    large = LARGE_ELEMENTS if name != "sleep" else LARGE_ELEMENTS[:-2]
    return tuple(sorted({*SMALL_ELEMENTS, *waves, *large}))


def cycle_bytes(copy: int) -> int:
    """Size of the copy number ``copy`` of a cycle: 256 to 768 KiB, no two alike, evenly spread at any length.

    An engine that waits for another looks for its signal at intervals (8 us on an H200), so cycles of like
    ops fall into step with it and their hand-overs come out all short or all long.
    """
    return (256 + copy * 197 % 512) * KI


def _chain(kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object) -> Probe:
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def _gate() -> Op:
    return Kernel(1, duration_s=GATE_S, fill=0.01)


def _moved(direction: Direction, n_bytes: int, stream: int, number: int) -> Copy:
    """Copy number ``number`` of a chain, of memory of its own as in a pipeline.

    Copies back of one and the same stretch would stay in the host's cache and be a little faster.
    """
    offset = number % (HOST_BYTES // n_bytes) * n_bytes
    device = DEVICE_IN if direction == "h2d" else DEVICE_OUT
    return Copy(direction, n_bytes, stream, Region(HOST[direction], offset, n_bytes), Region(device, offset, n_bytes))


def _lengths(n_bytes: int) -> tuple[int, int]:
    return (8, 40) if n_bytes < 4 * MI else (2, 6)


def copies() -> Iterator[Probe]:
    """Copies back to back, one way, over some streams: in a single one they take a little less than pipelines see."""
    for direction in DIRECTIONS:
        for n_bytes in COPY_BYTES:
            streams = min(FEW_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
            for n in _lengths(n_bytes):
                ops = [_moved(direction, n_bytes, 1 + i % streams, i) for i in range(n)]
                yield _chain(direction, n_bytes, n, [Copy(direction, GATE_BYTES, 1), *ops], streams, buffers=BUFFERS)


def duplex() -> Iterator[Probe]:
    """Both ways: n copies one way and twice as many the other way, so that the first are never alone; and in step.

    In step: behind each copy there is one back, in its stream, so neither direction runs ahead of the other. That
    shows what both cost together to a per cent or two; how it is shared out shows in the chains of unlike numbers.
    """
    for direction in DIRECTIONS:
        other: Direction = "d2h" if direction == "h2d" else "h2d"
        for n_bytes in DUPLEX_BYTES:
            gates = [Copy(direction, GATE_BYTES, 1), Copy(other, GATE_BYTES, 2)]
            for n in _lengths(n_bytes):
                ops: list[Op] = []
                for i in range(n):
                    ops.append(_moved(direction, n_bytes, 1, i))
                    ops += (_moved(other, n_bytes, 2, 2 * i + k) for k in (0, 1))
                yield _chain(f"duplex {direction}", n_bytes, n, [*gates, *ops], 2, buffers=BUFFERS)
    for n_bytes in STEP_BYTES:
        for n in (16, 48) if n_bytes < 4 * MI else (8, 24):
            ops = [_moved(d, n_bytes, 1 + i % STEP_STREAMS, i) for i in range(n) for d in DIRECTIONS]
            yield _chain("duplex", n_bytes, n, [Copy("h2d", GATE_BYTES, 1), *ops], STEP_STREAMS, buffers=BUFFERS)


def crowded() -> Iterator[Probe]:
    """Copies that take turns with light kernels, over several queues: while one is copied the other queues wait.

    A kernel behind each copy to the card, and before each copy back, whose data it has just written; then both kinds
    of chain at a time. Long chains: with the first dozens of kernels that are issued ahead the cost still grows.
    """
    for n_bytes in CROWDED_BYTES:
        launch = "live" if n_bytes >= ISSUED_BYTES else "graph"
        streams = min(CROWDED_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
        for n in (32, 96) if n_bytes < 4 * MI else (16, 40) if n_bytes == 4 * MI else (8, 20):
            turns = {d: [_with_kernel(d, n_bytes, 1 + i % streams, i) for i in range(n)] for d in DIRECTIONS}
            for d in DIRECTIONS:
                ops: list[Op] = [op for turn in turns[d] for op in turn]
                yield _chain(f"crowded {d}", n_bytes, n, ops, streams, buffers=BUFFERS, launch=launch)
            both: list[Op] = []
            for there, back in zip(turns["h2d"], turns["d2h"], strict=True):
                both += there
                both += (msgspec.structs.replace(op, stream=op.stream + streams) for op in back)
            yield _chain("crowded", n_bytes, n, both, 2 * streams, buffers=BUFFERS, launch=launch)


def _with_kernel(direction: Direction, n_bytes: int, stream: int, number: int) -> tuple[Copy | Kernel, Copy | Kernel]:
    """A copy, and the kernel that reads what it has brought or writes what it takes back.

    From and to memory of the card as in a pipeline; the chains of the two directions share none of it.
    """
    copy = _moved(direction, n_bytes, stream, number)
    assert copy.device is not None
    elsewhere = copy.device.offset + HOST_BYTES
    reads, writes = copy.device, Region(DEVICE_OUT, elsewhere, n_bytes)
    if direction == "d2h":
        reads, writes = Region(DEVICE_IN, elsewhere, n_bytes), copy.device
    kernel = Kernel(stream, TINY.name, n_bytes // FLOAT_BYTES, TINY.parameter, reads=(reads,), writes=(writes,))
    return (copy, kernel) if direction == "h2d" else (kernel, copy)


def _pageable() -> Iterator[Probe]:
    """Copies of one stretch of memory after another: memory just copied would still be in the host's cache."""
    for direction in DIRECTIONS:
        for n_bytes in PAGEABLE_BYTES:
            for n in (1, 3):
                ops: list[Op] = [
                    Copy(direction, n_bytes, 1, Region(PAGEABLE, i * n_bytes, n_bytes), Region(DEVICE_IN, 0, n_bytes))
                    for i in range(n)
                ]
                yield _chain(f"pageable {direction}", n_bytes, n, ops, buffers=BUFFERS)


def kernels(resident_threads: int) -> Iterator[Probe]:
    """Each kernel back to back in one stream, over its elements.

    On the same memory, so that it is in the card's cache, as what a copy or a kernel has just written is.
    """
    for name, parameter in KERNELS:
        for elements in elements_of(name, resident_threads):
            touched = Region(DEVICE_IN, 0, elements * FLOAT_BYTES)
            reads = (touched, touched) if name == "vector_add" else (touched,)
            writes = (Region(DEVICE_OUT, 0, elements * FLOAT_BYTES),)
            kernel = Kernel(1, name, elements, parameter, reads=reads, writes=writes)
            for n in (8, 40) if elements < MI // 2 else (2, 8) if elements < 8 * MI else (1, 3):
                yield _chain(kernel_kind(name, parameter), elements, n, [_gate(), *[kernel] * n], buffers=BUFFERS)


def hand_overs() -> Iterator[Probe]:
    """Cycles of ops of known time in one stream, live behind a gate; and from stream to stream by events."""
    for cycle in CYCLES:
        for n in (8, 40):
            yield _chain(f"cycle {cycle}", 0, n, [_gate(), *_cycle(cycle, n)])
    for n in (8, 40):
        ops: list[Op] = []
        for i in range(n):
            here, there = 1 + i % 2, 2 - i % 2
            ops += (_tiny(here), RecordEvent(i, here), WaitEvent(i, there))
        yield _chain("ping-pong", 0, n, [_gate(), RecordEvent(n, 1), WaitEvent(n, 2), *ops], 2, events=n + 1)


def _cycle(cycle: str, n: int) -> Iterator[Op]:
    sizes = map(cycle_bytes, count())
    directions: dict[str, Direction] = {"h": "h2d", "d": "d2h"}
    for letter in cycle * n:
        yield Copy(directions[letter], next(sizes), 1) if letter in directions else TINY


def host_calls() -> Iterator[Probe]:
    """What calls that wait for nothing cost the host, copies and launches in the mix of a live pipeline.

    Over few streams and over many, since the host needs longer the more of them it goes round. Short, and without
    named buffers: cheap enough to stand among other schedules and be measured with them.
    """
    for letters, streams in MIXES:
        ops = [op for i in range(MIX_LENGTH) for op in _mix(letters, 1 + i % streams)]
        yield _chain(mix_kind(letters), streams, MIX_LENGTH, ops, streams)
    for n in HOST_LENGTHS:
        yield _chain("record", 0, n, [RecordEvent(i, 1 + i % 4) for i in range(n)], 4, events=n)
        records: list[Op] = [RecordEvent(i, 1 + i) for i in range(4)]
        waits: list[Op] = [WaitEvent(i % 4, 1 + (i + 1) % 4) for i in range(n)]
        yield _chain("wait", 0, n, records + waits, 4, events=4)  # a wait for what was never recorded is cheaper
        yield _chain("synchronise", 0, n, [Synchronize(stream=1)] * n)


def _host() -> Iterator[Probe]:
    """What a call that waits costs the host, and what a graph's launch does."""
    for n in HOST_LENGTHS:
        yield _chain("blocking copy", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1, blocking=True)] * n)
        yield _chain("blocking kernel", 0, n, [TINY, Synchronize(stream=1)] * n)
    for n in GRAPH_NODES:
        yield _chain("graph", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1)] * n, launch="graph")


def serial() -> Iterator[Probe]:
    """Chunks whose copies all hold the host, each of memory of its own: most calls come after a wait."""
    made: dict[str, Callable[[int], list[Op]]] = {
        "hkd": lambda i: [_held("h2d", i), *_touched(i), _held("d2h", i)],
        "hgkd": lambda i: [_held("h2d", 2 * i), _held("h2d", 2 * i + 1), *_touched(i), _held("d2h", i)],
    }
    for letters, chunk in made.items():
        for n in HOST_LENGTHS:
            ops = [op for i in range(n) for op in chunk(i)]
            yield _chain(f"serial {letters}", MIX_BYTES, n, ops, buffers=BUFFERS)


def _held(direction: Direction, number: int) -> Copy:
    return msgspec.structs.replace(_moved(direction, MIX_BYTES, 1, number), blocking=True)


def _touched(number: int) -> list[Op]:
    return [_with_kernel("h2d", MIX_BYTES, 1, number)[1]]


def rounds() -> Iterator[Probe]:
    """Turns of ops that go round over two streams and over more, each turn behind the one before by an event."""
    directions: dict[str, Direction] = {"h": "h2d", "d": "d2h"}
    for letters in ROUNDS:
        for streams in ROUND_STREAMS:
            for n in (8, 40):
                sizes = map(cycle_bytes, count())
                ops: list[Op] = [_gate()]
                for i in range(n):
                    here, there = 1 + i % streams, 1 + (i + 1) % streams
                    ops += (Copy(directions[c], next(sizes), here) if c in directions else _tiny(here) for c in letters)
                    ops += (RecordEvent(i, here), WaitEvent(i, there))
                yield _chain(f"round {letters}", streams, n, ops, streams, events=n)


def _tiny(stream: int) -> Kernel:
    return msgspec.structs.replace(TINY, stream=stream)


def _mix(letters: str, stream: int) -> Iterator[Op]:
    made: dict[str, Op] = {
        "h": Copy("h2d", MIX_BYTES, stream),
        "d": Copy("d2h", MIX_BYTES, stream),
        "k": _tiny(stream),
    }
    return (made[letter] for letter in letters)


def _queues() -> Iterator[Probe]:
    """With blocked ops in so many streams, is the next stream's op blocked too? Then there are no more queues.

    The host waits for that op and then issues one more: its issue time tells.
    """
    ops: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: msgspec.structs.replace(TINY, stream=stream),
        "copies": lambda stream: Copy("d2h", LINK_BYTES, stream),
    }
    for engine, kind in QUEUES.items():
        make = ops[engine]
        for n in range(1, MOST_QUEUES):
            free, gate = n + 1, n + 2
            blocked = [op for stream in range(1, free) for op in (WaitEvent(0, stream), make(stream))]
            last: list[Op] = [make(free), Synchronize(stream=free), make(gate)]
            opening: list[Op] = [Kernel(gate, duration_s=QUEUE_GATE_S, fill=0.01), RecordEvent(0, gate)]
            yield _chain(kind, 0, n, [*opening, *blocked, *last], gate, events=1)


def rules() -> Iterator[Probe]:
    """Which of several ready heads goes first: the host waits for stream 1's second op.

    Stream 1 has two ops; stream 4 one issued between them, which is ready at once (and takes what room the first
    kernel leaves); streams 2 and 3 have one each behind a copy back, issued between them and last, and ready
    while the first one runs, stream 3's before stream 2's. So the second op of stream 1 comes before all of
    those under same-queue-first, after stream 4's and stream 2's in issue order, and last in ready order. Kernels
    leave the card before they end, and with them the turn of their queue: same-queue-first shows as ready order.
    """
    makers: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: msgspec.structs.replace(FULL, stream=stream),
        "h2d": lambda stream: Copy("h2d", 16 * MI, stream),
    }
    for engine, kind in RULES.items():
        make = makers[engine]
        early: list[Op] = [Copy("d2h", 64 * KI, 3), Copy("d2h", 2 * MI, 2)]
        heads = [make(stream) for stream in (1, 4, 2, 1, 3)]
        yield _chain(kind, 0, 1, [*early, *heads, Synchronize(stream=1), TINY], 4)
