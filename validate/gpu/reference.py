"""The reference output of a schedule: its ops done one after another in NumPy, in issue order.

A schedule without races gives the same bytes however its ops overlap. So a measured time is accepted only if the card's
output is this output.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.program import Copy, Direction, Kernel, Region, Schedule
from streamsim_validate.gpu.kernels import (
    FLOAT_BYTES,
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
    SCRATCH_DEVICE,
    SCRATCH_HOST,
    Content,
    Key,
    Pattern,
    Stretch,
    buffers_of,
    first_of,
    host_pattern,
    to_bytes,
)

Bytes = NDArray[np.uint8]

MOST_MEMO_BYTES = 256 << 20


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


def initial(schedule: Schedule, key: Key) -> Pattern:
    """Return a buffer's content before a verified run."""
    if key.memory == "device":
        return _DEVICE
    if key.name in host_buffers(schedule, "h2d") or key.name == SCRATCH_HOST["h2d"]:
        return host_pattern(key.name)
    return _HOST


_DEVICE, _HOST = (Pattern(np.full(1, poison, np.uint8)) for poison in (DEVICE_POISON, HOST_POISON))


@dataclass(frozen=True)
class Output:
    """The expected content of one buffer."""

    stretches: tuple[Stretch, ...]

    @classmethod
    def of(cls, want: Bytes, tolerance: float) -> Output:
        """Return the expected content ``want``. ``tolerance``: as for :class:`Pattern`."""
        return cls((Stretch(Pattern(want, tolerance), 0, len(want)),))

    @property
    def bytes(self) -> int:
        """The number of bytes."""
        return sum(stretch.bytes for stretch in self.stretches)

    @property
    def want(self) -> Bytes:
        """The bytes."""
        return to_bytes(self.stretches)

    @property
    def tolerance(self) -> float:
        """The largest tolerance of its parts."""
        return max(stretch.pattern.tolerance for stretch in self.stretches)

    def check(self, name: str, got: Bytes) -> None:
        """Raise WrongOutputError naming the first wrong element."""
        begin = 0
        for stretch in self.stretches:
            if not stretch.is_in(got[begin : begin + stretch.bytes]):
                raise WrongOutputError(f"wrong output: {self._what_is_wrong(name, got)}; its time does not count")
            begin += stretch.bytes

    def _what_is_wrong(self, name: str, got: Bytes) -> str:
        """Return the first wrong element and the number of wrong ones: floats if they have a tolerance, else bytes."""
        starts = np.cumsum([0, *(stretch.bytes for stretch in self.stretches)])
        parts = zip(self.stretches, np.split(got, starts[1:-1]), strict=True)
        wrong, want = np.concatenate([stretch.far(part) for stretch, part in parts]), self.want
        first = int(np.argmax(wrong))
        tolerance = self.stretches[int(np.searchsorted(starts, first, "right")) - 1].pattern.tolerance
        floats = wrong[: len(wrong) // FLOAT_BYTES * FLOAT_BYTES].reshape(-1, FLOAT_BYTES)
        if tolerance and first % FLOAT_BYTES == 0 and floats[first // FLOAT_BYTES].all():
            n, count = first // FLOAT_BYTES, int(floats.any(axis=1).sum())
            is_, should = (float(array[first : first + FLOAT_BYTES].view(np.float32)[0]) for array in (got, want))
            what = f"float {n} of {name!r} is {is_:.9g}, expected {should:.9g} within {tolerance:.1e}"
            return f"{what} ({count} of {len(floats)} differ)"
        what = f"byte {first} of {name!r} is 0x{got[first]:02x}, expected 0x{want[first]:02x}"
        return f"{what} ({int(wrong.sum())} of {len(got)} bytes differ)"


@dataclass
class Expected:
    """The outputs of a schedule."""

    outputs: dict[Key, Output] = field(default_factory=dict)

    def check(self, read: Callable[[Key, int], Bytes]) -> None:
        """Compare each output with ``read(key, bytes)``; raises WrongOutputError."""
        for key, output in self.outputs.items():
            output.check(key.name, read(key, output.bytes))


class Memo:
    """The results of kernels on patterns, so that schedules of one workload compute them once.

    If all together hold more than 256 MiB, all are forgotten.
    """

    def __init__(self) -> None:
        self._known: dict[object, list[Pattern]] = {}
        self._bytes = 0

    def get(self, key: Hashable, compute: Callable[[], list[Pattern]]) -> list[Pattern]:
        """Return the result that is known under the key; otherwise ``compute`` it."""
        if key not in self._known:
            found = compute()
            if self._bytes > MOST_MEMO_BYTES:
                self._known, self._bytes = {}, 0
            self._bytes += sum(2 * len(pattern.values) for pattern in found)  # with the row that is accepted
            self._known[key] = found
        return self._known[key]


def run_reference(schedule: Schedule, memo: Memo | None = None) -> Expected:
    """Execute the schedule in NumPy, op by op. Every kernel must have a reference."""
    return _Executor(schedule, memo or Memo()).run()


class _Executor:
    def __init__(self, schedule: Schedule, memo: Memo) -> None:
        self._schedule = schedule
        self._memo = memo
        self._sizes = {key.name: size for key, size in buffers_of(schedule).items()}
        self._memory = {key.name: Content(size, initial(schedule, key)) for key, size in buffers_of(schedule).items()}
        self._elements: Counter[tuple[str, int]] = Counter()  # that each kernel works on in all
        for op in schedule.ops:
            if isinstance(op, Kernel):
                self._elements[op.name, op.parameter] += elements_of(find_kernel(op), op)

    def run(self) -> Expected:
        for op in self._schedule.ops:
            if isinstance(op, Copy):
                self._copy(op)
            elif isinstance(op, Kernel):
                self._kernel(op)
        found = {key: self._memory[key.name].read(0, self._sizes[key.name]) for key in outputs(self._schedule)}
        return Expected({key: Output(tuple(stretches)) for key, stretches in found.items()})

    def _read(self, region: Region) -> list[Stretch]:
        return self._memory[region.buffer].read(region.offset, region.bytes)

    def _copy(self, copy: Copy) -> None:
        host = copy.host or Region(SCRATCH_HOST[copy.direction], 0, copy.bytes)
        device = copy.device or Region(SCRATCH_DEVICE[copy.direction], 0, copy.bytes)
        source, target = (host, device) if copy.direction == "h2d" else (device, host)
        self._memory[target.buffer].write(target.offset, self._read(source))

    def _kernel(self, kernel: Kernel) -> None:
        spec = find_kernel(kernel)
        reads = [self._read(region) for region in kernel.reads]
        if spec is SPIN:
            results = _passed_through(reads, [region.bytes for region in kernel.writes])
        else:
            results = self._computed(spec, kernel, reads)
        for region, result in zip(kernel.writes, results, strict=False):
            self._memory[region.buffer].write(region.offset, result)

    def _computed(self, spec: KernelSpec, kernel: Kernel, reads: list[list[Stretch]]) -> list[list[Stretch]]:
        """Return the kernel's outputs. If its inputs repeat, one period is computed, and only once."""
        elements, (in_widths, out_widths) = elements_of(spec, kernel), widths_of(spec, kernel)
        # A sum of all floats that an element reads may be off by all their tolerances.
        off = [max(stretch.pattern.tolerance for stretch in stretches) for stretches in reads]
        inherited = sum(each * max(1, width // FLOAT_BYTES) for each, width in zip(off, in_widths, strict=True))
        tolerance = spec.tolerance(kernel.parameter) + inherited

        def made_of(inputs: list[list[Stretch]], count: int) -> list[Pattern]:
            arrays = [to_bytes(stretches) for stretches in inputs]
            results = compute_reference(spec, arrays, out_widths, count, kernel.parameter)
            return [Pattern(result, tolerance) for result in results]

        repeated = _repeated(reads, in_widths) if spec.elementwise else None
        if repeated is None or repeated.elements > self._elements[kernel.name, kernel.parameter]:
            patterns, first = made_of(reads, elements), 0
        else:
            inputs, first, count = repeated
            key = (spec, kernel.parameter, *inputs, *out_widths)
            patterns = self._memo.get(key, lambda: made_of([[stretch] for stretch in inputs], count))
        return [
            [Stretch(pattern, first * width, elements * width)]
            for pattern, width in zip(patterns, out_widths, strict=False)
        ]


def _passed_through(reads: list[list[Stretch]], sizes: list[int]) -> list[list[Stretch]]:
    """Return the result of :func:`streamsim_validate.gpu.kernels.pass_through_reference`, without the bytes."""
    found = []
    for k, size in enumerate(sizes if reads else ()):
        source = reads[min(k, len(reads) - 1)]
        if size > sum(stretch.bytes for stretch in source):  # it is repeated: a pattern of its own
            tolerance = max(stretch.pattern.tolerance for stretch in source)
            source = [Stretch(Pattern(to_bytes(source), tolerance), 0, size)]
        found.append(list(first_of(source, size)))
    return found


class _Repeated(NamedTuple):
    """Inputs that repeat after ``elements`` elements: one period of each.

    They are turned so that the first begins as near to its pattern's beginning as possible. So they are the same for
    every chunk of a workload. The chunk begins with their element ``first``.
    """

    inputs: tuple[Stretch, ...]
    first: int
    elements: int


def _repeated(reads: list[list[Stretch]], widths: list[int]) -> _Repeated | None:
    """Return the inputs as one period each; None if there are none or one of them does not repeat."""
    if not reads or any(len(stretches) > 1 for stretches in reads):
        return None
    stretches = [found for (found,) in reads]
    periods = [
        len(s.pattern.values) // math.gcd(len(s.pattern.values), w) for s, w in zip(stretches, widths, strict=True)
    ]
    elements = math.lcm(*periods)
    # With g their greatest common divisor, width w and length l: first * w = phase - phase % g, modulo l.
    length, width = len(stretches[0].pattern.values), widths[0]
    g = math.gcd(length, width)
    first = stretches[0].phase // g * pow(width // g, -1, length // g) % (length // g)
    inputs = tuple(
        Stretch(s.pattern, (s.phase - first * w) % len(s.pattern.values), elements * w)
        for s, w in zip(stretches, widths, strict=True)
    )
    return _Repeated(inputs, first, elements)
