"""Tables of the gains of changes of a program."""

from functools import partial

from streamsim.analysis import Outcome, WhatIf
from streamsim.report.tables import Row, Table, cut
from streamsim.text import format_ratio, format_seconds


def what_if_table(found: WhatIf, title: str) -> Table:
    """Return the program as it is, with each change alone and with all of them; then what they do and assume."""
    is_same = len(found.alone) == 1 and found.alone[0].change == found.together.change
    row = partial(_row, within=found.known_within)
    together = [] if is_same else [row(found.together)]
    told = [(option, words) for option, words in zip(found.options, found.words, strict=True) if words]
    told += [("assumed", text) for text in found.assumed] + [("note", text) for text in found.notes]
    groups = ([row(found.before)], map(row, found.alone), together, ((what, "", "", text) for what, text in told))
    heads = ("change", "time", "gain", "what binds then")
    return Table(title, tuple(tuple(group) for group in groups), heads, frozenset({1, 2}))


def _row(outcome: Outcome, within: float) -> Row:
    gain = format_ratio(outcome.gain, within) if outcome.change != "as it is" else ""
    return cut((outcome.change, format_seconds(outcome.makespan_s, within), gain, outcome.binds))
