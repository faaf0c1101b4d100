"""What searches for the best way to issue some work find.

A candidate is one way to issue some work: a configuration of a grid, a placement of layers, or changes of a program.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from streamsim.advice import WhatIf
from streamsim.analysis import Bound, bound_json
from streamsim.device import Device, known_within
from streamsim.displayed import Result, attributes
from streamsim.errors import short
from streamsim.program import Layers, Schedule, Workload
from streamsim.search.grid import Grid
from streamsim.text import format_ratio, format_seconds

C = TypeVar("C")
Progress = Callable[[int, int], None]  # takes the amount done and the total

SURE = ("programs", "simulated", "left_open", "left_open_because", "lists_all", "exact", "simplest_exact", "floor_s")
NEVER = 1 << 62  # ticks
NEAR_PERCENT = 1  # the simplest candidate within this margin of the shortest is the one to use
BUDGET_OPS = 400_000  # SimPy simulates this many ops in 5 to 14 s


def within(ticks: int, shortest: int, percent: int) -> bool:
    """Return True if ``ticks`` are at most ``percent`` above ``shortest``."""
    return 100 * ticks <= (100 + percent) * shortest


def near_percent(device: Device) -> int:
    """Return how near the best the simplest program of a grid is: 1 %, or more if the latencies are only assumed."""
    return max(NEAR_PERCENT, round(100 * known_within(device)))


class SimulatedProgram(msgspec.Struct, Generic[C], frozen=True):
    """A simulated program.

    - ``config``: the candidate; None for a program that serves only as a comparison.
    - ``words``: the candidate in words.
    - ``makespan_s``: its predicted seconds.
    - ``serial_s``: seconds of the unchunked program with blocking copies (None: unknown).
    - ``device_bytes``: memory that it holds on the card (0: unknown).
    - ``more``: further fields of its JSON.
    """

    config: C
    words: str
    makespan_s: float
    serial_s: float | None = None
    device_bytes: int = 0
    more: dict[str, Any] = {}

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and strings. Unknown values are left out."""
        fields = msgspec.structs.asdict(self.config) if isinstance(self.config, msgspec.Struct) else {}
        found: dict[str, Any] = {**fields, **self.more, "makespan_s": self.makespan_s}
        if self.serial_s is not None:
            found |= {"serial_s": self.serial_s, "speedup": self.serial_s / self.makespan_s if self.makespan_s else 1.0}
        return {**found, "device_bytes": self.device_bytes} if self.device_bytes else found


class Best(Result, msgspec.Struct, Generic[C], frozen=True):
    """The best way to issue some work on a device, and how certain it is. Times are in seconds.

    **Programs.**

    - ``best``: the fastest program found.
    - ``simplest``: the simplest program within ``near_percent`` of ``best``, the one to use. In a grid, it has the
      fewest chunks, then streams; among placements of layers, the least memory on the card; among changes of a program,
      the fewest changes.
    - ``compared``: other programs by name, such as ``serial`` and ``usual``.

    **Conditions.**

    - ``work``, ``card``: the workload, layers or program, and the device; ``link``: words for the assumed link.
    - ``memory_bytes``, ``pinned_limit_bytes``: the most memory on the card, and the most pinned memory on the host
      (None: no known limit).
    - ``compiled``: True if the compiled twin simulated.

    **Limits of ``best``.**

    - ``work_bound``: a time that no way to cut and issue the workload beats; ``issued_bound``: one that ``best`` cannot
      beat.

    **Certainty.**

    - ``programs``, ``simulated``: the number of candidates, and of those simulated.
    - ``left_open``: the number of candidates that may still be within the margins, for the reason
      ``left_open_because``. The lower bounds of all others prove them slower.
    - ``lists_all``: True if ``programs`` counts every possible candidate.
    - ``exact``: True if ``best`` is proved the fastest; ``simplest_exact``: True if ``simplest`` is proved the simplest
      that is so near.
    - ``floor_s``: no candidate takes less (0: nothing is proved).

    **Only for a grid.**

    - ``grid``; ``left_out_whys``: the number of its programs that were not considered, by reason.
    - ``most_chunks``: the most chunks that the workload can be cut into. Programs of more chunks are not counted in
      ``left_out_whys`` (None: the grid has no more).

    **Only for changes of a program.**

    - ``changes``: the gain of each change of ``simplest`` alone (None: it has no change); ``not_tried``: changes that
      were not tried, and the reasons.
    """

    schema_version: ClassVar[int] = 3
    best: SimulatedProgram[C]
    simplest: SimulatedProgram[C]
    compared: dict[str, SimulatedProgram[Any]]
    work: Workload | Layers | Schedule
    card: Device
    link: str
    programs: int
    simulated: int
    exact: bool
    simplest_exact: bool
    floor_s: float
    issued_bound: Bound
    compiled: bool
    lists_all: bool = True
    left_open: int = 0
    left_open_because: str | None = None
    work_bound: Bound | None = None
    memory_bytes: int | None = None
    pinned_limit_bytes: int | None = None
    grid: Grid | None = None
    left_out_whys: dict[str, int] = {}
    most_chunks: int | None = None
    changes: WhatIf | None = None
    not_tried: tuple[str, ...] = ()

    def __repr__(self) -> str:
        took = format_seconds(self.best.makespan_s, self.known_within)
        gain = format_ratio(self.speedup, self.known_within)
        return short(f"Best({self.best.words}: {took} on {self.device}, {gain})")

    @property
    def known_within(self) -> float:
        """The relative error of the times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return known_within(self.card)

    @property
    def near_percent(self) -> int:
        """The most per cent that ``simplest`` is slower than ``best``."""
        return near_percent(self.card) if self.grid else NEAR_PERCENT

    @property
    def device(self) -> str:
        """The name of the device."""
        return self.card.name

    @property
    def left_out(self) -> int:
        """The number of distinct programs of the grid that were not considered."""
        return sum(self.left_out_whys.values())

    @property
    def left_out_why(self) -> str:
        """The reasons why programs of the grid were not considered; empty if all were."""
        whys = self.left_out_whys
        return "; ".join(whys if len(whys) == 1 else (f"{count}: {why}" for why, count in whys.items()))

    @property
    def speedup(self) -> float:
        """The time of the serial program over that of ``best``; for changes of a program, that of the unchanged one."""
        first = next(iter(self.compared.values()))
        return self.gain(self.best.serial_s or first.makespan_s)

    @property
    def nearness(self) -> float:
        """The most that a candidate may be faster than ``best``, as a share of its time; 0 if ``best`` is exact."""
        return 1 - self.floor_s / self.best.makespan_s if self.best.makespan_s else 0.0

    def gain(self, seconds: float) -> float:
        """Return ``seconds`` over the time of ``best`` (1 if there is no work)."""
        return seconds / self.best.makespan_s if self.best.makespan_s else 1.0

    def fits(self, found: SimulatedProgram[Any]) -> bool:
        """Return True if a program fits on the card, or if the memory limit is unknown."""
        return self.memory_bytes is None or found.device_bytes <= self.memory_bytes

    def _json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"best": self.best.to_json(), "simplest": self.simplest.to_json()}
        for name, found in self.compared.items():
            said |= {f"{name}_s": found.makespan_s} if found.config is None else {name: found.to_json()}
            if found.device_bytes:
                said |= {f"{name}_bytes": found.device_bytes, f"{name}_fits": self.fits(found)}
        said |= {"first": self._first(), "speedup": self.speedup}
        said |= bound_json("work", self.work_bound) if self.work_bound else {}
        said |= bound_json("issued", self.issued_bound)
        said |= {"device_bytes": self.best.device_bytes, "inputs": {"device": self.device}}
        said |= attributes(self, "memory_bytes", "link", *SURE, "compiled")
        if isinstance(self.work, Layers):
            return (
                said | attributes(self.work, "passes", "direction", "assumed") | attributes(self, "pinned_limit_bytes")
            )
        if isinstance(self.work, Schedule):
            changes = self.changes.to_json() if self.changes else {}
            told = {name: changes.get(name, []) for name in ("alone", "words", "assumed", "notes")}
            return {**said, **told, "not_tried": self.not_tried}
        return {
            **said,
            "serial_program": "unchunked",
            "gain_over_usual": self.gain(self.compared["usual"].makespan_s),
            **attributes(self, "left_out", "left_out_why", "most_chunks"),
        }

    def _first(self) -> dict[str, Any]:
        """What to use: in words, as options of ``predict`` or ``whatif``, with its gain and its condition."""
        use, more = self.simplest, self.simplest.more
        if "options" in more:
            return {name: more[name] for name in ("words", "options", "gain", "condition")}
        usual, now = type(use.config)(), msgspec.structs.asdict(use.config)  # type: ignore[arg-type]
        other = ((name, value) for name, value in now.items() if value != getattr(usual, name))
        options = [word for name, value in other for word in (f"--{name.replace('_', '-')}", str(value))]
        before_s = use.serial_s or next(iter(self.compared.values())).makespan_s
        gain = before_s / use.makespan_s if use.makespan_s else 1.0
        return {"words": use.words, "options": options, "gain": gain, "condition": ""}
