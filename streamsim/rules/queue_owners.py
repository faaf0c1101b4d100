"""Which hardware queue of its engine an op comes through: streams own queues, and take them from each other.

Up to as many streams as an engine has queues, each has one of its own. With more of them a stream keeps its queue
until another one takes it, and takes the queue that has been used least recently when it has none. Streams that
issue in turn so come to the next queue op by op. All of it is known when a schedule is compiled: ops come to an
engine's queues in the order in which the host issues them.

A card also prefers a queue that is idle at the moment of issue. Which one that is differs from run to run, and is
not modelled.
"""

from collections import OrderedDict

NOBODY = 0  # the legacy stream, which has this number, uses the queue of stream 1


class QueueOwners:
    """Who owns which of the ``queues`` in front of an engine, as ops are issued to it."""

    def __init__(self, queues: int) -> None:
        self._queues = queues
        self._owner = OrderedDict.fromkeys(range(queues), NOBODY)  # the queue used least recently first
        self._owned: dict[int, int] = {}  # stream -> its queue

    def queue_of(self, stream: int) -> int:
        """The queue of the next op issued, which is in ``stream``."""
        stream = stream or 1
        queue = self._owned.get(stream)
        if queue is None:
            queue = self._take(stream)
        self._owner.move_to_end(queue)
        return queue

    def _take(self, stream: int) -> int:
        """Make ``stream`` own its home, if nobody does, or else the queue that was used least recently."""
        home = (stream - 1) % self._queues
        queue = next(iter(self._owner)) if self._owner[home] else home
        self._owned.pop(self._owner[queue], None)
        self._owner[queue] = stream
        self._owned[stream] = queue
        return queue
