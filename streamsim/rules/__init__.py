"""The rules of the card and its host. Each rule stands here once, as a function of whole numbers.

A rule knows neither schedules nor device profiles. Its arguments hold all that it needs to remember. The rules say
which op an engine takes next, how copies and kernels share the card, and how much longer a call or a hand-over takes
because of what came before it. :mod:`streamsim.lowering` makes the whole numbers: which op waits for which, and what
each op takes alone.

Both models use these functions. The SimPy model calls them as they are, and numba inlines their code into the compiled
model. So the rules use only what numba knows: arithmetic, comparisons, loops and tables read by an index.
"""

from streamsim.rules.calls import (
    NO_STREAM,
    OWN_WORK,
    RECORD,
    SYNCHRONIZE,
    WAIT,
    WAIT_THREAD,
    Caller,
    Surcharges,
    held,
    turn_surcharge,
    work_surcharge,
)
from streamsim.rules.clock import S_PER_TICK, TICKS_PER_S, TICKS_PER_US, ticks
from streamsim.rules.hand_overs import D2H, H2D, KERNEL, KINDS, MANY, NOTHING, PAIR, crossing, heard, in_the_way
from streamsim.rules.link import CROWD, NEVER, level, next_end, ticks_for
from streamsim.rules.queues import MOST_QUEUES, NO_HEAD, NOBODY, Arbiter, Head, choose, new_arbiter, queue_of, runs_on
from streamsim.rules.side_by_side import FULL_CARD, PACES, by_warps, given, suffices, warps
