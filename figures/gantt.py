"""The README's picture: one pipeline issued serially and in 16 chunks over 4 streams, on one time axis.

64 MiB to the card, a kernel of 0.57 ms, 64 MiB back, predicted for the shipped h200 profile. Writes
gantt.png beside this file.
"""

import io
from pathlib import Path

from matplotlib.figure import Figure

from streamsim.device.library import load_device
from streamsim.files.atomic_files import write_bytes
from streamsim.model import simulate
from streamsim.program.patterns import depth_first, serial
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.report.gantt import plot_gantt

ELEMENTS = 16 << 20  # of 4 bytes each way
KERNEL_S = 0.57e-3
SIZE_IN, DPI = (9.0, 5.2), 120


def draw() -> Figure:
    """Draw both time lines, the serial one above."""
    workload = Workload(ELEMENTS, (4,), (4,), (WorkloadKernel(duration_s=KERNEL_S),))
    device = load_device("h200")
    one_by_one = simulate(serial(workload), device)
    overlapped = simulate(depth_first(workload, chunks=16, streams=4), device)

    figure = Figure(figsize=SIZE_IN, layout="constrained")
    above, below = figure.subplots(2, height_ratios=(5.8, 8.8))
    plot_gantt(one_by_one, above)
    plot_gantt(overlapped, below, serial_s=one_by_one.makespan_s, until_s=one_by_one.host_s)
    above.get_legend().remove()
    above.set_xlabel("")
    return figure


if __name__ == "__main__":
    picture = io.BytesIO()
    draw().savefig(picture, format="png", dpi=DPI)
    write_bytes(picture.getvalue(), Path(__file__).with_suffix(".png"))
