"""A workload from the sizes of its arrays and the times of its kernels, as people give them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from streamsim.errors import InputError
from streamsim.patterns import Workload, WorkloadKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

BYTES_PER_ELEMENT = 4
ELEMENTS_WITHOUT_ARRAYS = 1 << 20


def workload_of_sizes(
    h2d: Sequence[int], kernels: Sequence[float], d2h: Sequence[int], elements: int | None = None
) -> Workload:
    """The workload with input arrays ``h2d`` and output arrays ``d2h`` (bytes) and ``kernels`` (seconds each).

    ``elements`` defaults to the greatest common divisor of the sizes, as elements of 4 bytes where it divides
    by 4; 1 Mi without arrays. Raises InputError when it does not divide a size.
    """
    count = elements or _elements((*h2d, *d2h))
    names = ["kernel"] if len(kernels) == 1 else [f"kernel {i}" for i in range(1, len(kernels) + 1)]
    return Workload(
        elements=count,
        inputs=tuple(per_element("h2d", size, count) for size in h2d),
        outputs=tuple(per_element("d2h", size, count) for size in d2h),
        kernels=tuple(WorkloadKernel(name, time) for name, time in zip(names, kernels, strict=True)),
    )


def _elements(sizes: Sequence[int]) -> int:
    if not sizes:
        return ELEMENTS_WITHOUT_ARRAYS
    divisor = math.gcd(*sizes)
    return divisor // BYTES_PER_ELEMENT if divisor % BYTES_PER_ELEMENT == 0 else divisor


def per_element(name: str, size: int, elements: int) -> int:
    """Bytes per element of an array. Raises InputError naming it when ``elements`` does not divide its ``size``."""
    if size % elements:
        raise InputError(f"elements = {elements}: does not divide {name} = {size} bytes; give one that does")
    return size // elements
