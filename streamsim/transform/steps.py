"""The steps of a program that repeats: copies to the card, kernels, copies back, and what the host does on the way.

A recorded program does not say what memory its ops touch. What it shows is their order: a copy to the card behind a
kernel or a copy back begins a new step. What steps need of each other it does not show.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.program import Copy, HostWork, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent, WaitThread
from streamsim.transform.data_flow import conflicts_in
from streamsim.transform.dependences import dependences_of, is_racy
from streamsim.transform.ops import NON_BLOCKING, Work, is_load, is_of_a_call, is_work, last_work
from streamsim.transform.pieces import cut
from streamsim.transform.recut import Origins, Recut


class Steps(NamedTuple):
    """The ops of a schedule, in its order: ``before`` the first step, those of each step, ``after`` the last.

    What the host does between two steps belongs to the later one, except up to its last wait or event; waits for
    threads that make no calls, such as workers that load data, do not count. After the last copy or kernel there is no
    step.
    """

    before: tuple[Op, ...]
    steps: tuple[tuple[Op, ...], ...]
    after: tuple[Op, ...]


def own_work_s(ops: Iterable[Op]) -> float:
    """Return the seconds of the program's own host work among these ops, such as loading a batch."""
    return fsum(op.duration_s for op in ops if isinstance(op, HostWork) and not is_of_a_call(op))


def steps_of(schedule: Schedule) -> Steps:
    """Cut a schedule into its steps.

    Raises InputError unless there are two or more, begun by one thread that others wait for, and are waited for by, in
    each of them, as in a backward pass of PyTorch.
    """
    last = last_work(schedule)
    calling = {op.thread for op in schedule.ops if not isinstance(op, HostWork)}
    steps: list[list[Op]] = [[]]
    has_worked = False  # whether the step has a kernel or a copy back
    waiting: list[Op] = []  # what the host has done since the last op on the card: of this step or of the next
    for op in schedule.ops[: last + 1]:
        if is_load(op) and has_worked:
            closing = max((i + 1 for i, one in enumerate(waiting) if _is_of_calls(one, calling)), default=0)
            steps[-1] += waiting[:closing]
            steps.append(waiting[closing:])
            waiting, has_worked = [], False
        if isinstance(op, Work):
            steps[-1] += [*waiting, op]
            waiting = []
            has_worked = has_worked or not is_load(op)
        else:
            waiting.append(op)
    if len(steps) < 2:
        raise InputError("no step is repeated: no copy to the card is issued behind a kernel or a copy back")
    first = next(i for i, op in enumerate(steps[0]) if isinstance(op, Work))
    _check_joined([steps[0][first:], *steps[1:]])
    return Steps(tuple(steps[0][:first]), (tuple(steps[0][first:]), *map(tuple, steps[1:])), schedule.ops[last + 1 :])


def _is_of_calls(op: Op, calling: set[int]) -> bool:
    """Return True if an op is a call, or a wait for a thread that makes calls."""
    return op.other in calling if isinstance(op, WaitThread) else not isinstance(op, HostWork)


def _check_joined(steps: Sequence[Sequence[Op]]) -> None:
    """Nobody's calls are of two steps. Behind the last step nobody need wait; what a thread does on its own is free."""
    main = steps[0][0].thread
    for k, step in enumerate(steps, 1):
        calling = set[int]()  # threads that the first lets call, and has not waited for since
        for op in step:
            if isinstance(op, WaitThread) and op.thread == main:
                calling.discard(op.other)
            elif isinstance(op, WaitThread) and op.other == main:
                calling.add(op.thread)
            elif not isinstance(op, HostWork) and op.thread not in {main, *calling}:
                raise InputError(
                    f"ops: issued by several host threads: in step {k} thread {op.thread} waits for nobody"
                )
        if calling and k < len(steps):
            raise InputError(f"ops: issued by several host threads: in step {k} nobody waits for thread {min(calling)}")


def over_streams(schedule: Schedule, streams: int) -> Schedule:
    """Return the steps in ``streams`` new streams in turn, each behind nothing but its own stream.

    Right only if no step needs anything of another one. Raises InputError as :func:`steps_of`, and for a step that is
    itself in several streams.
    """
    found = steps_of(schedule)
    ops = list(found.before)
    busy = set[int]()  # the streams whose work the host has not waited for
    for k, step in enumerate(found.steps):
        if len({op.stream for op in step if isinstance(op, Work)}) > 1:
            raise InputError(f"step {k + 1} is in several streams already: --streams is for steps in one")
        ops += _moved(step, 1 + k % streams, busy)
    ops += _moved(found.after, 1, set(range(1, 1 + streams)))
    return replace(schedule, ops=tuple(ops), streams=NON_BLOCKING * streams, events=0)


def _moved(step: Iterable[Op], stream: int, busy: set[int]) -> list[Op]:
    """A step in this stream; the host waits for all that it waited for, in whichever ``busy`` streams that now is."""
    moved: list[Op] = []
    for op in step:
        if isinstance(op, Work):
            moved.append(replace(op, stream=stream))
            busy.add(stream)
        elif isinstance(op, Synchronize):
            of_one = busy <= {stream} and (op.stream is not None or op.event is not None)
            moved.append(replace(op, stream=stream if of_one else None, event=None))
            busy.clear()
        elif not isinstance(op, RecordEvent | WaitEvent):
            moved.append(op)
    return moved


def in_pieces(schedule: Schedule, pieces: int, tables: frozenset[Region] = frozenset()) -> tuple[Schedule, Origins]:
    """Return each step as ``pieces`` smaller ones: its copies and kernels cut, and issued again for each piece.

    Also return which op each copy and kernel is a piece of.

    A front end's work for a call right before an op is done again for every piece; of the program's own work there,
    every piece has an equal share. What the host does before the step's first op, it does once. A step's first calls
    come behind a wait and find the host's caches cold, and those of its later pieces do not: these take no longer than
    the fast quarter of such calls in the program, and so does the work for them. Right only if a step's work can be
    cut so. Raises InputError as :func:`steps_of`, for a copy that has fewer bytes than pieces, and where named memory
    shows that a piece would come before what it needs.
    """
    found = steps_of(schedule)
    warm, shared = _Warm(found.steps), dependences_of(schedule, tables).shared
    ops, numbers = list(found.before), list(range(len(found.before)))
    for step in found.steps:
        place = numbers[-1] + 1 if numbers else 0
        works = [i for i, op in enumerate(step) if is_work(op)]
        first, end = works[0], works[-1] + 1
        found_pieces = cut([step[i] for i in works], [shared.get(place + i, set()) for i in works], pieces)
        if found_pieces is None:
            raise _too_small([step[i] for i in works], pieces)
        piece_of = dict(zip(works, found_pieces, strict=True))
        for i, op in enumerate(step):
            if isinstance(op, HostWork) and not is_of_a_call(op):
                part = replace(op, duration_s=op.duration_s / pieces, name=op.name or "part of the host's work")
                piece_of[i] = [part] * pieces  # named: however short it is, it is no front end's work for a call
        ops += step[:first]
        for piece in range(pieces):
            again = [piece_of[i][piece] if i in piece_of else step[i] for i in range(first, end)]
            ops += again if piece == 0 else warm.calls(again)
        ops += step[end:]
        numbers += [place + i for i in (*range(first), *list(range(first, end)) * pieces, *range(end, len(step)))]
    if schedule.buffers and conflicts_in(schedule, ops, numbers) is None:
        raise InputError(f"a step cannot be cut into {pieces} pieces: some would come before what they read is there")
    origins = [(i,) for i in numbers if is_work(schedule.ops[i])]
    return replace(schedule, ops=(*ops, *found.after)), origins


def _too_small(ops: Iterable[Op], pieces: int) -> InputError:
    least = min((op.bytes for op in ops if isinstance(op, Copy)), default=0)
    what = f"a copy of {least} bytes" if least < pieces else "a kernel with fewer elements or bytes"
    return InputError(f"{what} cannot be cut into {pieces} pieces; give fewer")


class _Warm:
    """What calls, and the host's work for them, take where its caches are warm: the fast quarter of those in a program.

    By kind of op; what recorded programs say of them. Calls of unknown cost stay so.
    """

    def __init__(self, steps: Iterable[Sequence[Op]]) -> None:
        self._calls_s: dict[str, list[float]] = {}
        self._work_s: dict[str, list[float]] = {}
        for step in steps:
            for before, op in pairwise((None, *step)):
                if isinstance(op, Work):
                    if op.call_s is not None:
                        self._calls_s.setdefault(_kind(op), []).append(op.call_s)
                    if isinstance(before, HostWork) and is_of_a_call(before):
                        self._work_s.setdefault(_kind(op), []).append(before.duration_s)

    def calls(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """Return ``ops`` with the calls that they make if the host's caches are warm."""
        found: list[Op] = []
        for op, behind in pairwise((*ops, None)):
            assert op is not None
            if isinstance(op, Work) and op.call_s is not None:
                op = replace(op, call_s=_at_most(op.call_s, self._calls_s[_kind(op)]))
            elif isinstance(op, HostWork) and is_of_a_call(op) and isinstance(behind, Work):
                op = replace(op, duration_s=_at_most(op.duration_s, self._work_s[_kind(behind)]))
            found.append(op)
        return tuple(found)


def _kind(op: Work) -> str:
    return op.direction if isinstance(op, Copy) else "kernel"


def _at_most(seconds: float, others_s: Sequence[float]) -> float:
    """``seconds``, but no more than what ends the fast quarter of the others."""
    return min(seconds, sorted(others_s)[(len(others_s) - 1) // 4])


def prefetched(schedule: Schedule, depth: int) -> tuple[Schedule, list[int]]:
    """Return the copies to the card of the next ``depth`` steps beside this step's work, in a stream of their own.

    Also return which op of ``schedule`` each op is (-1: none).

    What the host does for a copy goes with it; it waits for none of them. A step's other work waits for its copies by
    an event, and copies into a buffer for the work of the step that had it: there are ``depth`` + 1 buffers, which are
    made where named memory shows fewer. Right if what is copied is there so much earlier. Raises InputError as
    :func:`steps_of`, and where named memory shows that it is not.
    """
    made, numbers = _prefetched(schedule, depth)
    if not schedule.buffers or conflicts_in(schedule, made.ops, numbers) is not None:
        return made, numbers
    more = None if is_racy(schedule) else Recut(schedule).with_buffers(depth + 1)
    if more is not None:
        made, numbers = _prefetched(more, depth)
        if conflicts_in(more, made.ops, numbers) is not None:
            return made, numbers
    raise InputError(
        f"steps cannot be copied {depth} ahead: a step copies to the card what a step before it copies back or computes"
    )


def _prefetched(schedule: Schedule, depth: int) -> tuple[Schedule, list[int]]:
    """See :func:`prefetched`."""
    found, first_event = steps_of(schedule), schedule.events
    copying, count = len(schedule.streams) + 1, len(found.steps)
    place, parts = len(found.before), list[tuple[list[int], list[int]]]()
    for step in found.steps:
        loads, rest = _loads_and_rest(step)
        parts.append(([place + i for i in loads], [place + i for i in rest]))
        place += len(step)
    loaded, done = range(first_event, first_event + count), range(first_event + count, first_event + 2 * count)
    numbered: list[tuple[int, Op]] = list(enumerate(found.before))

    def load(k: int) -> None:
        if k > depth:
            numbered.append((-1, WaitEvent(done[k - depth - 1], copying)))
        for i in parts[k][0]:
            op = schedule.ops[i]
            numbered.append((i, replace(op, stream=copying, blocking=False) if isinstance(op, Copy) else op))
        numbered.append((-1, RecordEvent(loaded[k], copying)))

    for k in range(min(depth, count)):
        load(k)
    for k, (_, rest) in enumerate(parts):
        if k + depth < count:
            load(k + depth)
        numbered += _behind([(i, schedule.ops[i]) for i in rest], loaded[k], done[k])
    numbered += enumerate(found.after, place)
    numbers, ops = zip(*numbered, strict=True)
    streams_then, events = (*schedule.streams, *NON_BLOCKING), first_event + 2 * count
    return replace(schedule, ops=ops, streams=streams_then, events=events), list(numbers)


def _behind(rest: list[tuple[int, Op]], loaded: int, done: int) -> list[tuple[int, Op]]:
    """The rest of a step, whose work waits for the event ``loaded``, and ``done`` recorded behind that work."""
    works = [(n, op.stream) for n, (_, op) in enumerate(rest) if isinstance(op, Work)]
    if not works:  # a last step that only copies to the card
        return rest
    (first, _), (last, stream) = works[0], works[-1]
    waits: list[tuple[int, Op]] = [(-1, WaitEvent(loaded, used)) for used in dict.fromkeys(used for _, used in works)]
    return [*rest[:first], *waits, *rest[first : last + 1], (-1, RecordEvent(done, stream)), *rest[last + 1 :]]


def _loads_and_rest(step: Sequence[Op]) -> tuple[list[int], list[int]]:
    """The places of the step's copies to the card and what the host does for them; and of the rest.

    No wait for the copies is kept.
    """
    works = [i for i, op in enumerate(step) if is_work(op)]
    loads = [i for i in works if is_load(step[i])]
    end = loads[-1] + 1 if loads else 0
    then = next((i for i in works if not is_load(step[i])), end)
    kept = [i for i, op in enumerate(step) if i >= then or not isinstance(op, Synchronize)]
    return [i for i in kept if i < end], [i for i in kept if i >= end]
