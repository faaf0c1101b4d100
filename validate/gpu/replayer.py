"""Replays of schedules on a card: the same calls as a CUDA program, timed, with the output verified.

A schedule becomes calls of CUDA with their arguments. The hot loop only makes these calls. Every sample replays a
schedule twice.

- Without timing events. ``wall_s``: from the host's first call until its last call has returned. ``issue_s``: until the
  last call before the closing synchronisation has returned, including time in which a call was held.
- With timing events (:func:`streamsim_validate.records.record.with_timing_events`). ``device_s``: from the start event
  to the stop event. These events and waits cost time, so a prediction of ``device_s`` simulates the same schedule.

A schedule without races gives the same bytes however its ops overlap. So a time is accepted only if the output is that
of the ops done one at a time.

Replayers of one card share a :class:`Bench`, with memory, kernels and the order of the hardware queues. Streams own
hardware queues. If there are more streams than queues, streams take queues from each other. So the queue of a stream
depends on all earlier work of the process. This decides in which order a copy engine comes to a program's streams, and
which streams share a queue. On an H200 with 8 queues, 8 chunks of 4 MiB handed on by events over 8 streams take 0.87 ms
in a process of their own, and up to 1.22 ms behind programs over more streams.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import count
from time import perf_counter_ns
from typing import Any, NamedTuple

import msgspec

from streamsim import program
from streamsim.errors import InputError, one_line
from streamsim.races import check
from streamsim_validate.gpu import kernels, memory
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.cuda_source import BUILT_IN_SOURCE, PRELUDE
from streamsim_validate.records import closed, first_closing, with_timing_events

COPY_BYTES = 64 << 10
GATE_BYTES_A_QUEUE = 1 << 20  # copied while a copy and an event are issued to each queue
GATES = memory.Key("pinned", "(queues)"), memory.Key("device", "(queues)")


class QueueOrder:
    """A keeper of the order of a card's queues.

    ``queues``: their number in front of every engine; with fewer than two there is nothing to do.
    """

    def __init__(self, bench: "Bench", queues: int) -> None:
        self._bench, self._cuda, self._queues = bench, bench.gpu.cuda, queues
        self._in_order = False
        self._at_once = kernels.Argument(1, 0, (), ())

    def before(self, schedule: program.Schedule) -> None:
        """Restore the order if needed. Call this before each replay of ``schedule``."""
        if self._queues < 2:
            return
        disturbs = self._disturbs(schedule)
        if disturbs or not self._in_order:
            self._restore()
        self._in_order = not disturbs

    def lose(self) -> None:
        """Note that other work has used the queues."""
        self._in_order = False

    def _disturbs(self, schedule: program.Schedule) -> bool:
        """Return whether it uses more streams than own a queue each, or lets the driver choose."""
        return (
            schedule.launch == "graph"
            or len(schedule.streams) > self._queues
            or any(kind != "non-blocking" for kind in schedule.streams)
            or program.LEGACY_STREAM in schedule.used_streams
            or bool(schedule.pageable_names)
        )

    def _restore(self) -> None:
        """Give stream i of all schedules the queue number i of each engine, used last in this order.

        A stream without a queue takes the least recently used one. So streams of its own, the holders, take all queues.
        The order in which a copy engine serves them shows which holder has which queue. The holders use their queues in
        that order. Then the schedules' streams take them one after another. Kernels start in the order in which they
        become ready, whatever their queues' numbers.
        """
        self._bench.arena.grow(dict.fromkeys(GATES, self._queues * GATE_BYTES_A_QUEUE))
        _, *holders = self._bench.gpu.streams(["holder"] * self._queues)
        _, *streams = self._bench.gpu.streams(["non-blocking"] * self._queues)
        for kind in (self._cuda.memcpyHostToDevice, self._cuda.memcpyDeviceToHost):
            copy = partial(self._copy, kind)
            self._take(copy, holders)
            self._take(copy, self._served(copy, holders))
            self._take(copy, streams)
        self._take(self._launch, holders)
        self._take(self._launch, streams)

    def _take(self, use: Callable[[int], None], streams: Iterable[int]) -> None:
        for stream in streams:
            use(stream)
        self._cuda.deviceSynchronize()

    def _served(self, copy: Callable[..., None], holders: Sequence[int]) -> list[int]:
        """Return the holders in the order in which a copy engine serves their queues, from the first holder's on."""
        cuda, events = self._cuda, self._bench.gpu.events(len(holders), "timing")
        copy(holders[0], len(holders) * GATE_BYTES_A_QUEUE)
        for holder, event in zip(holders, events, strict=True):
            copy(holder)
            cuda.eventRecord(event, holder)
        cuda.deviceSynchronize()
        late = [cuda.eventElapsedTime(events[0], event) for event in events]
        return [holder for _, holder in sorted(zip(late, holders, strict=True))]

    def _copy(self, kind: int, stream: int, n_bytes: int = COPY_BYTES) -> None:
        host, device = map(self._bench.arena.address, GATES)
        to, source = (device, host) if kind == self._cuda.memcpyHostToDevice else (host, device)
        self._cuda.memcpyAsync(to, source, n_bytes, kind, stream)

    def _launch(self, stream: int) -> None:
        self._cuda.launchKernel(*self._bench.launch(kernels.SPIN, 1, stream, self._at_once))


SPIN_PROBE_S, SPIN_PROBE_CHAINS, SPIN_PROBE_RUNS = 50e-6, (4, 20), 7  # longer than it takes to issue a launch


class Bench:
    """The resources of a card's replayers: memory, compiled kernels, the stand-in's launch times.

    ``in_order``: every replay finds the hardware queues as in a process of its own, if their number is known.
    ``launches``: of the stand-in, by number.
    """

    def __init__(self, gpu: Gpu, in_order: bool = True) -> None:
        self.gpu, self.arena, self.launches = gpu, memory.Arena(gpu), count()
        self.queue_order = QueueOrder(self, gpu.queues if in_order else 0)
        self._functions: dict[kernels.KernelSpec, int] = {}
        self._launch_s: dict[tuple[int, int], float] = {}

    def function(self, spec: kernels.KernelSpec) -> int:
        """Return the address of a kernel's compiled function. Raises InputError if it does not compile."""
        if spec not in self._functions:
            source = spec.source if spec.source is BUILT_IN_SOURCE else f"{PRELUDE}#line 1\n{spec.source}"
            try:
                self._functions[spec] = self.gpu.cuda.compile_module(source, spec.entry or spec.name)
            except InputError as error:
                raise InputError(f"kernel {spec.name!r}: {error}") from error
        return self._functions[spec]

    def launch(self, spec: kernels.KernelSpec, blocks: int, stream: int, argument: kernels.Argument) -> tuple[int, ...]:
        """Return the arguments of a call that launches a kernel."""
        return (self.function(spec), blocks, 1, 1, kernels.THREADS_PER_BLOCK, 1, 1, 0, stream, argument.address, 0)

    @cached_property
    def most_blocks(self) -> int:
        """The blocks of the stand-in that the card holds at once, by the driver."""
        cuda, card = self.gpu.cuda, self.gpu.card
        each = cuda.occupancyMaxActiveBlocksPerMultiprocessor(self.function(kernels.SPIN), kernels.THREADS_PER_BLOCK, 0)
        return card.multiprocessors * max(1, int(each))

    def spin_of(self, kernel: program.Kernel) -> kernels.Busy:
        """Return the launch of the stand-in for a kernel with a duration."""
        duration_s, share = kernels.stand_in(kernel, self.gpu.card.resident_threads, self._spin_launch_s(1, 1))
        blocks = max(1, round(share * self.most_blocks))
        slices = kernels.slices_in(duration_s, fills_card=blocks == self.most_blocks)
        return self._busy(blocks, slices, (duration_s - self._spin_launch_s(blocks, slices)) / slices)

    def _busy(self, blocks: int, slices: int, slice_s: float) -> kernels.Busy:
        """Return the launch that keeps this many blocks of the card busy for some slices of time.

        A launch that fills the card does so by short blocks one after another: if others hold a part of the card, the
        blocks go on in the rest. A smaller launch has as many blocks as it fills, since more would take more of the
        card.
        """
        if blocks < self.most_blocks:
            return kernels.Busy(blocks, slices, slice_s)
        return kernels.Busy(blocks * slices, 1, slice_s)

    def _spin_launch_s(self, blocks: int, slices: int) -> float:
        """Return the seconds of a launch beyond the time that its blocks are given.

        It is measured for each number of blocks, because it is not proportional to them: on an H100 it is 2.6 us for
        one block, 2.8 us for 0.1 of the card, 3.4 us for 0.7 and 6 us for 0.9.
        """
        if (blocks, slices) not in self._launch_s:
            slice_s = max(SPIN_PROBE_S, slices * kernels.SHORTEST_AND_MOST[blocks == self.most_blocks][0]) / slices
            each_s = self._each_launch_s(self._busy(blocks, slices, slice_s))
            self._launch_s[blocks, slices] = max(0.0, each_s - slices * slice_s)
        return self._launch_s[blocks, slices]

    def _each_launch_s(self, busy: kernels.Busy) -> float:
        """Return the seconds of a launch of the stand-in, back to back in one stream.

        It is the slope between two chains, as for the kernels of a profile, so that the cost of a run drops out.
        """
        cuda, stream = self.gpu.cuda, self.gpu.streams(("non-blocking",))[1]
        start, stop = self.gpu.events(2, "timing")
        argument = kernels.Argument(1, busy.parameter(0), (), ())
        launch = self.launch(kernels.SPIN, busy.blocks, stream, argument)

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
        self.queue_order.lose()
        return each_s

    def close(self) -> None:
        """Give the memory back."""
        self.arena.clear()


def prepare(bench: Bench, schedules: Iterable[program.Schedule]) -> None:
    """Allocate the buffers of all these schedules. Raises InputError if there is not enough memory."""
    wanted = memory.union(map(memory.buffers_of, schedules))
    memory.check_fits(wanted, bench.arena.room(bench.gpu.free_bytes()), memory.free_host_bytes())
    bench.arena.grow(wanted)


Call = tuple[Callable[..., Any], tuple[Any, ...]]


class PreparedCalls(NamedTuple):
    """A prepared program: the calls that issue it, and the calls that wait for its end."""

    issue: list[Call]
    closing: list[Call]


class Compiler:
    """A translator of ops into calls. ``keep`` gets the objects to which the calls point."""

    def __init__(self, bench: Bench, schedule: program.Schedule, keep: list[object]) -> None:
        self._bench, self._cuda, self._keep = bench, bench.gpu.cuda, keep
        self._streams = bench.gpu.streams(schedule.streams)
        self._memory = {buffer.name: buffer.memory for buffer in schedule.buffers}
        self.events = bench.gpu.events(schedule.events, "captured" if schedule.launch == "graph" else "live")

    def calls(self, ops: Iterable[program.Op]) -> list[Call]:
        return [call for op in ops for call in self._op(op)]

    def _op(self, op: program.Op) -> list[Call]:
        cuda, streams, events = self._cuda, self._streams, self.events
        if op.thread or isinstance(op, program.WaitThread):
            raise InputError(f"thread = {op.thread}: a card replays the calls of one host thread; give 0")
        if isinstance(op, program.HostWork):
            return [(_work, (op.duration_s,))]
        if op.call_s is not None:
            raise InputError(f"call_s = {op.call_s}: on a card a call costs what it costs; leave it out")
        if isinstance(op, program.Copy):
            return self._copy(op)
        if isinstance(op, program.Kernel):
            return [(cuda.launchKernel, self._kernel(op))]
        if isinstance(op, program.RecordEvent):
            return [(cuda.eventRecord, (events[op.event], streams[op.stream]))]
        if isinstance(op, program.WaitEvent):
            return [(cuda.streamWaitEvent, (streams[op.stream], events[op.event]))]
        if op.stream is not None:
            return [(cuda.streamSynchronize, (streams[op.stream],))]
        if op.event is not None:
            return [(cuda.eventSynchronize, (events[op.event],))]
        return [(cuda.deviceSynchronize, ())]

    def _address(self, region: program.Region) -> int:
        return self._bench.arena.address(memory.Key(self._memory[region.buffer], region.buffer)) + region.offset

    def _side(self, copy: program.Copy, kind: program.MemoryKind, region: program.Region | None) -> int:
        return self._bench.arena.address(memory.scratch_of(copy, kind)) if region is None else self._address(region)

    def _copy(self, copy: program.Copy) -> list[Call]:
        cuda = self._cuda
        host, device = self._side(copy, "pinned", copy.host), self._side(copy, "device", copy.device)
        arguments: tuple[int, ...] = (device, host, copy.bytes, cuda.memcpyHostToDevice)
        if copy.direction == "d2h":
            arguments = (host, device, copy.bytes, cuda.memcpyDeviceToHost)
        if copy.blocking and copy.stream == program.LEGACY_STREAM:
            return [(cuda.memcpy, arguments)]
        stream = self._streams[copy.stream]
        wait: list[Call] = [(cuda.streamSynchronize, (stream,))] if copy.blocking else []
        return [(cuda.memcpyAsync, (*arguments, stream)), *wait]

    def _kernel(self, kernel: program.Kernel) -> tuple[int, ...]:
        spec, bench = kernels.find_kernel(kernel), self._bench
        elements, widths = kernels.elements_of(spec, kernel), kernels.widths_of(spec, kernel)
        blocks, parameter = -(-elements // kernels.THREADS_PER_BLOCK), kernel.parameter
        if spec is kernels.SPIN:
            busy = bench.spin_of(kernel)
            blocks, parameter = busy.blocks, busy.parameter(next(bench.launches))
        sides = (
            [(self._address(region), width) for region, width in zip(regions, own, strict=True)]
            for regions, own in zip((kernel.reads, kernel.writes), widths, strict=True)
        )
        argument = kernels.Argument(elements, parameter, *sides)
        self._keep.append(argument)
        return bench.launch(spec, blocks, self._streams[kernel.stream], argument)


def _work(duration_s: float) -> None:
    """Keep the thread busy. It does not sleep, because the system would wake it late."""
    until = time.perf_counter() + duration_s
    while time.perf_counter() < until:
        pass


class Sample(NamedTuple):
    """The seconds of one repeat: between the timing events, of the whole program, and of issuing it."""

    device_s: float
    wall_s: float
    issue_s: float


class LostGpuError(InputError):
    """The card's context is dead, perhaps because a kernel touched foreign memory: nothing more can be measured."""


@contextlib.contextmanager
def one_line_errors(gpu: Gpu, what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise errors of these ``kinds`` as InputError, or as LostGpuError if nothing more can run.

    CuPy's CUDARuntimeError and CUDADriverError are RuntimeErrors.
    """
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        try:
            gpu.cuda.deviceSynchronize()
        except Exception as lost:
            remedy = "start again, without it"
            raise LostGpuError(f"{what}: {reason}; the GPU's context is lost ({lost}); {remedy}") from error
        raise InputError(reason) from error


def refuse_races(schedule: program.Schedule, name: str) -> None:
    """Raise InputError if two ops of the schedule race: then its output, and so its time, means nothing."""
    races = [finding for finding in check(schedule) if finding.severity == "error"]
    if races:
        first, more = races[0], f" ({len(races) - 1} more races)" if len(races) > 1 else ""
        raise InputError(
            f"{name}: race: {first.what}; {first.remedy}{more}; mend it first: `streamsim check` shows all"
        )


class Replayer:
    """A schedule made ready on a card: ``verify()`` its output, ``run()`` it for a sample.

    Its buffers must be in ``bench.arena`` (see :func:`prepare`). If they move, make a new replayer. Raises InputError
    if the card cannot run the schedule, or if its ops race.
    """

    def __init__(self, schedule: program.Schedule, bench: Bench) -> None:
        self.schedule = closed(schedule)
        self._name = self.schedule.name or "the schedule"
        self._bench, self._cuda = bench, bench.gpu.cuda
        refuse_races(self.schedule, self._name)
        self._expected: dict[memory.Key, memory.Bytes] = {}
        self._timing = bench.gpu.events(2, "timing")
        self._keep: list[object] = []
        self._graphs: list[int] = []
        with self._named_errors():
            if self.schedule.launch == "graph" and self.schedule.used_streams:
                self._plain, self._timed = self._graph_calls()
            else:
                self._plain = self._live_calls(self.schedule)
                self._timed = self._live_calls(with_timing_events(self.schedule), self._timing)

    def _live_calls(self, schedule: program.Schedule, timing: Sequence[int] = ()) -> PreparedCalls:
        """Return the calls of a schedule. ``timing``: the addresses of the start and stop events that were added."""
        compiler = Compiler(self._bench, schedule, self._keep)
        compiler.events[self.schedule.events : self.schedule.events + len(timing)] = timing
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
        compiler = Compiler(self._bench, msgspec.structs.replace(forked, launch="graph"), self._keep)
        recorded: set[int] = set()
        work: list[Call] = []  # made before, because compiling and loading cannot be captured
        for op in forked.ops:
            if isinstance(op, program.RecordEvent):
                recorded.add(op.event)
            if not isinstance(op, program.Synchronize) and not (
                isinstance(op, program.WaitEvent) and op.event not in recorded
            ):
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
        try:
            with one_line_errors(self._bench.gpu, self._name, RuntimeError, MemoryError):
                yield
        except LostGpuError:
            raise
        except InputError as error:
            raise type(error)(f"{self._name}: {error}") from error

    def run(self) -> Sample:
        """Replay the program twice, without and with timing events."""
        with self._named_errors():
            issue_ns, wall_ns = self._replay_in_order(self._plain)
        return Sample(self.device_s(), wall_ns * kernels.NS, issue_ns * kernels.NS)

    def device_s(self) -> float:
        """Replay the program once between timing events. Return the seconds between them, 0 for one without work."""
        with self._named_errors():
            if not self._timed.issue:
                return 0.0
            self._replay_in_order(self._timed)
            return float(self._cuda.eventElapsedTime(*self._timing)) * 1e-3

    def run_beside(self, meters: Sequence[Callable[[], float]]) -> tuple[Sample, tuple[float, ...]]:
        """Return a sample, and the seconds that each meter reads: the mean of just before and just after it."""
        before_s, sample = [read() for read in meters], self.run()
        after_s = [read() for read in reversed(meters)]
        return sample, tuple((one + other) / 2 for one, other in zip(before_s, reversed(after_s), strict=True))

    def issue(self) -> float:
        """Replay once a program that does not disturb the hardware queues. Return the seconds that issuing took."""
        with self._named_errors():
            issue_ns, _ = _replay(self._plain)
        return issue_ns * kernels.NS

    def _replay_in_order(self, calls: PreparedCalls) -> tuple[int, int]:
        """Replay as :func:`_replay`, with the hardware queues as in a process of its own."""
        self._bench.queue_order.before(self.schedule)
        return _replay(calls)

    def verify(self, timed: bool = False) -> bool:
        """Replay the program on poisoned memory and check its output. Return False if it names no output.

        The output must be that of the ops done one at a time when it was verified first. ``timed``: the program with
        timing events. Raises WrongOutputError.
        """
        arena = self._bench.arena
        with self._named_errors():
            self._expected = self._expected or self._one_at_a_time()
            arena.reset(self.schedule)
            self._replay_in_order(self._timed if timed else self._plain)
            for key, expected in self._expected.items():
                memory.check_content(key.name, arena.read(key, len(expected)), expected)
        return bool(self._expected)

    def _one_at_a_time(self) -> dict[memory.Key, memory.Bytes]:
        """Return the outputs of the ops, each issued when the one before it is done."""
        arena, wanted = self._bench.arena, memory.outputs(self.schedule)
        if wanted:
            arena.reset(self.schedule)
            self._bench.queue_order.lose()
            for call, arguments in self._live_calls(msgspec.structs.replace(self.schedule, launch="live")).issue:
                call(*arguments)
                self._cuda.deviceSynchronize()
        return {key: arena.read(key, size) for key, size in wanted.items()}

    def close(self) -> None:
        """Destroy the graph, and forget the expected output."""
        self._expected = {}
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
