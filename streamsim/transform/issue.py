"""Schedules issued anew: ops in another sequence or other streams, with events where they need each other."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from streamsim.program import LEGACY_STREAM, HostWork, Op, RecordEvent, Schedule, StreamKind, Synchronize, WaitEvent
from streamsim.transform.ops import NON_BLOCKING, is_work, last_work, working_streams


def issued(
    schedule: Schedule,
    ops: Sequence[Op],
    numbers: Sequence[int],
    streams: Mapping[int, int],
    kinds: tuple[StreamKind, ...],
    edges: Sequence[Collection[int]],
    awaited: Mapping[int, Collection[int]],
) -> Schedule:
    """``schedule`` with ``ops`` in place of its own, with events where ``edges`` go from stream to stream.

    ``numbers``: by which the ops know each other: in ``streams`` (of the ``kinds``), the stream of each; in ``edges``,
    what each must come after; in ``awaited``, what a synchronisation waits for, but for one with the whole device. The
    host waits at the end if it does so in ``schedule``.
    """
    place = {i: k for k, i in enumerate(numbers)}
    behind: dict[tuple[int, int], int] = {}  # by stream and another one: the place up to which it has waited for that
    waits: dict[int, list[int]] = {}  # of the ops that each must come after, the last of every other stream
    for i, op in zip(numbers, ops, strict=True):
        if is_work(op):
            last = {streams[k]: k for k in sorted(edges[i], key=place.__getitem__)}
            waits[i] = [k for s, k in last.items() if s != streams[i] and place[k] > behind.get((streams[i], s), -1)]
            behind.update({(streams[i], streams[k]): place[k] for k in waits[i]})
    events = {k: event for event, k in enumerate(dict.fromkeys(k for some in waits.values() for k in some))}
    found: list[Op] = []
    for i, op in zip(numbers, ops, strict=True):
        if is_work(op):
            found += (WaitEvent(events[k], streams[i], thread=op.thread) for k in waits[i])
            found.append(replace(op, stream=streams[i]))
            if i in events:
                found.append(RecordEvent(events[i], streams[i], thread=op.thread))
        elif isinstance(op, Synchronize) and (op.event is not None or op.stream is not None):
            found += (replace(op, stream=stream, event=None) for stream in {streams[k]: k for k in awaited[i]})
        else:
            found.append(op)
    if rest := schedule.ops[last_work(schedule) + 1 :]:
        found += [op for op in rest if isinstance(op, HostWork)]
        found.append(Synchronize())
    return replace(schedule, ops=tuple(found), streams=kinds, events=len(events))


def new_streams(
    schedule: Schedule, works: Iterable[int], reads_from: Sequence[Collection[int]], most: int
) -> tuple[dict[int, int], tuple[StreamKind, ...]]:
    """Return the new stream of each of ``works``, and the kinds of the streams, of which there are ``most`` at most.

    An op comes behind one that it reads from, else into a new stream, else into that used longest ago. Ops of the
    legacy default stream stay in it, unless all are there, and those of blocking streams in blocking ones.
    """
    stays = {LEGACY_STREAM} < working_streams(schedule)  # else it is a stream like another
    found, kinds = dict[int, int](), list[StreamKind]()
    tail: dict[int, int] = {}  # by new stream its last op; the one used longest ago first
    for i in works:
        old = schedule.ops[i].stream
        kind = schedule.streams[old - 1] if old else NON_BLOCKING[0]
        own = [stream for stream in tail if stream and kinds[stream - 1] == kind]
        behind = [stream for stream in own if tail[stream] in reads_from[i]]
        if stays and not old:
            stream = LEGACY_STREAM
        elif behind:
            stream = behind[-1]
        elif own and len(kinds) >= most:
            stream = own[0]
        else:
            kinds.append(kind)
            stream = len(kinds)
        tail.pop(stream, None)
        tail[stream], found[i] = i, stream
    return found, tuple(kinds)
