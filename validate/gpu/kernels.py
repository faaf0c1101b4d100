"""The kernels that a schedule can name: their CUDA source, and the one argument that each takes.

The argument is the struct ``Arrays`` of :mod:`streamsim_validate.gpu.cuda_source`: the elements, the parameter, and the
address and the bytes per element of each region that is read and written. So one kernel serves one input or several,
outputs smaller than inputs, and work in place. Thread i works on element i.

A stand-in (:data:`SPIN`) replays a kernel that is given by its time and has no name here. It holds the share of the
card that the kernel fills until the time is over. Each region is one element for it, of any number of bytes.
"""

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from streamsim.device import Device, load_device
from streamsim.errors import InputError
from streamsim.files import read_bytes
from streamsim.program import Kernel
from streamsim_validate.gpu.cuda_source import BUILT_IN_SOURCE, LAUNCHES, MOST_ARRAYS, NS_BITS, SLICES_BITS

FLOAT_BYTES = 4
LARGEST_SOURCE_BYTES = 1 << 20


class KernelSpec(msgspec.Struct, frozen=True):
    """A kernel that schedules can name.

    - ``source``: CUDA source with ``extern "C" __global__ void entry(const Arrays a)``; ``Arrays`` is declared for it.
      ``entry``: "" for the kernel's name.
    - ``unit_bytes``: elements must be a multiple of it.
    """

    name: str
    source: str
    entry: str = ""
    unit_bytes: int = 1


def _built_in(name: str, unit_bytes: int = 1) -> KernelSpec:
    return KernelSpec(name, BUILT_IN_SOURCE, f"streamsim_{name}", unit_bytes=unit_bytes)


_ENTRY = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
SPIN = _built_in("spin")
_REGISTRY: dict[str, KernelSpec] = {
    "sincos": _built_in("sincos", FLOAT_BYTES),
    "vector_add": _built_in("vector_add", FLOAT_BYTES),
    "copy": _built_in("copy"),
    "sleep": _built_in("sleep"),
}


def register(spec: KernelSpec) -> None:
    """Let schedules name this kernel. It replaces a kernel of the same name."""
    _REGISTRY[spec.name] = spec


def read_source(path: str) -> bytes:
    """Return a file of kernels. Raises InputError if it cannot be read or is larger than any source."""
    return read_bytes(path, LARGEST_SOURCE_BYTES)


def load_kernels(path: str) -> list[str]:
    """Register the kernels of a file and return their names.

    Each ``extern "C" __global__ void NAME(const Arrays a)`` becomes the kernel NAME. Raises InputError.
    """
    try:
        source = read_source(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; give CUDA source") from None
    found = sorted(_ENTRY.findall(source))
    for name in found:
        register(KernelSpec(name, source))
    if not found:
        raise InputError(f'{path}: has no kernel: no extern "C" __global__ void NAME(...) in CUDA source')
    return found


def find_kernel(kernel: Kernel) -> KernelSpec:
    """Return what to launch for a kernel of a schedule.

    A name that is not registered stands for a kernel that takes ``duration_s``: see :data:`SPIN` and :func:`stand_in`.
    Raises InputError if such a kernel has no duration.
    """
    if kernel.name not in _REGISTRY and kernel.duration_s is None:
        raise InputError(
            f"kernel {kernel.name!r}: neither a known kernel ({', '.join(sorted(_REGISTRY))}) nor given a duration_s;"
            " register it, or give it a duration_s"
        )
    return _REGISTRY.get(kernel.name, SPIN)


THREADS_PER_BLOCK = 256
NS = 1e-9
# By whether the card is filled: of slices that a block takes while it is there, and of waves of blocks one after
# another, each of which the card has to start, the shortest time and the largest number.
SHORTEST_AND_MOST = {False: (3e-6, 64), True: (12.5e-6, 16)}


def elements_of(spec: KernelSpec, kernel: Kernel) -> int:
    """Return the elements of a launch: the kernel's own number, or the floats of the largest region it touches.

    It is 1 if each region is taken whole.
    """
    if spec is SPIN:
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
    shortest_s, most = SHORTEST_AND_MOST[fills_card]
    return 1 << (max(1, min(most, int(duration_s / shortest_s))).bit_length() - 1)


def stand_in(kernel: Kernel, card_threads: int, launch_s: float) -> tuple[float, float]:
    """Return (seconds, share of the card held meanwhile) of the launch that stands for a kernel with a duration.

    It is the prediction on a card of ``card_threads`` threads on which a launch takes at least ``launch_s``: the rule
    for parts of a launch has one home.
    """
    card = _bare_card(card_threads, launch_s)
    alone_s, share, drain_s, *_ = card.occupancy(kernel)
    return alone_s, min(1.0, share * alone_s / (alone_s - drain_s))


@cache
def _bare_card(threads: int, launch_s: float) -> Device:
    """Return a card with these two numbers and nothing else."""
    ideal = load_device("ideal")
    compute = msgspec.structs.replace(ideal.compute, resident_threads=threads, floor_s=launch_s)
    return msgspec.structs.replace(ideal, compute=compute)
