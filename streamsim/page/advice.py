"""The pages of a diagnosis and of advice on a training loop."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from streamsim.diagnosis import CandidateProgram, Diagnosis
from streamsim.page.document import Page
from streamsim.page.timelines import Shown
from streamsim.report import Table, diagnosis_tables, loop_table, nearest
from streamsim.text import format_ratio, format_seconds, listed
from streamsim.timeline import Timeline
from streamsim.training import LoopAdvice


def diagnosis_page(found: Diagnosis, as_meant: Timeline | None = None) -> Page:
    """Return the page of a diagnosis: what was measured, what explains it, and the program as it was meant."""
    explaining, _ = nearest(found)
    (meant,) = (one for one in found.explanations if not one.titles)
    figures = [
        (figure, f"{words} {time.words}".rstrip())
        for time, predicted in zip(found.measured, meant.times_s, strict=True)
        for figure, words in (
            (format_seconds(time.seconds), "measured"),
            (predicted.words(found.known_within), "predicted as it was meant"),
        )
    ]
    return Page(
        title=f"diagnosis on {found.device}",
        headline=tuple(figures),
        advice=f"{found.verdict}.",
        lines=() if as_meant is None else (Shown("as it was meant", as_meant),),
        tables=(*diagnosis_tables(found), *_remedies(explaining)),
    )


def _remedies(explaining: Sequence[CandidateProgram]) -> tuple[Table, ...]:
    """Return what to look for and what to change for each explanation that fits, as a table if there is any."""
    rows = tuple(
        (one.title, "; ".join(one.look), "; ".join(one.remedies)) for one in filter(attrgetter("look"), explaining)
    )
    return (Table("What to do", (rows,), ("if", "look for", "change")),) if rows else ()


def loop_page(found: LoopAdvice, timelines: Mapping[str, Timeline] | None = None) -> Page:
    """Return the page of advice on a training loop: what each change brings, and some loops' first steps."""
    first, best = found.rows[0], found.best
    within = found.known_within
    gain = () if best is first else ((format_ratio(best.gain, within), f"as fast with {best.title}"),)
    as_it_is = f"a step as it is; it waits for {listed(first.binds)}"
    assumed = tuple(f"{row.title}: assumes that {row.assumes}" for row in found.rows if row.assumes)
    return Page(
        title=f"training loop on {found.device}",
        headline=((format_seconds(first.step_s, within), as_it_is), *gain),
        advice=f"First: {found.verdict}.",
        lines=tuple(Shown(f"{title}, the first steps", timeline) for title, timeline in (timelines or {}).items()),
        tables=(loop_table(found),),
        notes=(*assumed, *found.notes),
    )
