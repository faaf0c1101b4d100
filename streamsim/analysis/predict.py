"""A prediction: what the model says of a schedule on a device, with what it is compared with."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from streamsim.analysis.bounds import Bound, bound_json, bound_of
from streamsim.analysis.formulas import published_of, stage_times
from streamsim.collector import collector_off
from streamsim.compiled import run_one_of_many, simulate_one_of_many
from streamsim.device import Device, as_device, known_within, link_words
from streamsim.displayed import Result, attributes
from streamsim.errors import short
from streamsim.lowering import lower
from streamsim.program import Schedule, check_schedule, serialized
from streamsim.text import format_ratio, format_seconds
from streamsim.timeline import Timeline

SerialProgram = Literal["unchunked", "serial"]


class EngineUse(msgspec.Struct, frozen=True):
    """How long an engine had something to do, and its share of the makespan (0..1)."""

    busy_s: float
    utilisation: float


class Prediction(Result, msgspec.Struct, frozen=True):
    """What the model says of a schedule on a device. Times in seconds.

    ``serial_s``: the same work without overlap, on the same device, and ``serial_program`` what it is: the
    ``"unchunked"`` program that the schedule says it was cut from; or, where it says none, its own ops made
    ``"serial"``, with blocking copies; it would hold ``serial_device_bytes`` on the card,
    which may be more than there is room for. ``one_by_one_s``: the second, always. ``issued_bound``: what
    no run of this schedule beats. ``work_bound``: what no way to cut and issue its workload beats; None where that is
    not known. ``calls_return_s``: when all calls but the last wait have returned to the host. ``formulas``: the
    published predictors, by name. ``memory_bytes``: the card's memory, if known. ``link``: what link was assumed, and
    how well it is known.
    """

    schema_version: ClassVar[int] = 2
    timeline: Timeline
    device: str
    makespan_s: float
    serial_s: float
    serial_program: SerialProgram
    serial_device_bytes: int
    one_by_one_s: float
    issued_bound: Bound
    calls_return_s: float
    engines: dict[str, EngineUse]
    overlap_s: float
    formulas: dict[str, float]
    memory_bytes: int | None
    link: str
    work_bound: Bound | None = None

    def __repr__(self) -> str:
        took = format_seconds(self.makespan_s, self.known_within)
        return short(f"Prediction({took} on {self.device}, {format_ratio(self.speedup, self.known_within)})")

    @property
    def device_bytes(self) -> int:
        """What the schedule's device buffers hold on the card."""
        return self.schedule.device_bytes

    @property
    def schedule(self) -> Schedule:
        """The schedule that was simulated."""
        return self.timeline.schedule

    @property
    def known_within(self) -> float:
        """The relative error of the times if the profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return known_within(self.timeline.device)

    @property
    def speedup(self) -> float:
        """Serial time over predicted time (1 when there is nothing to do)."""
        return self._gain(self.serial_s)

    @property
    def speedup_over_one_by_one(self) -> float:
        """The same over the schedule's own ops one by one: what overlap alone brings, however it was cut."""
        return self._gain(self.one_by_one_s)

    @property
    def serial_fits(self) -> bool:
        """Return True if the program that it is compared with has room on the card, as far as that is known."""
        return self.memory_bytes is None or self.serial_device_bytes <= self.memory_bytes

    def _gain(self, seconds: float) -> float:
        return seconds / self.makespan_s if self.makespan_s else 1.0

    def over(self, bound: Bound) -> float:
        """Predicted time over that of a bound, 1 at best (1 when there is nothing to do)."""
        return self.makespan_s / bound.seconds if bound.seconds else 1.0

    def beside(self, bound: Bound) -> Prediction:
        """The same beside the bound of its work, which no run of this schedule beats either.

        The rounding of the model's clock may put that bound above the makespan.
        """
        least = msgspec.structs.replace(bound, seconds=min(bound.seconds, self.makespan_s))
        issued = max(self.issued_bound, least, key=attrgetter("seconds"))
        return msgspec.structs.replace(self, work_bound=least, issued_bound=issued)

    def _json(self) -> dict[str, Any]:
        times = ("makespan_s", "serial_s", "serial_program", "serial_fits", "speedup")
        return {
            **attributes(self, *times, "one_by_one_s", "speedup_over_one_by_one"),
            **bound_json("work", self.work_bound),
            **bound_json("issued", self.issued_bound),
            **attributes(self, "calls_return_s", "overlap_s", "engines"),
            "formulas_s": self.formulas,
            **attributes(self, "device_bytes", "memory_bytes", "link"),
            "inputs": {"schedule": self.schedule.name, "device": self.device},
        }


@collector_off()  # looking for garbage among the ops of a large schedule takes a tenth of it all
def predict(schedule: Schedule, device: Device | str | Path) -> Prediction:
    """Simulate ``schedule`` on ``device``, or the one of that name, and beside it the serial programs and the bounds.

    Raises InputError for an unknown device, and when it has no cost for a kernel that the schedule names, or no room
    for its buffers.
    """
    check_schedule("schedule", schedule)
    device = as_device(device)
    device.check_room(schedule.device_bytes)
    lowered = lower(schedule, device)
    timeline = run_one_of_many(lowered)
    one_by_one_s = _makespan_s(serialized(schedule), device)
    used = timeline.utilisation
    unchunked = schedule.unchunked
    return Prediction(
        timeline=timeline,
        device=device.name,
        makespan_s=timeline.makespan_s,
        serial_s=one_by_one_s if unchunked is None else _makespan_s(unchunked, device),
        serial_program="serial" if unchunked is None else "unchunked",
        serial_device_bytes=(schedule if unchunked is None else unchunked).device_bytes,
        one_by_one_s=one_by_one_s,
        issued_bound=bound_of(lowered),
        calls_return_s=timeline.calls_return_s,
        engines={name: EngineUse(busy, used[name]) for name, busy in timeline.busy_s.items()},
        overlap_s=timeline.overlap_s,
        formulas=published_of(stage_times(schedule, device, lowered)),
        memory_bytes=device.memory_bytes,
        link=link_words(device, bool(schedule.pageable_names)),
    )


def _makespan_s(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device, many=1).makespan_s
