"""Schedules: the calls that the host makes, in issue order.

A :class:`Schedule` is data. The model simulates it, and the validator replays it on a card, so that a predicted time
and a measured time always belong to the same program. Every value here is frozen, and checks itself when it is made.

Streams are numbered. Stream 0 is CUDA's legacy default stream. Streams 1, 2, ... are the entries of
``Schedule.streams`` in order, each ``"non-blocking"`` or ``"blocking"`` (an ordinary stream, which synchronises with
the legacy default stream). Events are numbered 0, 1, ... below ``Schedule.events``.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from itertools import chain
from operator import attrgetter
from threading import Lock
from typing import ClassVar, Concatenate, Generic, Literal, ParamSpec, TypeVar, get_args

import msgspec

from streamsim.errors import (
    LARGEST_BYTES,
    LARGEST_COUNT,
    LEAST_FILL,
    LEAST_SHARE,
    LONGEST_S,
    InputError,
    check_choice,
    check_is,
    check_number,
    check_tuple,
    check_whole,
    short,
    shown,
)

Direction = Literal["h2d", "d2h"]
MemoryKind = Literal["device", "pinned", "pageable"]
StreamKind = Literal["non-blocking", "blocking"]
Launch = Literal["live", "graph"]
DIRECTIONS, MEMORIES, STREAM_KINDS, LAUNCHES = map(get_args, (Direction, MemoryKind, StreamKind, Launch))

SCHEMA_VERSION = 1
LEGACY_STREAM = 0
MOST_CARDS = 64  # of a host
MOST_THREADS = 1024  # of a program
_FIRST, _WHOLE = 0, 1.0  # card or thread, and share, of most ops: they need no check
MOST_OPS_SHOWN = 8


class _Frozen(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True, gc=False
):
    """A frozen value without reference cycles, so that the garbage collector can skip it."""


class _IssuedCall(_Frozen, frozen=True, kw_only=True):
    """A call of host thread ``thread`` for ``card``; by default there is one of each.

    ``call_s``: seconds that the call costs the host, without the time that it waits; None: the device's profile gives
    them.
    """

    card: int = 0
    thread: int = 0
    call_s: float | None = None

    def __post_init__(self) -> None:
        if self.card is not _FIRST or self.thread is not _FIRST:  # most ops need no check
            check_whole("card", self.card, 0, MOST_CARDS - 1)
            check_whole("thread", self.thread, 0, MOST_THREADS - 1)
        if self.call_s is not None:
            check_number("call_s", self.call_s, 0.0, LONGEST_S)


class Buffer(_Frozen, frozen=True):
    """A named piece of memory: ``bytes`` on the device, or on the host, pinned or pageable."""

    name: str
    bytes: int
    memory: MemoryKind

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"name = {self.name!r}: expected a buffer name that is not empty")
        check_whole("bytes", self.bytes, 1, LARGEST_BYTES)
        check_choice("memory", self.memory, MEMORIES)


class Region(_Frozen, frozen=True):
    """The byte range ``offset .. offset + bytes`` of a named buffer."""

    buffer: str
    offset: int
    bytes: int

    def __post_init__(self) -> None:
        if type(self.buffer) is not str:  # checking each field by a call would take a third longer
            check_is("buffer", self.buffer, str)
        check_whole("offset", self.offset, 0, LARGEST_BYTES)
        check_whole("bytes", self.bytes, 1, LARGEST_BYTES)


_REGIONS = frozenset([Region])


class Copy(_IssuedCall, frozen=True, tag_field="op", tag="copy"):
    """A copy of ``bytes`` between host and device in a stream.

    ``host`` and ``device``: the bytes that it reads and writes. Without them, the copy uses memory of its own, pinned
    on the host. A ``blocking`` copy holds the host until the copy is done (``cudaMemcpyAsync`` followed by
    ``cudaStreamSynchronize``; in stream 0, ``cudaMemcpy``). Other copies are asynchronous.
    """

    direction: Direction
    bytes: int
    stream: int
    host: Region | None = None
    device: Region | None = None
    blocking: bool = False

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        check_choice("direction", self.direction, DIRECTIONS)
        check_whole("bytes", self.bytes, 1, LARGEST_BYTES)
        check_whole("stream", self.stream, 0, LARGEST_COUNT)
        if self.blocking is not False and self.blocking is not True:
            check_is("blocking", self.blocking, bool)
        for field, side in (("host", self.host), ("device", self.device)):
            if side is not None and (type(side) is not Region or side.bytes != self.bytes):
                check_is(field, side, Region)
                raise InputError(f"{field}.bytes = {side.bytes}: differs from the copy's bytes = {self.bytes}")

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

    stream: int
    name: str = "kernel"
    elements: int = 0
    parameter: int = 0
    duration_s: float | None = None
    fill: float | None = None
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()
    share: float = _WHOLE
    threads: int = 0
    parts: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        check_whole("stream", self.stream, 0, LARGEST_COUNT)
        if type(self.name) is not str:
            check_is("name", self.name, str)
        check_whole("threads", self.threads, 0, LARGEST_BYTES)
        if self.elements is not _FIRST or self.parameter is not _FIRST:
            check_whole("elements", self.elements, 0, LARGEST_BYTES)
            check_whole("parameter", self.parameter, 0, LARGEST_BYTES)
        if self.share is not _WHOLE:
            check_number("share", self.share, LEAST_SHARE, 1.0)
        if self.parts != ():
            _check_parts(self.parts)
        if self.fill is not None:
            check_number("fill", self.fill, LEAST_FILL, 1.0)
        if self.duration_s is not None:
            check_number("duration_s", self.duration_s, 0.0, LONGEST_S)
        elif not self.elements:
            raise InputError("duration_s = None: a kernel needs it, or elements for the profile's cost table")
        reads, writes = self.reads, self.writes
        if not (type(reads) is type(writes) is tuple and _REGIONS.issuperset(map(type, reads + writes))):
            check_tuple("reads", reads, Region)
            check_tuple("writes", writes, Region)


def _check_parts(parts: tuple[tuple[float, float], ...]) -> None:
    check_tuple("parts", parts, tuple)
    for k, (part, before) in enumerate(zip(parts, ((0.0, 0.0), *parts), strict=False)):
        if len(part) != 2:
            raise InputError(f"parts[{k}] = {part!r}: expected (share, seconds)")
        check_number(f"parts[{k}][0]", part[0], LEAST_SHARE, 1.0)
        check_number(f"parts[{k}][1]", part[1], 0.0, LONGEST_S)
        if part[0] <= before[0] or part[1] < before[1]:
            raise InputError(f"parts[{k}] = {part!r}: expected a larger part than the one before, and no less time")


class _EventCall(_IssuedCall, frozen=True):
    """A call for an event in a stream."""

    event: int
    stream: int

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        check_whole("event", self.event, 0, LARGEST_COUNT)
        check_whole("stream", self.stream, 0, LARGEST_COUNT)


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

    stream: int | None = None
    event: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _IssuedCall.__post_init__(self)
        if self.name != "":
            check_is("name", self.name, str)
        if self.stream is not None and self.event is not None:
            raise InputError(f"event = {self.event!r}: synchronise on a stream or on an event, not on both")
        for field in ("stream", "event"):
            if getattr(self, field) is not None:
                check_whole(field, getattr(self, field), 0, LARGEST_COUNT)


class _OnHost(_Frozen, frozen=True):
    """A call of a host thread for no card."""

    card: ClassVar[int] = 0
    stream: ClassVar[None] = None
    event: ClassVar[None] = None


class HostWork(_OnHost, frozen=True, tag_field="op", tag="work"):
    """Work of a host thread between its calls: it computes, allocates or reads a file.

    The thread's next call comes ``duration_s`` later. ``name``: the work, such as ``"cudaMalloc"`` or ``"load a
    batch"``.
    """

    duration_s: float
    name: str = ""
    thread: int = 0

    def __post_init__(self) -> None:
        check_number("duration_s", self.duration_s, 0.0, LONGEST_S)
        check_is("name", self.name, str)
        check_whole("thread", self.thread, 0, MOST_THREADS - 1)

    @property
    def call_s(self) -> float:
        """The seconds for which the work keeps its thread busy."""
        return self.duration_s


class WaitThread(_OnHost, frozen=True, tag_field="op", tag="wait-thread"):
    """A host thread waits until all earlier calls of the thread ``other`` have returned."""

    other: int
    thread: int = 0
    call_s: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_whole("other", self.other, 0, MOST_THREADS - 1)
        check_whole("thread", self.thread, 0, MOST_THREADS - 1)
        if self.other == self.thread:
            raise InputError(f"other = {self.other}: a thread need not wait for itself; give another one")


Op = Copy | Kernel | RecordEvent | WaitEvent | Synchronize | HostWork | WaitThread
OP_TYPES = frozenset(get_args(Op))
HostOp = Synchronize | HostWork | WaitThread  # ops that put nothing into a stream
HOST_OP_TYPES = frozenset(get_args(HostOp))


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True):
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
    events: int = 0
    launch: Launch = "live"
    name: str = ""
    unchunked: "Schedule | None" = None
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise InputError(f"schema_version = {self.schema_version!r}: this streamsim reads {SCHEMA_VERSION}")
        check_tuple("ops", self.ops)
        check_tuple("streams", self.streams)
        check_tuple("buffers", self.buffers, Buffer)
        check_is("name", self.name, str)
        if self.unchunked is not None:
            check_schedule("unchunked", self.unchunked)
        check_choice("launch", self.launch, LAUNCHES)
        check_whole("events", self.events, 0, LARGEST_COUNT)
        for i, kind in enumerate(self.streams):
            check_choice(f"streams[{i}]", kind, STREAM_KINDS)
        if not self.ops:
            raise InputError("ops = []: an empty schedule has nothing to predict; add at least one op")
        names = [buffer.name for buffer in self.buffers]
        if len(set(names)) < len(names):
            i = next(i for i, name in enumerate(names) if name in names[:i])
            raise InputError(f"buffers[{i}].name = {names[i]!r}: another buffer has this name; rename one")
        _check_ops(self)
        if self.launch == "graph":
            _check_capturable(self)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __repr__(self) -> str:
        """Return the full value if there are few ops, else a description."""
        if len(self.ops) <= MOST_OPS_SHOWN:
            return super().__repr__()
        name = f"{self.name}: " if self.name else ""
        issued = "" if self.launch == "live" else ", as a graph"
        return short(f"Schedule({name}{len(self.ops)} ops in {len(self.streams)} streams{issued})")

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
        raise InputError(f"{field} = {shown(value)}: expected a Schedule, such as depth_first() makes of a workload")


def _check_ops(schedule: Schedule) -> None:
    """Raise InputError unless the ops' streams, events and buffers exist, and regions lie inside their buffers."""
    streams, events = len(schedule.streams), schedule.events
    on_device = {buffer.name: buffer.bytes for buffer in schedule.buffers if buffer.memory == "device"}
    on_host = {buffer.name: buffer.bytes for buffer in schedule.buffers if buffer.memory != "device"}
    for i, op in enumerate(schedule.ops):
        if type(op) is HostWork:  # half of the ops of recorded programs; it names nothing
            continue
        if isinstance(op, Copy):
            if op.host is not None and _outside(op.host, on_host):
                raise _misplaced(f"ops[{i}].host", op.host, on_host, on_device, "host (pinned or pageable)")
            if op.device is not None and _outside(op.device, on_device):
                raise _misplaced(f"ops[{i}].device", op.device, on_device, on_host, "device")
        elif isinstance(op, Kernel):
            for region in op.reads + op.writes:
                if _outside(region, on_device):
                    field = "reads" if region in op.reads else "writes"
                    where = f"ops[{i}].{field}[{getattr(op, field).index(region)}]"
                    raise _misplaced(where, region, on_device, on_host, "device")
        else:
            _check_event(i, op, events)
        if op.stream is not None and op.stream > streams:
            raise InputError(
                f"ops[{i}].stream = {op.stream}: unknown stream; 0 is the legacy default stream"
                f" and {streams} more are declared in streams"
            )


def _check_event(i: int, op: RecordEvent | WaitEvent | HostOp, events: int) -> None:
    if type(op) not in OP_TYPES:
        names = ", ".join(kind.__name__ for kind in get_args(Op)[:-1])
        raise InputError(f"ops[{i}] = {op!r}: expected a {names} or {get_args(Op)[-1].__name__}")
    if op.event is not None and op.event >= events:
        raise InputError(f"ops[{i}].event = {op.event}: unknown event; events = {events} are declared")


def _outside(region: Region, sizes: dict[str, int]) -> bool:
    return region.offset + region.bytes > sizes.get(region.buffer, 0)


def _misplaced(where: str, region: Region, sizes: dict[str, int], other: dict[str, int], side: str) -> InputError:
    """Return the error for a region that does not lie inside one of the buffers in ``sizes``."""
    name = region.buffer
    if name in sizes:
        reach = f"bytes {region.offset}..{region.offset + region.bytes}"
        return InputError(f"{where}: {reach} reach outside buffer {name!r} of {sizes[name]} bytes")
    if name in other:
        return InputError(f"{where}.buffer = {name!r}: expected a buffer in {side} memory")
    return InputError(f"{where}.buffer = {name!r}: unknown buffer; declare it in buffers")


def _check_capturable(schedule: Schedule) -> None:
    """Raise InputError for calls that block the host, and for the legacy default stream, which CUDA cannot capture."""
    remedy = 'use launch = "live", or take it out'
    pageable = schedule.pageable_names
    last_work = max((i for i, op in enumerate(schedule.ops) if not isinstance(op, HostOp)), default=-1)
    for i, op in enumerate(schedule.ops):
        if op.thread:
            raise InputError(f"ops[{i}].thread = {op.thread}: a graph is launched by one thread; {remedy}")
        if isinstance(op, HostOp):
            if i < last_work:
                what = "be synchronised" if isinstance(op, Synchronize) else "wait for the host"
                raise InputError(f"ops[{i}]: a graph can {what} only after its last op; {remedy}")
        elif op.call_s is not None:
            raise InputError(f"ops[{i}].call_s = {op.call_s!r}: the launch of a graph issues its ops; leave it out")
        elif op.stream == LEGACY_STREAM:
            raise InputError(f"ops[{i}].stream = 0: the legacy default stream cannot be captured in a graph; {remedy}")
        elif isinstance(op, Copy) and (op.blocking or op.uses_host(pageable)):
            raise InputError(f"ops[{i}]: a blocking or pageable copy cannot be captured in a graph; {remedy}")


# The order between ops. A set of ops to wait for holds only the latest op of each stream, because that implies the
# earlier ones.


class CudaOrder:
    """The order that streams and events enforce, built up from the calls in issue order.

    Raises InputError for a schedule of several cards, which can be written down but not yet ordered.
    """

    def __init__(self, schedule: Schedule) -> None:
        if any(map(attrgetter("card"), schedule.ops)):
            i, card = next((i, op.card) for i, op in enumerate(schedule.ops) if op.card)
            raise InputError(f"ops[{i}].card = {card}: several cards cannot be ordered yet; give 0")
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
        if stream == LEGACY_STREAM:
            self._set_tail(stream, (op,))
        else:
            self.tail[stream] = (op,)

    def record(self, stream: int, event: int) -> tuple[int, ...]:
        done = self._recorded[event] = self.before(stream)
        if stream == LEGACY_STREAM:
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


class ResultCache(Generic[Made]):
    """The latest results made of schedules, by key: of at most ``MOST`` schedules and ``MOST_OPS`` ops in all.

    Results of a larger schedule are not kept. Kept results must not be changed.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Made, int]] = {}  # results and their ops, the least recently used first
        self._ops = 0  # of all results; each counts as MOST_OPS / MOST or more
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], tuple[Made, int]]) -> Made:
        """Return the result kept under ``key``, else the one that ``make`` returns together with its number of ops."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
                return found[0]
        made, ops = make()
        ops = max(ops, MOST_OPS // MOST)
        with self._lock:
            if ops <= MOST_OPS and key not in self._kept:
                self._kept[key] = made, ops
                self._ops += ops
                while self._ops > MOST_OPS:
                    self._ops -= self._kept.pop(next(iter(self._kept)))[1]
        return made


def remembered(make: Callable[Concatenate[Schedule, Values], Made]) -> Callable[Concatenate[Schedule, Values], Made]:
    """Return ``make``, a function of a schedule and of hashable values, with a :class:`ResultCache` of its own."""
    memory = ResultCache[tuple[Made, Schedule]]()

    @wraps(make)
    def remembering(schedule: Schedule, /, *values: Values.args, **named: Values.kwargs) -> Made:
        # By identity: hashing ops takes as long as the result. A kept schedule keeps its id.
        key = id(schedule), values, *named.items()
        return memory.of(key, lambda: ((make(schedule, *values, **named), schedule), len(schedule.ops)))[0]

    return remembering
