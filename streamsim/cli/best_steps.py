"""``streamsim best`` of a program that is there already: what to change in how it issues its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click.core import ParameterSource
from msgspec.structs import asdict, replace

from streamsim.analysis.what_if import WhatIf, what_if
from streamsim.cli.code import code_of_steps_noted
from streamsim.cli.notes import noting_compilation
from streamsim.cli.options import schedule_given
from streamsim.cli.printing import print_csv, print_json, tell
from streamsim.errors import InputError
from streamsim.files.atomic_files import write_text
from streamsim.search.best_steps import best_steps
from streamsim.text.quantities import format_seconds
from streamsim.transform.changes import changed_by
from streamsim.transform.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from streamsim.cli.given import Given
    from streamsim.cli.options import Chosen, Pipeline
    from streamsim.code.steps import Language
    from streamsim.program.schedule import Schedule
    from streamsim.search.best_steps import BestSteps, TimedWay

NOT_TAKEN = ("orders", "exact", "page")  # of a workload's options, besides those of a pipeline


def program_given(context: click.Context, pipeline: Pipeline, independent: bool) -> Given | None:
    """The program in a file that stands in the place of a workload; None without one.

    Raises InputError for options of the one beside the other.
    """
    given = schedule_given(context, pipeline)
    if given is None:
        if independent:
            raise InputError("--independent: is of the steps of a program; give one, as streamsim import -o writes it")
        return None
    for name in NOT_TAKEN:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(
                f"--{name}: {pipeline.workload} is a program, of which only the steps are issued anew;"
                " leave the option out"
            )
    return given


def print_best_steps(
    schedule: Schedule,
    file: Path | None,
    chosen: Chosen,
    independent: bool,
    most: tuple[int, int],
    program: tuple[Language, Path] | None,
    form: str,
) -> None:
    """Search, write the ``program`` to use if that is asked for, and print. ``most``: chunks and streams.

    ``file``: of the schedule.
    """
    device = chosen.load()
    with noting_compilation():
        found = best_steps(schedule, device, independent, *most)
    way = found.use.way
    if program is not None:
        issued = changed_by(replace(way, depth=0).changes(), Scenario(schedule, device)).schedule
        write_text(code_of_steps_noted(issued, program[0], way.depth), program[1])
    changes = way.changes(independent)
    told = what_if(schedule, device, changes) if changes else None
    if form == "table":
        return _print(found, told, f"{'' if file is None else file.name} on {device.name}")
    value = _json(found, told, {"program": str(file), **chosen.inputs(), "independent": independent})
    return print_json(value, device) if form == "json" else print_csv([value["use"]])


def _print(found: BestSteps, told: WhatIf | None, title: str) -> None:
    from streamsim.cli.consoles import open_console
    from streamsim.report.what_if import what_if_table

    if told is None:
        took = format_seconds(found.as_it_is.makespan_s)
        tell(f"{title}: leave it as it is, {took}; nothing that was tried is more than 1 % faster")
    else:
        open_console().print(what_if_table(told, f"best for {title}"))
        tell(f"use {found.use.way.words}: the simplest within 1 % of the fastest found")
    if found.fastest.makespan_s < found.use.makespan_s:
        tell(f"fastest found: {found.fastest.way.words}, {format_seconds(found.fastest.makespan_s)}")
    tell(f"{found.steps} steps; {found.simulated} ways to issue them simulated")
    for left_out in found.left_out:
        tell(f"not tried: {left_out}")


def _json(found: BestSteps, told: WhatIf | None, inputs: dict[str, Any]) -> dict[str, Any]:
    """As of ``whatif``, and the ways as numbers."""
    said = {"alone": [], "assumed": [], "notes": []} if told is None else told.to_json()
    return {
        "schema_version": WhatIf.schema_version,
        "inputs": inputs,
        "steps": found.steps,
        "before": _way(found.as_it_is, found),
        "use": _way(found.use, found),
        "fastest": _way(found.fastest, found),
        **{name: said[name] for name in ("alone", "assumed", "notes")},
        "simulated": found.simulated,
        "not_tried": found.left_out,
    }


def _way(timed: TimedWay, found: BestSteps) -> dict[str, Any]:
    gain = found.as_it_is.makespan_s / timed.makespan_s if timed.makespan_s else 1.0
    way = {**asdict(timed.way), "chunks": timed.way.chunks or found.steps}
    return {"options": timed.way.words, **way, "makespan_s": timed.makespan_s, "gain": gain}
