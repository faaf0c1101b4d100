"""The memory in which schedules are replayed, what it holds at first, and what it must hold in the end.

Buffers are known by name, kept from one schedule to the next, and only ever grow, because pinning 64 MiB takes tens of
milliseconds. The content of a host buffer depends on its name alone, so schedules of different sizes share it.

The reference output of a schedule is that of its ops, done one after another in NumPy, in issue order. A schedule
without races gives the same bytes however its ops overlap. So a measured time is accepted only if the card's output is
this output.
"""

from __future__ import annotations

import contextlib
import ctypes
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.program import Copy, Direction, Kernel, MemoryKind, Region, Schedule
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.kernels import (
    FLOAT_BYTES,
    PERIOD,
    SPIN,
    KernelSpec,
    compute_reference,
    elements_of,
    find_kernel,
    widths_of,
)

Bytes = NDArray[np.uint8]

# Two poisons: an anonymous kernel passes the device's on, and a copy that never ran leaves the host's.
HOST_POISON = 0xA5
DEVICE_POISON = 0xDB
SCRATCH_IN = "(scratch in)"
PAGE = 4096
SPARE_DEVICE_BYTES = 64 << 20  # for the context's own needs: modules, graphs, local memory


class Key(NamedTuple):
    """A buffer: pinned, pageable or device memory of this name."""

    memory: MemoryKind
    name: str


def scratch_of(copy: Copy, memory: MemoryKind) -> Key:
    """Return the buffer that a copy without a region touches: of its own for each direction and side."""
    name = SCRATCH_IN if copy.direction == "h2d" else "(scratch out)"
    return Key(memory, f"{name} on the card" if memory == "device" else name)


def buffers_of(schedule: Schedule) -> dict[Key, int]:
    """Return the bytes of every buffer that the replay of a schedule needs, with scratch for anonymous copies."""
    found = {Key(buffer.memory, buffer.name): buffer.bytes for buffer in schedule.buffers}
    for op in schedule.ops:
        if isinstance(op, Copy):
            sides: tuple[tuple[MemoryKind, Region | None], ...] = (("pinned", op.host), ("device", op.device))
            for memory, region in sides:
                if region is None:
                    key = scratch_of(op, memory)
                    found[key] = max(found.get(key, 0), op.bytes)
    return found


def union(needs: Iterable[dict[Key, int]]) -> dict[Key, int]:
    """Return the buffers in which several schedules can be replayed in turn."""
    found: dict[Key, int] = {}
    for need in needs:
        for key, size in need.items():
            found[key] = max(found.get(key, 0), size)
    return found


def check_fits(need: dict[Key, int], free_device: int, free_host: int) -> None:
    """Raise InputError if buffers of these sizes cannot be allocated. Nothing has been allocated yet."""
    device = sum(size for key, size in need.items() if key.memory == "device")
    host = sum(size for key, size in need.items() if key.memory != "device")
    for what, needed, free in (("device", device, free_device - SPARE_DEVICE_BYTES), ("host", host, free_host)):
        if needed > free:
            raise InputError(
                f"buffers: {_mib(needed)} of {what} memory are needed and {_mib(max(0, free))} are free;"
                " use fewer elements or a ring of buffers"
            )


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 20):,.0f} MiB"


def free_host_bytes() -> int:
    """Return the host memory that can be allocated; no limit if the system does not say."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("MemAvailable:")).split()[1]) * 1024
    return 1 << 62


@lru_cache(1024)
def _period(name: str) -> Bytes:
    floats = np.random.default_rng(zlib.crc32(name.encode())).random(PERIOD, np.float32)
    return floats.view(np.uint8)


def data(name: str, n_bytes: int) -> Bytes:
    """Return the content of a host buffer of this name: float32 in [0, 1) that repeat after ``PERIOD``."""
    return np.resize(_period(name), n_bytes)


class Block(NamedTuple):
    """A piece of memory in use."""

    address: int
    bytes: int


class Arena:
    """Named buffers that grow. Growing one moves it, so its address must be asked for again."""

    def __init__(self, gpu: Gpu) -> None:
        self._cuda = gpu.cuda
        self._blocks: dict[Key, Block] = {}
        self._pageable: dict[Key, Bytes] = {}
        self.written: set[str] = set()  # host buffers that some schedule copies to: they may not hold their data now

    def __getitem__(self, key: Key) -> Block:
        return self._blocks[key]

    def grow(self, need: dict[Key, int]) -> None:
        """Allocate these buffers unless they are large enough. New host buffers hold their data."""
        for key, size in need.items():
            block = self._blocks.get(key)
            if block is None or block.bytes < size:
                self._free(key)
                self._blocks[key] = Block(self._allocate(key, size), size)
                if key.memory != "device":
                    self.fill_host(key, size)

    def host(self, key: Key) -> Bytes:
        """Return the bytes of a host buffer."""
        address, n_bytes = self._blocks[key]
        return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(address))

    def fill_host(self, key: Key, n_bytes: int) -> None:
        """Write a host buffer's data into its first bytes."""
        self.host(key)[:n_bytes] = data(key.name, n_bytes)

    def read_device(self, name: str, n_bytes: int) -> Bytes:
        """Return a copy of the first bytes of a device buffer."""
        found = np.empty(n_bytes, np.uint8)
        self._cuda.memcpy(
            found.ctypes.data, self._blocks[Key("device", name)].address, n_bytes, self._cuda.memcpyDeviceToHost
        )
        return found

    def poison_device(self, name: str, n_bytes: int) -> None:
        """Fill the first bytes of a device buffer with poison, so that missing writes are noticed."""
        self._cuda.memset(self._blocks[Key("device", name)].address, DEVICE_POISON, n_bytes)

    def room(self, free_device: int) -> int:
        """Return the device bytes that can be used: the free ones, and those held here."""
        return free_device + sum(block.bytes for key, block in self._blocks.items() if key.memory == "device")

    def clear(self) -> None:
        """Free everything. What a dead context refuses to free dies with it."""
        for key in list(self._blocks):
            with contextlib.suppress(Exception):
                self._free(key)
        self._blocks.clear()

    def _allocate(self, key: Key, size: int) -> int:
        try:
            if key.memory == "device":
                return int(self._cuda.malloc(size))
            if key.memory == "pinned":
                return int(self._cuda.hostAlloc(size, self._cuda.hostAllocDefault))
            backing = np.empty(size + PAGE, np.uint8)
        except Exception as error:
            what = f"{_mib(size)} of {key.memory} memory"
            raise InputError(f"buffers: {key.name!r}: no {what} to be had ({error}); use fewer elements") from error
        self._pageable[key] = backing
        return -(-backing.ctypes.data // PAGE) * PAGE

    def _free(self, key: Key) -> None:
        block = self._blocks.pop(key, None)
        if block is None:
            return
        if key.memory == "device":
            self._cuda.free(block.address)
        elif key.memory == "pinned":
            self._cuda.freeHost(block.address)
        else:
            del self._pageable[key]


class WrongOutputError(InputError):
    """The card's output is not the reference: no time of this schedule counts."""


def has_reference(schedule: Schedule) -> bool:
    """Return whether every kernel of the schedule can be computed in NumPy."""
    return all(find_kernel(op).reference is not None for op in schedule.ops if isinstance(op, Kernel))


def host_buffers(schedule: Schedule, direction: Direction) -> set[str]:
    """Return the names of the host buffers that copies in this direction touch."""
    return {op.host.buffer for op in schedule.ops if isinstance(op, Copy) and op.host and op.direction == direction}


def outputs(schedule: Schedule) -> list[Key]:
    """Return the buffers whose content is checked.

    They are the named host buffers that are copied to; if there are none, the named device buffers that are written.
    """
    written = host_buffers(schedule, "d2h")
    if not written:
        for op in schedule.ops:
            if isinstance(op, Copy) and op.device is not None:
                written.add(op.device.buffer)
            elif isinstance(op, Kernel):
                written.update(region.buffer for region in op.writes)
    return [Key(buffer.memory, buffer.name) for buffer in schedule.buffers if buffer.name in written]


def initial(schedule: Schedule, key: Key, n_bytes: int) -> Bytes:
    """Return a buffer's content before a verified run."""
    if key.memory == "device":
        return np.full(n_bytes, DEVICE_POISON, np.uint8)
    if key.name in (*host_buffers(schedule, "h2d"), SCRATCH_IN):
        return data(key.name, n_bytes)
    return np.full(n_bytes, HOST_POISON, np.uint8)


@dataclass
class Content:
    """The bytes of a buffer or region, and how far each of its floats may be off: 0 if every byte must agree."""

    bytes: Bytes
    tolerance: NDArray[np.float32]

    @classmethod
    def of(cls, content: Bytes, tolerance: float = 0.0) -> Content:
        """Return bytes that all have this tolerance."""
        return cls(content, np.broadcast_to(np.float32(tolerance), -(-len(content) // FLOAT_BYTES)))

    def part(self, offset: int, n_bytes: int) -> Content:
        """Return a view of a region."""
        end = offset + n_bytes
        return Content(self.bytes[offset:end], self.tolerance[offset // FLOAT_BYTES : -(-end // FLOAT_BYTES)])

    def check(self, name: str, got: Bytes) -> None:
        """Raise WrongOutputError naming the first wrong element of ``got``, a float if it has a tolerance."""
        if np.array_equal(got, self.bytes):
            return
        wrong, floats = got != self.bytes, len(got) // FLOAT_BYTES
        is_, should = (array[: floats * FLOAT_BYTES].view(np.float32) for array in (got, self.bytes))
        off = self.tolerance[:floats]
        with np.errstate(invalid="ignore", over="ignore"):
            near = (off > 0) & (np.abs(is_ - should) <= off)
        wrong[: floats * FLOAT_BYTES] &= ~np.repeat(near, FLOAT_BYTES)
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        n, count = first // FLOAT_BYTES, int(wrong.sum())
        what = f"byte {first} of {name!r} is 0x{got[first]:02x}, expected 0x{self.bytes[first]:02x}"
        what += f" ({count} of {len(got)} bytes differ)"
        if n < floats and off[n]:
            count = int(wrong[: floats * FLOAT_BYTES].reshape(-1, FLOAT_BYTES).any(axis=1).sum())
            what = f"float {n} of {name!r} is {is_[n]:.9g}, expected {should[n]:.9g} within {off[n]:.1e}"
            what += f" ({count} of {floats} differ)"
        raise WrongOutputError(f"wrong output: {what}; its time does not count")


def run_reference(schedule: Schedule) -> dict[Key, Content]:
    """Execute the schedule in NumPy and return its outputs. Every kernel must have a reference."""
    memory = {
        key.name: Content(initial(schedule, key, size), np.zeros(-(-size // FLOAT_BYTES), np.float32))
        for key, size in buffers_of(schedule).items()
    }

    def at(region: Region) -> Content:
        return memory[region.buffer].part(region.offset, region.bytes)

    for op in schedule.ops:
        if isinstance(op, Copy):
            host = at(op.host or Region(scratch_of(op, "pinned").name, 0, op.bytes))
            device = at(op.device or Region(scratch_of(op, "device").name, 0, op.bytes))
            _write(*((device, host) if op.direction == "h2d" else (host, device)))
        elif isinstance(op, Kernel):
            for region, result in zip(op.writes, _computed(op, [at(region) for region in op.reads]), strict=False):
                _write(at(region), result)
    return {key: memory[key.name] for key in outputs(schedule)}


def _write(target: Content, source: Content) -> None:
    target.bytes[:] = source.bytes
    size = len(source.tolerance)
    target.tolerance[:] = source.tolerance if size == len(target.tolerance) else source.tolerance.max(initial=0.0)


def _computed(kernel: Kernel, reads: list[Content]) -> list[Content]:
    """Return the kernel's outputs. If its inputs repeat, only one period is computed."""
    spec = find_kernel(kernel)
    elements, (in_widths, out_widths) = elements_of(spec, kernel), widths_of(spec, kernel)
    # A sum of all floats that an element reads may be off by all their tolerances. The stand-in passes them on.
    summed = (1 if spec is SPIN else max(1, width // FLOAT_BYTES) for width in in_widths)
    inherited = sum(n * float(content.tolerance.max(initial=0.0)) for n, content in zip(summed, reads, strict=True))
    tolerance = spec.tolerance(kernel.parameter) + inherited
    inputs = [content.bytes.reshape(elements, width) for content, width in zip(reads, in_widths, strict=True)]
    count = _repeats_after(spec, inputs, elements)
    once = compute_reference(spec, [rows[:count] for rows in inputs], out_widths, count, kernel.parameter)
    sizes = (elements * width for width in out_widths)
    return [Content.of(np.resize(result, size), tolerance) for result, size in zip(once, sizes, strict=False)]


def _repeats_after(spec: KernelSpec, inputs: list[Bytes], elements: int) -> int:
    """Return after how many elements the inputs repeat: those of all elements that are copied from the host do."""
    periods = (PERIOD, FLOAT_BYTES * PERIOD) if spec.elementwise and inputs else ()
    for period in (period for period in periods if period < elements):
        if all(np.array_equal(rows[period:], rows[:-period]) for rows in inputs):
            return period
    return elements
