"""Answers of values, whatever their kind: what they print, show in a notebook, and write as a page."""

from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from streamsim.advice import Advice, Explanation, WhatIf
from streamsim.analysis import Prediction
from streamsim.answer.changes import diagnosis_answer, loop_answer, what_if_answer
from streamsim.answer.document import Answer, Pictures
from streamsim.answer.predictions import explanation_answer, prediction_answer
from streamsim.answer.recordings import recording_answer, replay_answer
from streamsim.answer.searches import best_answer
from streamsim.diagnosis import Diagnosis
from streamsim.errors import counted
from streamsim.program import Schedule
from streamsim.races import Finding, unnamed_memory
from streamsim.recorded import Recording, RecordingSummary, Replay, summarise
from streamsim.report import Table, facts, title_of
from streamsim.search import Best
from streamsim.text import format_share
from streamsim.timeline import Timeline

MOST_FINDINGS = 20  # that are shown without being asked for


@singledispatch
def answer_of(value: Any) -> Answer:
    """Return the answer of a value. A value of another package makes its answer itself."""
    answer: Answer = value._answer()
    return answer


answer_of.register(Prediction, prediction_answer)
answer_of.register(Explanation, explanation_answer)
answer_of.register(Diagnosis, diagnosis_answer)
answer_of.register(Advice, loop_answer)
answer_of.register(Best, best_answer)
answer_of.register(WhatIf, what_if_answer)
answer_of.register(Replay, replay_answer)


@answer_of.register
def _(value: Recording | RecordingSummary) -> Answer:
    summary = summarise(value) if isinstance(value, Recording) else value
    return recording_answer(Answer(f"recorded by {summary.tool}"), summary)


@answer_of.register
def _(value: Timeline) -> Answer:
    used, within = value.utilisation, value.known_within
    rows = [
        ("makespan", value.makespan_s, ""),
        *((f"{name} busy", busy_s, format_share(used[name], within)) for name, busy_s in value.busy_s.items()),
        *((track.name, track.busy_s, "unified memory") for track in value.tracks),
        ("overlap", value.overlap_s, "two engines or more busy"),
    ]
    name = "measured" if value.device is None else f"on {value.device.name}"
    return Answer(title_of(value), facts=facts("", [rows], within), pictures=lambda: Pictures.of({name: value}))


def findings_answer(program: Schedule, findings: Sequence[Finding], path: Path) -> Answer:
    """Return the answer of a check of the ``program`` in a file: what was found, the first 20 at once."""
    errors, unnamed = sum(found.severity == "error" for found in findings), unnamed_memory(program)
    counts = {"ops_with_unnamed_memory": unnamed, "errors": errors, "warnings": len(findings) - errors}
    unseen = f"{unnamed} of them do not name all the memory they touch: no race over it shows"
    first, rest = (_findings(some) for some in (findings[:MOST_FINDINGS], findings[MOST_FINDINGS:]))
    left = len(findings) - MOST_FINDINGS
    return Answer(
        title=f"{counted(len(program), 'op')}: {counted(errors, 'error')}, {counted(counts['warnings'], 'warning')}",
        tables=first,
        notes=(*((f"and {left} more; --all has them",) if rest else ()), *((unseen,) if unnamed else ())),
        more=rest,
        data={
            **{"schedule": str(path), "name": program.name, "ops": len(program), **counts},
            "findings": [{"severity": found.severity, **to_builtins(found)} for found in findings],
        },
    )


def _findings(some: Sequence[Finding]) -> tuple[Table, ...]:
    rows = tuple((found.severity, found.rule, found.what, found.remedy) for found in some)
    return (Table("", (rows,), ("", "rule", "what", "remedy")),) if rows else ()
