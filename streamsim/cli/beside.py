"""A program's time lines side by side, before and after: ``--plot`` and ``--trace`` of commands that have two."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from streamsim.cli.options import OUTPUT, PICTURE, all_of
from streamsim.report import plot_gantts, save_picture, write_traces
from streamsim.timeline import Timeline

beside_options = all_of(
    click.option("--plot", type=PICTURE, help="Draw both time lines, one above the other: a .png, .svg or .pdf file."),
    click.option("--trace", type=OUTPUT, help="Save both, one process each, for Perfetto or chrome://tracing."),
)


def write_beside(timelines: Mapping[str, Timeline], plot: Path | None, trace: Path | None) -> None:
    """Write what was asked for; ``timelines`` by what they are called, the one before first."""
    if plot is not None:
        save_picture(partial(plot_gantts, timelines), plot)
    if trace is not None:
        write_traces(timelines, trace)
