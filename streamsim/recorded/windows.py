"""Parts of recordings: one card, one process, or a window of time; and the named spans of a recording."""

import re
from statistics import median
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError, shown
from streamsim.recorded.recording import ISSUES, NONE, AnnotationKind, RecordedStream, RecordedThread, Recording, Unread
from streamsim.recorded.times import uncontended_ns
from streamsim.text import parse_seconds

_NUMBERED = re.compile(r"(.+)\[([1-9][0-9]{0,8})\]", re.DOTALL)


class NamedSpan(msgspec.Struct, frozen=True):
    """The spans of one name in a recording: their count, first start and longest length, in seconds."""

    name: str
    count: int
    first_s: float
    longest_s: float


def part_of(
    recording: Recording,
    card: int | None = None,
    process: int | None = None,
    window: str | None = None,
    skip_first: bool = False,
) -> Recording:
    """Return the part of a recording that belongs to a card, a process or a window. Times are unchanged.

    - ``card``: the profiler's number of a card. Its calls are those of all processes that use it.
    - ``process``: the system's number of a process.
    - ``window``: the name of an annotation (``NAME[2]``: the second of this name), or times since the beginning
      (``1ms..5ms``). It has the calls that begin in it, with their work. Work whose call lies outside is left out and
      counted in ``unread``.
    - ``skip_first``: leave out each process's calls up to its first copy, launch or memset, which a profiler slows
      down.

    Raises InputError for a card, process or window that the recording lacks.
    """
    if process is not None:
        of_calls, of_work = processes_of(recording)
        _check_known("--process", process, {*of_calls.tolist(), *of_work.tolist()} - {NONE})
        work = np.isin(of_work, (process, NONE))
        recording = _used_by(recording, np.array([process]), work, recording.pages.process == process)
    if card is not None:
        recording = _of_card(recording, card)
    if skip_first:
        recording = _without_first(recording)
    if window is not None:
        first_ns, last_ns = window_ns(recording, window)
        calls = recording.calls
        inside = (calls.start_ns >= first_ns) & (calls.start_ns < last_ns)
        recording = _with_calls(recording, inside, first_ns, last_ns, "the window")
    if not len(recording.calls) + len(recording.work):
        options = {"--gpu": card, "--process": process, "--window": window}
        words = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        raise InputError(f"{words or 'the recording'}: no call and no work is in it; --list shows what there is")
    return recording


def busiest_card(recording: Recording) -> tuple[int, list[int]]:
    """Return the profiler's numbers of the card with the longest total work, and of the other cards with work."""
    work = recording.work
    took_ns = np.bincount(work.card, (work.end_ns - work.start_ns).astype(np.float64), len(recording.cards))
    cards = [recording.cards[card].id for card in np.unique(work.card).tolist()]
    if not cards:
        return NONE, []
    busiest = recording.cards[int(np.argmax(took_ns))].id
    return busiest, [card for card in cards if card != busiest]


def named_spans(recording: Recording) -> list[NamedSpan]:
    """Return the named ranges and steps, the longest first."""
    notes = recording.annotations
    notes = notes.rows(np.isin(notes.kind, (AnnotationKind.RANGE, AnnotationKind.STEP)))
    names, first, inverse, counts = np.unique(notes.name, return_index=True, return_inverse=True, return_counts=True)
    lengths = (notes.end_ns - notes.start_ns) / 1e9
    longest = np.zeros(len(names))
    np.maximum.at(longest, inverse, lengths)
    columns = zip(*(column.tolist() for column in (names, counts, notes.start_ns[first] / 1e9, longest)), strict=True)
    found = [NamedSpan(recording.names[name], *row) for name, *row in columns]
    return sorted(found, key=lambda span: (-span.longest_s, span.first_s))


def window_ns(recording: Recording, window: str) -> tuple[int, int]:
    """Return the begin and end of a window, in nanoseconds. Raises InputError if there is no such span."""
    times_s = times_of(window)
    if times_s is not None:
        return round(times_s[0] * 1e9), round(times_s[1] * 1e9)
    name, which = name_of(recording, window)
    spans = _spans_of(recording, name)
    if not len(spans):
        raise InputError(f"--window = {shown(window)}: no annotation has this name (--list; or times: 1ms..5ms)")
    if len(spans) < which:
        raise InputError(f"--window = {shown(window)}: there are {len(spans)} of that name")
    first_ns, last_ns = spans[which - 1].tolist()
    return first_ns, max(last_ns, first_ns + 1)


def name_of(recording: Recording, window: str) -> tuple[str, int]:
    """Return the annotation's name in a window such as ``NAME`` or ``NAME[2]``, and its number, from 1."""
    there = (name for name in names_of(window).items() if len(_spans_of(recording, name[0])))
    return next(there, (window, 1))


def names_of(window: str) -> dict[str, int]:
    """Return the names that a window may stand for, with their numbers: ``a[2]`` is a name, or the second ``a``."""
    match = _NUMBERED.fullmatch(window)
    return {window: 1, **({match[1]: int(match[2])} if match else {})}


def times_of(window: str) -> tuple[float, float] | None:
    """Return the begin and end of a window in seconds if it is given by times such as ``1ms..5ms``, None for a name.

    Raises InputError for an empty name, and for times that end before they begin.
    """
    if not window.strip():
        raise InputError("--window = '': expected the name of a range, or times such as 1ms..5ms")
    first, _, last = window.partition("..")
    try:
        times_s = parse_seconds(first, "--window"), parse_seconds(last, "--window")
    except InputError:
        return None
    if times_s[1] <= times_s[0]:
        raise InputError(f"--window = {shown(window)}: expected the earlier time first")
    return times_s


def _spans_of(recording: Recording, name: str) -> NDArray[Any]:
    """Return the start and end of each annotation of this name, in order; shape (spans, 2)."""
    if name not in recording.names:
        return np.empty((0, 2), np.int64)
    notes = recording.annotations
    here = notes.name == recording.names.index(name)
    return np.stack([notes.start_ns[here], notes.end_ns[here]], axis=1)


def processes_of(recording: Recording) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the process of each call and of each row of work (-1: unknown).

    The process of work is that of its call or, without a call, that of its stream.
    """
    work, of_calls = recording.work, _owners(recording.threads)[recording.calls.thread]
    has = work.call >= 0
    of_work = _owners(recording.streams)[work.stream]
    of_work[has] = of_calls[work.call[has]]
    return of_calls, of_work


def _owners(owned: tuple[RecordedThread, ...] | tuple[RecordedStream, ...]) -> NDArray[np.int64]:
    """Return the process of each thread or stream, and NONE for the index NONE."""
    return np.array([one.process for one in owned] + [NONE], np.int64)


def _of_card(recording: Recording, number: int) -> Recording:
    known = [card.id for card in recording.cards]
    _check_known("--gpu", number, set(known))
    here = recording.work.card == known.index(number)
    users = np.unique(processes_of(recording)[1][here])
    pages = recording.pages
    own = (pages.card == known.index(number)) | ((pages.card == NONE) & np.isin(pages.process, users))
    return _used_by(recording, users, here, own)


def _used_by(recording: Recording, users: NDArray[np.int64], work: Any, pages: Any) -> Recording:
    """Return the calls and annotations of some processes, with these rows of work and pages."""
    owners = _owners(recording.threads)
    calls, notes = (np.isin(owners[table.thread], users) for table in (recording.calls, recording.annotations))
    return _chosen(recording, calls, work, notes, pages)


def _check_known(option: str, number: int, known: set[int]) -> None:
    if number not in known:
        numbers = ", ".join(map(str, sorted(known)[:20])) + (", ..." if len(known) > 20 else "")
        raise InputError(f"{option} = {number}: not in the recording; it has {numbers or 'none'}")


def _without_first(recording: Recording) -> Recording:
    of_calls, _ = processes_of(recording)
    issues = np.isin(recording.calls.kind, ISSUES)
    kept = np.ones(len(issues), bool)
    for process in np.unique(of_calls):
        mine = np.flatnonzero(of_calls == process)
        first = np.flatnonzero(issues[mine])[:1]
        kept[mine[: first[0] + 1 if len(first) else 0]] = False
    return _with_calls(recording, kept, 0, recording.end_ns + 1, "what --skip-first leaves")


def _with_calls(recording: Recording, kept: NDArray[np.bool_], first_ns: int, last_ns: int, where: str) -> Recording:
    """Return a recording with the ``kept`` calls and their work; work without a call counts by its own start."""
    work = recording.work
    inside = (work.end_ns > first_ns) & (work.start_ns < last_ns)
    has = work.call >= 0
    mine = (work.start_ns >= first_ns) & (work.start_ns < last_ns)
    mine[has] = kept[work.call[has]]
    outside = int((inside & has & ~mine).sum())
    notes, pages = (
        (table.end_ns >= first_ns) & (table.start_ns < last_ns) for table in (recording.annotations, recording.pages)
    )
    recording = _chosen(recording, kept, mine, notes, pages)
    if not outside:
        return recording
    unread = Unread(f"work whose call lies outside {where}", outside, "it runs there all the same; left out")
    return msgspec.structs.replace(recording, unread=(*recording.unread, unread))


def _chosen(recording: Recording, calls: Any, work: Any, notes: Any, pages: Any) -> Recording:
    """Return some rows of each table; references to calls that are left out become -1."""
    place = np.append(np.where(calls, np.cumsum(calls) - 1, NONE), NONE)
    kept_calls, kept_work = recording.calls.rows(calls), recording.work.rows(work)
    alone_ns = uncontended_ns(recording.work) if recording.alone_ns is None else recording.alone_ns
    return msgspec.structs.replace(
        recording,
        alone_ns=alone_ns[work],
        calls=msgspec.structs.replace(kept_calls, record=place[kept_calls.record]),
        work=msgspec.structs.replace(kept_work, call=place[kept_work.call]),
        annotations=recording.annotations.rows(notes),
        pages=recording.pages.rows(pages),
    )


def untraced_time_s(recording: Recording, window: str | None, card: int | None = None) -> float | None:
    """Return the seconds that the program in a named window takes without a profiler; None if unknown.

    The time runs from the call of the first work until all work is done, as
    :func:`streamsim.recorded.replay.untraced` needs it. It is the median of the untraced runs, less the window's time
    before that call and after the last work. That time was not measured and is taken from the recording. The time is
    unknown if work still runs at the end of the window, because an untraced run does not show when it ends.

    ``card``: the profiler's number of the card whose work counts (None: all cards).
    """
    if window is None or not recording.untraced:
        return None
    name, which = name_of(recording, window)
    if name not in recording.names:
        return None
    number = recording.names.index(name)
    lengths = ((run.end_ns - run.start_ns)[run.name == number] for run in recording.untraced)
    took_ns = [int(ns) for of_run in lengths for ns in of_run[which - 1 : which]]
    if not took_ns:
        return None
    opened_ns, closed_ns = window_ns(recording, window)
    inside = part_of(recording, card, window=window)
    calls, work = inside.calls, inside.work
    issuing = work.call[work.call != NONE]
    if not len(issuing) or work.end_ns.max() > closed_ns:
        return None
    before_ns = int(calls.start_ns[issuing].min()) - opened_ns
    behind_ns = closed_ns - int(max(calls.end_ns.max(), work.end_ns.max()))
    found_ns = median(took_ns) - before_ns - max(behind_ns, 0)
    return found_ns * 1e-9 if found_ns > 0 else None
