"""The pages of streamsim's results: the figures, pictures and tables that each of them shows."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from streamsim.analysis import WhatIf
from streamsim.page.advice import diagnosis_page, loop_page
from streamsim.page.document import Page
from streamsim.page.predictions import explanation_page, prediction_page
from streamsim.page.searches import best_page, sweep_page
from streamsim.page.timelines import Shown
from streamsim.recorded import RecordingSummary, Replay, Unrecorded
from streamsim.report import common_words, recording_table, replay_table, sweep_table, what_if_table
from streamsim.search import WITHIN
from streamsim.text import format_change, format_ratio, format_seconds
from streamsim.timeline import Timeline

__all__ = [
    "best_page",
    "diagnosis_page",
    "explanation_page",
    "loop_page",
    "prediction_page",
    "recording_page",
    "replay_page",
    "sweep_page",
    "what_if_page",
]


def what_if_page(found: WhatIf, title: str, timelines: Mapping[str, Timeline]) -> Page:
    """Return the page of changes: the program before and after them, and the gain of each."""
    before, together, within = found.before, found.together, found.known_within
    return Page(
        title=title,
        headline=(
            (format_seconds(together.makespan_s, within), f"with {together.change}"),
            (format_ratio(together.gain, within), f"as fast as before, {format_seconds(before.makespan_s, within)}"),
        ),
        lines=tuple(Shown(name, timeline) for name, timeline in timelines.items()),
        tables=(what_if_table(found, title),),
    )


def side_by_side_page(rows: Sequence[dict[str, Any]], timelines: Mapping[str, Timeline], notes: Sequence[str]) -> Page:
    """Return the page of several predictions: their table, and their time lines one below the other."""
    fastest = min(rows, key=itemgetter("makespan_s"))
    return Page(
        title=f"{len(rows)} predictions side by side",
        headline=((format_seconds(fastest["makespan_s"], fastest[WITHIN] or 0.0), "the fastest"),),
        lines=tuple(Shown(name, timeline) for name, timeline in timelines.items()),
        tables=(sweep_table(rows),),
        notes=(*common_words(rows), *notes),
    )


def recording_page(title: str, summary: RecordingSummary, found: Replay, without: Unrecorded) -> Page:
    """Return the page of a recording: the recorded time line, the replayed one, and the tables of both."""
    page = replay_page(title, found, without)
    return replace(page, tables=(recording_table(summary, title), *page.tables))


def replay_page(title: str, found: Replay, without: Unrecorded | None = None) -> Page:
    """Return the page of a replay: the recorded time line, the replayed one, and their table."""
    within, replayed = found.known_within, f"replayed on {found.device.name}"
    return Page(
        title=title,
        headline=(
            (format_seconds(found.recorded_s), "recorded, from the call of the first work to the end of the last"),
            (format_seconds(found.predicted_s, within), f"{replayed}, {format_change(found.error, within)}"),
        ),
        lines=(Shown("recorded", found.recorded), Shown("replayed", found.timeline)),
        tables=(replay_table(found, without),),
    )
