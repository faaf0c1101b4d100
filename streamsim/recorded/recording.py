"""Recordings: programs as profilers recorded them, in columns, the same for every format of file.

Times are whole nanoseconds since the recording's first record. A reference to a row or to an entry of a tuple is its
index, or -1 for none. Columns are read-only arrays with one entry for each row. Rows are in the order of their starts.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.displayed import Displayed
from streamsim.errors import LARGEST_COUNT, counted, short
from streamsim.text import format_seconds

Format = Literal["Kineto", "Nsight Systems", "CUPTI"]
RecordedStreamKind = Literal["legacy", "blocking", "non-blocking", "unknown"]
NONE = -1
SIMULATED = "streamsim, a simulated program"  # the tool of recordings written from simulations
LATEST_NS = 1 << 52  # 52 days, and exact as a float
Columns = TypeVar("Columns", bound="_Columns")


class CallKind(IntEnum):
    """The kind of a host call, found from its name. A copy's call is blocking unless its name has "Async"."""

    OTHER, COPY, COPY_ASYNC, LAUNCH, MEMSET, RECORD, WAIT = range(7)
    SYNCHRONIZE_STREAM, SYNCHRONIZE_EVENT, SYNCHRONIZE_DEVICE = range(7, 10)
    GRAPH_LAUNCH, FREE, PREFETCH = range(10, 13)


WAITS = (CallKind.SYNCHRONIZE_STREAM, CallKind.SYNCHRONIZE_EVENT, CallKind.SYNCHRONIZE_DEVICE)
# Calls that put work on a card.
ISSUES = (CallKind.COPY, CallKind.COPY_ASYNC, CallKind.LAUNCH, CallKind.MEMSET, CallKind.GRAPH_LAUNCH)


class WorkKind(IntEnum):
    """The kind of work of a card. GRAPH is a whole graph; the recording lacks its kernels and copies."""

    COPY, KERNEL, MEMSET, GRAPH = range(4)


class CopyDirection(IntEnum):
    """The direction of a copy. UNIFIED: from or to unified memory; PEER: to or from another card; NONE: no copy."""

    NONE, H2D, D2H, D2D, PEER, UNIFIED, OTHER = range(7)


class CopyMemory(IntEnum):
    """The memory on the host's side of a copy; NONE if the copy has no such side."""

    NONE, PAGEABLE, PINNED, UNKNOWN = range(4)


class PageKind(IntEnum):
    """The kind of an event of unified memory: the driver moves pages, or the card or the host touches missing ones."""

    IN, OUT, BETWEEN_CARDS, CARD_FAULTS, HOST_FAULT = range(5)


class PageCause(IntEnum):
    """The cause of a move of pages, with CUPTI's numbers. DRIVER: the driver expects that they will be needed."""

    UNKNOWN, PREFETCH, FAULT, DRIVER, EVICTION, ACCESS_COUNTERS = range(6)


class AnnotationKind(IntEnum):
    """The kind of a named span of time.

    RANGE: a range that the program named, with NVTX or PyTorch's record_function. STEP: a step of the profiler. OP: a
    recorded operation of PyTorch.
    """

    RANGE, STEP, OP = range(3)


_NARROW = ("kind", "direction", "memory", "cause")
_INDICES = ("name", "thread", "stream", "card", "grid", "block")


def dtype_of(name: str) -> Any:
    """Return the NumPy type of a column of this name."""
    return np.int8 if name in _NARROW else np.int32 if name in _INDICES else np.int64


def shape_of(name: str, rows: int) -> tuple[int, ...]:
    """Return the shape of a column of this name."""
    return (rows, 3) if name in ("grid", "block") else (rows,)


class _Columns(msgspec.Struct, frozen=True, eq=False):
    """A table of arrays of one length. Two tables are equal if all their columns are."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            getattr(self, name).flags.writeable = False

    def __len__(self) -> int:
        return len(getattr(self, self.__struct_fields__[0]))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    def rows(self: Columns, chosen: NDArray[Any]) -> Columns:
        """Return some of the rows, chosen by a mask or by their indices."""
        return type(self)(**{name: getattr(self, name)[chosen] for name in self.__struct_fields__})

    def with_rows(self: Columns, added: Sequence[Mapping[str, Any]]) -> Columns:
        """Return the table with more rows, in the order of their starts."""
        columns = {}
        for name in self.__struct_fields__:
            column = getattr(self, name)
            more = [np.broadcast_to(row[name], column.shape[1:]) for row in added]
            columns[name] = np.concatenate([column, np.array(more, column.dtype)])
        return type(self).of(columns).rows(np.argsort(columns["start_ns"], kind="stable"))

    @classmethod
    def of(cls: type[Columns], columns: dict[str, Any]) -> Columns:
        """Return a table from arrays or sequences of integers."""
        return cls(**{name: np.ascontiguousarray(columns[name], dtype_of(name)) for name in cls.__struct_fields__})


class HostCalls(_Columns, frozen=True, eq=False):
    """The host's calls, one a row.

    - ``kind``: a CallKind; ``name``, ``thread``: indices of the recording's tuples.
    - ``correlation``: the number that ties a call to its work within a process.
    - ``stream``: an index. A synchronisation waits for this stream; a wait for an event holds it back; work or a record
      of another call goes into it.
    - ``event``: the number of the event's handle. Programs reuse events, so a number may stand for many records.
    - ``record``: for a wait or a synchronisation, the row of the call that recorded the event.
    """

    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    correlation: NDArray[np.int64]
    stream: NDArray[np.int32]
    event: NDArray[np.int64]
    record: NDArray[np.int64]


class CardWork(_Columns, frozen=True, eq=False):
    """The work of the cards, one copy, kernel, memset or graph a row.

    - ``kind``: a WorkKind; ``name``, ``card``, ``stream``: indices of the recording's tuples; ``call``: a row of the
      calls.
    - ``direction``, ``memory``: a copy's CopyDirection and CopyMemory; ``bytes``: the size of a copy or memset.
    - ``grid``, ``block``: a kernel's numbers of blocks and of threads in a block, shape (rows, 3).
    """

    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    card: NDArray[np.int32]
    stream: NDArray[np.int32]
    call: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    direction: NDArray[np.int8]
    memory: NDArray[np.int8]
    grid: NDArray[np.int32]
    block: NDArray[np.int32]


class Annotations(_Columns, frozen=True, eq=False):
    """Named spans of a thread's time, one a row. ``kind``: an AnnotationKind; ``name``, ``thread``: indices."""

    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


class PageEvents(_Columns, frozen=True, eq=False):
    """Moves of unified memory's pages by the driver, and page faults, one a row.

    - ``kind``: a PageKind; ``cause``: the PageCause of a move, UNKNOWN for faults.
    - ``card``: an index, or -1 for a fault of the host; ``process``: the system's number.
    - ``bytes``: the size of a move; ``count``: the number of faults in a row of faults, 1 for a move.
    """

    kind: NDArray[np.int8]
    cause: NDArray[np.int8]
    card: NDArray[np.int32]
    process: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    bytes: NDArray[np.int64]
    count: NDArray[np.int64]


NO_PAGES = PageEvents.of(dict.fromkeys(PageEvents.__struct_fields__, ()))


class RecordedThread(msgspec.Struct, frozen=True):
    """A thread of the host, with the system's numbers of the thread and its process."""

    process: int
    id: int


class RecordedStream(msgspec.Struct, frozen=True):
    """A stream.

    ``id``: the profiler's number of it. ``card``: an index of ``Recording.cards``. ``process``: the system's number
    (-1: the format does not have it).
    """

    process: int
    card: int
    context: int
    id: int
    kind: RecordedStreamKind = "unknown"


class RecordedCard(msgspec.Struct, frozen=True):
    """A card. ``id``: the profiler's number of it. Other fields are 0 or "" if the recording lacks them."""

    id: int
    name: str = ""
    memory_bytes: int = 0
    multiprocessors: int = 0
    copy_engines: int = 0


class Unread(msgspec.Struct, frozen=True):
    """A part of the recording that is left out or not understood: ``what`` it is, its ``count``, and the reason."""

    what: str
    count: int
    why: str


class Recording(Displayed, msgspec.Struct, frozen=True):
    """A program as a profiler recorded it.

    - ``format``: the kind of recording; ``tool``: the profiler's name and version.
    - ``names``: the texts that rows refer to by index. Names of calls have no version (``_v3020``).
    - ``threads``, ``streams``, ``cards``: those that rows refer to by index.
    - ``calls``: the host's calls; ``work``: the copies, kernels and memsets of the cards; ``annotations``: named spans.
    - ``unread``: parts of the recording that are left out or not understood.
    - ``untraced``: for each run of the same program without a profiler, its named spans, in nanoseconds since the first
      one. Their threads are unknown.
    - ``alone_ns``: for a part of a recording, the time of each row of ``work`` with the card to itself, as the whole
      shows it (:func:`~streamsim.recorded.times.uncontended_ns`). None for a whole recording.
    - ``pages``: moves of unified memory's pages, and page faults. They have no calls.

    Only a :class:`~streamsim.recorded.builder.RecordingBuilder` makes one from a file: it checks all rows.
    """

    format: Format
    tool: str
    names: tuple[str, ...]
    threads: tuple[RecordedThread, ...]
    streams: tuple[RecordedStream, ...]
    cards: tuple[RecordedCard, ...]
    calls: HostCalls
    work: CardWork
    annotations: Annotations
    unread: tuple[Unread, ...] = ()
    untraced: tuple[Annotations, ...] = ()
    alone_ns: NDArray[np.int64] | None = None
    pages: PageEvents = NO_PAGES

    def __repr__(self) -> str:
        cards = counted(len(self.cards), "card")
        counts = f"{counted(len(self.calls), 'call')}, {counted(len(self.work), 'op')} on {cards}"
        return short(f"Recording({self.format}: {counts}, {format_seconds((self.end_ns - self.start_ns) / 1e9)})")

    @property
    def start_ns(self) -> int:
        """The start of the first call or work, nanoseconds; 0 if there is none."""
        return min((int(table.start_ns[0]) for table in (self.calls, self.work) if len(table)), default=0)

    @property
    def end_ns(self) -> int:
        """The end of the last call or work, nanoseconds; 0 if there is none."""
        return max((int(table.end_ns.max()) for table in (self.calls, self.work) if len(table)), default=0)

    @property
    def blocks_each(self) -> NDArray[np.float64]:
        """The blocks of each kernel over its card's multiprocessors; 0 for other work, and if they are unknown."""
        held = np.array([min(max(card.multiprocessors, 0), LARGEST_COUNT) for card in self.cards], np.float64)
        count = held[self.work.card]
        blocks = np.where(self.work.kind == WorkKind.KERNEL, self.work.grid.prod(axis=1, dtype=np.float64), 0.0)
        return np.divide(blocks, count, out=np.zeros(len(count)), where=count > 0)


# Calls by their names, as profilers write them: ``cudaMemcpyAsync_v3020``

_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+\Z")
_PREFIX = re.compile(r"\A(?:cuda|hip|cu)(?=[A-Z])")
_KINDS = (
    (re.compile(r"Memcpy.*Async|MemcpyBatchAsync"), CallKind.COPY_ASYNC),
    (re.compile(r"Memcpy"), CallKind.COPY),
    (re.compile(r"Memset"), CallKind.MEMSET),
    (re.compile(r"MemPrefetch"), CallKind.PREFETCH),
    (re.compile(r"GraphLaunch"), CallKind.GRAPH_LAUNCH),
    (re.compile(r"(?:ExtModule|Ext|Module)?Launch(?:Cooperative)?(?:Kernel|Grid|\Z)"), CallKind.LAUNCH),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"StreamWaitEvent"), CallKind.WAIT),
    (re.compile(r"StreamSynchronize"), CallKind.SYNCHRONIZE_STREAM),
    (re.compile(r"EventSynchronize"), CallKind.SYNCHRONIZE_EVENT),
    (re.compile(r"(?:Device|Ctx|Context|Thread)Synchronize"), CallKind.SYNCHRONIZE_DEVICE),
    (re.compile(r"(?:Free|MemFree|HostUnregister|HostFree|MemHostUnregister)(?!.*Async)"), CallKind.FREE),
)  # fmt: skip

# Calls that read a variable of their thread in 20 ns. Array libraries make several for each call that issues work.
QUERIES = frozenset(
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("GetDevice", "GetLastError", "PeekAtLastError")
) | {"cuCtxGetCurrent", "cuCtxGetDevice"}

# Other calls of tens of nanoseconds that launch nothing and wait for nothing. PyTorch's profiler writes them.
LOOKUPS = frozenset(
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("StreamIsCapturing", "DeviceGetAttribute")
)


def plain(name: str) -> str:
    """Return a call's name without the version that a profiler adds: ``cudaMalloc_v3020`` gives ``cudaMalloc``."""
    return _SUFFIX.sub("", name)


def kind_of_call(name: str) -> CallKind:
    """Return the kind of a runtime or driver call, named without a version; OTHER for a call of no other kind."""
    rest, found = _PREFIX.subn("", name)
    if not found:
        return CallKind.OTHER
    return next((kind for form, kind in _KINDS if form.match(rest)), CallKind.OTHER)


def places(names: Iterable[str], wanted: frozenset[str]) -> list[int]:
    """Return the indices of those of the ``names`` that are ``wanted``."""
    return [k for k, name in enumerate(names) if name in wanted]
