"""The picture of an explanation."""

from explained import PLAIN
from matplotlib.collections import PolyCollection
from strategies import h2d, kernel, program

from streamsim.advice import explain
from streamsim.analysis import CAUSES
from streamsim.program import Synchronize
from streamsim.report import plot_remedied


def test_the_picture_shows_bound_and_losses() -> None:
    # Copy 0..10, synchronised, kernel 10..20: bound 10, then 10 lost to the call.
    schedule = program(h2d(1, 10), Synchronize(), kernel(2, 10))
    ax, *_ = panels = plot_remedied(explain(schedule, PLAIN))
    bars = {
        str(c.get_gid()): (c.get_paths()[0].get_extents().x0, c.get_paths()[0].get_extents().x1)
        for c in ax.collections
        if isinstance(c, PolyCollection) and str(c.get_gid()).startswith("where it goes")
    }
    title = CAUSES["host-waits"].title
    assert bars == {
        "where it goes: busiest engine alone": (0, 10),
        f"where it goes: 1 {title}: 10 ns": (10, 20),
    }
    legend = panels[-1].get_legend()
    assert legend is not None
    assert f"1 {title}: 10 ns" in [text.get_text() for text in legend.get_texts()]
