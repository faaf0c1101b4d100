"""Where the time of an explained schedule goes, as tables."""

from collections.abc import Iterator, Sequence

from streamsim.analysis import BUSIEST_ENGINE, Explanation, Loss
from streamsim.report.tables import Row, Table, cut
from streamsim.text import counted, format_seconds

FOLDED = 0.01  # of the makespan: causes whose part and gain are smaller are one line of the short table
HEADS = ("cause", "part", "share", "alone", "remedy")
NUMBERS = frozenset({1, 2, 3})


def loss_tables(explanation: Explanation, folded: float = 0.0) -> tuple[Table, ...]:
    """Return what each cause has lost above the busiest engine and in it, what its removal brings, and its remedy.

    Causes that neither lost nor would gain the part ``folded`` of the makespan are one line, except the first.
    """
    e, inside_s = explanation, explanation.bound_s - explanation.even_s
    parts = (("Lost", e.losses, e.gap_s), (f"In the {BUSIEST_ENGINE}", e.limits, inside_s))
    least_s = folded * e.makespan_s
    return tuple(
        Table(
            f"{title}: {format_seconds(whole_s, e.known_within)}",
            (_rows(losses, whole_s, least_s, e.known_within),),
            HEADS,
            NUMBERS,
            NUMBERS,
            (3, 0, 0, 0, 4),
        )
        for title, losses, whole_s in parts
        if losses
    )


def summary_of(name: str, explanation: Explanation) -> dict[str, str | float | None]:
    """Return a row for an explained program: its time, its largest loss, and what to do first."""
    largest, first = explanation.largest, explanation.first
    return {
        "schedule": name,
        "device": explanation.device,
        "makespan_s": explanation.makespan_s,
        "largest": largest.title if largest else None,
        "lost_s": largest.lost_s if largest else None,
        "first": first.remedy if first else "nothing is worth changing",
        "gain_alone_s": first.gain_alone_s if first and first.made else None,
    }


def summary_table(explained: Sequence[tuple[str, Explanation]]) -> Table:
    """Return a row for each explained program, by its name."""
    rows = tuple(cut(tuple(_summary_row(name, explanation))) for name, explanation in explained)
    heads = ("file", "device", "time", "largest loss", "part", "first", "gain")
    return Table("", (rows,), heads, frozenset({2, 4, 6}), frozenset({0, 2, 4, 6}), (0, 0, 0, 2, 0, 3, 0))


def _summary_row(name: str, explanation: Explanation) -> Iterator[str]:
    within = explanation.known_within
    for value in summary_of(name, explanation).values():
        yield format_seconds(value, within) if isinstance(value, float) else value or ""


def _rows(losses: Sequence[Loss], whole_s: float, least_s: float, within: float) -> tuple[Row, ...]:
    small = [loss for loss in losses[1:] if max(loss.lost_s, _gain_s(loss)) < least_s]
    rows = [
        (
            loss.title,
            format_seconds(loss.lost_s, within),
            _share(loss.lost_s, whole_s),
            _alone(loss, within),
            loss.remedies(within),
        )
        for loss in losses
        if loss not in small
    ]
    if small:
        lost_s, most_s = sum(loss.lost_s for loss in small), max(map(_gain_s, small))
        several = f"{counted(len(small), 'more cause')}, together"
        gain = f"<= {format_seconds(most_s, within)}" if most_s > 0 else ""
        rows.append((several, format_seconds(lost_s, within), _share(lost_s, whole_s), gain, "each below 1 %: --json"))
    return tuple(rows)


def _gain_s(loss: Loss) -> float:
    """Return the most that is said to be gained against a cause."""
    return max(loss.gain_alone_s, loss.assuming.gain_alone_s if loss.assuming else 0.0)


def _alone(loss: Loss, within: float) -> str:
    """Return what its remedy gains, or in brackets what removing the cause would gain if it could be done."""
    gain = ("-" if loss.gain_alone_s < 0 else "") + format_seconds(abs(loss.gain_alone_s), within)
    if loss.made:
        return gain
    return f"({gain})" if loss.gain_alone_s > 0 else ""


def _share(part_s: float, whole_s: float) -> str:
    return f"{part_s / whole_s if whole_s else 0.0:.0%}"
