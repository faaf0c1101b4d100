"""A diagnosis as tables: the programs that explain a measured time, and the measurement that tells them apart."""

from collections.abc import Iterable, Sequence

from streamsim.diagnosis import CandidateProgram, Diagnosis, NextMeasurement
from streamsim.report.tables import Row, Table
from streamsim.text import format_change

MOST_EQUAL, MOST_OTHERS = 8, 3  # rows


def nearest(found: Diagnosis) -> tuple[list[CandidateProgram], list[CandidateProgram]]:
    """Return the simplest explanations that fit, and the nearest others."""
    return list(found.simplest)[:MOST_EQUAL], list(found.explanations[len(found.fitting) :][:MOST_OTHERS])


def diagnosis_tables(found: Diagnosis) -> list[Table]:
    """Return the tables of the nearest explanations, and of what tells them apart."""
    equal, others = nearest(found)
    tables = [explaining_table(equal, found)] if equal else []
    tables += [other_table(others, found, "Nearest of the others" if equal else "Nearest")] if others else []
    return tables if found.next is None else [*tables, apart_table(found.next, found)]


def explaining_table(equal: Sequence[CandidateProgram], found: Diagnosis) -> Table:
    """Return the explanations that fit, as rows."""
    return other_table(equal, found, f"Explanations within {found.known_within:.0%} of the measured time")


def other_table(others: Sequence[CandidateProgram], found: Diagnosis, title: str) -> Table:
    """Return explanations as rows: what the program does, its times, and how far they are off."""
    within = found.known_within
    rows = [
        (one.title, ", ".join(time.words(within) for time in one.times_s), format_change(one.off, within))
        for one in others
    ]
    return _of_rows(rows, title, ("what the program does", "takes", "off"))


def apart_table(measure: NextMeasurement, found: Diagnosis) -> Table:
    """Return what each explanation says of a second measurement."""
    rows = [(title, time.words(found.known_within)) for title, time in measure.says]
    return _of_rows(rows, f"To tell them apart, measure {measure.what}", ("if", "it takes"))


def _of_rows(rows: Iterable[Row], title: str, names: Row) -> Table:
    numbers = frozenset(range(1, len(names)))
    return Table(title, (tuple(rows),), names, numbers, numbers)
