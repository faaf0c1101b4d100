"""The times of the named kernels over their elements: probes, fit and spread."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from streamsim.device import Compute, Device, KernelCost
from streamsim.program import Kernel, Region
from streamsim_validate.calibrate.probe import (
    BUFFERS,
    DEVICE_IN,
    DEVICE_OUT,
    FLOAT_BYTES,
    KI,
    MI,
    MOST_ELEMENTS,
    Probe,
    gate,
    probe_of,
)
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.simulated import misfits, rms

KERNELS = (
    ("sincos", 2),
    ("sincos", 10),
    ("sincos", 40),
    ("sincos", 176),
    ("vector_add", 0),
    ("copy", 0),
    ("sleep", 100_000),
)
SMALL_ELEMENTS = (KI, 4 * KI, 16 * KI, 64 * KI, 128 * KI, 192 * KI, 256 * KI, 320 * KI, 384 * KI, 512 * KI, 768 * KI)
LARGE_ELEMENTS = (MI, 3 * MI // 2, 2 * MI, 3 * MI, 4 * MI, 8 * MI, 16 * MI, MOST_ELEMENTS)
WAVES, BLOCK = (1, 2, 3, 4), 256
# What passes between two kernels of a graph, as a share of the least that one takes by itself: on an H100 1.0 of 2.5 us
# and on an H200 0.9 of 2.2 us, in chains of 200 launches over kernels that spin for 0 to 10 us.
GRAPH_GAP = 0.4


def kernel_kind(name: str, parameter: int) -> str:
    """Return the kind of the chains of a kernel."""
    return f"kernel {name}({parameter})"


def elements_of(name: str, resident_threads: int) -> tuple[int, ...]:
    """Return the sizes at which a kernel is measured: also full waves of the card, and a block more."""
    waves = [wave * resident_threads + more for wave in WAVES for more in (0, BLOCK)]
    large = LARGE_ELEMENTS if name != "sleep" else LARGE_ELEMENTS[:-2]
    return tuple(sorted({*SMALL_ELEMENTS, *waves, *large}))


def kernels(resident_threads: int) -> Iterator[Probe]:
    """Yield each kernel back to back in one stream, over its elements.

    All launches use the same memory, so it is in the card's cache, like memory that a copy or a kernel has just
    written.
    """
    for name, parameter in KERNELS:
        for elements in elements_of(name, resident_threads):
            touched = Region(DEVICE_IN, 0, elements * FLOAT_BYTES)
            reads = (touched, touched) if name == "vector_add" else (touched,)
            writes = (Region(DEVICE_OUT, 0, elements * FLOAT_BYTES),)
            kernel = Kernel(1, name, elements, parameter, reads=reads, writes=writes)
            for n in (8, 40) if elements < MI // 2 else (2, 8) if elements < 8 * MI else (1, 3):
                yield probe_of(kernel_kind(name, parameter), elements, n, [gate(), *[kernel] * n], buffers=BUFFERS)


# The fit


def fit_compute(samples: Samples) -> Compute:
    """Return the kernels' costs, and the numbers of the card's specification."""
    card = samples.card
    kernels = tuple(_fit_kernel(samples, name, parameter) for name, parameter in KERNELS)
    floor_s = min(cost.duration_s[0] for cost in kernels)
    return Compute(
        floor_s=floor_s,
        graph_gap_s=GRAPH_GAP * floor_s,
        concurrent_kernels=128,
        resident_threads=card.resident_threads,
        arbitration="ready-order",
        kernel_signal="each",
        kernels=kernels,
    )


def _fit_kernel(samples: Samples, name: str, parameter: int) -> KernelCost:
    """Return the cost from launches back to back in one stream, including the time between two kernels."""
    sizes = elements_of(name, samples.card.resident_threads)
    times = [samples.per_link(kernel_kind(name, parameter), n) for n in sizes]
    for i, (before, after) in enumerate(pairwise(times)):
        times[i + 1] = max(after, before)  # noise must not make a larger kernel faster
    layer, waves = samples.card.multiprocessors * BLOCK, max(WAVES) * samples.card.resident_threads
    elements, duration_s = zip(*stairs(list(zip(sizes, times, strict=True)), layer, waves), strict=True)
    return KernelCost(name, parameter, elements, duration_s)


def stairs(points: Sequence[tuple[int, float]], layer: int, most: int) -> list[tuple[int, float]]:
    """Return a kernel's curve, (elements, seconds) ascending, with its stairs up to ``most`` elements.

    Blocks are whole, and the multiprocessors share them evenly. So a launch takes as long as the multiprocessor with
    the most blocks: the same time from one full ``layer``, a block on each, to the next. The largest known launch of a
    stair gives its time. Unknown stairs lie on a line between the nearest known ones.
    """
    known = {-(-elements // layer): seconds for elements, seconds in points}
    found = [point for point in points if point[0] < layer]
    for stair in range(1, most // layer + 1):
        seconds = _on_line(known, stair)
        found += [((stair - 1) * layer + 1, seconds)] if stair > 1 else []
        found.append((stair * layer, seconds))
    return found + [point for point in points if point[0] > found[-1][0]]


def _on_line(known: Mapping[int, float], at: int) -> float:
    """Return the value at ``at``, on the line between the nearest known ones; beyond all of them, the nearest one."""
    above = min((x for x in known if x >= at), default=max(known))
    below = max((x for x in known if x <= at), default=above)
    if above == below:
        return known[below]
    return known[below] + (known[above] - known[below]) * (at - below) / (above - below)  # shipped profiles have this


def kernel_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of all kernels' times together."""
    missed = misfits(samples, list(kernels(samples.card.resident_threads)), device)
    scatter = rms(samples.scatter(kernel_kind(*kernel)) for kernel in KERNELS)
    return {"compute.kernels": math.hypot(scatter, rms(m.relative for m in missed))}
