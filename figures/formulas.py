"""Share of the schedules that the model, and each published formula, predicts within a given error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter
from shared import BLUE, DARK, INK, LIGHT, ORANGE, PALE, PURPLE, RANDOM, SMALL_PT, Runs, main, tidy, title

from streamsim_validate.compare import PAGEABLE, percentile95

SIZE_IN = (7.2, 5.0)
LEAST, MOST = 1e-3, 1.0  # errors, of the axis
STYLES = ((PURPLE, "-"), (ORANGE, "-"), (LIGHT, "-"), (DARK, "--"), (PALE, "-"))


def draw(runs: Runs) -> Figure:
    """Draw the distribution of the absolute errors of the model, of the formulas, and of the measurement itself."""
    rows = [row for row in runs.rows() if row.klass != PAGEABLE]
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.subplots()
    _steps(axes, [abs(row.error) for row in rows], "the model", color=BLUE, linewidth=2.4)
    for name, (colour, dashes) in zip(rows[0].formulas_s, STYLES, strict=True):
        errors = [abs(row.formulas_s[name] / row.measured_s - 1) for row in rows]
        _steps(axes, errors, name, color=colour, linestyle=dashes, linewidth=1.4)
    _steps(axes, [row.noise for row in rows], "spread of the runs", color=INK, linestyle=":", linewidth=1.0)
    _frame(axes)
    title(axes, f"{runs.cards}: model and formulas on {len(rows)} runs (pinned memory)")
    figure.legend(fontsize=SMALL_PT, frameon=False, loc="outside lower center", ncols=2)
    return figure


def _steps(axes: Any, errors: Sequence[float], name: str, **style: Any) -> None:
    ordered = sorted(max(error, LEAST) for error in errors)
    shares = [(i + 1) / len(ordered) for i in range(len(ordered))]
    middle = ordered[(len(ordered) - 1) // 2]
    label = f"{name}: median {middle:.1%}, 95 % within {percentile95(ordered):.1%}"
    axes.step([LEAST, *ordered], [0.0, *shares], where="post", label=label, **style)


def _frame(axes: Any) -> None:
    for share in (0.5, 0.95):
        axes.axhline(share, color=DARK, linewidth=0.6, zorder=0)
    axes.set(xscale="log", xlim=(LEAST, MOST), ylim=(0, 1.01), xlabel="absolute error of the predicted time")
    axes.set_ylabel("share of the schedules with at most that error")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.1%}" if x < 0.01 else f"{x:.0%}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    tidy(axes)


if __name__ == "__main__":
    main(__file__, draw, RANDOM)
