"""What a schedule must leave behind: its ops done one after another in NumPy, in the order of issue.

A schedule without races gives the same bytes however its ops overlap, so a measured time is accepted only
when the card's output is this output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from streamsim.errors import InputError
from streamsim.schedule import Copy, Direction, Kernel, Region, Schedule
from streamsim_validate.kernels import FLOAT_BYTES, apply_reference, elements_of, find_kernel
from streamsim_validate.memory import (
    DEVICE_POISON,
    HOST_POISON,
    SCRATCH_DEVICE,
    SCRATCH_HOST,
    Key,
    buffers_of,
    data,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class WrongOutputError(InputError):
    """The card computed something else than the reference: no time of this schedule counts."""


def has_reference(schedule: Schedule) -> bool:
    """Whether every kernel of the schedule can be computed in NumPy."""
    return all(find_kernel(op).reference is not None for op in schedule.ops if isinstance(op, Kernel))


def host_buffers(schedule: Schedule, direction: Direction) -> set[str]:
    """Names of the host buffers that copies in this direction touch."""
    return {op.host.buffer for op in schedule.ops if isinstance(op, Copy) and op.host and op.direction == direction}


def outputs(schedule: Schedule) -> list[Key]:
    """The buffers whose content is checked.

    The named host buffers that are copied to; without any, the named device buffers that are written.
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
    """A buffer's content before a verified run."""
    if key.memory == "device":
        return np.full(n_bytes, DEVICE_POISON, np.uint8)
    if key.name in host_buffers(schedule, "h2d") or key.name == SCRATCH_HOST["h2d"]:
        return data(key.name, n_bytes)
    return np.full(n_bytes, HOST_POISON, np.uint8)


@dataclass
class Output:
    """One expected buffer; ``tolerance`` is 0 where every byte must agree.

    ``accepted`` is an output that was within the tolerance: another one that equals it byte for byte is
    too, and bytes compare much faster.
    """

    want: Bytes
    tolerance: float
    accepted: Bytes | None = None

    def check(self, name: str, got: Bytes) -> None:
        """Raise WrongOutputError naming the first wrong element."""
        if _same(got, self.want) or (self.accepted is not None and _same(got, self.accepted)):
            return
        if self.tolerance:
            _check_floats(name, got.view(np.float32), self.want.view(np.float32), self.tolerance)
            self.accepted = got.copy()
            return
        first = int(np.argmax(got != self.want))
        raise WrongOutputError(
            f"wrong output: byte {first} of {name!r} is 0x{got[first]:02x}, expected 0x{self.want[first]:02x}"
            f" ({int(np.count_nonzero(got != self.want))} of {len(got)} bytes differ); its time does not count"
        )


def _same(a: Bytes, b: Bytes) -> bool:
    words = len(a) // 8 * 8  # compared eight bytes at a time
    same = np.array_equal(a[:words].view(np.uint64), b[:words].view(np.uint64))
    return same and np.array_equal(a[words:], b[words:])


def _check_floats(name: str, got: NDArray[np.float32], want: NDArray[np.float32], tolerance: float) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = ~((np.abs(got - want) <= tolerance) | (got.view(np.uint32) == want.view(np.uint32)))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise WrongOutputError(
            f"wrong output: float {first} of {name!r} is {got[first]:.9g}, expected {want[first]:.9g} within"
            f" {tolerance:.1e} ({int(np.count_nonzero(wrong))} of {len(got)} differ); its time does not count"
        )


@dataclass
class Expected:
    """The outputs of a schedule."""

    outputs: dict[Key, Output] = field(default_factory=dict)

    def check(self, read: Callable[[Key, int], Bytes]) -> None:
        """Compare each output with ``read(key, bytes)``; raises WrongOutputError."""
        for key, output in self.outputs.items():
            output.check(key.name, read(key, len(output.want)))

    @property
    def bytes(self) -> int:
        """Memory held."""
        return sum(len(o.want) * (1 if o.accepted is None else 2) for o in self.outputs.values())


def run_reference(schedule: Schedule) -> Expected:
    """Execute the schedule in NumPy, op by op. Every kernel must have a reference."""
    return _Executor(schedule).run()


class _Executor:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._memory = {key.name: initial(schedule, key, size) for key, size in buffers_of(schedule).items()}
        # How far a region's content may be from the card's, by where it begins. A region that is read from
        # elsewhere counts as exact, which can only make the check stricter.
        self._tolerance: dict[tuple[str, int], float] = {}

    def run(self) -> Expected:
        for op in self._schedule.ops:
            if isinstance(op, Copy):
                self._copy(op)
            elif isinstance(op, Kernel):
                self._kernel(op)
        return Expected({key: Output(self._memory[key.name], self._worst(key.name)) for key in outputs(self._schedule)})

    def _worst(self, name: str) -> float:
        return max((value for (buffer, _), value in self._tolerance.items() if buffer == name), default=0.0)

    def _bytes(self, region: Region) -> Bytes:
        return self._memory[region.buffer][region.offset : region.offset + region.bytes]

    def _copy(self, copy: Copy) -> None:
        host = copy.host or Region(SCRATCH_HOST[copy.direction], 0, copy.bytes)
        device = copy.device or Region(SCRATCH_DEVICE[copy.direction], 0, copy.bytes)
        source, target = (host, device) if copy.direction == "h2d" else (device, host)
        self._bytes(target)[:] = self._bytes(source)
        self._tolerance[target.buffer, target.offset] = self._tolerance.get((source.buffer, source.offset), 0.0)

    def _kernel(self, kernel: Kernel) -> None:
        spec = find_kernel(kernel)
        reads = [self._bytes(region) for region in kernel.reads]
        writes = [self._bytes(region) for region in kernel.writes]
        elements = elements_of(spec, kernel)
        apply_reference(spec, reads, writes, elements, kernel.parameter)
        # Kernels sum what they read, so an error counts once for every float of an element that carries it.
        inherited = sum(
            self._tolerance.get((region.buffer, region.offset), 0.0) * max(1, region.bytes // (elements * FLOAT_BYTES))
            for region in kernel.reads
        )
        for region in kernel.writes:
            self._tolerance[region.buffer, region.offset] = inherited + spec.tolerance(kernel.parameter)
