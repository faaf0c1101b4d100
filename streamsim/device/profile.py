"""Device profiles: the numbers and rules of a card, its link and its host that the model uses.

A profile is a TOML file (``streamsim devices show h200``). ``[sources]`` gives the origin of every number:
``measured: ...``, ``published: ...`` or ``assumed: ...``. The ideal device has every effect switched off.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec

from streamsim.checks import LARGEST_BYTES, check_choice, check_is, check_number, check_whole
from streamsim.device.fields import Field, FieldSpec, ProfileTable, SameAs, fields_of
from streamsim.device.kernel_costs import KernelCost, constant_s, paces, part_s
from streamsim.errors import InputError, NoRoomError
from streamsim.program import Kernel
from streamsim.text import format_bytes, short, shown

Arbitration = Literal["issue-order", "ready-order", "same-queue-first"]
KernelSignal = Literal["each", "run"]
ARBITRATIONS = get_args(Arbitration)

SCHEMA_VERSION = 1
SOURCE_KINDS = ("measured", "published", "assumed")
MOST_CONNECTIONS = 32
LARGEST_SPREAD = LARGEST_RATIO = 10
PYTORCH, SHAPES, STACK, CALLS = "pytorch", "pytorch-shapes", "pytorch-stack", "calls"
RECORDERS = (PYTORCH, SHAPES, STACK, CALLS)
LIMITED = "what the memory limit allows"  # the source of a card's memory if a limit makes it smaller

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

# Numbers that profiles in kept records have. Measured runs do not need their effects: docs/tried.md.
RETIRED = ("h2d.crowded_bytes", "d2h.crowded_bytes", "host.graph_edge_s")

HostTime = Annotated[float, FieldSpec(off={"host": 0.0})]
IssueTime = Annotated[float, FieldSpec(off={"host": 0.0}, sped_up_with="launch")]
HandOverTime = Annotated[float, FieldSpec(off={"hand-over": 0.0})]
Ratio = Annotated[float, FieldSpec(least=1, most=LARGEST_RATIO, at_least=("least",), at_most=("most",))]


def _latency(**off: str) -> FieldSpec:
    """Return the declaration of a copy's latency, with the shorter latency that it is without each effect."""
    same: dict[str, Any] = {effect: SameAs(shorter) for effect, shorter in off.items()}
    return FieldSpec(at_least=tuple(off.values()), off=same | {"copy-latency": 0.0})


def _rate(**off: str) -> FieldSpec:
    """Return the declaration of a copy's rate, with the higher rate that it is without each effect."""
    same = {effect: SameAs(higher) for effect, higher in off.items()}
    return FieldSpec(at_most=tuple(off.values()), off=same, sped_up_with="link")


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
    in_flight_bytes: Annotated[int, FieldSpec(least=1, is_measured=True)]
    bandwidth_bytes_per_s: Annotated[float, _rate()]
    duplex_bandwidth_bytes_per_s: Annotated[float, _rate(duplex="bandwidth_bytes_per_s")]
    crowded_bandwidth_bytes_per_s: Annotated[float, _rate(crowd="bandwidth_bytes_per_s")]
    pageable_latency_s: Annotated[float, FieldSpec(at_least=("latency_s",), gives_way=True, off={"copy-latency": 0.0})]
    pageable_bandwidth_bytes_per_s: Annotated[
        float, FieldSpec(at_most=("bandwidth_bytes_per_s",), gives_way=True, sped_up_with="link")
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
    - ``enter_s``: making another stream the current one, in programs that do so: :mod:`streamsim.rules.calls`.
    - ``linear_s``: the call of a kernel named ``linear``, a layer of an array library (0: ``kernel_s``).
    - ``turn_s``: extra seconds of a call that is not directly behind another call of its kind.
    - ``first_launch_s``: extra seconds of the first call of each kernel in a program, by its name.

    Only front ends of array libraries have ``turn_s`` and ``first_launch_s``; calibrations of bare calls have 0.
    """

    copy_s: IssueTime
    kernel_s: IssueTime
    record_s: IssueTime
    wait_s: IssueTime
    synchronize_s: HostTime
    submit_s: HostTime
    wake_s: HostTime
    graph_launch_s: IssueTime
    graph_node_s: IssueTime
    pageable_immediate_bytes: Annotated[int, FieldSpec(most=1 << 40)]
    after_wait_s: IssueTime = 0.0
    first_on_stream_s: Annotated[float, FieldSpec(off={"host": 0.0, "many-streams": 0.0}, sped_up_with="launch")] = 0.0
    enter_s: IssueTime = 0.0
    linear_s: IssueTime = 0.0
    turn_s: IssueTime = 0.0
    first_launch_s: IssueTime = 0.0


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
    kernels: Annotated[tuple[KernelCost, ...], FieldSpec(sped_up_with="kernel")] = ()
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


class RecorderCost(ProfileTable, frozen=True):
    """The cost of a profiler: ratios of the host's own time, recorded over plain, from 1 to 10.

    ``ratio`` holds for programs without a backward pass, ``backward`` for programs with one. Both lie between ``least``
    and ``most``. ``source``: the origin of the ratios, as in a profile's ``sources``.
    """

    least: Annotated[float, FieldSpec(least=1, most=LARGEST_RATIO)]
    most: Annotated[float, FieldSpec(least=1, most=LARGEST_RATIO)]
    ratio: Ratio
    backward: Ratio
    source: str


class Occupancy(NamedTuple):
    """The time of a kernel and the shares of the card that it uses.

    - ``alone_s``: seconds with the card to itself. For a part of a launch see :func:`part_s`.
    - ``share``: the share of the card that it keeps busy, averaged over ``alone_s``, 0 to 1. ``alone_s * share`` is its
      work: the seconds that it takes of the whole card.
    - ``drain_s``: seconds at its end in which the card is free for others. It is a whole number of nanoseconds, and
      leaves at least one for the work, which then keeps more of the card busy. For a kernel with a duration it is the
      kernel floor. It is 0 if the card's threads are unknown, or if copies and kernels share one engine.
    - ``threads``: the share of the card's threads that it holds. For a kernel with a duration, or if the card's threads
      are unknown, it equals ``share``.
    - ``resident``: the share of the card's threads that it holds, if the kernel gives both its threads and a fill above
      the share that these threads fill; else 0.
    """

    alone_s: float
    share: float
    drain_s: float
    threads: float
    resident: float = 0.0


class Device(ProfileTable, frozen=True):
    """A device profile: a card, its link and its host.

    - ``h2d``, ``d2h``, ``copy_engines``, ``compute``, ``hand_over``, ``host``: tables of numbers and rules.
    - ``connections``: hardware queues in front of the compute engine, if ``copy_engines.count`` is not 0.
    - ``sources``: the origin of each number, by dotted name: "measured: ...", "published: ..." or "assumed: ...".
    - ``spread``: the relative standard deviation of a number, by dotted name (``compute.kernels``: of all kernel times
      together). :mod:`streamsim.analysis.intervals` draws from it.
    - ``memory_bytes``: the card's memory (None: unknown, so no schedule is too large).
    - ``link``: words for the connection of card and host, such as ``PCIe gen 4 x16``.
    - ``front_ends``: call times of array libraries on this host, by name (:mod:`streamsim.device.library`).
    - ``recorders``: costs of profilers on this host, by name (:mod:`streamsim.device.library`).

    Raises InputError naming the field, its value and the expected values.
    """

    name: str
    description: str
    connections: Annotated[int, FieldSpec(least=1, most=MOST_CONNECTIONS)]
    h2d: LinkDirection
    d2h: LinkDirection
    copy_engines: CopyEngines
    compute: Compute
    hand_over: HandOver
    host: Host
    sources: dict[str, str]
    spread: dict[str, float] = msgspec.field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    memory_bytes: int | None = None
    link: str = ""
    front_ends: dict[str, FrontEnd] = msgspec.field(default_factory=dict)
    recorders: dict[str, RecorderCost] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise InputError(f"schema_version = {self.schema_version!r}: this streamsim reads {SCHEMA_VERSION}")
        ProfileTable.__post_init__(self)
        if not self.name.strip() or "," in self.name:
            raise InputError(f"name = {shown(self.name)}: expected a name without commas, which stand between devices")
        for name in self.recorders:
            check_choice(f"recorders: {name}", name, RECORDERS)
        for field, kind in (("front_ends", FrontEnd), ("recorders", RecorderCost)):
            for name, calls in getattr(self, field).items():
                check_is(f"{field}.{name}", calls, kind)
                _check_source(f"{field}.{name}.source", calls.source)
        if self.memory_bytes is not None:
            check_whole("memory_bytes", self.memory_bytes, 1, LARGEST_BYTES)
        _check_sources(self)

    def __repr__(self) -> str:
        return short(f"Device({self.name}: {self.description})")

    def source(self, name: str) -> tuple[str, str]:
        """Return the source of the number ``name`` (dotted): "measured", "published" or "assumed", and the details.

        Both are empty if the profile does not say where the number is from.
        """
        kind, _, text = self.sources.get(name, self.sources.get(name.rpartition(".")[0], "")).partition(":")
        return kind, text.strip()

    def has_room(self, n_bytes: int) -> bool:
        """Return True if device buffers of ``n_bytes`` fit, or if the card's memory is unknown."""
        return self.memory_bytes is None or n_bytes <= self.memory_bytes

    def check_room(self, n_bytes: int, remedy: str = "use a ring of few buffers and more chunks") -> None:
        """Raise NoRoomError, whose message ends in ``remedy``, if device buffers of ``n_bytes`` do not fit."""
        if self.memory_bytes is not None and not self.has_room(n_bytes):
            limit = "the memory limit is" if self.source("memory_bytes")[1] == LIMITED else f"{self.name} has room for"
            raise NoRoomError(
                f"device buffers of {n_bytes} bytes ({format_bytes(n_bytes)}): {limit} {self.memory_bytes}"
                f" ({format_bytes(self.memory_bytes)}); {remedy}"
            )

    def with_connections(self, connections: int) -> "Device":
        """Return the device with this many hardware queues in front of each engine (CUDA_DEVICE_MAX_CONNECTIONS)."""
        copy_engines = msgspec.structs.replace(self.copy_engines, connections=connections)
        return msgspec.structs.replace(self, connections=connections, copy_engines=copy_engines)

    def occupancy(self, kernel: Kernel, has_floor: bool = True) -> Occupancy:
        """Return the time of ``kernel`` and its shares of the card.

        ``has_floor``: False if the kernel may take less than the profile's ``floor_s``.

        Raises InputError if the kernel has no duration and the profile has no cost for it.
        """
        full, side_by_side = self.compute.resident_threads, self.runs_side_by_side
        floor_s = self.compute.floor_s if has_floor else 0.0
        if kernel.duration_s is None:
            cost = self.cost_of(kernel)
            alone_s = max(cost.at(kernel.elements), floor_s)
            drain_s = _drain_s(cost.drain_s(kernel.elements, full, floor_s), alone_s) if side_by_side else 0.0
            work_s = alone_s - drain_s  # the work fills at most the whole card for this long
            share = _share(min(kernel.elements * cost.s_per_element, work_s), alone_s)
            return Occupancy(alone_s, share, drain_s, min(1.0, kernel.elements / full) if full else share)
        whole_s = kernel.duration_s / kernel.share
        waves = (kernel.threads or kernel.elements) / kernel.share / full if full else 0.0  # of threads; 0: unknown
        alone_s = part_s(whole_s, kernel.share, waves, floor_s, kernel.parts)
        launch_s = floor_s if side_by_side else 0.0  # others may use the card meanwhile
        idle_s = constant_s(whole_s, waves, floor_s, kernel.parts) if side_by_side else 0.0
        fill = kernel.fill or min(1.0, waves or 1.0)  # share of the card that the whole launch keeps busy
        share = _share(max(0.0, kernel.duration_s - kernel.share * idle_s) * fill, alone_s)
        few = full > 0 and waves < (kernel.fill or 0.0)  # the threads fill less of the card than they keep busy
        resident = kernel.threads / full if few else 0.0
        return Occupancy(alone_s, share, _drain_s(launch_s, alone_s), share, resident)

    def kernel_paces(self, kernel: Kernel, steps: int) -> tuple[float, ...]:
        """Return the card's pace with 0, 1, ... ``steps`` ``steps``-ths of its threads in use by kernels such as this.

        A pace is a share of the card's full pace, 0 to 1. For a kernel with a duration, or if the card's threads are
        unknown, the pace is the share of threads in use: :func:`even_paces`.
        """
        full = self.compute.resident_threads
        if kernel.duration_s is not None or full < steps:
            return even_paces(steps)
        return (0.0, *paces(self.cost_of(kernel), full, self.compute.floor_s, steps))

    @property
    def runs_side_by_side(self) -> bool:
        """True if kernels may use the card while another one drains: its threads are known and it has copy engines."""
        return self.compute.resident_threads > 0 and self.copy_engines.count > 0

    def cost_of(self, kernel: Kernel) -> KernelCost:
        """Return the measured cost of a kernel by its name and parameter. Raises InputError if the profile has none."""
        for cost in self.compute.kernels:
            if (cost.name, cost.parameter) == (kernel.name, kernel.parameter):
                return cost
        known = ", ".join(f"{c.name}({c.parameter})" for c in self.compute.kernels) or "none"
        raise InputError(
            f"kernel {kernel.name!r} with parameter {kernel.parameter}: device {self.name!r} has no cost for it"
            f" (it knows: {known}); give the kernel a duration_s"
        )


@cache
def even_paces(steps: int) -> tuple[float, ...]:
    """Return the paces 0, 1 / ``steps``, ... 1: the pace grows with the threads in use."""
    return tuple(step / steps for step in range(steps + 1))


def _drain_s(left_s: float, alone_s: float) -> float:
    """Return ``left_s``, rounded to whole nanoseconds, and at most ``alone_s`` rounded less one nanosecond.

    The model's clock counts nanoseconds, half of one rounded up. Without the rounding, the kernel's work would differ
    from that of its rounded time.
    """
    left_ns, alone_ns = (math.floor(seconds * 1e9 + 0.5) for seconds in (left_s, alone_s))
    return max(0, min(left_ns, alone_ns - 1)) * 1e-9


def _share(work_s: float, alone_s: float) -> float:
    return min(1.0, work_s / alone_s) if alone_s > 0 else 1.0


def number_names(device: Device) -> set[str]:
    """Return the dotted names of the numbers in a profile (kernel costs count as one number)."""
    values: dict[str, Any] = {name: getattr(table, field.name) for name, table, field in declared(device)}
    values |= {"connections": device.connections, "memory_bytes": device.memory_bytes}
    return {name for name, value in values.items() if type(value) in (int, float) or (value and type(value) is tuple)}


def tables_of(device: Device) -> dict[str, ProfileTable]:
    """Return the tables of a profile, by name."""
    parts = {name: getattr(device, name) for name in device.__struct_fields__}
    return {name: part for name, part in parts.items() if isinstance(part, ProfileTable)}


def declared(device: Device) -> Iterator[tuple[str, ProfileTable, Field]]:
    """Yield the dotted name of every field of the tables, its table, and its declaration."""
    for name, table in tables_of(device).items():
        for field in fields_of(type(table)):
            yield f"{name}.{field.name}", table, field


def left_out(device: Device) -> set[str]:
    """Return the dotted names of numbers at their default, which a profile may leave out and which have no effect."""
    return {name for name, table, field in declared(device) if getattr(table, field.name) == field.default}


def _check_source(name: str, source: str) -> None:
    kind, _, text = source.partition(":")
    if kind not in SOURCE_KINDS or not text.strip():
        raise InputError(f"{name} = {source!r}: expected 'measured: ...', 'published: ...' or 'assumed: ...'")


def _check_sources(device: Device) -> None:
    known = number_names(device)
    sections = {name.rpartition(".")[0] for name in known}
    for table, own in (("sources", known | sections), ("spread", known)):
        for name, value in getattr(device, table).items():
            if name not in own:
                raise InputError(f"{table}.{name} = {value!r}: the profile has no number of that name")
    for name, source in device.sources.items():
        _check_source(f"sources.{name}", source)
    for name, spread in device.spread.items():
        check_number(f"spread.{name}", spread, 0.0, 1e9)
    for name in sorted(known - left_out(device)):
        if device.source(name) == ("", ""):
            raise InputError(f"{name}: has no source; add sources.{name!r} = 'measured|published|assumed: ...'")


def with_values(device: Device, values: Mapping[str, Any]) -> Device:
    """Return ``device`` with new ``values`` of fields, by full dotted name. No other field follows.

    Raises InputError naming the field of a bad value.
    """
    new: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        table, _, field = name.partition(".")
        new.setdefault(table, {})[field] = value
    tables: dict[str, ProfileTable] = {}
    for table, fields in new.items():
        try:
            tables[table] = msgspec.structs.replace(getattr(device, table), **fields)
        except InputError as error:
            raise InputError(f"{table}.{error}") from None
    return msgspec.structs.replace(device, **tables)
