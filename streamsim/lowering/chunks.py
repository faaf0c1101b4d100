"""What the ops of one chunk cost: a walk over them that the compiled twin and the search's bounds share.

Nothing is built: a chunk is priced from what it has of the workload (:class:`~streamsim.program.workload.Part`), as
the ops of its schedule would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import (
    D2H,
    H2D,
    KERNEL,
    NOTHING,
    Shape,
    copy_shape,
    kernel_call,
    kernel_shape,
)
from streamsim.program.schedule import Copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim.device.profile import Device
    from streamsim.lowering.costs import Behind, Calls
    from streamsim.program.schedule import Direction, Launch
    from streamsim.program.workload import Part, Workload

ABSENT = Shape(NOTHING, 0)  # in place of the copy of an array that a chunk has nothing of


def kinds_of(workload: Workload) -> tuple[int, ...]:
    """What the ops of a chunk are, in the order of :meth:`ChunkCosts.chunk`."""
    return (H2D,) * len(workload.inputs) + (KERNEL,) * workload.launches_of_chunk + (D2H,) * len(workload.outputs)


class ChunkCosts(NamedTuple):
    """Prices of a workload's chunks on a device. ``calls``: ticks of the host (``call_ticks``).

    ``is_blocking``: copies of pinned memory hold it too.

    Its methods raise InputError when the device has no cost for a kernel of the workload.
    """

    workload: Workload
    device: Device
    calls: Calls
    is_pageable: bool
    is_blocking: bool = False
    launch: Launch = "live"

    def chunk(self, part: Part, behind: Behind | None = None) -> list[Shape]:
        """The shapes of a chunk's copies in, launches and copies back, in the order of issue.

        ``behind``: all of its kernels come right behind others of their stream, so.
        """
        return [
            *(self._copy("h2d", n_bytes) for n_bytes in part.inputs),
            *(shape for shape, many in self._kernels(part, behind) for _ in range(many)),
            *(self._copy("d2h", n_bytes) for n_bytes in part.outputs),
        ]

    def _kernels(self, part: Part, behind: Behind | None) -> Iterator[tuple[Shape, int]]:
        """The shape of each kernel's launches, and how many there are."""
        for launch, many in self.workload.kernels_of(part):
            yield kernel_shape(self.device, launch, kernel_call(self.calls, launch.name), behind), many

    def once(self) -> list[Shape]:
        """The shapes of what is copied once: before the first chunk, and behind the last."""
        return [
            *(self._copy("h2d", n_bytes) for n_bytes in self.workload.h2d_once),
            *(self._copy("d2h", n_bytes) for n_bytes in self.workload.d2h_once),
        ]

    def _copy(self, direction: Direction, n_bytes: int) -> Shape:
        if not n_bytes:
            return ABSENT
        kind = self.is_pageable, self.is_blocking, self.calls[Copy], self.launch
        return copy_shape(self.device, direction, n_bytes, *kind)
