"""Answers to what to change: changes of a program, a training loop, and the diagnosis of a measured time."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from streamsim.advice import WORTH, Advice, Trial, WhatIf
from streamsim.analysis import lower_bound
from streamsim.answer.document import Answer, Pictures
from streamsim.compiled import simulate_one_of_many
from streamsim.device import within_words
from streamsim.diagnosis import CandidateProgram, Diagnosis
from streamsim.errors import listed
from streamsim.program import Loop
from streamsim.report import Row, Table, cut, facts
from streamsim.text import format_change, format_ratio, format_seconds, rounded
from streamsim.timeline import Timeline
from streamsim.transform import LoopSource, Work, steps_of, waits_for

AS_IT_IS, AS_MEANT = "as it is", "as it was meant"
PICTURED = 8  # steps of a pictured loop, plus one for each worker
MOST_EQUAL, MOST_OTHERS = 8, 3  # explanations of a measured time that are shown


def what_if_answer(found: WhatIf, title: str = "", timelines: Mapping[str, Timeline] | None = None) -> Answer:
    """Return the answer of changes: the program before, with all of them and with each alone; what they do and assume.

    ``timelines``: those before and after, by their names.
    """
    row = partial(_trial_row, within=found.known_within)
    is_same = len(found.alone) == 1 and found.alone[0].change == found.together.change
    told = [(option, "", words) for option, words in found.together.done if words]
    told += [("assumed", "", text) for text in found.together.assumes] + [("note", "", text) for text in found.notes]
    both = timelines or {AS_IT_IS: found.as_it_is, f"with {found.together.change}": found.timeline}
    devices = (found.as_it_is.device, found.timeline.device)
    return Answer(
        title=title or f"{found.as_it_is.schedule.name or 'schedule'}: {found.together.change}",
        facts=facts("", ([row(found.together), row(found.before)], [] if is_same else map(row, found.alone), told)),
        notes=tuple(dict.fromkeys(line for device in devices for line in within_words(device))),
        pictures=partial(Pictures.of, both),
        data=found.to_json(),
    )


def _trial_row(trial: Trial, within: float) -> Row:
    gain = f"{format_ratio(trial.gain, within)} as fast; then " if trial.changes else ""
    return cut((trial.change, format_seconds(trial.takes_s, within), f"{gain}{trial.binds} binds"))


# A training loop


def loop_answer(found: Advice, batch: int = 0, inputs: dict[str, Any] | None = None, shown: str = "") -> Answer:
    """Return the answer on a training loop, or on a recorded one: what each change brings.

    ``batch``: samples of a recorded batch, 0 if unknown; ``shown``: what the recording shows of the loop.
    """
    first, within, loop = found.first, found.known_within, _loop_of(found.before)
    rows = _loop_rows(found, loop.batch if loop else batch)
    as_it_is, then = rows[0], next(row for row in rows if row["title"] == (first.text if first else AS_IT_IS))

    def step(name: str, row: dict[str, Any], words: str) -> Row:
        return name, format_seconds(row["step_s"], within), words

    headline = [step("a step as it is", as_it_is, f"waits for {listed(as_it_is['binds'])}")]
    if first is not None:
        headline.append(step("a step then", then, f"{format_ratio(first.gain, within)} as fast: {first.text}"))
    gaining = [row for row in rows if loop or row is as_it_is or row["gain"] >= 1 + WORTH]
    table, every = (_loop_table(some, "samples" if loop or batch else "batches", within) for some in (gaining, rows))
    conditions = (f"{row['title']}: if {row['assumes']}" for row in rows if row["assumes"])
    waits = f"{'then it' if first else 'it'} waits for {listed(then['binds'])}"
    return Answer(
        title=f"training loop on {found.device}",
        verdict=(*filter(None, (shown,)), f"first: {found.words}; {waits}"),
        facts=facts("", [headline]),
        tables=(table,),
        notes=tuple(within_words(found.before.work.device)),
        more=(*[every][: table != every], *conditions),
        pictures=partial(_first_steps, found),
        data={**found.to_json(inputs), "loops": to_builtins(rows)},
    )


def _loop_rows(found: Advice, batch: int) -> list[dict[str, Any]]:
    """Return what is known of a loop as it is and with each of the changes that were tried."""
    steps = 1 if _loop_of(found.before) else len(steps_of(found.before.work.schedule))
    return [
        {
            "title": trial.text or AS_IT_IS,
            "loop": asdict(loop) if (loop := _loop_of(trial)) else None,  # names with units
            "step_s": trial.takes_s / steps,
            "gain": trial.gain,
            "binds": _binds(trial.work),
            "assumes": trial.condition,
            "samples_per_s": max(1, batch) * steps / trial.takes_s,
        }
        for trial in (found.before, *found.trials)
    ]


def _loop_of(trial: Trial) -> Loop | None:
    source = trial.work.source
    return source.loop if isinstance(source, LoopSource) else None


def _binds(work: Work) -> tuple[str, ...]:
    """Return the parts that a training loop waits for; of a recorded program what sets its lower bound."""
    return waits_for(work) if isinstance(work.source, LoopSource) else (lower_bound(*work[:2]).bound_by,)


def _first_steps(found: Advice) -> Pictures:
    """Return the time lines as it is and with the first changes: of a loop, its first steps."""
    cases = {trial.text or AS_IT_IS: trial.work for trial in (found.before, found.first or found.before)}
    loops = {title: work.source for title, work in cases.items() if isinstance(work.source, LoopSource)}
    steps = PICTURED + max((source.loop.workers for source in loops.values()), default=0)
    cases |= {title: source.work(steps) for title, source in loops.items()}
    return Pictures.of({title: simulate_one_of_many(*work[:2]) for title, work in cases.items()})


def _loop_table(rows: Sequence[dict[str, Any]], of_batch: str, within: float) -> Table:
    """Return the loops, the loop as it is first: time of a step, samples a second, gain, and what it waits for."""
    heads = ("loop", "ms a step", f"{of_batch} a second", "gain", "waits for")
    shown = [
        cut(
            (
                row["title"],
                f"{rounded(row['step_s'] * 1e3, within):g}",
                f"{rounded(row['samples_per_s'], within) if within else row['samples_per_s']:,.0f}",
                format_ratio(row["gain"], within) if row is not rows[0] else "",
                ", ".join(row["binds"]),
            )
        )
        for row in rows
    ]
    return Table("", (tuple(shown),), heads, frozenset({1, 2, 3}))


# A measured time


def diagnosis_answer(
    found: Diagnosis, as_meant: Timeline | None = None, inputs: dict[str, Any] | None = None
) -> Answer:
    """Return the answer of a diagnosis: what explains the measured time, what to do, and what to measure next.

    ``as_meant``: the time line of the program as it was meant.
    """
    within = found.known_within
    equal, others = list(found.simplest)[:MOST_EQUAL], list(found.explanations[len(found.fitting) :])
    (meant,) = (one for one in found.explanations if not one.titles)
    headline: list[Row] = []
    for time, predicted in zip(found.measured, meant.times_s, strict=True):
        headline.append((f"measured {time.words}".rstrip(), format_seconds(time.seconds), ""))
        headline.append((AS_MEANT, predicted.words(within), "predicted"))
    shown = _candidates(equal, found, f"Explanations within {within:.0%} of the measured time")
    clocks = [one for one in found.fitting if equal and equal[0].mistakes and one.is_open_ended and one not in equal]
    tables, clock = (*shown, *_remedies(equal[:1])), "; ".join(one.title for one in clocks)
    return Answer(
        title=f"diagnosis on {found.device}",
        verdict=(found.verdict,),
        facts=facts("", [headline]),
        tables=(*(tables if equal else _candidates(others[:MOST_OTHERS], found, "Nearest")), *_apart(found)),
        notes=(f"Or the clock was wrong: {clock}",) if clock else (),
        more=(*_remedies(equal[1:]), *_candidates(found.explanations, found, "All that was tried")),
        pictures=lambda: Pictures.of({AS_MEANT: as_meant} if as_meant else {}),
        data=found.to_json(inputs),
    )


def _candidates(some: Iterable[CandidateProgram], found: Diagnosis, title: str) -> tuple[Table, ...]:
    """Return explanations as a table, if there are any: what the program does, its times, and how far they are off."""
    within = found.known_within
    rows = tuple(
        (one.title, ", ".join(time.words(within) for time in one.times_s), format_change(one.off, within))
        for one in some
    )
    return _table(title, rows, ("what the program does", "takes", "off"), frozenset({1, 2}))


def _remedies(explaining: Sequence[CandidateProgram]) -> tuple[Table, ...]:
    """Return what to look for and what to change for each explanation that fits, as a table if there is any."""
    rows = tuple(
        (one.title, "; ".join(each.look for each in one.mistakes), "; ".join(each.remedy for each in one.mistakes))
        for one in explaining
        if one.mistakes
    )
    return _table("What to do", rows, ("if", "look for", "change"))


def _apart(found: Diagnosis) -> tuple[Table, ...]:
    """Return what each explanation says of a second measurement, as a table if one tells them apart."""
    if found.next is None:
        return ()
    what, says = found.next
    rows = tuple((title, time.words(found.known_within)) for title, time in says.items())
    return _table(f"To tell them apart, measure {what}", rows, ("if", "it takes"), frozenset({1}))


def _table(title: str, rows: tuple[Row, ...], heads: Row, numbers: frozenset[int] = frozenset()) -> tuple[Table, ...]:
    return (Table(title, (rows,), heads, numbers, numbers),) if rows else ()
