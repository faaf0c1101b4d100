"""The resources that the replayers of one card share, among them the hardware queues, as in a new process.

Streams own hardware queues. If there are more streams than queues, streams take queues from each other. So the queue of
a stream depends on all earlier work of the process. This decides in which order a copy engine comes to a program's
streams, and which streams share a queue. On an H200 with 8 queues, 8 chunks of 4 MiB handed on by events over 8 streams
take 0.87 ms in a process of their own, and up to 1.22 ms behind programs over more streams.
"""

import contextlib
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import count

from streamsim.errors import InputError
from streamsim.program import LEGACY_STREAM, Kernel, Schedule
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.cuda_source import BUILT_IN_SOURCE, PRELUDE
from streamsim_validate.gpu.kernels import (
    SHORTEST_AND_MOST,
    SPIN,
    THREADS_PER_BLOCK,
    Argument,
    Busy,
    KernelSpec,
    slices_in,
    stand_in,
)
from streamsim_validate.gpu.memory import Arena, buffers_of, check_fits, free_host_bytes, union

COPY_BYTES = 64 << 10
GATE_BYTES_A_QUEUE = 1 << 20  # copied while a copy and an event are issued to each queue


class QueueOrder:
    """A keeper of the order of a card's queues.

    ``queues``: their number in front of every engine; with fewer than two there is nothing to do. ``spin``: returns the
    address of the compiled kernel :data:`streamsim_validate.gpu.kernels.SPIN`.
    """

    def __init__(self, gpu: Gpu, queues: int, spin: Callable[[], int]) -> None:
        self._gpu = gpu
        self._cuda = gpu.cuda
        self._queues = queues
        self._spin = spin
        self._in_order = False
        self._holders: list[int] = []  # streams that take every queue for a moment
        self._events: list[int] = []
        self._host = self._device = 0  # addresses
        self._argument = Argument(1, 0, (), ())  # at once

    def before(self, schedule: Schedule) -> None:
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

    def close(self) -> None:
        """Free everything. What a dead context refuses to destroy dies with it."""
        with contextlib.suppress(Exception):
            for stream in self._holders:
                self._cuda.streamDestroy(stream)
            for event in self._events:
                self._cuda.eventDestroy(event)
            if self._device:
                self._cuda.free(self._device)
                self._cuda.freeHost(self._host)
        self._holders, self._events, self._host, self._device = [], [], 0, 0

    def _disturbs(self, schedule: Schedule) -> bool:
        """Return whether it uses more streams than own a queue each, or lets the driver choose."""
        return (
            schedule.launch == "graph"
            or len(schedule.streams) > self._queues
            or any(kind != "non-blocking" for kind in schedule.streams)
            or LEGACY_STREAM in schedule.used_streams
            or bool(schedule.pageable_names)
        )

    def _restore(self) -> None:
        """Give stream i of all schedules the queue number i of each engine, used last in this order.

        A stream without a queue takes the least recently used one. So streams of its own, the holders, take all queues.
        The order in which a copy engine serves them shows which holder has which queue. The holders use their queues in
        that order. Then the schedules' streams take them one after another. Kernels start in the order in which they
        become ready, whatever their queues' numbers.
        """
        if not self._holders:
            self._make()
        _, *streams = self._gpu.streams(["non-blocking"] * self._queues)
        for use in (self._copy_in, self._copy_out, self._launch):
            self._take(use, self._holders)
            self._take(use, self._holders if use == self._launch else self._served(use))
            self._take(use, streams)

    def _make(self) -> None:
        cuda, count = self._cuda, self._queues
        self._holders = [cuda.streamCreateWithFlags(cuda.streamNonBlocking) for _ in range(count)]
        self._events = [cuda.eventCreateWithFlags(cuda.eventDefault) for _ in range(count)]
        self._device = cuda.malloc(count * GATE_BYTES_A_QUEUE)
        self._host = cuda.hostAlloc(count * GATE_BYTES_A_QUEUE, cuda.hostAllocDefault)

    def _take(self, use: Callable[[int], None], streams: Iterable[int]) -> None:
        for stream in streams:
            use(stream)
        self._cuda.deviceSynchronize()

    def _served(self, copy: Callable[..., None]) -> Sequence[int]:
        """Return the holders in the order in which a copy engine serves their queues, from the first holder's on."""
        cuda, events = self._cuda, self._events
        copy(self._holders[0], len(self._holders) * GATE_BYTES_A_QUEUE)
        for holder, event in zip(self._holders, events, strict=True):
            copy(holder)
            cuda.eventRecord(event, holder)
        cuda.deviceSynchronize()
        late = [cuda.eventElapsedTime(events[0], event) for event in events]
        return [holder for _, holder in sorted(zip(late, self._holders, strict=True))]

    def _copy_in(self, stream: int, n_bytes: int = COPY_BYTES) -> None:
        self._cuda.memcpyAsync(self._device, self._host, n_bytes, self._cuda.memcpyHostToDevice, stream)

    def _copy_out(self, stream: int, n_bytes: int = COPY_BYTES) -> None:
        self._cuda.memcpyAsync(self._host, self._device, n_bytes, self._cuda.memcpyDeviceToHost, stream)

    def _launch(self, stream: int) -> None:
        address = self._argument.address
        self._cuda.launchKernel(self._spin(), 1, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, address, 0)


SPIN_PROBE_S, SPIN_PROBE_CHAINS, SPIN_PROBE_RUNS = 50e-6, (4, 20), 7  # longer than it takes to issue a launch


class Bench:
    """The resources of a card's replayers: memory, compiled kernels, the stand-in's launch times.

    ``allow_races``: also replay schedules whose output depends on luck. ``in_order``: every replay finds the hardware
    queues as in a process of its own, if their number is known. ``launches``: of the stand-in, by number.
    """

    def __init__(self, gpu: Gpu, allow_races: bool = False, in_order: bool = True) -> None:
        self.gpu, self.allow_races, self.arena, self.launches = gpu, allow_races, Arena(gpu), count()
        self.queue_order = QueueOrder(gpu, gpu.queues if in_order else 0, lambda: self.function(SPIN))
        self._functions: dict[KernelSpec, int] = {}
        self._launch_s: dict[tuple[int, int], float] = {}

    def function(self, spec: KernelSpec) -> int:
        """Return the address of a kernel's compiled function. Raises InputError if it does not compile."""
        if spec not in self._functions:
            source = spec.source if spec.source is BUILT_IN_SOURCE else f"{PRELUDE}#line 1\n{spec.source}"
            try:
                self._functions[spec] = self.gpu.cuda.compile_module(source, spec.entry or spec.name)
            except InputError as error:
                raise InputError(f"kernel {spec.name!r}: {error}") from error
        return self._functions[spec]

    @cached_property
    def most_blocks(self) -> int:
        """The blocks of the stand-in that the card holds at once, by the driver."""
        cuda, card = self.gpu.cuda, self.gpu.card
        each = cuda.occupancyMaxActiveBlocksPerMultiprocessor(self.function(SPIN), THREADS_PER_BLOCK, 0)
        return card.multiprocessors * max(1, int(each))

    def spin_of(self, kernel: Kernel) -> Busy:
        """Return the launch of the stand-in for a kernel with a duration."""
        duration_s, share = stand_in(kernel, self.gpu.threads, self._spin_launch_s(1, 1))
        blocks = max(1, round(share * self.most_blocks))
        slices = slices_in(duration_s, fills_card=blocks == self.most_blocks)
        return self._busy(blocks, slices, (duration_s - self._spin_launch_s(blocks, slices)) / slices)

    def _busy(self, blocks: int, slices: int, slice_s: float) -> Busy:
        """Return the launch that keeps this many blocks of the card busy for some slices of time.

        A launch that fills the card does so by short blocks one after another: if others hold a part of the card, the
        blocks go on in the rest. A smaller launch has as many blocks as it fills, since more would take more of the
        card.
        """
        if blocks < self.most_blocks:
            return Busy(blocks, slices, slice_s)
        return Busy(blocks * slices, 1, slice_s)

    def _spin_launch_s(self, blocks: int, slices: int) -> float:
        """Return the seconds of a launch beyond the time that its blocks are given.

        It is measured for each number of blocks, because it is not proportional to them: on an H100 it is 2.6 us for
        one block, 2.8 us for 0.1 of the card, 3.4 us for 0.7 and 6 us for 0.9.
        """
        if (blocks, slices) not in self._launch_s:
            slice_s = max(SPIN_PROBE_S, slices * SHORTEST_AND_MOST[blocks == self.most_blocks][0]) / slices
            launch = self._busy(blocks, slices, slice_s)
            self._launch_s[blocks, slices] = max(0.0, each_launch_s(self, launch) - slices * slice_s)
        return self._launch_s[blocks, slices]

    def close(self) -> None:
        """Give the memory back."""
        self.arena.clear()
        self.queue_order.close()


def each_launch_s(bench: Bench, busy: Busy) -> float:
    """Return the seconds of a launch of the stand-in, back to back in one stream.

    It is the slope between two chains, as for the kernels of a profile, so that the cost of a run drops out.
    """
    cuda = bench.gpu.cuda
    stream = bench.gpu.streams(("non-blocking",))[1]
    start, stop = bench.gpu.timing_events()
    argument = Argument(1, busy.parameter(0), (), ())
    launch = (bench.function(SPIN), busy.blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream, argument.address, 0)

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
    return each_s


def prepare(bench: Bench, schedules: Iterable[Schedule]) -> None:
    """Allocate the buffers of all these schedules. Raises InputError if there is not enough memory."""
    needs = [buffers_of(schedule) for schedule in schedules]
    wanted = union(needs)
    check_fits(wanted, bench.arena.room(bench.gpu.free_bytes()), free_host_bytes())
    bench.arena.grow(wanted)
