"""Predict every combination of some ranges, into a file."""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from streamsim.analysis import kernel_assumptions
from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.consoles import open_console
from streamsim.cli.notes import note, noting_compilation, progress_bar
from streamsim.cli.options import (
    FILE,
    MARKDOWN_FORM,
    OUTPUT,
    PLAIN,
    complete_devices,
    complete_front_end,
    complete_list,
    complete_setting,
    formats,
)
from streamsim.cli.page import page_option, predicting, save_page
from streamsim.cli.printing import print_data, tell
from streamsim.device import link_words, load_device, within_words
from streamsim.errors import InputError
from streamsim.page import check_rows, longest_axes
from streamsim.program import HOST_MEMORIES, LAUNCHES, ORDERS, Config, Workload
from streamsim.report import common_words, sweep_table
from streamsim.search import (
    FORMATS,
    RETRIES,
    SLOW,
    WITHIN,
    Format,
    Journal,
    Sweep,
    encoder,
    evaluate,
    format_of,
    header,
    is_fast,
    journal_after,
    read_asked,
    read_rows,
    sweep_blocks,
    sweep_of,
    write_sweep,
)
from streamsim.text import counted, format_ratio, format_seconds, one_line

ARRAYS = {"h2d": "h2d_bytes", "kernel": "kernel_s", "d2h": "d2h_bytes"}  # options and the columns that they set
MOST_IN_TABLE = 100_000  # combinations whose rows are kept for a table
CLUSTER_S = 5.0  # for how long a cluster is looked for
COMPLETE_ORDERS, COMPLETE_MEMORIES, COMPLETE_LAUNCHES = map(
    complete_list, (lambda: ORDERS, lambda: HOST_MEMORIES, lambda: LAUNCHES)
)


@click.command("sweep", cls=BriefCommand)
@click.argument("workload", metavar="[WORKLOAD.toml]", required=False)
@click.option(
    "--file", "asked", type=FILE, help="A TOML file with these options by name. Options on the command line win."
)
@click.option("--h2d", multiple=True, help="Sizes of an input array: 64MiB, 1MiB..1GiB*2. Repeatable: another array.")
@click.option("--kernel", multiple=True, help="Times of a kernel: 0.57ms, 0.1ms..1ms+0.1ms. Repeatable.")
@click.option("--h2d-once", multiple=True, help="Size of an array copied once, before the first chunk.")
@click.option("--d2h-once", multiple=True, help="Size of an array copied back once, after the last.")
@click.option("--d2h", multiple=True, help="Sizes of an output array. Repeatable.")
@click.option("--elements", help="Number of elements, as for predict.")
@click.option("--host-work", help="Time of the host's work before it issues each chunk: 1ms..5ms+1ms.")
@click.option(
    "--host-load", help="Host work over all the data, added to --host-work; each chunk's share runs before the chunk."
)
@click.option("--scale", help="Factors for the whole workload (elements, kernels' times, --host-load): 0.25..4*2.")
@click.option("--chunks", help="Numbers of chunks: 1..64, 1..64*2, 1,2,4. Default: 1.")
@click.option("--streams", help="Numbers of streams. Default: 1.")
@click.option(
    "--order",
    shell_complete=COMPLETE_ORDERS,
    help=f"Issue orders: {','.join(ORDERS)}. Default: depth-first.",
)
@click.option(
    "--buffers", help="Device buffers used in turn: 2,3,4; all (the default): one for every chunk; prefetch: 2."
)
@click.option("--memory", shell_complete=COMPLETE_MEMORIES, help="Host memory: pinned,pageable. Default: pinned.")
@click.option("--launch", shell_complete=COMPLETE_LAUNCHES, help="How ops are issued: live,graph. Default: live.")
@click.option(
    "--device",
    shell_complete=complete_devices,
    help="Shipped profiles and TOML files, separated by commas. Default: h200.",
)
@click.option(
    "--front-end",
    shell_complete=complete_front_end,
    help="What the program is written in: calls,cupy,pytorch. Default: calls.",
)
@click.option("--call-cost", help="Times that every copy and launch costs the host: 9us.")
@click.option("--connections", help="Hardware queues: 1..32*2. Default: the profile's number.")
@click.option(
    "--set",
    multiple=True,
    metavar="NAME=VALUES",
    shell_complete=complete_setting,
    help="A number or rule of the profile: link.bandwidth=25GB/s,50GB/s,100GB/s (both directions),"
    " host.kernel=1us..8us*2, copy_engines.count=1,2. Repeatable.",
)
@click.option("--memory-limit", help="The most that the device buffers may hold, such as 8GiB.")
@click.option("--output", "-o", type=OUTPUT, help="File to write: .csv or .jsonl. Default: standard output.")
@formats(
    (*FORMATS, "table", MARKDOWN_FORM),
    None,
    "jsonl",
    "How to write it. Default: by the file's name; without a file, a table in a terminal and CSV in a pipe.",
)
@page_option
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes on this machine.")
@click.option("--dask", metavar="ADDRESS", help="A Dask cluster's scheduler, such as tcp://host:8786.")
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=RETRIES,
    show_default=True,
    help="How often a block that fails on a worker is tried again.",
)
def sweep_command(
    asked: Path | None,
    output: Path | None,
    form: str | None,
    page: Path | None,
    workers: int | None,
    dask: str | None,
    retries: int,
    **options: Any,
) -> None:
    """Predict every combination of ranges, one row each. Combinations that cannot be issued or do not fit are left out.

    Rows are written as they come. If a sweep is stopped, the same command continues it, and the file ends up the same.
    The serial time and the speed-up of each row refer to the unchunked program with blocking copies, as in predict. If
    only the bandwidth or latency of a direction is set, the numbers that depend on it follow.

    \b
    Examples:
      streamsim sweep --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks "1..64*2" --streams 1,2,4,8 -o sweep.csv
      streamsim sweep workload.toml --chunks 1..8 --streams 1..4 --device a100,h200 -o devices.jsonl
      streamsim sweep --h2d "1MiB..16MiB*4" --kernel 0.1ms --chunks 8 --set h2d.latency=1us,10us
      streamsim sweep --h2d 64MiB --kernel 1ms --d2h 64MiB --chunks 16 --set link.bandwidth=25GB/s,50GB/s,100GB/s
    """  # noqa: D301 - click wants the backspace itself
    given = {
        name: [value] if isinstance(value, str) else list(value)
        for name, value in options.items()
        if value not in (None, ())
    }
    sweep = sweep_of({**(read_asked(asked) if asked else {}), **given})
    _check_page(page, output, sweep)
    as_table = output is None and (form == "table" or (form is None and sys.stdout.isatty()))
    kind = format_of(output or "stdout", None if as_table else form)
    if not (workers or dask or is_fast()):
        note(SLOW)
    with noting_compilation(), _executor(workers, dask) as executor:
        if as_table:
            print_table(rows_for_table(sweep, executor, retries), taken_for_granted(sweep))
        elif output is None:
            _to_stdout(sweep, kind, executor, retries)
        else:
            try:
                with progress_bar("sweeping") as progress:
                    written = write_sweep(sweep, output, kind, executor, retries, progress=progress)
            except KeyboardInterrupt:
                note("stopped; the same command continues from here")
                raise
            _summarise(sweep, written, output)
    if page is not None and output is not None:
        rows = list(read_rows(output, kind))
        command = "" if asked else _predicting(rows, given, sweep)
        save_page("sweep_page", page, rows, sweep, command, list(taken_for_granted(sweep)))


def _check_page(page: Path | None, output: Path | None, sweep: Sweep) -> None:
    """Raise InputError before the sweep begins if its rows cannot be shown on a page."""
    if page is None:
        return

    check_rows(len(sweep))
    if output is None:
        raise InputError(f"--page {page}: shows the rows of a file; add --output FILE")


@contextmanager
def _executor(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Yield the executor: worker processes, a Dask cluster, or None for this process."""
    if workers and dask:
        raise InputError("--workers, --dask: both spread the sweep; give one")
    if dask:
        with _dask(dask) as executor:
            yield executor
    elif workers:
        from streamsim.cli.worker import workers as processes

        if is_fast():
            evaluate(Workload(1, (4,)), [Config()], load_device("ideal"))  # compiled once, not by every worker
        with processes(workers) as pool:
            yield pool
    else:
        yield None


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise InputError("--dask: needs Dask: pip install 'streamsim[dask]'") from None
    try:
        client = distributed.Client(address, timeout=CLUSTER_S)
    except (OSError, ValueError) as error:
        raise InputError(one_line(f"--dask = {address!r}: no cluster there: {error}")) from None
    with client:
        yield client.get_executor()


def _to_stdout(sweep: Sweep, kind: Format, executor: Executor | None, retries: int) -> None:
    encode = encoder(kind)
    print_data(header(kind, sweep.columns))
    so_far = Journal("")
    for rows in sweep_blocks(sweep, 0, executor, retries):
        print_data(encode(sweep.columns, rows.rows))
        so_far = journal_after(so_far, rows, sweep.columns)
    _say_left_out(so_far)
    for line in taken_for_granted(sweep):
        note(line)


def rows_for_table(sweep: Sweep, executor: Executor | None = None, retries: int = RETRIES) -> list[dict[str, Any]]:
    """Predict the rows, and note which combinations were left out. Raises InputError for too many."""
    if len(sweep) > MOST_IN_TABLE:
        raise InputError(f"{len(sweep):,} combinations are too many for a table; give --output FILE or --format csv")
    rows: list[dict[str, Any]] = []
    so_far = Journal("")
    for block in sweep_blocks(sweep, 0, executor, retries):
        rows += (dict(zip(sweep.columns, row, strict=True)) for row in block.rows)
        so_far = journal_after(so_far, block, sweep.columns)
    _say_left_out(so_far)
    return rows


def print_table(rows: list[dict[str, Any]], notes: Iterable[str]) -> None:
    """Print a short table for people."""
    if rows:
        open_console().print(sweep_table(rows))
        tell(*common_words(rows))
    tell(*notes)


def _predicting(rows: list[dict[str, Any]], given: dict[str, list[str]], sweep: Sweep) -> str:
    """Return the command that predicts what all rows have in common, without the columns of the map.

    Empty where no command predicts a row.
    """
    varying = {name for name in rows[0] if len({row[name] for row in rows}) > 1} if rows else set[str]()
    arrays = {option for option, column in ARRAYS.items() if any(name.startswith(column) for name in varying)}
    if "scale" in given or any(len(given.get(option, ())) != 1 for option in arrays):
        return ""
    return predicting(
        {f"--{name.removesuffix('_s').replace('_', '-')}" for name in varying | arrays | {*longest_axes(sweep)}}
    )


def _say_left_out(written: Journal) -> None:
    if unissued := written.left_out - written.too_large:
        note(f"{unissued} combinations that cannot be issued were left out, the first because {written.reason}")
    if written.too_large:
        why = written.too_large_reason
        note(f"{written.too_large} combinations that have no room on the card were left out, the first because {why}")


def _summarise(sweep: Sweep, written: Journal, output: Path) -> None:

    _say_left_out(written)
    if not output.is_file():  # the rows went where this would go
        return
    if written.fastest is not None:
        row = dict(zip(sweep.columns, written.fastest, strict=True))
        found = ", ".join(f"{name} {row[name]}" for name in ("device", "chunks", "streams", "order"))
        within = row[WITHIN] or 0.0
        took, gain = format_seconds(row["makespan_s"], within), format_ratio(row["speedup"], within)
        rows = f"{counted(written.rows, 'row')} in {output}"
        tell(f"{rows}; the fastest: {found}: {took}, {gain} as fast as the unchunked program")
    tell(*taken_for_granted(sweep))


def taken_for_granted(sweep: Sweep) -> Iterator[str]:
    """Yield the assumed link of each device, and what is assumed of kernels on the first one in the most chunks."""
    moved = "; but for what is set" if any("." in axis.name for axis in sweep.axes) else ""
    for device in sweep.devices:
        yield f"{device.name}: {link_words(device)}{moved}"
        yield from within_words(device)
    with suppress(InputError):  # the first combination may be one that cannot be issued
        point = sweep.point(0)
        workload = sweep.workload_at(point)
        chunks = min(workload.most_chunks, max((1, *sweep.numbers_of_chunks)))
        for line in kernel_assumptions(workload, chunks, sweep.device(point), point.get("launch", PLAIN.launch)):
            yield f"in {chunks} chunks {line}"
