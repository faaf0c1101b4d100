"""Published runs of pipelines against their predictions: a row for each, its signed error and both times.

Writes published.png beside this file.

Each run is predicted from the serial or per-stage times of the same source.

A prediction uses the shipped profile of the card and what the source says of the run *without* overlap;
never the overlapped time itself. What a source does not say is a choice, made once for all cases:

- Only a serial total is published: the kernel takes what makes the model's serial program take that long,
  with copies at the profile's pinned bandwidth.
- Stage times are published: they set the bandwidth and the kernel's time on a card derived from a profile.
- Slowdown while both directions are busy: that of the profile; for the cards of simpleMultiCopy that of the
  RTX 3050 Laptop under nvbandwidth, the one published pair of a card in a PCIe slot of a client machine.
"""

import io
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from matplotlib.figure import Figure

from streamsim.device import Device, load_device, with_values
from streamsim.files import write_bytes
from streamsim.model import simulate
from streamsim.program import (
    Copy,
    Kernel,
    Op,
    RecordEvent,
    Schedule,
    StreamKind,
    Synchronize,
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    serial,
)
from streamsim.report import COLOURS, H2D, KERNEL

SIZE_IN, DPI, FONT_PT = (7.2, 5.2), 200, 8.0
WITHIN, BEYOND, INK, GRID = COLOURS[H2D], COLOURS[KERNEL], "#222222", "#999999"
CLOSE, FAR = 5.0, 10.0  # percent
MARGINS = {"left": 0.30, "right": 0.78, "top": 0.99, "bottom": 0.09}  # of the figure; the words stand in them
PUBLISHED_X, PREDICTED_X = 1.17, 1.41  # right edges of the columns, of the axes
TITLES = {
    "blog V1": "Blog program, depth-first (V1)",
    "blog V2": "Blog program, breadth-first (V2)",
    "simpleMultiCopy": "simpleMultiCopy, 4 streams",
    "sleep kernel": "Sleep kernel, 4 streams",
}

MIB = 1 << 20
BLOG = 'M. Harris, "How to Overlap Data Transfers in CUDA C/C++", NVIDIA, 2012'
SIMPLE_MULTI_COPY = "output of the CUDA sample simpleMultiCopy, https://github.com/NVIDIA/cuda-samples"
# Share of the bandwidth left while the other direction is busy: RTX 3050 Laptop, nvbandwidth copy-engine tests.
DUPLEX_LEFT = {"h2d": 12.66 / 12.98, "d2h": 11.06 / 13.17}


class PublishedCase(msgspec.Struct, frozen=True):
    """A published overlapped run and its prediction, in seconds.

    ``group`` is what was run, ``name`` on what, ``profile`` the shipped profile that it was predicted with.
    """

    group: str
    name: str
    profile: str
    published_s: float
    predicted_s: float
    source: str

    @property
    def error(self) -> float:
        """Signed relative error of the prediction."""
        return self.predicted_s / self.published_s - 1


def cases() -> list[PublishedCase]:
    """Predict every published case. Takes a few milliseconds."""
    return [*blog_cases(), *simple_multi_copy_cases(), sleep_case()]


def kernel_time(program: Callable[[float], Schedule], device: Device, total_s: float, kernels: int = 1) -> float:
    """Find the kernel time with which a program that overlaps nothing takes ``total_s`` on the device.

    ``program`` makes it from the time of each of its ``kernels`` kernels, in which its makespan is linear.
    """
    probe_s = total_s / kernels
    rest_s = simulate(program(probe_s), device).makespan_s - kernels * probe_s
    return (total_s - rest_s) / kernels


def _in_blocking_streams(ops: list[Op], streams: int, name: str) -> Schedule:
    """Issue ``ops`` in streams as cudaStreamCreate makes them, with an event for each, and wait for the device."""
    kinds: list[StreamKind] = ["blocking"] * streams
    return Schedule((*ops, Synchronize()), tuple(kinds), events=streams, name=name)


# --- the blog's three programs: sequential, V1 (depth-first), V2 (breadth-first); 16 MiB each way, 4 streams --------

# Card, profile, milliseconds: sequential, V1, V2. The RTX 3090 is a reader's, in three runs.
BLOG_RUNS = (
    ("Tesla C1060", "c1060", 12.92381, 13.63690, 8.84588),
    ("Tesla C2050", "c2050", 9.984512, 5.735584, 7.597984),
    ("Tesla K20c", "k20c", 7.101760, 3.974144, 3.967616),
    ("RTX 3090, run 1", "rtx3090", 1.519616, 0.984352, 0.970208),
    ("RTX 3090, run 2", "rtx3090", 1.516928, 0.988960, 0.974272),
    ("RTX 3090, run 3", "rtx3090", 1.528448, 0.997440, 0.981280),
)


def blog_workload(kernel_s: float) -> Workload:
    """4 Mi floats, worked on by one kernel."""
    return Workload(4 * MIB, (4,), (4,), (WorkloadKernel(duration_s=kernel_s),), name="blog")


def blog_cases() -> list[PublishedCase]:
    """Predict V1 and V2 from the sequential time alone."""
    found = []
    for card, profile, sequential_ms, *overlapped_ms in BLOG_RUNS:
        device = load_device(profile)
        kernel_s = kernel_time(lambda s: serial(blog_workload(s)), device, sequential_ms * 1e-3)
        for version, pattern, ms in zip(("V1", "V2"), (depth_first, breadth_first), overlapped_ms, strict=True):
            predicted = simulate(pattern(blog_workload(kernel_s), chunks=4, streams=4), device)
            found.append(PublishedCase("blog " + version, card, profile, ms * 1e-3, predicted.makespan_s, BLOG))
    return found


# --- simpleMultiCopy: 16 MiB each way, 10 repetitions over 4 streams, milliseconds per repetition -------------------

REPETITIONS = 10
# Card, profile that it is derived from, milliseconds: H2D, D2H, kernel, overlapped.
MULTI_COPY_RUNS = (
    ("A100-SXM4-80GB", "a100", 0.686592, 0.704832, 0.054848, 0.847872),
    ("GTX 1080 Ti", "rtx3090", 2.547488, 2.485056, 0.194976, 3.094118),
    ("GTX 1650 SUPER, run 1", "rtx3090", 1.349152, 1.371840, 0.246272, 1.691261),
    ("GTX 1650 SUPER, run 2", "rtx3090", 1.354816, 1.319584, 0.215424, 1.681277),
)


def multi_copy_schedule(kernel_s: float, streams: int = 4) -> Schedule:
    """Issue what the sample's processWithStreams issues.

    Each repetition waits on the host until the next stream has ended its last cycle, then runs the kernel of
    the current stream, uploads for the next one and downloads from the current one. The kernel thus works on
    what the repetition before has uploaded, and the last upload is never used.
    """
    ops: list[Op] = []
    for i in range(REPETITIONS):
        current, following = i % streams, (i + 1) % streams
        ops += (
            Synchronize(event=following),
            Kernel(1 + current, "incKernel", duration_s=kernel_s),
            Copy("h2d", 16 * MIB, 1 + following),
            Copy("d2h", 16 * MIB, 1 + current),
            RecordEvent(current, 1 + current),
        )
    return _in_blocking_streams(ops, streams, "simpleMultiCopy")


def with_stages(device: Device, n_bytes: int, h2d_s: float, d2h_s: float, left: dict[str, float]) -> Device:
    """Derive a device on which copies of ``n_bytes`` alone take the given times.

    ``left``: the share of the bandwidth left to each direction while the other is busy.
    """
    values: dict[str, float] = {}
    for name, link, seconds in (("h2d", device.h2d, h2d_s), ("d2h", device.d2h, d2h_s)):
        rate = n_bytes / (seconds - link.latency_s)
        values[f"{name}.bandwidth_bytes_per_s"] = values[f"{name}.crowded_bandwidth_bytes_per_s"] = rate
        values[f"{name}.duplex_bandwidth_bytes_per_s"] = rate * left[name]
    return with_values(device, values)


def simple_multi_copy_cases(left: dict[str, float] = DUPLEX_LEFT) -> list[PublishedCase]:
    """Predict the overlapped repetition from the three stage times that the sample prints."""
    found = []
    for card, profile, h2d_ms, d2h_ms, kernel_ms, overlapped_ms in MULTI_COPY_RUNS:
        device = with_stages(load_device(profile), 16 * MIB, h2d_ms * 1e-3, d2h_ms * 1e-3, left)
        predicted_s = simulate(multi_copy_schedule(kernel_ms * 1e-3), device).makespan_s / REPETITIONS
        found.append(
            PublishedCase("simpleMultiCopy", card, profile, overlapped_ms * 1e-3, predicted_s, SIMPLE_MULTI_COPY)
        )
    return found


# --- a kernel that sleeps: 4 tasks of 4 MiB each way, 64 x 64 blocks of 256 threads, in one stream and in four ------

TASKS = 4
SLEEP_BLOCKS, SLEEP_THREADS = 64 * 64, 256


def sleep_schedule(kernel_s: float, fill: float, streams: int) -> Schedule:
    """Issue the tasks depth-first, as the tutorial does."""
    ops: list[Op] = []
    for task in range(TASKS):
        stream = 1 + task % streams
        kernel = Kernel(stream, "SleepKernel", duration_s=kernel_s, fill=fill)
        ops += (Copy("h2d", 4 * MIB, stream), kernel, Copy("d2h", 4 * MIB, stream))
    return _in_blocking_streams(ops, streams, f"sleep kernel S={streams}")


def sleep_fill(device: Device) -> float:
    """Find the share of the card that the sleeping blocks keep busy.

    Each resident block sleeps for the same time, so the blocks run in waves of as many as fit on the card,
    and the last wave leaves room for the next kernel.
    """
    waves = SLEEP_BLOCKS * SLEEP_THREADS / device.compute.resident_threads
    return waves / -(-waves // 1)


def sleep_case() -> PublishedCase:
    """Predict the run in four streams from the run in one. The card is not named: an RTX 3090 is assumed."""
    device = load_device("rtx3090")
    fill = sleep_fill(device)
    kernel_s = kernel_time(lambda s: sleep_schedule(s, fill, 1), device, 5.000320e-3, TASKS)
    predicted_s = simulate(sleep_schedule(kernel_s, fill, TASKS), device).makespan_s
    source = "tutorial on CUDA streams (card not named): sleep kernel, 4 tasks of 4 MiB in 1 and in 4 streams"
    return PublishedCase("sleep kernel", "RTX 3090 assumed", "rtx3090", 3.653024e-3, predicted_s, source)


# --- the picture ------------------------------------------------------------------------------------------------------


def draw() -> Figure:
    """Draw the errors as bars from zero, grouped by program, with the times beside them."""
    figure = Figure(figsize=SIZE_IN)
    axes = figure.subplots(gridspec_kw=MARGINS)
    rows = sorted(cases(), key=lambda case: list(TITLES).index(case.group))
    y = 0.0
    for group, members in groupby(rows, key=lambda case: case.group):
        text(axes, -0.01, y, TITLES[group], ha="right", weight="bold")
        for case in members:
            y += 1
            row(axes, y, case)
        y += 1.3
    for x, heading in ((PUBLISHED_X, "published"), (PREDICTED_X, "predicted")):
        text(axes, x, -0.6, f"{heading}\nms", ha="right", weight="bold")
    _frame(axes, y)
    return figure


def row(axes: Any, y: float, case: PublishedCase) -> None:
    """One case: name, bar, error and times."""
    error = case.error * 100
    axes.barh(y, error, height=0.62, color=WITHIN if abs(error) <= CLOSE else BEYOND)
    axes.annotate(
        f"{error:+.1f} %", (error, y), (4 if error > 0 else -4, 0), textcoords="offset points",
        ha="left" if error > 0 else "right", va="center", fontsize=FONT_PT, color=INK,
        bbox={"color": "white", "pad": 0.8}, zorder=1,
    )  # fmt: skip
    text(axes, -0.01, y, case.name, ha="right")
    for x, seconds in ((PUBLISHED_X, case.published_s), (PREDICTED_X, case.predicted_s)):
        text(axes, x, y, f"{seconds * 1e3:.3f}", ha="right")


def text(axes: Any, x: float, y: float, words: str, **style: Any) -> None:
    """Words at a row, beside the axes."""
    axes.text(x, y, words, transform=axes.get_yaxis_transform(), va="center", fontsize=FONT_PT, color=INK, **style)


def _frame(axes: Any, bottom: float) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    for percent in (-FAR, -CLOSE, CLOSE, FAR):
        axes.axvline(percent, color=GRID, linewidth=0.6, linestyle=":" if abs(percent) == CLOSE else "-", zorder=0)
    axes.set(xlim=(-FAR - 1, FAR + 1), ylim=(bottom - 0.6, -1.2), yticks=[])
    axes.set_xticks((-10, -5, 0, 5, 10), ("-10 %", "-5 %", "0", "+5 %", "+10 %"), fontsize=FONT_PT)
    axes.set_xlabel(f"error of the prediction; orange: more than {CLOSE:g} %", fontsize=FONT_PT)
    axes.spines[["left", "right", "top"]].set_visible(False)


if __name__ == "__main__":
    picture = io.BytesIO()
    draw().savefig(picture, format="png", dpi=DPI)
    write_bytes(picture.getvalue(), Path(__file__).with_suffix(".png"))
