"""The suites: which schedules are measured to see how good the model is.

A case is a pattern with its arguments and a workload, so that whoever reads a record builds the very same
schedule. Kernels are named and carry no duration: a prediction takes their time from the device profile.
``quick`` touches every effect in a few seconds; ``standard`` covers them. The schedules of ``random`` are drawn:
:mod:`streamsim_validate.suites.random_suite`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import msgspec

from streamsim.errors import InputError
from streamsim.program.config import ORDERS, Config, ring_config
from streamsim.program.patterns import breadth_first, depth_first, prefetch, ring, serial
from streamsim.program.schedule import Copy, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim.program.workload import Workload, WorkloadKernel

KI, MI = 1 << 10, 1 << 20
CONNECTIONS = (8, 1, 32)
QUEUE_PROBES = (1, 32)  # the connections other than the default, measured on a part of the suite
# Iterations of sincos for kernels of about a tenth, a third, one and four times a copy of the same elements
# (on an H200 over PCIe gen 5; elsewhere the shares differ and the suite is as good).
LIGHT, SMALL, EVEN, HEAVY = 2, 10, 40, 176
SLEEP_CYCLES = 100_000

Value = int | str


# Patterns that only the suites need.


def legacy(workload: Workload, chunks: int) -> Schedule:
    """Chunk by chunk in the legacy default stream: asynchronous, in order."""
    plain = depth_first(workload, chunks, 1)
    ops = tuple(msgspec.structs.replace(op, stream=0) if isinstance(op, Copy | Kernel) else op for op in plain.ops)
    return msgspec.structs.replace(plain, ops=ops, streams=(), name=f"legacy N={chunks}")


def legacy_kernels(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Depth-first in blocking streams, but every kernel in the legacy default stream, which waits for all of them."""
    plain = blocking_streams(workload, chunks, streams)
    ops = tuple(msgspec.structs.replace(op, stream=0) if isinstance(op, Kernel) else op for op in plain.ops)
    return msgspec.structs.replace(plain, ops=ops, name=f"legacy-kernels N={chunks} S={streams}")


def blocking_streams(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Depth-first in streams that synchronise with the legacy default stream, which nothing uses."""
    plain = depth_first(workload, chunks, streams)
    kinds = ("blocking",) * streams
    return msgspec.structs.replace(plain, streams=kinds, name=f"blocking-streams N={chunks} S={streams}")


def stages(workload: Workload, chunks: int, lanes: int) -> Schedule:
    """One stream copies in, ``lanes`` streams run the kernels, one copies out; events hand each chunk on."""
    plain = depth_first(workload, chunks, 1)
    copy_in, copy_out = 1, lanes + 2
    ops: list[Op] = []
    for chunk, chunk_ops in enumerate(_by_chunk(plain, workload)):
        lane = 2 + chunk % lanes
        arrive, leave = 2 * chunk, 2 * chunk + 1
        for before, stream, then in (("h2d", copy_in, arrive), ("kernel", lane, leave), ("d2h", copy_out, None)):
            if before != "h2d":
                ops.append(WaitEvent(arrive if before == "kernel" else leave, stream))
            ops += (msgspec.structs.replace(op, stream=stream) for op in chunk_ops if _stage(op) == before)
            if then is not None:
                ops.append(RecordEvent(then, stream))
    streams = ("non-blocking",) * (lanes + 2)
    name = f"stages N={chunks} L={lanes}"
    return msgspec.structs.replace(plain, ops=(*ops, Synchronize()), streams=streams, events=2 * chunks, name=name)


def relay(workload: Workload, chunks: int, streams: int) -> Schedule:
    """Depth-first, but each chunk's kernel also waits, by an event, for the kernel of the chunk before."""
    plain = depth_first(workload, chunks, streams)
    ops: list[Op] = []
    for chunk, chunk_ops in enumerate(_by_chunk(plain, workload)):
        for op in chunk_ops:
            if isinstance(op, Kernel) and chunk:
                ops.append(WaitEvent(chunk - 1, op.stream))
            ops.append(op)
            if isinstance(op, Kernel):
                ops.append(RecordEvent(chunk, op.stream))
    name = f"relay N={chunks} S={streams}"
    return msgspec.structs.replace(plain, ops=(*ops, Synchronize()), events=chunks, name=name)


def _stage(op: Op) -> str:
    return op.direction if isinstance(op, Copy) else "kernel"


def _by_chunk(schedule: Schedule, workload: Workload) -> Iterator[tuple[Op, ...]]:
    """The ops of each chunk of a depth-first schedule."""
    work = schedule.ops[:-1]  # the last op synchronises
    size = len(workload.inputs) + len(workload.kernels) + len(workload.outputs)
    return (work[i : i + size] for i in range(0, len(work), size))


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
}


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schedule of a suite, and the effect it is there to show."""

    pattern: str
    arguments: dict[str, Value]
    workload: Workload
    effect: str

    def schedule(self) -> Schedule:
        """Build it. Raises InputError when the pattern is unknown or refuses the arguments."""
        if self.pattern not in PATTERNS:
            raise InputError(f"pattern = {self.pattern!r}: expected one of {', '.join(PATTERNS)}")
        try:
            return PATTERNS[self.pattern](self.workload, **self.arguments)
        except TypeError as error:
            raise InputError(f"arguments = {self.arguments!r}: {error}") from error

    @property
    def simplicity(self) -> tuple[int, ...]:
        """The smaller, the simpler, by :class:`~streamsim.program.config.Config`; other patterns come behind."""
        arguments: dict[str, Any] = self.arguments
        if self.pattern == "ring":
            return (0, *ring_config(**arguments).simplicity)
        if self.pattern in ORDERS:
            return (0, *Config(self.pattern, **arguments).simplicity)
        buffers = arguments.get("buffers", 0)
        streams = arguments.get("streams", arguments.get("lanes", buffers or 1))
        return (1, arguments.get("chunks", 1), streams, buffers, arguments.get("launch") == "graph")

    @property
    def key(self) -> str:
        """One line that names it and no other case."""
        arguments = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.pattern} {arguments} of {workload_key(self.workload)}"


def workload_key(workload: Workload) -> str:
    """One line that names a workload by what it does."""
    kernels = "+".join(map(_kernel_key, workload.kernels))
    arrays = "+".join(map(str, workload.inputs)) + ">" + "+".join(map(str, workload.outputs))
    return f"{workload.elements} x {arrays} B {kernels}"


def _kernel_key(kernel: WorkloadKernel) -> str:
    time = [] if kernel.duration_s is None else [f"{kernel.duration_s} s"]
    fill = [] if kernel.fill is None else [f"fill {kernel.fill}"]
    return f"{kernel.name}({', '.join([str(kernel.parameter), *time, *fill])})"


def digest(schedule: Schedule) -> str:
    """Short fingerprint of a schedule: changes when a pattern builds something else than what was measured."""
    # A fill that is not given was written as 1.0 once, and a kernel that the profile knows makes no use of it.
    ops = tuple(
        msgspec.structs.replace(op, fill=1.0) if isinstance(op, Kernel) and op.fill is op.duration_s is None else op
        for op in schedule.ops
    )
    measured = msgspec.structs.replace(schedule, ops=ops, unchunked=None)
    return hashlib.sha256(msgspec.json.encode(measured)).hexdigest()[:16]


def sincos(elements: int, iterations: int, inputs: tuple[int, ...] = (4,), outputs: tuple[int, ...] = (4,)) -> Workload:
    """A workload of one sincos kernel."""
    return Workload(elements, inputs, outputs, (WorkloadKernel("sincos", parameter=iterations),))


def _orders(effect: str, workload: Workload, shapes: list[tuple[int, int]], **more: Value) -> Iterator[Case]:
    """Depth- and breadth-first over (chunks, streams); with one chunk they are the same."""
    for chunks, streams in shapes:
        for pattern in ("depth-first", "breadth-first") if chunks > 1 else ("depth-first",):
            yield Case(pattern, {"chunks": chunks, "streams": streams, **more}, workload, effect)


GRID = [(1, 1), (4, 1), (4, 4), (8, 2), (16, 4), (16, 16), (32, 8), (64, 4), (64, 32), (128, 16)]
FEW = [(1, 1), (4, 2), (8, 8), (32, 4)]


def _standard() -> Iterator[Case]:
    for elements, iterations in product((MI, 4 * MI, 16 * MI), (LIGHT, SMALL, EVEN, HEAVY)):
        yield from _orders("grid", sincos(elements, iterations), GRID)
    for elements, iterations in ((256 * KI, EVEN), (64 * MI, EVEN), (64 * MI, HEAVY)):
        yield from _orders("size", sincos(elements, iterations), [(1, 1), (2, 2), (4, 4), (16, 4), (32, 8)])
    yield from _orders("size", sincos(256 * KI, HEAVY), [(16, 16), (64, 32)])
    for elements, iterations in ((1_000_003, SMALL), (10_000_019, EVEN)):
        yield from _orders("uneven", sincos(elements, iterations), [(3, 2), (7, 3), (12, 12), (100, 5)])
    yield from _unequal()
    yield from _buffers()
    yield from _host()
    for elements, iterations in ((MI, SMALL), (4 * MI, EVEN), (16 * MI, EVEN)):
        yield from _orders("graph", sincos(elements, iterations), [(1, 1), (4, 4), (16, 4), (64, 16)], launch="graph")


def _unequal() -> Iterator[Case]:
    """Inputs and outputs of different sizes."""
    add = (WorkloadKernel("vector_add"),)
    for elements in (MI, 8 * MI):
        yield from _orders("vector add", Workload(elements, (4, 4), (4,), add), FEW)
        yield from _orders("quarter output", sincos(elements // 2, EVEN, (16,), (4,)), FEW)
        yield from _orders("no output", sincos(elements, EVEN, (4,), ()), FEW)
    yield from _orders("copy kernel", Workload(4 * MI, (4,), (4,), (WorkloadKernel("copy"),)), FEW)
    for elements in (256 * KI, 4 * MI):
        sleep = Workload(elements, (4,), (4,), (WorkloadKernel("sleep", parameter=SLEEP_CYCLES),))
        yield from _orders("sleep", sleep, [(1, 1), (4, 4), (16, 8)])


def _buffers() -> Iterator[Case]:
    """Few buffers, and events between streams."""
    for iterations, chunks, buffers in product((SMALL, HEAVY), (8, 32), (2, 3, 4)):
        yield Case("ring", {"chunks": chunks, "buffers": buffers}, sincos(8 * MI, iterations), "ring")
    for buffers, streams in ((2, 3), (3, 2), (4, 3)):
        arguments: dict[str, Value] = {"chunks": 16, "buffers": buffers, "streams": streams}
        yield Case("ring", arguments, sincos(8 * MI, EVEN), "ring")
    layer = WorkloadKernel("sincos", parameter=SMALL)
    for layers, chunks, buffers in product((1, 4), (8, 32), (1, 2, 3)):
        network = Workload(8 * MI, (4,), (4,), (layer,) * layers)
        yield Case("prefetch", {"chunks": chunks, "buffers": buffers}, network, "prefetch")
    for pattern, name, sizes in (("stages", "lanes", (1, 2, 4)), ("relay", "streams", (2, 4, 8))):
        for chunks, size in product((8, 32), sizes):
            yield Case(pattern, {"chunks": chunks, name: size}, sincos(8 * MI, EVEN), "events")


def _host() -> Iterator[Case]:
    """Calls that hold the host, and streams that synchronise implicitly."""
    for elements, chunks in product((MI, 4 * MI, 16 * MI), (1, 4, 16)):
        yield Case("serial", {"chunks": chunks}, sincos(elements, EVEN), "blocking")
    for elements, chunks in product((MI, 4 * MI), (1, 8)):
        pageable: dict[str, Value] = {"chunks": chunks, "memory": "pageable"}
        yield Case("serial", pageable, sincos(elements, EVEN), "pageable")
        yield Case("depth-first", {"streams": 4, **pageable}, sincos(elements, EVEN), "pageable")
    pageable = {"chunks": 16, "streams": 4, "memory": "pageable"}
    yield Case("breadth-first", pageable, sincos(16 * MI, EVEN), "pageable")
    for elements in (MI, 8 * MI):
        for chunks in (1, 4, 16):
            yield Case("legacy", {"chunks": chunks}, sincos(elements, EVEN), "legacy")
        for chunks, streams in ((4, 2), (16, 4)):
            yield Case("legacy-kernels", {"chunks": chunks, "streams": streams}, sincos(elements, EVEN), "legacy")
            yield Case("blocking-streams", {"chunks": chunks, "streams": streams}, sincos(elements, EVEN), "legacy")


def _queue_probes() -> Iterator[Case]:
    """The part that is measured with other connections too: many streams, both orders."""
    shapes = [(4, 4), (16, 4), (16, 16), (32, 8), (64, 4), (64, 32)]
    for elements, iterations in ((4 * MI, EVEN), (16 * MI, SMALL), (16 * MI, HEAVY)):
        yield from _orders("grid", sincos(elements, iterations), shapes)
    for case in _buffers():
        if case.arguments["chunks"] != 32:
            yield case


def _quick() -> Iterator[Case]:
    for iterations in (SMALL, HEAVY):
        yield from _orders("grid", sincos(4 * MI, iterations), [(1, 1), (4, 4), (16, 4), (64, 16)])
    yield from _orders("uneven", sincos(1_000_003, SMALL), [(7, 3)])
    yield from _orders("graph", sincos(4 * MI, SMALL), [(16, 4)], launch="graph")
    effects = ("vector add", "quarter output", "no output", "copy kernel", "sleep")
    wanted = {(effect, "depth-first", 4) for effect in effects}
    yield from (case for case in _unequal() if (case.effect, case.pattern, case.arguments["chunks"]) in wanted)
    seen: set[str] = set()
    for case in (*_buffers(), *_host()):
        if case.pattern + case.effect not in seen:
            seen.add(case.pattern + case.effect)
            yield case


RANDOM, RANDOM_COUNT = "random", 200
FIXED: dict[str, Callable[[], Iterator[Case]]] = {"quick": _quick, "standard": _standard}
SUITES = (*FIXED, RANDOM)


def suite(name: str, connections: int = CONNECTIONS[0], seed: int = 0, count: int = RANDOM_COUNT) -> list[Case]:
    """The cases of a suite for a process with so many connections, those of one workload together.

    ``seed`` and ``count`` are those of ``random``. Raises InputError when there is no such suite.
    """
    if name not in SUITES:
        raise InputError(f"suite = {name!r}: expected one of {', '.join(SUITES)}")
    if name == RANDOM:
        from streamsim_validate.suites.random_suite import random_cases  # which draws cases of this module

        found: Iterable[Case] = random_cases(seed, count)
    else:
        found = _queue_probes() if name == "standard" and connections in QUEUE_PROBES else FIXED[name]()
    cases = {case.key: case for case in found}
    return sorted(cases.values(), key=lambda case: (case.workload.elements, workload_key(case.workload)))


def suite_connections(name: str) -> tuple[int, ...]:
    """The numbers of connections a suite is measured with, a process for each."""
    return CONNECTIONS if name == "standard" else CONNECTIONS[:1]
