"""What the ops of a schedule need of each other, and the same ops in other orders that keep it.

An op that reads what another one writes stays behind it. If an op does not name its memory, it also stays behind the
ops that its stream and its events put before it. A changed schedule gets the waits that keep it free of races.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from streamsim.errors import InputError
from streamsim.program import HostWork, Kernel, Op, Region, Schedule, Synchronize, WaitThread, remembered
from streamsim.races import check, earlier_ops, repaired
from streamsim.transform.data_flow import DataFlow
from streamsim.transform.issue import issued, new_streams
from streamsim.transform.legacy_stream import legacy_beside, orders_unknown
from streamsim.transform.ops import is_work, last_work, names_memory, stage_of, working_streams


def dependences_of(schedule: Schedule, tables: frozenset[Region] = frozenset()) -> Dependences:
    """Return what the ops of a schedule need of each other. ``tables``: ranges that are known to be shared by chunks.

    What the legacy default stream orders by waiting for others does not show in its own stream: of ops that name no
    memory they are those of the streams in which the ops would be without it.
    """
    return _dependences(schedule, tables)


@remembered
def _dependences(schedule: Schedule, tables: frozenset[Region]) -> Dependences:
    racy = is_racy(schedule)
    if orders_unknown(schedule):
        schedule = legacy_beside(schedule)  # which may lose an order of named memory, and is not issued so
    return Dependences(schedule, tables, racy)


IN_ROUNDS = "breadth-first-in-rounds"  # of one chunk a stream


class Dependences(DataFlow):
    """The dependences between the ops of a schedule, beside their data, and new schedules that keep them.

    - ``is_racy``: True if the schedule has races. Dependences that it does not enforce are then dropped.
    - ``last``: the last copy or kernel, or -1.
    - ``unnamed``: the ops that may use memory which they do not name.
    - ``orders``: by name, the orders of issue that keep every dependence and differ from the schedule's own.
    - ``issued``: the names of the schedule's own orders.
    """

    def __init__(self, schedule: Schedule, tables: Collection[Region] = (), racy: bool | None = None) -> None:
        self.is_racy = is_racy(schedule) if racy is None else racy
        self.last = last_work(schedule)
        super().__init__(schedule, self.is_racy, tables)
        self.unnamed = _unnamed(schedule.ops, self)
        self.issued = set[str]()
        self.orders = self._find_orders()

    @property
    def has_needless_order(self) -> bool:
        """Return True if streams, events or buffers used again put an op behind one from which it reads nothing."""
        return any(
            self.chunk[earlier] != self.chunk[op] and earlier not in self.reads_from[op]
            for op, before in enumerate(self.before)
            for earlier in before | self.conflicts[op]
        )

    def _find_orders(self) -> dict[str, list[int]]:
        ops = self._schedule.ops
        work = [i for i, op in enumerate(ops) if is_work(op)]
        number = {root: k for k, root in enumerate(dict.fromkeys(self.chunk[i] for i in work))}
        turn = {i: number[self.chunk[i]] for i in work}
        streams = len(working_streams(self._schedule))
        stage = [stage_of(op) for op in ops]
        keys: dict[str, Callable[[int], tuple[int, ...]]] = {
            "depth-first": lambda i: (turn[i], i),
            "breadth-first": lambda i: (stage[i], turn[i], i),
            IN_ROUNDS: lambda i: (turn[i] // streams, stage[i], turn[i], i),
        }
        found: dict[str, list[int]] = {}
        for name, key in keys.items():
            order = sorted(work, key=key)
            if order == work:
                self.issued.add(name)
            elif order not in found.values():
                place = {i: k for k, i in enumerate(order)}
                if all(place[k] < place[i] for i in order for k in self.conflicts[i] | self.awaits(i)):
                    found[name] = order
        return found

    def reordered(self, schedule: Schedule, order: str, holds: bool) -> Schedule:
        """Return ``schedule``, which may differ from this one in single ops, in one of the ``orders``, in its streams.

        ``holds``: synchronisations stay; what the host waits for stays before what it issues then.
        """
        edges = [conflicts | self.awaits(i) for i, conflicts in enumerate(self.conflicts)]
        streams = {i: op.stream or 0 for i, op in enumerate(schedule.ops)}
        sequence = self.sequence(order, holds)
        ops = [schedule.ops[i] for i in sequence]
        return issued(schedule, ops, sequence, streams, schedule.streams, edges, self.awaited)

    def unordered(self, schedule: Schedule, order: str | None, holds: bool, most: int) -> Schedule:
        """Return ``schedule`` ordered by data only, as if no buffer were used twice, in at most ``most`` streams."""
        sequence = self.sequence(order, holds)
        ops = [schedule.ops[i] for i in sequence]
        works = (i for i, op in zip(sequence, ops, strict=True) if is_work(op))
        streams, kinds = new_streams(schedule, works, self.reads_from, most)
        return issued(schedule, ops, sequence, streams, kinds, self.reads_from, self.awaited)

    def sequence(self, order: str | None, holds: bool) -> list[int]:
        """Return the copies, kernels and (if the host ``holds``) synchronisations in an order of issue.

        Nothing passes what the host does between its calls: its data may come from there.
        """
        ops = self._schedule.ops
        place = {i: k for k, i in enumerate(self.orders[order])} if order else {i: i for i in range(len(ops))}
        stretch, found = list[int](), list[int]()
        for i, op in enumerate(ops[: self.last + 1]):
            if is_work(op):
                stretch.append(i)
            elif isinstance(op, HostWork | WaitThread) or (holds and isinstance(op, Synchronize)):
                found += (*sorted(stretch, key=place.__getitem__), i)
                stretch = []
        return found + sorted(stretch, key=place.__getitem__)


def _unnamed(ops: Sequence[Op], needs: Dependences) -> set[int]:
    """Return the ops that may use memory which they do not name.

    Those are the ops without memory, kernels that write none (but to sums), and kernels of two streams that an event
    orders although they share no named bytes: they may hand over something that the program does not name.
    """
    found = {i for i, op in enumerate(ops) if not names_memory(op) or (isinstance(op, Kernel) and not op.writes)}
    found -= {k for i in needs.sums for k in needs.reads_from[i] if names_memory(ops[k])}
    for i, op in enumerate(ops):
        behind = [k for k in needs.awaits(i) - needs.conflicts[i] if isinstance(ops[k], Kernel)]
        if behind and isinstance(op, Kernel):
            found.update((i, *behind))
    return found


MOST_REPAIRS = 4  # of a changed schedule


@remembered
def is_racy(schedule: Schedule) -> bool:
    """Return True if the schedule has races."""
    return _shares_bytes(schedule) and any(finding.rule == "race" for finding in check(schedule))


def _shares_bytes(schedule: Schedule) -> bool:
    """Return True if two ops are seen to use the same bytes, of which one writes them."""
    found = earlier_ops(schedule.ops, schedule.buffers)
    return any(earlier for touches in found for _, _, earlier in touches)


def still_ordered(before: Schedule, after: Schedule) -> Schedule:
    """Return ``after`` with waits for events where it has lost an order that its data needs.

    If ``before`` has races, ``after`` is returned unchanged. A wait may move what others wait for, so that repairs are
    repeated. Raises InputError if races are left.
    """
    if after is before or not _shares_bytes(after) or is_racy(before):
        return after
    for _ in range(MOST_REPAIRS):
        races = [finding for finding in check(after) if finding.rule == "race"]
        if not races:
            return after
        after = repaired(after, races)
    raise InputError("ops: the order that the data needs cannot be kept by waits for events")
