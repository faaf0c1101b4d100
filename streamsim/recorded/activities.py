"""CUPTI's activity records in columns, which captures and exports of Nsight Systems hold, as rows of a recording."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsim.recorded.builder import Columns, RecordingBuilder, mapped
from streamsim.recorded.recording import (
    NONE,
    AnnotationKind,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    RecordedStreamKind,
    WorkKind,
)

NO_ID = 0xFFFFFFFF
COPY_KINDS = {1: CopyDirection.H2D, 2: CopyDirection.D2H, 3: CopyDirection.H2D, 4: CopyDirection.D2H}
COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), CopyDirection.D2D) | {10: CopyDirection.PEER}
MEMORIES = {1: CopyMemory.PAGEABLE, 2: CopyMemory.PINNED}  # CUPTI_ACTIVITY_MEMORY_KIND_...
MANAGED = 5  # CUPTI_ACTIVITY_MEMORY_KIND_MANAGED
STREAM_KINDS: dict[int, RecordedStreamKind] = {1: "blocking", 2: "non-blocking", 3: "legacy"}
BY_PROFILER = 1  # who named a range; 0: the program
# The order in which tables are read: waits come after the events that they wait for.
ORDER = ("calls", "copies", "kernels", "memsets", "graphs", "ranges", "events", "synchronizations")


def is_id(number: int) -> bool:
    """Return False for CUPTI's "none": 32 ones, or 64 ones, which a signed number holds as -1."""
    return number >= 0 and number != NO_ID


class Activities:
    """A translator of activity records, which adds them to a ``builder``.

    Columns have the builder's names. In place of indices, ``name``, ``thread``, ``device``, ``context`` and
    ``stream_id`` have the file's numbers, and ``pid`` the system's number of the process. ``process`` is the owner of
    the correlations.

    - ``name_of``, ``thread_of``: the text of a name's number; the process and the thread of a thread's number.
    - ``directions``, ``memories``: what the numbers of copies mean; ``managed``: that of unified memory.
    """

    def __init__(
        self,
        builder: RecordingBuilder,
        name_of: Callable[[int], str],
        thread_of: Callable[[int], tuple[int, int]],
        directions: Mapping[int, CopyDirection] = COPY_KINDS,
        memories: Mapping[int, CopyMemory] = MEMORIES,
        managed: int = NO_ID,
    ) -> None:
        self._builder, self._name_of, self._thread_of = builder, name_of, thread_of
        self._directions, self._memories, self._managed = directions, memories, managed
        self._records: dict[tuple[int, int], tuple[int, int]] = {}  # by process and sync: the call and the stream
        self._takers: dict[str, Callable[[Columns], None]] = {
            "calls": builder.calls.add,
            "copies": self._copies,
            "kernels": self._kernels,
            "memsets": lambda block: self._work(block, WorkKind.MEMSET, "memset"),
            "graphs": lambda block: self._work(block, WorkKind.GRAPH, "graph"),
            "ranges": self._ranges,
            "events": self._events,
            "synchronizations": self._waits,
        }

    def add(self, table: str, block: Columns) -> None:
        """Add rows of a table of ``ORDER``. Raises InputError for too many rows or names."""
        if "name" in block:
            block["name"] = mapped(block["name"], lambda number: self._builder.name(self._name_of(number)))
        if "thread" in block:
            block["thread"] = mapped(block["thread"], lambda number: self._builder.thread(*self._thread_of(number)))
        self._takers[table](block)
        self._builder.check_size()

    def _work(self, block: Columns, kind: WorkKind, name: str = "") -> None:
        card, stream = mapped(block["device"], self._builder.card), self._streams(block, block["device"])
        in_graph = (block["graph"] > 0) & (block["graph"] != NO_ID)
        graph, node = (np.where(in_graph, block[number], NONE) for number in ("graph", "node"))
        columns: dict[str, Any] = {"kind": kind, "card": card, "stream": stream, "graph": graph, "node": node}
        columns |= {"name": self._builder.name(name)} if name else {}
        self._builder.work.add(block | columns)

    def _copies(self, block: Columns) -> None:
        """Add copies. A copy has memory on the host's side if it is to or from the card."""
        direction = mapped(block["copy_kind"], lambda kind: self._directions.get(kind, CopyDirection.OTHER))
        source, target = block["src_device"], block["dst_device"]
        between = (source != target) & (source >= 0) & (target >= 0) & (direction == CopyDirection.D2D)
        direction[between] = CopyDirection.PEER
        direction[(block["src_kind"] == self._managed) | (block["dst_kind"] == self._managed)] = CopyDirection.UNIFIED
        of_host = np.where(direction == CopyDirection.H2D, block["src_kind"], block["dst_kind"])
        memory = mapped(of_host, lambda kind: self._memories.get(kind, CopyMemory.UNKNOWN))
        memory[(direction != CopyDirection.H2D) & (direction != CopyDirection.D2H)] = CopyMemory.NONE
        self._work(block | {"direction": direction, "memory": memory}, WorkKind.COPY, "copy")

    def _kernels(self, block: Columns) -> None:
        for name in ("grid", "block"):
            block[name] = np.stack([block[f"{name}_{axis}"] for axis in "xyz"], axis=1)
        block["shared_bytes"] = block["static_shared"].clip(0, 1 << 30) + block["dynamic_shared"].clip(0, 1 << 30)
        self._work(block, WorkKind.KERNEL)

    def _ranges(self, block: Columns) -> None:
        kind = np.where(block["by"] == BY_PROFILER, AnnotationKind.OVERHEAD, AnnotationKind.RANGE)
        self._builder.annotations.add(block | {"kind": kind})

    def _events(self, block: Columns) -> None:
        """Add records of events, for the waits that come later."""
        streams = self._streams(block)
        self._marks(block, {"stream": streams})
        values = zip(block["correlation"].tolist(), streams.tolist(), strict=True)
        self._records |= {key: value for key, value in zip(_syncs(block), values, strict=True) if key[1] >= 0}

    def _waits(self, block: Columns) -> None:
        """Add what waits and synchronisations wait for."""
        recorded = np.array([self._records.get(key, (NONE, NONE)) for key in _syncs(block)], np.int64).reshape(-1, 2)
        columns = {"recorded": recorded[:, 0], "recorded_in": recorded[:, 1]}
        self._marks(block, columns | {"stream": self._streams(block)})

    def _marks(self, block: Columns, columns: Columns) -> None:
        event = np.where(block["event"] == NO_ID, NONE, block["event"])
        self._builder.marks.add(block | columns | {"event": event})

    def _streams(self, block: Columns, device: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the indices of streams, -1 for none; ``device``: their cards, if known."""
        cards = np.full(len(block["stream_id"]), NONE) if device is None else device
        keys = np.stack([block["pid"], block["context"], block["stream_id"], cards], axis=1)
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        found = [self._builder.stream(*key) if is_id(key[2]) else NONE for key in unique.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]


def _syncs(block: Columns) -> Iterable[tuple[int, int]]:
    return zip(block["process"].tolist(), block["sync"].tolist(), strict=True)


def card_of(number: int, name: object, counts: Iterable[object]) -> RecordedCard:
    """Return a card from values of a file: its memory, multiprocessors and copy engines count if they are numbers."""
    known = (max(count, 0) if isinstance(count, int) else 0 for count in counts)
    return RecordedCard(number, name[:100] if isinstance(name, str) else "", *known)
