"""The costs of one chunk's ops, for the compiled model and for the bounds of the search.

They come from the chunk's part of the workload (:class:`~streamsim.program.workload.Part`), without a schedule. They
equal the costs of the schedule's ops.
"""

from collections.abc import Iterator
from typing import NamedTuple

from streamsim.device import Device
from streamsim.lowering.costs import (
    D2H,
    H2D,
    KERNEL,
    NOTHING,
    Behind,
    Calls,
    Shape,
    copy_shape,
    kernel_call,
    kernel_shape,
)
from streamsim.program import Copy, Launch, Part, Workload
from streamsim.program.schedule import Direction

ABSENT = Shape(NOTHING, 0)  # takes the place of a copy if the chunk has no byte of the array


def kinds_of(workload: Workload) -> tuple[int, ...]:
    """Return the kinds of a chunk's ops, in the order of :meth:`ChunkCosts.chunk`."""
    return (H2D,) * len(workload.inputs) + (KERNEL,) * workload.launches_of_chunk + (D2H,) * len(workload.outputs)


class ChunkCosts(NamedTuple):
    """The costs of a workload's chunks on a device.

    - ``calls``: the ticks of host calls (:func:`~streamsim.lowering.costs.call_ticks`).
    - ``is_blocking``: copies of pinned memory hold the host, too.

    The methods raise InputError if the device has no cost for a kernel of the workload.
    """

    workload: Workload
    device: Device
    calls: Calls
    is_pageable: bool
    is_blocking: bool = False
    launch: Launch = "live"

    def chunk(self, part: Part, behind: Behind | None = None) -> list[Shape]:
        """Return the shapes of a chunk's copies in, launches and copies back, in issue order.

        ``behind``: how each kernel comes to the card directly behind another one of its stream; None if it does not.
        """
        return [
            *(self._copy("h2d", n_bytes) for n_bytes in part.inputs),
            *(shape for shape, many in self._kernels(part, behind) for _ in range(many)),
            *(self._copy("d2h", n_bytes) for n_bytes in part.outputs),
        ]

    def _kernels(self, part: Part, behind: Behind | None) -> Iterator[tuple[Shape, int]]:
        """Yield the shape of each kernel's launches, and their number."""
        for launch, many in self.workload.kernels_of(part):
            yield kernel_shape(self.device, launch, kernel_call(self.calls, launch.name), behind), many

    def once(self) -> list[Shape]:
        """Return the shapes of the copies made once: those before the first chunk, then those behind the last one."""
        return [
            *(self._copy("h2d", n_bytes) for n_bytes in self.workload.h2d_once),
            *(self._copy("d2h", n_bytes) for n_bytes in self.workload.d2h_once),
        ]

    def _copy(self, direction: Direction, n_bytes: int) -> Shape:
        if not n_bytes:
            return ABSENT
        kind = self.is_pageable, self.is_blocking, self.calls[Copy], self.launch
        return copy_shape(self.device, direction, n_bytes, *kind)
