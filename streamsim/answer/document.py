"""The document that every command and value answers with. Renderers show any answer, and know no command."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from streamsim.page import Map, Shown
from streamsim.report import Losses, Table
from streamsim.timeline import Timeline


class Pictures(msgspec.Struct, frozen=True):
    """What a browser draws: the losses by cause, a map of many configurations, time lines on one scale.

    ``changes``: time lines of other changes, one of which may take the place of the first line.
    """

    losses: Losses | None = None
    map: Map | None = None
    lines: tuple[Shown, ...] = ()
    changes: tuple[Shown, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The contents of an answer, from top to bottom.

    - ``title``: the work and the device. ``verdict``: the answer in sentences, each with its condition.
    - ``warnings``: sentences that say why the answer may be wrong.
    - ``facts``: rows of name, amount, remark. Their first group is the headline.
    - ``sketch``: the time line that a terminal draws in letters.
    - ``tables``, with sentences and time lines between them; ``notes``: what is assumed.
    - ``more``: tables and sentences that a terminal shows only with ``--all``.
    - ``pictures``: makes what a browser draws, when it is asked for.
    - ``data``: the same for programs, as plain numbers and strings; ``rows``: rows of CSV, where rows
      are the answer.
    - ``command``: the command that was called; empty if no command was.
    """

    title: str
    verdict: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Table | None = None
    sketch: Timeline | None = None
    tables: tuple[str | Table | Timeline, ...] = ()
    notes: tuple[str, ...] = ()
    more: tuple[str | Table, ...] = ()
    pictures: Callable[[], Pictures] = Pictures
    data: dict[str, Any] = {}
    rows: Sequence[dict[str, Any]] = ()
    command: str = ""

    def parts(self, everything: bool = False) -> Iterator[str | Table | Timeline]:
        """Yield what is below the title, in the order in which it is read. ``everything``: with ``more``."""
        yield from (*self.verdict, *self.warnings)
        if self.facts is not None:
            yield self.facts
        if self.sketch is not None:
            yield self.sketch
        yield from self.tables
        yield from self.notes
        if everything:
            yield from self.more
