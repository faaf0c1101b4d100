"""Who waits for whom: streams, events, the legacy stream and signals; and which calls may hold their thread."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from streamsim.lowering.costs import H2D, KERNEL, NOTHING
from streamsim.program.cuda_order import StreamOrder
from streamsim.program.schedule import RecordEvent, Synchronize, WaitEvent, WaitThread
from streamsim.rules.calls import NO_STREAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.lowering.host import Columns
    from streamsim.program.schedule import Op, Schedule

NO_OP = -1


class Links(NamedTuple):
    """Ops that wait for ops which are not the last of their stream: ``op[k]`` for ``before[k]``, in the order of issue.

    Columns, because a program may have as many of them as ops, and lists keep the garbage collector busy.
    """

    before: array[int]
    op: array[int]

    def by_op(self) -> dict[int, list[int]]:
        """For each op that others wait for so: those."""
        found: dict[int, list[int]] = {}
        for before, op in zip(*self, strict=True):
            found.setdefault(before, []).append(op)
        return found


class Order(NamedTuple):
    """What waits for what. ``awaited``: by host call that may hold its thread the ops that it waits for, in order.

    For the rest see ``Lowered``.
    """

    after: array[int]
    also: Links
    pending: array[int]
    frontier: dict[int, tuple[int, ...]]
    awaited: dict[int, tuple[int, ...]]


def order_of(schedule: Schedule, columns: Columns, kernel_signal: str) -> Order:
    """The order of a schedule's ops, on a device with that signal of kernels.

    Most ops follow the last one of their stream and nothing else, so such an op is ordered without a call.
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
    """Write down that ``op`` waits for its call and for all ``before``; ``last``: the op before it in its stream."""
    order.pending[op] = 1 + len(before)
    for earlier in before:
        if earlier == last:
            order.after[earlier] = op
        else:
            order.also.before.append(earlier)
            order.also.op.append(op)


def _order_call(order: Order, streams: StreamOrder, i: int, op: Op) -> None:
    """Order a record, a wait or a host call that may hold its thread."""
    if isinstance(op, RecordEvent):
        order.frontier[i] = streams.record(op.stream, op.event)
    elif isinstance(op, WaitEvent):
        order.frontier[i] = streams.wait(op.stream, op.event)
    elif isinstance(op, Synchronize):
        order.awaited[i] = streams.awaited(op)
    elif isinstance(op, WaitThread):
        order.awaited[i] = ()


def _run_ends(kind: bytearray, stream: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """For each kernel, the run of kernels issued back to back with it, no copy in between: the last of each stream."""
    ends: dict[int, tuple[int, ...]] = {}
    run: list[int] = []
    for i, its in enumerate((*kind, H2D)):
        if its == KERNEL:
            run.append(i)
        elif its != NOTHING and run:
            last = {stream[k]: k for k in run}
            ends |= dict.fromkeys(run, tuple(last.values()))
            run = []
    return ends
