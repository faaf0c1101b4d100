"""The rules of the card and its host. Each rule stands here once, as a function of whole numbers.

A rule knows neither schedules nor device profiles. Its arguments hold all that it needs to remember. The rules say
which op an engine takes next, how copies and kernels share the card, and how much longer a call or a hand-over takes
because of what came before it. :mod:`streamsim.lowering` makes the whole numbers: which op waits for which, and what
each op takes alone.

Both models use these functions. The SimPy model calls them as they are, and numba inlines their code into the compiled
model. So the rules use only what numba knows: arithmetic, comparisons, loops and tables read by an index.
"""

import math
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# The model's clock counts whole nanoseconds (ticks), so that equal times are exactly equal.

TICKS_PER_S = 10**9
TICKS_PER_US = 10**3
S_PER_TICK = 1e-9


def ticks(seconds: float) -> int:
    """Return the whole nanoseconds nearest to ``seconds``; a half is rounded up."""
    return math.floor(seconds * TICKS_PER_S + 0.5)


# The kinds of ops, and the time from the end of an op until an op that waits for it may start.

H2D, D2H, KERNEL, NOTHING = 0, 1, 2, 3  # kinds of ops; NOTHING goes to no engine
KINDS = 4

PAIR, MANY = 2, 6  # a program's streams delay hand-overs from the third on; more than six delay them no further


def crossing(hand_overs: Sequence[int], before: int, after: int, crosses: int) -> int:
    """Return the ticks from an op of the kind ``before`` to one of the kind ``after``.

    ``hand_overs``: ticks for each pair of kinds, row by row, within a stream, and then from stream to stream.
    ``crosses``: 1 from stream to stream, else 0.
    """
    return hand_overs[(crosses * KINDS + before) * KINDS + after]


def release_tick(ended: int, hand_over: int, arrival: int) -> int:
    """Return the tick at which the end of an op, at ``ended``, releases an op that waits for it.

    An op that has waited on the card is released ``hand_over`` ticks after the end. An op whose ``arrival`` on the card
    is later is released at the end itself.
    """
    return ended + hand_over if arrival < ended else ended


def delaying_streams(streams: int) -> int:
    """Return the number of streams that delay a hand-over, in a program that issues op by op over ``streams``."""
    return min(max(streams, PAIR), MANY) - PAIR


# The link between host and card: its two directions slow each other down while both move bytes.
#
# A copy's bytes begin to flow when its latency has passed. Then a number of units flows in each tick, and a smaller
# number while the other direction flows too. Only the overlapping part is slower, and no byte is lost.
#
# The latency grows with the card's level of crowding: kernels that wait for copies in several hardware queues delay
# them.

NEVER = 1 << 62  # the tick of what does not happen, such as the begin of a flow without a copy
CROWD = 4  # hardware queues with waiting kernels; more of them crowd a card no further


def level(waiting: int, queues: int) -> int:
    """Return the level of crowding: from 0 (kernels wait in one queue at most) to ``CROWD - 1``.

    ``waiting``: kernels that wait for copies. ``queues``: hardware queues in which such kernels stand.
    """
    return max(0, min(waiting, queues, CROWD) - 1)


def ticks_for(units: int, rate: int) -> int:
    """Return the whole ticks in which ``units`` flow at ``rate`` units a tick."""
    return -(-units // rate)


def next_end(
    since: int,
    begins_a: int,
    left_a: int,
    alone_a: int,
    shared_a: int,
    begins_b: int,
    left_b: int,
    alone_b: int,
    shared_b: int,
) -> tuple[int, int, int]:
    """Return the tick at which the first of two flows ends (or NEVER), and the units that both have left then.

    No other flow starts or ends before. ``left``: units left at the tick ``since``, at which a flow ended last.
    ``begins``: the tick from which a flow moves units. ``alone``, ``shared``: units a tick, alone and beside the other.
    """
    swapped = begins_a > begins_b
    if swapped:
        begins_a, begins_b = begins_b, begins_a
        left_a, left_b = left_b, left_a
        alone_a = alone_b
        shared_a, shared_b = shared_b, shared_a
    end = NEVER
    if begins_a < NEVER:
        since = max(since, begins_a)
        if begins_b > since and (begins_b == NEVER or left_a <= (begins_b - since) * alone_a):
            end = since + ticks_for(left_a, alone_a)
            left_a = 0
        else:
            both = max(since, begins_b)
            left_a -= (both - since) * alone_a
            ticks = min(ticks_for(left_a, shared_a), ticks_for(left_b, shared_b))
            end = both + ticks
            left_a -= ticks * shared_a
            left_b -= ticks * shared_b
    if swapped:
        left_a, left_b = left_b, left_a
    return end, left_a, left_b


# Hardware queues: which queue of its engine an op comes through, and which ready head the engine takes.
#
# Streams own queues and take them from each other. While there are no more streams than queues, each stream has a queue
# of its own. With more streams, a stream keeps its queue until another stream takes it. A stream without a queue takes
# the one that was used least recently. The host's issue order decides all of this before anything runs.
#
# In a graph, kernels that follow each other in a stream form a run. The run comes through the queue of its first
# kernel, and the card then has all of them: the others stand in no queue and take none from other streams.
#
# A real card also prefers a queue that is idle at the moment of issue. Which one that is differs from run to run, and
# the model leaves it out.
#
# An engine takes the ready head of the lowest rank. Of equal ranks it takes the one that was issued first.

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


def new_arbiter(rule: str) -> Arbiter:
    """Return the arbiter of an engine that has served no queue yet. ``rule``: the name of its arbitration."""
    return Arbiter(RULES[rule])


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


# Kernels side by side: how much of the card each gets.
#
# Most kernels need all threads of the card to keep it busy. Among them, the one that started first takes what it can
# use, and a later one gets what is left ("leftover policy"). A kernel whose work is done gives its share to others,
# and ends a drain later.
#
# Kernels such as matrix products keep the card busy with a few warps on each multiprocessor. Blocks of several such
# kernels are there at once, and the schedulers issue from any warp that is ready, whichever kernel came first. So each
# kernel gets its share of the threads in use. What one cannot use goes to the others.

FULL_CARD = 1 << 20
PACES = 8  # steps from no thread to all threads, at which the card's pace is known
PACE = FULL_CARD // PACES  # threads in a step


def idle_with(idle: Sequence[int], held: int) -> int:
    """Return how much of the card is idle with ``held`` threads in use.

    ``idle``: how much is idle with 0 to ``PACES`` steps of the card's threads. Values between them lie on a line.
    """
    step, rest = held // PACE, held % PACE
    more, less = idle[step], idle[step + 1]
    return more - (more - less) * rest // PACE


def fitting(threads: int, held: int) -> int:
    """Return how many of a kernel's ``threads`` have room beside ``held`` others: one at least."""
    return max(1, min(threads, FULL_CARD - held))


def suffices(fill: int, threads: int, room: int, held: int) -> bool:
    """Tell whether a kernel with ``threads`` of the ``held`` threads that share ``room`` gets all that it can use."""
    return fill * held <= room * threads


def share_by_warps(threads: int, room: int, held: int) -> int:
    """Return a kernel's part of ``room``, which kernels with ``held`` threads share by their warps."""
    return max(1, room * threads // held)


def share_in_order(fill: int, threads: int, idle: Sequence[int], room: int, held: int) -> int:
    """Return how much of the card a kernel gets of the ``room`` that earlier kernels leave: at most its ``fill``.

    ``held``: the threads of this kernel and the earlier ones. While they are not all of the card's threads, the card
    does not work at its full pace. Then a later kernel gets what others leave of that pace, and at least the pace that
    its own ``threads`` add.
    """
    if threads < held < FULL_CARD:
        others = idle_with(idle, held)
        room = min(room, max(room, idle_with(idle, held - threads)) - others)
    return max(1, min(fill, room))


# Surcharges: the ticks that a call takes beyond its own, because of the calls that its thread made before.
#
# One surcharge is for entering a stream. Programs with array libraries set the current stream with a block,
# ``with stream:``, around the ops of a chunk or of one of its stages. Such a program enters a stream in three cases:
# the op goes to another stream than the op before it; a chunk's stages begin anew in the same stream; or the op belongs
# to the next chunk. It belongs to the next chunk if it copies an array that was copied since the host entered the
# stream, or if it works on another piece of an array than the latest op on that array.

# A thread's latest call: the kind of a copy or kernel, or one of these.
OWN_WORK, RECORD, WAIT, SYNCHRONIZE, WAIT_THREAD = NOTHING, 4, 5, 6, 7

LEGACY = 0  # the default stream, which is current where none has been entered
NO_STREAM = -1  # before anything has been issued
STAGES = (0, 2, 1, NEVER)  # of a chunk, by kind of op: copies in, copies back, kernels; what goes to no engine


class Surcharges(NamedTuple):
    """The ticks that each surcharge adds to a call, named as in a profile's host times.

    - ``enter``: for a call that enters a stream.
    - ``after_wait``: for a thread's first copy and first kernel, and for the first ones after a call that may hold it.
    - ``first_on_stream``: for the first op of each kind in each stream.
    - ``first_launch``: for the first launch of each kernel.
    - ``turn``: for a call whose predecessor in the thread was of another kind.
    """

    enter: int = 0
    after_wait: int = 0
    first_on_stream: int = 0
    first_launch: int = 0
    turn: int = 0


@dataclass(slots=True)
class Caller:
    """The calls that a thread of the host has made, as whole numbers; the compiled model keeps them in a record.

    - ``stream``, ``kind``: those of the latest copy or kernel. ``entered``: 1 if that call entered a stream. If
      entering takes no time, these three never change.
    - ``called``: the latest call.
    - ``copied``, ``launched``: 1 if the thread has issued a copy, or a kernel, since it waited.
    """

    stream: int = NO_STREAM
    kind: int = NOTHING
    entered: int = 0
    called: int = OWN_WORK
    copied: int = 0
    launched: int = 0


def work_surcharge(
    costs: Surcharges,
    caller: Caller,
    known: MutableSequence[bool],
    launched: MutableSequence[bool],
    stream: int,
    kind: int,
    kernel: int,
    is_next: bool,
) -> int:
    """Return the surcharge of a call for a copy or kernel in ticks, and make it the caller's latest call.

    - ``known``: True at ``stream * KINDS + kind`` if the stream has had an op of this kind.
    - ``launched``: True at the number of a kernel that has been launched, and at 0, the number of a copy.
    - ``is_next``: see :func:`enters`.
    """
    more = turn_surcharge(costs, caller, kind)
    if costs.enter:
        caller.entered = enters(stream, kind, caller.stream, caller.kind, is_next)
        caller.stream, caller.kind = stream, kind
        if caller.entered:
            more += costs.enter
    if kind == KERNEL:
        if not caller.launched:
            more += costs.after_wait
        caller.launched = 1
    else:
        if not caller.copied:
            more += costs.after_wait
        caller.copied = 1
    if not known[stream * KINDS + kind]:
        known[stream * KINDS + kind] = True
        more += costs.first_on_stream
    if not launched[kernel]:
        launched[kernel] = True
        more += costs.first_launch
    return more


def turn_surcharge(costs: Surcharges, caller: Caller, called: int) -> int:
    """Return the surcharge in ticks after a call of another kind, and make ``called`` the caller's latest call."""
    more = costs.turn if called != caller.called else 0
    caller.called = called
    return more


def reset_after_wait(caller: Caller) -> None:
    """Note that the latest call may have held the caller: its next copy and next kernel cost more again."""
    caller.copied = caller.launched = 0


def enters(stream: int, kind: int, stream_before: int, kind_before: int, is_next: bool) -> bool:
    """Tell whether the host enters ``stream`` for a copy or kernel, given the copy or kernel that it issued before.

    ``is_next``: the arrays show that the op belongs to the next chunk.
    """
    return stream != LEGACY and (stream != stream_before or is_next or STAGES[kind] < STAGES[kind_before])
