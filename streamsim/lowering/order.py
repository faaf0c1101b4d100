"""The order of ops: which ops an op waits for, and which host calls wait for ops.

Streams, events, the legacy default stream and the signals behind kernels set this order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from streamsim.lowering.costs import H2D, KERNEL, NOTHING
from streamsim.lowering.host import Columns
from streamsim.program import Op, RecordEvent, Schedule, StreamOrder, Synchronize, WaitEvent, WaitThread
from streamsim.rules import NO_STREAM

NO_OP = -1


class Links(NamedTuple):
    """The dependences beside stream order: ``op[k]`` waits for ``before[k]``. They stand in issue order of ``op``.

    They are columns because a program may have as many of them as ops, and lists keep the garbage collector busy.
    """

    before: array[int]
    op: array[int]

    def by_before(self) -> dict[int, list[int]]:
        """Return the ops that wait, by the op that they wait for."""
        return _grouped(self.before, self.op)

    def by_op(self) -> dict[int, list[int]]:
        """Return the ops that are waited for, by the op that waits for them."""
        return _grouped(self.op, self.before)


def _grouped(keys: array[int], values: array[int]) -> dict[int, list[int]]:
    """Return the values of each key, in order."""
    found: dict[int, list[int]] = {}
    for key, value in zip(keys, values, strict=True):
        found.setdefault(key, []).append(value)
    return found


class Order(NamedTuple):
    """The dependences of a schedule. All but ``awaited`` are described in :class:`~streamsim.lowering.lowered.Lowered`.

    ``awaited``: the ops that each host call waits for. The calls that may hold their thread stand in it, in order.
    """

    after: array[int]
    also: Links
    pending: array[int]
    frontier: dict[int, tuple[int, ...]]
    awaited: dict[int, tuple[int, ...]]


def order_of(schedule: Schedule, columns: Columns, kernel_signal: str) -> Order:
    """Return the order of a schedule's ops. ``kernel_signal``: see :class:`~streamsim.device.profile.Compute`.

    Most ops wait only for the op before them in their stream. The loop itself handles such an op, because calling a
    function for it would take longer.
    """
    kind, stream = columns.kind, columns.stream
    ops, streams = schedule.ops, StreamOrder(schedule)
    order = Order(array("i", [NO_OP]) * len(kind), Links(array("i"), array("i")), array("i", [0]) * len(kind), {}, {})
    after, pending, tail = order.after, order.pending, streams.tail
    latest = [NO_OP] * len(tail)  # the last op of each stream, whose follower is not yet known
    run_ends = _run_ends(kind, stream) if kernel_signal == "run" else {}
    for i, (its, own, held) in enumerate(zip(kind, stream, columns.holds, strict=True)):
        if its == NOTHING:
            if own != NO_STREAM or held:
                _order_call(order, streams, i, ops[i])
            continue
        before, last = tail[own] if own else streams.before(own), latest[own]
        if run_ends and its != KERNEL:
            before = tuple(dict.fromkeys(end for earlier in before for end in run_ends.get(earlier, (earlier,))))
        if len(before) == 1 and before[0] == last:
            pending[i], after[last] = 2, i  # its call, and the op before it
        else:
            _follow(order, i, last, before)
        latest[own] = i
        if own:
            tail[own] = (i,)
        else:
            streams.append(own, i)
    return order


def _follow(order: Order, op: int, last: int, before: tuple[int, ...]) -> None:
    """Add that ``op`` waits for its call and for all of ``before``. ``last``: the op before it in its stream."""
    order.pending[op] = 1 + len(before)
    for earlier in before:
        if earlier == last:
            order.after[earlier] = op
        else:
            order.also.before.append(earlier)
            order.also.op.append(op)


def _order_call(order: Order, streams: StreamOrder, i: int, op: Op) -> None:
    """Add what a record, a wait or a host call waits for."""
    if isinstance(op, RecordEvent):
        order.frontier[i] = streams.record(op.stream, op.event)
    elif isinstance(op, WaitEvent):
        order.frontier[i] = streams.wait(op.stream, op.event)
    elif isinstance(op, Synchronize):
        order.awaited[i] = streams.awaited(op)
    elif isinstance(op, WaitThread):
        order.awaited[i] = ()


def _run_ends(kind: bytearray, stream: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return, for each kernel, the ops that end its run: the run's last kernel in each stream.

    A run is a number of kernels that are issued one after another without a copy between them.
    """
    ends: dict[int, tuple[int, ...]] = {}
    run: list[int] = []
    for i, its in enumerate((*kind, H2D)):  # the copy at the end ends the last run
        if its == KERNEL:
            run.append(i)
        elif its != NOTHING and run:
            last = {stream[k]: k for k in run}
            ends |= dict.fromkeys(run, tuple(last.values()))
            run = []
    return ends
