"""What searches for the best way to issue some work find.

A candidate is one way to issue some work: a configuration of a grid, a placement of layers, or changes of a program.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from streamsim.analysis import Bound, bound_json
from streamsim.device import Device, known_within, link_words
from streamsim.displayed import Result, attributes
from streamsim.errors import short
from streamsim.program import Layers, Schedule, Workload
from streamsim.search.grid import Grid
from streamsim.text import format_ratio, format_seconds

C = TypeVar("C")
Progress = Callable[[int, int], None]  # takes the amount done and the total

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
    - ``words``, ``options``: the candidate in words, and as options of ``predict`` or ``whatif``.
    - ``makespan_s``: its predicted seconds.
    - ``gain``: seconds of the program that it is compared with, over ``makespan_s``.
    - ``condition``: what must hold that the work does not show, in words behind "if"; "" for nothing.
    - ``device_bytes``: memory that it holds on the card (0: unknown).
    - ``more``: further fields of its JSON.
    """

    config: C
    words: str
    makespan_s: float
    options: tuple[str, ...] = ()
    gain: float = 1.0
    condition: str = ""
    device_bytes: int = 0
    more: dict[str, Any] = {}

    def use(self) -> dict[str, Any]:
        """Return what to use: in words and options, with its gain and its condition."""
        return attributes(self, "words", "options", "gain", "condition")

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and strings. An unknown memory is left out."""
        fields = msgspec.structs.asdict(self.config) if isinstance(self.config, msgspec.Struct) else {}
        memory = {"device_bytes": self.device_bytes} if self.device_bytes else {}
        return {**fields, **self.use(), **self.more, "makespan_s": self.makespan_s, **memory}


class Best(Result, msgspec.Struct, Generic[C], frozen=True):
    """The best way to issue some work on a device, and how certain it is. Times are in seconds.

    **Programs.**

    - ``best``: the fastest program found.
    - ``simplest``: the simplest program within ``near_percent`` of ``best``, the one to use. In a grid, it has the
      fewest chunks, then streams; among placements of layers, the least memory on the card; among changes of a program,
      the fewest changes.
    - ``compared``: other programs by name, such as ``serial`` and ``usual``.

    **Conditions.**

    - ``work``, ``card``: the workload, layers or program, and the device.
    - ``memory_bytes``: the most memory on the card (None: no known limit).
    - ``grid``: the grid that was searched (None: the work is no workload); ``left_out``: the number of its programs
      that need more memory.

    **Limits of ``best``.**

    - ``work_bound``: a time that no way to cut and issue the workload beats; ``issued_bound``: one that ``best`` cannot
      beat.

    **Certainty.**

    - ``programs``, ``simulated``: the number of candidates, and of those simulated.
    - ``exact``: True if ``best`` is proved the fastest, and in a grid ``simplest`` the simplest that is so near.
    - ``floor_s``: no candidate takes less (0: nothing is proved).
    - ``not_tried``: what would be clearly faster under a condition that somebody must say first; "" for nothing.
    """

    schema_version: ClassVar[int] = 4
    best: SimulatedProgram[C]
    simplest: SimulatedProgram[C]
    compared: dict[str, SimulatedProgram[Any]]
    work: Workload | Layers | Schedule
    card: Device
    programs: int
    simulated: int
    exact: bool
    floor_s: float
    issued_bound: Bound
    work_bound: Bound | None = None
    memory_bytes: int | None = None
    grid: Grid | None = None
    left_out: int = 0
    not_tried: str = ""

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
    def link(self) -> str:
        """The device's link and rates, in words."""
        return link_words(self.card, self.grid is not None and self.grid.memory == "pageable")

    @property
    def speedup(self) -> float:
        """The time of the serial program over that of ``best``; for changes of a program, that of the unchanged one."""
        return self.ratio(next(iter(self.compared.values())).makespan_s)

    def ratio(self, seconds: float) -> float:
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
        return {
            **said,
            "first": self.simplest.use(),
            **(bound_json("work", self.work_bound) if self.work_bound else {}),
            **bound_json("issued", self.issued_bound),
            "inputs": {"device": self.device},
            "device_bytes": self.best.device_bytes,
            **attributes(self, "speedup", "memory_bytes", "link", "programs", "simulated"),
            **attributes(self, "exact", "floor_s", "left_out", "not_tried"),
        }
