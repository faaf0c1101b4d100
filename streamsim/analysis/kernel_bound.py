"""The least that a kernel takes of the card in all, however its work is cut into chunks.

A launch over a share of the work takes a time that is made of straight lines over the share. Between two bends of such
a line, time over share is least at one of the bends. So the least of all shares up to one is found at the bends below
it, or at that share. All launches together have all the work, and take at least that.
"""

import math
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.checks import LARGEST_BYTES, LEAST_FILL
from streamsim.device import Device, KernelUse, bends
from streamsim.program import Kernel, WorkloadKernel
from streamsim.rules import FULL_CARD, TICKS_PER_S, ticks

FEW = 64  # threads of a chunk: fewer are rounded so much that nothing is said of them
CLOSE = 1e-6  # of an element: what a share times all elements may be off by
OFF_BY = 1 + 1 / (2 * FEW)  # by what rounding changes the number of threads at most


class Least(NamedTuple):
    """What all launches take at least, in ticks: ``works`` one after another, and ``area`` of the whole card."""

    works: float
    area: float


class KernelBound:
    """Bounds on what the launches of a kernel take on a device.

    ``whole``: a launch over all the work. ``is_exact``: chunks have whole elements; else their numbers are rounded.
    """

    def __init__(self, device: Device, whole: Kernel, is_exact: bool) -> None:
        self._device, self._whole, self._is_exact = device, whole, is_exact
        compute = device.compute
        full = compute.resident_threads
        self._width_loss = compute.concurrent_kernels / (2 * FULL_CARD)  # widths are whole units of the card
        if whole.duration_s is None:
            shares = [n / whole.elements for n in _counted_bends(device, whole)]
        else:
            waves = (whole.threads or whole.elements) / full * OFF_BY if full else 0.0
            shares = bends(whole.duration_s, waves, compute.floor_s, whole.parts)
        self._shares = sorted(share for share in shares if self._is_sound(share))
        found = [self._per_share(share) for share in self._shares]
        self._works = list(accumulate((one.works for one in found), min))
        self._areas = list(accumulate((one.area for one in found), min))

    def over(self, most_share: float, launches: int = 1) -> Least:
        """The least for all the work, in so many launches a chunk that has at most this share of it."""
        if not self._is_timed:
            most_share = min(1.0, math.ceil(most_share * self._whole.elements - CLOSE) / self._whole.elements)
        below = bisect_right(self._shares, most_share)
        here = self._per_share(most_share) if self._is_sound(most_share) else Least(math.inf, math.inf)
        works, area = here
        if below:
            works, area = min(works, self._works[below - 1]), min(area, self._areas[below - 1])
        return Least(launches * works, launches * area) if works < math.inf else Least(0.0, 0.0)

    def of_items(self, kernel: WorkloadKernel, fewest: int, most: int) -> Least:
        """The least where launches belong to items: so many whole launches at least and at most, for all the work."""
        seconds, floor_s = kernel.duration_s or 0.0, self._device.compute.floor_s
        has_drain, full = self._use(1.0).drain_s > 0, self._device.compute.resident_threads
        works = TICKS_PER_S * max(0.0, seconds - most * floor_s if has_drain else max(seconds, fewest * floor_s))
        fill = kernel.fill or (min(1.0, kernel.threads / full) if kernel.threads and full else 1.0)
        return Least(works, works * fill * (1 - self._width_loss))

    @property
    def drain(self) -> int:
        """Ticks at the end of every launch at least, in which the card is free for others."""
        use = self._use(1.0)
        return max(0, ticks(self._device.compute.floor_s) - 1) if use.drain_s and self._is_timed else 0

    def shortest(self, share: float) -> int:
        """Ticks of a launch over at least this share of the work."""
        if not self._is_sound(share):
            return max(1, ticks(self._device.compute.floor_s))
        return max(1, ticks(self._use(share).alone_s))

    @property
    def _is_timed(self) -> bool:
        return self._whole.duration_s is not None

    def _is_sound(self, share: float) -> bool:
        """Return True if a chunk of such a share has anything to be timed by."""
        return share * (self._whole.duration_s or 1.0) > 1e-15 and share <= 1

    def _per_share(self, share: float) -> Least:
        """What all the work takes if every launch has this share of it."""
        use = self._use(share)
        has = share
        if not self._is_timed:
            elements = self._elements(share)
            has = elements / self._whole.elements * (1 if self._is_exact else _rounded_up(elements))
        works = max(0.0, (use.alone_s - use.drain_s) * TICKS_PER_S) / has
        area = min(works, use.alone_s * use.share * TICKS_PER_S / has)
        return Least(works, max(0.0, area) * (1 - self._width_loss))

    def _elements(self, share: float) -> int:
        return max(1, int(share * self._whole.elements + CLOSE))

    def _use(self, share: float) -> KernelUse:
        """What a part takes of the card, in as many threads as rounding may give it: more threads are faster."""
        whole = self._whole
        if whole.duration_s is None:
            return self._device.kernel_use(replace(whole, elements=self._elements(share)))
        threads, full = whole.threads or whole.elements, self._device.compute.resident_threads
        least_fill = whole.fill or 1.0
        if threads and full:
            few = share * threads < FEW
            waves = threads / full * (2 / 3 if few else 1 / OFF_BY)
            least_fill = whole.fill or max(LEAST_FILL, min(1.0, waves))
            threads = LARGEST_BYTES if few else math.ceil(share * threads * OFF_BY)
        part = {"duration_s": whole.duration_s * share, "share": share, "threads": threads}
        return self._device.kernel_use(replace(whole, fill=least_fill, **part))


def _rounded_up(elements: int) -> float:
    """What share of a chunk's work so many elements may stand for, if the number is rounded: 1.5 for one, then less."""
    return 1 + 1 / (2 * elements)


def _counted_bends(device: Device, kernel: Kernel) -> set[int]:
    """Numbers of elements at which the measured time of a kernel bends, as far as it has so many."""
    cost, floor_s = device.cost_of(kernel), device.compute.floor_s
    at_floor = {
        int(a + (b - a) * (floor_s - shorter) / (longer - shorter))
        for (a, shorter), (b, longer) in pairwise(zip(cost.elements, cost.duration_s, strict=True))
        if shorter < floor_s < longer
    }
    found = {*cost.elements, device.compute.resident_threads, *at_floor, *(n + 1 for n in at_floor)}
    return {n for n in found if 0 < n <= kernel.elements}
