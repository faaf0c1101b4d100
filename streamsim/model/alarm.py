"""An alarm clock on a SimPy environment."""

from collections.abc import Callable

import simpy
from simpy.events import NORMAL


class Alarm(simpy.Event):
    """One event that an engine sets again and again, for the tick at which its op is due.

    A fresh ``Timeout`` for every op costs twice the time of an event that is scheduled again, and SimPy
    cannot move one when a shared link speeds a copy up or slows it down. So an alarm may lie in SimPy's
    heap several times, and only the latest setting counts: whoever hears it compares the time with
    ``due`` and gives the alarm its ``calls`` back, which SimPy takes away at every ring.
    """

    def __init__(self, env: simpy.Environment, ring: Callable[[simpy.Event], None]) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        self.due = -1
        self.calls = [ring]
        self.callbacks = self.calls

    def set(self, due: int, now: int) -> None:
        """Ring at the tick ``due``; an earlier setting no longer counts."""
        if due != self.due:
            self.due = due
            self.env.schedule(self, NORMAL, due - now)
