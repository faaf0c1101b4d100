"""The reference output of a schedule: its ops done one after another in NumPy, in issue order.

A schedule without races gives the same bytes however its ops overlap. So a measured time is accepted only if the card's
output is this output.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.program import Copy, Direction, Kernel, Region, Schedule
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
from streamsim_validate.gpu.memory import (
    DEVICE_POISON,
    HOST_POISON,
    SCRATCH_IN,
    Bytes,
    Key,
    buffers_of,
    data,
    scratch_of,
)


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
    def of(cls, content: Bytes, tolerance: float = 0.0) -> "Content":
        """Return bytes that all have this tolerance."""
        return cls(content, np.broadcast_to(np.float32(tolerance), -(-len(content) // FLOAT_BYTES)))

    def part(self, offset: int, n_bytes: int) -> "Content":
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
    count = _period(spec, inputs, elements)
    once = compute_reference(spec, [rows[:count] for rows in inputs], out_widths, count, kernel.parameter)
    sizes = (elements * width for width in out_widths)
    return [Content.of(np.resize(result, size), tolerance) for result, size in zip(once, sizes, strict=False)]


def _period(spec: KernelSpec, inputs: list[Bytes], elements: int) -> int:
    """Return after how many elements the inputs repeat: those of all elements that are copied from the host do."""
    periods = (PERIOD, FLOAT_BYTES * PERIOD) if spec.elementwise and inputs else ()
    for period in (period for period in periods if period < elements):
        if all(np.array_equal(rows[period:], rows[:-period]) for rows in inputs):
            return period
    return elements
