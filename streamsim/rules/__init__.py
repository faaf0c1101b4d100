"""The rules of the card and its host. Each rule stands here once, as a function of whole numbers.

A rule knows neither schedules nor device profiles. Its arguments hold all that it needs to remember. The rules say
which op an engine takes next, how copies and kernels share the card, and how much longer a call or a hand-over takes
because of what came before it. :mod:`streamsim.lowering` makes the whole numbers: which op waits for which, and what
each op takes alone.

Both models use these functions. The SimPy model calls them as they are, and numba inlines their code into the compiled
model. So the rules use only what numba knows: arithmetic, comparisons, loops and tables read by an index.
"""

from streamsim.rules.card import (
    CROWD,
    D2H,
    FULL_CARD,
    H2D,
    KERNEL,
    KINDS,
    MANY,
    MOST_QUEUES,
    NEVER,
    NO_HEAD,
    NO_STREAM,
    NOBODY,
    NOTHING,
    OWN_WORK,
    PACES,
    PAIR,
    RECORD,
    S_PER_TICK,
    SYNCHRONIZE,
    TICKS_PER_S,
    TICKS_PER_US,
    WAIT,
    WAIT_THREAD,
    Arbiter,
    Caller,
    Head,
    Surcharges,
    choose,
    crossing,
    delaying_streams,
    fitting,
    level,
    new_arbiter,
    next_end,
    queue_of,
    release_tick,
    reset_after_wait,
    runs_on,
    share_by_warps,
    share_in_order,
    suffices,
    ticks,
    ticks_for,
    turn_surcharge,
    work_surcharge,
)
