"""Tables of a comparison of programs: errors by front end beside the goals, the choice, the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND
from streamsim_validate.compare.program_rows import BEYOND, MOVED, TWO_SPEEDS, host_speeds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim_validate.compare.comparison import Choice, Comparison, Summary
    from streamsim_validate.compare.program_rows import HostSpeeds

PERCENT = 100
GOALS = {DEVICE_BOUND: (0.02, BEYOND[DEVICE_BOUND]), HOST_BOUND: (0.08, BEYOND[HOST_BOUND])}  # median, 95th percentile
WITHIN, GOAL_WITHIN = 0.05, 0.95  # of the best measured: a good choice; of so many workloads
NAME_WIDTH = 30


def to_lines(comparison: Comparison) -> Iterator[list[str]]:
    """Yield sections of lines: errors beside the goals, the choice, the host."""
    yield _errors("wall time, by front end", comparison.by_front_end())
    yield _errors("with calls as fast as each shows", comparison.by_front_end(lambda row: row.at_speed_error))
    yield list(_choices(comparison))
    yield [line for name in comparison.front_ends for line in _host(name, speeds_of(comparison, name))]


def _errors(title: str, groups: dict[str, Summary]) -> list[str]:
    heading = (
        f"{title:<{NAME_WIDTH + 2}} {'n':>5} {'median':>7} {'goal':>5} {'p95':>7} {'goal':>5} {'worst':>7} {'bias':>7}"
    )
    return [heading, *(_row(name, summary) for name, summary in groups.items())]


def _row(name: str, s: Summary) -> str:
    median, p95 = GOALS[_class_of(name)]
    errors = f"{s.median:7.1%} {median:5.0%} {s.p95:7.1%} {p95:5.0%} {s.worst:7.1%} {s.bias:+7.1%}"
    return f"  {name:<{NAME_WIDTH}} {s.n:>5} {errors}"


def _class_of(name: str) -> str:
    return name.rpartition(" ")[2]


def choices_of(comparison: Comparison, front_end: str) -> list[Choice]:
    """Return what following the model costs for each workload of a front end."""
    return [choice for choice in comparison.choices if choice.workload.startswith(f"{front_end}: ")]


def _choices(comparison: Comparison) -> Iterator[str]:
    for name in comparison.front_ends:
        choices = choices_of(comparison, name)
        if choices:
            good, worst = share_within(choices), max(choice.regret for choice in choices)
            yield (
                f"choice, {name}: within {WITHIN:.0%} of the best measured for {good:.0%} of {len(choices)} workloads"
                f" (goal {GOAL_WITHIN:.0%}), {worst:.1%} off at worst"
            )
            moved = sum(choice.regret > WITHIN and _at_other_speeds(comparison, choice) for choice in choices)
            if moved:
                yield f"  of the others {moved} had the best measured while calls took less time than for the pick"


def _at_other_speeds(comparison: Comparison, choice: Choice) -> bool:
    """Return whether the host was faster while the best was measured than it was for the pick."""
    speeds = {(row.connections, row.key): row.speeds for row in comparison.rows}
    picked, best = (speeds[choice.connections, key] for key in (choice.picked, choice.best))
    return bool(picked and best) and max(picked) > MOVED * max(best)


def share_within(choices: Sequence[Choice]) -> float:
    """Return the share of choices that are about as good as the best measured."""
    return sum(choice.regret <= WITHIN for choice in choices) / len(choices)


def speeds_of(comparison: Comparison, front_end: str) -> HostSpeeds | None:
    """Return how fast the host was beside the programs of a front end."""
    return host_speeds(row for row in comparison.rows if row.front_end == front_end)


def _host(name: str, found: HostSpeeds | None) -> Iterator[str]:
    if found is None:
        return
    calls = f"host, {name}: calls took {found.low:.2f} to {found.high:.2f} times as long as calibrated"
    if found.two:
        (fast, often), (slow, rarely) = found.two
        calls += f", at two speeds {found.apart:.2f} apart: {fast:.2f} in {often} rounds, {slow:.2f} in {rarely}"
    else:
        calls += f", at no two speeds {TWO_SPEEDS:g} apart"
    yield calls
    if found.misses:
        left = found.misses - found.of_host - found.while_moving
        yield (
            f"  misses: {found.misses} of {found.programs} are beyond the goals; {found.of_host} of them within at the"
            f" host's speed beside them, {found.while_moving} while it changed its speed, {left} neither"
        )


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return plain values by front end: shares in percent, speeds in multiples of the calibrated time."""
    return {name: _plain(comparison, name) for name in comparison.front_ends}


def _plain(comparison: Comparison, name: str) -> dict[str, Any]:
    errors, then = comparison.by_front_end(), comparison.by_front_end(lambda row: row.at_speed_error)
    choices, speeds = choices_of(comparison, name), speeds_of(comparison, name)
    return {
        "errors": {klass: _plain_errors(errors, then, name, klass) for klass in GOALS if f"{name} {klass}" in errors},
        "choice": {
            "n": len(choices),
            "within_5_percent_percent": share_within(choices) * PERCENT if choices else None,
            "worst_percent": max(choice.regret for choice in choices) * PERCENT if choices else None,
        },
        "host": None if speeds is None else {**speeds._asdict(), "apart": speeds.apart},
    }


def _plain_errors(errors: dict[str, Summary], then: dict[str, Summary], name: str, klass: str) -> dict[str, Any]:
    own, at_speed, goals = errors[f"{name} {klass}"], then[f"{name} {klass}"], GOALS[klass]
    return {
        "n": own.n,
        "median_percent": own.median * PERCENT,
        "median_goal_percent": goals[0] * PERCENT,
        "p95_percent": own.p95 * PERCENT,
        "p95_goal_percent": goals[1] * PERCENT,
        "worst_percent": own.worst * PERCENT,
        "at_speed_median_percent": at_speed.median * PERCENT,
        "at_speed_p95_percent": at_speed.p95 * PERCENT,
    }
