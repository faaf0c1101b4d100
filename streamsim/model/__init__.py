"""The discrete-event model on SimPy: ``simulate(schedule, device)`` gives the time line.

An op goes through the files in this order. ``host`` makes its call. ``card`` keeps the op until all that it waits for
has ended. ``engines`` has the hardware queue in which the op then stands. ``copies`` or ``kernels`` takes it from
there, runs it, and tells the card that it has ended. What an op costs and waits for is known before the run
(:mod:`streamsim.lowering`). The card's rules are in :mod:`streamsim.rules`.
"""

from streamsim.model.simulation import run, simulate, timeline_of
from streamsim.model.times import Times, complete_events
