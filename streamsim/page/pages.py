"""The pages of what streamsim computes: which figures, pictures and tables each of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.analysis.bounds import BOUND_AS_ISSUED, BOUND_OF_WORK, BUSIEST_ENGINE
from streamsim.model import simulate
from streamsim.page.document import Page
from streamsim.page.losses import losses_of
from streamsim.page.searches import best_page, sweep_page
from streamsim.page.timelines import Shown
from streamsim.recorded.times import recorded_times
from streamsim.report.explanation import loss_tables
from streamsim.report.recording import recording_table
from streamsim.report.replay import replay_table
from streamsim.report.text import SERIAL_WORDS, summary
from streamsim.report.what_if import what_if_table
from streamsim.text.quantities import format_change, format_seconds
from streamsim.timeline.timeline import recorded_timeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamsim.analysis.bounds import Bound
    from streamsim.analysis.explanation import Explanation
    from streamsim.analysis.intervals import Interval
    from streamsim.analysis.predict import Prediction
    from streamsim.analysis.what_if import WhatIf
    from streamsim.recorded.recording import Recording
    from streamsim.recorded.replay import Replay, Unrecorded
    from streamsim.recorded.summary import RecordingSummary
    from streamsim.timeline.timeline import Timeline

__all__ = ["best_page", "explanation_page", "prediction_page", "recording_page", "sweep_page", "what_if_page"]

NO_INTERVAL = (0.0, 0.0)


def prediction_page(
    prediction: Prediction,
    interval: Interval | None = None,
    explanation: Explanation | None = None,
    assumed: Sequence[str] = (),
) -> Page:
    """Return the page of a prediction: the program it was cut from above it, and where its time goes if explained."""
    p = prediction
    headline = [
        (format_seconds(p.makespan_s), "predicted"),
        (f"{p.speedup:.2f}x", f"as fast as serial ({SERIAL_WORDS[p.serial_program]})"),
        (format_seconds(p.issued_bound.seconds), f"{BOUND_AS_ISSUED}, by {p.issued_bound.bound_by}"),
    ]
    if interval is not None:
        between = f"{format_seconds(interval.low_s)} to {format_seconds(interval.high_s)}"
        headline.append((between, f"{interval.level:.0%} interval, shaded in the time line"))
    within = NO_INTERVAL if interval is None else (interval.low_s, interval.high_s)
    return Page(
        title=f"{p.schedule.name or 'schedule'} on {p.device}",
        headline=tuple(headline),
        advice="" if explanation is None else f"First: {explanation.advice}.",
        losses=None if explanation is None else losses_of(explanation),
        lines=(*_serial(p), Shown("predicted", p.timeline, p.issued_bound.seconds, within)),
        tables=(summary(p), *(() if explanation is None else loss_tables(explanation))),
        notes=(f"{p.device}: {p.link}", *assumed),
    )


def _serial(prediction: Prediction) -> list[Shown]:
    """Return the program that the schedule was cut from, if it is that which the prediction is compared with."""
    device, unchunked = prediction.timeline.device, prediction.schedule.unchunked
    if device is None or unchunked is None or prediction.serial_program != "unchunked":
        return []
    return [Shown("serial", simulate(unchunked, device))]


def explanation_page(explanation: Explanation, assumed: Sequence[str] = (), work: Bound | None = None) -> Page:
    """Return the page of an explanation: what loses the time, its remedies, and the time line.

    ``work``: the bound of the work, if it is known.
    """
    e = explanation
    bounds = () if work is None else ((format_seconds(work.seconds), f"{BOUND_OF_WORK}, by {work.bound_by}"),)
    return Page(
        title=f"{e.timeline.schedule.name or 'schedule'} on {e.device}",
        headline=(
            (format_seconds(e.makespan_s), "predicted"),
            (format_seconds(e.gap_s), f"of it lost above the {BUSIEST_ENGINE}"),
            (format_seconds(e.bound_s), f"{BUSIEST_ENGINE}, the {e.bound_by}"),
            *bounds,
        ),
        advice=f"First: {e.advice}.",
        losses=losses_of(e),
        lines=(Shown("predicted", e.timeline, e.bound_s),),
        tables=loss_tables(e),
        notes=(f"{e.device}: {e.link}", *assumed),
    )


def what_if_page(found: WhatIf, title: str, timelines: Mapping[str, Timeline]) -> Page:
    """Return the page of changes: the program before and after them, and what each of them brings."""
    before, together = found.before, found.together
    return Page(
        title=title,
        headline=(
            (format_seconds(together.makespan_s), f"with {together.change}"),
            (f"{together.gain:.2f}x", f"as fast as before, {format_seconds(before.makespan_s)}"),
        ),
        lines=tuple(Shown(name, timeline) for name, timeline in timelines.items()),
        tables=(what_if_table(found, title),),
    )


def recording_page(
    recording: Recording,
    title: str,
    summary: RecordingSummary,
    found: Replay,
    without: Unrecorded,
) -> Page:
    """Return the page of a recording: when everything ran, the same replayed by the model, and the tables of both."""
    was = recorded_timeline(found.timeline, recorded_times(recording, found.program))
    return Page(
        title=title,
        headline=(
            (format_seconds(found.recorded_s), "recorded, from the call of the first work to the end of the last"),
            (format_seconds(found.predicted_s), f"replayed on {found.device.name}, {format_change(found.error)}"),
        ),
        lines=(Shown("recorded", was), Shown("replayed", found.timeline)),
        tables=(recording_table(summary, title), replay_table(found, without)),
    )
