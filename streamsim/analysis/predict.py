"""A prediction: what the model says of a schedule on a device, with what it is compared with."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from streamsim.analysis.bounds import Bound, bound_json, bound_of
from streamsim.analysis.formulas import published
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


class Prediction(Result, msgspec.Struct, frozen=True):
    """What the model says of a schedule on a device. Times in seconds.

    - ``serial_s``: the same work without overlap. ``serial_program``: ``"unchunked"``, the program that the schedule
      says it was cut from; if it names none, ``"serial"``, its own ops with blocking copies. On the card this program
      would hold ``serial_device_bytes``, for which there may be no room. ``one_by_one_s``: the second, always.
    - ``issued_bound``: what no run of this schedule beats. ``work_bound``: what no way to cut and issue its workload
      beats; None if that is not known. ``formulas``: the published predictors, by name.
    - ``memory_bytes``: the card's memory, if known. ``link``: what link was assumed, and how well it is known.
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

    def _json(self) -> dict[str, Any]:
        busy_s, used = self.timeline.busy_s, self.timeline.utilisation
        times = ("makespan_s", "serial_s", "serial_program", "serial_fits", "speedup")
        return {
            **attributes(self, *times, "one_by_one_s", "speedup_over_one_by_one"),
            **bound_json("work", self.work_bound),
            **bound_json("issued", self.issued_bound),
            **attributes(self.timeline, "calls_return_s", "overlap_s"),
            "engines": {name: {"busy_s": busy, "utilisation": used[name]} for name, busy in busy_s.items()},
            "formulas_s": self.formulas,
            **attributes(self, "device_bytes", "memory_bytes", "link"),
            "inputs": {"schedule": self.schedule.name, "device": self.device},
        }


@collector_off()  # looking for garbage among the ops of a large schedule takes a tenth of it all
def predict(schedule: Schedule, device: Device | str | Path, work_bound: Bound | None = None) -> Prediction:
    """Simulate ``schedule`` on ``device``, or the one of that name, and beside it the serial programs and the bounds.

    ``work_bound``: the bound of its workload, if known; no run of the schedule beats that one either. The rounding of
    the model's clock may put it above the makespan, and then it is as much. Raises InputError for an unknown device,
    and when it has no cost for a kernel that the schedule names, or no room for its buffers.
    """
    check_schedule("schedule", schedule)
    device = as_device(device)
    device.check_room(schedule.device_bytes)
    lowered = lower(schedule, device)
    timeline, issued = run_one_of_many(lowered), bound_of(lowered)
    if work_bound is not None:
        work_bound = replace(work_bound, seconds=min(work_bound.seconds, timeline.makespan_s))
        issued = max(issued, work_bound, key=attrgetter("seconds"))
    one_by_one_s = _makespan_s(serialized(schedule), device)
    unchunked = schedule.unchunked
    return Prediction(
        timeline=timeline,
        device=device.name,
        makespan_s=timeline.makespan_s,
        serial_s=one_by_one_s if unchunked is None else _makespan_s(unchunked, device),
        serial_program="serial" if unchunked is None else "unchunked",
        serial_device_bytes=(schedule if unchunked is None else unchunked).device_bytes,
        one_by_one_s=one_by_one_s,
        issued_bound=issued,
        formulas=published(lowered),
        memory_bytes=device.memory_bytes,
        link=link_words(device, bool(schedule.pageable_names)),
        work_bound=work_bound,
    )


def _makespan_s(schedule: Schedule, device: Device) -> float:
    return simulate_one_of_many(schedule, device, many=1).makespan_s
