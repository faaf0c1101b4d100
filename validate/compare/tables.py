"""A comparison for people (text) and for programs (JSON, CSV)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from streamsim.report.text import gantt
from streamsim_validate.compare import program_tables
from streamsim_validate.compare.comparison import FRONT_END
from streamsim_validate.compare.predictions import time_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim.device.profile import Device
    from streamsim_validate.compare.comparison import Absent, Choice, Comparison, Row, Summary
    from streamsim_validate.compare.coverage import Coverage
    from streamsim_validate.compare.profiles import Drift
    from streamsim_validate.compare.tolerance import Verdict
    from streamsim_validate.records import Record

US_PER_S = 1e6
PERCENT = 100
FEW = 60  # schedules that are listed without being asked for
FEW_ABSENT = 5  # of those without a prediction or a measurement, likewise
WITHIN = 0.01  # of the best measured: a good choice
MOVED = 0.10  # of a profile's number: said in the text
GANTT_COLUMNS = 100
NAME_WIDTH = 30


# For people


def to_text(
    comparison: Comparison,
    verdicts: Sequence[Verdict] = (),
    every: bool = False,
    covered: dict[str, Coverage] | None = None,
    most: int = 10,
) -> str:
    """Return the summary, then the ``most`` worst predicted schedules, then the other tables.

    ``covered``: by class. Every schedule is listed if there are few, or with ``every``.
    """
    is_of_programs = comparison.is_of_programs
    said = (
        ("class", FRONT_END)
        if len({row.connections for row in comparison.rows}) > 1
        else ("class", FRONT_END, "connections")
    )
    others = {kind: groups for kind, groups in comparison.summaries.items() if kind not in said}
    sections = [
        [title(comparison)],
        _classes(comparison),
        *(program_tables.to_lines(comparison) if is_of_programs else ()),
        [] if covered is None else _covered(covered),
        [] if is_of_programs else list(_choice_summary(comparison.choices)),
        [f"{'FAILED' if v.failed else 'ok':<7}{v.text}: is {v.value:.2%}" for v in verdicts],
        list(_absent("not predicted", comparison.unpredicted)),
        list(_absent("not measured", comparison.unmeasured)),
        _schedules("the worst predicted, pageable memory left out", comparison.worst(most)),
        *(_errors(f"model, by {kind}", groups) for kind, groups in others.items()),
        _formulas(comparison),
        list(_choices(comparison.choices)),
        list(_drift(comparison)),
        _schedules("every schedule", comparison.rows) if every or len(comparison.rows) <= FEW else [],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def title(comparison: Comparison) -> str:
    """Return what was compared, in one line."""
    what = "programs" if comparison.is_of_programs else "schedules"
    return f"{comparison.card}, {comparison.suite}: {len(comparison.rows)} {what}, profile {comparison.device}"


def _classes(comparison: Comparison) -> list[str]:
    """Return the errors by class, with those of the whole program and the best formula's unless they are programs."""
    groups = comparison.summaries["class"]
    if not groups:
        return []
    heading, *lines = _errors("model, by class", groups, with_worst=False)
    if comparison.is_of_programs:
        return [heading, *lines]
    wall = comparison.wall
    found = [f"{heading}  wall: median     p95  best formula: times the model's median"]
    for line, name in zip(lines, groups, strict=True):
        formula, times = comparison.margin(name)
        found.append(f"{line}  {wall[name].median:12.2%} {wall[name].p95:7.2%}  {formula}: {times:.1f}")
    return found


def _schedules(title: str, rows: Sequence[Row]) -> list[str]:
    heading = f"{'measured us':>12} {'predicted us':>12} {'error':>7} {'noise':>6}  {'class':<12} conn.  schedule"
    return [title, heading, *map(_schedule, rows)] if rows else []


def _schedule(row: Row) -> str:
    times = f"{row.measured_s * US_PER_S:12.1f} {row.predicted_s * US_PER_S:12.1f}"
    return f"{times} {row.error:+7.1%} {row.noise:6.1%}  {row.klass:<12} {row.connections:>5}  {row.key}"


def _errors(title: str, groups: dict[str, Summary], with_worst: bool = True) -> list[str]:
    """Return the table, or nothing for a single group, which is the whole, unless it is of the classes."""
    if len(groups) < 1 + with_worst:
        return []
    heading = f"{title:<{NAME_WIDTH}} {'n':>5} {'median':>7} {'p95':>7} {'worst':>7} {'bias':>7} {'noise':>6}"
    ends = [f"  worst: {s.worst_key}" if with_worst else "" for s in groups.values()]
    return [heading, *(_summary(*group) + end for group, end in zip(groups.items(), ends, strict=True))]


def _summary(name: str, s: Summary) -> str:
    errors = f"{s.median:7.2%} {s.p95:7.2%} {s.worst:7.2%} {s.bias:+7.2%} {s.noise:6.2%}"
    return f"  {name:<{NAME_WIDTH - 2}} {s.n:>5} {errors}"


def _covered(covered: dict[str, Coverage]) -> list[str]:
    title = f"90 % intervals, measured {'n':>5} {'inside':>7} {'below':>7} {'above':>7}  width: mean  median"
    return [title, *(_share(klass, c) for klass, c in covered.items())]


def _share(klass: str, c: Coverage) -> str:
    shares = f"{c.inside:7.1%} {c.below:7.1%} {c.above:7.1%}"
    return f"  {klass:<22} {c.n:>5} {shares}      {c.mean_width:7.2%} {c.median_width:7.2%}"


def _formulas(comparison: Comparison) -> list[str]:
    """Return the median and the 95th percentile of the errors of each formula, in a column for each class."""
    if not comparison.formulas:
        return []
    classes = comparison.summaries["class"]
    rows = {"model": classes, **comparison.formulas}
    found = ["median and 95th percentile " + "".join(f"{name:>18}" for name in classes)]
    for name, groups in rows.items():
        cells = (f"{groups[group].median:9.2%} {groups[group].p95:8.2%}" for group in classes)
        found.append(f"  {name:<25}" + "".join(cells))
    return found


def _choice_summary(choices: Sequence[Choice]) -> Iterator[str]:
    if choices:
        good = sum(choice.regret <= WITHIN for choice in choices)
        yield (
            f"choice: within {WITHIN:.0%} of the best measured for {good} of {len(choices)} workloads"
            f" ({good / len(choices):.1%}), {max(choice.regret for choice in choices):.2%} off at worst"
        )


def _choices(choices: Sequence[Choice]) -> Iterator[str]:
    far = sorted((choice for choice in choices if choice.regret > WITHIN), key=lambda choice: -choice.regret)
    if far:
        yield f"choice: not within {WITHIN:.0%} of the best measured"
    for choice in far:
        names = f"picked {choice.picked}, best {choice.best}"
        yield f"  {choice.regret:+7.2%} noise {choice.noise:.2%}  connections={choice.connections}  {names}"


def _absent(what: str, absent: Sequence[Absent]) -> Iterator[str]:
    """Yield the first of them; how many more there are."""
    for one in absent[:FEW_ABSENT]:
        yield f"{what}  connections={one.connections}  {one.key}: {one.reason}"
    if len(absent) > FEW_ABSENT:
        yield f"{what}  {len(absent) - FEW_ABSENT} more: --json has them all"


def _drift(comparison: Comparison) -> Iterator[str]:
    for drift in comparison.drift:
        yield from _call_drift(drift)
        yield from _link_drift(drift)
        moved = {name: change for name, change in drift.changes.items() if abs(change) > MOVED}
        names = ", ".join(f"{name} {change:+.0%}" for name, change in sorted(moved.items(), key=lambda i: -abs(i[1])))
        if drift.changes:
            yield (
                f"drift  connections={drift.connections}: {len(moved)} of the profile's {len(drift.changes)} numbers"
                f" moved by more than {MOVED:.0%} during the run" + (f": {names}" if names else "")
            )


def _call_drift(drift: Drift) -> Iterator[str]:
    if drift.groups:
        low, high = drift.calls
        moved = f"{low:+z.0%}..{high:+z.0%}"
        yield f"drift  connections={drift.connections}: the host's calls in {drift.groups} groups: {moved}"


def _link_drift(drift: Drift) -> Iterator[str]:
    if drift.links:
        low, middle, high = drift.links
        times = f"{low:.2f}..{high:.2f}, mostly {middle:.2f} times as long as calibrated"
        yield f"drift  connections={drift.connections}: copies both ways at once beside the samples: {times}"


def time_lines_text(record: Record, comparison: Comparison, device: Device | None, most: int) -> str:
    """Return the predicted and, where the record has it, the measured time line of the worst predicted schedules."""
    parts = []
    for row in comparison.worst(most):
        predicted, measured = time_lines(record, row, device)
        within = f", within {row.noise:.1%} of noise" if row.is_noise else ""
        lines = [f"{row.error:+.1%}{within}: connections={row.connections} {row.key}", "predicted"]
        lines.append(gantt(predicted, GANTT_COLUMNS))
        if measured is not None:
            lines += ["measured, traced", gantt(measured, GANTT_COLUMNS)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


# For programs


def to_json(
    comparison: Comparison,
    verdicts: Sequence[Verdict] = (),
    most: int = 10,
    covered: dict[str, Coverage] | None = None,
) -> dict[str, Any]:
    """Return plain values; units are in the names, errors in percent. ``coverage`` is null unless asked for."""
    choices = comparison.choices
    regrets = [choice.regret for choice in choices]
    return {
        "card": comparison.card,
        "suite": comparison.suite,
        "device": comparison.device,
        "summaries": {kind: _plain_groups(groups) for kind, groups in comparison.summaries.items()},
        "wall": _plain_groups(comparison.wall),
        "coverage": None if covered is None else {klass: _plain_coverage(c) for klass, c in covered.items()},
        "formulas": {name: _plain_groups(groups) for name, groups in comparison.formulas.items()},
        "margins": {
            group: _plain_margin(comparison, group) for group in comparison.summaries["class"] if comparison.formulas
        },
        **({"programs": program_tables.to_json(comparison)} if comparison.is_of_programs else {}),
        "choice": {
            "n": len(choices),
            "within_1_percent_percent": _share_percent(regrets),
            "worst_percent": max(regrets) * PERCENT if regrets else None,
            "workloads": [_plain_choice(choice) for choice in choices],
        },
        "tolerances": [
            {"text": v.text, "value_percent": v.value * PERCENT, "limit_percent": v.limit * PERCENT, "failed": v.failed}
            for v in verdicts
        ],
        "drift": [_plain_drift(drift) for drift in comparison.drift],
        "worst": [{"connections": row.connections, "key": row.key} for row in comparison.worst(most)],
        "unpredicted": [_plain_absent(one) for one in comparison.unpredicted],
        "unmeasured": [_plain_absent(one) for one in comparison.unmeasured],
        "schedules": [plain_row(row) for row in comparison.rows],
    }


def _plain_coverage(c: Coverage) -> dict[str, Any]:
    return {
        "n": c.n,
        "inside_percent": c.inside * PERCENT,
        "below_percent": c.below * PERCENT,
        "above_percent": c.above * PERCENT,
        "mean_width_percent": c.mean_width * PERCENT,
        "median_width_percent": c.median_width * PERCENT,
    }


def _plain_margin(comparison: Comparison, group: str) -> dict[str, Any]:
    name, times = comparison.margin(group)
    return {"best_formula": name, "its_median_over_the_models": times if math.isfinite(times) else None}


def _plain_drift(drift: Drift) -> dict[str, Any]:
    return {
        "connections": drift.connections,
        "changes_percent": {name: change * PERCENT for name, change in drift.changes.items()},
        "groups": drift.groups,
        "calls_percent": {"host": [move * PERCENT for move in drift.calls]} if drift.groups else {},
        "link_times": list(drift.links),
    }


def _share_percent(regrets: Sequence[float]) -> float | None:
    return sum(regret <= WITHIN for regret in regrets) / len(regrets) * PERCENT if regrets else None


def _plain_groups(groups: dict[str, Summary]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "n": s.n,
            "median_percent": s.median * PERCENT,
            "p95_percent": s.p95 * PERCENT,
            "worst_percent": s.worst * PERCENT,
            "bias_percent": s.bias * PERCENT,
            "noise_percent": s.noise * PERCENT,
            "worst_key": s.worst_key,
        }
        for name, s in groups.items()
    }


def to_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a flat row for every schedule; ``status`` says why one has no prediction or no measurement."""
    absent = [("not predicted", one) for one in comparison.unpredicted]
    absent += [("not measured", one) for one in comparison.unmeasured]
    others = [
        {"key": one.key, "connections": one.connections, "status": f"{what}: {one.reason}"} for what, one in absent
    ]
    return [*map(plain_row, comparison.rows), *others]


def plain_row(row: Row) -> dict[str, Any]:
    """Return a schedule as one flat object but for its formulas."""
    return {
        "key": row.key,
        "connections": row.connections,
        "status": "ok",
        "class": row.klass,
        "pattern": row.pattern,
        "effect": row.effect,
        "measured_s": row.measured_s,
        "predicted_s": row.predicted_s,
        "error_percent": row.error * PERCENT,
        "noise_percent": row.noise * PERCENT,
        "wall_s": row.wall_s,
        "wall_predicted_s": row.wall_predicted_s,
        "wall_error_percent": row.wall_error * PERCENT,
        "issue_s": row.issue_s,
        "formulas_s": row.formulas_s,
        **({"front_end": row.front_end, "at_speed_s": row.at_speed_s} if row.front_end else {}),
    }


def _plain_choice(choice: Choice) -> dict[str, Any]:
    return {
        "workload": choice.workload,
        "connections": choice.connections,
        "picked": choice.picked,
        "best": choice.best,
        "picked_s": choice.picked_s,
        "best_s": choice.best_s,
        "regret_percent": choice.regret * PERCENT,
        "noise_percent": choice.noise * PERCENT,
    }


def _plain_absent(one: Absent) -> dict[str, Any]:
    return {"key": one.key, "connections": one.connections, "reason": one.reason}
