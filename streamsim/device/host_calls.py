"""What a host's calls take in a front end, and while a profiler records them."""

import msgspec

from streamsim.checks import check_is, check_number
from streamsim.device.fields import Table
from streamsim.errors import InputError

LARGEST_SPREAD, LARGEST_RATIO = 10.0, 10.0
PYTORCH, SHAPES, STACK, CALLS = "pytorch", "pytorch-shapes", "pytorch-stack", "calls"
RECORDERS = (PYTORCH, SHAPES, STACK, CALLS)


class FrontEnd(Table, frozen=True):
    """The host's seconds in each call of a front end.

    Measured in a loop, with warm caches:

    - ``copy_s``: an asynchronous copy between a slice of an array and a slice of pinned memory, with making the slice
      that kernels work on.
    - ``kernel_s``: an operation on such slices that launches one kernel.
    - ``record_s``, ``wait_s``: recording an event, and letting a stream wait for one.
    - ``synchronize_s``: a synchronisation that does not have to wait.
    - ``enter_s``: a ``with`` block that makes another stream the current one. Compiled programs have none.
    - ``linear_s``: a linear layer whose output is new memory: a kernel named ``linear`` (0: not measured; the call
      then takes ``kernel_s``).
    - ``turn_s``: extra seconds of each call except ``enter_s`` if the call before it was of another kind. Copies in
      and copies out are two kinds (0: not measured).

    With cold caches (0: not measured; then as in the bare calls):

    - ``after_wait_s``: extra seconds of the first copy and the first operation of a program, and of those behind each
      call that may wait.
    - ``first_launch_s``: extra seconds of the first call of each operation in a program, by its kernel's name.

    ``spread``: the relative standard deviation that all these times share. ``source``: their origin, as in a profile's
    ``sources``.
    """

    copy_s: float
    kernel_s: float
    record_s: float
    wait_s: float
    synchronize_s: float
    enter_s: float
    source: str
    spread: float = 0.0
    linear_s: float = 0.0
    turn_s: float = 0.0
    after_wait_s: float = 0.0
    first_launch_s: float = 0.0

    def __post_init__(self) -> None:
        Table.__post_init__(self)
        check_number("spread", self.spread, 0.0, LARGEST_SPREAD)


TIMES = tuple(name for name in FrontEnd.__struct_fields__ if name.endswith("_s"))
HOST_TIMES = tuple(f"host.{name}" for name in TIMES)  # as a profile's spread and sources name them
COLD = "after_wait_s", "first_launch_s"
IN_LOOPS = tuple(name for name in TIMES if name not in COLD)


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cost of a profiler: ratios of the host's own time, recorded over plain, from 1 to 10.

    ``ratio`` holds for programs without a backward pass, ``backward`` for programs with one. Both lie between ``least``
    and ``most``. ``source``: the origin of the ratios, as in a profile's ``sources``.
    """

    ratio: float
    backward: float
    least: float
    most: float
    source: str

    def __post_init__(self) -> None:
        for name in ("least", "most", "ratio", "backward"):
            value = getattr(self, name)
            check_number(name, value, 1.0, LARGEST_RATIO)
            if not self.least <= value <= self.most:
                raise InputError(f"{name} = {value:g}: expected it from least = {self.least:g} to most = {self.most:g}")
        check_is("source", self.source, str)
