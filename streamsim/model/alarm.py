"""An alarm clock on a SimPy environment."""

from collections.abc import Callable

import simpy


class Alarm(simpy.Event):
    """One event that an engine sets again and again, for the tick at which an op ends or can start.

    A fresh ``Timeout`` for every op costs twice the time of an event that is scheduled again, and SimPy
    cannot move one when a shared link speeds a copy up or slows it down. So an alarm may lie in SimPy's
    heap several times, and only the latest setting counts: whoever hears it compares the time with the one
    it was set for. The last of its ``calls`` gives it back its ``callbacks``, which SimPy takes away at every ring.
    """

    def __init__(self, env: simpy.Environment, *calls: Callable[["Alarm"], None]) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        self.calls = list(calls)
        self.callbacks = self.calls
