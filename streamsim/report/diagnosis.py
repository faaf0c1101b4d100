"""A diagnosis as tables: the programs that explain a measured time, and the measurement that tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.report.tables import Row, Table
from streamsim.text.quantities import format_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamsim.diagnosis.diagnose import CandidateProgram, Diagnosis, NextMeasurement

MOST_EQUAL, MOST_OTHERS = 8, 3  # rows


def nearest(found: Diagnosis) -> tuple[list[CandidateProgram], list[CandidateProgram]]:
    """Return the simplest explanations that fit, and the nearest others."""
    return list(found.simplest)[:MOST_EQUAL], list(found.explanations[len(found.fitting) :][:MOST_OTHERS])


def diagnosis_tables(found: Diagnosis) -> list[Table]:
    """Return the tables of the nearest explanations, and of what tells them apart."""
    equal, others = nearest(found)
    tables = [explaining_table(equal, found)] * bool(equal) + [other_table(others, equal)] * bool(others)
    return tables if found.next is None else [*tables, apart_table(found.next)]


def explaining_table(equal: Sequence[CandidateProgram], found: Diagnosis) -> Table:
    """Return the explanations that fit, as rows."""
    return _table(equal, f"Explanations within {found.known:.0%} of the measured time")


def other_table(others: Sequence[CandidateProgram], equal: Sequence[CandidateProgram]) -> Table:
    """Return explanations that do not fit, as rows."""
    return _table(others, "Nearest of the others" if equal else "Nearest")


def apart_table(measure: NextMeasurement) -> Table:
    """Return what each explanation says of a second measurement."""
    rows = [(title, time.words) for title, time in measure.says]
    return _of_rows(rows, f"To tell them apart, measure {measure.what}", ("if", "it takes"))


def _table(found: Sequence[CandidateProgram], title: str) -> Table:
    rows = [(one.title, ", ".join(time.words for time in one.times_s), format_change(one.off)) for one in found]
    return _of_rows(rows, title, ("what the program does", "takes", "off"))


def _of_rows(rows: Iterable[Row], title: str, names: Row) -> Table:
    numbers = frozenset(range(1, len(names)))
    return Table(title, (tuple(rows),), names, numbers, numbers)
