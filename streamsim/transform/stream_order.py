"""The order that streams and events give the ops of a schedule, and what the host waits for."""

from streamsim.program import Copy, Kernel, RecordEvent, Schedule, Synchronize, WaitEvent


class StreamOrder:
    """The order of a schedule's ops. ``i`` is the index of an op.

    - ``before[i]``: the ops directly before op ``i`` in its stream or through events.
    - ``awaited[i]``: the ops that synchronisation ``i`` waits for; none for the whole device.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._ops = schedule.ops
        self.before: list[frozenset[int]] = []
        self.awaited: dict[int, tuple[int, ...]] = {}
        front, recorded = dict[int, frozenset[int]](), dict[int, frozenset[int]]()
        nothing: frozenset[int] = frozenset()
        for i, op in enumerate(schedule.ops):
            before = nothing
            if isinstance(op, Synchronize):
                of_stream = nothing if op.stream is None else front.get(op.stream, nothing)
                self.awaited[i] = tuple(sorted(of_stream if op.event is None else recorded.get(op.event, nothing)))
            elif isinstance(op, RecordEvent):
                recorded[op.event] = front.get(op.stream, nothing)
            elif isinstance(op, WaitEvent):
                front[op.stream] = front.get(op.stream, nothing) | recorded.get(op.event, nothing)
            elif isinstance(op, Copy | Kernel):
                before, front[op.stream] = front.get(op.stream, nothing), frozenset((i,))
            self.before.append(before)

    def awaits(self, i: int) -> set[int]:
        """Return the ops of other streams that events put before op ``i``."""
        ops = self._ops
        return {k for k in self.before[i] if ops[k].stream != ops[i].stream}
