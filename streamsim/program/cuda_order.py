"""CUDA's order between ops: streams, events and the legacy default stream.

A set of ops to wait for holds only the latest op of each stream, because that implies the earlier ones.
"""

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter

from streamsim.errors import InputError
from streamsim.program.schedule import LEGACY_STREAM, Schedule, Synchronize


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
