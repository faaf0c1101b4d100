"""Which hardware queue of its engine an op comes through: streams own queues, and take them from each other.

Up to as many streams as an engine has queues, each has one of its own. With more of them a stream keeps its queue
until another one takes it, and takes the queue that has been used least recently when it has none. Streams that
issue in turn so come to the next queue op by op. All of it is known before anything runs: ops come to an engine's
queues in the order in which the host issues them.

A card also prefers a queue that is idle at the moment of issue. Which one that is differs from run to run, and is
not modelled.
"""

from collections.abc import Sequence

NOBODY = 0  # owns a queue that has not been used; streams count from 1


def queue_of(stream: int, owned: int, owners: Sequence[int], used: Sequence[int], first: int, queues: int) -> int:
    """The queue through which the next op of ``stream`` comes, of so many that stand in the tables from ``first`` on.

    ``owned``: the queue that the stream took last (any, if it has none). ``owners``: whose each queue is. ``used``: the
    last op of each queue; below 0: none yet.
    """
    if owners[first + owned] == stream:
        return owned
    home = (stream - 1) % queues
    if owners[first + home] == NOBODY:
        return home
    least = 0
    for queue in range(1, queues):
        if used[first + queue] < used[first + least]:
            least = queue
    return least
