"""Why a pipeline issued breadth-first is slow: the lost time by cause, and the same work after the first remedy.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, in 16 chunks over 4 streams on the shipped h200 profile.
Above, the time line with its critical path and where the time goes; below, on the same time axis, the same chunks
issued depth-first. Writes explain.png beside this file.
"""

import io
from pathlib import Path

from matplotlib.figure import Figure

from streamsim.analysis.explain import explain
from streamsim.device.library import load_device
from streamsim.files.atomic_files import write_bytes
from streamsim.model import simulate
from streamsim.program.patterns import breadth_first, depth_first
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.report.gantt import plot_explanation, plot_gantt

WORKLOAD = Workload(16 << 20, (4,), (4,), (WorkloadKernel(duration_s=0.57e-3),))
CHUNKS, STREAMS = 16, 4
SIZE_IN, DPI = (9.0, 8.0), 120
ROWS = (12.6, 8.8)  # of the panels; the upper one has two rows and most of a legend more


def draw() -> Figure:
    """Draw the explanation above, what following it gives below."""
    device = load_device("h200")
    explanation = explain(breadth_first(WORKLOAD, CHUNKS, STREAMS), device)
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    above, below = figure.subplots(2, height_ratios=ROWS)
    plot_explanation(explanation, above)
    plot_gantt(simulate(depth_first(WORKLOAD, CHUNKS, STREAMS), device), below, until_s=explanation.timeline.host_s)
    below.get_legend().remove()  # its colours are those above
    return figure


if __name__ == "__main__":
    picture = io.BytesIO()
    draw().savefig(picture, format="png", dpi=DPI)
    write_bytes(picture.getvalue(), Path(__file__).with_suffix(".png"))
