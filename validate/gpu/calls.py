"""Schedules as calls of CUDA with their arguments, prepared to be made one after another."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from streamsim.errors import InputError
from streamsim.program import (
    LEGACY_STREAM,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim_validate.gpu.bench import Bench
from streamsim_validate.gpu.kernels import SPIN, KernelSpec, broken, find_kernel
from streamsim_validate.gpu.launches import THREADS_PER_BLOCK, Argument, blocks_of, elements_of, widths_of
from streamsim_validate.gpu.memory import SCRATCH_DEVICE, SCRATCH_HOST, Key

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Calls(NamedTuple):
    """A prepared program: the calls that issue it, and the calls that wait for its end."""

    issue: list[Call]
    closing: list[Call]


class Compiler:
    """A translator of ops into calls. ``keep`` holds the objects to which the calls point."""

    def __init__(self, bench: Bench, schedule: Schedule, timing: dict[int, int] | None = None) -> None:
        """``timing``: addresses for the events that carry times."""
        self._bench = bench
        self._cuda = bench.gpu.cuda
        self._streams = bench.gpu.streams(schedule.streams)
        self._memory = {buffer.name: buffer.memory for buffer in schedule.buffers}
        self._events = bench.gpu.events(schedule.events, schedule.launch == "graph")
        for event, address in (timing or {}).items():
            self._events[event] = address
        self.keep: list[object] = []

    def calls(self, ops: Iterable[Op]) -> list[Call]:
        return [call for op in ops for call in self._op(op)]

    def _op(self, op: Op) -> list[Call]:
        cuda = self._cuda
        if op.thread or isinstance(op, WaitThread):
            raise InputError(f"thread = {op.thread}: a card replays the calls of one host thread; give 0")
        if isinstance(op, HostWork):
            return [(_work, (op.duration_s,))]
        if op.call_s is not None:
            raise InputError(f"call_s = {op.call_s}: on a card a call costs what it costs; leave it out")
        if isinstance(op, Copy):
            return self._copy(op)
        if isinstance(op, Kernel):
            return [self._kernel(op)]
        if isinstance(op, RecordEvent):
            return [(cuda.eventRecord, (self._events[op.event], self._streams[op.stream]))]
        if isinstance(op, WaitEvent):
            return [(cuda.streamWaitEvent, (self._streams[op.stream], self._events[op.event]))]
        if op.stream is not None:
            return [(cuda.streamSynchronize, (self._streams[op.stream],))]
        if op.event is not None:
            return [(cuda.eventSynchronize, (self._events[op.event],))]
        return [(cuda.deviceSynchronize, ())]

    def _address(self, buffer: str, offset: int) -> int:
        return self._bench.arena[Key(self._memory[buffer], buffer)].address + offset

    def _copy(self, copy: Copy) -> list[Call]:
        cuda, arena = self._cuda, self._bench.arena
        if copy.host is None:
            host = arena[Key("pinned", SCRATCH_HOST[copy.direction])].address
        else:
            host = self._address(copy.host.buffer, copy.host.offset)
        if copy.device is None:
            device = arena[Key("device", SCRATCH_DEVICE[copy.direction])].address
        else:
            device = self._address(copy.device.buffer, copy.device.offset)
        arguments: tuple[int, ...] = (device, host, copy.bytes, cuda.memcpyHostToDevice)
        if copy.direction == "d2h":
            arguments = (host, device, copy.bytes, cuda.memcpyDeviceToHost)
        if copy.blocking and copy.stream == LEGACY_STREAM:
            return [(cuda.memcpy, arguments)]
        stream = self._streams[copy.stream]
        wait: list[Call] = [(cuda.streamSynchronize, (stream,))] if copy.blocking else []
        return [(cuda.memcpyAsync, (*arguments, stream)), *wait]

    def _kernel(self, kernel: Kernel) -> Call:
        spec = find_kernel(kernel)
        elements, (in_widths, out_widths) = elements_of(spec, kernel), widths_of(spec, kernel)
        stream = self._streams[kernel.stream]
        if spec.launch is not None:
            return self._python_launch(spec, kernel, elements)
        bench = self._bench
        blocks, parameter = blocks_of(elements), kernel.parameter
        if spec is SPIN:
            busy = bench.spin_of(kernel)
            blocks, parameter = busy.blocks, busy.parameter(next(bench.launches))
        argument = Argument(
            elements,
            parameter,
            [(self._address(r.buffer, r.offset), width) for r, width in zip(kernel.reads, in_widths, strict=True)],
            [(self._address(r.buffer, r.offset), width) for r, width in zip(kernel.writes, out_widths, strict=True)],
        )
        self.keep.append(argument)
        launch = (bench.function(spec), blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, argument.address, 0)
        return self._cuda.launchKernel, launch

    def _python_launch(self, spec: KernelSpec, kernel: Kernel, elements: int) -> Call:
        assert spec.launch is not None
        import cupy

        def array(address: int, n_bytes: int) -> Any:
            memory = cupy.cuda.UnownedMemory(address, n_bytes, None)
            return cupy.ndarray(n_bytes, cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))

        reads, writes = (
            [array(self._address(region.buffer, region.offset), region.bytes) for region in regions]
            for regions in (kernel.reads, kernel.writes)
        )
        stream = cupy.cuda.Stream.from_external(_ForeignStream(self._streams[kernel.stream]))
        self.keep.append((reads, writes, stream))
        return _launch_on, (spec, stream, reads, writes, elements, kernel.parameter)


def _work(duration_s: float) -> None:
    """Keep the thread busy. It does not sleep, because the system would wake it late."""
    until = time.perf_counter() + duration_s
    while time.perf_counter() < until:
        pass


class _ForeignStream:
    """A stream's address in the form that CUDA libraries for Python share."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _launch_on(spec: KernelSpec, stream: Any, *arguments: Any) -> None:
    assert spec.launch is not None
    try:
        with stream:
            spec.launch(stream, *arguments)
    except RuntimeError:  # CUDA's: see Replayer
        raise
    except Exception as error:  # whatever the user's code raises
        raise broken(spec, "launch", error) from error


def capture(cuda: Any, schedule: Schedule, compiler: Compiler, streams: list[int], fork: list[int]) -> int:
    """Capture the schedule's work as a graph and return the graph's address.

    Capture begins in the first stream used. An event recorded there draws the other streams in, and the first stream
    waits for their ends. ``fork``: an event for each stream used. A wait for an event that was not recorded before does
    nothing in a schedule and is an error in a capture, so it is left out.
    """
    first, *others = schedule.used_streams
    origin = streams[first]
    work = compiler.calls(_capturable(schedule.ops))  # before: compiling and loading cannot be captured
    cuda.streamBeginCapture(origin, cuda.streamCaptureModeThreadLocal)
    try:
        cuda.eventRecord(fork[0], origin)
        for stream in others:
            cuda.streamWaitEvent(streams[stream], fork[0])
        for call, arguments in work:
            call(*arguments)
        for event, stream in zip(fork[1:], others, strict=True):
            cuda.eventRecord(event, streams[stream])
            cuda.streamWaitEvent(origin, event)
    except BaseException:
        with contextlib.suppress(Exception):
            cuda.graphDestroy(cuda.streamEndCapture(origin))
        raise
    return int(cuda.streamEndCapture(origin))


def _capturable(ops: Iterable[Op]) -> Iterator[Op]:
    recorded: set[int] = set()
    for op in ops:
        if isinstance(op, RecordEvent):
            recorded.add(op.event)
        if not isinstance(op, Synchronize) and not (isinstance(op, WaitEvent) and op.event not in recorded):
            yield op
