"""Explain where the time of a pipeline or a schedule goes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from streamsim.cli.options import FILE, Chosen, Pipeline, device_options, format_options, pipeline_options
from streamsim.cli.printing import print_csv, print_json
from streamsim.errors import InputError
from streamsim.files import one_line, read_schedule
from streamsim.schedule import Schedule

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.explain import Explanation, Loss

TOGETHER = (
    "Alone: what the makespan would lose if nothing but this cause were removed, simulated. It differs from the part"
    " where a remedy pays only with others, or where one of several is enough."
)


@click.command("explain")
@pipeline_options
@device_options
@format_options
@click.option("--plot", type=FILE, help="Save the Gantt chart with the critical path and the lost time by cause.")
@click.pass_context
def explain_command(
    context: click.Context,
    /,
    device: str,
    connections: int | None,
    settings: tuple[str, ...],
    memory_limit: int | None,
    form: str,
    plot: Path | None,
    **options: Any,
) -> None:
    """Say why a pipeline takes longer than its lower bound: which cause loses how much, and what would help.

    Takes what predict takes, or a schedule from a .json file. Every figure is a simulation of the same work
    with causes removed; the parts add up to all that is lost.

    \b
    Examples:
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --order breadth-first
      streamsim explain --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --memory pageable --json
      streamsim explain workload.toml --chunks 64 --streams 4 --device a100 --plot why.png
      streamsim explain schedule.json --device k20c --connections 1
    """  # noqa: D301 - click wants the backspace itself
    from streamsim.explain import explain_schedule

    schedule, inputs = _chosen(context, Pipeline(**options))
    chosen = Chosen(device, connections, settings, memory_limit)
    explanation = explain_schedule(schedule, chosen.load())
    if plot is not None:
        from streamsim.plot import save_explanation

        save_explanation(explanation, plot)
    if form == "table":
        print_explanation(explanation)
        print(one_line(f"{explanation.device}: {explanation.link}"))
    elif form == "json":
        print_json(explanation.to_json({**inputs, **chosen.inputs()}))
    else:
        said = explanation.to_json()
        rows = [{"where": where, **loss} for where in ("losses", "limits") for loss in said[where]]
        print_csv(rows or [{"where": "", "cause": "", "title": "", "lost_s": 0.0, "gain_alone_s": 0.0, "remedy": ""}])


def _chosen(context: click.Context, pipeline: Pipeline) -> tuple[Schedule, dict[str, Any]]:
    """The schedule that is asked for, and how it was: a file, or the options of a pipeline."""
    path = pipeline.workload
    if path is None or path.suffix.lower() != ".json":
        workload = pipeline.load()
        return pipeline.schedule(workload), pipeline.inputs(workload)
    given = [
        name
        for name in Pipeline.__struct_fields__
        if name != "workload" and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InputError(one_line(f"--{given[0]}: {path} is a schedule, cut and issued already; leave the option out"))
    return read_schedule(path), {"schedule": str(path)}


def print_explanation(explanation: "Explanation") -> None:
    """What is lost and to what, for people."""
    from rich.console import Console
    from rich.text import Text

    from streamsim.quantities import format_seconds

    console = Console(highlight=False)
    first = explanation.first
    name = explanation.timeline.schedule.name or "schedule"
    times = [explanation.makespan_s, explanation.bound_s, explanation.own_bound_s]
    makespan, bound, own_bound = (format_seconds(seconds) for seconds in times)
    console.print(Text(f"{name} on {explanation.device}: {makespan}"))
    console.print(Text(f"lower bound of the work: {bound} by {explanation.bound_by}; as issued: {own_bound}"))
    console.print(Text(f"first: {first.title}: {first.remedy}" if first else "first: nothing is lost"))
    if explanation.losses:
        console.print(_table(f"Lost: {format_seconds(explanation.gap_s)}", explanation.losses, explanation.gap_s))
    if explanation.limits:
        inside_s = explanation.bound_s - explanation.even_s
        console.print(_table(f"In the bound itself: {format_seconds(inside_s)}", explanation.limits, inside_s))
    if explanation.is_racy:
        console.print("The schedule has races (streamsim check): what its data needs is uncertain.", style="yellow")
    console.print(TOGETHER, style="dim")


def _table(title: str, losses: "tuple[Loss, ...]", whole_s: float) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    from streamsim.quantities import format_seconds

    table = Table(title=Text(title), title_justify="left", box=SIMPLE)
    table.add_column("cause", ratio=3)
    for name in ("part", "share", "alone"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("remedy", ratio=4)
    for loss in losses:
        alone = ("-" if loss.gain_alone_s < 0 else "") + format_seconds(abs(loss.gain_alone_s))
        table.add_row(loss.title, format_seconds(loss.lost_s), f"{loss.lost_s / whole_s:.0%}", alone, loss.remedy)
    return table
