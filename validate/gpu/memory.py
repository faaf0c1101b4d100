"""The memory in which schedules are replayed, and its content.

Buffers are known by name, kept from one schedule to the next, and only ever grow, because pinning 64 MiB takes tens of
milliseconds. The content of a host buffer depends on its name alone, so schedules of different sizes share it.

Content is described by stretches of repeating patterns instead of held. The host's data repeat, poison repeats, and so
do the outputs of kernels that work element by element. So the content of any buffer of a schedule is known without its
bytes, whatever its size. Copies move descriptions, and the card's output is compared with the pattern row by row.
"""

from __future__ import annotations

import contextlib
import ctypes
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.program import Copy, MemoryKind, Schedule
from streamsim_validate.gpu.card import Gpu
from streamsim_validate.gpu.kernels import PERIOD

Bytes = NDArray[np.uint8]

ROW_BYTES = 1 << 16  # a row that is compared or filled in one go has at least so many


@dataclass(eq=False)
class Pattern:
    """Bytes that repeat. Two patterns are equal only if they are the same object.

    ``tolerance``: how far the card's float32 may be from these; 0 if every byte must agree. ``accepted``: a row of the
    card's output that was within the tolerance. A row that equals it byte for byte is accepted at once, because bytes
    compare much faster.
    """

    values: Bytes
    tolerance: float = 0.0
    accepted: Bytes | None = None

    @cached_property
    def row(self) -> Bytes:
        """The values, repeated until they are worth a call."""
        times = -(-ROW_BYTES // len(self.values))
        return np.tile(self.values, times) if times > 1 else self.values

    def takes(self, got: Bytes, first: int) -> bool:
        """Return whether ``got`` may stand from byte ``first`` of the row on."""
        want = self.row[first : first + len(got)]
        if _same(got, want):
            return True
        if self.accepted is not None and _same(got, self.accepted[first : first + len(got)]):
            return True
        if not self.tolerance or self.far(got, want, first).any():
            return False
        if len(got) == len(self.row):
            self.accepted = got.copy()
        return True

    def far(self, got: Bytes, want: Bytes, first: int) -> NDArray[np.bool_]:
        """Return a mask of the bytes of ``got`` that are too far from ``want``, from byte ``first`` of the row on.

        All four bytes of a float that is too far are marked. The bytes of a float that is cut off must be equal.
        """
        wrong: NDArray[np.bool_] = got != want
        if self.tolerance:
            lead = -first % 4
            floats = slice(lead, lead + (len(got) - lead) // 4 * 4)
            is_far = _far_floats(got[floats].view(np.float32), want[floats].view(np.float32), self.tolerance)
            wrong[floats] = np.repeat(is_far, 4)
        return wrong


class Stretch(NamedTuple):
    """``bytes`` bytes of a pattern, from its byte ``phase`` on."""

    pattern: Pattern
    phase: int
    bytes: int

    def part(self, offset: int, n_bytes: int) -> Stretch:
        """Return ``n_bytes`` of its bytes, from ``offset`` on."""
        return Stretch(self.pattern, (self.phase + offset) % len(self.pattern.values), n_bytes)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield (begin, end, first byte in the pattern's row) of the pieces of it that lie within one row."""
        length = len(self.pattern.row)
        begin, first = 0, self.phase
        while begin < self.bytes:
            end = min(self.bytes, begin + length - first)
            yield begin, end, first
            begin, first = end, 0

    def fill(self, target: Bytes) -> None:
        """Write the bytes to an array of the same size."""
        row = self.pattern.row
        for begin, end, first in self.rows():
            target[begin:end] = row[first : first + end - begin]

    def far(self, got: Bytes) -> NDArray[np.bool_]:
        """Return a mask of the bytes of an array of the same size that are too far from it."""
        return self.pattern.far(got, to_bytes([self]), self.phase)

    def is_in(self, got: Bytes) -> bool:
        """Return whether an array of the same size holds it, within the pattern's tolerance."""
        return all(self.pattern.takes(got[begin:end], first) for begin, end, first in self.rows())


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same bytes in the fewest stretches."""
    found: list[Stretch] = []
    for stretch in stretches:
        last = found[-1] if found else None
        if last and last.pattern is stretch.pattern and last.part(last.bytes, 0).phase == stretch.phase:
            found[-1] = last._replace(bytes=last.bytes + stretch.bytes)
        else:
            found.append(stretch)
    return found


def first_of(stretches: Iterable[Stretch], n_bytes: int) -> Iterator[Stretch]:
    """Yield the first bytes of the stretches."""
    for stretch in stretches:
        if n_bytes:
            yield stretch.part(0, min(n_bytes, stretch.bytes))
            n_bytes -= min(n_bytes, stretch.bytes)


def to_bytes(stretches: Iterable[Stretch]) -> Bytes:
    """Return the bytes themselves."""
    stretches = list(stretches)
    found = np.empty(sum(stretch.bytes for stretch in stretches), np.uint8)
    begin = 0
    for stretch in stretches:
        stretch.fill(found[begin : begin + stretch.bytes])
        begin += stretch.bytes
    return found


class Content:
    """The content of a buffer of ``n_bytes``: at first one pattern from its beginning."""

    def __init__(self, n_bytes: int, pattern: Pattern) -> None:
        self._starts = [0]
        self._stretches = [Stretch(pattern, 0, n_bytes)]

    def read(self, offset: int, n_bytes: int) -> list[Stretch]:
        """Return the fewest stretches of a region."""
        i, j = self._within(offset, offset + n_bytes)
        found = []
        for start, stretch in zip(self._starts[i:j], self._stretches[i:j], strict=True):
            begin, end = max(offset, start), min(offset + n_bytes, start + stretch.bytes)
            found.append(stretch.part(begin - start, end - begin))
        return joined(found)

    def write(self, offset: int, stretches: Iterable[Stretch]) -> None:
        """Put the stretches there, from byte ``offset`` on."""
        new = list(stretches)
        end = offset + sum(stretch.bytes for stretch in new)
        i, j = self._within(offset, end)
        first, last = self._starts[i], self._starts[j - 1] + self._stretches[j - 1].bytes
        pieces = [*self.read(first, offset - first), *new, *self.read(end, last - end)]
        starts = first + np.cumsum([0, *(stretch.bytes for stretch in pieces[:-1])])
        self._starts[i:j], self._stretches[i:j] = starts.tolist(), pieces

    def _within(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the last + 1 of the stretches that have bytes there."""
        return bisect_right(self._starts, begin) - 1, bisect_left(self._starts, end)


def _same(a: Bytes, b: Bytes) -> bool:
    words = len(a) // 8 * 8  # compared eight bytes at a time
    same = np.array_equal(a[:words].view(np.uint64), b[:words].view(np.uint64))
    return same and np.array_equal(a[words:], b[words:])


def _far_floats(got: NDArray[np.float32], want: NDArray[np.float32], tolerance: float) -> NDArray[np.bool_]:
    """Return a mask of the floats that are neither within the tolerance nor the same bits."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(got - want) <= tolerance
    far: NDArray[np.bool_] = ~(near | (got.view(np.uint32) == want.view(np.uint32)))
    return far


# Two poisons: an anonymous kernel passes the device's on, and a copy that never ran leaves the host's.
HOST_POISON = 0xA5
DEVICE_POISON = 0xDB
PAGE = 4096
SPARE_DEVICE_BYTES = 64 << 20  # for the context's own needs: modules, graphs, local memory
# What a copy without a region touches: memory of its own for each direction and side.
SCRATCH_HOST = {"h2d": "(scratch in)", "d2h": "(scratch out)"}
SCRATCH_DEVICE = {"h2d": "(scratch in, device)", "d2h": "(scratch out, device)"}


class Key(NamedTuple):
    """A buffer: pinned, pageable or device memory of this name."""

    memory: MemoryKind
    name: str


def buffers_of(schedule: Schedule) -> dict[Key, int]:
    """Return the bytes of every buffer that the replay of a schedule needs, with scratch for anonymous copies."""
    found = {Key(buffer.memory, buffer.name): buffer.bytes for buffer in schedule.buffers}
    for op in schedule.ops:
        if isinstance(op, Copy):
            for region, key in (
                (op.host, Key("pinned", SCRATCH_HOST[op.direction])),
                (op.device, Key("device", SCRATCH_DEVICE[op.direction])),
            ):
                if region is None:
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


def view(address: int, n_bytes: int) -> NDArray[np.uint8]:
    """Return the host memory at an address, as bytes."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(address))


@lru_cache(1024)
def host_pattern(name: str) -> Pattern:
    """Return the content of a host buffer of this name: float32 in [0, 1) that repeat after ``PERIOD``."""
    return Pattern(np.random.default_rng(zlib.crc32(name.encode())).random(PERIOD, np.float32).view(np.uint8))


def data(name: str, n_bytes: int) -> NDArray[np.uint8]:
    """Return the first bytes of a host buffer of this name."""
    return to_bytes([Stretch(host_pattern(name), 0, n_bytes)])


class Block(NamedTuple):
    """A piece of memory in use."""

    address: int
    bytes: int


class Arena:
    """Named buffers that grow. Growing one moves it, so its address must be asked for again."""

    def __init__(self, gpu: Gpu) -> None:
        self._cuda = gpu.cuda
        self._blocks: dict[Key, Block] = {}
        self._pageable: dict[Key, NDArray[np.uint8]] = {}
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

    def host(self, key: Key) -> NDArray[np.uint8]:
        """Return the bytes of a host buffer."""
        return view(*self._blocks[key])

    def fill_host(self, key: Key, n_bytes: int) -> None:
        """Write a host buffer's data into its first bytes."""
        Stretch(host_pattern(key.name), 0, n_bytes).fill(self.host(key)[:n_bytes])

    def read_device(self, name: str, n_bytes: int) -> NDArray[np.uint8]:
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
