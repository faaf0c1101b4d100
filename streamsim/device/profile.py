"""A device profile: what the model needs to know of a card, its link and its host.

A profile is a TOML file (``streamsim devices show h200``). Every number in it says where it comes from in
``[sources]``: ``measured: ...``, ``published: ...`` or ``assumed: ...``. The ideal device has every
effect off.
"""

import math
from functools import cache
from typing import Annotated, Literal, NamedTuple, get_args

import msgspec

from streamsim.checks import LARGEST_BYTES, check_choice, check_is, check_number, check_whole
from streamsim.device.fields import About, As, Table, fields_of
from streamsim.device.front_end_calls import FrontEnd
from streamsim.device.kernel_costs import KernelCost, constant_s, paces, part_s
from streamsim.device.recorders import RECORDERS, Recorder
from streamsim.displayed import Displayed
from streamsim.errors import InputError, NoRoomError
from streamsim.program.schedule import Kernel
from streamsim.text.quantities import format_bytes
from streamsim.text.shown import short, shown

Arbitration = Literal["issue-order", "ready-order", "same-queue-first"]
KernelSignal = Literal["each", "run"]
ARBITRATIONS = get_args(Arbitration)

SCHEMA_VERSION = 1
SOURCE_KINDS = ("measured", "published", "assumed")
MOST_CONNECTIONS = 32
LIMITED = "what the memory limit allows"  # source of a card's memory, where that is less than it has

# What can be switched off, in words that say what is then left out. Beside each field stands what it is without each.
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

# Numbers of profiles of earlier versions, whose effects the measured runs do not need: docs/evidence.md.
RETIRED = (
    "compute.switch_s",
    "h2d.crowded_bytes",
    "d2h.crowded_bytes",
    "hand_over.look_s",
    "hand_over.crowded_s",
    "host.streams_s",
    "host.graph_edge_s",
    "spread.model",
)

HostTime = Annotated[float, About(off={"host": 0.0})]
IssueTime = Annotated[float, About(off={"host": 0.0}, sped_up_with="launch")]
HandOverTime = Annotated[float, About(off={"hand-over": 0.0})]


class LinkDirection(Table, frozen=True):
    """One direction of the link between host and card.

    A copy occupies its engine for ``latency_s``, or for ``duplex_latency_s`` if the other direction carries a
    copy when it starts, and then moves its bytes at ``bandwidth_bytes_per_s``, or at
    ``duplex_bandwidth_bytes_per_s`` for as long as the other direction moves bytes too. Both latencies grow to
    ``crowded_latency_s`` and ``crowded_duplex_latency_s`` as kernels wait for copies in four hardware queues or
    more; with two or three of them by a third or two thirds of the way. What a latency is above
    ``latency_s`` a command spends behind bytes under way: a copy of fewer than ``in_flight_bytes`` pays it in
    proportion. So crowded a card moves bytes at no more than ``crowded_bandwidth_bytes_per_s`` with the link to itself:
    a copy starts later by what that costs, and by as much beside the other direction. Pageable memory goes through a
    staging buffer: its own latency and bandwidth.
    """

    latency_s: Annotated[float, About(off={"copy-latency": 0.0})]
    duplex_latency_s: Annotated[
        float, About(at_least=("latency_s",), off={"duplex": As("latency_s"), "copy-latency": 0.0})
    ]
    crowded_latency_s: Annotated[
        float, About(at_least=("latency_s",), off={"crowd": As("latency_s"), "copy-latency": 0.0})
    ]
    crowded_duplex_latency_s: Annotated[
        float,
        About(
            at_least=("duplex_latency_s", "crowded_latency_s"),
            off={"duplex": As("crowded_latency_s"), "crowd": As("duplex_latency_s"), "copy-latency": 0.0},
        ),
    ]
    in_flight_bytes: Annotated[int, About(least=1, is_measured=True)]
    bandwidth_bytes_per_s: Annotated[float, About(sped_up_with="link")]
    duplex_bandwidth_bytes_per_s: Annotated[
        float,
        About(at_most=("bandwidth_bytes_per_s",), off={"duplex": As("bandwidth_bytes_per_s")}, sped_up_with="link"),
    ]
    crowded_bandwidth_bytes_per_s: Annotated[
        float,
        About(at_most=("bandwidth_bytes_per_s",), off={"crowd": As("bandwidth_bytes_per_s")}, sped_up_with="link"),
    ]
    pageable_latency_s: Annotated[float, About(at_least=("latency_s",), gives_way=True, off={"copy-latency": 0.0})]
    pageable_bandwidth_bytes_per_s: Annotated[
        float, About(at_most=("bandwidth_bytes_per_s",), gives_way=True, sped_up_with="link")
    ]


class Host(Table, frozen=True):
    """What the issuing thread spends on each call, and what a waiting thread pays to wake up.

    ``copy_s`` and ``kernel_s``: the call of a copy or kernel. Each hardware queue that a stream has for an engine is
    cold when a program comes to it: the first copy in each direction and the first kernel of every stream take
    ``first_on_stream_s`` longer. The first copy and the first kernel of a program, and those after each call that may
    wait for the card, take ``after_wait_s`` longer each where a program makes both: the host comes to them with cold
    caches, unless it makes the same call over and over.
    ``submit_s``: from a call's return until the card can act on it. ``wake_s``: from an op's end until a
    host call that waited for it returns. A graph's launch takes ``graph_launch_s`` and then hands its copies to the
    card in ``graph_node_s`` each, kernels with them, while earlier ones run. Pageable H2D copies of at most
    ``pageable_immediate_bytes`` return at once. ``enter_s``: what it takes to make another stream the current one, in
    programs that do: see :mod:`streamsim.rules.entering`. ``linear_s``: the call of a kernel that is named ``linear``,
    a layer of an array library (0: as that of any other). ``turn_s``: how much longer any call takes that is not right
    behind another of its kind; ``first_launch_s``: the first of each kernel in a program, by its name. Both are of
    array libraries, whose front ends have them; bare calls are calibrated without.
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
    pageable_immediate_bytes: Annotated[int, About(most=1 << 40)]
    after_wait_s: IssueTime = 0.0
    first_on_stream_s: Annotated[float, About(off={"host": 0.0, "many-streams": 0.0}, sped_up_with="launch")] = 0.0
    enter_s: IssueTime = 0.0
    linear_s: IssueTime = 0.0
    turn_s: IssueTime = 0.0
    first_launch_s: IssueTime = 0.0


class HandOver(Table, frozen=True):
    """From the end of an op until one that depends on it can start on another engine.

    ``kernel_to_kernel_s`` is the same between two kernels. ``event_s`` is added when the dependence goes
    through an event to another stream, and ``event_streams_s`` for each stream of the program beyond two, up to six:
    the queues that wait meanwhile are in the way. So they are of a kernel behind one of its own stream, counted among
    the streams with kernels. A graph has no events, and nothing is in its way. Each is a mean: single hand-overs
    scatter by microseconds.
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


class CopyEngines(Table, frozen=True):
    """``count``: 0 (copies and kernels exclude each other), 1 (for both directions) or 2 (one each).

    ``connections``: the hardware queues in front of each of them, or with 0 in front of the only engine. Streams own
    queues; where they are more than the queues of an engine, they take the one used least recently from each other.
    """

    count: Annotated[int, About(most=2)]
    connections: Annotated[int, About(least=1, most=MOST_CONNECTIONS)]
    arbitration: Annotated[Arbitration, About(off={"copy-arbitration": "issue-order"})]


class Compute(Table, frozen=True):
    """The compute engine.

    ``floor_s``: the shortest time any kernel takes. ``graph_gap_s``: what passes in a graph from the end of a kernel's
    work until the next kernel of its stream begins; the card is free for others. ``concurrent_kernels``: how many may
    run side by side, not counting those whose work is done and that only have yet to end (:meth:`KernelCost.drain_s`).
    ``resident_threads``: the threads that fill the card, so a chunk of fewer elements takes no less than
    a wave of its launch (0: no such effect, and no kernel leaves the card to others before it ends).
    ``kernel_signal``: ``"run"`` when the end of a kernel is signalled to the copy engines only after the whole run of
    kernels issued back to back with it has ended (Fermi).
    """

    floor_s: Annotated[float, About(off={"launch": 0.0}, drawn_with="kernels")]
    concurrent_kernels: Annotated[int, About(least=1, most=1024, off={"side-by-side": 1})]
    resident_threads: Annotated[int, About(most=1 << 40, off={"launch": 0})]
    arbitration: Arbitration
    kernel_signal: KernelSignal
    kernels: Annotated[tuple[KernelCost, ...], About(sped_up_with="kernel")] = ()
    graph_gap_s: Annotated[float, About(off={"launch": 0.0}, drawn_with="kernels")] = 0.0


class KernelUse(NamedTuple):
    """What a kernel takes of a card: ``alone_s`` seconds alone on it, and keeps the ``share`` of it busy, on average.

    Their product is its work: the seconds that it takes of the whole card. Of a part of a launch see :func:`part_s`.
    ``drain_s``: at its end, in which the card is free for others, alone or not: whole nanoseconds, and at least one is
    left for its work, which keeps that much more of the card busy. Of a kernel with a duration its launch, the kernel
    floor; zero where the card's threads are not known, and where copies and kernels exclude each other. ``threads``:
    the share of the card's that it holds; of one with a duration, or where they are not known, what it keeps busy.
    ``resident``: the share that it holds of one whose launch keeps more of the card busy than its threads fill, both
    told; else 0.
    """

    alone_s: float
    share: float
    drain_s: float
    threads: float
    resident: float = 0.0


class Device(Displayed, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A card, its link and its host. Raises InputError naming the field, the value and what was expected.

    ``connections``: the hardware queues in front of the compute engine, if it is one by itself; see ``CopyEngines``.
    ``spread``: by dotted name the relative standard deviation with which a number is known (``compute.kernels``: all
    the kernels' times together); :mod:`streamsim.analysis.intervals` draws from it. ``memory_bytes``: the card's memory
    (None: unknown, and no schedule is too large). ``link``: what connects card and host, in words, such as
    ``PCIe gen 4 x16``.
    ``front_ends``: by name what the calls of array libraries take on this host (:mod:`streamsim.device.front_ends`).
    ``recorders``: by name what profilers take of this host's time (:mod:`streamsim.device.recorders`).
    """

    name: str
    description: str
    connections: int
    h2d: LinkDirection
    d2h: LinkDirection
    copy_engines: CopyEngines
    compute: Compute
    hand_over: HandOver
    host: Host
    sources: dict[str, str]
    spread: dict[str, float] = {}
    schema_version: int = SCHEMA_VERSION
    memory_bytes: int | None = None
    link: str = ""
    front_ends: dict[str, FrontEnd] = {}
    recorders: dict[str, Recorder] = {}

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise InputError(f"schema_version = {self.schema_version!r}: this streamsim reads {SCHEMA_VERSION}")
        tables = dict.fromkeys(("sources", "spread", "front_ends", "recorders"), dict)
        for field, kind in {**dict.fromkeys(("name", "description", "link"), str), **tables}.items():
            check_is(field, getattr(self, field), kind)
        if not self.name.strip() or "," in self.name:
            raise InputError(f"name = {shown(self.name)}: expected a name without commas, which stand between devices")
        check_whole("connections", self.connections, 1, MOST_CONNECTIONS)
        for name, front_end in self.front_ends.items():
            check_is(f"front_ends.{name}", front_end, FrontEnd)
            _check_source(f"front_ends.{name}.source", front_end.source)
        for name, recorder in self.recorders.items():
            check_choice(f"recorders: {name}", name, RECORDERS)
            check_is(f"recorders.{name}", recorder, Recorder)
            _check_source(f"recorders.{name}.source", recorder.source)
        if self.memory_bytes is not None:
            check_whole("memory_bytes", self.memory_bytes, 1, LARGEST_BYTES)
        _check_sources(self)

    def __repr__(self) -> str:
        return short(f"Device({self.name}: {self.description})")

    def source(self, name: str) -> tuple[str, str]:
        """(``measured``, ``published`` or ``assumed``; where from or why) of the number of that dotted name."""
        kind, _, text = (self.sources.get(name) or self.sources[name.rpartition(".")[0]]).partition(":")
        return kind, text.strip()

    def has_room(self, n_bytes: int) -> bool:
        """Whether device buffers may hold so many bytes, as far as that is known."""
        return self.memory_bytes is None or n_bytes <= self.memory_bytes

    def check_room(self, n_bytes: int, remedy: str = "use a ring of few buffers and more chunks") -> None:
        """Raise NoRoomError, which ends in ``remedy``, when device buffers of so many bytes are more than it has."""
        if self.memory_bytes is not None and not self.has_room(n_bytes):
            limit = "the memory limit is" if self.source("memory_bytes")[1] == LIMITED else f"{self.name} has room for"
            raise NoRoomError(
                f"device buffers of {n_bytes} bytes ({format_bytes(n_bytes)}): {limit} {self.memory_bytes}"
                f" ({format_bytes(self.memory_bytes)}); {remedy}"
            )

    def with_connections(self, connections: int) -> "Device":
        """The same card with as many hardware queues in front of every engine (CUDA_DEVICE_MAX_CONNECTIONS)."""
        copy_engines = msgspec.structs.replace(self.copy_engines, connections=connections)
        return msgspec.structs.replace(self, connections=connections, copy_engines=copy_engines)

    def kernel_use(self, kernel: Kernel) -> KernelUse:
        """What ``kernel`` takes of the card.

        Raises InputError when the kernel gives no duration and the profile has no cost for it.
        """
        full, floor_s, side_by_side = self.compute.resident_threads, self.compute.floor_s, self.runs_side_by_side
        if kernel.duration_s is None:
            cost = self.cost_of(kernel)
            alone_s = max(cost.at(kernel.elements), floor_s)
            drain_s = _drain_s(cost.drain_s(kernel.elements, full, floor_s), alone_s) if side_by_side else 0.0
            works_s = alone_s - drain_s  # on all of the card at most
            share = _share(min(kernel.elements * cost.s_per_element, works_s), alone_s)
            return KernelUse(alone_s, share, drain_s, min(1.0, kernel.elements / full) if full else share)
        whole_s, waves = kernel.duration_s / kernel.share, self._waves(kernel)
        alone_s = part_s(whole_s, kernel.share, waves, floor_s, kernel.parts)
        launch_s = floor_s if side_by_side else 0.0  # that it leaves the card to others for
        idle_s = constant_s(whole_s, waves, floor_s, kernel.parts) if side_by_side else 0.0
        fill = kernel.fill or min(1.0, waves or 1.0)  # of the whole launch
        share = _share(max(0.0, kernel.duration_s - kernel.share * idle_s) * fill, alone_s)
        few = full > 0 and waves < (kernel.fill or 0.0)  # threads keep that much busy
        resident = kernel.threads / full if few else 0.0
        return KernelUse(alone_s, share, _drain_s(launch_s, alone_s), share, resident)

    def kernel_time(self, kernel: Kernel) -> tuple[float, float]:
        """``alone_s`` and ``share`` of :meth:`kernel_use`."""
        return self.kernel_use(kernel)[:2]

    def kernel_drain_s(self, kernel: Kernel) -> float:
        """``drain_s`` of :meth:`kernel_use`."""
        return self.kernel_use(kernel).drain_s

    def kernel_paces(self, kernel: Kernel, steps: int) -> tuple[float, ...]:
        """The pace of the card with 0, 1, ... ``steps`` ``steps``-ths of its threads in use by kernels such as this.

        As a share of its full pace. Of a kernel with a duration, or where the card's threads are not known, they count
        for what they keep busy.
        """
        full = self.compute.resident_threads
        if kernel.duration_s is not None or full < steps:
            return even_paces(steps)
        return (0.0, *paces(self.cost_of(kernel), full, self.compute.floor_s, steps))

    @property
    def runs_side_by_side(self) -> bool:
        """Whether it is known what of a kernel's time leaves the card to others."""
        return self.compute.resident_threads > 0 and self.copy_engines.count > 0

    def _waves(self, kernel: Kernel) -> float:
        """How often the threads of the whole launch of ``kernel`` fill the card; 0: not known."""
        full = self.compute.resident_threads
        return (kernel.threads or kernel.elements) / kernel.share / full if full else 0.0

    def cost_of(self, kernel: Kernel) -> KernelCost:
        """The measured cost of a kernel by its name and parameter. Raises InputError when the profile has none."""
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
    """Of threads that count for what they keep busy."""
    return tuple(step / steps for step in range(steps + 1))


def _drain_s(left_s: float, alone_s: float) -> float:
    """What of a kernel's time ``alone_s`` leaves the card to others, if that is ``left_s``: on the model's clock.

    Or the work that is left would not be that of its rounded time.
    """
    return max(0, min(_whole_ns(left_s), _whole_ns(alone_s) - 1)) * 1e-9


def _whole_ns(seconds: float) -> int:
    """Half up, as the model's clock has it."""
    return math.floor(seconds * 1e9 + 0.5)


def _share(work_s: float, alone_s: float) -> float:
    return min(1.0, work_s / alone_s) if alone_s > 0 else 1.0


def number_names(value: object, path: str = "") -> set[str]:
    """Dotted names of the numbers in a profile or one of its parts (a table of costs counts as one)."""
    if isinstance(value, msgspec.Struct):
        fields = (f for f in value.__struct_fields__ if f not in ("schema_version", "spread", "sources"))
        return {name for f in fields for name in number_names(getattr(value, f), f"{path}.{f}".lstrip("."))}
    return {path} if (value and isinstance(value, tuple)) or type(value) in (int, float) else set()


def number_of(device: object, name: str) -> float:
    """The number of a profile of that dotted name."""
    for part in name.split("."):
        device = getattr(device, part)
    assert isinstance(device, int | float)
    return device


def tables_of(device: Device) -> dict[str, Table]:
    """By name the tables of a profile."""
    parts = {name: getattr(device, name) for name in device.__struct_fields__}
    return {name: part for name, part in parts.items() if isinstance(part, Table)}


def left_out(device: Device) -> set[str]:
    """Numbers that a profile may leave out, and whose effect then is off."""
    fields = ((name, table, field) for name, table in tables_of(device).items() for field in fields_of(type(table)))
    return {f"{name}.{field.name}" for name, table, field in fields if getattr(table, field.name) == field.default}


def _check_source(name: str, source: str) -> None:
    kind, _, text = source.partition(":")
    if kind not in SOURCE_KINDS or not text.strip():
        raise InputError(f"{name} = {source!r}: expected 'measured: ...', 'published: ...' or 'assumed: ...'")


def _check_sources(device: Device) -> None:
    known = number_names(device)
    sections = {name.rpartition(".")[0] for name in known}
    for name, source in device.sources.items():
        if name not in known | sections:
            raise InputError(f"sources.{name} = {source!r}: the profile has no number of that name")
        _check_source(f"sources.{name}", source)
    for name in sorted(known - left_out(device)):
        if name not in device.sources and name.rpartition(".")[0] not in device.sources:
            raise InputError(f"{name}: has no source; add sources.{name!r} = 'measured|published|assumed: ...'")
    for name, value in device.spread.items():
        if name not in known:
            raise InputError(f"spread.{name} = {value!r}: the profile has no number of that name")
        check_number(f"spread.{name}", value, 0.0, 1e9)
