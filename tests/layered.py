"""Small models of layers to try things on, and what they take on a card with no overheads, worked out independently."""

from collections.abc import Collection
from typing import Any

from hypothesis import strategies as st
from strategies import NS

from streamsim.program import DIRECTIONS, Layer, Layers, WorkloadKernel

directions = st.sampled_from(list(DIRECTIONS))
Times = tuple[int, int]  # ticks of a layer's copy, which are its bytes on the ideal device, and of its kernels


def layers_of(*times: Times, passes: int = 1, direction: Any = "forward") -> Layers:
    """A layer for each pair of bytes and ticks, called ``layer0`` and so on; backward they take 3 ticks more."""
    kernels = [[(WorkloadKernel(duration_s=ticks * NS),) for ticks in (run, run + 3)] for _, run in times]
    layers = [Layer(copy, run, backward=back) for (copy, _), (run, back) in zip(times, kernels, strict=True)]
    return Layers(tuple(layers), passes, direction=direction)


def names_of(numbers: Collection[int]) -> tuple[str, ...]:
    return tuple(f"layer{n}" for n in sorted(numbers))


def recurrence(
    times: list[Times], resident: Collection[int], depth: int, passes: int = 1, direction: Any = "forward"
) -> int:
    """Ticks of a run with no overheads: when each copy and each layer ends, one after another.

    A copy begins when the one before it has ended, and the layer that has been in its buffer, the one used longest ago;
    a layer, when the one before it has ended, and its copy. Between the directions a layer may still be in a buffer.
    """
    held: list[tuple[int, int]] = []  # layers in buffers, the one used longest ago first, and when they were done
    forward = [(number, copy, run) for number, (copy, run) in enumerate(times)]
    backward = [(number, copy, run + 3) for number, copy, run in forward[::-1]]
    copied = now = 0
    for number, copy, run in {"forward": forward, "backward": backward, "both": forward + backward}[direction] * passes:
        if number not in resident:
            there = [one for one in held if one[0] == number] if direction == "both" else []
            if there:
                held.remove(there[0])
            else:
                copied = copy + max(copied, held.pop(0)[1] if len(held) == depth else 0)
                now = max(now, copied)
            held.append((number, now + run))
        now += run
    return now


@st.composite
def models(draw: st.DrawFn, most: int = 6, most_passes: int = 3) -> tuple[list[Times], frozenset[int], int, int]:
    """Times of layers, those that stay, the depth, the passes."""
    times = draw(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=most))
    resident = draw(st.frozensets(st.integers(0, len(times) - 1)))
    return times, resident, draw(st.integers(1, most + 1)), draw(st.integers(1, most_passes))
