"""The memory in which schedules are replayed, what it holds at first, and how its content is checked.

Buffers are known by name, kept from one schedule to the next, and only ever grow, because pinning 64 MiB takes tens of
milliseconds. The content of a host buffer depends on its name alone, so schedules of different sizes share it.
"""

import contextlib
import ctypes
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.program import Copy, Direction, Kernel, MemoryKind, Region, Schedule
from streamsim_validate.gpu.card import Gpu

Bytes = NDArray[np.uint8]

# Host data repeats after this many floats, a prime, so that no chunk in use starts where the period does.
PERIOD = 1021
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


def data(name: str, n_bytes: int) -> Bytes:
    """Return the content of a host buffer of this name: float32 in [0, 1) that repeat after ``PERIOD``."""
    floats = np.random.default_rng(zlib.crc32(name.encode())).random(PERIOD, np.float32)
    return np.resize(floats.view(np.uint8), n_bytes)


class Block(NamedTuple):
    """A piece of memory in use. ``backing``: the array that holds pageable memory."""

    address: int
    bytes: int
    backing: Bytes | None = None


class Arena:
    """Named buffers that grow. Growing one moves it, so its address must be asked for again."""

    def __init__(self, gpu: Gpu) -> None:
        self._cuda = gpu.cuda
        self._blocks: dict[Key, Block] = {}

    def address(self, key: Key) -> int:
        """Return where a buffer begins."""
        return self._blocks[key].address

    def grow(self, need: dict[Key, int]) -> None:
        """Allocate these buffers unless they are large enough. New host buffers hold their data."""
        for key, size in need.items():
            block = self._blocks.get(key)
            if block is None or block.bytes < size:
                self._free(key)
                self._blocks[key] = self._allocate(key, size)
                if key.memory != "device":
                    self._host(key, size)[:] = data(key.name, size)

    def reset(self, schedule: Schedule) -> None:
        """Put every buffer of a schedule into the state in which a verified run begins."""
        sources = {*host_buffers(schedule, "h2d"), SCRATCH_IN}
        for key, size in buffers_of(schedule).items():
            if key.memory == "device":
                self._cuda.memset(self.address(key), DEVICE_POISON, size)
            else:
                self._host(key, size)[:] = data(key.name, size) if key.name in sources else HOST_POISON
        self._cuda.deviceSynchronize()

    def read(self, key: Key, n_bytes: int) -> Bytes:
        """Return a copy of the first bytes of a buffer."""
        if key.memory != "device":
            return self._host(key, n_bytes).copy()
        found = np.empty(n_bytes, np.uint8)
        self._cuda.memcpy(found.ctypes.data, self.address(key), n_bytes, self._cuda.memcpyDeviceToHost)
        return found

    def room(self, free_device: int) -> int:
        """Return the device bytes that can be used: the free ones, and those held here."""
        return free_device + sum(block.bytes for key, block in self._blocks.items() if key.memory == "device")

    def clear(self) -> None:
        """Free everything. What a dead context refuses to free dies with it."""
        for key in list(self._blocks):
            with contextlib.suppress(Exception):
                self._free(key)

    def _host(self, key: Key, n_bytes: int) -> Bytes:
        return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(self.address(key)))

    def _allocate(self, key: Key, size: int) -> Block:
        try:
            if key.memory == "device":
                return Block(int(self._cuda.malloc(size)), size)
            if key.memory == "pinned":
                return Block(int(self._cuda.hostAlloc(size, self._cuda.hostAllocDefault)), size)
            backing = np.empty(size + PAGE, np.uint8)
        except Exception as error:
            what = f"{_mib(size)} of {key.memory} memory"
            raise InputError(f"buffers: {key.name!r}: no {what} to be had ({error}); use fewer elements") from error
        return Block(-(-backing.ctypes.data // PAGE) * PAGE, size, backing)

    def _free(self, key: Key) -> None:
        block = self._blocks.pop(key, None)
        if block and key.memory == "device":
            self._cuda.free(block.address)
        elif block and key.memory == "pinned":
            self._cuda.freeHost(block.address)


class WrongOutputError(InputError):
    """The card's output is not what it must be: no time of this schedule counts."""


def host_buffers(schedule: Schedule, direction: Direction) -> set[str]:
    """Return the names of the host buffers that copies in this direction touch."""
    return {op.host.buffer for op in schedule.ops if isinstance(op, Copy) and op.host and op.direction == direction}


def outputs(schedule: Schedule) -> dict[Key, int]:
    """Return the bytes of the buffers whose content is checked.

    They are the named host buffers that are copied to; if there are none, the named device buffers that are written.
    """
    written = host_buffers(schedule, "d2h")
    if not written:
        for op in schedule.ops:
            if isinstance(op, Copy) and op.device is not None:
                written.add(op.device.buffer)
            elif isinstance(op, Kernel):
                written.update(region.buffer for region in op.writes)
    return {Key(buffer.memory, buffer.name): buffer.bytes for buffer in schedule.buffers if buffer.name in written}


def check_content(name: str, found: Bytes, expected: Bytes) -> None:
    """Raise WrongOutputError naming the first wrong byte of a buffer."""
    wrong = found != expected
    if wrong.any():
        first = int(np.argmax(wrong))
        raise WrongOutputError(
            f"wrong output: byte {first} of {name!r} is 0x{found[first]:02x}, expected 0x{expected[first]:02x}"
            f" ({wrong.sum()} of {len(found)} bytes differ); its time does not count"
        )
