"""The resources that the replayers of one card share."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from streamsim.errors import InputError
from streamsim.program import Kernel, Schedule
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.cuda_source import BUILT_IN_SOURCE, PRELUDE
from streamsim_validate.gpu.kernels import SPIN, KernelSpec
from streamsim_validate.gpu.launches import THREADS_PER_BLOCK, Argument, Busy, shortest_slice_s, slices_in, stand_in
from streamsim_validate.gpu.memory import Arena, buffers_of, check_fits, free_host_bytes, union
from streamsim_validate.gpu.queue_order import QueueOrder
from streamsim_validate.gpu.reference import Memo

SPIN_PROBE_S, SPIN_PROBE_CHAINS, SPIN_PROBE_RUNS = 50e-6, (4, 20), 7  # longer than it takes to issue a launch


@dataclass
class Bench:
    """The resources of a card's replayers: memory, compiled kernels, references, the stand-in's launch times.

    ``allow_races``: also replay schedules whose output depends on luck. ``in_order``: every replay finds the hardware
    queues as in a process of its own, if their number is known.
    """

    gpu: Gpu
    allow_races: bool = False
    in_order: bool = True
    arena: Arena = field(init=False)
    queue_order: QueueOrder = field(init=False)
    _functions: dict[KernelSpec, int] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)
    launches: Iterator[int] = field(default_factory=count)  # of the stand-in, by number
    _launch_s: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arena = Arena(self.gpu)
        self.queue_order = QueueOrder(self.gpu, self.gpu.queues if self.in_order else 0, lambda: self.function(SPIN))

    def function(self, spec: KernelSpec) -> int:
        """Return the address of a kernel's compiled function. Raises InputError if it does not compile."""
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
            slice_s = max(SPIN_PROBE_S, slices * shortest_slice_s(blocks == self.most_blocks)) / slices
            launch = self._busy(blocks, slices, slice_s)
            self._launch_s[blocks, slices] = max(0.0, each_launch_s(self, launch) - slices * slice_s)
        return self._launch_s[blocks, slices]

    def close(self) -> None:
        """Give the memory back."""
        self.arena.clear()
        self.queue_order.close()


def source_of(spec: KernelSpec) -> str:
    """Return the CUDA source to compile. A user's source gets the declaration of ``Arrays`` in front."""
    assert spec.source is not None
    return spec.source if spec.source is BUILT_IN_SOURCE else f"{PRELUDE}#line 1\n{spec.source}"


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
