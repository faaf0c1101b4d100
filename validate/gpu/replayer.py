"""Replays of schedules on a card: the same calls as a CUDA program, timed, with the output verified.

A schedule becomes calls of CUDA with their arguments. The hot loop only makes these calls. Every sample replays a
schedule twice.

- Without timing events. ``wall_s``: from the host's first call until its last call has returned. ``issue_s``: until the
  last call before the closing synchronisation has returned, including time in which a call was held.
- With timing events (:func:`streamsim_validate.records.recipe.with_timing_events`). ``device_s``: from the start event
  to the stop event. These events and waits cost time, so a prediction of ``device_s`` simulates the same schedule.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import msgspec

from streamsim.errors import InputError
from streamsim.program import (
    LEGACY_STREAM,
    Copy,
    HostWork,
    Kernel,
    MemoryKind,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.races import check
from streamsim.text import one_line
from streamsim_validate.gpu.bench import Bench
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.kernels import (
    NS,
    SPIN,
    THREADS_PER_BLOCK,
    Argument,
    elements_of,
    find_kernel,
    widths_of,
)
from streamsim_validate.gpu.memory import Bytes, Key, buffers_of, free_host_bytes, scratch_of
from streamsim_validate.gpu.reference import Content, has_reference, host_buffers, initial, outputs, run_reference
from streamsim_validate.records import closed, first_closing, with_timing_events

REFERENCE_COPIES = 3  # of all buffers: their bytes, their tolerances, and what is compared or computed

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class PreparedCalls(NamedTuple):
    """A prepared program: the calls that issue it, and the calls that wait for its end."""

    issue: list[Call]
    closing: list[Call]


class Compiler:
    """A translator of ops into calls. ``keep`` holds the objects to which the calls point."""

    def __init__(self, bench: Bench, schedule: Schedule) -> None:
        self._bench = bench
        self._cuda = bench.gpu.cuda
        self._streams = bench.gpu.streams(schedule.streams)
        self._memory = {buffer.name: buffer.memory for buffer in schedule.buffers}
        self.events = bench.gpu.events(schedule.events, schedule.launch == "graph")
        self.keep: list[object] = []

    def calls(self, ops: Iterable[Op]) -> list[Call]:
        return [call for op in ops for call in self._op(op)]

    def _op(self, op: Op) -> list[Call]:
        cuda, streams, events = self._cuda, self._streams, self.events
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
            return [(cuda.eventRecord, (events[op.event], streams[op.stream]))]
        if isinstance(op, WaitEvent):
            return [(cuda.streamWaitEvent, (streams[op.stream], events[op.event]))]
        if op.stream is not None:
            return [(cuda.streamSynchronize, (streams[op.stream],))]
        if op.event is not None:
            return [(cuda.eventSynchronize, (events[op.event],))]
        return [(cuda.deviceSynchronize, ())]

    def _address(self, region: Region) -> int:
        return self._bench.arena[Key(self._memory[region.buffer], region.buffer)].address + region.offset

    def _side(self, copy: Copy, memory: MemoryKind, region: Region | None) -> int:
        return self._bench.arena[scratch_of(copy, memory)].address if region is None else self._address(region)

    def _copy(self, copy: Copy) -> list[Call]:
        cuda = self._cuda
        host, device = self._side(copy, "pinned", copy.host), self._side(copy, "device", copy.device)
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
        elements, widths = elements_of(spec, kernel), widths_of(spec, kernel)
        stream, bench = self._streams[kernel.stream], self._bench
        blocks, parameter = -(-elements // THREADS_PER_BLOCK), kernel.parameter
        if spec is SPIN:
            busy = bench.spin_of(kernel)
            blocks, parameter = busy.blocks, busy.parameter(next(bench.launches))
        sides = (
            [(self._address(region), width) for region, width in zip(regions, own, strict=True)]
            for regions, own in zip((kernel.reads, kernel.writes), widths, strict=True)
        )
        argument = Argument(elements, parameter, *sides)
        self.keep.append(argument)
        launch = (bench.function(spec), blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, argument.address, 0)
        return self._cuda.launchKernel, launch


def _work(duration_s: float) -> None:
    """Keep the thread busy. It does not sleep, because the system would wake it late."""
    until = time.perf_counter() + duration_s
    while time.perf_counter() < until:
        pass


Meter = Callable[[], float]  # reads so many seconds


class Sample(NamedTuple):
    """The seconds of one repeat: between the timing events, of the whole program, and of issuing it."""

    device_s: float
    wall_s: float
    issue_s: float


class LostGpuError(InputError):
    """The card's context is dead, perhaps because a kernel touched foreign memory: nothing more can be measured."""


@contextlib.contextmanager
def one_line_errors(gpu: Gpu, what: str, kind: type[Exception]) -> Iterator[None]:
    """Raise errors of ``kind`` as InputError, or as LostGpuError if nothing more can run.

    CuPy's CUDARuntimeError and CUDADriverError are RuntimeErrors.
    """
    try:
        yield
    except InputError:
        raise
    except kind as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        try:
            gpu.cuda.deviceSynchronize()
        except Exception as lost:
            remedy = "start again, without it"
            raise LostGpuError(f"{what}: {reason}; the GPU's context is lost ({lost}); {remedy}") from error
        raise InputError(reason) from error


def refuse_races(schedule: Schedule, name: str) -> None:
    """Raise InputError if two ops of the schedule race: then its output, and so its time, means nothing."""
    races = [finding for finding in check(schedule) if finding.severity == "error"]
    if races:
        first, more = races[0], f" ({len(races) - 1} more races)" if len(races) > 1 else ""
        raise InputError(
            f"{name}: race: {first.what}; {first.remedy}{more}; `streamsim check` shows all,"
            " --allow-races (allow_races=True) runs it all the same"
        )


class Replayer:
    """A schedule made ready on a card: ``verify()`` its output, ``run()`` it for a sample.

    Its buffers must be in ``bench.arena`` (see :func:`prepare`). If they move, make a new replayer. Raises InputError
    if the card cannot run the schedule, or if its ops race and ``bench`` does not allow races.
    """

    def __init__(self, schedule: Schedule, bench: Bench) -> None:
        self.schedule = closed(schedule)
        self._bench = bench
        self._cuda = bench.gpu.cuda
        if not bench.allow_races:
            refuse_races(self.schedule, self.schedule.name or "the schedule")
        self._one_at_a_time: dict[Key, Content] = {}
        self._timing = bench.gpu.timing_events()
        self._keep: list[object] = []
        self._graphs: list[int] = []
        self._sources, self._written = (host_buffers(self.schedule, direction) for direction in ("h2d", "d2h"))
        bench.arena.written |= self._written
        with self._named_errors():
            if self.schedule.launch == "graph" and self.schedule.used_streams:
                self._plain, self._timed = self._graph_calls()
            else:
                self._plain = self._live_calls(self.schedule)
                self._timed = self._live_calls(with_timing_events(self.schedule), self._timing)

    def _live_calls(self, schedule: Schedule, timing: Sequence[int] = ()) -> PreparedCalls:
        """Return the calls of a schedule. ``timing``: the addresses of the start and stop events that were added."""
        compiler = Compiler(self._bench, schedule)
        compiler.events[self.schedule.events : self.schedule.events + len(timing)] = timing
        self._keep.append(compiler.keep)
        cut = first_closing(schedule)
        return PreparedCalls(compiler.calls(schedule.ops[:cut]), compiler.calls(schedule.ops[cut:]))

    def _graph_calls(self) -> tuple[PreparedCalls, PreparedCalls]:
        """Return the graph's launch alone, and between the timing events."""
        cuda, schedule = self._cuda, self.schedule
        first = self._bench.gpu.streams(schedule.streams)[schedule.used_streams[0]]
        graph = self._capture(first)
        executable = cuda.graphInstantiate(graph)
        cuda.graphDestroy(graph)
        self._graphs.append(executable)
        cuda.graphUpload(executable, first)
        cuda.deviceSynchronize()
        self._bench.queue_order.lose()
        closing: list[Call] = [(cuda.deviceSynchronize, ())] * (len(schedule) - first_closing(schedule))
        launch = (cuda.graphLaunch, (executable, first))
        start, stop = ((cuda.eventRecord, (event, first)) for event in self._timing)
        return PreparedCalls([launch], closing), PreparedCalls([start, launch, stop], closing)

    def _capture(self, first: int) -> int:
        """Capture the schedule's work, beginning in its first stream, as a graph and return the graph's address.

        The events of a timed program draw the other streams in, and the first stream waits for their ends. A wait for
        an event that was not recorded before does nothing in a schedule and is an error in a capture, so it is left
        out.
        """
        cuda = self._cuda
        forked = with_timing_events(msgspec.structs.replace(self.schedule, launch="live"))
        compiler = Compiler(self._bench, msgspec.structs.replace(forked, launch="graph"))
        self._keep.append(compiler.keep)
        recorded: set[int] = set()
        work: list[Call] = []  # made before, because compiling and loading cannot be captured
        for op in forked.ops:
            if isinstance(op, RecordEvent):
                recorded.add(op.event)
            if not isinstance(op, Synchronize) and not (isinstance(op, WaitEvent) and op.event not in recorded):
                work += compiler.calls([op])
        cuda.streamBeginCapture(first, cuda.streamCaptureModeThreadLocal)
        try:
            for call, arguments in work:
                call(*arguments)
        except BaseException:
            with contextlib.suppress(Exception):
                cuda.graphDestroy(cuda.streamEndCapture(first))
            raise
        return int(cuda.streamEndCapture(first))

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Raise errors as one line that names the schedule."""
        name = self.schedule.name or "the schedule"
        try:
            with one_line_errors(self._bench.gpu, name, RuntimeError):
                yield
        except LostGpuError:
            raise
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error

    def replay(self) -> None:
        """Run the program once without timing events, untimed, and nothing else: for a profiler."""
        with self._named_errors():
            _replay(self._plain)
            self._bench.queue_order.lose()

    def run(self) -> Sample:
        """Replay the program twice, without and with timing events."""
        with self._named_errors():
            issue_ns, wall_ns = self._replay_in_order(self._plain)
        return Sample(self.device_s(), wall_ns * NS, issue_ns * NS)

    def device_s(self) -> float:
        """Replay the program once between timing events. Return the seconds between them, 0 for one without work."""
        with self._named_errors():
            if not self._timed.issue:
                return 0.0
            self._replay_in_order(self._timed)
            return float(self._cuda.eventElapsedTime(*self._timing)) * 1e-3

    def run_beside(self, meters: Sequence[Meter]) -> tuple[Sample, tuple[float, ...]]:
        """Return a sample, and the seconds of each meter: the mean of just before and just after it."""
        before_s, sample = [read() for read in meters], self.run()
        after_s = [read() for read in reversed(meters)]
        return sample, tuple((one + other) / 2 for one, other in zip(before_s, reversed(after_s), strict=True))

    def issue(self) -> float:
        """Replay once a program that does not disturb the hardware queues. Return the seconds that issuing took."""
        with self._named_errors():
            issue_ns, _ = _replay(self._plain)
        return issue_ns * NS

    def _replay_in_order(self, calls: PreparedCalls) -> tuple[int, int]:
        """Replay as :func:`_replay`, with the hardware queues as in a process of its own."""
        self._bench.queue_order.before(self.schedule)
        return _replay(calls)

    def verify(self, timed: bool = False) -> bool:
        """Poison the outputs, replay the program and compare them. Return False if it names no output.

        ``timed``: the program with timing events. Raises WrongOutputError.
        """
        program = self._timed if timed else self._plain
        with self._named_errors():
            if not outputs(self.schedule):
                self._replay_in_order(program)
                return False
            expected = self._reference()
            self._reset()
            self._replay_in_order(program)
            for key, content in expected.items():
                content.check(key.name, self._read(key, len(content.bytes)))
        return True

    def _reference(self) -> dict[Key, Content]:
        """Return the outputs in NumPy, or of the ops each waited for.

        The latter if a kernel has no reference in NumPy, or the host has no room for the content of all buffers.
        """
        sizes = buffers_of(self.schedule)
        if has_reference(self.schedule) and REFERENCE_COPIES * sum(sizes.values()) <= free_host_bytes():
            return run_reference(self.schedule)
        if not self._one_at_a_time:
            self._reset()
            self._bench.queue_order.lose()
            live = msgspec.structs.replace(self.schedule, launch="live")
            for call, arguments in self._live_calls(live).issue:
                call(*arguments)
                self._cuda.deviceSynchronize()
            kernels = [op for op in self.schedule.ops if isinstance(op, Kernel)]
            tolerance = max((find_kernel(op).tolerance(op.parameter) for op in kernels), default=0.0)
            self._one_at_a_time = {
                key: Content.of(self._read(key, sizes[key]).copy(), tolerance) for key in outputs(self.schedule)
            }
        return self._one_at_a_time

    def _reset(self) -> None:
        """Put every named buffer that it uses into the state in which the reference starts."""
        arena, used = self._bench.arena, self._sources | self._written
        for key, size in buffers_of(self.schedule).items():
            if key.memory == "device":
                arena.poison_device(key.name, size)
            elif key.name in used and (key.name not in self._sources or key.name in arena.written):
                arena.host(key)[:size] = initial(self.schedule, key, size)
        self._cuda.deviceSynchronize()

    def _read(self, key: Key, n_bytes: int) -> Bytes:
        if key.memory == "device":
            return self._bench.arena.read_device(key.name, n_bytes)
        return self._bench.arena.host(key)[:n_bytes]

    def close(self) -> None:
        """Destroy the graph."""
        with contextlib.suppress(Exception):
            while self._graphs:
                self._cuda.graphExecDestroy(self._graphs.pop())


def _replay(calls: PreparedCalls) -> tuple[int, int]:
    """Return (ns until the last issuing call has returned, ns until the last closing call has returned)."""
    issue, closing = calls
    begin = perf_counter_ns()
    for call, arguments in issue:
        call(*arguments)
    issued = perf_counter_ns()
    for call, arguments in closing:
        call(*arguments)
    return issued - begin, perf_counter_ns() - begin
