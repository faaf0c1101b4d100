"""What a search for the best way to issue some work has found: one value, whatever the candidates were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from streamsim.analysis.bounds import bound_json
from streamsim.device.variations import faster
from streamsim.displayed import Result, attributes
from streamsim.program.layers import Layers
from streamsim.program.workload import Workload
from streamsim.text.quantities import format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamsim.analysis.bounds import Bound
    from streamsim.analysis.what_if import WhatIf
    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule
    from streamsim.search.grid import Grid

C = TypeVar("C")
W = TypeVar("W")
FASTER = 1.1
RANGE_PERCENT = 5
SURE = ("programs", "simulated", "left_open", "left_open_because", "lists_all", "exact", "simplest_exact", "floor_s")


class Found(msgspec.Struct, Generic[C], frozen=True):
    """A program that was simulated: how it issues the work, what it takes, and what memory it holds.

    ``config``: the candidate; None if the program is only compared with. ``words``: the same for people. ``serial_s``:
    what the unchunked program with blocking copies takes in its place. ``device_bytes``: what it holds on the card (0:
    not known). ``more``: what else JSON says of it.
    """

    config: C
    words: str
    makespan_s: float
    serial_s: float | None = None
    device_bytes: int = 0
    more: dict[str, Any] = {}

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and strings; what is not known is left out."""
        found: dict[str, Any] = {**msgspec.structs.asdict(self.config), **self.more, "makespan_s": self.makespan_s}  # type: ignore[arg-type]
        if self.serial_s is not None:
            found |= {"serial_s": self.serial_s, "speedup": self.serial_s / self.makespan_s if self.makespan_s else 1.0}
        return {**found, "device_bytes": self.device_bytes} if self.device_bytes else found


class Flatness(msgspec.Struct, frozen=True):
    """How much it matters to hit the optimum of a grid. What a search within a budget does not know is None.

    ``share_within``: by margin in per cent, the share (0..1) of the grid's programs no slower than that above the
    optimum. ``chunks_within``: from and to which number of chunks, with the rest of the best configuration
    unchanged (no more streams than chunks), every number of chunks of the grid stays within ``range_percent``.
    """

    share_within: dict[int, float | None]
    chunks_within: tuple[int, int] | None
    range_percent: int = RANGE_PERCENT

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; units are in the names."""
        chunks = self.chunks_within and dict(zip(("from", "to"), self.chunks_within, strict=True))
        return {
            "share_within": {f"{margin}%": share for margin, share in self.share_within.items()},
            "chunks_within": chunks and {"percent": self.range_percent, **chunks},
        }


class Best(Result, msgspec.Struct, Generic[C], frozen=True):
    """The best way to issue some work on a device, and what to make of it. Times in seconds.

    ``best``: the fastest program found. ``simplest``: the simplest one within 1 % of it, which is what to use: of a
    grid the fewest chunks, then streams; of placements of layers the least memory on the card; of changes of a program
    the fewest. ``compared``: other programs by name, such as ``serial`` and ``usual``.

    ``work``, ``card``: a workload, layers or a program, and the device. ``memory_bytes``: what may be held on the card,
    and ``pinned_limit_bytes`` pinned on the host (None: no limit is known). ``link``: what was assumed.

    ``work_bound``: what no way to cut and issue a workload beats; ``issued_bound``: what ``best`` cannot beat.
    ``critical_s``: its makespan split over what its critical path runs through. ``faster_s``: its makespan with one
    thing 1.1 times as fast. Both are empty for a program's changes.

    **How sure it is.** Of ``programs`` candidates ``simulated`` were simulated, and ``left_open`` may still be as good
    as the margins say, because of ``left_open_because``; the bounds of the others prove them slower. ``lists_all``:
    whether these are all that there are. ``exact``: whether ``best`` is proved the fastest, ``simplest_exact`` the
    simplest within 1 %. No candidate takes less than ``floor_s`` (0: nothing is proved).

    Of a grid only: ``grid``; ``flatness``; ``left_out_whys``: how many of its programs were not looked at, by why,
    besides those of more chunks than ``most_chunks``, which the workload can be cut into (None: the grid has no more).
    Of a program's changes only: ``changes``: what each change of ``simplest`` brings alone (None: it has none);
    ``not_tried``: what was not tried, and why. ``compiled``: whether the compiled twin simulated.
    """

    schema_version: ClassVar[int] = 3
    best: Found[C]
    simplest: Found[C]
    compared: dict[str, Found[Any]]
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
    critical_s: dict[str, float] = {}
    faster_s: dict[str, float] = {}
    memory_bytes: int | None = None
    pinned_limit_bytes: int | None = None
    grid: Grid | None = None
    flatness: Flatness = Flatness({}, None)
    left_out_whys: dict[str, int] = {}
    most_chunks: int | None = None
    changes: WhatIf | None = None
    not_tried: tuple[str, ...] = ()

    def __repr__(self) -> str:
        took = format_seconds(self.best.makespan_s)
        return short(f"Best({self.best.words}: {took} on {self.device}, {self.speedup:.2f}x)")

    @property
    def device(self) -> str:
        """The name of the device."""
        return self.card.name

    @property
    def left_out(self) -> int:
        """How many distinct programs of the grid were not looked at."""
        return sum(self.left_out_whys.values())

    @property
    def left_out_why(self) -> str:
        """Why they were not; empty when there are none."""
        whys = self.left_out_whys
        return "; ".join(whys if len(whys) == 1 else (f"{count}: {why}" for why, count in whys.items()))

    @property
    def speedup(self) -> float:
        """How many times as fast as the serial program ``best`` is, or else as the program unchanged."""
        first = next(iter(self.compared.values()))
        return self.gain(self.best.serial_s or first.makespan_s)

    @property
    def nearness(self) -> float:
        """How much faster than ``best`` a candidate may be, as a share of its time; 0 where it is exact."""
        return 1 - self.floor_s / self.best.makespan_s if self.best.makespan_s else 0.0

    def gain(self, seconds: float) -> float:
        """How many times as fast ``best`` is as something that takes ``seconds`` (1 when there is nothing to do)."""
        return seconds / self.best.makespan_s if self.best.makespan_s else 1.0

    def fits(self, found: Found[Any]) -> bool:
        """Whether the card has room for a program, as far as is known."""
        return self.memory_bytes is None or found.device_bytes <= self.memory_bytes

    def _json(self) -> dict[str, Any]:
        return {
            **{name: found.to_json() for name, found in self._configs().items()},
            **self._compared_json(),
            "speedup": self.speedup,
            **(bound_json("work", self.work_bound) if self.work_bound else {}),
            **bound_json("issued", self.issued_bound),
            **({"critical_path_s": self.critical_s, "faster_by": FASTER} if self.critical_s else {}),
            **attributes(self, "faster_s", "memory_bytes", "link"),
            "device_bytes": self.best.device_bytes,
            **attributes(self, *SURE, "compiled"),
            **(self._grid_json() if self.grid else {}),
            **self._other_json(),
            "inputs": {"device": self.device},
        }

    def _configs(self) -> dict[str, Found[Any]]:
        candidates = {name: found for name, found in self.compared.items() if found.config is not None}
        return {"best": self.best, "simplest": self.simplest, **candidates}

    def _compared_json(self) -> dict[str, Any]:
        said = dict[str, Any]()
        for name, found in self.compared.items():
            if found.config is None:
                said[f"{name}_s"] = found.makespan_s
            if found.device_bytes:
                said |= {f"{name}_bytes": found.device_bytes, f"{name}_fits": self.fits(found)}
        return said

    def _grid_json(self) -> dict[str, Any]:
        return {
            "serial_program": "unchunked",
            "gain_over_usual": self.gain(self.compared["usual"].makespan_s),
            **self.flatness.to_json(),
            **attributes(self, "left_out", "left_out_why", "most_chunks"),
        }

    def _other_json(self) -> dict[str, Any]:
        if isinstance(self.work, Layers):
            return {"passes": self.work.passes, "pinned_limit_bytes": self.pinned_limit_bytes}
        if isinstance(self.work, Workload):
            return {}
        said = (
            {"alone": [], "words": [], "assumed": [], "notes": []} if self.changes is None else self.changes.to_json()
        )
        return {**{name: said[name] for name in ("alone", "words", "assumed", "notes")}, "not_tried": self.not_tried}


def with_one_thing_faster(work: W, with_faster_kernels: W, device: Device) -> Mapping[str, tuple[W, Device]]:
    """Return the work and the device with one thing 1.1 times as fast: bandwidths times 1.1, or times over 1.1."""
    return {
        "link": (work, faster(device, "link", FASTER)),
        "kernel": (with_faster_kernels, faster(device, "kernel", FASTER)),
        "launch": (work, faster(device, "launch", FASTER)),
    }
