"""Answers of values: what a value prints, shows in a notebook, and writes as a page."""

from collections import Counter
from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from streamsim.advice import Advice, Explanation, WhatIf
from streamsim.analysis import Prediction
from streamsim.answer.changes import diagnosis_answer, loop_answer, what_if_answer
from streamsim.answer.document import Answer, Pictures
from streamsim.answer.html import notebook_of, write_page
from streamsim.answer.predictions import explanation_answer, prediction_answer
from streamsim.answer.recordings import recording_answer, replay_answer
from streamsim.answer.searches import best_answer, sweep_answer
from streamsim.answer.terminal import text_of
from streamsim.device import Device, link_words
from streamsim.diagnosis import Diagnosis
from streamsim.page import Shown, column_words, value_words
from streamsim.program import Copy, Schedule
from streamsim.races import Finding, unnamed_memory
from streamsim.recorded import Recording, RecordingSummary, Replay, summarise
from streamsim.report import Table, facts, title_of
from streamsim.search import Best, Sweep
from streamsim.text import counted, format_bytes, format_share
from streamsim.timeline import Timeline, label

COLUMNS = ("severity", "rule", "what", "remedy")  # of findings
MOST_FINDINGS = 20  # that are shown without being asked for


@singledispatch
def answer_of(value: Any) -> Answer:
    """Return the answer of a value. A value of another package makes its answer itself."""
    answer: Answer = value._answer()
    return answer


for _kind, _answer in (
    (Prediction, prediction_answer),
    (Explanation, explanation_answer),
    (Diagnosis, diagnosis_answer),
    (Advice, loop_answer),
):
    answer_of.register(_kind, _answer)


def printed(value: Any) -> str:
    """Return a value as the command line prints it, without the time line in letters."""
    return text_of(answer_of(value))


def in_notebook(value: Any) -> str:
    """Return the HTML of a value for a notebook."""
    return notebook_of(answer_of(value))


def write(value: Any, path: str | Path) -> None:
    """Write the page of a value. Raises InputError if it cannot be written."""
    if isinstance(value, Best):
        write_page(best_answer(value), path)
    elif isinstance(value, Sweep):
        write_page(sweep_answer(list(value), value), path)
    else:
        write_page(answer_of(value), path)


@answer_of.register
def _(value: Best) -> Answer:  # type: ignore[type-arg]
    return best_answer(value, mapped=False)


@answer_of.register
def _(value: WhatIf) -> Answer:
    return what_if_answer(value, f"{value.as_it_is.schedule.name or 'schedule'}: {value.together.change}")


@answer_of.register
def _(value: Timeline) -> Answer:
    used, within = value.utilisation, value.known_within
    rows = [
        ("makespan", value.makespan_s, ""),
        *((f"{name} busy", busy_s, format_share(used[name], within)) for name, busy_s in value.busy_s.items()),
        *((track.name, track.busy_s, "unified memory") for track in value.tracks),
        ("overlap", value.overlap_s, "two engines or more busy"),
    ]
    line = Shown("measured" if value.device is None else f"on {value.device.name}", value)
    return Answer(title_of(value), facts=facts("", [rows], within), pictures=lambda: Pictures(lines=(line,)))


@answer_of.register
def _(value: Sweep) -> Answer:
    def words(name: str, values: tuple[Any, ...]) -> str:
        shown = [value_words(name, one) for one in values]
        return ", ".join(shown if len(shown) <= 8 else [*shown[:4], "...", *shown[-2:]])

    rows = tuple((column_words(axis.name), str(len(axis.values)), words(axis.name, axis.values)) for axis in value.axes)
    table = Table("", (rows,), ("axis", "values", ""), frozenset({1}))
    return Answer(f"sweep of {len(value):,} combinations", tables=(table,))


@answer_of.register
def _(value: Schedule) -> Answer:
    counts, sizes = Counter(map(label, value.ops)), Counter[str]()
    for op in value.ops:
        sizes[label(op)] += op.bytes if isinstance(op, Copy) else 0
    rows = [(name, f"{count:,}", format_bytes(sizes[name]) if sizes[name] else "") for name, count in counts.items()]
    streams = counted(len(value.used_streams), "stream")
    title = f"{value.name or 'schedule'}: {counted(len(value), 'op')} in {streams}, {value.launch}"
    return Answer(title, facts=facts("", [rows, [("on the card", "", format_bytes(value.device_bytes))]]))


@answer_of.register
def _(value: Device) -> Answer:
    memory = "not known" if value.memory_bytes is None else format_bytes(value.memory_bytes)
    rows = (
        ("description", value.description),
        ("link", link_words(value)),
        ("memory", memory),
        ("copy engines", str(value.copy_engines.count)),
        ("connections", str(value.connections)),
    )
    return Answer(value.name, tables=(Table("", (rows,)),))


@answer_of.register
def _(value: Recording) -> Answer:
    return answer_of(summarise(value))


@answer_of.register
def _(value: RecordingSummary) -> Answer:
    return recording_answer(Answer(f"recorded by {value.tool}"), value)


@answer_of.register
def _(value: Replay) -> Answer:
    return replay_answer(f"recorded by {value.recording.tool}", value)


def findings_answer(program: Schedule, findings: Sequence[Finding], path: Path) -> Answer:
    """Return the answer of a check of the ``program`` in a file: what was found, the first 20 at once."""
    errors, unnamed = sum(found.severity == "error" for found in findings), unnamed_memory(program)
    counts = {"ops_with_unnamed_memory": unnamed, "errors": errors, "warnings": len(findings) - errors}
    found = [f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}"]
    unseen = f"{unnamed} of them do not name all the memory they touch: no race over it shows"
    first, rest = (_findings(some) for some in (findings[:MOST_FINDINGS], findings[MOST_FINDINGS:]))
    left = len(findings) - MOST_FINDINGS
    return Answer(
        title=f"{counted(len(program), 'op')}: {', '.join(found)}",
        tables=first,
        notes=(*((f"and {left} more; --all has them",) if rest else ()), *((unseen,) if unnamed else ())),
        more=rest,
        data={
            **{"schedule": str(path), "name": program.name, "ops": len(program), **counts},
            "findings": [{"severity": found.severity, **to_builtins(found)} for found in findings],
        },
        rows=[{name: getattr(found, name) for name in COLUMNS} for found in findings] or [dict.fromkeys(COLUMNS)],
    )


def _findings(some: Sequence[Finding]) -> tuple[Table, ...]:
    rows = tuple((found.severity, found.rule, found.what, found.remedy) for found in some)
    colours = {"error": "red", "warning": "yellow"}
    return (Table("", (rows,), ("", *COLUMNS[1:]), colours=colours),) if rows else ()
