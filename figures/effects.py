"""What each effect in the model is worth: the error on the measured runs with it, and with it switched off.

One effect at a time, all other numbers as they were calibrated; schedules of pinned memory.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from shared import BLUE, FONT_PT, INK, LIGHT, SMALL_PT, Runs, main, tidy, title

from streamsim.checks import LARGEST_BYTES
from streamsim_validate.compare import PAGEABLE, percentile95, profiles_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.device.profile import Device

SIZE_IN = (7.2, 3.6)
BAR = 0.38
replace = msgspec.structs.replace


def draw(runs: Runs) -> Figure:
    """Draw two bars for each effect: the median and the 95th percentile of the errors without it."""
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.subplots()
    names = list(EFFECTS)
    errors = [absolute_errors(runs, EFFECTS[name]) for name in names]
    for value, colour, shift, label in ((median, BLUE, -0.5, "median"), (percentile95, LIGHT, 0.5, "95th percentile")):
        ys = [y + shift * BAR for y in range(len(names))]
        bars = axes.barh(ys, [value(found) for found in errors], BAR, color=colour, label=label)
        axes.bar_label(bars, fmt=lambda share: f"{share:.1%}", padding=3, fontsize=SMALL_PT, color=INK)
    axes.set_yticks(range(len(names)), names, fontsize=FONT_PT)
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("absolute error of the predicted time")
    axes.margins(x=0.1)
    axes.legend(fontsize=SMALL_PT, frameon=False, loc="upper right")
    tidy(axes)
    title(axes, f"The model without one of its effects, on {len(errors[0])} measured schedules")
    return figure


def absolute_errors(runs: Runs, without: Callable[[Device], Device]) -> list[float]:
    """Of every schedule measured with pinned memory, each predicted with its run's own profile less an effect."""
    found = []
    for record in runs.records:
        profiles = {id(run): profiles_of(run, runs.device) for run in record.runs}
        rows = [row_of(entry, run, without(profiles[id(run)].of(entry))) for run, entry in record.measured()]
        found += [abs(row.error) for row in rows if row.klass != PAGEABLE]
    return found


# The effects, switched off. Fields are named by their endings: what a profile has beside them stays as it is.


def _with_link(device: Device, field: Callable[[str], str | None]) -> Device:
    """Both directions with other numbers: ``field`` names the number that takes a field's place, or "" for zero."""
    sides = {}
    for side in ("h2d", "d2h"):
        link = getattr(device, side)
        changed = {name: field(name) for name in link.__struct_fields__}
        numbers = {name: getattr(link, to) if to else 0.0 for name, to in changed.items() if to is not None}
        sides[side] = replace(link, **numbers)
    return replace(device, **sides)


def _zeros(device: Device, part: str) -> Device:
    """Every time of a part is zero."""
    value: Any = getattr(device, part)
    times = dict.fromkeys((name for name in value.__struct_fields__ if name.endswith("_s")), 0.0)
    return replace(device, **{part: replace(value, **times)})


def _lone(name: str) -> str | None:
    return name.replace("duplex_", "") if "duplex_" in name else None


def _quiet(name: str) -> str | None:
    return name.replace("crowded_", "") if "crowded_" in name and name != "crowded_bytes" else None


def _slow_to_the_end(device: Device) -> Device:
    sides = {side: replace(getattr(device, side), crowded_bytes=LARGEST_BYTES) for side in ("h2d", "d2h")}
    return replace(device, **sides)


def _no_latency(name: str) -> str | None:
    return "" if name.endswith("latency_s") else None


def _no_overlap_of_kernels(device: Device) -> Device:
    return replace(device, compute=replace(device.compute, concurrent_kernels=1))


def _copies_in_issue_order(device: Device) -> Device:
    return replace(device, copy_engines=replace(device.copy_engines, arbitration="issue-order"))


EFFECTS: dict[str, Callable[[Device], Device]] = {
    "the model": lambda device: device,
    "no contention of directions": lambda device: _with_link(device, _lone),
    "copies feel no crowd": lambda device: _with_link(device, _quiet),
    "crowds slow all bytes of a copy": _slow_to_the_end,
    "no latency of copies": lambda device: _with_link(device, _no_latency),
    "no hand-over between engines": lambda device: _zeros(device, "hand_over"),
    "calls cost the same over many streams": lambda device: replace(device, host=replace(device.host, streams_s=0.0)),
    "host calls cost nothing": lambda device: _zeros(device, "host"),
    "copies in issue order": _copies_in_issue_order,
    "kernels one by one": _no_overlap_of_kernels,
}


if __name__ == "__main__":
    main(__file__, draw)
