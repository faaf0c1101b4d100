"""Recorded times of a schedule's ops: when a profiler saw them issued and run."""

from itertools import pairwise

import msgspec

from streamsim.errors import InputError

UNKNOWN = -1
COLUMNS = ("issued_ns", "returned_ns", "start_ns", "end_ns")
FIRST_TOUCH = "first touch of host memory"  # the name of host work: page faults in a copy of pageable memory
LATEST_NS = 1 << 52  # 52 days, and exact as a float


class RecordedLane(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
            raise InputError(f"start_ns, end_ns: expected spans one after the other, from 0 to {LATEST_NS} ns")


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
    lanes: tuple[RecordedLane, ...] = ()

    def __post_init__(self) -> None:
        for name in COLUMNS:
            column = getattr(self, name)
            if len(column) != len(self):
                raise InputError(f"{name}: has {len(column)} entries, and issued_ns {len(self)}; give one an op")
            if column and not (min(column) >= UNKNOWN and max(column) <= LATEST_NS):
                raise InputError(f"{name}: expected times from 0 to {LATEST_NS} ns, and -1 for none")
        for first, last in (("issued_ns", "returned_ns"), ("start_ns", "end_ns")):
            pairs = zip(getattr(self, first), getattr(self, last), strict=True)
            late = next((i for i, (begin, end) in enumerate(pairs) if begin > end), None)
            if late is not None:
                raise InputError(f"{last}[{late}]: is before {first}[{late}]; give a later time")

    def __len__(self) -> int:
        return len(self.issued_ns)

    def __repr__(self) -> str:
        return f"RecordedTimes({len(self)} ops)"
