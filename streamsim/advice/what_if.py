"""The gains of changes of a program: the program unchanged, with each change alone, and with all of them, simulated."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from streamsim.advice.engine import AND_WAITS, Trial, case_of
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, changed, known_within
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError
from streamsim.program import FIRST_TOUCH, Copy, HostWork, Schedule, check_schedule
from streamsim.text import format_bytes, format_ratio, format_seconds, short
from streamsim.timeline import Timeline
from streamsim.transform import Change, Changed, Origin, Work, changed_by, has_pageable

replace = msgspec.structs.replace
FEW = 10  # changes of a program, or about
ASSUMED_RATES = 0.5, 1.25  # times a rate of pinned copies that nobody measured: half of the lanes, a quarter more


class WhatIf(Result, msgspec.Struct, frozen=True):
    """What changes bring.

    - ``before``: the program without them; ``alone``: with each that can be made by itself; ``together``: with all.
    - ``notes``: what they cost beside.
    - ``as_it_is``, ``timeline``: the time lines without them and with all.
    """

    schema_version: ClassVar[int] = 2  # 2: chunks are those of the whole program, not of each step
    before: Trial
    alone: tuple[Trial, ...]
    together: Trial
    notes: tuple[str, ...]
    timeline: Timeline
    as_it_is: Timeline

    @property
    def work(self) -> Work:
        """The program with all changes, on its device."""
        return self.together.made.work

    def __repr__(self) -> str:
        before, after = (format_seconds(one.takes_s, self.known_within) for one in (self.before, self.together))
        return short(f"WhatIf({self.together.change}: {before} -> {after})")

    @property
    def known_within(self) -> float:
        """The relative error of the times if a profile's latencies are assumed: 0.10 is 10 %; else 0."""
        return max(self.as_it_is.known_within, self.timeline.known_within)

    def _json(self) -> dict[str, Any]:
        device, made = self.as_it_is.device, self.together.made
        return {
            "device": device and device.name,
            "first": self.together.to_json(),
            "before": _json(self.before),
            "alone": list(map(_json, self.alone)),
            "together": _json(self.together),
            "words": made.words,
            "assumed": made.assumes,
            "notes": self.notes,
        }


def _json(trial: Trial) -> dict[str, Any]:
    return {"makespan_s": trial.takes_s, **attributes(trial, "change", "gain", "binds")}


def what_if(
    schedule: Schedule,
    device: Device | str | Path,
    changes: Sequence[Change],
    independent: bool = False,
    source: Origin | None = None,
) -> WhatIf:
    """Simulate ``schedule`` on ``device``, with each of ``changes`` alone and with all of them, in their order.

    ``device``: a Device, or the name or file of one. ``independent``: its steps need nothing of each other and can be
    cut, whatever the schedule shows. ``source``: what the schedule was made from, if known: then a change is another
    configuration of the same work. A change that can be made only beside another one has no row of its own. Raises
    InputError if the changes cannot be made together, and NoRoomError if they need more memory than the card has.
    """
    if not changes:
        raise InputError("changes = (): nothing to change; give at least one")
    check_schedule("schedule", schedule)
    device = as_device(device)
    unchanged, case = Work(schedule, device, source), case_of(schedule, device, source)
    before, as_it_is = _tried(Changed(unchanged), (), 0.0)
    made = _made(changes, case, independent)
    if case.schedule is not schedule:
        made = made._replace(words=(*made.words, AND_WAITS), options=(*made.options, ""))
    together, timeline = _tried(made, tuple(changes), before.takes_s)
    alone = (together,) if len(changes) == 1 else tuple(_each_alone(changes, case, before.takes_s))
    notes = tuple(_notes(unchanged, made.work))
    return WhatIf(before, alone, together, notes, timeline, as_it_is)


def _made(changes: Sequence[Change], case: Work, independent: bool = True) -> Changed:
    """Return the program with the changes. Raises NoRoomError if they take away the room that it has on the card."""
    made = changed_by(changes, case, independent)
    if case.device.has_room(case.schedule.device_bytes):
        made.work.device.check_room(made.work.schedule.device_bytes, "leave out the change that needs it")
    return made


def _each_alone(changes: Iterable[Change], case: Work, before_s: float) -> Iterator[Trial]:
    for change in changes:
        with suppress(InputError):  # another one makes it possible
            yield _tried(_made([change], case), (change,), before_s)[0]


def _tried(made: Changed, changes: tuple[Change, ...], before_s: float) -> tuple[Trial, Timeline]:
    """Return what changes come to, and the time line. ``before_s``: the time without them, 0 of the program itself."""
    timeline = simulate_one_of_many(*made.work[:2], many=FEW)
    takes_s = made.work.seconds_of(timeline)
    return Trial(made, changes, takes_s, before_s / takes_s if before_s and takes_s else 1.0), timeline


def _notes(before: Work, after: Work) -> Iterator[str]:
    within = known_within(before.device)
    touched_s = sum(op.duration_s for op in after.schedule.ops if isinstance(op, HostWork) and op.name == FIRST_TOUCH)
    if has_pageable(before.schedule) and not has_pageable(after.schedule):
        names = before.schedule.pageable_names
        copies = [op for op in before.schedule.ops if isinstance(op, Copy) and op.uses_host(names)]
        n_bytes = sum(op.bytes for op in copies)
        links = {"h2d": before.device.h2d, "d2h": before.device.d2h}
        staging_s = sum(op.bytes / links[op.direction].pageable_bandwidth_bytes_per_s for op in copies)
        staging = format_seconds(staging_s, within)
        yield (
            "pinned memory is expensive to allocate: allocate it once, before the loop; if the data comes from"
            f" elsewhere, the copy of its {format_bytes(n_bytes)} into pinned buffers takes the host about {staging}"
            " each time"
        )
        if touched_s:
            yield (
                f"the first touch of host memory is left in: {format_seconds(touched_s)} of page faults, which pinned"
                " memory pays once, when it is allocated"
            )
        yield from _assumed_range(before, after)


def _assumed_range(before: Work, after: Work) -> Iterator[str]:
    """Between which times the program lies where nobody has measured pinned copies of its card."""
    rates = {f"{name}.bandwidth_bytes_per_s": getattr(after.device, name) for name in ("h2d", "d2h")}
    assumed = {name: link for name, link in rates.items() if after.device.source(name)[0] == "assumed"}
    if not assumed:
        return
    within, takes_s = max(known_within(before.device), known_within(after.device)), []
    for factor in ASSUMED_RATES:
        device = changed(after.device, {name: link.bandwidth_bytes_per_s * factor for name, link in assumed.items()})
        takes_s.append(simulate_one_of_many(after.schedule, device).makespan_s)
    gains = [simulate_one_of_many(*before[:2]).makespan_s / max(seconds, 1e-9) for seconds in takes_s]
    rate = min(link.bandwidth_bytes_per_s for link in assumed.values())
    low, high = (format_seconds(seconds, within) for seconds in takes_s)
    least, most = (format_ratio(gain, within) for gain in gains)
    yield (
        f"pinned copies of {after.device.name} are assumed to run at {rate / 1e9:.3g} GB/s, which nobody measured: with"
        f" half of that or a quarter more it takes {low} to {high} ({least} to {most})"
    )
