"""The launch of a schedule's kernel: elements, widths, blocks and argument, or a stand-in for its time."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from streamsim.device import Device, load_device
from streamsim.errors import InputError
from streamsim.program import Kernel
from streamsim_validate.gpu.cuda_source import LAUNCHES, MOST_ARRAYS, NS_BITS, SLICES_BITS
from streamsim_validate.gpu.kernels import FLOAT_BYTES, KernelSpec

THREADS_PER_BLOCK = 256
NS = 1e-9
SHORTEST_WAVE_S, MOST_WAVES = 12.5e-6, 16  # of blocks one after another, each of which the card has to start
SHORTEST_SLICE_S, MOST_SLICES = 3e-6, 64  # that a block takes while it is there


def elements_of(spec: KernelSpec, kernel: Kernel) -> int:
    """Return the elements of a launch: the kernel's own number, or the floats of the largest region it touches.

    It is 1 if each region is taken whole.
    """
    if spec.threads == "card":
        return 1
    largest = max((region.bytes for region in (*kernel.reads, *kernel.writes)), default=0)
    return kernel.elements or max(1, largest // FLOAT_BYTES)


def widths_of(spec: KernelSpec, kernel: Kernel) -> tuple[list[int], list[int]]:
    """Return the bytes per element of each region that is read and written.

    Raises InputError if the regions do not divide into the kernel's elements or are too many.
    """
    elements = elements_of(spec, kernel)
    for field, regions in (("reads", kernel.reads), ("writes", kernel.writes)):
        if len(regions) > MOST_ARRAYS:
            raise InputError(f"kernel {kernel.name!r}: {field} has {len(regions)} regions, more than {MOST_ARRAYS}")
        for region in regions:
            if region.bytes % (elements * spec.unit_bytes) or region.offset % spec.unit_bytes:
                raise InputError(
                    f"kernel {kernel.name!r}: {field} {region.bytes} bytes at {region.offset} of {region.buffer!r},"
                    f" expected a multiple of {spec.unit_bytes} bytes for each of {elements} elements"
                )
    return [r.bytes // elements for r in kernel.reads], [r.bytes // elements for r in kernel.writes]


def blocks_of(elements: int) -> int:
    """Return the number of blocks of ``THREADS_PER_BLOCK`` threads with one thread for each element."""
    return -(-elements // THREADS_PER_BLOCK)


class Arrays(ctypes.Structure):
    """The kernels' one argument, laid out as in the CUDA source."""

    _fields_ = (
        ("elements", ctypes.c_longlong),
        ("parameter", ctypes.c_longlong),
        ("inputs", ctypes.c_longlong),
        ("outputs", ctypes.c_longlong),
        ("in_", ctypes.c_void_p * MOST_ARRAYS),
        ("in_width", ctypes.c_longlong * MOST_ARRAYS),
        ("out", ctypes.c_void_p * MOST_ARRAYS),
        ("out_width", ctypes.c_longlong * MOST_ARRAYS),
    )


class Argument:
    """An ``Arrays`` and the pointer to it that a launch takes. Keep it for as long as the kernel is launched."""

    def __init__(
        self, elements: int, parameter: int, reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]
    ) -> None:
        """``reads`` and ``writes`` are (address, bytes per element)."""
        self.arrays = Arrays(elements, parameter, len(reads), len(writes))
        for k, (address, width) in enumerate(reads):
            self.arrays.in_[k], self.arrays.in_width[k] = address, width
        for k, (address, width) in enumerate(writes):
            self.arrays.out[k], self.arrays.out_width[k] = address, width
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.arrays))
        self.address = ctypes.addressof(self._pointers)


class Busy(NamedTuple):
    """The orders to a launch of the stand-in: ``blocks``, and the ``slices`` of ``slice_s`` seconds that each takes.

    Several slices belong to all blocks together: if some blocks find no room, the others do the work. Short slices lose
    less time at the end, when some blocks still have a slice and others have none.
    """

    blocks: int
    slices: int
    slice_s: float

    def parameter(self, launch: int) -> int:
        """Return the parameter of the launch of that number, as the CUDA source reads it."""
        slice_ns = round(max(0.0, self.slice_s) / NS)
        return slice_ns | self.slices << NS_BITS | launch % LAUNCHES << (NS_BITS + SLICES_BITS)


def slices_in(duration_s: float, fills_card: bool) -> int:
    """Return the number of slices, or waves, of the stand-in: a power of two, so that few kinds are probed."""
    most = MOST_WAVES if fills_card else MOST_SLICES
    most = max(1, min(most, int(duration_s / shortest_slice_s(fills_card))))
    return 1 << (most.bit_length() - 1)


def shortest_slice_s(fills_card: bool) -> float:
    """Return the shortest time of a slice or wave."""
    return SHORTEST_WAVE_S if fills_card else SHORTEST_SLICE_S


def stand_in(kernel: Kernel, card_threads: int, launch_s: float) -> tuple[float, float]:
    """Return (seconds, share of the card held meanwhile) of the launch that stands for a kernel with a duration.

    It is the prediction on a card of ``card_threads`` threads on which a launch takes at least ``launch_s``: the rule
    for parts of a launch has one home.
    """
    card = _bare_card(card_threads, launch_s)
    alone_s, share = card.kernel_time(kernel)
    return alone_s, min(1.0, share * alone_s / (alone_s - card.kernel_drain_s(kernel)))


@cache
def _bare_card(threads: int, launch_s: float) -> Device:
    """Return a card with these two numbers and nothing else."""
    ideal = load_device("ideal")
    compute = msgspec.structs.replace(ideal.compute, resident_threads=threads, floor_s=launch_s)
    return msgspec.structs.replace(ideal, compute=compute)
