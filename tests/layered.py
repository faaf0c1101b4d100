"""Small models of layers to try things on, and what they take on a card with no overheads, worked out independently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from strategies import NS

from streamsim.program.layers import Layer, Layers
from streamsim.program.workload import WorkloadKernel

if TYPE_CHECKING:
    from collections.abc import Collection

Times = tuple[int, int]  # ticks of a layer's copy, which are its bytes on the ideal device, and of its kernels


def layers_of(*times: Times, passes: int = 1) -> Layers:
    """A layer for each pair of bytes and ticks, called ``layer0`` and so on."""
    return Layers(tuple(Layer(copy, (WorkloadKernel(duration_s=run * NS),)) for copy, run in times), passes)


def names_of(numbers: Collection[int]) -> tuple[str, ...]:
    return tuple(f"layer{n}" for n in sorted(numbers))


def recurrence(times: list[Times], resident: Collection[int], depth: int, passes: int = 1) -> int:
    """Ticks of a run with no overheads: when each copy and each layer ends, one after another.

    A copy begins when the one before it has ended, and the layer that is ``depth`` streamed ones before its own; a
    layer, when the one before it has ended, and its copy.
    """
    ran: list[int] = []  # of streamed layers
    copied = now = 0
    for _ in range(passes):
        for number, (copy, run) in enumerate(times):
            if number not in resident:
                copied = copy + max(copied, ran[-depth] if len(ran) >= depth else 0)
                now = max(now, copied)
            now += run
            if number not in resident:
                ran.append(now)
    return now


@st.composite
def models(draw: st.DrawFn, most: int = 6, most_passes: int = 3) -> tuple[list[Times], frozenset[int], int, int]:
    """Times of layers, those that stay, the depth, the passes."""
    times = draw(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=most))
    resident = draw(st.frozensets(st.integers(0, len(times) - 1)))
    return times, resident, draw(st.integers(1, most + 1)), draw(st.integers(1, most_passes))
