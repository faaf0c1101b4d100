"""Hardware queues: which queue of its engine an op comes through, and which ready head the engine takes.

Streams own queues and take them from each other. While there are no more streams than queues, each stream has a queue
of its own. With more streams, a stream keeps its queue until another stream takes it. A stream without a queue takes
the one that was used least recently. The host's issue order decides all of this before anything runs.

In a graph, kernels that follow each other in a stream form a run. The run comes through the queue of its first kernel,
and the card then has all of them: the others stand in no queue and take none from other streams.

A real card also prefers a queue that is idle at the moment of issue. Which one that is differs from run to run, and the
model leaves it out.

An engine takes the ready head of the lowest rank. Of equal ranks it takes the one that was issued first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamsim.device import Compute, CopyEngines
from streamsim.rules.link import NEVER

NOBODY = 0  # owns a queue that has not been used; streams count from 1
IN_RUNS = (False, False, True, False)  # by kind of op: kernels


def runs_on(is_graph: bool, kind: int, kind_before: int) -> bool:
    """Tell whether an op continues a run, and so stands in no queue.

    ``kind_before``: the kind of what is directly before the op in its stream. An event there ends a run.
    """
    return is_graph and IN_RUNS[kind] and IN_RUNS[kind_before]


def queue_of(stream: int, owned: int, owners: Sequence[int], used: Sequence[int], first: int, queues: int) -> int:
    """Return the queue through which the next op of ``stream`` comes.

    ``owned``: the queue that the stream took last (any number if it has none). ``owners``: the stream that owns each
    queue. ``used``: the last op of each queue, below 0 for none. Both tables hold the engine's ``queues`` from the
    index ``first`` on.
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


ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST = 0, 1, 2
RULES = {"issue-order": ISSUE_ORDER, "ready-order": READY_ORDER, "same-queue-first": SAME_QUEUE_FIRST}
MOST_QUEUES = 64  # a power of two above any number of queues
NO_TURN = MOST_QUEUES - 1  # before an engine has served any queue
NO_HEAD = -1


@dataclass(slots=True)
class Arbiter:
    """What an engine remembers for its choices, as whole numbers. The compiled model keeps them in a record."""

    rule: int
    turn: int = NO_TURN  # the queue that was served last
    next: int = NEVER  # before this tick no head may start


@dataclass(slots=True)
class Head:
    """The op that is next in a queue, and may start from the tick ``ready`` on.

    An op that stands in no queue is a head, too. Its ``queue`` is the one through which its run came.
    """

    queue: int
    op: int
    ready: int


def new_arbiter(engine: Compute | CopyEngines) -> Arbiter:
    """Return the arbiter of an engine that has served no queue yet."""
    return Arbiter(RULES[engine.arbitration])


def choose(arbiter: Arbiter, heads: Sequence[Head], first: int, last: int, now: int) -> int:
    """Return the index of the head that starts now, among ``heads[first:last]`` in any order, and remember its queue.

    If none may start, return NO_HEAD, and set ``arbiter.next`` to the tick at which to look again.
    """
    found, least, earliest, soon = NO_HEAD, NEVER, NEVER, NEVER
    for k in range(first, last):
        head = heads[k]
        if head.ready <= now:
            its = rank(arbiter.rule, head.queue, head.ready, head.op, arbiter.turn)
            if its < least or (its == least and head.op < earliest):
                found, least, earliest = k, its, head.op
        else:
            soon = min(soon, head.ready)
    if found == NO_HEAD:
        arbiter.next = soon
    else:
        arbiter.turn = heads[found].queue
    return found


def rank(rule: int, queue: int, ready: int, op: int, turn: int) -> int:
    """Return the rank of the head ``op`` of ``queue``, which has been ready since the tick ``ready``.

    In issue order, the rank is the op's place in the program. In ready order, it is the tick at which the op became
    ready. With same queue first, an engine stays with the queue ``turn`` that it served last while that queue's head is
    ready, and then goes to the next queue, round and round (exhaustive polling).
    """
    if rule == ISSUE_ORDER:
        return op
    if rule == READY_ORDER:
        return ready
    return (queue - turn) & (MOST_QUEUES - 1)
