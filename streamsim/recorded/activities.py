"""CUPTI's activity records in columns, which captures and exports of Nsight Systems hold, as rows of a builder."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from streamsim.recorded.builder import NO_ID, Columns, RecordingBuilder, mapped
from streamsim.recorded.recording import (
    CopyDirection,
    CopyMemory,
    RecordedCard,
    RecordedStreamKind,
    WorkKind,
)

COPY_KINDS = {1: CopyDirection.H2D, 2: CopyDirection.D2H, 3: CopyDirection.H2D, 4: CopyDirection.D2H}
COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), CopyDirection.D2D) | {10: CopyDirection.PEER}
MEMORIES = {1: CopyMemory.PAGEABLE, 2: CopyMemory.PINNED}  # CUPTI_ACTIVITY_MEMORY_KIND_...
MANAGED = 5  # CUPTI_ACTIVITY_MEMORY_KIND_MANAGED
STREAM_KINDS: dict[int, RecordedStreamKind] = {1: "blocking", 2: "non-blocking", 3: "legacy"}
BY_PROFILER = 1  # who named a range; 0: the program
# The table of the builder, the kind and the name, if the records have none.
WORK = {"copies": (WorkKind.COPY, "copy"), "kernels": (WorkKind.KERNEL, "")}
WORK |= {"memsets": (WorkKind.MEMSET, "memset"), "graphs": (WorkKind.GRAPH, "graph")}
OTHERS = {"calls": "calls", "ranges": "annotations", "events": "records", "synchronizations": "waits"}
ACTIVITIES = (*WORK, *OTHERS)


class Activities:
    """A translator of activity records, which adds them to a ``builder``. Columns have the builder's names.

    - ``name_of``: the text of a name's number.
    - ``directions``, ``memories``: what the numbers of copies mean; ``managed``: that of unified memory.
    """

    def __init__(
        self,
        builder: RecordingBuilder,
        name_of: Callable[[int], str],
        directions: Mapping[int, CopyDirection] = COPY_KINDS,
        memories: Mapping[int, CopyMemory] = MEMORIES,
        managed: int = NO_ID,
    ) -> None:
        self._builder, self._name_of = builder, name_of
        self._directions, self._memories, self._managed = directions, memories, managed

    def add(self, activity: str, block: Columns) -> None:
        """Add records of one of the ``ACTIVITIES``. Raises InputError for too many rows or names."""
        if "name" in block:
            block["name"] = mapped(block["name"], lambda number: self._builder.name(self._name_of(number)))
        if activity in WORK:
            self._builder.add("work", block | self._work(activity, block))
            return
        if activity == "ranges":
            block = {name: column[block["by"] != BY_PROFILER] for name, column in block.items()}
        self._builder.add(OTHERS[activity], block)

    def _work(self, activity: str, block: Columns) -> dict[str, Any]:
        """Return the columns that records of work lack."""
        kind, name = WORK[activity]
        found: dict[str, Any] = {"kind": kind}
        if name:
            found["name"] = self._builder.name(name)
        if activity == "copies":
            found |= self._copied(block)
        if activity == "kernels":
            found |= {side: np.stack([block[f"{side}_{axis}"] for axis in "xyz"], axis=1) for side in ("grid", "block")}
        return found

    def _copied(self, block: Columns) -> Columns:
        """Return the directions of copies, and the memory on the host's side of those to or from a card."""
        direction = mapped(block["copy_kind"], lambda kind: self._directions.get(kind, CopyDirection.OTHER))
        source, target = block["src_device"], block["dst_device"]
        between = (source != target) & (source >= 0) & (target >= 0) & (direction == CopyDirection.D2D)
        direction[between] = CopyDirection.PEER
        direction[(block["src_kind"] == self._managed) | (block["dst_kind"] == self._managed)] = CopyDirection.UNIFIED
        of_host = np.where(direction == CopyDirection.H2D, block["src_kind"], block["dst_kind"])
        memory = mapped(of_host, lambda kind: self._memories.get(kind, CopyMemory.UNKNOWN))
        memory[(direction != CopyDirection.H2D) & (direction != CopyDirection.D2H)] = CopyMemory.NONE
        return {"direction": direction, "memory": memory}


def card_of(number: int, name: object, counts: Iterable[object]) -> RecordedCard:
    """Return a card from values of a file: its memory, multiprocessors and copy engines count if they are numbers."""
    known = (max(count, 0) if isinstance(count, int) else 0 for count in counts)
    return RecordedCard(number, name[:100] if isinstance(name, str) else "", *known)
