"""The pages of many configurations: the search for the best one, and a sweep."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.page.document import Page
from streamsim.page.maps import Map, map_of, spread
from streamsim.page.timelines import Shown
from streamsim.program import Config, Schedule, Workload
from streamsim.report import best_table, column_words, common_words, sweep_table, value_words
from streamsim.rules import TICKS_PER_S
from streamsim.search import CONFIG, RESULTS, WITHIN, Best, Sweep, evaluate_ticks, is_fast
from streamsim.text import counted, format_ratio, format_seconds

MOST_OPS = 30_000  # of all time lines of a page together
MOST_PROGRAMS = {True: 20_000, False: 300}  # predicted for a page: on the compiled model, and on SimPy
ROUND = frozenset(n << k for n in (2, 3) for k in range(12)) | {1}  # numbers that stand for those between them
OPTIONS = {  # the options of columns whose option has another name
    "h2d_bytes": "--h2d",
    "kernel_s": "--kernel",
    "d2h_bytes": "--d2h",
    "host_work_s": "--host-work",
    "host_load_s": "--host-load",
}


def best_page(found: Best[Any], command: str = "", assumed: Sequence[str] = ()) -> Page:
    """Return the page of a search: a map of its grid, and time lines of what to use and of others beside it.

    ``command``: predicts the workload on the device if the options of a configuration are added; empty if none does.
    """
    workload, card = found.work, found.card
    if found.grid is None or not isinstance(workload, Workload):
        return best_summary(found, assumed)
    configs = _some(found.grid.configs(workload), found)
    ticks = evaluate_ticks(workload, configs, card)
    rows = [{**_row(config), "makespan_s": t / TICKS_PER_S} for config, t in zip(configs, ticks, strict=True)]
    shown = map_of(rows, CONFIG, ("chunks", "streams"), _option)
    ones = (found.simplest, found.best, found.compared["usual"])
    kept = [configs.index(one.config) for one in ones if one.config in configs]
    shown = _with_lines(shown, kept, lambda row: configs[row].schedule(workload), lambda _: card)
    return replace(best_summary(found, assumed), map=replace(shown, command=command), lines=())


def best_summary(found: Best[Any], assumed: Sequence[str] = ()) -> Page:
    """Return the page of a search without the map: what to use, with its time line if it is a workload's."""
    use, work, table, within = found.simplest, found.work, best_table(found), found.known_within
    lines: tuple[Shown, ...] = ()
    if isinstance(work, Workload):
        lines = (Shown(use.words, simulate(use.config.schedule(work), found.card)),)
    first = next(iter(found.compared.values()))
    return Page(
        title=table.title,
        headline=(
            (format_seconds(use.makespan_s, within), f"use {use.words}"),
            (
                format_seconds(found.best.makespan_s, within),
                f"{'optimum' if found.exact else 'best found'}: {found.best.words}",
            ),
            (format_ratio(found.speedup, within), f"as fast as {first.words}"),
        ),
        lines=lines,
        tables=(table,),
        notes=(f"{found.device}: {found.link}", *assumed),
    )


def _row(config: Config) -> dict[str, Any]:
    return {**msgspec.structs.asdict(config), "buffers": config.slots}


def _some(configs: list[Config], found: Best[Any]) -> list[Config]:
    """Return all of ``configs``; if they are too many to predict here, those with round numbers and those found."""
    if len(configs) <= MOST_PROGRAMS[is_fast()]:
        return configs
    kept = {found.best.config, found.simplest.config, found.compared["usual"].config}
    some = [one for one in configs if one in kept or {one.chunks, one.streams} <= ROUND]
    step = max(1, len(some) // MOST_PROGRAMS[is_fast()])
    return [one for k, one in enumerate(some) if one in kept or k % step == 0]


def _with_lines(
    found: Map, kept: Iterable[int], schedule: Callable[[int], Schedule], device: Callable[[int], Device]
) -> Map:
    """Return the map with the time lines of some rows. The page first shows that of the first row in ``kept``."""
    lines: dict[int, Shown] = {}
    ops = 0
    for row in spread(found, kept):
        program = schedule(row)
        ops += len(program.ops)
        if ops > MOST_OPS and lines:
            break
        timeline = simulate(program, device(row))
        if round(timeline.makespan_s * TICKS_PER_S) == found.ticks[row]:  # a wrong time line is worse than none
            lines[row] = Shown(program.name or "schedule", timeline)
    return replace(found, lines=lines, first=next(iter(lines), None))


def longest_axes(sweep: Sweep) -> tuple[str, str]:
    """Return the two axes with the most values that are columns; of equal ones, chunks and streams first."""
    sizes = {axis.name: len(axis.values) for axis in sweep.axes if axis.name in sweep.columns}
    names = dict.fromkeys(("chunks", "streams", *sizes))
    first, second, *_ = sorted(names, key=lambda name: -sizes.get(name, 1))
    return first, second


def sweep_page(rows: Sequence[dict[str, Any]], sweep: Sweep, command: str = "", notes: Sequence[str] = ()) -> Page:
    """Return the page of a sweep's rows: a map over any two of its columns, first over its :func:`longest_axes`."""
    if not rows:
        raise InputError("--page: an empty sweep: no rows to show")
    names = [name for name in sweep.columns if name not in RESULTS]
    found = map_of(rows, names, longest_axes(sweep), _option)
    fastest = min(rows, key=lambda row: row["makespan_s"])
    within = fastest[WITHIN] or 0.0
    if points := _points(rows, sweep):
        found = _with_lines(
            found,
            [],
            lambda row: _config(rows[row]).schedule(sweep.workload_at(points[row])),
            lambda row: sweep.device(points[row]),
        )
    where = ", ".join(
        f"{column.name} {column.texts[place]}"
        for column, place in zip(found.columns, found.rows[rows.index(fastest)], strict=True)
    )
    return Page(
        title=f"sweep of {counted(len(rows), 'row')}",
        headline=(
            (format_seconds(fastest["makespan_s"], within), f"the fastest: {where}"),
            (format_ratio(fastest["speedup"], within), "as fast as its unchunked program with blocking copies"),
        ),
        map=replace(found, command=command),
        tables=(sweep_table(rows),),
        notes=(*common_words(rows), *notes),
    )


def scenarios_of(rows: Sequence[dict[str, Any]], sweep: Sweep) -> dict[str, tuple[Schedule, Device]]:
    """Return the schedule and the device of each row, by its configuration and device in words.

    There are none if a row does not tell the value of an axis.
    """
    found = {}
    for row, point in zip(rows, _points(rows, sweep), strict=False):
        config, device = _config(row), sweep.device(point)
        others = [name for name in point if name not in (*CONFIG, "device")]
        words = [config.words, *([config.memory] if config.memory != Config().memory else []), f"on {device.name}"]
        words += [f"{column_words(name)} {value_words(name, row[name])}" for name in others]
        found[", ".join(words)] = (config.schedule(sweep.workload_at(point)), device)
    return found


def _config(row: dict[str, Any]) -> Config:
    return Config(**{name: row[name] for name in CONFIG})


def _points(rows: Sequence[dict[str, Any]], sweep: Sweep) -> list[dict[str, Any]]:
    """Return the value of every axis for each row; nothing if a row does not tell the value of an axis."""
    single = {axis.name: axis.values[0] for axis in sweep.axes if len(axis.values) == 1}
    if any(axis.name not in sweep.columns for axis in sweep.axes if axis.name not in single):
        return []
    return [{**single, **{axis.name: row[axis.name] for axis in sweep.axes if axis.name not in single}} for row in rows]


def _option(name: str, value: Any) -> str:
    """Return the option of the command line that gives a column this value."""
    if value is None:
        return ""
    for column, option in OPTIONS.items():
        if name.startswith(column):
            return f"{option} {value}"
    return f"--set {name}={value}" if "." in name else f"--{name} {value}"
