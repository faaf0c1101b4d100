"""Replay schedules on a real card: the same calls as a CUDA program, timed, with the output verified.

Every sample replays a schedule twice. Once as it stands: ``wall_s`` from the host's first call until its
last call has returned, ``issue_s`` until the last call before the closing synchronisation has returned
(time in which a call was held is part of it: the host cannot tell waiting from working). And once with
timing events around it, :func:`with_timing_events`: ``device_s`` from the start event to the stop event.
The events and waits of that choreography cost time too, so a prediction of ``device_s`` simulates that
same instrumented schedule. The hot loop only calls functions on arguments prepared before.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streamsim.analysis.races import check
from streamsim.errors import InputError
from streamsim.program.schedule import LEGACY_STREAM, Copy, Kernel, Op, RecordEvent, Schedule, Synchronize, WaitEvent
from streamsim_validate.gpu.kernels import (
    BUILT_IN_SOURCE,
    PRELUDE,
    SPIN,
    THREADS_PER_BLOCK,
    Argument,
    KernelSpec,
    blocks_of,
    broken,
    elements_of,
    find_kernel,
    stand_in,
    widths_of,
)
from streamsim_validate.gpu.memory import (
    HOST_POISON,
    SCRATCH_DEVICE,
    SCRATCH_HOST,
    Arena,
    Key,
    buffers_of,
    check_fits,
    free_host_bytes,
    union,
)
from streamsim_validate.gpu.queue_order import QueueOrder
from streamsim_validate.gpu.reference import (
    Expected,
    Memo,
    Output,
    WrongOutputError,
    has_reference,
    host_buffers,
    outputs,
    run_reference,
)

if TYPE_CHECKING:
    from streamsim_validate.gpu.card import Gpu

NS = 1e-9
SPIN_PROBE_S, SPIN_PROBE_CHAINS, SPIN_PROBE_RUNS = 50e-6, (4, 20), 7  # longer than it takes to issue a launch

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Sample(NamedTuple):
    """One repeat, in seconds: between the timing events, of the whole program, of issuing it."""

    device_s: float
    wall_s: float
    issue_s: float


class LostGpuError(InputError):
    """The card's context is dead (a kernel touched memory that is not its own, say): nothing more can be measured."""


def closed(schedule: Schedule) -> Schedule:
    """The schedule with the host waiting for the whole device at its end, so that its time has an end."""
    if schedule.ops[-1] == Synchronize():
        return schedule
    return msgspec.structs.replace(schedule, ops=(*schedule.ops, Synchronize()))


def refuse_races(schedule: Schedule) -> None:
    """Raise InputError when two ops of the schedule race: what it computes, and so its time, means nothing."""
    races = [finding for finding in check(schedule) if finding.severity == "error"]
    if races:
        first, more = races[0], f" ({len(races) - 1} more races)" if len(races) > 1 else ""
        raise InputError(
            f"race: {first.what}; {first.remedy}{more}; `streamsim check` shows all,"
            " --allow-races (allow_races=True) runs it all the same"
        )


def _closing(schedule: Schedule) -> int:
    """Index of the first of the synchronisations that end the schedule."""
    first = len(schedule.ops)
    while first and isinstance(schedule.ops[first - 1], Synchronize):
        first -= 1
    return first


def with_timing_events(schedule: Schedule) -> Schedule:
    """The schedule as a timed program issues it, closed.

    Event ``schedule.events`` is recorded first, in the first stream used, and every other stream waits for
    it. Before the closing synchronisation the first stream waits for an event recorded at the end of every
    other, and event ``schedule.events + 1`` is recorded in it. The device's time lies between the two.
    A graph is timed from outside, by an event before and one after its launch: it comes back closed, no more.
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
    cut = _closing(schedule)
    return msgspec.structs.replace(
        schedule,
        ops=(*before, *schedule.ops[:cut], *after, RecordEvent(stop, first), *schedule.ops[cut:]),
        events=stop + 1 + len(others),
    )


@dataclass
class Bench:
    """What the replayers of one card share: memory, compiled kernels, references, what the stand-in takes to launch.

    ``allow_races``: replay schedules whose output depends on luck all the same. ``in_order``: every replay finds
    the hardware queues as in a process of its own, if their number is known.
    """

    gpu: Gpu
    allow_races: bool = False
    in_order: bool = True
    arena: Arena = field(init=False)
    queue_order: QueueOrder = field(init=False)
    _functions: dict[KernelSpec, int] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)
    _launch_s: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arena = Arena(self.gpu)
        self.queue_order = QueueOrder(self.gpu, self.gpu.queues if self.in_order else 0, lambda: self.function(SPIN))

    def function(self, spec: KernelSpec) -> int:
        """Address of a kernel's compiled function; raises InputError when it does not compile."""
        if spec not in self._functions:
            assert spec.source is not None, "a Python launch is not compiled"
            names = (spec.function,)
            try:
                self._functions[spec] = self.gpu.cuda.compile_module(source_of(spec), names)[spec.function]
            except InputError as error:
                raise InputError(f"kernel {spec.name!r}: {error}") from error
        return self._functions[spec]

    @cached_property
    def most_blocks(self) -> int:
        """Blocks of the stand-in that the card holds at once, by the driver."""
        cuda, card = self.gpu.cuda, self.gpu.card
        each = cuda.occupancyMaxActiveBlocksPerMultiprocessor(self.function(SPIN), THREADS_PER_BLOCK, 0)
        return card.multiprocessors * max(1, int(each))

    def spin_of(self, kernel: Kernel) -> tuple[int, int]:
        """(blocks, nanoseconds that each of them holds its threads) of the stand-in for a kernel with a duration."""
        duration_s, share = stand_in(kernel, self.gpu.threads, self._measured_launch_s(1))
        blocks = max(1, round(share * self.most_blocks))
        return blocks, max(0, round((duration_s - self._spin_launch_s(blocks)) / NS))

    def _spin_launch_s(self, blocks: int) -> float:
        """What a launch takes beyond the time that its blocks are told; between one block and all, in proportion."""
        least, most = (self._measured_launch_s(count) for count in (1, self.most_blocks))
        return least + (most - least) * (blocks - 1) / max(1, self.most_blocks - 1)

    def _measured_launch_s(self, blocks: int) -> float:
        if blocks not in self._launch_s:
            self._launch_s[blocks] = measure_launch_s(self, blocks)
        return self._launch_s[blocks]

    def close(self) -> None:
        """Give the memory back."""
        self.arena.clear()
        self.queue_order.close()


def source_of(spec: KernelSpec) -> str:
    """The CUDA source to compile: a user's own gets the declaration of ``Arrays`` in front."""
    assert spec.source is not None
    return spec.source if spec.source is BUILT_IN_SOURCE else f"{PRELUDE}#line 1\n{spec.source}"


def measure_launch_s(bench: Bench, blocks: int) -> float:
    """Seconds that a launch of the stand-in takes beyond the time that it is told, back to back in one stream.

    As the kernels of a profile are measured: the difference of two chains, so that what a run costs once drops out.
    """
    cuda = bench.gpu.cuda
    stream = bench.gpu.streams(("non-blocking",))[1]
    start, stop = bench.gpu.timing_events()
    argument = Argument(1, round(SPIN_PROBE_S / NS), (), ())
    launch = (bench.function(SPIN), blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, argument.address, 0)

    def chain_s(length: int) -> float:
        cuda.eventRecord(start, stream)
        for _ in range(length):
            cuda.launchKernel(*launch)
        cuda.eventRecord(stop, stream)
        cuda.streamSynchronize(stream)
        return float(cuda.eventElapsedTime(start, stop)) * 1e-3

    short, long = SPIN_PROBE_CHAINS
    chain_s(long)  # wakes the card up
    each_s = statistics.median((chain_s(long) - chain_s(short)) / (long - short) for _ in range(SPIN_PROBE_RUNS))
    bench.queue_order.lose()
    return max(0.0, each_s - SPIN_PROBE_S)


class Calls(NamedTuple):
    """A program ready to run: the calls that issue it, and those that wait for its end."""

    issue: list[Call]
    closing: list[Call]


class _Compiler:
    """Turns ops into calls. ``keep`` holds what the calls point to."""

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
        blocks, parameter = bench.spin_of(kernel) if spec is SPIN else (blocks_of(elements), kernel.parameter)
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


class _ForeignStream:
    """A stream's address in the form in which CUDA libraries for Python hand streams to each other."""

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


def capture(cuda: Any, schedule: Schedule, compiler: _Compiler, streams: list[int], fork: list[int]) -> int:
    """Capture the schedule's work as a graph and return the graph's address.

    Capture begins in the first stream used; an event recorded there draws the other streams in, and the
    first waits for their ends. ``fork``: an event for each stream used. A wait for an event that was not
    recorded before is a no-op in the language and an error in a capture, so it is left out.
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


class Replayer:
    """A schedule made ready on a card: ``verify()`` its output, ``run()`` it for a sample.

    Its buffers must be in ``bench.arena`` (see :func:`prepare`), and it must be made again when they move.
    Raises InputError when the card cannot run it, or when its ops race and ``bench`` does not allow races.
    """

    def __init__(self, schedule: Schedule, bench: Bench) -> None:
        self.schedule = closed(schedule)
        self._bench = bench
        self._cuda = bench.gpu.cuda
        if not bench.allow_races:
            with self._named_errors():
                refuse_races(self.schedule)
        self._expected: Expected | None = None
        self._timing = bench.gpu.timing_events()
        self._keep: list[object] = []
        self._graphs: list[int] = []
        self._sources, self._written = (host_buffers(self.schedule, direction) for direction in ("h2d", "d2h"))
        bench.arena.written |= self._written
        with self._named_errors():
            if self.schedule.launch == "graph":
                self._plain, self._timed = self._graph_calls()
            else:
                self._plain = self._live_calls(self.schedule, {})
                timed = with_timing_events(self.schedule)
                numbers = (self.schedule.events, self.schedule.events + 1) if timed is not self.schedule else ()
                self._timed = self._live_calls(timed, dict(zip(numbers, self._timing, strict=False)))

    def _live_calls(self, schedule: Schedule, timing: dict[int, int]) -> Calls:
        compiler = _Compiler(self._bench, schedule, timing)
        self._keep.append(compiler.keep)
        cut = _closing(schedule)
        return Calls(compiler.calls(schedule.ops[:cut]), compiler.calls(schedule.ops[cut:]))

    def _graph_calls(self) -> tuple[Calls, Calls]:
        """The graph's launch, and the same between the timing events."""
        schedule, cuda, gpu = self.schedule, self._cuda, self._bench.gpu
        compiler = _Compiler(self._bench, schedule)
        self._keep.append(compiler.keep)
        closing = [(cuda.deviceSynchronize, ()) for _ in schedule.ops[_closing(schedule) :]]
        streams, used = gpu.streams(schedule.streams), schedule.used_streams
        if not used:
            return Calls([], list(closing)), Calls([], list(closing))
        fork = gpu.events(schedule.events + len(used), captured=True)[schedule.events :]
        graph = capture(cuda, schedule, compiler, streams, fork)
        executable = cuda.graphInstantiate(graph)
        cuda.graphDestroy(graph)
        self._graphs.append(executable)
        cuda.graphUpload(executable, streams[used[0]])
        cuda.deviceSynchronize()
        self._bench.queue_order.lose()
        launch: Call = (cuda.graphLaunch, (executable, streams[used[0]]))
        start, stop = ((cuda.eventRecord, (event, streams[used[0]])) for event in self._timing)
        return Calls([launch], list(closing)), Calls([start, launch, stop], list(closing))

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """CUDA's errors as one line that names the schedule."""
        name = self.schedule.name or "the schedule"
        try:
            yield
        except LostGpuError:
            raise
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error
        except RuntimeError as error:  # CuPy's CUDARuntimeError and CUDADriverError
            try:
                self._cuda.deviceSynchronize()
            except RuntimeError as lost:
                remedy = "start again, without this schedule"
                raise LostGpuError(f"{name}: the GPU's context is lost ({lost}); {remedy}") from error
            raise InputError(f"{name}: CUDA refuses it ({error})") from error

    def replay(self) -> None:
        """Run the program once as it stands, untimed, and nothing else: for a profiler."""
        with self._named_errors():
            _replay(self._plain)
            self._bench.queue_order.lose()

    def run(self) -> Sample:
        """Replay the program twice, as it stands and between timing events."""
        with self._named_errors():
            issue_ns, wall_ns = self._replay_in_order(self._plain)
            device_s = 0.0
            if self._timed.issue:
                self._replay_in_order(self._timed)
                device_s = self._cuda.eventElapsedTime(*self._timing) * 1e-3
        return Sample(device_s, wall_ns * NS, issue_ns * NS)

    def _replay_in_order(self, calls: Calls) -> tuple[int, int]:
        """:func:`_replay` with the hardware queues as in a process of its own."""
        self._bench.queue_order.before(self.schedule)
        return _replay(calls)

    def verify(self, timed: bool = False) -> bool:
        """Poison what it writes, replay it, compare its output; False when it names no output.

        ``timed``: the program with the timing events, else as it stands. Raises WrongOutputError.
        """
        program = self._timed if timed else self._plain
        with self._named_errors():
            if not outputs(self.schedule):
                self._replay_in_order(program)
                return False
            expected = self._reference()
            self._reset()
            self._replay_in_order(program)
            expected.check(self._read)
        return True

    def _reference(self) -> Expected:
        if self._expected is None:
            computed = has_reference(self.schedule)
            self._expected = run_reference(self.schedule, self._bench.memo) if computed else self._one_at_a_time()
        return self._expected

    def _one_at_a_time(self) -> Expected:
        """The outputs of the same ops, each waited for: the reference of a kernel that has none in NumPy."""
        self._reset()
        self._bench.queue_order.lose()
        live = msgspec.structs.replace(self.schedule, launch="live")
        for call, arguments in self._live_calls(live, {}).issue:
            call(*arguments)
            self._cuda.deviceSynchronize()
        sizes = {buffer.name: buffer.bytes for buffer in self.schedule.buffers}
        tolerance = max(find_kernel(op).tolerance(op.parameter) for op in self.schedule.ops if isinstance(op, Kernel))
        found = {key: Output.of(self._read(key, sizes[key.name]).copy(), tolerance) for key in outputs(self.schedule)}
        return Expected(found)

    def _reset(self) -> None:
        """Put every named buffer that it uses into the state from which the reference starts."""
        arena = self._bench.arena
        for buffer in self.schedule.buffers:
            key = Key(buffer.memory, buffer.name)
            if buffer.memory == "device":
                arena.poison_device(buffer.name, buffer.bytes)
            elif buffer.name not in self._sources | self._written:
                continue
            elif buffer.name not in self._sources:
                arena.host(key)[: buffer.bytes] = HOST_POISON
            elif buffer.name in arena.written:
                arena.fill_host(key, buffer.bytes)
        self._poison_scratch()
        self._cuda.deviceSynchronize()

    def _poison_scratch(self) -> None:
        for key, size in buffers_of(self.schedule).items():
            if key.name in SCRATCH_DEVICE.values():
                self._bench.arena.poison_device(key.name, size)

    def _read(self, key: Key, n_bytes: int) -> Any:
        if key.memory == "device":
            return self._bench.arena.read_device(key.name, n_bytes)
        return self._bench.arena.host(key)[:n_bytes]

    def close(self) -> None:
        """Destroy the graph."""
        with contextlib.suppress(Exception):
            while self._graphs:
                self._cuda.graphExecDestroy(self._graphs.pop())


def _replay(calls: Calls) -> tuple[int, int]:
    """(ns until the last issuing call has returned, ns until the last closing call has)."""
    issue, closing = calls
    begin = perf_counter_ns()
    for call, arguments in issue:
        call(*arguments)
    issued = perf_counter_ns()
    for call, arguments in closing:
        call(*arguments)
    return issued - begin, perf_counter_ns() - begin


def prepare(bench: Bench, schedules: Iterable[Schedule]) -> None:
    """Have the buffers of all these schedules at once. Raises InputError when there is not that much memory."""
    needs = [buffers_of(schedule) for schedule in schedules]
    wanted = union(needs)
    check_fits(wanted, bench.arena.room(bench.gpu.free_bytes()), free_host_bytes())
    bench.arena.grow(wanted)


__all__ = [
    "Bench",
    "LostGpuError",
    "Replayer",
    "Sample",
    "WrongOutputError",
    "closed",
    "prepare",
    "refuse_races",
    "with_timing_events",
]
