"""What each effect in the model is worth: the error on the measured runs with it, and with it switched off.

One effect at a time, all other numbers as they were calibrated; schedules of pinned memory.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from shared import BLUE, FONT_PT, INK, LIGHT, SMALL_PT, Runs, main, tidy, title

from streamsim.device.profile import EFFECTS
from streamsim.device.variations import without
from streamsim_validate.compare import PAGEABLE, Profiles, percentile95, profiles_of, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.device.profile import Device

SIZE_IN = (7.2, 3.6)
BAR = 0.38


def draw(runs: Runs) -> Figure:
    """Draw two bars for each effect: the median and the 95th percentile of the errors without it."""
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.subplots()
    names, changes = list(ways()), list(ways().values())
    errors = [absolute_errors(runs, change) for change in changes]
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


def absolute_errors(runs: Runs, change: Callable[[Device], Device]) -> list[float]:
    """Of every schedule measured with pinned memory, each predicted with its run's own profile less an effect."""
    found = []
    for record in runs.records:
        profiles = {id(run): profiles_of(run, runs.device) for run in record.runs}
        rows = [
            row_of(entry, run, Profiles(change(profiles[id(run)].of(entry)), {})) for run, entry in record.measured()
        ]
        found += [abs(row.error) for row in rows if row.klass != PAGEABLE]
    return found


def ways() -> dict[str, Callable[[Device], Device]]:
    """By its words the model as it is, and without each effect that the calibration's probes show apart."""
    return {"the model": lambda device: device} | {
        words: partial(without_effect, effect=effect) for effect, words in EFFECTS.items() if effect != "launch"
    }


def without_effect(device: Device, effect: str) -> Device:
    """``device`` with one effect off."""
    return without(device, effect)


if __name__ == "__main__":
    main(__file__, draw)
