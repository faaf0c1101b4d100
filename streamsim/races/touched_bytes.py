"""Which bytes an op touches, and who touched the bytes of a buffer last."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from streamsim.program import Buffer, Copy, Kernel, Op, Region

NEVER = -1  # in place of an op


def touched(op: Op, ignored: frozenset[str] = frozenset()) -> Iterator[tuple[Region, bool]]:
    """Yield the ranges that an op touches, except those of ``ignored`` host buffers, and whether it writes them."""
    if isinstance(op, Copy):
        to_card = op.direction == "h2d"
        if op.device is not None:
            yield op.device, to_card
        if op.host is not None and op.host.buffer not in ignored:
            yield op.host, not to_card
    elif isinstance(op, Kernel):
        for region in op.reads:
            yield region, False
        for region in op.writes:
            yield region, True


class _Stretch:
    """Bytes with one history, up to ``end``: the op that wrote them last, and the last of each stream to read since."""

    __slots__ = ("end", "readers", "writer")

    def __init__(self, end: int, writer: int = NEVER, readers: dict[int, int] | None = None) -> None:
        self.end = end
        self.writer = writer
        self.readers: dict[int, int] = readers or {}


class History:
    """Who touched the bytes of a buffer last: stretches, by where they start, that never overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []  # sorted
        self._at: dict[int, _Stretch] = {}
        self._reach = 0  # the end of the last stretch

    def read(self, op: int, stream: int, start: int, end: int) -> list[int]:
        """Return the ops that must have ended before ``op`` reads these bytes."""
        found = []
        for stretch in self._stretches(start, end):
            if stretch.writer != NEVER:
                found.append(stretch.writer)
            stretch.readers[stream] = op
        return found

    def write(self, op: int, start: int, end: int) -> list[int]:
        """Return the ops that must have ended before ``op`` overwrites these bytes."""
        found = []
        stretches = self._stretches(start, end)
        for stretch in stretches:
            if stretch.writer != NEVER:
                found.append(stretch.writer)
            found += stretch.readers.values()
            stretch.writer, stretch.readers = op, {}
        if len(stretches) > 1:
            self._merge(start, end, len(stretches))
        return found

    def _merge(self, start: int, end: int, count: int) -> None:
        """Make one of the ``count`` stretches that have one history now."""
        first = bisect_left(self._starts, start)
        for merged in self._starts[first + 1 : first + count]:
            del self._at[merged]
        del self._starts[first + 1 : first + count]
        self._at[start].end = end

    def _stretches(self, start: int, end: int) -> list[_Stretch]:
        """The stretches that make up these bytes, cut and added where need be."""
        same = self._at.get(start)
        if same is not None and same.end == end:  # nearly always
            return [same]
        if start >= self._reach:  # beyond all so far
            self._starts.append(start)
            self._at[start] = _Stretch(end)
            self._reach = end
            return [self._at[start]]
        self._reach = max(self._reach, end)
        self._cut(start)
        self._cut(end)
        found = []
        while start < end:
            if start not in self._at:
                place = bisect_left(self._starts, start)
                following = self._starts[place] if place < len(self._starts) else end
                self._starts.insert(place, start)
                self._at[start] = _Stretch(min(end, following))
            found.append(self._at[start])
            start = found[-1].end
        return found

    def _cut(self, at: int) -> None:
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return
        start = self._starts[place]
        stretch = self._at[start]
        if start < at < stretch.end:
            self._starts.insert(place + 1, at)
            self._at[at] = _Stretch(stretch.end, stretch.writer, dict(stretch.readers))
            stretch.end = at


def earlier_ops(ops: Iterable[Op], buffers: Iterable[Buffer]) -> Iterator[list[tuple[Region, bool, list[int]]]]:
    """Yield for each op its ranges, whether it writes them, and the earlier ops with which it shares bytes there.

    One of the two ops writes the bytes. An op that reads a range and writes it is among its own earlier ops.
    """
    histories = {buffer.name: History() for buffer in buffers}
    for i, op in enumerate(ops):
        found = []
        for region, writes in touched(op):
            history, start, end = histories[region.buffer], region.offset, region.offset + region.bytes
            earlier = history.write(i, start, end) if writes else history.read(i, i, start, end)  # of all streams
            found.append((region, writes, earlier))
        yield found
