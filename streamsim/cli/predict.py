"""``streamsim predict`` and ``sweep``: any work, or many configurations, devices or programs side by side."""

import os
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from logging import CRITICAL, getLogger
from multiprocessing import get_context, parent_process
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from streamsim.analysis import interval, kernel_assumptions, predict
from streamsim.answer import longest_axes, prediction_answer, rows_answer, scenarios_of, sweep_answer, write_page
from streamsim.cli.options import (
    COUNT,
    FILE,
    FORM,
    LAYERS,
    LOOP,
    MARKDOWN_FORM,
    OF_WORKLOADS,
    OUTPUT,
    PLAIN,
    PROGRAM,
    SEVERAL,
    DeviceOptions,
    Listed,
    device_options,
    formats,
    kind_of_file,
    option,
    picked,
    pipeline_options,
    take_several,
    timeline_options,
)
from streamsim.cli.printing import answer_options, called, emit, page_asked, page_option, print_data, write_beside
from streamsim.cli.running import BriefCommand, note, progress_bar, tell
from streamsim.cli.work import (
    ALONE,
    Issued,
    read_issued,
    refuse,
    work_of,
    work_on,
    work_options,
    workload_asked,
)
from streamsim.device import link_words, load_device, split_setting, within_words
from streamsim.displayed import attributes
from streamsim.errors import INTERRUPTED, OK, InputError, counted, install
from streamsim.model import simulate
from streamsim.page import check_rows
from streamsim.program import Config, Workload
from streamsim.recorded import write_recording
from streamsim.report import plot_compared, save_picture, write_trace
from streamsim.search import (
    FORMATS,
    SLOW,
    WITHIN,
    Sweep,
    Swept,
    encoded,
    evaluate,
    format_of,
    header,
    is_fast,
    read_asked,
    read_rows,
    sweep,
    sweep_blocks,
    sweep_of,
    write_sweep,
)
from streamsim.text import format_ratio, format_seconds
from streamsim.timeline import Timeline

MOST_LINES = 12  # time lines in one picture, trace or page
ARRAYS = {"h2d": "h2d_bytes", "kernel": "kernel_s", "d2h": "d2h_bytes"}  # options and the columns that they set
OF_OUTPUT = ("--page", "--plot", "--trace", "--format", "--json", "--samples", "--seed")
MOST_IN_TABLE = 100_000  # combinations whose rows are kept for a table
CLUSTER_S = 5.0  # for how long a cluster is looked for


class _Found(NamedTuple):
    """Rows of predictions, notes on them, and what makes their time lines, by their names."""

    rows: list[dict[str, Any]]
    notes: list[str]
    lines: Callable[[], dict[str, Timeline]]


def predict_several(context: click.Context, others: tuple[Path, ...], plot: Path | None, trace: Path | None) -> None:
    """Predict several configurations, or programs on several devices. Write the files, then print the rows."""
    files = context.params["layers"], context.params["workload"], *others
    kinds = {path: kind_of_file(path) for path in files if path}
    for path, kind in kinds.items() if others else ():
        if kind != PROGRAM:
            raise InputError(f"{path}: one of several files is a schedule or a recording; give it alone")
    if {*kinds.values()} & {PROGRAM, LOOP, LAYERS}:
        rows, notes, lines = _programs(context, [(path, read_issued(context, path)) for path in kinds])
    else:
        rows, notes, lines = _configurations(context.params)
    for name, path in (("--plot", plot), ("--trace", trace), ("--page", page_asked())):
        if path is not None and len(rows) > MOST_LINES:
            most = f"shows {MOST_LINES} time lines at most; give fewer than {len(rows)} values"
            raise InputError(f"{name} {path}: {most}")
    if plot or trace:
        write_beside(lines(), plot, trace)
    emit(rows_answer(rows, notes, lines))


def _configurations(params: dict[str, Any]) -> _Found:
    """Predict every combination of the values of the options that cut a workload, and of the devices."""
    more = {name: params[name] for name in ("connections", "memory_limit", "front_end", *Config.__struct_fields__)}
    asked: dict[str, Any] = {name: str(value) for name, value in more.items() if value is not None}
    if params["settings"]:
        asked["set"] = dict(split_setting(text, "NAME=VALUE such as h2d.latency=1us") for text in params["settings"])
    found = sweep(workload_asked(params), list(map(str.strip, params["device"].split(","))), **asked)
    rows = rows_for_table(found)
    lines = cache(lambda: {words: simulate(*scenario) for words, scenario in scenarios_of(rows, found).items()})
    return _Found(rows, list(taken_for_granted(found)), lines)


def _programs(context: click.Context, programs: Iterable[tuple[Path, Issued]]) -> _Found:
    """Predict programs, each with its file, on every device of the options, by default on the programs' own."""
    rows: list[dict[str, Any]] = []
    lines: dict[str, Timeline] = {}
    links: dict[str, None] = {}
    asked = picked(DeviceOptions, context.params)
    if isinstance(asked.connections, Listed):
        raise InputError(f"--connections {asked.connections}: a program takes one value at a time; give one")
    for path, issued in programs:
        for name in map(str.strip, str(asked.device).split(",")):
            work = work_on(context, issued, replace(asked, device=name)).work
            p, card = predict(work.schedule, work.device), work.device
            times = {**attributes(p, "makespan_s", "serial_s", "speedup"), WITHIN: p.known_within or None}
            rows.append({"schedule": str(path), "device": card.name, "connections": card.connections, **times})
            lines[f"{path} on {card.name}"] = p.timeline
            links |= dict.fromkeys((f"{p.device}: {p.link}", *within_words(card)))
    return _Found(rows, list(links), lambda: lines)


@click.command("predict", cls=BriefCommand)
@work_options
@click.argument("others", metavar="[PROGRAM.json]...", type=FILE, nargs=-1)
@answer_options
@timeline_options
@option("--recording", "Save what PyTorch's profiler would record: a .json or .json.gz file.", OUTPUT)
@option("--formulas", "Also print the times of published formulas, and what each assumes.", is_flag=True)
@option("--samples", "Also print the interval that holds the time in 90 % of cases, from this many draws.", COUNT)
@option("--seed", "Seed of the draws; the same seed gives the same times.", int, default=0)
@click.pass_context
def predict_command(
    context: click.Context,
    /,
    others: tuple[Path, ...],
    plot: Path | None,
    trace: Path | None,
    recording: Path | None,
    samples: int | None,
    **options: Any,
) -> int:
    """Predict copies in, kernels and copies out, cut into chunks over streams; or a schedule or recording.

    The work is a workload's TOML file, the file of a schedule or a recording, or sizes and times: 64MiB is 64 * 1024 *
    1024 bytes, 64MB is 64,000,000, a bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds. Work
    that does not fit on the card is refused. With --buffers, the table says what the ring costs and what it saves. With
    --layers, a model's layers are streamed to the card one by one over --depth buffers, except those that stay there.

    A recorded program is predicted without the cost of recording it. The speed-up is over the unchunked program. If a
    schedule's file does not hold this program, the speed-up is over the same copies and kernels one by one.

    Several files of schedules and recordings give one table, relative to the best. So do several values with commas
    between them, in every combination: of --device, and for a workload of --chunks, --streams, --order, --buffers,
    --memory, --launch and --connections.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict workload.toml --chunks 10 --order prefetch --host-work 3ms
      streamsim predict workload.toml --chunks 16 --streams 4 --device a100 --set h2d.bandwidth=22GB/s
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --samples 1000
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
      streamsim predict workload.toml --chunks 1,4,16 --streams 4 --device a100,h200,rtx4090
      streamsim predict --layers layers.toml --depth 2 --resident embedding,head
      streamsim predict trace.json.gz
      streamsim predict schedule.json program.json --device a100,h200
      streamsim predict schedule.json --recording trace.json.gz
      streamsim predict schedule.json --device my-card.toml --connections 32 --json
    """  # noqa: D301 - click wants the backspace itself
    if others or any(isinstance(value, Listed) for value in options.values()):
        refuse(context, ("recording", "formulas", "samples", "fail_if", *["layers"] * bool(others)), ALONE)
        predict_several(context, others, plot, trace)
        return OK
    asked = work_of(context)
    work = asked.work
    prediction, between = predict(work.schedule, work.device, asked.bound), None
    if samples is not None:
        between = interval(work.schedule, work.device, samples, options["seed"])
    if plot is not None:
        save_picture(partial(plot_compared, prediction), plot)
    if trace is not None:
        write_trace(prediction.timeline, trace)
    if recording is not None:
        write_recording(prediction.timeline, recording)
    answer = prediction_answer(prediction, between, asked.assumed, options["formulas"], asked.inputs)
    return emit(answer, work.device)


take_several(predict_command, SEVERAL)


@click.command("sweep", cls=BriefCommand)
@pipeline_options
@device_options
@option("--file", "A TOML file with these options by name. Options on the command line win.", FILE)
@option("--output -o", "File to write: .csv or .jsonl. Default: standard output.", OUTPUT)
@formats(
    (*FORMATS, "table", MARKDOWN_FORM),
    "jsonl",
    "How to write it. Default: by the file's name; without a file, a table in a terminal and CSV in a pipe.",
)
@page_option
@option("--workers", "Processes on this machine.", click.IntRange(1, 1024))
@option("--dask", "A Dask cluster's scheduler, such as tcp://host:8786.", metavar="ADDRESS")
def sweep_command(
    file: Path | None,
    output: Path | None,
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
    form = click.get_current_context().meta.get(FORM)
    as_table = output is None and (form in ("table", MARKDOWN_FORM) or (form is None and sys.stdout.isatty()))
    kind = format_of(output or "stdout", None if as_table else form)
    if not (workers or dask or is_fast()):
        note(SLOW)
    with _executor(workers, dask) as executor:
        if as_table:
            emit(rows_answer(rows_for_table(sweep, executor), notes))
        elif output is None:
            print_data(header(kind, sweep.columns))
            for swept in sweep_blocks(sweep, executor=executor):
                print_data(encoded(kind, swept.rows))
            _say_left_out(swept)
            for line in notes:
                note(line)
        else:
            try:
                with progress_bar("sweeping") as progress:
                    swept = write_sweep(sweep, output, kind, executor, progress=progress)
            except KeyboardInterrupt:
                note("stopped; the same command goes on from here")
                raise
            _summarise(swept, output, notes)
    if page is not None and output is not None:
        found = list(read_rows(output, kind))
        command = "" if file else _predicting(found, given, sweep)
        answer = sweep_answer(found, sweep, command, notes)
        write_page(replace(answer, command=shlex.join(called())), page)


take_several(sweep_command, (*OF_WORKLOADS, *SEVERAL, "settings", "memory_limit", "front_end"), as_text=True)


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
    found = list[dict[str, Any]]()
    for swept in sweep_blocks(sweep, executor=executor):
        found += swept.rows
    _say_left_out(swept)
    return found


def _predicting(rows: list[dict[str, Any]], given: dict[str, list[str]], sweep: Sweep) -> str:
    """Return the command that predicts what all rows have in common, without the columns of the map.

    Empty where no command predicts a row.
    """
    varying = {name for name in rows[0] if len({row[name] for row in rows}) > 1} if rows else set[str]()
    arrays = {option for option, column in ARRAYS.items() if any(name.startswith(column) for name in varying)}
    if any(len(given.get(option, ())) != 1 for option in arrays):
        return ""
    shown = varying | arrays | {*longest_axes(sweep)}
    return predicting({f"--{name.removesuffix('_s').replace('_', '-')}" for name in shown})


def _say_left_out(swept: Swept) -> None:
    if swept.left_out:
        note(f"{counted(swept.left_out, 'combination')} left out, the first because {swept.why}")


def _summarise(swept: Swept, output: Path, notes: list[str]) -> None:
    _say_left_out(swept)
    if not output.is_file():  # the rows went where this would go
        return
    if (row := swept.fastest) is not None:
        found = ", ".join(f"{name} {row[name]}" for name in ("device", "chunks", "streams", "order"))
        within = row[WITHIN] or 0.0
        took, gain = format_seconds(row["makespan_s"], within), format_ratio(row["speedup"], within)
        rows = f"{counted(swept.total, 'row')} in {output}"
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
        for line in kernel_assumptions(workload, chunks, sweep.device_at(point), point.get("launch", PLAIN.launch)):
            yield f"in {chunks} chunks {line}"


def predicting(left_out: Container[str]) -> str:
    """Return the command that predicts the work which the current command is called for, by the same options.

    ``left_out``: options that stay away; of ``--set`` those that name several values do.
    """
    context = click.get_current_context()
    known = {param.opts[0] for param in predict_command.params if param.opts[0] not in left_out} - {*OF_OUTPUT}
    own = called()[called().index(context.info_name or "") + 1 :]
    given, _, _ = context.command.make_parser(context).parse_args(own)
    words = ["streamsim", "predict"]
    for param in context.command.params:
        values = given.get(param.name or "")
        for value in values if isinstance(values, list | tuple) else [values]:
            if param.opts[0] in known and isinstance(value, str) and not _is_range(param.opts[0], value):
                words += [param.opts[0], value] if isinstance(param, click.Option) else [value]
    return shlex.join(words)


def _is_range(option: str, value: str) -> bool:
    return option == "--set" and ("," in value or ".." in value)
