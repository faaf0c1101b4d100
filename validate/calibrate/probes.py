"""Every probe of a calibration: micro-benchmarks and small programs, each a Schedule, replayed like any other schedule.

So a call costs in a probe what it costs in a pipeline. Probes come as chains of two lengths. The difference of their
times over the difference of their lengths is the time of one link, free of what a run costs once.

Chains whose ops are shorter than their calls stand behind a gate, which holds their engine until all is queued: a long
copy for copies, a spinning kernel for other ops. Behind a gate, copies of several streams that take turns with kernels
start later than in a live program. So these stand behind no gate, and short ones are a graph. Mixes of calls come over
few and over many streams. No probe is a pipeline that is predicted later.

Pageable copies are probed twice. Cold: a walk through more memory than the host's caches hold, as programs have it. Its
rate is the profile's. Warm: a few megabytes again and again, which the caches hold.

The same calls take longer in a program than in a chain: each works on memory of its own, copies, launches and events
take turns, and the first calls of each stream are cold. So small programs of many kinds show what calls cost; of these,
only the time to issue them counts. Older samples have no such programs; their mixes of calls are fitted instead.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count, repeat

from msgspec.structs import replace

from streamsim.program import (
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
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    prefetch,
    ring,
)
from streamsim.rules import MANY, PAIR
from streamsim_validate.records import MIXES, Chain, relay

KI, MI = 1 << 10, 1 << 20
LARGEST_PAGEABLE_BYTES, MOST_ELEMENTS = 16 * MI, 64 * MI
LINK_BYTES, MIX_BYTES = 256 * KI, 64 * KI
DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
GATE_S, GATE_BYTES = 800e-6, 40 * MI  # long enough to queue some hundred ops
FLOAT_BYTES = 4
PAGEABLE, DEVICE_IN, DEVICE_OUT = "pageable", "card_in", "card_out"
HOST: dict[Direction, str] = {"h2d": "host_in", "d2h": "host_out"}
HOST_BYTES = 64 * MI  # copies of a chain share memory only with others of their stream
BUFFERS = (
    Buffer(PAGEABLE, 3 * LARGEST_PAGEABLE_BYTES, "pageable"),
    *(Buffer(name, HOST_BYTES, "pinned") for name in HOST.values()),
    Buffer(DEVICE_IN, MOST_ELEMENTS * FLOAT_BYTES, "device"),
    Buffer(DEVICE_OUT, MOST_ELEMENTS * FLOAT_BYTES, "device"),
)
TINY = Kernel(1, "sincos", KI, 2)  # the shortest
GATE: Op = Kernel(1, duration_s=GATE_S, fill=0.01)  # holds stream 1 until all behind it is queued
Probe = tuple[Chain, Schedule]


def cycle_bytes(copy: int) -> int:
    """Return the bytes of copy number ``copy`` of a cycle: 256 to 768 KiB, all different, evenly spread.

    An engine that waits for another looks for its signal at intervals (8 us on an H200). Cycles of equal ops fall into
    step with these intervals, and their hand-overs come out all short or all long.
    """
    return (256 + copy * 197 % 512) * KI


def probe_of(kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object) -> Probe:
    """Return the probe of a chain: its ops and a wait for all of them. ``more``: fields of the schedule."""
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def moved(direction: Direction, n_bytes: int, stream: int, number: int) -> Copy:
    """Return copy number ``number`` of a chain, from or to memory of its own as in a pipeline.

    Copies back into one place would stay in the host's cache and be a little faster.
    """
    offset = number % (HOST_BYTES // n_bytes) * n_bytes
    device = DEVICE_IN if direction == "h2d" else DEVICE_OUT
    return Copy(direction, n_bytes, stream, Region(HOST[direction], offset, n_bytes), Region(device, offset, n_bytes))


def with_kernel(direction: Direction, n_bytes: int, stream: int, number: int) -> tuple[Copy | Kernel, Copy | Kernel]:
    """Return a copy with the kernel that reads its data, or that writes the data which it takes back.

    The memory of the card is used as in a pipeline. The chains of the two directions share none of it.
    """
    copy = moved(direction, n_bytes, stream, number)
    assert copy.device is not None
    elsewhere = copy.device.offset + HOST_BYTES
    reads, writes = copy.device, Region(DEVICE_OUT, elsewhere, n_bytes)
    if direction == "d2h":
        reads, writes = Region(DEVICE_IN, elsewhere, n_bytes), copy.device
    kernel = Kernel(stream, TINY.name, n_bytes // FLOAT_BYTES, TINY.parameter, reads=(reads,), writes=(writes,))
    return (copy, kernel) if direction == "h2d" else (kernel, copy)


COPY_STREAMS = 4
COPY_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)
PAGEABLE_BYTES = (256 * KI, MI, 4 * MI, LARGEST_PAGEABLE_BYTES)
COLD_KINDS: dict[Direction, str] = {d: f"cold pageable {d}" for d in DIRECTIONS}  # samples of before have none
COLD_LENGTHS = (8, 32)  # of chains of LARGEST_PAGEABLE_BYTES: the long one is larger than the caches of most hosts
COLD = "cold"
COLD_BUFFERS = (*BUFFERS, Buffer(COLD, max(COLD_LENGTHS) * LARGEST_PAGEABLE_BYTES, "pageable"))
LENGTHS, LENGTHS_OF_LARGE = (8, 40), (2, 6)  # of chains of copies, large ones from 4 MiB on


def copies() -> Iterator[Probe]:
    """Yield copies back to back, one way, over some streams: in one stream they are faster than in pipelines."""
    for direction in DIRECTIONS:
        for n_bytes in COPY_BYTES:
            streams = min(COPY_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
            for n in copy_lengths(n_bytes):
                ops = [moved(direction, n_bytes, 1 + i % streams, i) for i in range(n)]
                yield probe_of(direction, n_bytes, n, [Copy(direction, GATE_BYTES, 1), *ops], streams, buffers=BUFFERS)


def copy_lengths(n_bytes: int) -> tuple[int, int]:
    """Return the lengths of a short and a long chain of copies of ``n_bytes``."""
    return LENGTHS if n_bytes < 4 * MI else LENGTHS_OF_LARGE


def pageable() -> Iterator[Probe]:
    """Yield chains of copies of one stretch of memory after another, few and warm, then many and cold."""
    for direction in DIRECTIONS:
        for n_bytes in PAGEABLE_BYTES:
            for n in (1, 3):
                ops = [_staged(direction, PAGEABLE, n_bytes, i) for i in range(n)]
                yield probe_of(f"pageable {direction}", n_bytes, n, ops, buffers=BUFFERS)
        for n in COLD_LENGTHS:
            ops = [_staged(direction, COLD, LARGEST_PAGEABLE_BYTES, i) for i in range(n)]
            yield probe_of(COLD_KINDS[direction], LARGEST_PAGEABLE_BYTES, n, ops, buffers=COLD_BUFFERS)


def _staged(direction: Direction, buffer: str, n_bytes: int, number: int) -> Op:
    host, device = Region(buffer, number * n_bytes, n_bytes), Region(DEVICE_IN, 0, n_bytes)
    return Copy(direction, n_bytes, 1, host, device)


DUPLEX_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI)
STEP_BYTES = (64 * KI, 128 * KI, 256 * KI, MI, 4 * MI)
CROWDED_BYTES = (128 * KI, 256 * KI, 512 * KI, MI, 4 * MI, 16 * MI)
ISSUED_BYTES = 512 * KI  # from this size on a copy takes longer than the calls for it, another one and two kernels
STEP_STREAMS = CROWDED_STREAMS = 8


def duplex() -> Iterator[Probe]:
    """Yield copies both ways: n one way beside twice as many the other way, so the first are never alone; and in step.

    In step: each copy is followed by one back in its stream, so neither direction runs ahead. That shows the cost of
    both together to a per cent or two. The chains of unlike numbers show how it is shared.
    """
    for direction in DIRECTIONS:
        other: Direction = "d2h" if direction == "h2d" else "h2d"
        for n_bytes in DUPLEX_BYTES:
            gates = [Copy(direction, GATE_BYTES, 1), Copy(other, GATE_BYTES, 2)]
            for n in copy_lengths(n_bytes):
                ops: list[Op] = []
                for i in range(n):
                    ops.append(moved(direction, n_bytes, 1, i))
                    ops += (moved(other, n_bytes, 2, 2 * i + k) for k in (0, 1))
                yield probe_of(f"duplex {direction}", n_bytes, n, [*gates, *ops], 2, buffers=BUFFERS)
    for n_bytes in STEP_BYTES:
        for n in (16, 48) if n_bytes < 4 * MI else (8, 24):
            ops = [moved(d, n_bytes, 1 + i % STEP_STREAMS, i) for i in range(n) for d in DIRECTIONS]
            yield probe_of("duplex", n_bytes, n, [Copy("h2d", GATE_BYTES, 1), *ops], STEP_STREAMS, buffers=BUFFERS)


def crowded() -> Iterator[Probe]:
    """Yield copies that take turns with light kernels, over several queues: during a copy the other queues wait.

    A kernel stands behind each copy to the card, and before each copy back, whose data it has just written. Then both
    kinds of chain run at a time. The chains are long, because the cost grows over the first dozens of kernels issued
    ahead.
    """
    for n_bytes in CROWDED_BYTES:
        launch = "live" if n_bytes >= ISSUED_BYTES else "graph"
        streams = min(CROWDED_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
        for n in (32, 96) if n_bytes < 4 * MI else (16, 40) if n_bytes == 4 * MI else (8, 20):
            turns = {d: [with_kernel(d, n_bytes, 1 + i % streams, i) for i in range(n)] for d in DIRECTIONS}
            for d in DIRECTIONS:
                ops: list[Op] = [op for turn in turns[d] for op in turn]
                yield probe_of(f"crowded {d}", n_bytes, n, ops, streams, buffers=BUFFERS, launch=launch)
            both: list[Op] = []
            for there, back in zip(turns["h2d"], turns["d2h"], strict=True):
                both += there
                both += (replace(op, stream=op.stream + streams) for op in back)
            yield probe_of("crowded", n_bytes, n, both, 2 * streams, buffers=BUFFERS, launch=launch)


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
LARGE_ELEMENTS = (MI, 3 * MI // 2, 2 * MI, 3 * MI, 4 * MI, 8 * MI, 16 * MI, MOST_ELEMENTS)
WAVES, BLOCK = (1, 2, 3, 4), 256


def kernel_kind(name: str, parameter: int) -> str:
    """Return the kind of the chains of a kernel."""
    return f"kernel {name}({parameter})"


def elements_of(name: str, resident_threads: int) -> tuple[int, ...]:
    """Return the sizes at which a kernel is measured: also full waves of the card, and a block more."""
    waves = [wave * resident_threads + more for wave in WAVES for more in (0, BLOCK)]
    large = LARGE_ELEMENTS if name != "sleep" else LARGE_ELEMENTS[:-2]
    return tuple(sorted({*SMALL_ELEMENTS, *waves, *large}))


def kernels(resident_threads: int) -> Iterator[Probe]:
    """Yield each kernel back to back in one stream, over its elements.

    All launches use the same memory, so it is in the card's cache, like memory that a copy or a kernel has just
    written.
    """
    for name, parameter in KERNELS:
        for elements in elements_of(name, resident_threads):
            touched = Region(DEVICE_IN, 0, elements * FLOAT_BYTES)
            reads = (touched, touched) if name == "vector_add" else (touched,)
            writes = (Region(DEVICE_OUT, 0, elements * FLOAT_BYTES),)
            kernel = Kernel(1, name, elements, parameter, reads=reads, writes=writes)
            for n in (8, 40) if elements < MI // 2 else (2, 8) if elements < 8 * MI else (1, 3):
                yield probe_of(kernel_kind(name, parameter), elements, n, [GATE, *[kernel] * n], buffers=BUFFERS)


CYCLES = ("hk", "kd", "hd", "hkd", "hdk")
ROUNDS, ROUND_STREAMS = ("k", "hk", "kd", "hd"), (PAIR, MANY)


def hand_overs() -> Iterator[Probe]:
    """Yield cycles of ops of known time in one stream, behind a gate; and ops from stream to stream by events."""
    for cycle in CYCLES:
        for n in (8, 40):
            ops = [GATE, *_ops(cycle * n, 1, map(cycle_bytes, count()))]
            yield probe_of(f"cycle {cycle}", 0, n, ops)
    for n in (8, 40):
        ops = []
        for i in range(n):
            here, there = 1 + i % 2, 2 - i % 2
            ops += (replace(TINY, stream=here), RecordEvent(i, here), WaitEvent(i, there))
        yield probe_of("ping-pong", 0, n, [GATE, RecordEvent(n, 1), WaitEvent(n, 2), *ops], 2, events=n + 1)


def _ops(letters: str, stream: int, sizes: Iterator[int]) -> Iterator[Op]:
    """Yield what letters stand for: h and d copies in and out of the next of these sizes, k the shortest kernel."""
    directions: dict[str, Direction] = {"h": "h2d", "d": "d2h"}
    return (
        Copy(directions[c], next(sizes), stream) if c in directions else replace(TINY, stream=stream) for c in letters
    )


def rounds() -> Iterator[Probe]:
    """Yield turns of ops that go round over two streams or more; an event orders each turn behind the one before."""
    for letters in ROUNDS:
        for streams in ROUND_STREAMS:
            for n in (8, 40):
                sizes, ops = map(cycle_bytes, count()), [GATE]
                for i in range(n):
                    here, there = 1 + i % streams, 1 + (i + 1) % streams
                    ops += _ops(letters, here, sizes)
                    ops += (RecordEvent(i, here), WaitEvent(i, there))
                yield probe_of(f"round {letters}", streams, n, ops, streams, events=n)


MOST_QUEUES = 32
QUEUE_GATE_S = 500e-6
# The ops of the probes of queues and rules, by kind; a rule is that of an engine.
QUEUES: dict[str, Copy | Kernel] = {"queues compute": TINY, "queues copies": Copy("d2h", LINK_BYTES, 1)}
FULL = Kernel(1, "sincos", MI, 176)  # four waves of the largest cards: it leaves no room beside it until its last part
RULES: dict[str, tuple[str, Copy | Kernel]] = {
    "rule compute": ("compute", FULL),
    "rule h2d": ("copy_engines", Copy("h2d", 16 * MI, 1)),
}


def queues() -> Iterator[Probe]:
    """Yield probes of the queues: with ops blocked in n streams, the next stream's op is blocked if there are n queues.

    The host waits for that op and then issues one more, so its issue time tells.
    """
    for kind, op in QUEUES.items():
        for n in range(1, MOST_QUEUES):
            free, gate = n + 1, n + 2
            blocked = [one for stream in range(1, free) for one in (WaitEvent(0, stream), replace(op, stream=stream))]
            last = [replace(op, stream=free), Synchronize(stream=free), replace(op, stream=gate)]
            opening: list[Op] = [Kernel(gate, duration_s=QUEUE_GATE_S, fill=0.01), RecordEvent(0, gate)]
            yield probe_of(kind, 0, n, [*opening, *blocked, *last], gate, events=1)


def rules() -> Iterator[Probe]:
    """Yield probes that show which of several ready heads goes first: the host waits for stream 1's second op.

    Stream 1 has two ops. Stream 4 has one, issued between them, which is ready at once and takes the room that the
    first kernel leaves. Streams 2 and 3 have one each behind a copy back, issued between them and last; they become
    ready while the first op runs, stream 3's before stream 2's. So the second op of stream 1 comes first under
    same-queue-first, after stream 4's and stream 2's in issue order, and last in ready order. Kernels leave the card
    before they end, and with them the turn of their queue: same-queue-first shows as ready order.
    """
    for kind, (_, op) in RULES.items():
        early: list[Op] = [Copy("d2h", 64 * KI, 3), Copy("d2h", 2 * MI, 2)]
        heads = [replace(op, stream=stream) for stream in (1, 4, 2, 1, 3)]
        yield probe_of(kind, 0, 1, [*early, *heads, Synchronize(stream=1), TINY], 4)


def _workload(elements: int, inputs: int = 1, kernels: int = 1) -> Workload:
    kernel = WorkloadKernel(TINY.name, parameter=TINY.parameter)
    return Workload(elements, (FLOAT_BYTES,) * inputs, (FLOAT_BYTES,), (kernel,) * kernels)


SMALL, LARGE = _workload(32 * KI), _workload(256 * KI)  # a chunk: copies of 128 KiB and 1 MiB, whose calls take longer
TWO_KERNELS, TWO_INPUTS = _workload(32 * KI, kernels=2), _workload(256 * KI, inputs=2)
PREFETCH_BUFFERS = 2


def _prefetch(workload: Workload, chunks: int, _streams: int) -> Schedule:
    return prefetch(workload, chunks, PREFETCH_BUFFERS)  # over three streams


def _ring(workload: Workload, chunks: int, streams: int) -> Schedule:
    return ring(workload, chunks, streams + 1, streams)  # with one buffer more, which events hand on


# By what a program is: how it is made, the work of a chunk, and how many chunks over how many streams.
PROGRAMS: Mapping[str, tuple[Callable[[Workload, int, int], Schedule], Workload, tuple[tuple[int, int], ...]]] = {
    "depth-first": (depth_first, SMALL, ((2, 1), (4, 2), (9, 3), (16, 16), (40, 5), (64, 2), (96, 24))),
    "large copies": (depth_first, LARGE, ((3, 2), (8, 8), (20, 4), (48, 3), (64, 32))),
    "breadth-first": (breadth_first, SMALL, ((3, 3), (12, 4), (24, 24), (48, 7))),
    "breadth-first, large copies": (breadth_first, LARGE, ((5, 1), (32, 12))),
    "two kernels": (depth_first, TWO_KERNELS, ((6, 2), (20, 8), (32, 3))),
    "two inputs": (depth_first, TWO_INPUTS, ((5, 5), (30, 3))),
    "relay": (relay, SMALL, ((4, 2), (14, 3), (40, 9))),
    "prefetch": (_prefetch, LARGE, ((4, 3), (12, 3), (32, 3))),
    "ring": (_ring, SMALL, ((8, 2), (28, 2))),
}
PROGRAM_KINDS = {f"program {name}" for name in PROGRAMS}


def mixes() -> Iterator[Probe]:
    """Yield copies and launches in the mix of a live pipeline, over few and many streams: they show the host's speed.

    They are short and name no buffers, so they can be measured among other schedules.
    """
    for chain in MIXES:
        letters = chain.kind.split()[1]
        ops = [op for i in range(chain.length) for op in _ops(letters, 1 + i % chain.size, repeat(MIX_BYTES))]
        yield probe_of(*chain, ops, chain.size)


def programs() -> Iterator[Probe]:
    """Yield every program. The size of its chain is its number of streams, and the length its number of chunks."""
    for name, (make, of_chunk, sizes) in PROGRAMS.items():
        for chunks, streams in sizes:
            chain = Chain(f"program {name}", streams, chunks)
            workload = replace(of_chunk, elements=chunks * (of_chunk.elements or 0))
            yield chain, replace(make(workload, chunks, streams), name=f"probe {chain.key}")


RECORD_CHAINS, WAIT_CHAINS, SYNCHRONISE_CHAINS = "record", "wait", "synchronise"  # kinds of chains of one call
HOST_LENGTHS = (16, 64)
GRAPH_NODES = (8, 32, 128)


def host_calls() -> Iterator[Probe]:
    """Yield mixes of calls, and chains of one other call: without named buffers, to be measured among schedules."""
    yield from mixes()
    for n in HOST_LENGTHS:
        yield probe_of(RECORD_CHAINS, 0, n, [RecordEvent(i, 1 + i % 4) for i in range(n)], 4, events=n)
        records: list[Op] = [RecordEvent(i, 1 + i) for i in range(4)]
        waits: list[Op] = [WaitEvent(i % 4, 1 + (i + 1) % 4) for i in range(n)]
        yield probe_of(WAIT_CHAINS, 0, n, records + waits, 4, events=4)  # a wait for what was never recorded is cheaper
        yield probe_of(SYNCHRONISE_CHAINS, 0, n, [Synchronize(stream=1)] * n)


def waiting_calls() -> Iterator[Probe]:
    """Yield probes of calls that wait, and of a graph's launch."""
    for n in HOST_LENGTHS:
        yield probe_of("blocking copy", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1, blocking=True)] * n)
        yield probe_of("blocking kernel", 0, n, [TINY, Synchronize(stream=1)] * n)
    for n in GRAPH_NODES:
        yield probe_of("graph", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1)] * n, launch="graph")


def serial() -> Iterator[Probe]:
    """Yield chunks whose copies all hold the host, each from memory of its own: most calls come after a wait."""
    for letters in ("hkd", "hgkd"):
        inputs = len(letters) - 2
        for n in HOST_LENGTHS:
            ops: list[Op] = []
            for i in range(n):
                ops += (_held("h2d", inputs * i + k) for k in range(inputs))
                ops += (with_kernel("h2d", MIX_BYTES, 1, i)[1], _held("d2h", i))
            yield probe_of(f"serial {letters}", MIX_BYTES, n, ops, buffers=BUFFERS)


def _held(direction: Direction, number: int) -> Copy:
    return replace(moved(direction, MIX_BYTES, 1, number), blocking=True)


PROBES = (  # with those of the kernels, which the card's size sets
    copies,
    duplex,
    crowded,
    pageable,
    hand_overs,
    host_calls,
    programs,
    waiting_calls,
    serial,
    rounds,
    queues,
    rules,
)


def all_probes(resident_threads: int) -> Iterator[Probe]:
    """Yield every probe, and its schedule, for a card that holds ``resident_threads`` threads."""
    yield from kernels(resident_threads)
    for part in PROBES:
        yield from part()
