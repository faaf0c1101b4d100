"""Answers to what to change: changes of a program, a training loop, and the diagnosis of a measured time."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec.structs import asdict

from streamsim.advice import Outcome, WhatIf
from streamsim.answer.document import Answer, Pictures
from streamsim.device import Device, within_words
from streamsim.diagnosis import CandidateProgram, Diagnosis
from streamsim.page import Shown
from streamsim.report import Row, Table, cut, facts
from streamsim.text import format_change, format_ratio, format_seconds, listed, rounded
from streamsim.timeline import Timeline
from streamsim.training import LoopAdvice, LoopRow, timelines_of

MOST_EQUAL, MOST_OTHERS = 8, 3  # explanations of a measured time that are shown


def what_if_answer(found: WhatIf, title: str, timelines: Mapping[str, Timeline] | None = None) -> Answer:
    """Return the answer of changes: the program before, with all of them and with each alone; what they do and assume.

    ``timelines``: those before and after, by their names.
    """
    row = partial(_outcome_row, within=found.known_within)
    is_same = len(found.alone) == 1 and found.alone[0].change == found.together.change
    told = [(option, "", words) for option, words in zip(found.options, found.words, strict=True) if words]
    told += [("assumed", "", text) for text in found.assumed] + [("note", "", text) for text in found.notes]
    both = timelines or {"as it is": found.as_it_is, f"with {found.together.change}": found.timeline}
    devices = (found.as_it_is.device, found.timeline.device)
    return Answer(
        title=title,
        facts=facts("", ([row(found.together), row(found.before)], [] if is_same else map(row, found.alone), told)),
        notes=tuple(dict.fromkeys(line for device in devices for line in within_words(device))),
        pictures=lambda: Pictures(lines=tuple(Shown(name, timeline) for name, timeline in both.items())),
        data=found.to_json(),
        rows=[asdict(outcome) for outcome in (found.before, *found.alone, found.together)],
    )


def _outcome_row(outcome: Outcome, within: float) -> Row:
    gain = "" if outcome.change == "as it is" else f"{format_ratio(outcome.gain, within)} as fast; then "
    return cut((outcome.change, format_seconds(outcome.makespan_s, within), f"{gain}{outcome.binds} binds"))


# A training loop


def loop_answer(
    found: LoopAdvice, device: Device | None = None, inputs: dict[str, Any] | None = None, shown: str = ""
) -> Answer:
    """Return the answer on a training loop: what each change brings, and on ``device`` some loops' first steps.

    ``shown``: what a recording shows of the loop.
    """
    first, best, within = found.rows[0], found.best, found.known_within
    headline = [("a step as it is", format_seconds(first.step_s, within), f"waits for {listed(first.binds)}")]
    if best is not first:
        gain = f"{format_ratio(best.gain, within)} as fast with {best.title}"
        headline.append(("a step then", format_seconds(best.step_s, within), gain))
    assumed = {row.title: f"{row.title}: assumes that {row.assumes}" for row in found.rows if row.assumes}
    others = tuple(f"{row.title}: " for row in found.rows if row is not best)
    said = (*assumed.values(), *found.notes)
    data = found.to_json(inputs)
    return Answer(
        title=f"training loop on {found.device}",
        verdict=(*filter(None, (shown,)), f"first: {found.verdict}"),
        facts=facts("", [headline]),
        tables=(_loop_table(found),),
        notes=(*(line for line in said if not line.startswith(others)), *within_words(device)),
        more=tuple(line for line in said if line.startswith(others)),
        pictures=Pictures if device is None else partial(_first_steps, found, device),
        data=data,
        rows=data["loops"],
    )


def _first_steps(found: LoopAdvice, device: Device) -> Pictures:
    timelines = timelines_of(found, device)
    return Pictures(lines=tuple(Shown(f"{title}, the first steps", line) for title, line in timelines.items()))


def _loop_table(found: LoopAdvice) -> Table:
    """Return the loops, the loop as it is first: time of a step, samples a second, gain, and what it waits for."""
    of_batch = "batches" if found.rows[0].loop.batch == 1 else "samples"  # of a recording whose --batch is not given
    heads = ("loop", "ms a step", f"{of_batch} a second", "gain", "waits for")
    rows = tuple(_loop_row(row, found.known_within) for row in found.rows)
    return Table("", (rows,), heads, frozenset({1, 2, 3}))


def _loop_row(row: LoopRow, within: float) -> Row:
    gain = format_ratio(row.gain, within) if row.title != "as it is" else ""
    step_ms, samples = rounded(row.step_s * 1e3, within), row.samples_per_s
    samples = rounded(samples, within) if within else samples
    return row.title, f"{step_ms:g}", f"{samples:,.0f}", gain, ", ".join(row.binds)


# A measured time


def diagnosis_answer(
    found: Diagnosis, as_meant: Timeline | None = None, inputs: dict[str, Any] | None = None
) -> Answer:
    """Return the answer of a diagnosis: what explains the measured time, what to do, and what to measure next.

    ``as_meant``: the time line of the program as it was meant.
    """
    equal, others = list(found.simplest)[:MOST_EQUAL], list(found.explanations[len(found.fitting) :])
    (meant,) = (one for one in found.explanations if not one.titles)
    headline = [
        row
        for time, predicted in zip(found.measured, meant.times_s, strict=True)
        for row in (
            (f"measured {time.words}".rstrip(), format_seconds(time.seconds), ""),
            ("as it was meant", predicted.words(found.known_within), "predicted"),
        )
    ]
    fit = _candidates(equal, found, f"Explanations within {found.known_within:.0%} of the measured time")
    nearest = _candidates(others[:MOST_OTHERS], found, "Nearest")
    left = len(found.explanations) - len(equal) - len(found.open_ended) - (0 if equal else len(others[:MOST_OTHERS]))
    clock = f"Or the clock was wrong: {'; '.join(one.title for one in found.open_ended)}"
    lines = () if as_meant is None else (Shown("as it was meant", as_meant),)
    return Answer(
        title=f"diagnosis on {found.device}",
        verdict=(found.verdict,),
        facts=facts("", [headline]),
        tables=(*((fit, *_remedies(equal[:1])) if equal else (nearest,) if others else ()), *_apart(found)),
        notes=(
            *((clock,) if found.open_ended else ()),
            *((f"{left} more {'was' if left == 1 else 'were'} tried: --all has them.",) if left > 0 else ()),
        ),
        more=(*_remedies(equal[1:]), _candidates(found.explanations, found, "All that was tried")),
        pictures=lambda: Pictures(lines=lines),
        data=found.to_json(inputs),
        rows=list(map(_candidate_row, found.explanations)),
    )


def _candidates(some: Iterable[CandidateProgram], found: Diagnosis, title: str) -> Table:
    """Return explanations as rows: what the program does, its times, and how far they are off."""
    within = found.known_within
    rows = [
        (one.title, ", ".join(time.words(within) for time in one.times_s), format_change(one.off, within))
        for one in some
    ]
    return Table(title, (tuple(rows),), ("what the program does", "takes", "off"), frozenset({1, 2}), frozenset({1, 2}))


def _remedies(explaining: Sequence[CandidateProgram]) -> tuple[Table, ...]:
    """Return what to look for and what to change for each explanation that fits, as a table if there is any."""
    rows = tuple(
        (one.title, "; ".join(one.look), "; ".join(one.remedies)) for one in filter(attrgetter("look"), explaining)
    )
    return (Table("What to do", (rows,), ("if", "look for", "change")),) if rows else ()


def _apart(found: Diagnosis) -> tuple[Table, ...]:
    """Return what each explanation says of a second measurement, as a table if one tells them apart."""
    if found.next is None:
        return ()
    rows = tuple((title, time.words(found.known_within)) for title, time in found.next.says)
    title = f"To tell them apart, measure {found.next.what}"
    return (Table(title, (rows,), ("if", "it takes"), frozenset({1}), frozenset({1})),)


def _candidate_row(found: CandidateProgram) -> dict[str, Any]:
    """Return an explanation as a row of CSV; several measured times are numbered from 1."""
    numbers = [f"_{k}" for k in range(1, len(found.times_s) + 1)] if len(found.times_s) > 1 else [""]
    times = {
        f"predicted_{name}{number}_s": seconds
        for number, time in zip(numbers, found.times_s, strict=True)
        for name, seconds in (("low", time.low_s), ("high", time.high_s))
    }
    words = {"look": "; ".join(found.look), "remedies": "; ".join(found.remedies)}
    return {"mistakes": found.title, "fits": found.fits, "off": found.off, **times, **words}
