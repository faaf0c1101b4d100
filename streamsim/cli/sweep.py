"""Predict every combination of some ranges, into a file."""

import os
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from logging import CRITICAL, getLogger
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from typing import Any

import click
from msgspec.structs import replace

from streamsim.analysis import kernel_assumptions
from streamsim.answer import longest_axes, rows_answer, sweep_answer, write_page
from streamsim.cli.options import (
    FILE,
    MARKDOWN_FORM,
    OUTPUT,
    PLAIN,
    device_options,
    formats,
    option,
    pipeline_options,
    take_ranges,
)
from streamsim.cli.printing import called, emit, page_asked, page_option, predicting, print_data
from streamsim.cli.running import BriefCommand, note, noting_compilation, progress_bar, tell
from streamsim.device import link_words, load_device, within_words
from streamsim.errors import INTERRUPTED, InputError, counted, install
from streamsim.page import check_rows
from streamsim.program import Config, Workload
from streamsim.search import (
    FORMATS,
    SLOW,
    WITHIN,
    Sweep,
    Tally,
    encoded,
    evaluate,
    format_of,
    header,
    is_fast,
    read_asked,
    read_rows,
    sweep_blocks,
    sweep_of,
    write_sweep,
)
from streamsim.text import format_ratio, format_seconds

ARRAYS = {"h2d": "h2d_bytes", "kernel": "kernel_s", "d2h": "d2h_bytes"}  # options and the columns that they set
MOST_IN_TABLE = 100_000  # combinations whose rows are kept for a table
CLUSTER_S = 5.0  # for how long a cluster is looked for


@click.command("sweep", cls=BriefCommand)
@pipeline_options
@option("--scale", "Factor of the whole workload: elements, kernels' times, --host-load.")
@device_options
@option("--file", "A TOML file with these options by name. Options on the command line win.", FILE)
@option("--output -o", "File to write: .csv or .jsonl. Default: standard output.", OUTPUT)
@formats(
    (*FORMATS, "table", MARKDOWN_FORM),
    None,
    "jsonl",
    "How to write it. Default: by the file's name; without a file, a table in a terminal and CSV in a pipe.",
)
@page_option
@option("--workers", "Processes on this machine.", click.IntRange(1, 1024))
@option("--dask", "A Dask cluster's scheduler, such as tcp://host:8786.", metavar="ADDRESS")
def sweep_command(
    file: Path | None,
    output: Path | None,
    form: str | None,
    workers: int | None,
    dask: str | None,
    **options: Any,
) -> None:
    """Predict every combination of ranges, one row each. Combinations that cannot be issued or do not fit are left out.

    An option takes several values: 1,2,4 or depth-first,breadth-first. Numbers also take ranges: 1..64 counts, 1..64*2
    doubles, and 0.1ms..1ms+0.1ms goes in steps.

    Rows are written as they come. If a sweep is stopped, the same command goes on where the file ends. The serial time
    and the speed-up of each row refer to the unchunked program with blocking copies, as in predict. If only the
    bandwidth or latency of a direction is set, the numbers that depend on it follow.

    \b
    Examples:
      streamsim sweep --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks "1..64*2" --streams 1,2,4,8 -o sweep.csv
      streamsim sweep workload.toml --chunks 1..8 --streams 1..4 --device a100,h200 -o devices.jsonl
      streamsim sweep --h2d "1MiB..16MiB*4" --kernel 0.1ms --chunks 8 --set h2d.latency=1us,10us
      streamsim sweep --h2d 64MiB --kernel 1ms --d2h 64MiB --chunks 16 --set link.bandwidth=25GB/s,50GB/s,100GB/s
    """  # noqa: D301 - click wants the backspace itself
    options["set"] = options.pop("settings")
    given = {
        name: [str(value)] if isinstance(value, str | Path) else list(value)
        for name, value in options.items()
        if value not in (None, ())
    }
    asked = {**(read_asked(file) if file else {}), **given}
    sweep = sweep_of(asked)
    notes = [*taken_for_granted(sweep)]
    notes += [] if "device" in asked else [f"no --device given: {sweep.devices[0].name}"]
    page = page_asked()
    if page is not None:
        check_rows(len(sweep))
        if output is None:
            raise InputError(f"--page {page}: shows the rows of a file; add --output FILE")
    as_table = output is None and (form in ("table", MARKDOWN_FORM) or (form is None and sys.stdout.isatty()))
    kind = format_of(output or "stdout", None if as_table else form)
    if not (workers or dask or is_fast()):
        note(SLOW)
    with noting_compilation(), _executor(workers, dask) as executor:
        if as_table:
            emit(rows_answer(rows_for_table(sweep, executor), notes))
        elif output is None:
            tally = Tally()
            print_data(header(kind, sweep.columns))
            for block in tally.counted(sweep_blocks(sweep, 0, executor)):
                print_data(encoded(kind, block.rows))
            _say_left_out(tally)
            for line in notes:
                note(line)
        else:
            try:
                with progress_bar("sweeping") as progress:
                    tally = write_sweep(sweep, output, kind, executor, progress=progress)
            except KeyboardInterrupt:
                note("stopped; the same command goes on from here")
                raise
            _summarise(tally, output, notes)
    if page is not None and output is not None:
        found = list(read_rows(output, kind))
        command = "" if file else _predicting(found, given, sweep)
        answer = sweep_answer(found, sweep, command, notes)
        write_page(replace(answer, command=shlex.join(called())), page)


take_ranges(sweep_command)


@contextmanager
def _executor(workers: int | None, dask: str | None) -> Iterator[Any]:
    """Yield the executor: worker processes, the client of a Dask cluster, or None for this process."""
    if workers and dask:
        raise InputError("--workers, --dask: both spread the sweep; give one")
    if dask:
        with _dask_client(dask) as client:
            yield client
    elif workers:
        if is_fast():
            evaluate(Workload(1, (4,)), [Config()], load_device("ideal"))  # compiled once, not by every worker
        before = signal(SIGINT, SIG_IGN)  # workers inherit it: Ctrl-C is for this process
        pool = ProcessPoolExecutor(workers, get_context("spawn"), _watch_parent)
        for _ in range(workers):
            pool.submit(int)
        signal(SIGINT, before)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
    else:
        yield None


def _watch_parent() -> None:
    """Let this worker end with the process that started it, however that ends."""

    def end_with_parent() -> None:
        parent = parent_process()
        assert parent is not None, "a worker has one"
        parent.join()
        os._exit(INTERRUPTED)

    Thread(target=end_with_parent, daemon=True).start()


def _dask_client(address: str) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise InputError(f"--dask: needs Dask: {install('dask')}") from None
    getLogger("distributed").setLevel(CRITICAL)  # a lost cluster is told in one line, without Dask's tracebacks
    try:
        return distributed.Client(address, timeout=CLUSTER_S)
    except (OSError, ValueError) as error:
        raise InputError(f"--dask = {address!r}: no cluster there: {error}") from None


def rows_for_table(sweep: Sweep, executor: Any = None) -> list[dict[str, Any]]:
    """Predict the rows, and note which combinations were left out. Raises InputError for too many."""
    if len(sweep) > MOST_IN_TABLE:
        raise InputError(f"{len(sweep):,} combinations are too many for a table; give --output FILE or --format csv")
    tally = Tally()
    rows = [row for block in tally.counted(sweep_blocks(sweep, 0, executor)) for row in block.rows]
    _say_left_out(tally)
    return rows


def _predicting(rows: list[dict[str, Any]], given: dict[str, list[str]], sweep: Sweep) -> str:
    """Return the command that predicts what all rows have in common, without the columns of the map.

    Empty where no command predicts a row.
    """
    varying = {name for name in rows[0] if len({row[name] for row in rows}) > 1} if rows else set[str]()
    arrays = {option for option, column in ARRAYS.items() if any(name.startswith(column) for name in varying)}
    if "scale" in given or any(len(given.get(option, ())) != 1 for option in arrays):
        return ""
    shown = varying | arrays | {*longest_axes(sweep)}
    return predicting({f"--{name.removesuffix('_s').replace('_', '-')}" for name in shown})


def _say_left_out(tally: Tally) -> None:
    for why, (count, reason) in sorted(tally.left_out.items()):
        note(f"{count} combinations that {why} were left out, the first because {reason}")


def _summarise(tally: Tally, output: Path, notes: list[str]) -> None:
    _say_left_out(tally)
    if not output.is_file():  # the rows went where this would go
        return
    if (row := tally.fastest) is not None:
        found = ", ".join(f"{name} {row[name]}" for name in ("device", "chunks", "streams", "order"))
        within = row[WITHIN] or 0.0
        took, gain = format_seconds(row["makespan_s"], within), format_ratio(row["speedup"], within)
        rows = f"{counted(tally.rows, 'row')} in {output}"
        tell(f"{rows}; the fastest: {found}: {took}, {gain} as fast as the unchunked program")
    tell(*notes)


def taken_for_granted(sweep: Sweep) -> Iterator[str]:
    """Yield the assumed link of each device, and what is assumed of kernels on the first one in the most chunks."""
    moved = "; but for what is set" if any("." in axis.name for axis in sweep.device_axes) else ""
    for device in sweep.devices:
        yield f"{device.name}: {link_words(device)}{moved}"
        yield from within_words(device)
    with suppress(InputError):  # the first combination may be one that cannot be issued
        point = sweep.point(0)
        workload = sweep.workload_at(point)
        chunks = min(workload.most_chunks, max((1, *sweep.values_of("chunks"))))
        for line in kernel_assumptions(workload, chunks, sweep.device(point), point.get("launch", PLAIN.launch)):
            yield f"in {chunks} chunks {line}"
