"""CUDA's runtime on the card, as the replayer calls it: memory is NumPy's, and every call is logged by its name."""

# ruff: noqa: N802, N815, ARG002 - CUDA's names, and its arguments whether emulated or not

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest

from fake_gpu.card import LEGACY, Card, FakeError
from streamsim import program
from streamsim_validate import records
from streamsim_validate.gpu import THREADS_PER_BLOCK, Arrays, Gpu, buffers_of, find_kernel, replayer
from streamsim_validate.gpu.kernels import elements_of
from streamsim_validate.gpu.memory import DEVICE_POISON, HOST_POISON, data, host_buffers
from streamsim_validate.run import Planned, Replays, measure

CARD = records.Card("Emulated", "0000:00:00.0", 1 << 33, 4, 2048, 3, "9.0", "1.0", "13.0", "13.0", "14.0")
FIRST_FUNCTION = 0x3000
DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 1


def _memory(address: int, n_bytes: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(address))


class FakeCuda(Card):
    """The functions of ``Gpu.cuda``. ``kernels``: emulations of a user's kernels, by entry name."""

    streamLegacy, streamDefault, streamNonBlocking = LEGACY, 0, 1
    eventDefault, eventDisableTiming, hostAllocDefault = 0, 2, 0
    memcpyHostToDevice, memcpyDeviceToHost = HOST_TO_DEVICE, DEVICE_TO_HOST
    streamCaptureModeThreadLocal = 1

    def __init__(self, seed: int = 0, kernels: dict[str, Callable[[Launch], None]] | None = None) -> None:
        super().__init__(seed)
        self.device_bytes, self.most_device_bytes, self.most_streams = 0, 1 << 32, 10_000
        self.resident_blocks = CARD.threads_per_multiprocessor // THREADS_PER_BLOCK  # a multiprocessor
        self.fail_at: Callable[[str, tuple[Any, ...]], None] = lambda _name, _arguments: None
        self.threads_launched: list[tuple[str, int]] = []
        self._arrays: dict[int, np.ndarray] = {}
        self._timed: set[int] = set()
        self._functions: dict[int, str] = {}
        self._kernels = EMULATED | (kernels or {})

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("_") or name not in vars(FakeCuda) or not callable(found):
            return found

        def logged(*arguments: Any) -> Any:
            self.fail_at(name, arguments)
            self.called(name, *arguments)
            return found(*arguments)

        return logged

    eventRecord, streamWaitEvent, streamSynchronize = Card.record, Card.wait, Card.synchronise
    streamBeginCapture, streamEndCapture, graphLaunch = Card.begin_capture, Card.end_capture, Card.launch_graph

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
        self._legacy(partial(self._move, to, source, size))

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self.add(stream, partial(self._move, to, source, size))

    def _legacy(self, work: Callable[[], None]) -> None:
        self.refuse_capture()
        self.finish(self.add(LEGACY, work))

    @staticmethod
    def _move(to: int, source: int, size: int) -> None:
        _memory(to, size)[:] = _memory(source, size)

    # Streams, events and graphs

    def streamCreateWithFlags(self, flags: int) -> int:
        if len(self.streams) > self.most_streams:
            raise FakeError("out of memory")
        return self.stream("non-blocking" if flags else "blocking")

    def streamDestroy(self, stream: int) -> None:
        del self.streams[stream]

    def eventCreateWithFlags(self, flags: int) -> int:
        event = self.event()
        if not flags & self.eventDisableTiming:
            self._timed.add(event)
        return event

    def eventDestroy(self, event: int) -> None:
        del self.events[event]

    def deviceSynchronize(self) -> None:
        self.synchronise()

    def eventSynchronize(self, event: int) -> None:
        self.synchronise(event=event)

    def eventElapsedTime(self, start: int, stop: int) -> float:
        if not {start, stop} <= self._timed:
            raise FakeError("invalid resource handle: an event without timing")
        begin, end = self.events[start], self.events[stop]
        assert begin is not None
        assert end is not None
        return (end.end_ns - begin.end_ns) * 1e-6

    def graphInstantiate(self, graph: int) -> int:
        return self.graph(self._graphs[graph])

    def graphUpload(self, executable: int, stream: int) -> None:
        assert executable in self._graphs

    def graphDestroy(self, graph: int) -> None:
        self._graphs[graph] = []

    graphExecDestroy = graphDestroy

    # Kernels

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
        self.add(stream, lambda: self._kernels[name](Launch(arrays, gx * bx)))

    def occupancyMaxActiveBlocksPerMultiprocessor(self, function: int, block: int, shared: int) -> int:
        assert function in self._functions
        assert block == THREADS_PER_BLOCK
        return self.resident_blocks


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


def plainly(schedule: program.Schedule) -> dict[str, np.ndarray]:
    """What every buffer holds when the ops have been done one after another, from a poisoned start."""
    sources = host_buffers(schedule, "h2d")
    memory = {}
    for key, size in buffers_of(schedule).items():
        poison = DEVICE_POISON if key.memory == "device" else HOST_POISON
        memory[key.name] = data(key.name, size) if key.name in sources else np.full(size, poison, np.uint8)

    def at(region: program.Region) -> np.ndarray:
        return memory[region.buffer][region.offset : region.offset + region.bytes]

    for op in schedule.ops:
        if isinstance(op, program.Copy) and op.host and op.device:
            to, source = (op.device, op.host) if op.direction == "h2d" else (op.host, op.device)
            at(to)[:] = at(source)
        elif isinstance(op, program.Kernel):
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
) -> list[records.Entry]:
    """What is measured of schedules."""
    with pytest.MonkeyPatch.context() as patch, closing(Replays(gpu, more.pop("probes", ()))) as runner:
        if allow_races:
            patch.setattr(replayer, "refuse_races", lambda *_: None)
        return measure(items, runner, repeats, seed, **more)
