"""Which of the ready heads of its queues an engine takes: the one of the least rank, of equals the one issued first."""

ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST = 0, 1, 2
RULES = {"issue-order": ISSUE_ORDER, "ready-order": READY_ORDER, "same-queue-first": SAME_QUEUE_FIRST}
MOST_QUEUES = 64  # a power of two above any number of queues
NO_TURN = MOST_QUEUES - 1  # before an engine has served any queue


def rank(rule: int, queue: int, ready: int, op: int, turn: int) -> int:
    """The rank of the head ``op`` of ``queue``, which is ready since the tick ``ready``.

    In issue order that is its place in the program; in ready order, when it became ready. Same queue first is
    exhaustive polling: an engine stays with the queue ``turn`` that it served last while its head is ready, then turns
    to the next one, round and round.
    """
    if rule == ISSUE_ORDER:
        return op
    if rule == READY_ORDER:
        return ready
    return (queue - turn) & (MOST_QUEUES - 1)
