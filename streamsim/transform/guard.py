"""The guard of all changes: which orders between copies and kernels a changed program has lost.

An order that named memory shows to be needless may be lost: two ops then touch no bytes in common, or only read them.
Waits keep the order of named memory that is needed. Any other order may be lost only under a condition.
What gave the order says which one: a wait of the host, the legacy default stream, or streams and events between steps.
No condition allows that an op passes another one of its own step, or that a copy overwrites what the kernels of an
earlier step may still use.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from streamsim import program
from streamsim.errors import InputError
from streamsim.races import HappensBefore, earlier_ops
from streamsim.transform.dependences import dependences_of
from streamsim.transform.steps import is_by_steps, steps_of
from streamsim.transform.work import NON_BLOCKING, CardOp, Work, is_load, is_work, working_streams

INDEPENDENT = "your steps are independent"
ORDERS_NO_STREAMS = "no stream needs the host's wait for another stream"
NEEDS_NO_LEGACY = "no stream needs the order of the legacy default stream"
NEVER = ""  # in place of a condition

Pair = tuple[int, int]  # two ops, the earlier first


class Lost(NamedTuple):
    """An op that may start before an earlier one has ended, which it could not; ``unless``: of NEVER, refused."""

    earlier: int
    later: int
    conditions: tuple[str, ...]


def lost_orders(was: Work, made: Work) -> list[Lost]:
    """Return the orders of the first program that ``was`` keeps and ``made`` from it does not keep."""
    if was.pipeline is not None or made.first is None or made.schedule is was.schedule:
        return []
    required = _required(made.first)
    if not required:
        return []
    now, then = _Kept(made, made.first), _Kept(was, was.first) if was.first else None
    lost = [Lost(*pair, conditions) for pair, conditions in required.items() if not now.keeps(*pair)]
    return [one for one in lost if then is None or then.keeps(one.earlier, one.later)]


@program.remembered
def _order(schedule: program.Schedule, holds: bool = True) -> HappensBefore:
    """Return which copies and kernels of a schedule have ended when another one starts. ``holds``: the host waits."""
    order, pageable = HappensBefore(schedule), schedule.pageable_names
    for i, op in enumerate(schedule.ops):
        if isinstance(op, CardOp):
            order.start(i, op.stream, order.now(op.stream, op.thread))
            if holds and isinstance(op, program.Copy) and op.is_done_on_return(pageable):
                order.host_learns(op.thread, order.ended(i))
        elif holds or not isinstance(op, program.Synchronize | program.WaitThread):
            order.call(op)
    return order


class _Kept:
    """Which orders of the ``first`` program a changed one keeps."""

    def __init__(self, work: Work, first: program.Schedule) -> None:
        self._order, self._steps = _order(work.schedule), _steps(first)
        self._images = defaultdict[int, list[int]](list)  # by op of the first program those that do it
        works = (i for i, op in enumerate(work.schedule.ops) if is_work(op))
        for i, origins in zip(works, work.origins, strict=True):
            for origin in origins:
                self._images[origin].append(i)

    def keeps(self, earlier: int, later: int) -> bool:
        """Return True if ``later`` starts when ``earlier`` has ended; in a step cut in pieces, each behind its own."""
        before, after, stream_of = self._images[earlier], self._images[later], self._order.stream_of
        is_one = self._steps[earlier] == self._steps[later]
        pairs: Iterable[Pair]
        if len(before) == len(after) and (is_one or len(after) == 1):
            pairs = zip(before, after, strict=True)
        else:  # of a stream the last one has ended last, and the first one starts first
            last = {stream_of[k]: k for k in before}.values()
            pairs = product(last, {stream_of[i]: i for i in reversed(after)}.values())
        # what is kept on the card is copied by no op of its own
        pairs = ((k, i) for k, i in pairs if k != i or not is_one)
        return all(k < i and self._order.last_before(i, stream_of[k]) >= k for k, i in pairs)


@program.remembered
def _required(schedule: program.Schedule) -> dict[Pair, tuple[str, ...]]:
    """Return pairs of ops whose orders bring about all that a change may not lose, and the conditions of each."""
    needs = dependences_of(schedule)
    if not needs.unnamed and not needs.is_racy:
        return {}
    steps, unnamed = _steps(schedule), needs.unnamed
    loads = [is_load(op) for op in schedule.ops]  # an op may stay behind another one that a load may pass

    @cache
    def pairs(order: HappensBefore) -> set[Pair]:
        return {
            pair for some in ([0] * len(steps), loads, steps) for pair in _pairs(schedule.ops, order, unnamed, some)
        }

    plain = schedule  # with a legacy stream that waits for no other
    if any(op.stream == program.LEGACY_STREAM for op in schedule.ops):
        plain = replace(schedule, streams=NON_BLOCKING * len(schedule.streams))
    streams, everything = _order(plain, holds=False), _order(schedule)
    found: dict[Pair, tuple[str, ...]] = {}
    if len(working_streams(schedule)) > 1:  # else its stream gives all of the order
        of_host, of_legacy = pairs(_order(plain)), pairs(_order(schedule, holds=False))
        found = dict.fromkeys(pairs(everything), (ORDERS_NO_STREAMS, NEEDS_NO_LEGACY))
        found |= dict.fromkeys(of_host - of_legacy, (ORDERS_NO_STREAMS,))
        found |= dict.fromkeys(of_legacy - of_host, (NEEDS_NO_LEGACY,))
    found |= {(k, i): (INDEPENDENT if steps[k] != steps[i] else NEVER,) for k, i in pairs(streams)}
    for later, touches in enumerate(earlier_ops(_with_copied(schedule.ops, steps, unnamed), schedule.buffers)):
        for earlier in {k for _, _, ops in touches for k in ops if k != later}:
            is_named = unnamed.isdisjoint((earlier, later))
            order = everything if is_named else streams
            if (needs.is_racy or not is_named) and order.last_before(later, order.stream_of[earlier]) >= earlier:
                found[earlier, later] = (NEVER,)
    return found


def _pairs(ops: Sequence[program.Op], order: HappensBefore, unnamed: set[int], groups: Sequence[int]) -> Iterator[Pair]:
    """Yield pairs of ordered ops of a group, one of them unnamed, from which the order of all such pairs follows.

    An op need not be compared with what an unnamed op before it in its stream comes behind, nor with what an unnamed op
    in between comes behind.
    """
    lines: dict[int, dict[int, list[int]]] = {}  # by group and stream its ops so far
    lines_unnamed: dict[int, dict[int, list[int]]] = {}
    for later, op in enumerate(ops):
        if not is_work(op):
            continue
        group, own = groups[later], order.stream_of[later]
        line = lines_unnamed.setdefault(group, {}).setdefault(own, [])
        before = line[-1] if line else None
        for stream, some in (lines if later in unnamed else lines_unnamed).get(group, {}).items():
            end = bisect_right(some, order.last_before(later, stream))
            known = -1 if before is None else before - 1 if stream == own else order.last_before(before, stream)
            for earlier in reversed(some[bisect_right(some, known) : end]):
                yield earlier, later
                if earlier in unnamed:
                    break
        lines.setdefault(group, {}).setdefault(own, []).append(later)
        if later in unnamed:
            line.append(later)


@program.remembered
def _steps(schedule: program.Schedule) -> list[int]:
    """Return the step of each op, or its chunk where the data shows chunks, or neither shows."""
    with suppress(InputError):
        if is_by_steps(schedule):
            begins = [step.start for step in steps_of(schedule)]
            return [max(0, bisect_right(begins, i) - 1) for i in range(len(schedule.ops))]
    return dependences_of(schedule).chunk


def _with_copied(ops: Sequence[program.Op], steps: Sequence[int], unnamed: set[int]) -> Iterator[program.Op]:
    """Yield the ops. Unnamed kernels read what their step copies to the card, and write what it copies back."""
    copied: dict[tuple[int, str], dict[program.Region, None]] = {}
    for op, step in zip(ops, steps, strict=True):
        if isinstance(op, program.Copy) and op.device is not None:
            copied.setdefault((step, op.direction), {})[op.device] = None
    for i, (op, step) in enumerate(zip(ops, steps, strict=True)):
        if isinstance(op, program.Kernel) and i in unnamed:
            reads, writes = copied.get((step, "h2d"), ()), copied.get((step, "d2h"), ())
            op = replace(op, reads=(*op.reads, *reads), writes=(*op.writes, *writes))
        yield op
