"""The best number of chunks and streams for a workload."""

from typing import TYPE_CHECKING, Any

import click

from streamsim.cli.notes import note, progress_bar
from streamsim.cli.options import (
    CHUNKS,
    COUNT,
    FILE,
    KERNEL,
    SIZE,
    Chosen,
    Pipeline,
    device_options,
    format_options,
)
from streamsim.cli.printing import print_csv, print_json
from streamsim.device import Device
from streamsim.garbage import collector_off
from streamsim.grid import HOST_MEMORIES, ORDERS, SLOW, Config, Grid, is_fast
from streamsim.patterns import Workload
from streamsim.ranges import chosen, parse_buffers
from streamsim.schedule import LAUNCHES, Launch

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.best import Best, Found

RINGS = "all,2,3,4,8"  # what is tried when the card's memory is too small or limited


@click.command("best")
@click.argument("workload", metavar="[WORKLOAD.toml]", type=FILE, required=False)
@click.option("--h2d", type=SIZE, multiple=True, help="Size of an input array, such as 64MiB. Repeatable.")
@click.option("--kernel", type=KERNEL, multiple=True, help="Time of a kernel over all the work, as for predict.")
@click.option("--d2h", type=SIZE, multiple=True, help="Size of an output array. Repeatable.")
@click.option("--h2d-once", type=SIZE, multiple=True, help="Size of an array copied once, before the first chunk.")
@click.option("--d2h-once", type=SIZE, multiple=True, help="Size of an array copied back once, after the last.")
@click.option("--elements", type=COUNT, help="Chunks are whole elements of so many, as for predict.")
@device_options
@click.option("--max-chunks", type=CHUNKS, default=256, show_default=True, help="Search 1 to this many chunks.")
@click.option("--max-streams", type=CHUNKS, default=32, show_default=True, help="Search 1 to this many streams.")
@click.option(
    "--orders",
    default="depth-first,breadth-first",
    show_default=True,
    help=f"Issue orders to search, separated by commas: {', '.join(ORDERS)}.",
)
@click.option(
    "--buffers",
    help="Device buffers used in turn, such as 2,3 or 2..8; all: one for every chunk. Default: all, and where that has"
    f" no room or with --memory-limit {RINGS}.",
)
@click.option("--memory", type=click.Choice(HOST_MEMORIES), default="pinned", show_default=True)
@click.option("--launch", type=click.Choice((*LAUNCHES, "both")), default="live", show_default=True)
@format_options
def best_command(
    device: str,
    connections: int | None,
    settings: tuple[str, ...],
    memory_limit: int | None,
    max_chunks: int,
    max_streams: int,
    orders: str,
    buffers: str | None,
    launch: str,
    form: str,
    **sizes: Any,
) -> None:
    """Find how many chunks and streams, in which order: exactly the optimum of the grid, by the full model.

    What to use is the simplest configuration within 1 % of the optimum: fewest chunks, then fewest streams. Ties
    are broken the same way.

    \b
    Examples:
      streamsim best --h2d 64MiB --kernel 0.57ms --d2h 64MiB --max-chunks 32 --max-streams 4
      streamsim best workload.toml --device a100 --max-chunks 16 --max-streams 4 --launch both --json
      streamsim best --h2d 1GiB --kernel 20ms --d2h 1GiB --max-chunks 32 --max-streams 4 --memory-limit 512MiB
    """  # noqa: D301 - click wants the backspace itself
    memory = sizes.pop("memory")
    pipeline = Pipeline(**sizes, chunks=1, streams=1, order="depth-first", buffers=None, memory=memory, launch="live")
    device_chosen = Chosen(device, connections, settings, memory_limit)
    workload, card = pipeline.load(), device_chosen.load()
    room = card.memory_bytes is None or Config().device_bytes(workload) <= card.memory_bytes
    grid = Grid(
        chunks=tuple(range(1, max_chunks + 1)),
        streams=tuple(range(1, max_streams + 1)),
        orders=chosen("orders", orders, ORDERS),
        buffers=parse_buffers(buffers or ("all" if room and memory_limit is None else RINGS)),
        launches=_launches(launch),
        memory=memory,
        memory_limit_bytes=memory_limit,
    )
    with collector_off():  # what the search and its imports make stays, and looking at it takes a tenth of it all
        _report(workload, card, grid, device_chosen, form)


def _launches(name: str) -> tuple[Launch, ...]:
    return tuple(launch for launch in LAUNCHES if name in (launch, "both"))


def _report(workload: Workload, card: Device, grid: Grid, asked_of: Chosen, form: str) -> None:
    import msgspec

    from streamsim.best import find_best

    if not is_fast():
        grid.within(card.memory_bytes).configs(workload)  # an empty grid is an error before anything else is said
        note(SLOW)
    with progress_bar("searching") as progress:
        best = find_best(workload, card, grid, progress)
    if form == "table":
        return _print_best(best)
    asked = msgspec.to_builtins(grid) | {
        "chunks": [grid.chunks[0], grid.chunks[-1]],
        "streams": [grid.streams[0], grid.streams[-1]],
    }
    sizes = {"h2d_bytes": workload.h2d_bytes, "d2h_bytes": workload.d2h_bytes}
    inputs = {"workload": msgspec.to_builtins(workload), **sizes, "grid": asked}
    value = best.to_json({**inputs, **asked_of.inputs()})
    return print_json(value) if form == "json" else print_csv([{k: v for k, v in value.items() if k != "inputs"}])


def _print_best(best: "Best") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table(best))
    proved = best.programs - best.simulated
    console.print(
        f"{best.programs} programs: {best.simulated} simulated, {proved} proved more than 10 % slower by their bounds.",
        style="dim",
    )
    if best.left_out:
        console.print(f"{best.left_out} programs of the grid were left out: {best.left_out_why}.")
    console.print(f"{best.device}: {best.link}", markup=False, soft_wrap=True)


def _table(best: "Best") -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    from streamsim.quantities import format_seconds

    table = Table(title=Text(f"best on {best.device}"), title_justify="left", show_header=False, box=SIMPLE)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for section in _sections(best):
        for name, seconds, remark in section:
            table.add_row(name, "" if seconds is None else format_seconds(seconds), remark)
        table.add_section()
    return table


Row = tuple[str, float | None, str]


def _sections(best: "Best") -> list[list[Row]]:
    from streamsim.best import FASTER
    from streamsim.quantities import format_bytes, format_change, format_seconds

    optimum = best.best.makespan_s
    times: list[Row] = [
        ("use", best.simplest.makespan_s, f"{_words(best.simplest)}: the simplest within 1 % of the optimum"),
        ("optimum", optimum, f"{_words(best.best)}; {format_bytes(best.device_bytes)} on the card"),
        ("serial", best.serial_s, f"the unchunked program, blocking copies; the optimum is {best.speedup:.2f}x"),
        (
            "usual",
            best.usual.makespan_s,
            f"{_words(best.usual)}{'' if best.usual_fits else ', which needs more memory than allowed'}:"
            f" the optimum is {best.gain(best.usual.makespan_s):.2f}x as fast",
        ),
    ]
    over = optimum / best.lower_bound_s - 1 if best.lower_bound_s else 0.0
    waits = max(best.critical_s, key=lambda name: best.critical_s[name])
    binds: list[Row] = [
        ("lower bound", best.lower_bound_s, f"by {best.bound_by}; the optimum is {over:.1%} above"),
        (
            "critical path",
            sum(best.critical_s.values()),
            f"{format_seconds(best.critical_s[waits])} of it {'on ' if waits != 'waiting' else ''}{waits}",
        ),
    ]
    low, high = best.flatness.chunks_within
    shares = ", ".join(f"{share:.1%} within {margin} %" for margin, share in best.flatness.share_within.items())
    flat: list[Row] = [
        ("flatness", None, f"{shares} of the optimum"),
        ("", None, f"{low} to {high} chunks stay within {best.flatness.range_percent} %, all else as it is"),
    ]
    gains: list[Row] = [
        (
            f"{name} {FASTER}x as fast",
            seconds,
            f"{format_change(seconds / optimum - 1 if optimum else 0.0)}, the optimum's configuration as it is",
        )
        for name, seconds in best.faster_s.items()
    ]
    return [times, binds, flat, gains]


def _words(found: "Found") -> str:
    config = found.config
    ring = f", {config.buffers} buffers" if config.buffers else ""
    graph = ", as a graph" if config.launch == "graph" else ""
    chunks, streams = (
        f"{n} {name}{'s' * (n != 1)}" for n, name in ((config.chunks, "chunk"), (config.streams, "stream"))
    )
    return f"{chunks} on {streams}, {config.order}{ring}{graph}"
