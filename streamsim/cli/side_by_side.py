"""Several configurations, devices or programs in one call: one table of all of them, relative to the best."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from streamsim.analysis import predict
from streamsim.answer import rows_answer, scenarios_of
from streamsim.cli.beside import write_beside
from streamsim.cli.given import Given
from streamsim.cli.options import DeviceOptions, Listed
from streamsim.cli.page import page_asked
from streamsim.cli.printing import emit
from streamsim.cli.sweep import rows_for_table, taken_for_granted
from streamsim.cli.work import on_own_card, workload_asked
from streamsim.device import Device, split_setting, within_words
from streamsim.displayed import attributes
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import Config
from streamsim.search import WITHIN, Sweep, sweep
from streamsim.text import one_line
from streamsim.timeline import Timeline

MOST_LINES = 12  # time lines in one picture, trace or page


def listed(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that were given several values."""
    return {name: value for name, value in options.items() if isinstance(value, Listed)}


def check_single(options: Iterable[str]) -> None:
    """Raise InputError for an option that needs a single program; ``options``: the names of those that were given."""
    for name in options:
        raise InputError(f"--{name}: needs a single program; give one, and one value of each option, or leave it out")


class Shown(NamedTuple):
    """Which files to write of several predictions."""

    plot: Path | None
    trace: Path | None


def print_configurations(params: Mapping[str, Any], chosen: DeviceOptions, shown: Shown) -> None:
    """Predict every combination of the values of the options that cut a workload, and of the devices."""
    settings = dict(split_setting(text, "NAME=VALUE such as h2d.latency=1us") for text in chosen.settings)
    more = {name: getattr(chosen, name) for name in ("connections", "memory_limit", "front_end")}
    more |= {name: params[name] for name in Config.__struct_fields__}
    asked = {name: str(value) for name, value in more.items() if value is not None}
    found = sweep(workload_asked(params), names_of(chosen), **asked, **({"set": settings} if settings else {}))
    rows = rows_for_table(found)
    lines = _time_lines(found, rows, shown)
    _show(rows, shown, lines, list(taken_for_granted(found)))


def names_of(chosen: DeviceOptions) -> list[Device | str]:
    """Return the devices that ``--device`` names, in their order."""
    device = chosen.device
    return [name.strip() for name in device.split(",")] if isinstance(device, str) else [device]


def print_programs(programs: Iterable[tuple[Path, Given]], chosen: DeviceOptions, shown: Shown) -> None:
    """Predict programs, each with its file, on every device that ``chosen`` names, by default on the programs' own."""
    rows: list[dict[str, Any]] = []
    lines: dict[str, Timeline] = {}
    links: dict[str, None] = {}
    for path, given in programs:
        for name in names_of(chosen):
            card = on_own_card(click.get_current_context(), replace(chosen, device=name), given).load()
            p = predict(given.schedule, card)
            times = {**attributes(p, "makespan_s", "serial_s", "speedup"), WITHIN: p.known_within or None}
            rows.append({"schedule": str(path), "device": card.name, "connections": card.connections, **times})
            lines[f"{path} on {card.name}"] = p.timeline
            links |= dict.fromkeys((f"{p.device}: {p.link}", *within_words(card)))
    _show(rows, shown, lines, list(links))


def _time_lines(sweep: Sweep, rows: Sequence[dict[str, Any]], shown: Shown) -> dict[str, Timeline]:
    """Return the time lines of the rows, where a file is to show them."""
    if not (shown.plot or shown.trace or page_asked()):
        return {}
    _check_few(rows, shown)
    return {words: simulate(*scenario) for words, scenario in scenarios_of(rows, sweep).items()}


def _check_few(rows: Sequence[Any], shown: Shown) -> None:
    for option, path in (("--plot", shown.plot), ("--trace", shown.trace), ("--page", page_asked())):
        if path is not None and len(rows) > MOST_LINES:
            raise InputError(
                one_line(f"{option} {path}: shows {MOST_LINES} time lines at most; give fewer than {len(rows)} values")
            )


def _show(rows: list[dict[str, Any]], shown: Shown, lines: Mapping[str, Timeline], notes: list[str]) -> None:
    """Write the files, then print the rows."""
    _check_few(rows, shown)
    write_beside(lines, shown.plot, shown.trace)
    emit(rows_answer(rows, notes, lambda: dict(lines)))
