"""The tables and sentences of a comparison of programs: errors by front end beside the goals, the choice, the host."""

from collections.abc import Iterator, Mapping

from streamsim.report import Table
from streamsim_validate.compare.comparison import GOOD_CHOICE, Choice, Comparison, Summary, share_within
from streamsim_validate.compare.host_speeds import GOALS, MOVED, TWO_SPEEDS, HostSpeeds

GOAL_CHOICES = 0.95  # the share of the workloads for which the choice should be good


def sections(comparison: Comparison) -> Iterator[Table | str]:
    """Yield the errors beside the goals, the choice and the host's speed of each front end."""
    yield _errors("wall time, by front end", comparison.by_front_end())
    yield _errors("with calls as fast as each shows", comparison.by_front_end(lambda row: row.at_speed_error))
    for name in comparison.front_ends:
        yield from _choices(comparison, name)
    for name in comparison.front_ends:
        yield from _host(name, comparison.speeds_of(name))


def _errors(head: str, groups: Mapping[str, Summary]) -> Table:
    heads = (head, "n", "median", "goal", "p95", "goal", "worst", "bias")
    rows = []
    for name, s in groups.items():
        median, p95 = GOALS[name.rpartition(" ")[2]]
        errors = (f"{s.median:.1%}", f"{median:.0%}", f"{s.p95:.1%}", f"{p95:.0%}", f"{s.worst:.1%}", f"{s.bias:+.1%}")
        rows.append((name, f"{s.n}", *errors))
    return Table("", (tuple(rows),), heads, frozenset(range(1, len(heads))))


def _choices(comparison: Comparison, front_end: str) -> Iterator[str]:
    choices = comparison.choices_of(front_end)
    if choices:
        yield (
            f"choice, {front_end}: within {GOOD_CHOICE:.0%} of the best measured for"
            f" {share_within(choices, GOOD_CHOICE):.0%} of {len(choices)} workloads (goal {GOAL_CHOICES:.0%}),"
            f" {max(choice.regret for choice in choices):.1%} off at worst"
        )
    moved = sum(choice.regret > GOOD_CHOICE and _at_other_speeds(comparison, choice) for choice in choices)
    if moved:
        yield f"  of the others {moved} had the best measured while calls took less time than for the pick"


def _at_other_speeds(comparison: Comparison, choice: Choice) -> bool:
    """Return whether the host was faster while the best was measured than it was for the pick."""
    speeds = {(row.connections, row.key): row.speeds for row in comparison.rows}
    picked, best = (speeds[choice.connections, key] for key in (choice.picked, choice.best))
    return bool(picked and best) and max(picked) > MOVED * max(best)


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
