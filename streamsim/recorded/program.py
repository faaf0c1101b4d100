"""Schedules of recorded programs: their calls in order, by thread, with the host work between them.

From the recording come the order of calls, bytes, uncontended kernel times, times of calls, and host work between
calls. The model predicts when work runs on the card, how long copies take, and what calls wait for.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim import program
from streamsim.device import Device, as_device
from streamsim.errors import LARGEST_BYTES, LEAST_FILL, InputError
from streamsim.recorded.costs import FIRST_S, Held, HostCosts, held_ns, share_ns, unwritten_ns
from streamsim.recorded.recording import (
    ISSUES,
    NONE,
    WAITS,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    Recording,
    Unread,
    WorkKind,
)
from streamsim.recorded.times import NAMED_NS, NOT_MODELLED, call_times, first_call, first_excess_ns, uncontended_ns

PAGEABLE = "pageable"  # the buffer in which every pageable copy has its own range
UNIFIED_COPY = "copy of unified memory"
NEVER_RECORDED = -2  # in place of the call that recorded an event
BYTES_A_THREAD = 16  # bytes that each thread of a memset or a copy within the card moves: a vector of four words
ISSUING = 160  # threads that keep a multiprocessor busy with dense arithmetic: 1.25 warps for each scheduler
SLOW_COPY = (
    "something else held the host (a module, a lock, memory): host work before the copy, as recorded",
    "page faults of memory that is touched for the first time: host work before the copy, as recorded",
)
CardOp = program.Copy | program.Kernel
RECORD, WAIT = int(CallKind.RECORD), int(CallKind.WAIT)
_DIRECTIONS: dict[int, str] = {CopyDirection.H2D: "h2d", CopyDirection.D2H: "d2h"}
_SYNCHRONISES = {*WAITS, CallKind.FREE}


class RecordedProgram(msgspec.Struct, frozen=True):
    """The program of a recording, as a ``schedule``.

    - ``work``, ``call``: for each op, its row in the recording's work and calls, or -1.
    - ``first_ns``: the start of the program: the beginning of the first call that issued work.
    - ``taken_out_s``: seconds of the host's time that are left out as the cost of recording, at ``costs``.
    - ``assumed``: facts that the recording lacks, how often, and the assumptions made for them.
    """

    schedule: program.Schedule
    work: tuple[int, ...]
    call: tuple[int, ...]
    first_ns: int
    taken_out_s: float
    costs: HostCosts
    assumed: tuple[Unread, ...]


def program_of(
    recording: Recording, name: str = "", costs: HostCosts | None = None, device: Device | str | Path | None = None
) -> RecordedProgram:
    """Return the program of a recording of one card.

    - ``costs``: the cost of recording that is taken out of the host's time (None: none).
    - ``device``: a Device, or the name or file of one. It says how long after a call the card has its work, which
      pageable copies return at once, and how fast they are. The excess time of a slow pageable copy becomes host work
      before it. None: the card has work at once, a pageable copy that begins after its call has returned at once, and
      none is slow.

    Raises InputError for work on several cards, and if no call issued any work.
    """
    cards = np.unique(recording.work.card)
    if len(cards) > 1:
        ids = ", ".join(str(recording.cards[card].id) for card in cards)
        raise InputError(f"the recording has work on {len(cards)} cards: choose one with --gpu ({ids})")
    known = None if device is None else as_device(device)
    return _Writer(recording, name, costs or HostCosts(), known).write()


class _Writer:
    """A translator of recorded calls into ops, call by call in the order of their starts."""

    def __init__(self, recording: Recording, name: str, costs: HostCosts, device: Device | None) -> None:
        self._recording, self._name, self._costs = recording, name, costs
        self._submit_ns = 0 if device is None else round(device.host.submit_s * 1e9)
        self._immediate_bytes = LARGEST_BYTES if device is None else device.host.pageable_immediate_bytes
        self._held = {} if device is None else held_ns(recording, device)
        self._calls = recording.calls
        self._rows, self._rows_from, self._ended = _by_call(recording)
        self._first = max(first_call(recording, recording.work), 0)
        self._first_ns = int(self._calls.start_ns[self._first]) if len(self._calls) else 0
        self._times = call_times(recording, self._first_ns)
        self._threads = {thread: k for k, thread in enumerate(dict.fromkeys(recording.calls.thread.tolist()))}
        self._streams, self._kinds = self._number_streams()
        # Columns as lists: reading NumPy arrays one entry at a time is slow.
        self._of_call = {name: getattr(self._calls, name).tolist() for name in ("kind", "thread", "stream", "record")}
        self._of_work = _columns(recording, self._streams)
        self._events: dict[int, int] = {}  # by the call that recorded the event
        self._latest: dict[int, int] = {}  # by thread: the stream of its last work
        self._pageable = 0  # bytes of the pageable buffer so far
        self._gap = Counter[int]()  # by thread: nanoseconds of host work since its last op
        self._ops: list[tuple[program.Op, int, int]] = []  # each with its rows of work and of calls
        self._assumed: Counter[tuple[str, str]] = Counter()
        self._taken_ns = 0

    def write(self) -> RecordedProgram:
        self._take_out()
        self._backlog()
        before, own, waited_for = (column.tolist() for column in self._times[:3])
        kinds, threads = self._of_call["kind"], self._of_call["thread"]
        for i in range(self._first, len(self._calls)):
            thread = self._threads[threads[i]]
            if waited_for[i] != NONE:
                self._put(program.WaitThread(self._threads[waited_for[i]], thread))
            self._gap[thread] += before[i]
            self._call(i, kinds[i], thread, own[i])
        if not any(isinstance(op, CardOp) for op, _, _ in self._ops):
            raise InputError(_no_program(self._recording))
        ops, work, call = zip(*self._ops[: self._end()], strict=True)
        schedule = program.Schedule(
            ops,
            tuple(self._kinds),
            (program.Buffer(PAGEABLE, self._pageable, "pageable"),) if self._pageable else (),
            len(self._events),
            name=self._name,
        )
        assumed = tuple(Unread(what, count, why) for (what, why), count in self._assumed.items() if count)
        return RecordedProgram(schedule, work, call, self._first_ns, self._taken_ns * 1e-9, self._costs, assumed)

    def _end(self) -> int:
        """Return the number of ops up to the last wait for the last work, without the calls that tear down after it."""
        last = max(i for i, (op, _, _) in enumerate(self._ops) if isinstance(op, CardOp))
        waits = (i for i, (op, _, _) in enumerate(self._ops) if isinstance(op, program.Synchronize) and not op.name)
        end = max([last, *waits]) + 1
        while end < len(self._ops) and self._ops[end][2] == self._ops[last][2] != NONE:
            end += 1  # the other ops of the last call
        return end

    def _backlog(self) -> None:
        """Add what is left of work that was called before the program began: it comes first in its stream."""
        work = self._recording.work
        called: dict[int, int] = {}  # by stream: the first work with a recorded call
        for row in np.flatnonzero(work.call != NONE).tolist():
            called.setdefault(int(work.stream[row]), row)
        without = np.flatnonzero(work.call == NONE)
        is_over = (work.end_ns[without] <= self._first_ns) & (len(called) > 0)
        first = [called.get(stream, len(work)) for stream in work.stream[without].tolist()]
        is_next = without < np.array(first, np.int64)
        for row in without[~is_over & is_next].tolist():
            op = self._work(row, CallKind.LAUNCH, 0, 0.0)
            if op is not None:
                self._put(_rest_of(op, work, row, self._first_ns), NONE, row)
                self._assume("copies and kernels called before", "they are taken to be called at the beginning")
        over = "they are left out: the program begins with its first call"
        self._assume("copies and kernels that had ended before", over, int(is_over.sum()))
        self._assume("copies and kernels without a call", "they are left out", int((~is_over & ~is_next).sum()))
        self._assume("moves and faults of unified memory", NOT_MODELLED, len(self._recording.pages))

    def _take_out(self) -> None:
        """Subtract the cost of recording from the calls' times and from the gaps before them."""
        times, costs = self._times, self._costs
        before = int(times.own_ns[self._first :].sum() + times.before_ns[self._first :].sum())
        if costs.first:
            excess, first = first_excess_ns(self._recording, times.own_ns)
            if FIRST_S[0] <= excess * 1e-9 <= FIRST_S[1]:
                times.own_ns[first] -= excess
        puts_work = np.diff(self._rows_from) > 0
        least = np.minimum(times.own_ns, puts_work)  # at least 1 ns with work: an op without time belongs to a graph
        took_ns = round(costs.call_s * 1e9) + puts_work * round(costs.work_s * 1e9)
        took_ns += share_ns(times.own_ns, costs, 1)
        times.own_ns[:] = np.maximum(times.own_ns - took_ns, least)
        between_ns = round(costs.between_s * 1e9) + share_ns(times.before_ns, costs, times.operations + 1)
        between_ns += np.rint(times.operations * costs.operation_s * 1e9).astype(np.int64)
        times.before_ns[:] = np.maximum(times.before_ns - between_ns, 0)
        for thread in self._threads if costs.unwritten_s else ():
            own = np.flatnonzero(self._calls.thread == thread)
            times.before_ns[own] -= unwritten_ns(times.before_ns[own], puts_work[own], round(costs.unwritten_s * 1e9))
        self._taken_ns = before - int(times.own_ns[self._first :].sum() + times.before_ns[self._first :].sum())

    def _number_streams(self) -> tuple[dict[int, int], list[program.StreamKind]]:
        """Return the schedule's number of each recorded stream, and the kinds of the numbered streams.

        Numbers follow the recording's order, mostly the order of creation, which gives streams their hardware queues.
        """
        cards = {*np.unique(self._recording.work.card).tolist(), NONE}
        numbers: dict[int, int] = {NONE: program.LEGACY_STREAM}
        kinds: list[program.StreamKind] = []
        for number, stream in enumerate(self._recording.streams):
            if stream.kind == "legacy" or stream.card not in cards:
                numbers[number] = program.LEGACY_STREAM
                continue
            kinds.append("blocking" if stream.kind == "blocking" else "non-blocking")
            numbers[number] = len(kinds)
        return numbers, kinds

    # Call by call

    def _call(self, i: int, kind: int, thread: int, own_ns: int) -> None:
        rows, record = self._rows[self._rows_from[i] : self._rows_from[i + 1]], self._of_call["record"][i]
        if rows:
            self._issue(i, kind, thread, own_ns, rows)
        elif kind == RECORD:
            event = self._events[i] = len(self._events)
            stream = self._stream(i, thread, "events recorded in a stream that is not recorded")
            self._put(program.RecordEvent(event, stream, thread=thread, call_s=own_ns * 1e-9), i)
        elif kind == WAIT and record in self._events:
            stream = self._stream(i, thread, "waits of a stream that is not recorded")
            event = self._events[record]
            self._put(program.WaitEvent(event, stream, thread=thread, call_s=own_ns * 1e-9), i)
        elif kind in _SYNCHRONISES:
            self._synchronise(i, kind, thread, own_ns)
        else:
            self._hold_host(i, thread, own_ns)

    def _hold_host(self, i: int, thread: int, took_ns: int) -> None:
        """Add the host's own time in a call: a long one is host work with the call's name."""
        if took_ns >= NAMED_NS:
            self._put(program.HostWork(took_ns * 1e-9, self._called(i), thread), i)
        else:
            self._gap[thread] += took_ns

    def _issue(self, i: int, kind: int, thread: int, own_ns: int, rows: Sequence[int]) -> None:
        """Add the ops of a call that put work on the card.

        The work of a graph's launch, and a prefetch, are issued before the call returns if they began by then.
        """
        call_s, rest_ns = own_ns * 1e-9, 0
        if kind in (CallKind.GRAPH_LAUNCH, CallKind.PREFETCH):
            begun_ns = min(self._of_work["start_ns"][row] for row in rows) - int(self._calls.start_ns[i])
            rest_ns = own_ns - min(own_ns, max(0, begun_ns - self._submit_ns))
            if own_ns > rest_ns:
                self._put(program.HostWork((own_ns - rest_ns) * 1e-9, self._called(i), thread), i)
            call_s = 0.0
        for row in rows:
            op = self._work(row, kind, thread, call_s)
            if op is None:
                self._gap[thread] += own_ns if row == rows[-1] and call_s else 0
                continue
            self._latest[thread] = op.stream
            held = self._held.get(row)
            if held is not None:
                self._hold(i, row, op, held)
            self._put(op, i, row)
            call_s = 0.0
            self._gap[thread] += 0 if held is None else held.after_ns
        if rest_ns:
            self._put(program.HostWork(rest_ns * 1e-9, self._called(i), thread), i)

    def _hold(self, i: int, row: int, copy: CardOp, held: Held) -> None:
        """Add host work before a slow pageable copy, for the time that it held the host, once its stream was free."""
        if not held.before_ns:
            return
        back = self._of_work["direction"][row] == CopyDirection.D2H
        if held.has_waited:
            self._put(program.Synchronize(stream=copy.stream, thread=copy.thread, call_s=0.0), i)
        name = program.FIRST_TOUCH if back else self._called(i)
        self._put(program.HostWork(held.before_ns * 1e-9, name, copy.thread), i)
        what = "slow copies back into pageable memory" if back else "slow calls of copies of pageable memory"
        self._assume(what, SLOW_COPY[back])

    def _work(self, row: int, kind: int, thread: int, call_s: float | None) -> CardOp | None:
        work = self._of_work
        name = work["kernel"][row]
        if name is None:
            return self._copy(row, kind, thread, call_s)
        if not name:
            self._assume("copies that are neither to nor from the card", "they are left out")
            return None
        if work["kind"][row] == WorkKind.GRAPH:
            self._assume("graphs recorded whole", "no kernels show; nsys --cuda-graph-trace=node")
        if name == UNIFIED_COPY:
            self._assume("copies of unified memory", "where their pages lay is not recorded; they take what they took")
        seconds, threads = work["alone_s"][row], work["threads"][row]
        fill = work["fill"][row] or None
        return program.Kernel(
            work["stream"][row], name, duration_s=seconds, threads=threads, fill=fill, thread=thread, call_s=call_s
        )

    def _copy(self, row: int, kind: int, thread: int, call_s: float | None) -> program.Copy:
        work = self._of_work
        n_bytes, memory = work["bytes"][row], work["memory"][row]
        direction: Any = _DIRECTIONS[work["direction"][row]]
        if memory == CopyMemory.UNKNOWN:
            self._assume("copies whose host memory is not recorded", "it is taken to be pinned")
        host = None
        if memory == CopyMemory.PAGEABLE:
            host = program.Region(PAGEABLE, self._pageable, n_bytes)
            self._pageable += n_bytes
        return program.Copy(
            direction,
            n_bytes,
            work["stream"][row],
            host,
            blocking=kind == CallKind.COPY,
            thread=thread,
            call_s=self._copy_call_s(row, call_s) if kind == CallKind.COPY or host else call_s,
        )

    def _copy_call_s(self, row: int, call_s: float | None) -> float | None:
        """Return the cost of a call that may hold its thread, without its wait, which the model predicts.

        If the call returned before the copy began, this is its whole time, unless it had staged the bytes by then. For
        a copy from an idle card, this is the time before the copy began. For other copies it is unknown: None.
        """
        work, call = self._of_work, self._of_work["call"][row]
        if call == NONE:
            return call_s
        start_ns, call_ns = work["start_ns"][row], int(self._calls.start_ns[call])
        if int(self._calls.end_ns[call]) <= start_ns:
            has_staged = work["memory"][row] == CopyMemory.PAGEABLE and work["bytes"][row] > self._immediate_bytes
            return None if has_staged else call_s
        is_idle = work["busy_until"][row] <= call_ns
        if not is_idle or work["direction"][row] != CopyDirection.D2H:
            return None
        return float(max(0, start_ns - call_ns - self._submit_ns) * 1e-9)

    def _synchronise(self, i: int, kind: int, thread: int, own_ns: int) -> None:
        """Add a call that waits for the card. The model predicts how long it waits."""
        record = self._of_call["record"][i]
        more: dict[str, Any] = {"thread": thread}
        after_ns = 0
        if kind == CallKind.SYNCHRONIZE_EVENT and record in self._events:
            more["event"] = self._events[record]
        elif kind == CallKind.SYNCHRONIZE_EVENT:
            self._assume("synchronisations with events whose record is not known", "they take what they took")
            nothing = self._events.setdefault(NEVER_RECORDED, len(self._events))
            more |= {"event": nothing, "call_s": own_ns * 1e-9}
        elif kind == CallKind.SYNCHRONIZE_STREAM:
            more["stream"] = self._stream(i, thread, "synchronisations with a stream that is not recorded")
        elif kind == CallKind.FREE:
            start_ns, end_ns = int(self._calls.start_ns[i]), int(self._calls.end_ns[i])
            after_ns = max(0, end_ns - max(start_ns, self._ended[i]))  # after all earlier work had ended
            more |= {"name": self._called(i), "call_s": 0.0}
        self._put(program.Synchronize(**more), i)
        self._hold_host(i, thread, after_ns)

    # Ops

    def _stream(self, i: int, thread: int, what: str) -> int:
        stream = self._of_call["stream"][i]
        if stream != NONE:
            return self._streams[stream]
        self._assume(what, "it is taken to be the one in which the thread issued its last work")
        return self._latest.get(thread, program.LEGACY_STREAM)

    def _put(self, op: program.Op, call: int = NONE, row: int = NONE) -> None:
        """Add an op behind the host work of its thread since the last op."""
        gap_ns, self._gap[op.thread] = self._gap[op.thread], 0
        if gap_ns:
            self._ops.append((program.HostWork(gap_ns * 1e-9, thread=op.thread), NONE, NONE))
        self._ops.append((op, row, call))

    def _called(self, i: int) -> str:
        return self._recording.names[int(self._calls.name[i])]

    def _assume(self, what: str, why: str, count: int = 1) -> None:
        self._assumed[what, why] += count


def _rest_of(op: CardOp, work: CardWork, row: int, first_ns: int) -> CardOp:
    """Return the part of an op that was still to run when the program began."""
    start_ns, end_ns = int(work.start_ns[row]), int(work.end_ns[row])
    share = (end_ns - max(start_ns, first_ns)) / max(end_ns - start_ns, 1)
    if isinstance(op, program.Kernel) and op.duration_s is not None:
        return msgspec.structs.replace(op, duration_s=op.duration_s * share)
    if isinstance(op, program.Copy) and op.host is None:
        return msgspec.structs.replace(op, bytes=max(1, round(op.bytes * share)))
    return op


def _no_program(recording: Recording) -> str:
    """Return the reason why a recording has no program, and the remedy."""
    issues = int(np.isin(recording.calls.kind, ISSUES).sum())
    if not issues or len(recording.work):
        return "no call of the recording issued a copy or a kernel: there is no program in it"
    return (
        f"{issues} calls put work on the card, and nothing of the card is recorded; record ProfilerActivity.CUDA too;"
        " on Windows and in WSL2 let all users read the GPU's performance counters (NVIDIA Control Panel, Developer)"
    )


def _columns(recording: Recording, streams: dict[int, int]) -> dict[str, list[Any]]:
    """Return columns of the work as lists.

    They have the names of the recording's columns, or:

    - ``stream``: its number in the schedule, by that of each recorded stream in ``streams``.
    - ``kernel``: the name of work that becomes a kernel; None for a copy to or from the card, "" for a copy left out.
    - ``alone_s``: seconds with the card to itself.
    - ``threads``: with which it fills the card; ``fill``: the share of the card that these keep busy, 0 if unknown.
    - ``busy_until``: when the card had ended all work that began before, in nanoseconds.
    """
    work = recording.work
    number = np.array([streams[k] for k in (*range(len(recording.streams)), NONE)])  # NONE is the last one's index
    columns = {name: getattr(work, name) for name in ("kind", "call", "bytes", "direction", "memory", "start_ns")}
    columns |= {"stream": number[work.stream], "threads": _threads_of(work), "fill": _fill_of(recording)}
    columns |= {"alone_s": (uncontended_ns(work) if recording.alone_ns is None else recording.alone_ns) * 1e-9}
    columns |= {"busy_until": np.append(0, np.maximum.accumulate(work.end_ns)[:-1])}
    return {name: column.tolist() for name, column in columns.items()} | {"kernel": _kernels(recording)}


def _kernels(recording: Recording) -> list[str | None]:
    """Return ``_Columns.kernel`` for each row of the work."""
    work = recording.work
    within = {CopyDirection.D2D: "copy within the card", CopyDirection.UNIFIED: UNIFIED_COPY}
    found: list[str | None] = [recording.names[name] or "kernel" for name in work.name.tolist()]
    for row in np.flatnonzero(work.kind == WorkKind.COPY).tolist():
        is_of_host = work.direction[row] in _DIRECTIONS and work.bytes[row] > 0
        found[row] = None if is_of_host else within.get(work.direction[row], "")
    for row in np.flatnonzero(work.kind == WorkKind.MEMSET).tolist():
        found[row] = "memset"
    return found


def _threads_of(work: CardWork) -> NDArray[np.int64]:
    """Return the threads with which each row of the work fills the card; 0, the whole card, for a whole graph."""
    of_kernels = work.grid.prod(axis=1, dtype=np.float64) * work.block.prod(axis=1, dtype=np.float64)
    threads = np.where(work.kind == WorkKind.KERNEL, of_kernels, np.maximum(work.bytes // BYTES_A_THREAD, 1))
    threads[work.kind == WorkKind.GRAPH] = 0
    return np.clip(threads, 0, LARGEST_BYTES).astype(np.int64)


def _fill_of(recording: Recording) -> NDArray[np.float64]:
    """Return the share of its card that each row of the work keeps busy alone; 0 if it is unknown.

    A grid of fewer blocks than multiprocessors leaves the others idle. A multiprocessor holds some 2,048 threads, but
    1.25 warps of a matrix product keep a scheduler busy. Such a kernel leaves little to others, though it is far from
    filling the card. On an H200, two of them with 0.7 and 1 warps a scheduler left others 0.5 and 0.2 of the card; on
    an H100, one with 1 warp left 0.07.
    """
    blocks = recording.blocks_each
    threads = recording.work.block.prod(axis=1, dtype=np.float64)
    share = np.minimum(blocks * np.minimum(threads / ISSUING, 1.0), 1.0)
    return np.where(blocks > 0, np.maximum(share, LEAST_FILL), 0.0)


def _by_call(recording: Recording) -> tuple[list[int], list[int], list[int]]:
    """Return the rows of the work in the order of their calls, where the rows of each call begin, and an end.

    The end is when all work of earlier calls had ended, in nanoseconds.
    """
    work = recording.work
    order = np.argsort(work.call, kind="stable")
    begins = np.searchsorted(work.call[order], np.arange(len(recording.calls) + 1))
    ended = np.append(0, np.maximum.accumulate(work.end_ns[order]))[begins]
    return order.tolist(), begins.tolist(), ended.tolist()
