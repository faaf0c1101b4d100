"""Search for the best chunks, streams and steps copied ahead of an existing program.

Every candidate is a list of changes of the program, made and simulated as :func:`streamsim.analysis.what_if.what_if`
does. The program's host work and the costs of its calls are therefore part of each prediction. The unchanged program is
a candidate too, so the result is never slower.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from streamsim.analysis import lower_bound, what_if
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, link_words
from streamsim.errors import InputError
from streamsim.program import Schedule, check_schedule
from streamsim.rules import TICKS_PER_S
from streamsim.search.budgeted import BUDGET_OPS, NEAR_PERCENT, NEVER, Search, within
from streamsim.search.evaluate import is_fast
from streamsim.search.result import Best, SimulatedProgram
from streamsim.transform import Change, Scenario, chunk_count, has_host_waits, has_pageable
from streamsim.transform import changes as make

replace = msgspec.structs.replace
FEW_CHUNKS = 4  # numbers of chunks below it do not end the search: one or two chunks overlap little
STREAMS, DEPTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 4)
HOLDS = ("drop_sync", "unblocked", "pinned")  # the order in which changes without a gain are left out


class Way(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of changes of a program, as ``streamsim whatif`` makes them.

    - ``pinned``: copies use pinned memory; ``unblocked``: blocking copies become asynchronous; ``drop_sync``: host
      waits are removed.
    - ``chunks``: the number of chunks in all (0: unchanged); ``streams``: the number of streams (0: unchanged).
    - ``depth``: the number of steps copied ahead (0: unchanged); ``order``: the issue order ("": unchanged).
    """

    pinned: bool = False
    unblocked: bool = False
    drop_sync: bool = False
    chunks: int = 0
    streams: int = 0
    depth: int = 0
    order: str = ""

    @property
    def words(self) -> str:
        """The changes as options of ``streamsim whatif``."""
        return " ".join(change.option for change in self.changes()) or "as it is"

    def changes(self) -> list[Change]:
        """Return the changes in the order in which ``streamsim whatif`` makes them."""
        found = [(self.pinned, make.pin), (self.unblocked, make.make_async), (self.drop_sync, make.drop_sync)]
        changes = [change() for asked, change in found if asked]
        changes += [make.chunks(self.chunks)] if self.chunks else []
        changes += [make.streams(self.streams)] if self.streams else []
        changes += [make.order(self.order)] if self.order else []
        return changes + ([make.prefetch(self.depth)] if self.depth else [])


def best_steps(
    schedule: Schedule,
    device: Device | str | Path,
    independent: bool = False,
    most_chunks: int = 256,
    most_streams: int = 32,
    budget_ops: int = BUDGET_OPS,
) -> Best[Way]:
    """Find the best numbers of chunks, streams and steps copied ahead of a program.

    Where overlap needs them, pinned memory, asynchronous copies and the removal of host waits come with a candidate.

    - ``device``: a Device, or the name or file of one.
    - ``independent``: True if the steps do not depend on each other, can be cut, and the host needs no result before
      the end. Otherwise, streams and other numbers of chunks are tried only if the schedule shows that they are
      possible.
    - ``most_chunks``, ``most_streams``: the most to try. The number of chunks is doubled as long as that gains time.
    - ``budget_ops``: the number of ops to simulate.

    Raises InputError for a program without chunks.
    """
    check_schedule("schedule", schedule)
    steps, device = chunk_count(schedule), as_device(device)
    ways = _Ways(schedule, device, independent, budget_ops)
    ways.ticks(Way())  # whatever the budget
    holds = ways.holds(independent)
    for way in (holds, *ways.in_other_order(holds)):
        ways.grid(way, steps, most_chunks, most_streams)
    use, best = ways.simplest(), ways.search.best()
    return Best(
        best=ways.result(best, steps),
        simplest=ways.result(use, steps),
        compared={"before": replace(ways.result(Way(), steps), words="the program unchanged")},
        work=schedule,
        card=device,
        link=link_words(device),
        programs=len(ways.search.took),
        simulated=len(ways.search.took),
        lists_all=False,
        left_open_because="only some numbers of chunks, streams and steps ahead are tried",
        exact=False,
        simplest_exact=False,
        floor_s=0.0,
        issued_bound=lower_bound(*ways.changed(best)),
        compiled=is_fast(),
        changes=what_if(schedule, device, use.changes(), independent) if use != Way() else None,
        not_tried=tuple(ways.left_out),
    )


class _Ways:
    """The changes of one program as candidates of a search; ``left_out``: reasons why the search stopped early."""

    def __init__(self, schedule: Schedule, device: Device, independent: bool, budget_ops: int) -> None:
        self._case = Scenario(schedule, device)
        self.changed = lru_cache(1)(lambda way: make.changed_by(way.changes(), self._case, independent).case.scenario)
        self.search = Search(self._ticks, lambda way: len(self.changed(way).schedule), _changes_of, budget_ops)
        self.left_out: list[str] = []

    def _ticks(self, ways: Sequence[Way]) -> list[int]:
        return [round(simulate_one_of_many(*self.changed(way)).makespan_s * TICKS_PER_S) for way in ways]

    def ticks(self, way: Way) -> int:
        """Return the ticks of a candidate, even without budget. Raises InputError if its changes are impossible."""
        if way not in self.search.took:
            self.search.evaluate([way])
        return self.search.took[way]

    def result(self, way: Way, steps: int) -> SimulatedProgram[Way]:
        """Return the result of a candidate; the unchanged program has ``steps`` chunks."""
        takes_s, before_s = (self.ticks(one) / TICKS_PER_S for one in (way, Way()))
        more = {"options": way.words, "chunks": way.chunks or steps, "gain": before_s / takes_s if takes_s else 1.0}
        return SimulatedProgram(way, way.words, takes_s, more=more)

    def holds(self, independent: bool) -> Way:
        """Return the candidate that removes the obstacles to overlap: pageable memory, blocking calls and host waits.

        Host waits are removed only from ``independent`` steps.
        """
        way = Way(pinned=has_pageable(self._case.schedule))
        for name in ("unblocked", "drop_sync")[: 1 + independent]:
            if has_host_waits(self.changed(way).schedule):
                way = replace(way, **{name: True})
        return way

    def in_other_order(self, way: Way) -> list[Way]:
        """Return the candidate in depth-first order, or none if it already has that order or cannot have it."""
        other = replace(way, order="depth-first")
        try:
            case, reordered = (self.changed(some) for some in (way, other))
        except InputError:  # the data needs another order
            return []
        return [] if reordered.schedule == case.schedule else [other]

    def grid(self, holds: Way, steps: int, most_chunks: int, most_streams: int) -> None:
        """Try streams and steps copied ahead, with the program's chunks and ever twice as many, while it gains."""
        fastest, chunks = self.ticks(holds), steps
        while chunks <= max(steps, most_chunks):
            level = replace(holds, chunks=chunks if chunks > steps else 0)
            if not self._level(level, chunks, most_streams):
                return
            alike = [way for way in self.search.took if (way.chunks, way.order) == (level.chunks, level.order)]
            level_ticks = min(map(self.ticks, alike))
            if level.chunks and within(fastest, level_ticks, NEAR_PERCENT) and chunks >= FEW_CHUNKS:
                return
            fastest, chunks = min(fastest, level_ticks), 2 * chunks

    def _level(self, way: Way, steps: int, most_streams: int) -> bool:
        """Try streams and steps copied ahead with the chunks of ``way``. Return False if memory or budget ends it."""
        streams = (replace(way, streams=count) for count in STREAMS if count <= min(most_streams, steps))
        ahead = (replace(way, depth=depth) for depth in DEPTHS if depth < steps)
        for option, some in (("", [way]), ("--streams", streams), ("--prefetch", ahead)):
            try:
                if not self._while_it_gains(some):
                    self.left_out.append(f"more than {way.words}: the search would take too long")
                    return False
            except InputError as error:
                reason = str(error).partition(": ")[2]  # behind the change that cannot be made
                if not any(why.endswith(f": {reason}") for why in self.left_out):
                    self.left_out.append(f"{option or f'{way.words}, and more'}: {reason}")
            if way not in self.search.took:
                return False
        return True

    def _while_it_gains(self, ways: Iterable[Way]) -> bool:
        """Try candidates until two in a row are no faster. Return False if the budget ends first."""
        fastest, slower = NEVER, 0
        for way in ways:
            if way not in self.search.took and self.search.cost_ops([way]) > self.search.left_ops:
                return False
            ticks = self.ticks(way)
            slower = 0 if ticks < fastest else slower + 1
            fastest = min(fastest, ticks)
            if slower == 2:
                break
        return True

    def simplest(self) -> Way:
        """Return the candidate with the fewest changes within 1 % of the fastest, without changes that gain nothing."""
        found = self.search.simplest()
        for name in HOLDS:
            without = replace(found, **{name: False})
            if within(self.ticks(without), self.search.shortest, NEAR_PERCENT):
                found = without
        return found


def _changes_of(way: Way) -> tuple[int, int, int, str, bool]:
    return way.chunks, way.streams + way.depth, way.depth, way.order, way != Way()
