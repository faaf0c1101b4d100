"""Schedules: the calls that the host makes, in issue order.

A :class:`Schedule` is data. The model simulates it, and the validator replays it on a card, so that a predicted time
and a measured time always belong to the same program. Every value here is frozen, and checks itself when it is made.

Streams are numbered. Stream 0 is CUDA's legacy default stream. Streams 1, 2, ... are the entries of
``Schedule.streams`` in order, each ``"non-blocking"`` or ``"blocking"`` (an ordinary stream, which synchronises with
the legacy default stream). Events are numbered 0, 1, ... below ``Schedule.events``.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from itertools import chain, pairwise
from threading import Lock
from typing import Annotated, ClassVar, Concatenate, Literal, ParamSpec, TypeVar, get_args

import msgspec

from streamsim import errors
from streamsim.files import explain_json, read_bytes, refuse_duplicates, write_bytes
from streamsim.text import mistaken_for

Direction = Literal["h2d", "d2h"]
MemoryKind = Literal["device", "pinned", "pageable"]
StreamKind = Literal["non-blocking", "blocking"]
Launch = Literal["live", "graph"]
DIRECTIONS, LAUNCHES = get_args(Direction), get_args(Launch)

SCHEMA_VERSION = 1
LEGACY_STREAM = 0
Thread = Annotated[int, errors.Limits(most=1023)]  # of a program
_WHOLE = 1.0


class _Frozen(errors.Checked, frozen=True, omit_defaults=True, repr_omit_defaults=True, gc=False):
    """A frozen value without reference cycles, so that the garbage collector can skip it."""


class _IssuedCall(_Frozen, frozen=True, kw_only=True):
    """A call of host thread ``thread``; by default there is only thread 0.

    ``call_s``: seconds that the call costs the host, without the time that it waits; None: the device's profile gives
    them.
    """

    thread: Thread = 0
    call_s: float | None = None


class Buffer(_Frozen, frozen=True):
    """A named piece of memory: ``bytes`` on the device, or on the host, pinned or pageable."""

    name: str
    bytes: errors.Bytes
    memory: MemoryKind

    def __post_init__(self) -> None:
        _Frozen.__post_init__(self)
        if not self.name:
            raise errors.InputError("name = '': expected a buffer name that is not empty")


class Region(_Frozen, frozen=True):
    """The byte range ``offset .. offset + bytes`` of a named buffer."""

    buffer: str
    offset: int
    bytes: errors.Bytes

    def __getitem__(self, wanted: slice) -> "Region":
        """Return the bytes ``start .. stop`` of the region.

        Raises InputError for a step, and for bytes outside the region.
        """
        if not isinstance(wanted, slice) or wanted.step is not None:
            raise errors.InputError(f"{self.buffer}[{errors.shown(wanted)}]: expected a slice of bytes, as x[0:1024]")
        start, stop = wanted.start or 0, self.bytes if wanted.stop is None else wanted.stop
        if type(start) is not int or type(stop) is not int or not 0 <= start < stop <= self.bytes:
            asked = f"{self.buffer}[{errors.shown(start)}:{errors.shown(stop)}]"
            raise errors.InputError(f"{asked}: expected whole numbers of bytes, ascending, from 0 to {self.bytes}")
        return Region(self.buffer, self.offset + start, stop - start)


class Copy(_IssuedCall, frozen=True, tag_field="op", tag="copy"):
    """A copy of ``bytes`` between host and device in a stream.

    ``host`` and ``device``: the bytes that it reads and writes. Without them, the copy uses memory of its own, pinned
    on the host. A ``blocking`` copy holds the host until the copy is done (``cudaMemcpyAsync`` followed by
    ``cudaStreamSynchronize``; in stream 0, ``cudaMemcpy``). Other copies are asynchronous.
    """

    direction: Direction
    bytes: errors.Bytes
    stream: errors.Index
    host: Region | None = None
    device: Region | None = None
    blocking: bool = False

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        for field, side in (("host", self.host), ("device", self.device)):
            if side is not None and side.bytes != self.bytes:
                raise errors.InputError(f"{field}.bytes = {side.bytes}: differs from the copy's bytes = {self.bytes}")

    def uses_host(self, names: frozenset[str]) -> bool:
        """Return True if the host memory is in a buffer with one of these ``names``, such as the pageable ones."""
        return self.host is not None and self.host.buffer in names

    def is_done_on_return(self, pageable: frozenset[str]) -> bool:
        """Return True if the call returns after the copy's end. ``pageable``: the names of the pageable buffers."""
        if self.uses_host(pageable):
            return self.direction == "d2h" or (self.blocking and self.stream != LEGACY_STREAM)
        return self.blocking


class Kernel(_IssuedCall, frozen=True, tag_field="op", tag="kernel"):
    """A kernel launch in a stream.

    - ``duration_s``: seconds alone on the card. Without it, the device profile's cost table for ``name`` and
      ``parameter`` gives the time for ``elements``.
    - ``share``: the launch is this part (0..1] of a launch that takes ``duration_s / share``. ``parts``: the known
      times of other parts of that launch, as (share, seconds), ascending. :func:`streamsim.device.profile.part_s`
      gives the time of this part on a card.
    - ``elements``: the size of its work. ``threads``: the number of threads (0: one for each element; without elements,
      enough to fill the card).
    - ``fill``: the share of the card (0..1] that the whole launch keeps busy alone (None: as its threads fill it).
      Kernels run side by side while there is room.
    - ``parameter``: an argument of the named kernel, such as iterations or cycles.
    - ``reads`` and ``writes``: the device bytes that it uses.
    """

    stream: errors.Index
    name: str = "kernel"
    elements: int = 0
    parameter: int = 0
    duration_s: float | None = None
    fill: errors.Fill | None = None
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    share: errors.Share = _WHOLE
    threads: int = 0
    parts: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        if self.parts:
            _check_parts(self.parts)
        if self.duration_s is None and not self.elements:
            raise errors.InputError("duration_s = None: a kernel needs it, or elements for the profile's cost table")


def _check_parts(parts: tuple[tuple[float, float], ...]) -> None:
    for k, (before, part) in enumerate(pairwise(((0.0, 0.0), *parts))):
        is_pair = type(part) is tuple and len(part) == 2 and {float, int}.issuperset(map(type, part))
        if not is_pair or not before[0] < part[0] <= 1 or not before[1] <= part[1] <= errors.LONGEST_S:
            raise errors.InputError(f"parts[{k}] = {errors.shown(part)}: expected (share up to 1, seconds), ascending")


class _EventCall(_IssuedCall, frozen=True):
    """A call for an event in a stream."""

    event: errors.Index
    stream: errors.Index


class RecordEvent(_EventCall, frozen=True, tag_field="op", tag="record"):
    """``cudaEventRecord``: the event completes when all earlier ops of the stream have completed."""


class WaitEvent(_EventCall, frozen=True, tag_field="op", tag="wait"):
    """``cudaStreamWaitEvent``: later ops of the stream wait for the event's latest record before this call.

    If the event was not recorded before, the wait does nothing.
    """


class Synchronize(_IssuedCall, frozen=True, tag_field="op", tag="synchronize"):
    """The host waits for a stream, for an event's latest record, or (without both) for the whole device.

    ``name``: the call that waits, if it is not CUDA's own synchronisation, such as ``"cudaFree"``.
    """

    stream: errors.Index | None = None
    event: errors.Index | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        if self.stream is not None and self.event is not None:
            raise errors.InputError(f"event = {self.event!r}: synchronise on a stream or on an event, not on both")


class _OnHost(_Frozen, frozen=True):
    """A call of a host thread that names no stream and no event."""

    stream: ClassVar[None] = None
    event: ClassVar[None] = None


class HostWork(_OnHost, frozen=True, tag_field="op", tag="work"):
    """Work of a host thread between its calls: it computes, allocates or reads a file.

    The thread's next call comes ``duration_s`` later. ``name``: the work, such as ``"cudaMalloc"`` or ``"load a
    batch"``.
    """

    duration_s: float
    name: str = ""
    thread: Thread = 0

    @property
    def call_s(self) -> float:
        """The seconds for which the work keeps its thread busy."""
        return self.duration_s


class WaitThread(_OnHost, frozen=True, tag_field="op", tag="wait-thread"):
    """A host thread waits until all earlier calls of the thread ``other`` have returned."""

    other: Thread
    thread: Thread = 0
    call_s: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _OnHost.__post_init__(self)
        if self.other == self.thread:
            raise errors.InputError(f"other = {self.other}: a thread need not wait for itself; give another one")


Op = Copy | Kernel | RecordEvent | WaitEvent | Synchronize | HostWork | WaitThread
OP_TYPES = frozenset(get_args(Op))
HostOp = Synchronize | HostWork | WaitThread  # ops that put nothing into a stream
HOST_OP_TYPES = frozenset(get_args(HostOp))


class Schedule(errors.Checked, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """The ops of a program in issue order.

    - ``ops``: the calls. Several threads may make them, each in this order and at its own pace. Streams, events and
      hardware queues follow the order of ``ops``, whichever thread comes first.
    - ``launch``: ``"live"`` (the host issues every op) or ``"graph"`` (captured once, launched once).
    - ``unchunked``: the program that this one was cut from; speed-ups compare with its time. Every pattern sets it.

    Raises InputError naming the op (``ops[3].stream``), the value and what was expected.
    """

    ops: tuple[Op, ...]
    streams: tuple[StreamKind, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    events: errors.Index = 0
    launch: Launch = "live"
    name: str = ""
    unchunked: "Schedule | None" = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise errors.InputError(f"schema_version = {self.schema_version!r}: this streamsim reads {SCHEMA_VERSION}")
        if self.unchunked is not None:
            check_schedule("unchunked", self.unchunked)
        errors.Checked.__post_init__(self)
        if not self.ops:
            raise errors.InputError("ops = []: an empty schedule has nothing to predict; add at least one op")
        for name, times in Counter(buffer.name for buffer in self.buffers).most_common(1):
            if times > 1:
                raise errors.InputError(f"buffers: {times} are called {name!r}; rename one")
        _check_ops(self)
        if self.launch == "graph":
            _check_capturable(self)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        return errors.short(f"Schedule({name}{len(self.ops)} ops in {len(self.streams)} streams, {self.launch})")

    @property
    def used_streams(self) -> tuple[int, ...]:
        """The streams of the ops, by first use."""
        found = dict.fromkeys([None if type(op) in HOST_OP_TYPES else op.stream for op in self.ops])
        return tuple(stream for stream in found if stream is not None)

    @property
    def device_bytes(self) -> int:
        """The bytes of all device buffers. Copies that name no buffer are not counted."""
        return sum(buffer.bytes for buffer in self.buffers if buffer.memory == "device")

    @property
    def pageable_names(self) -> frozenset[str]:
        """The names of the pageable host buffers."""
        return frozenset(buffer.name for buffer in self.buffers if buffer.memory == "pageable")


def check_schedule(field: str, value: object) -> None:
    """Raise InputError unless ``value`` is a Schedule; a workload must be cut into one first."""
    if not isinstance(value, Schedule):
        raise errors.InputError(
            f"{field} = {errors.shown(value)}: expected a Schedule, such as depth_first() makes of a workload"
        )


def _check_ops(schedule: Schedule) -> None:
    """Raise InputError unless the ops' streams, events and buffers exist, and regions lie inside their buffers."""
    streams, buffers = len(schedule.streams), {buffer.name: buffer for buffer in schedule.buffers}
    for i, op in enumerate(schedule.ops):
        if type(op) not in OP_TYPES:
            names = ", ".join(kind.__name__ for kind in get_args(Op))
            raise errors.InputError(f"ops[{i}] = {errors.shown(op)}: expected one of {names}")
        if isinstance(op, Copy | Kernel):
            _check_regions(i, op, buffers)
        elif op.event is not None and op.event >= schedule.events:
            raise errors.InputError(
                f"ops[{i}].event = {op.event}: unknown event; events = {schedule.events} are declared"
            )
        if op.stream is not None and op.stream > streams:
            raise errors.InputError(
                f"ops[{i}].stream = {op.stream}: unknown stream; 0 is the legacy default stream"
                f" and {streams} more are declared in streams"
            )


def _check_regions(i: int, op: Copy | Kernel, buffers: dict[str, Buffer]) -> None:
    """Raise InputError unless the regions of op ``i`` lie inside their buffers, and these on the right sides."""
    if isinstance(op, Copy):
        used = [(field, side) for field, side in (("host", op.host), ("device", op.device)) if side is not None]
    else:
        used = [("reads", region) for region in op.reads] + [("writes", region) for region in op.writes]
    for field, region in used:
        buffer, end = buffers.get(region.buffer), region.offset + region.bytes
        if buffer is None:
            expected = "a buffer that is declared in buffers"
        elif (buffer.memory == "device") is (field == "host"):
            expected = "pinned or pageable memory" if field == "host" else "device memory"
        elif end > buffer.bytes:
            expected = f"bytes to {buffer.bytes}"
        else:
            continue
        reach = f"{region.buffer!r}, bytes {region.offset}..{end}"
        raise errors.InputError(f"ops[{i}].{field}.buffer = {reach}: expected {expected}")


def _check_capturable(schedule: Schedule) -> None:
    """Raise InputError for calls that block the host, and for the legacy default stream, which CUDA cannot capture."""
    pageable = schedule.pageable_names
    last_work = max((i for i, op in enumerate(schedule.ops) if not isinstance(op, HostOp)), default=-1)
    for i, op in enumerate(schedule.ops):
        why = ""
        if op.thread:
            why = f".thread = {op.thread}: a graph is launched by one thread"
        elif isinstance(op, HostOp):
            why = ": the host can wait or work only after a graph's last op" if i < last_work else ""
        elif op.call_s is not None:
            why = f".call_s = {op.call_s!r}: the launch of a graph issues its ops"
        elif op.stream == LEGACY_STREAM:
            why = ".stream = 0: the legacy default stream cannot be captured in a graph"
        elif isinstance(op, Copy) and (op.blocking or op.uses_host(pageable)):
            why = ": a blocking or pageable copy cannot be captured in a graph"
        if why:
            raise errors.InputError(f'ops[{i}]{why}; use launch = "live", or take it out')


# Schedules as JSON, with the recorded times of their ops. ``streamsim init --schema schedule`` prints the exact form.


UNKNOWN = -1
FIRST_TOUCH = "first touch of host memory"  # the name of host work: page faults in a copy of pageable memory
LATEST_NS = 1 << 52  # 52 days, and exact as a float


class RecordedTrack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recorded spans that belong to no op, such as moves of unified memory's pages, in whole nanoseconds.

    Raises InputError for different numbers of starts and ends, and for spans that overlap or are out of order.
    """

    name: str
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        times = [time for span in zip(self.start_ns, self.end_ns, strict=False) for time in span]
        in_order = all(a <= b for a, b in pairwise((0, *times, LATEST_NS)))
        if len(self.start_ns) != len(self.end_ns) or not in_order:
            raise errors.InputError(f"start_ns, end_ns: expected spans one after the other, from 0 to {LATEST_NS} ns")


class RecordedTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Recorded times, one column entry for each op, in whole nanoseconds since the first op's call; -1: no such time.

    - ``issued_ns``, ``returned_ns``: begin and return of its call. ``start_ns``, ``end_ns``: its run on the card.
    - ``lanes``: recorded spans that belong to no op.

    Raises InputError naming the column for columns of different lengths, and for impossible times.
    """

    issued_ns: tuple[int, ...]
    returned_ns: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    lanes: tuple[RecordedTrack, ...] = ()

    def __post_init__(self) -> None:
        for first, last in (("issued_ns", "returned_ns"), ("start_ns", "end_ns")):
            begins, ends = getattr(self, first), getattr(self, last)
            if not len(begins) == len(ends) == len(self):
                raise errors.InputError(f"{first}, {last}: expected {len(self)} times each, one for each op")
            for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
                if not UNKNOWN <= begin <= end <= LATEST_NS:
                    times = f"{begin}, {end}: expected times from 0 to {LATEST_NS} ns, or -1 for none"
                    raise errors.InputError(f"{first}[{i}], {last}[{i}] = {times}, and no end before its begin")

    def __len__(self) -> int:
        return len(self.issued_ns)

    def __repr__(self) -> str:
        return f"RecordedTimes({len(self)} ops)"


LARGEST_JSON_BYTES = 1 << 30


class ScheduleFile(Schedule, frozen=True):
    """The content of a schedule's file.

    - ``recorded``: the recorded times of its ops; ``profile``: its card's profile as TOML, or "".
    - ``notes``: sentences to read before use, such as that the replay is far from the recording.
    """

    recorded: RecordedTimes | None = None
    profile: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check nothing: the schedule that is made of the file checks itself."""

    def schedule(self) -> Schedule:
        """Return the schedule. Raises InputError for an impossible one, and for recorded times of other ops."""
        found = Schedule(*(getattr(self, name) for name in Schedule.__struct_fields__))
        if self.recorded is not None and len(self.recorded) != len(found):
            raise errors.InputError(f"recorded: has times of {len(self.recorded)} ops; there are {len(found)}")
        return found


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Return the schedule in a JSON file. Raises InputError naming the file, the field and the value."""
    return read_program(path)[0]


def read_program(path: str | os.PathLike[str]) -> tuple[Schedule, ScheduleFile]:
    """Return the schedule in a JSON file, and all of the file. Raises InputError like :func:`read_schedule`."""
    return _parse_schedule(read_bytes(path, LARGEST_JSON_BYTES), errors.one_line(str(path)))


def write_schedule(schedule: Schedule, path: str | os.PathLike[str], profile: str = "") -> None:
    """Save ``schedule`` as JSON, one op a line, with its card's ``profile`` if it is given.

    Raises InputError if the file cannot be written.
    """
    write_bytes(dump_schedule(schedule, profile=profile), path)


def dump_schedule(
    schedule: Schedule, recorded: RecordedTimes | None = None, profile: str = "", notes: tuple[str, ...] = ()
) -> bytes:
    """Return ``schedule`` as JSON in UTF-8, one op a line.

    The last line holds the unchunked program, the ``recorded`` times, the card's ``profile`` and the ``notes``.
    """
    encode = msgspec.json.Encoder().encode
    head = {
        name: getattr(schedule, name) for name in schedule.__struct_fields__[::-1] if name not in ("ops", "unchunked")
    }
    try:
        ops = b",\n".join(map(encode, schedule.ops))
        more = {"unchunked": schedule.unchunked, "recorded": recorded, "profile": profile, "notes": notes}
        tail = [b"," + encode({name: value})[1:-1] for name, value in more.items() if value]
        return encode(head)[:-1] + b',"ops":[\n' + ops + b"\n]" + b"".join(tail) + b"}\n"
    except UnicodeEncodeError as error:
        raise errors.InputError(f"schedule: {errors.shown(error.object)} is not text that UTF-8 can hold") from None


def parse_schedule(data: bytes, where: str = "schedule") -> Schedule:
    """Return the schedule in the JSON ``data``. Raises InputError that begins with ``where``."""
    return _parse_schedule(data, where)[0]


def _parse_schedule(data: bytes, where: str) -> tuple[Schedule, ScheduleFile]:
    try:
        file = msgspec.json.decode(data, type=ScheduleFile)
        schedule = file.schedule()
        if dump_schedule(schedule, file.recorded, file.profile, file.notes) != data:  # ours name nothing twice
            json.loads(data, object_pairs_hook=refuse_duplicates)
        return schedule, file
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, errors.InputError) else explain_json(error, data, ScheduleFile)
        raise errors.InputError(f"{where}: {mistaken_for('schedule', data) or reason}") from None


# The order between ops. A set of ops to wait for holds only the latest op of each stream, because that implies the
# earlier ones.


class CudaOrder:
    """The order that streams and events enforce, built up from the calls in issue order."""

    def __init__(self, schedule: Schedule) -> None:
        self._ops = schedule.ops
        # The legacy default stream, and the streams that synchronise with it.
        self.ordinary = [LEGACY_STREAM] + [
            number for number, kind in enumerate(schedule.streams, 1) if kind == "blocking"
        ]
        # For each stream except the legacy stream: the ops whose end completes everything in it so far.
        self.tail: list[tuple[int, ...]] = [()] * (len(schedule.streams) + 1)
        self._recorded: dict[int, tuple[int, ...]] = {}

    def before(self, stream: int) -> tuple[int, ...]:
        """Return the ops whose end completes everything in ``stream`` so far."""
        if stream != LEGACY_STREAM:
            return self.tail[stream]
        tails = dict.fromkeys(self.tail[number] for number in self.ordinary)
        return self._union(tails) if len(tails) > 1 else next(iter(tails))  # mostly the legacy stream's last op

    def append(self, stream: int, op: int) -> None:
        self._set_tail(stream, (op,))

    def record(self, stream: int, event: int) -> tuple[int, ...]:
        done = self._recorded[event] = self.before(stream)
        self._set_tail(stream, done)
        return done

    def wait(self, stream: int, event: int) -> tuple[int, ...]:
        before, recorded = self.before(stream), self._recorded.get(event, ())
        both = self._union((before, recorded)) if before and recorded else before or recorded
        self._set_tail(stream, both)
        return both

    def awaited(self, sync: Synchronize) -> tuple[int, ...]:
        """Return the ops that a host synchronisation waits for."""
        if sync.event is not None:
            return self._recorded.get(sync.event, ())
        if sync.stream is not None:
            return self.before(sync.stream)
        return self._union(self.tail)

    def _set_tail(self, stream: int, ops: tuple[int, ...]) -> None:
        self.tail[stream] = ops
        if stream == LEGACY_STREAM:  # later ops of ordinary streams come after it, earlier ones are in it
            for number in self.ordinary:
                self.tail[number] = ops

    def _union(self, sets: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the ops without those that a later op of the same stream implies: at most one for each stream."""
        ops = self._ops
        latest: dict[int | None, int] = {}
        for op in chain.from_iterable(sets):
            stream = ops[op].stream
            if stream not in latest or op > latest[stream]:
                latest[stream] = op
        return tuple(latest.values())


# A memory for results made of schedules, because the same programs are predicted on one device after another: by
# comparisons, intervals, calibrations and explanations.

MOST_OPS = 256_000  # ops of all schedules in a memory; lowered, each takes some 400 bytes, its dependences 1 or 2 kB
MOST = 64  # schedules in a memory

Made = TypeVar("Made")
Values = ParamSpec("Values")


def remembered(make: Callable[Concatenate[Schedule, Values], Made]) -> Callable[Concatenate[Schedule, Values], Made]:
    """Return ``make``, a function of a schedule and of hashable values, that keeps its latest results.

    Results are kept for at most ``MOST`` schedules and ``MOST_OPS`` ops in all. They must not be changed.
    """
    kept: dict[Hashable, tuple[Schedule, Made]] = {}  # the least recently used first
    lock = Lock()

    @wraps(make)
    def remembering(schedule: Schedule, /, *values: Values.args, **named: Values.kwargs) -> Made:
        # By identity: hashing ops takes as long as the result. A kept schedule keeps its id.
        key = id(schedule), values, *named.items()
        with lock:
            found = kept.pop(key, None)
        found = found or (schedule, make(schedule, *values, **named))
        with lock:
            if len(schedule.ops) <= MOST_OPS:
                kept[key] = found
            while sum(max(len(one.ops), MOST_OPS // MOST) for one, _ in kept.values()) > MOST_OPS:
                kept.pop(next(iter(kept)))
        return found[1]

    return remembering
