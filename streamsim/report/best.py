"""The result of a search for the best configuration, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.analysis.bounds import BOUND_OF_WORK
from streamsim.report.tables import Fact, Table, facts
from streamsim.search.best import FASTER
from streamsim.text.quantities import format_bytes, format_change, format_seconds

if TYPE_CHECKING:
    from streamsim.search.best import Best, Flatness


def best_table(best: Best) -> Table:
    """Return what to use, the optimum and what both are compared with; what binds, how flat it is, what would help."""
    optimum, the_best = best.best.makespan_s, "the optimum" if best.exact else "the best found"
    works = best.usual.serial_s != best.serial_s and best.usual.config.memory == best.best.config.memory
    worked = f" with the host work of {best.best.config.chunks} chunks" * works
    times: list[Fact] = [
        (
            "use",
            best.simplest.makespan_s,
            f"{best.simplest.config.words}: the simplest{'' if best.simplest_exact else ' found'} within 1 % of"
            f" {the_best}",
        ),
        (
            "optimum" if best.exact else "best found",
            optimum,
            f"{best.best.config.words}; {format_bytes(best.device_bytes)} on the card",
        ),
        (
            "serial",
            best.serial_s,
            f"the unchunked program{worked}, blocking copies{_room(best.serial_fits)};"
            f" {the_best} is {best.speedup:.2f}x as fast",
        ),
        (
            "usual",
            best.usual.makespan_s,
            f"{best.usual.config.words}{_room(best.usual_fits)}:"
            f" {the_best} is {best.gain(best.usual.makespan_s):.2f}x as fast",
        ),
    ]
    over = optimum / best.work_bound.seconds - 1 if best.work_bound.seconds else 0.0
    waits = max(best.critical_s, key=lambda name: best.critical_s[name])
    binds: list[Fact] = [
        (BOUND_OF_WORK, best.work_bound.seconds, f"by {best.work_bound.bound_by}; {the_best} is {over:.1%} above"),
        (
            "critical path",
            sum(best.critical_s.values()),
            f"{format_seconds(best.critical_s[waits])} of it {'on ' if waits != 'waiting' else ''}{waits}",
        ),
    ]
    gains: list[Fact] = [
        (
            f"{name} {FASTER}x as fast",
            seconds,
            f"{format_change(seconds / optimum - 1 if optimum else 0.0)}, its configuration as it is",
        )
        for name, seconds in best.faster_s.items()
    ]
    return facts(f"best on {best.device}", (times, binds, _flat(best.flatness, the_best), gains))


def _room(fits: bool) -> str:
    return "" if fits else ", which needs more memory than allowed"


def _flat(flatness: Flatness, the_best: str) -> list[Fact]:
    known = {margin: share for margin, share in flatness.share_within.items() if share is not None}
    unknown = [str(margin) for margin in flatness.share_within if margin not in known]
    shares = [f"{share:.1%} within {margin} %" for margin, share in known.items()]
    shares += [f"unknown within {', '.join(unknown)} %"] if unknown else []
    stay = f"within {flatness.range_percent} %, all else as it is"
    reach = f"it is not known which numbers of chunks stay {stay}"
    if flatness.chunks_within is not None:
        low, high = flatness.chunks_within
        reach = f"{low} to {high} chunks stay {stay}"
    return [("flatness", "", f"{', '.join(shares)} of {the_best}"), ("", "", reach)]
