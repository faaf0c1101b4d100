"""The pages of a prediction and of an explanation, and those of their parts that the playground shows, too."""

from collections.abc import Sequence
from functools import partial

from streamsim.analysis import BOUND_AS_ISSUED, BOUND_OF_WORK, BUSIEST_ENGINE, Bound, Explanation, Interval, Prediction
from streamsim.page.document import Page
from streamsim.page.losses import losses_of
from streamsim.page.timelines import Shown
from streamsim.report import SERIAL_WORDS, loss_tables, serial_timeline, summary, title_of
from streamsim.text import format_ratio, format_seconds

NO_INTERVAL = (0.0, 0.0)


def prediction_page(
    prediction: Prediction,
    interval: Interval | None = None,
    explanation: Explanation | None = None,
    assumed: Sequence[str] = (),
) -> Page:
    """Return the page of a prediction, below the program that it was cut from.

    With an ``explanation``, the page also shows the losses.
    """
    p = prediction
    return Page(
        title=title_of(p.timeline),
        headline=headline_of(p, interval),
        advice="" if explanation is None else advice_words(explanation),
        losses=None if explanation is None else losses_of(explanation),
        lines=lines_of(p, interval),
        tables=(summary(p), *(() if explanation is None else loss_tables(explanation))),
        notes=(f"{p.device}: {p.link}", *assumed),
    )


def headline_of(prediction: Prediction, interval: Interval | None = None) -> tuple[tuple[str, str], ...]:
    """Return the figures of a prediction, each with a few words."""
    p = prediction
    found = (
        (format_seconds(p.makespan_s, p.known_within), "predicted"),
        (format_ratio(p.speedup, p.known_within), f"as fast as {p.serial_program} ({SERIAL_WORDS[p.serial_program]})"),
        (format_seconds(p.issued_bound.seconds, p.known_within), f"{BOUND_AS_ISSUED}, by {p.issued_bound.bound_by}"),
    )
    if interval is None:
        return found
    return *found, (interval.between, f"{interval.level:.0%} interval, shaded in the time line")


def lines_of(prediction: Prediction, interval: Interval | None = None) -> tuple[Shown, ...]:
    """Return the time lines of a prediction: that of the program that it was cut from, if any, and its own."""
    within = NO_INTERVAL if interval is None else (interval.low_s, interval.high_s)
    return (*_serial(prediction), Shown("predicted", prediction.timeline, prediction.issued_bound.seconds, within))


def _serial(prediction: Prediction) -> list[Shown]:
    """Return the time line of the program that the schedule was cut from, if the prediction is compared with it."""
    if prediction.timeline.device is None or prediction.serial_program != "unchunked":
        return []
    return [Shown("unchunked", serial_timeline(prediction))]


def advice_words(explanation: Explanation) -> str:
    """Return the sentence that says what to change first."""
    return f"First: {explanation.advice}."


def explanation_page(explanation: Explanation, assumed: Sequence[str] = (), work: Bound | None = None) -> Page:
    """Return the page of an explanation: the losses, their remedies, and the time line.

    ``work``: the bound of the work, if it is known.
    """
    e = explanation
    seconds = partial(format_seconds, within=e.known_within)
    bounds = () if work is None else ((seconds(work.seconds), f"{BOUND_OF_WORK}, by {work.bound_by}"),)
    return Page(
        title=title_of(e.timeline),
        headline=(
            (seconds(e.makespan_s), "predicted"),
            (seconds(e.gap_s), f"of it lost above the {BUSIEST_ENGINE}"),
            (seconds(e.bound_s), f"{BUSIEST_ENGINE}, the {e.bound_by}"),
            *bounds,
        ),
        advice=advice_words(e),
        losses=losses_of(e),
        lines=(Shown("predicted", e.timeline, e.bound_s),),
        tables=loss_tables(e),
        notes=(f"{e.device}: {e.link}", *assumed),
    )
