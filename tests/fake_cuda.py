"""An emulated card, so that the replayer can be tested where there is none.

Memory is NumPy's, and every asynchronous call becomes a node that waits for what CUDA's rules make it wait
for: the call before it in its stream, events, the legacy default stream. Nodes run when the host
synchronises, in a *random* order that respects only those rules, so a missing wait shows up as wrong output.
Every call is also logged by name.
"""

# ruff: noqa: N802, N815, ARG002 - CUDA's names, and its arguments whether emulated or not

from __future__ import annotations

import ctypes
import random
import re
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from fake_clock import CALL_NS, Clock

from streamsim.program import Copy, Kernel, Region, Schedule
from streamsim_validate.gpu import THREADS_PER_BLOCK, Arrays, Gpu, buffers_of, find_kernel
from streamsim_validate.gpu.kernels import elements_of
from streamsim_validate.gpu.memory import DEVICE_POISON, HOST_POISON, data, host_buffers
from streamsim_validate.records import Card, Entry
from streamsim_validate.run import Planned, Replays, measure

CARD = Card("Emulated", "0000:00:00.0", 1 << 33, 4, 2048, 3, "9.0", "1.0", "13.0", "13.0", "14.0")
LEGACY, FIRST_STREAM, FIRST_EVENT, FIRST_FUNCTION, FIRST_GRAPH = 0x0900, 0x1000, 0x2000, 0x3000, 0x4000
DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 1


class FakeError(RuntimeError):
    """Stands for CuPy's CUDARuntimeError."""


class Node:
    """A call on the card: what it does, and what it waits for."""

    def __init__(self, work: Callable[[], None], after: list[Node]) -> None:
        self.work, self.after, self.done = work, after, False

    @property
    def is_ready(self) -> bool:
        """Whether all that it waits for is done."""
        return all(earlier.done for earlier in self.after)


def _nothing() -> None:
    """An event, or the end of a graph."""


def _memory(address: int, n_bytes: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(address))


class FakeCuda:
    """The functions of ``Gpu.cuda``. ``kernels``: emulations of a user's kernels, by entry name."""

    streamLegacy, streamDefault, streamNonBlocking = LEGACY, 0, 1
    eventDefault, eventDisableTiming, hostAllocDefault = 0, 2, 0
    memcpyHostToDevice, memcpyDeviceToHost = HOST_TO_DEVICE, DEVICE_TO_HOST
    streamCaptureModeThreadLocal = 1

    def __init__(self, seed: int = 0, kernels: dict[str, Callable[[Launch], None]] | None = None) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.clock = Clock()  # every call and every event takes its time
        self.device_bytes, self.most_device_bytes, self.most_streams = 0, 1 << 32, 10_000
        self.resident_blocks = CARD.threads_per_multiprocessor // THREADS_PER_BLOCK  # a multiprocessor
        self.fail_at: Callable[[str, tuple[Any, ...]], None] = lambda _name, _arguments: None
        self._rng = random.Random(seed)
        self._arrays: dict[int, np.ndarray] = {}
        self._streams: dict[int, str] = {LEGACY: "legacy"}
        self._last: dict[int, Node] = {}
        self._event_node: dict[int, Node] = {}
        self._event_time: dict[int, int] = {}
        self._timed: set[int] = set()
        self._pending: list[Node] = []
        self._functions: dict[int, str] = {}
        self._kernels = EMULATED | (kernels or {})
        self._capturing: dict[int, bool] = {}  # stream -> is the origin
        self._captured: list[Node] = []
        self._capture_events: set[int] = set()  # recorded in the capture that goes on
        self._last_in_capture: set[int] = set()  # recorded in some capture, and not outside one since
        self._outside: dict[int, Node] = {}
        self._graphs: dict[int, list[Node]] = {}
        self.threads_launched: list[tuple[str, int]] = []

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or not callable(found) or name in ("fail_at", "clock"):
            return found

        def logged(*arguments: Any) -> Any:
            self.fail_at(name, arguments)
            self.log.append((name, *arguments))
            self.clock.take(CALL_NS)
            return found(*arguments)

        return logged

    # Memory

    def malloc(self, size: int) -> int:
        if self.device_bytes + size > self.most_device_bytes:
            raise FakeError("out of memory")
        self.device_bytes += size
        return self._allocate(size)

    def hostAlloc(self, size: int, flags: int) -> int:
        return self._allocate(size)

    def _allocate(self, size: int) -> int:
        array = np.full(size, 0x77, np.uint8)
        self._arrays[array.ctypes.data] = array
        return int(array.ctypes.data)

    def free(self, address: int) -> None:
        self.device_bytes -= len(self._arrays.pop(address))

    def freeHost(self, address: int) -> None:
        del self._arrays[address]

    def memGetInfo(self) -> tuple[int, int]:
        return self.most_device_bytes - self.device_bytes, self.most_device_bytes

    def memset(self, address: int, value: int, size: int) -> None:
        self._legacy(lambda: _memory(address, size).fill(value))

    def memcpy(self, to: int, source: int, size: int, kind: int) -> None:
        self._legacy(lambda: self._move(to, source, size))

    def _legacy(self, work: Callable[[], None]) -> None:
        if self._capturing:
            raise FakeError("operation not permitted when stream is capturing")
        self._finish(self._add(LEGACY, work))

    @staticmethod
    def _move(to: int, source: int, size: int) -> None:
        _memory(to, size)[:] = _memory(source, size)

    # Streams and events

    def streamCreateWithFlags(self, flags: int) -> int:
        if len(self._streams) > self.most_streams:
            raise FakeError("out of memory")
        stream = FIRST_STREAM + len(self._streams)
        self._streams[stream] = "non-blocking" if flags else "blocking"
        return stream

    def streamDestroy(self, stream: int) -> None:
        del self._streams[stream]

    def eventCreateWithFlags(self, flags: int) -> int:
        event = FIRST_EVENT + len(self._event_time)
        self._event_time[event] = 0
        if not flags & self.eventDisableTiming:
            self._timed.add(event)
        return event

    def eventDestroy(self, event: int) -> None:
        del self._event_time[event]

    def eventRecord(self, event: int, stream: int) -> None:
        def stamp() -> None:
            self._event_time[event] = self.clock.take(CALL_NS)

        self._event_node[event] = self._add(stream, stamp)
        self._last_in_capture.discard(event)
        if self._capturing:
            self._capture_events.add(event)
            self._last_in_capture.add(event)

    def streamWaitEvent(self, stream: int, event: int) -> None:
        if self._capturing:
            if event not in self._capture_events:
                raise FakeError("dependency created on uncaptured work in another stream")
            if stream not in self._capturing:
                self._capturing[stream] = False
                self._outside[stream] = self._last.pop(stream, Node(_nothing, []))
        else:
            self._refuse_captured(event)
        node = self._event_node.get(event)
        if node is not None:
            self._add(stream, _nothing, [node])

    def eventElapsedTime(self, start: int, stop: int) -> float:
        if not {start, stop} <= self._timed:
            raise FakeError("invalid resource handle: an event without timing")
        return (self._event_time[stop] - self._event_time[start]) * 1e-6

    def streamSynchronize(self, stream: int) -> None:
        self._refuse_capture()
        if stream in self._last:
            self._finish(self._last[stream])

    def eventSynchronize(self, event: int) -> None:
        self._refuse_capture()
        self._refuse_captured(event)
        if event in self._event_node:
            self._finish(self._event_node[event])

    def deviceSynchronize(self) -> None:
        self._refuse_capture()
        self._finish(None)

    def _refuse_captured(self, event: int) -> None:
        if event in self._last_in_capture:
            raise FakeError("operation not permitted on an event last recorded in a capturing stream")

    def _refuse_capture(self) -> None:
        if self._capturing:
            raise FakeError("operation not permitted when stream is capturing")

    # Work

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self._add(stream, lambda: self._move(to, source, size))

    def compile_module(self, source: str, name: str) -> int:
        assert re.search(rf"void (__launch_bounds__\([0-9, ]+\) )?{name}\(", source)
        address = FIRST_FUNCTION + len(self._functions)
        self._functions[address] = name
        return address

    def launchKernel(self, function: int, *arguments: int) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, parameters, extra = arguments
        assert (gy, gz, by, bz, shared, extra) == (1, 1, 1, 1, 0, 0)
        assert bx == THREADS_PER_BLOCK
        pointer = ctypes.c_void_p.from_address(parameters).value
        assert pointer is not None
        arrays = Arrays.from_buffer_copy((ctypes.c_char * ctypes.sizeof(Arrays)).from_address(pointer))
        name = self._functions[function]
        self.threads_launched.append((name, gx * bx))
        self._add(stream, lambda: self._kernels[name](Launch(arrays, gx * bx)))

    def occupancyMaxActiveBlocksPerMultiprocessor(self, function: int, block: int, shared: int) -> int:
        assert function in self._functions
        assert block == THREADS_PER_BLOCK
        return self.resident_blocks

    def _add(self, stream: int, work: Callable[[], None], also: list[Node] | None = None) -> Node:
        kind = self._streams[stream]
        after = [*(also or ()), *([self._last[stream]] if stream in self._last else [])]
        if self._capturing:
            assert stream in self._capturing, "work in a stream that is no part of the capture"
        elif kind == "legacy":
            blocking = [other for other, its_kind in self._streams.items() if its_kind == "blocking"]
            after += [self._last[other] for other in blocking if other in self._last]
        elif kind == "blocking" and LEGACY in self._last:
            after.append(self._last[LEGACY])
        node = Node(work, after)
        self._last[stream] = node
        (self._captured if self._capturing else self._pending).append(node)
        return node

    def _finish(self, target: Node | None) -> None:
        """Run pending nodes in a random order until ``target`` (None: all) is done."""
        place = {id(node): i for i, node in enumerate(self._pending)}
        followers: dict[int, list[Node]] = {}
        for node in self._pending:
            for earlier in set(map(id, node.after)):
                followers.setdefault(earlier, []).append(node)
        ready, left = [node for node in self._pending if node.is_ready], len(self._pending)
        try:
            while left and not (target is not None and target.done):
                node = ready.pop(self._rng.randrange(len(ready)))
                node.work()
                node.done, left = True, left - 1
                for other in followers.get(id(node), ()):
                    if other.is_ready:
                        insort(ready, other, key=lambda node: place[id(node)])
        finally:
            self._pending = [node for node in self._pending if not node.done]

    # Graphs

    def streamBeginCapture(self, stream: int, mode: int) -> None:
        assert not self._pending, "captured while the card was busy"
        self._capturing, self._captured, self._capture_events = {stream: True}, [], set()
        self._outside = {stream: self._last.pop(stream, Node(_nothing, []))}

    def streamEndCapture(self, stream: int) -> int:
        captured, last = self._captured, self._last[stream]
        joined = set(map(id, _ancestors(last)))
        others = [self._last[other] for other in self._capturing if other in self._last]
        self._capturing = {}
        self._last = {s: n for s, n in self._last.items() if s not in self._outside}
        if any(id(node) not in joined for node in others):
            raise FakeError("capture was not ended: unjoined work")
        graph = FIRST_GRAPH + len(self._graphs)
        self._graphs[graph] = captured
        return graph

    def graphInstantiate(self, graph: int) -> int:
        executable = FIRST_GRAPH + len(self._graphs)
        self._graphs[executable] = self._graphs[graph]
        return executable

    def graphUpload(self, executable: int, stream: int) -> None:
        assert executable in self._graphs

    def graphDestroy(self, graph: int) -> None:
        self._graphs[graph] = [*self._graphs[graph]]

    def graphExecDestroy(self, executable: int) -> None:
        self._graphs[executable] = []

    def graphLaunch(self, executable: int, stream: int) -> None:
        begin = self._add(stream, _nothing)
        copies: dict[int, Node] = {}
        for node in self._graphs[executable]:
            copies[id(node)] = Node(node.work, [copies[id(a)] for a in node.after if id(a) in copies] or [begin])
            self._pending.append(copies[id(node)])
        self._add(stream, _nothing, list(copies.values()))


def _ancestors(node: Node) -> Iterator[Node]:
    seen: set[int] = set()
    stack = [node]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += node.after


class Launch:
    """A kernel launch as an emulated kernel sees it: one thread for each of ``threads``."""

    def __init__(self, arrays: Arrays, threads: int) -> None:
        self.elements, self.parameter = arrays.elements, arrays.parameter
        self.count = min(arrays.elements, threads)  # elements that have a thread
        self.reads = [self._rows(arrays.in_[k], arrays.in_width[k]) for k in range(arrays.inputs)]
        self.writes = [self._rows(arrays.out[k], arrays.out_width[k]) for k in range(arrays.outputs)]

    def _rows(self, address: int, width: int) -> np.ndarray:
        return _memory(address, self.elements * width).reshape(self.elements, width)[: self.count]

    def compute(self, name: str) -> None:
        """Do what the built-in kernel of this name does."""
        widths = [rows.shape[1] for rows in self.writes]
        results = computed(name, self.parameter, self.count, self.reads, widths)
        for rows, result in zip(self.writes, results, strict=False):
            rows[:] = result


def computed(
    name: str, parameter: int, elements: int, inputs: Sequence[np.ndarray], widths: Sequence[int]
) -> list[np.ndarray]:
    """The outputs of a built-in kernel, of so many bytes an element: rows for elements, as the inputs are."""
    if name in ("sincos", "vector_add"):
        x = np.zeros(elements, np.float32)
        for rows in inputs:
            for column in np.ascontiguousarray(rows).view(np.float32).T:  # float by float: the same rounding
                x += column
        for _ in range(parameter if name == "sincos" else 0):
            x = np.sin(x) * np.cos(x)
        return [np.repeat(x[:, None], width // 4, axis=1).view(np.uint8) for width in widths]
    sources = [inputs[min(k, len(inputs) - 1)].copy() for k in range(len(widths))] if inputs else []
    return [np.tile(s, -(-width // s.shape[1]))[:, :width] for s, width in zip(sources, widths, strict=False)]


EMULATED = {
    f"streamsim_{name}": partial(Launch.compute, name=name)
    for name in ("sincos", "vector_add", "copy", "sleep", "spin")
}


def plainly(schedule: Schedule) -> dict[str, np.ndarray]:
    """What every buffer holds when the ops have been done one after another, from a poisoned start."""
    sources = host_buffers(schedule, "h2d")
    memory = {}
    for key, size in buffers_of(schedule).items():
        poison = DEVICE_POISON if key.memory == "device" else HOST_POISON
        memory[key.name] = data(key.name, size) if key.name in sources else np.full(size, poison, np.uint8)

    def at(region: Region) -> np.ndarray:
        return memory[region.buffer][region.offset : region.offset + region.bytes]

    for op in schedule.ops:
        if isinstance(op, Copy) and op.host and op.device:
            to, source = (op.device, op.host) if op.direction == "h2d" else (op.host, op.device)
            at(to)[:] = at(source)
        elif isinstance(op, Kernel):
            n = elements_of(find_kernel(op), op)
            reads = [at(region).copy().reshape(n, -1) for region in op.reads]
            results = computed(op.name, op.parameter, n, reads, [region.bytes // n for region in op.writes])
            for region, result in zip(op.writes, results, strict=False):
                at(region)[:] = np.ascontiguousarray(result).reshape(-1)
    return memory


def fake_gpu(seed: int = 0, **more: Any) -> tuple[Gpu, FakeCuda]:
    """A Gpu on an emulated card, and the card."""
    cuda = FakeCuda(seed, **more)
    return Gpu(cuda, CARD), cuda


def replayed(
    items: Sequence[Planned], gpu: Gpu, repeats: int, seed: int = 0, allow_races: bool = False, **more: Any
) -> list[Entry]:
    """What is measured of schedules."""
    with closing(Replays(gpu, allow_races, more.pop("probes", ()))) as runner:
        return measure(items, runner, repeats, seed, **more)
