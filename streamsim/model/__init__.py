"""The discrete-event model on SimPy: ``simulate(schedule, device)`` gives the time line.

In ``simulation``, the threads of the host make the calls. ``card`` keeps an op until all that it waits for has ended,
and has the hardware queue in which the op then stands. An engine takes it from there, runs it, and tells the card that
it has ended. What an op costs and waits for is known before the run (:mod:`streamsim.lowering`). The
card's rules are in :mod:`streamsim.rules`.
"""

from streamsim.model.card import OpTimes
from streamsim.model.simulation import complete_events, run, simulate, timeline_of
