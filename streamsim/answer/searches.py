"""Answers to what is best: a search, the rows of a sweep, and maps of many configurations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import ceil
from typing import Any

from msgspec.structs import asdict, replace

from streamsim.advice import Trial
from streamsim.analysis import BOUND_AS_ISSUED, BOUND_OF_WORK
from streamsim.answer.document import Answer, Pictures
from streamsim.answer.predictions import bound_fact, device_notes
from streamsim.device import Device
from streamsim.errors import InputError, counted
from streamsim.model import simulate
from streamsim.page import Map, Shown, column_words, map_of, spread, value_words
from streamsim.program import Config, Layers, Schedule, Workload
from streamsim.report import Fact, Table, facts
from streamsim.rules import TICKS_PER_S
from streamsim.search import CONFIG, RESULTS, WITHIN, Best, SimulatedProgram, Sweep, evaluate_ticks, is_fast
from streamsim.text import format_bytes, format_change, format_ratio, format_seconds
from streamsim.timeline import Timeline
from streamsim.transform import chunk_count

MOST_OPS = 30_000  # of all time lines of a map together
MOST_PROGRAMS = {True: 20_000, False: 300}  # predicted for a map: on the compiled model, and on SimPy
MOST_ROWS = 40  # of a table
LEAST_RISK = 1.01  # times what to use takes: less is no risk
ROUND = frozenset(n << k for n in (2, 3) for k in range(12)) | {1}  # numbers that stand for those between them
OPTIONS = {  # the options of columns whose option has another name
    "h2d_bytes": "--h2d",
    "kernel_s": "--kernel",
    "d2h_bytes": "--d2h",
    "host_work_s": "--host-work",
    "host_load_s": "--host-load",
}
NAMES = {"one_by_one": "pinned", "resident": "all stay", "before": "as it is"}


# The best


def best_answer(
    best: Best[Any],
    assumed: Sequence[str] = (),
    command: str = "",
    inputs: dict[str, Any] | None = None,
) -> Answer:
    """Return the answer of a search: what to use, what it is compared with, what binds, and how sure it is.

    ``command``: predicts the workload on the device if the options of a configuration are added; empty if none does.
    """
    work, within = best.work, best.known_within
    assumed = [*(work.assumed if isinstance(work, Layers) else ()), *assumed]
    notes, link = device_notes(best.device, best.link, best.card, assumed)
    groups = (_times(best), _risk(best), _conditions(best), _memory(best), _bound(best))
    more = [f"{counted(best.programs, 'program')}, {best.simulated:,} simulated."]
    described = ""
    if isinstance(work, Schedule):
        described = f": {counted(chunk_count(work), 'chunk')} of a program"
    elif isinstance(work, Layers):
        described = f": {work.words}"
        more.append(f"stay on the card: {', '.join(best.simplest.config.resident) or 'none'}")
    return Answer(
        title=f"best on {best.device}{described}",
        facts=facts("", groups, within),
        notes=(*_doubts(best), *notes),
        more=(*more, *link),
        pictures=partial(_pictures, best, command),
        data={**best.to_json(inputs), **({"assumed": assumed} if assumed else {})},
    )


def _named(best: Best[Any]) -> str:
    return "the optimum" if best.exact else "the best found"


def _times(best: Best[Any]) -> Iterator[Fact]:
    use, the_best = best.simplest, _named(best)
    found = "" if best.grid and best.exact else " found"
    why = f": the simplest{found} within {best.near_percent} % of {the_best}" if best.programs > 1 else ""
    yield "use", use.makespan_s, f"{_words(use)}{why}"
    if isinstance(best.work, Layers) and best.work.passes > 1:
        yield "a pass", use.makespan_s / best.work.passes, f"one of {best.work.passes}"
    on_card = f"; {format_bytes(best.best.device_bytes)} on the card" if best.best.device_bytes else ""
    yield "optimum" if best.exact else "best found", best.best.makespan_s, f"{_words(best.best)}{on_card}"
    for name, one in best.compared.items():
        room = "" if best.fits(one) else ", which needs more memory than allowed"
        gain = f"{the_best} is {format_ratio(best.ratio(one.makespan_s), best.known_within)} as fast"
        row = "unchunked" if name == "serial" and isinstance(best.work, Workload) else NAMES.get(name, name)
        yield row, one.makespan_s, f"{one.words}{room}: {gain}"


def _words(one: SimulatedProgram[Any]) -> str:
    """Return a program in words; changes of one as the options that make them."""
    return " ".join(one.options) if isinstance(one.config, Trial) and one.options else one.words


def _risk(best: Best[Any]) -> Iterator[Fact]:
    """Yield the time of what to use if the assumption is wrong that would hurt most; of a workload only."""
    work, use = best.work, best.simplest
    if not isinstance(work, Workload):
        return
    wrong = {"a kernel cannot be cut": Config(memory=use.config.memory)}
    if use.config.launch == "live":  # a graph copies no pageable memory
        wrong["the host memory is pageable"] = replace(use.config, memory="pageable")
    took = dict(zip(wrong, evaluate_ticks(work, list(wrong.values()), best.card), strict=True))
    worst = max(took, key=lambda name: took[name])
    seconds = took[worst] / TICKS_PER_S
    if seconds > LEAST_RISK * use.makespan_s:
        times = format_ratio(seconds / use.makespan_s, best.known_within)
        yield "risk", seconds, f"if {worst}: {times} as long as what to use"


def _conditions(best: Best[Any]) -> Iterator[Fact]:
    """Yield what the changes of a program to use assume."""
    if isinstance(best.simplest.config, Trial):
        yield from (("assumed", "", text) for text in best.simplest.config.assumes)


def _memory(best: Best[Any]) -> Iterator[Fact]:
    """Yield what layers need on the card and on the host."""
    if not isinstance(best.work, Layers):
        return
    use, reserved = best.simplest, best.simplest.config.reserve_bytes
    card = [] if best.memory_bytes is None else [f"at most {format_bytes(best.memory_bytes)} may be"]
    if reserved:
        card.append(f"{format_bytes(reserved)} reserved for context and activations")
    unless = " in each direction, unless a buffer still holds them" if best.work.direction == "both" else ""
    host = f"{len(use.more['streamed'])} layers, which each pass copies{unless}"
    yield "on the card", format_bytes(use.device_bytes), "; ".join(card)
    yield "pinned on the host", format_bytes(use.more["pinned_bytes"]), host
    yield "load", use.more["load_s"], "what stays, once, before the first pass; not counted above"


def _bound(best: Best[Any]) -> list[Fact]:
    name, bound = (BOUND_OF_WORK, best.work_bound) if best.work_bound else (BOUND_AS_ISSUED, best.issued_bound)
    return [bound_fact(name, bound, best.best.makespan_s, best.known_within, _named(best))]


def _doubts(best: Best[Any]) -> Iterator[str]:
    """Yield what is not known for certain, and what was not looked at."""
    if not best.exact and best.floor_s:
        percent = ceil(1000 * (1 - best.floor_s / best.best.makespan_s)) / 10
        more = " The budget of simulated ops is spent; --exact searches to the end." if best.grid else ""
        yield f"Not exact: another program may be at most {percent:.1f} % faster.{more}"
    elif not best.exact:
        yield "Not exact: only some numbers of chunks, streams and steps ahead are tried."
    if best.not_tried:
        yield f"A faster way is left out, as the program does not show its condition: {best.not_tried}."
    if best.left_out:
        most = format_bytes(best.memory_bytes or 0)
        yield f"{best.left_out} programs of the grid were left out: they need more than {most} on the card."
    if best.grid and "graph" in best.grid.launch and isinstance(best.work, Workload) and best.work.has_host_work:
        yield "Graphs were left out: the host cannot work between the steps of a graph."


def _pictures(best: Best[Any], command: str) -> Pictures:
    """Return the map of the grid, if there is one, with time lines of what to use and of others; else what to use."""
    workload, card = best.work, best.card
    if not isinstance(workload, Workload | Layers):
        return Pictures()
    if isinstance(workload, Layers) or best.grid is None:
        return Pictures.of({best.simplest.words: simulate(best.simplest.config.schedule(workload), card)})
    configs = _some(best.grid.configs(workload), best)
    ticks = evaluate_ticks(workload, configs, card)
    rows = [
        {**asdict(config), "buffers": config.slots, "makespan_s": tick / TICKS_PER_S}
        for config, tick in zip(configs, ticks, strict=True)
    ]
    shown = map_of(rows, CONFIG, ("chunks", "streams"), _option)
    ones = (best.simplest, best.best, best.compared["usual"])
    kept = [configs.index(one.config) for one in ones if one.config in configs]
    shown = _with_lines(shown, kept, lambda row: (configs[row].schedule(workload), card))
    return Pictures(map=replace(shown, command=command))


def _some(configs: list[Config], best: Best[Any]) -> list[Config]:
    """Return all of ``configs``; if they are too many to predict here, those with round numbers and those found."""
    if len(configs) <= MOST_PROGRAMS[is_fast()]:
        return configs
    kept = {best.best.config, best.simplest.config, best.compared["usual"].config}
    some = [one for one in configs if one in kept or {one.chunks, one.streams} <= ROUND]
    step = max(1, len(some) // MOST_PROGRAMS[is_fast()])
    return [one for k, one in enumerate(some) if one in kept or k % step == 0]


def _with_lines(found: Map, kept: Iterable[int], program: Callable[[int], tuple[Schedule, Device]]) -> Map:
    """Return the map with the time lines of some rows. The page first shows that of the first row in ``kept``."""
    lines: dict[int, Shown] = {}
    ops = 0
    for row in spread(found, kept):
        schedule, device = program(row)
        ops += len(schedule.ops)
        if ops > MOST_OPS and lines:
            break
        timeline = simulate(schedule, device)
        if round(timeline.makespan_s * TICKS_PER_S) == found.ticks[row]:  # a wrong time line is worse than none
            lines[row] = Shown(schedule.name or "schedule", timeline)
    return replace(found, lines=lines, first=next(iter(lines), None))


def _option(name: str, value: Any) -> str:
    """Return the option of the command line that gives a column this value."""
    if value is None:
        return ""
    for column, option in OPTIONS.items():
        if name.startswith(column):
            return f"{option} {value}{'s' if column.endswith('_s') else ''}"
    return f"--set {name}={value}" if "." in name else f"--{name} {value}"


# Rows


def rows_answer(
    rows: Sequence[dict[str, Any]], notes: Sequence[str], timelines: Callable[[], dict[str, Timeline]] = dict
) -> Answer:
    """Return the answer of rows of a sweep, with time lines of rows by their names if given."""
    return Answer(
        title=counted(len(rows), "prediction"),
        tables=(_rows_table(rows),) if rows else (),
        notes=(*(_common_words(rows) if rows else ()), *notes),
        pictures=lambda: Pictures.of(timelines()),
        data={"rows": list(rows)},
        rows=rows,
    )


def sweep_answer(rows: Sequence[dict[str, Any]], sweep: Sweep, command: str = "", notes: Sequence[str] = ()) -> Answer:
    """Return the answer of a sweep's rows: the fastest, and a map, first over its :func:`longest_axes`."""
    if not rows:
        raise InputError("--page: an empty sweep: no rows to show")
    fastest = min(rows, key=lambda row: float(row["makespan_s"]))
    within = fastest[WITHIN] or 0.0
    where = ", ".join(_told_of(fastest, name) for name in _varying(rows))
    gain = f"{format_ratio(fastest['speedup'], within)} as fast as its unchunked program with blocking copies"
    headline = ("the fastest", format_seconds(fastest["makespan_s"], within), "; ".join(filter(None, (where, gain))))
    answer = rows_answer(rows, notes)
    title = f"sweep of {counted(len(rows), 'row')}"
    drawn = partial(_map_of_rows, rows, sweep, command)
    return replace(answer, title=title, facts=facts("", [[headline]]), pictures=drawn)


def longest_axes(sweep: Sweep) -> tuple[str, str]:
    """Return the two axes with the most values that are columns; of equal ones, chunks and streams first."""
    sizes = {axis.name: len(axis.values) for axis in sweep.axes if axis.name in sweep.columns}
    names = dict.fromkeys(("chunks", "streams", *sizes))
    first, second, *_ = sorted(names, key=lambda name: -sizes.get(name, 1))
    return first, second


def _map_of_rows(rows: Sequence[dict[str, Any]], sweep: Sweep, command: str) -> Pictures:
    names = [name for name in sweep.columns if name not in RESULTS]
    found = map_of(rows, names, longest_axes(sweep), _option)
    if points := _points(rows, sweep):
        found = _with_lines(found, [], lambda row: _scenario(rows[row], points[row], sweep))
    return Pictures(map=replace(found, command=command))


def scenarios_of(rows: Sequence[dict[str, Any]], sweep: Sweep) -> dict[str, tuple[Schedule, Device]]:
    """Return the schedule and the device of each row, by what differs between the rows in words.

    There are none if a row does not tell the value of an axis.
    """
    points, varying = _points(rows, sweep), _varying(rows)
    words = [", ".join(_told_of(row, name) for name in varying) for row in rows]
    return {name: _scenario(row, point, sweep) for name, row, point in zip(words, rows, points, strict=False)}


def _scenario(row: dict[str, Any], point: dict[str, Any], sweep: Sweep) -> tuple[Schedule, Device]:
    config = Config(**{name: row[name] for name in CONFIG})
    return config.schedule(sweep.workload_at(point)), sweep.device_at(point)


def _told_of(row: dict[str, Any], name: str) -> str:
    return f"{column_words(name)} {value_words(name, row[name])}"


def _points(rows: Sequence[dict[str, Any]], sweep: Sweep) -> list[dict[str, Any]]:
    """Return the value of every axis for each row; nothing if a row does not tell the value of an axis."""
    single = {axis.name: axis.values[0] for axis in sweep.axes if len(axis.values) == 1}
    if any(axis.name not in sweep.columns for axis in sweep.axes if axis.name not in single):
        return []
    return [{**single, **{axis.name: row[axis.name] for axis in sweep.axes if axis.name not in single}} for row in rows]


def _common_words(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line that says what all rows have in common; none if nothing is. There is at least one row."""
    varying, row = _varying(rows), rows[0]
    common = [_told_of(row, name) for name in _told(rows) if row[name] is not None and name not in varying]
    return [f"all with {', '.join(common)}"] if common else []


def _rows_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows, in their order if there are at most 40, else the 40 fastest; at least one row.

    The table has no column for what all rows have in common; a note says it.
    """
    varying = _varying(rows)
    best_s = min(row["makespan_s"] for row in rows)
    roughly = max(row[WITHIN] or 0.0 for row in rows)
    few = len(rows) <= MOST_ROWS
    shown = rows if few else sorted(rows, key=lambda row: float(row["makespan_s"]))[:MOST_ROWS]
    title = "" if few else f"the {MOST_ROWS} fastest of {len(rows):,} rows"
    heads = (*map(column_words, varying), "time", "above the best", "speed-up")
    found = tuple(
        (
            *(value_words(name, row[name]) for name in varying),
            format_seconds(row["makespan_s"], row[WITHIN] or 0.0),
            format_change(row["makespan_s"] / best_s - 1 if best_s else 0.0, roughly),
            format_ratio(row["speedup"], row[WITHIN] or 0.0),
        )
        for row in shown
    )
    return Table(title, (found,), heads, frozenset(range(len(heads))))


def _varying(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in _told(rows) if len({row[name] for row in rows}) > 1]


def _told(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns that say what was predicted; connections that every device has of its own are left out."""
    cards = {row["device"] for row in rows}
    own = len(cards) > 1 and len(cards) == len({(row["device"], row["connections"]) for row in rows})
    return [name for name in rows[0] if name not in RESULTS and not (own and name == "connections")]
