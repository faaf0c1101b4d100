"""Which hardware queue of its engine an op comes through: streams own queues, and take them from each other.

Up to as many streams as an engine has queues, each has one of its own. With more of them a stream keeps its queue
until another one takes it, and takes the queue that has been used least recently when it has none. Streams that
issue in turn so come to the next queue op by op. All of it is known before anything runs: ops come to an engine's
queues in the order in which the host issues them.

In a graph kernels that follow each other in a stream are a run, which comes through the queue of its first: with that
one the card has all of them. The others stand in no queue, and take none from anybody.

A card also prefers a queue that is idle at the moment of issue. Which one that is differs from run to run, and is
not modelled.
"""

from collections.abc import Sequence

NOBODY = 0  # owns a queue that has not been used; streams count from 1
IN_RUNS = (False, False, True, False)  # by kind of op: kernels


def runs_on(is_graph: bool, kind: int, kind_before: int) -> bool:
    """Whether an op stands in no queue, by the kind of what is right before it in its stream: an event ends a run."""
    return is_graph and IN_RUNS[kind] and IN_RUNS[kind_before]


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
