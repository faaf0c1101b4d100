"""What the calls of a front end take on a host: what :mod:`streamsim.device.front_ends` puts into a profile."""

from __future__ import annotations

from typing import Annotated

from streamsim.checks import check_number
from streamsim.device.fields import About, Table

LARGEST_SPREAD = 10.0

Call = Annotated[float, About()]


class FrontEnd(Table, frozen=True):
    """What the calls of a front end take on a host, seconds.

    ``copy_s``: an asynchronous copy of a slice of an array to or from a slice of pinned memory, and the slice of it
    that kernels work on. ``kernel_s``: an operation on such slices that launches one kernel. ``record_s``, ``wait_s``:
    of an event. ``synchronize_s``: a synchronisation that need not wait. ``enter_s``: a ``with`` block that makes
    another stream the current one, which compiled programs do without. ``linear_s``: an operation that a workload's
    kernel names ``linear``, a linear layer, whose output is new memory (0: not measured, and taken for any other
    operation). ``turn_s``: how much longer each of these takes, but for ``enter_s``, where it is not behind another of
    its kind, copies in and out being two (0: not measured). All of them in a loop. Where the host comes to a call with
    cold caches that takes longer: by ``after_wait_s`` the first copy and the first operation of a program, and those
    behind each call that may wait; by ``first_launch_s`` the first call of each operation in a program, by its
    kernel's name (0, either: not measured, and as long as of bare calls).
    ``spread``: the relative standard deviation with which all of them are known together. ``source``: where they come
    from, as in a profile's ``sources``.
    """

    copy_s: Call
    kernel_s: Call
    record_s: Call
    wait_s: Call
    synchronize_s: Call
    enter_s: Call
    source: str
    spread: float = 0.0
    linear_s: Call = 0.0
    turn_s: Call = 0.0
    after_wait_s: Call = 0.0
    first_launch_s: Call = 0.0

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        check_number("spread", self.spread, 0.0, LARGEST_SPREAD)


TIMES = tuple(name for name in FrontEnd.__struct_fields__ if name.endswith("_s"))
HOST_TIMES = tuple(f"host.{name}" for name in TIMES)  # as a profile's spread and sources name them
COLD = "after_wait_s", "first_launch_s"
IN_LOOPS = tuple(name for name in TIMES if name not in COLD)
