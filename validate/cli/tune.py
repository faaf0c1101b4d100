"""``streamsim-validate tune``: the model proposes, the card decides."""

import os
import sys
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from streamsim.cli import options
from streamsim.cli.printing import emit
from streamsim.cli.running import BriefCommand, note, steps
from streamsim.cli.work import grid_fields, workload_asked
from streamsim.code import FRONT_END_OF, LANGUAGES, Language
from streamsim.device import CALLS, front_end_of
from streamsim.errors import InputError
from streamsim.program import Workload
from streamsim.search import candidates, default_grid
from streamsim_validate.gpu import load_kernels, open_gpu
from streamsim_validate.records import check_same_card, check_unused, journal_path
from streamsim_validate.run import BUDGET, FUNCTION, REPEATS, Task, check_language, tune


@click.command("tune", cls=BriefCommand)
@options.workload_options
@options.device_options
@options.option("--budget", "Number of programs to measure.", click.IntRange(1, 1000), default=BUDGET)
@options.grid_options
@options.option("--repeats", "Times that each is measured.", click.IntRange(1, 10_000), default=REPEATS)
@options.option("--seed", "Seed of what is drawn.", click.IntRange(0, 1 << 31), default=0)
@options.option(
    "--as language",
    "Measure bare calls, or programs in this language. Default: the front end of the workload file, else calls.",
    options.one_of((CALLS, *LANGUAGES)),
)
@options.option(
    "--kernels",
    f"A .cu file with your own kernels, repeatable; with --as cupy or pytorch a .py file with the function {FUNCTION}.",
    options.FILE,
    multiple=True,
)
@options.option("--gpu", "The GPU's number.", click.IntRange(0), default=0)
@options.option("--output -o", "File for the record.", options.FILE, default="tuned.json.gz")
@options.form_options
def tune_command(
    budget: int,
    max_chunks: int,
    max_streams: int,
    repeats: int,
    seed: int,
    language: str | None,
    kernels: tuple[Path, ...],
    gpu: int,
    output: Path,
    **_: Any,
) -> None:
    """Find how to cut and issue a workload by measuring the few programs that are worth it.

    The model ranks the grid and says how unsure it is; each measurement corrects it. Give the profile of the card
    (--device, from streamsim-validate calibrate). With --as, programs in that language are measured, and their calls
    are counted. After an interruption, the same command continues where it stopped.

    \b
    Examples:
      streamsim-validate tune --h2d 64MiB --kernel 0.57ms --d2h 64MiB --device card.toml
      streamsim-validate tune workload.toml --device card.toml --budget 20 --kernels mine.cu -o mine.json.gz
      streamsim-validate tune --h2d 64MiB --kernel 0.57ms --d2h 64MiB --device card.toml --as pytorch
    """  # noqa: D301 - click wants the backspace itself
    params = click.get_current_context().params
    asked, workload = options.picked(options.DeviceOptions, params), workload_asked(params)
    language = language or (workload.front_end if workload.front_end in LANGUAGES else CALLS)
    if language == CALLS and workload.front_end:  # replayed schedules make no other calls
        workload = msgspec.structs.replace(workload, front_end=CALLS)
    programs = None if language == CALLS else cast("Language", language)
    workload, asked = asked.written_in(workload, programs)
    device = asked.load()
    _check_front_end(language, front_end_of(device))
    grid = default_grid(max_chunks, max_streams, **grid_fields(params, workload, device))
    configs = tuple(candidates(workload, device, grid))
    files = tuple(map(str, kernels))
    task = Task(str(output), workload, configs, device, budget, repeats, seed, files, programs)
    check_unused(task.output)
    if programs is None:
        _load(files, workload)
    else:
        check_language(programs, files)
    if os.path.exists(journal_path(output)):
        note(f"going on from {journal_path(output)}")
    with open_gpu(gpu) as opened, steps(sys.stderr) as on_step:
        try:
            check_same_card(opened.card, device)
        except InputError:
            note(
                f"{device.name} is the profile of another card than this {opened.card.name}, and proposes the worse for"
                " it; give --device one of streamsim-validate calibrate"
            )
        found = tune(task, opened, on_step)
    data = {"device": device.name, "record": str(output), **found.to_json()}
    emit(found.answer(data, (f"record: {output}",)))


def _check_front_end(language: str, counted: str) -> None:
    """Raise InputError if the calls of one front end are predicted and those of another are measured.

    Bare calls may be predicted in any language.
    """
    measured = FRONT_END_OF.get(cast("Language", language), CALLS)
    others = {*FRONT_END_OF.values()} - {measured}
    if counted in others or (measured == CALLS and counted != CALLS):
        raise InputError(
            f"--front-end: the calls of {counted} would be counted and those of {measured} measured; give --as"
            f" {counted if counted in LANGUAGES else measured}, or leave it out"
        )


def _load(files: tuple[str, ...], workload: Workload) -> None:
    """Load the user's kernels. Raises InputError if a file has none that the workload names: stand-ins would run."""
    wanted = [kernel.name for kernel in workload.kernels]
    for path in files:
        found = load_kernels(path)
        if not set(found) & set(wanted):
            raise InputError(
                f"--kernels {path}: has {', '.join(found)}, and the workload names"
                f" {', '.join(dict.fromkeys(wanted)) or 'no kernel'}; name one in a workload file, with its duration_s"
            )
