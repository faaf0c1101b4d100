"""Several configurations, devices or programs in one call: one table of all of them, relative to the best."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from streamsim.analysis import predict
from streamsim.answer import rows_answer, scenarios_of
from streamsim.cli.given import LOOP, PROGRAM, kind_of_file
from streamsim.cli.options import DeviceOptions, Listed, picked
from streamsim.cli.printing import emit, page_asked, write_beside
from streamsim.cli.sweep import rows_for_table, taken_for_granted
from streamsim.cli.work import Issued, programs_of, read_issued, work_on, workload_asked
from streamsim.device import Device, split_setting, within_words
from streamsim.displayed import attributes
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Config
from streamsim.search import WITHIN, sweep
from streamsim.timeline import Timeline

MOST_LINES = 12  # time lines in one picture, trace or page


class _Found(NamedTuple):
    """Rows of predictions, notes on them, and what makes their time lines, by their names."""

    rows: list[dict[str, Any]]
    notes: list[str]
    lines: Callable[[], dict[str, Timeline]]


def predict_several(context: click.Context, others: tuple[Path, ...], plot: Path | None, trace: Path | None) -> None:
    """Predict several configurations, or programs on several devices. Write the files, then print the rows."""
    paths = [path for path in (context.params["workload"], *others) if path]
    layers = context.params["layers"]
    if others:
        rows, notes, lines = _programs(context, programs_of(context, paths))
    elif layers or (paths and kind_of_file(paths[0]) in (PROGRAM, LOOP)):
        rows, notes, lines = _programs(context, [(layers or paths[0], read_issued(context))])
    else:
        rows, notes, lines = _configurations(context.params)
    for option, path in (("--plot", plot), ("--trace", trace), ("--page", page_asked())):
        if path is not None and len(rows) > MOST_LINES:
            most = f"shows {MOST_LINES} time lines at most; give fewer than {len(rows)} values"
            raise InputError(f"{option} {path}: {most}")
    if plot or trace:
        write_beside(lines(), plot, trace)
    emit(rows_answer(rows, notes, lines))


def _configurations(params: dict[str, Any]) -> _Found:
    """Predict every combination of the values of the options that cut a workload, and of the devices."""
    more = {name: params[name] for name in ("connections", "memory_limit", "front_end", *Config.__struct_fields__)}
    asked: dict[str, Any] = {name: str(value) for name, value in more.items() if value is not None}
    if params["settings"]:
        asked["set"] = dict(split_setting(text, "NAME=VALUE such as h2d.latency=1us") for text in params["settings"])
    found = sweep(workload_asked(params), names_of(params["device"]), **asked)
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
        for name in names_of(asked.device):
            work = work_on(context, issued, replace(asked, device=name)).work
            p, card = predict(work.schedule, work.device), work.device
            times = {**attributes(p, "makespan_s", "serial_s", "speedup"), WITHIN: p.known_within or None}
            rows.append({"schedule": str(path), "device": card.name, "connections": card.connections, **times})
            lines[f"{path} on {card.name}"] = p.timeline
            links |= dict.fromkeys((f"{p.device}: {p.link}", *within_words(card)))
    return _Found(rows, list(links), lambda: lines)


def names_of(device: Device | str) -> list[Device | str]:
    """Return the devices that ``--device`` names, in their order."""
    return [name.strip() for name in device.split(",")] if isinstance(device, str) else [device]
