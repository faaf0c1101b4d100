"""The tables of a device profile: the numbers and rules of a card, its link and its host that the model uses.

The declaration of a field stands beside it, in its ``Annotated`` type: its limits, its ties to other fields, and its
value with an effect switched off. Code that checks or changes profiles reads the declarations and names no field. A new
field therefore needs one line, in its table. The ending of a number's name is its unit: ``_bytes_per_s``, ``_bytes`` or
``_s``. A count has no unit.
"""

from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from streamsim.errors import Bytes, Checked, InputError, KernelTime, Limits

RATES = SLOWEST_BYTES_PER_S, FASTEST_BYTES_PER_S = (1e6, 1e15)


class FieldSpec(Limits, frozen=True, eq=False):
    """The declaration of a field.

    - ``at_least``: fields of the same table, declared earlier, that are lower limits of this field. If one of them
      changes, this field changes by the same amount.
    - ``at_most``: fields of the same table, declared earlier, that are upper limits of this field. If one of them
      changes, this field changes in proportion.
    - ``gives_way``: a profile may break ``at_least`` and ``at_most``. A change of those fields moves this field only
      where it would otherwise break the limit.
    - ``off``: for each effect, the value of the field with that effect switched off, or the name of a field of the same
      table with this value.
    - ``drawn_with``: the field of the same table whose random factor this field shares.
    """

    at_least: tuple[str, ...] = ()
    at_most: tuple[str, ...] = ()
    gives_way: bool = False
    off: Mapping[str, float | str] = {}
    drawn_with: str = ""


NO_SPEC = FieldSpec()


class Field(NamedTuple):
    """A field of a table: its name, declaration, declared type and default (``msgspec.NODEFAULT``: it has none)."""

    name: str
    spec: FieldSpec
    type: Any
    default: Any

    @property
    def is_number(self) -> bool:
        """True for a rate or a time: a calibration measures it, and it has a spread."""
        return float in (self.type, *get_args(self.type))

    def tied(self, values: Mapping[str, Any]) -> Any:
        """Return the field's value in a table's ``values``, moved to the nearest limit that its ties set."""
        value, spec = values[self.name], self.spec
        value = min([value, *(values[name] for name in spec.at_most)])
        return max([value, *(values[name] for name in spec.at_least)])


@lru_cache
def fields_of(table: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a profile's table, in the order of their declaration."""
    found = []
    for one in msgspec.structs.fields(table):
        spec = get_args(one.type)[1] if get_origin(one.type) is Annotated else NO_SPEC
        found.append(Field(one.name, spec, one.type, one.default))
    return tuple(found)


class ProfileTable(Checked, frozen=True):
    """A table of a profile. It checks every field's type, limits and ties against its declaration."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        values = msgspec.structs.asdict(self)
        for field in fields_of(type(self)):
            value, nearest = values[field.name], field.tied(values)
            if value != nearest and not field.spec.gives_way:
                below = value < nearest
                ties = field.spec.at_least if below else field.spec.at_most
                other = next(name for name in ties if values[name] == nearest)
                word, remedy = ("below", "least") if below else ("above", "most")
                raise InputError(f"{field.name} = {value:g}: {word} {other} = {nearest:g}; give at {remedy} that")


Arbitration = Literal["issue-order", "ready-order", "same-queue-first"]
KernelSignal = Literal["each", "run"]
ARBITRATIONS = get_args(Arbitration)

MOST_CONNECTIONS = 32
LARGEST_SPREAD = 10
DIRECTIONS = ("h2d", "d2h")
CALLS = "calls"

# Effects that can be switched off, and words for a prediction without each. The declaration of a field has the field's
# value without each effect.
EFFECTS = {
    "duplex": "no contention of directions",
    "crowd": "copies feel no crowd",
    "copy-latency": "no latency of copies",
    "hand-over": "no hand-over between engines",
    "many-streams": "no stream's first calls cost more",
    "host": "host calls cost nothing",
    "copy-arbitration": "copies in issue order",
    "side-by-side": "kernels one by one",
    "launch": "kernels take no launch",
}

HostTime = Annotated[float, FieldSpec(off={"host": 0.0})]
HandOverTime = Annotated[float, FieldSpec(off={"hand-over": 0.0})]


def _latency(**off: str) -> FieldSpec:
    """Return the declaration of a copy's latency, with the shorter latency that it is without each effect."""
    return FieldSpec(at_least=tuple(off.values()), off={**off, "copy-latency": 0.0})


def _rate(**off: str) -> FieldSpec:
    """Return the declaration of a copy's rate, with the higher rate that it is without each effect."""
    return FieldSpec(*RATES, at_most=tuple(off.values()), off=off)


class LinkDirection(ProfileTable, frozen=True):
    """One direction of the link between host and card.

    A copy occupies its engine for a latency, and then for the time that its bytes take on the link.

    - Alone: ``latency_s``, then ``bandwidth_bytes_per_s``.
    - Beside the other direction: ``duplex_latency_s`` if that direction carries a copy when this copy starts, and
      ``duplex_bandwidth_bytes_per_s`` for as long as both directions move bytes.
    - Crowded: if kernels in four or more hardware queues wait for copies, the latencies are ``crowded_latency_s`` and
      ``crowded_duplex_latency_s``. With two or three such queues, they grow by a third or two thirds of the way. A
      crowded card moves bytes at most at ``crowded_bandwidth_bytes_per_s``. A copy pays this loss as a later start, by
      as much beside the other direction as alone.
    - Small copies: a copy of fewer than ``in_flight_bytes`` pays the part of a latency above ``latency_s`` in
      proportion to its bytes, because that part is spent behind bytes on the link.
    - Pageable memory goes through a staging buffer: ``pageable_latency_s``, then ``pageable_bandwidth_bytes_per_s``.
    """

    latency_s: Annotated[float, _latency()]
    duplex_latency_s: Annotated[float, _latency(duplex="latency_s")]
    crowded_latency_s: Annotated[float, _latency(crowd="latency_s")]
    crowded_duplex_latency_s: Annotated[float, _latency(duplex="crowded_latency_s", crowd="duplex_latency_s")]
    in_flight_bytes: Annotated[int, FieldSpec(least=1)]
    bandwidth_bytes_per_s: Annotated[float, _rate()]
    duplex_bandwidth_bytes_per_s: Annotated[float, _rate(duplex="bandwidth_bytes_per_s")]
    crowded_bandwidth_bytes_per_s: Annotated[float, _rate(crowd="bandwidth_bytes_per_s")]
    pageable_latency_s: Annotated[float, FieldSpec(at_least=("latency_s",), gives_way=True, off={"copy-latency": 0.0})]
    pageable_bandwidth_bytes_per_s: Annotated[
        float, FieldSpec(*RATES, at_most=("bandwidth_bytes_per_s",), gives_way=True)
    ]


class Host(ProfileTable, frozen=True):
    """The host's seconds: in each call of the issuing thread, and until a waiting thread wakes up.

    - ``copy_s``, ``kernel_s``, ``record_s``, ``wait_s``, ``synchronize_s``: one call of a copy, a kernel, an event
      record, a wait for an event, or a synchronisation.
    - ``submit_s``: from a call's return until the card can act on it.
    - ``wake_s``: from an op's end until a host call that waited for the op returns.
    - ``graph_launch_s``: the launch of a graph. The launch then hands the graph's copies to the card, with the kernels,
      in ``graph_node_s`` a copy, while earlier nodes run.
    - ``pageable_immediate_bytes``: pageable H2D copies of at most this size return at once.
    - ``first_on_stream_s``: extra seconds of the first copy in each direction and the first kernel of every stream,
      because the stream's hardware queue for that engine is cold.
    - ``after_wait_s``: extra seconds of the first copy and the first kernel of a program, and of those after each call
      that may wait for the card, because the host's caches are cold. It applies only to programs with both copies and
      kernels: a host that repeats the same call has warm caches.
    - ``enter_s``: making another stream the current one, in programs that do so: :mod:`streamsim.rules`.
    - ``linear_s``: the call of a kernel named ``linear``, a layer of an array library (0: ``kernel_s``).
    - ``turn_s``: extra seconds of a call that is not directly behind another call of its kind.
    - ``first_launch_s``: extra seconds of the first call of each kernel in a program, by its name.

    Only front ends of array libraries have ``turn_s`` and ``first_launch_s``; calibrations of bare calls have 0.
    """

    copy_s: HostTime
    kernel_s: HostTime
    record_s: HostTime
    wait_s: HostTime
    synchronize_s: HostTime
    submit_s: HostTime
    wake_s: HostTime
    graph_launch_s: HostTime
    graph_node_s: HostTime
    pageable_immediate_bytes: Annotated[int, FieldSpec(most=1 << 40)]
    after_wait_s: HostTime = 0.0
    first_on_stream_s: Annotated[float, FieldSpec(off={"host": 0.0, "many-streams": 0.0})] = 0.0
    enter_s: HostTime = 0.0
    linear_s: HostTime = 0.0
    turn_s: HostTime = 0.0
    first_launch_s: HostTime = 0.0


class HandOver(ProfileTable, frozen=True):
    """Seconds from the end of an op until a dependent op can start on another engine.

    ``kernel_to_kernel_s`` is the time between two kernels, which run on the same engine. If the dependence goes through
    an event to another stream, ``event_s`` is added, and ``event_streams_s`` for each stream of the program from the
    third to the sixth: their waiting queues delay the hand-over. A kernel behind another kernel of its own stream pays
    ``event_streams_s`` as well, counted over the streams with kernels. A graph pays neither. Each time is a mean;
    single hand-overs scatter by microseconds.
    """

    h2d_to_kernel_s: HandOverTime
    kernel_to_d2h_s: HandOverTime
    d2h_to_h2d_s: HandOverTime
    h2d_to_d2h_s: HandOverTime
    kernel_to_h2d_s: HandOverTime
    d2h_to_kernel_s: HandOverTime
    kernel_to_kernel_s: HandOverTime
    event_s: HandOverTime
    event_streams_s: HandOverTime = 0.0


class CopyEngines(ProfileTable, frozen=True):
    """The copy engines.

    - ``count``: 2 (one for each direction), 1 (one for both) or 0 (copies and kernels share one engine).
    - ``connections``: the number of hardware queues in front of each copy engine; with ``count`` 0, in front of the
      only engine. A stream owns a queue. If there are more streams than queues, a stream takes the queue that was used
      least recently.
    - ``arbitration``: the rule by which an engine chooses its next copy.
    """

    count: Annotated[int, FieldSpec(most=2)]
    connections: Annotated[int, FieldSpec(least=1, most=MOST_CONNECTIONS)]
    arbitration: Annotated[Arbitration, FieldSpec(off={"copy-arbitration": "issue-order"})]


class KernelCost(ProfileTable, frozen=True):
    """The measured time of the kernel ``name`` with ``parameter`` over its elements, alone on the card.

    The time is linear between the measured points, and constant below the first one. Beyond the last point it goes on
    with the slope of the last two. Raises InputError for points that do not increase.
    """

    name: str
    parameter: int
    elements: tuple[Bytes, ...]
    duration_s: tuple[KernelTime, ...]

    def __post_init__(self) -> None:
        ProfileTable.__post_init__(self)
        if len(self.elements) < 2 or len(self.elements) != len(self.duration_s):
            raise InputError(f"elements = {self.elements!r}: expected at least two, as many as duration_s")
        if any(b <= a for a, b in pairwise(self.elements)):
            raise InputError(f"elements = {self.elements!r}: expected increasing numbers")
        if self.duration_s[-1] <= self.duration_s[-2]:
            raise InputError(f"duration_s = {self.duration_s!r}: expected the last above the one before it")

    def at(self, elements: int) -> float:
        """Return the seconds for ``elements``, alone on the card."""
        xs, ys = self.elements, self.duration_s
        if elements <= xs[0]:
            return ys[0]
        i = min(bisect_right(xs, elements), len(xs) - 1)
        return ys[i - 1] + (ys[i] - ys[i - 1]) * (elements - xs[i - 1]) / (xs[i] - xs[i - 1])

    @property
    def s_per_element(self) -> float:
        """The seconds per element on a full card: the slope of the last two points."""
        return (self.duration_s[-1] - self.duration_s[-2]) / (self.elements[-1] - self.elements[-2])

    def drain_s(self, threads: int, full: int, floor_s: float) -> float:
        """Return the seconds of a launch of ``threads`` in which the card, of ``full`` > 0 threads, is free for others.

        A launch of ``full`` threads takes longer than its elements do at the full pace. Up to ``floor_s`` of that
        excess is the launch itself, whatever its threads. The rest passes until the last threads end, in proportion to
        the threads.
        """
        whole_s = max(0.0, self.at(full) - full * self.s_per_element)
        launch_s = min(floor_s, whole_s)
        return launch_s + (whole_s - launch_s) * min(1.0, threads / full)

    def pace(self, threads: int, full: int, floor_s: float) -> float:
        """Return the pace of a card of ``full`` threads with ``threads`` of them in use, 0 < ``threads`` <= ``full``.

        The pace is a share of the full pace, 1 / ``s_per_element``. It follows from the time of one launch of
        ``threads`` elements without its :meth:`drain_s`.
        """
        work_s = self.at(threads) - self.drain_s(threads, full, floor_s)
        return min(1.0, threads * self.s_per_element / max(work_s, 1e-12))


@lru_cache(maxsize=64)
def paces(cost: KernelCost, full: int, floor_s: float, steps: int) -> tuple[float, ...]:
    """Return the paces of a card of ``full`` threads with 1 .. ``steps`` ``steps``-ths of them in use.

    See :meth:`KernelCost.pace`.
    """
    return tuple(cost.pace(full * step // steps, full, floor_s) for step in range(1, steps + 1))


class Compute(ProfileTable, frozen=True):
    """The compute engine.

    - ``floor_s``: the shortest time of any kernel.
    - ``graph_gap_s``: in a graph, seconds from the end of a kernel's work until the next kernel of its stream begins.
      Other kernels may use the card meanwhile.
    - ``concurrent_kernels``: how many kernels may run side by side. Kernels whose work is done but that have not ended
      do not count (:meth:`KernelCost.drain_s`).
    - ``resident_threads``: the threads that fill the card. A chunk of fewer elements takes no less than a wave of its
      launch (0: no such effect, and a kernel occupies the card until its end).
    - ``arbitration``: the rule by which the engine chooses its next kernel.
    - ``kernel_signal``: ``"each"``, or ``"run"`` if the copy engines see the end of a kernel only after the whole run
      of kernels issued back to back with it has ended (Fermi).
    - ``kernels``: measured costs of kernels.
    """

    floor_s: Annotated[float, FieldSpec(off={"launch": 0.0}, drawn_with="kernels")]
    concurrent_kernels: Annotated[int, FieldSpec(least=1, most=1024, off={"side-by-side": 1})]
    resident_threads: Annotated[int, FieldSpec(most=1 << 40, off={"launch": 0})]
    arbitration: Arbitration
    kernel_signal: KernelSignal
    kernels: tuple[KernelCost, ...] = ()
    graph_gap_s: Annotated[float, FieldSpec(off={"launch": 0.0}, drawn_with="kernels")] = 0.0


class FrontEnd(ProfileTable, frozen=True):
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
    spread: Annotated[float, FieldSpec(most=LARGEST_SPREAD)] = 0.0
    linear_s: float = 0.0
    turn_s: float = 0.0
    after_wait_s: float = 0.0
    first_launch_s: float = 0.0


TIMES = tuple(name for name in FrontEnd.__struct_fields__ if name.endswith("_s"))
HOST_TIMES = tuple(f"host.{name}" for name in TIMES)  # as a profile's spread and sources name them
COLD = "after_wait_s", "first_launch_s"
IN_LOOPS = tuple(name for name in TIMES if name not in COLD)
