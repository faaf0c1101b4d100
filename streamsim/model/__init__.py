"""The discrete-event model, the one to read and argue with: ``simulate(schedule, device)`` gives the time line.

It is written on SimPy as SimPy's own documentation shows it. An op goes through the files in this order: ``host`` makes
its call, ``card`` keeps it until all that it waits for has come, ``queues`` is the hardware queue in which it then
stands, and ``copy_engine`` or ``compute_engine`` takes it from there, runs it and says that it has ended. ``link`` and
``crowd`` are what copies feel of the rest of the card. What an op costs and waits for is known before
(:mod:`streamsim.lowering`); the card's rules themselves are in :mod:`streamsim.rules`.
"""

from streamsim.model.simulation import run, simulate

__all__ = ["run", "simulate"]
