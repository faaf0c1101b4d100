"""The verdict on a recording in three lines: the limit, the idle time and its reason, and one change to try."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from streamsim.compiled import simulate_one_of_many
from streamsim.errors import InputError
from streamsim.program.schedule import HostWork, Kernel
from streamsim.recorded.idle import AFTER
from streamsim.text.quantities import format_seconds
from streamsim.transform import changes
from streamsim.transform.ops import is_of_a_call
from streamsim.transform.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule
    from streamsim.recorded.summary import RecordedCardUse
    from streamsim.transform.changes import Change

BINDING = 0.6  # share of the time from which the busiest engine is called the limit
LEAST_GAIN = 1.03  # a change with a smaller gain is not worth trying
SLOW_LAUNCH, SLOW_LAUNCH_S = 10, 100e-6  # a launch this many times as long as usual, and this long, loads its module
TRIED = ("pin",), ("make_async",), ("pin", "make_async"), ("pin", "make_async", "prefetch"), ("graph",)


class Trial(NamedTuple):
    """A change to try: in words, as options of ``streamsim whatif``, and the old time over the new one."""

    words: str
    options: str
    gain: float


def verdict_of(use: RecordedCardUse, schedule: Schedule, device: Device, file: str) -> tuple[str, str, str]:
    """Return the three lines of the verdict; ``file``: the recording's or program's file, for the suggested command."""
    return _binds(use), _stands_still(use), _to_try(best_trial(schedule, device), file)


def _binds(use: RecordedCardUse) -> str:
    span = format_seconds(use.span_s)
    busiest = max(use.engines, key=lambda engine: engine.busy_s, default=None)
    if busiest is None or busiest.busy_s < use.idle_s:
        return f"binds: the host; no engine of the card is busy for {_share(use.idle_s, use)} of {span}"
    most = f"{busiest.name}, busy for {_share(busiest.busy_s, use)} of {span}"
    is_binding = busiest.busy_s >= BINDING * use.span_s
    return f"binds: {most}" if is_binding else f"binds: no engine; they wait for each other, the busiest is {most}"


def _stands_still(use: RecordedCardUse) -> str:
    if not use.without_kernel or not use.without_kernel_s:
        return "stands still: nothing; a kernel runs all the time"
    why = next((reason for reason in use.without_kernel if reason.why != AFTER), use.without_kernel[0])
    part = f"{_share(use.without_kernel_s, use)} of the time"
    return f"stands still: no kernel runs for {part}; for {format_seconds(why.time_s)} of it: {why.why}"


def _to_try(trial: Trial | None, file: str) -> str:
    if trial is None:
        return "try: nothing that was tried gains 3 %; streamsim explain says what is lost"
    command = f"streamsim whatif {file} {trial.options}" if trial.options else f"streamsim explain {file}"
    return f"try: {trial.words}, {trial.gain:.2f}x as fast ({command})"


def _share(seconds: float, use: RecordedCardUse) -> str:
    return f"{seconds / use.span_s:.0%}" if use.span_s else "0 %"


def best_trial(schedule: Schedule, device: Device) -> Trial | None:
    """Return the change with the largest gain among a few that keep the program's order; None if none gains 3 %."""
    if (first := launch_before(schedule, device)) is not None:  # the easiest change of all: no other one is tried
        return first
    was = Scenario(schedule, device)
    before_s = simulate_one_of_many(*was).makespan_s
    best: Trial | None = None
    for words, options, case in _trials(was):
        takes_s = simulate_one_of_many(*case).makespan_s
        gain = before_s / takes_s if takes_s else 1.0
        if gain >= LEAST_GAIN * (best.gain if best else 1.0):  # what comes later asks for more
            best = Trial(words, options, gain)
    return best


def launch_before(schedule: Schedule, device: Device) -> Trial | None:
    """Return the gain of an earlier launch of kernels whose first launch loads a module; None for less than 3 %."""
    warm, names = with_warm_launches(schedule)
    if not names:
        return None
    before_s, after_s = (simulate_one_of_many(program, device).makespan_s for program in (schedule, warm))
    gain = before_s / max(after_s, 1e-9)
    words = f"launch {names[0]} once before (its first launch loads its module)"
    return Trial(words, "", gain) if gain >= LEAST_GAIN else None


def _trials(was: Scenario) -> Iterator[tuple[str, str, Scenario]]:
    makers: dict[str, Change] = {
        "pin": changes.pin(),
        "make_async": changes.make_async(),
        "prefetch": changes.prefetch(1),
        "graph": changes.graph(),
    }
    works = any(isinstance(op, HostWork) and not is_of_a_call(op) for op in was.schedule.ops)
    for made in TRIED:
        if works and "graph" in made:  # what the host does between its calls would be left out
            continue
        try:
            found = changes.changed_by((makers[name] for name in made), was)
        except InputError:  # it does not apply to this program
            continue
        yield found.text, " ".join(found.options), found.case.scenario


def with_warm_launches(schedule: Schedule) -> tuple[Schedule, Sequence[str]]:
    """Return ``schedule`` without module loads in first launches, and the names of their kernels, the slowest first.

    A kernel's first launch counts as loading its module if it took at least 100 us and ten times the usual launch. The
    usual launch is the median of later launches. Without later launches, the shortened call takes the profile's time.
    """
    launches = [op for op in schedule.ops if isinstance(op, Kernel) and op.call_s is not None]
    first: dict[str, int] = {}
    for i, op in enumerate(schedule.ops):
        if isinstance(op, Kernel):
            first.setdefault(op.name, i)
    later_s = [op.call_s for i, op in enumerate(schedule.ops) if isinstance(op, Kernel) and first[op.name] != i]
    usual_s = median(filter(None, later_s)) if any(later_s) else 0.0
    slow = {
        i
        for i in first.values()
        if (call_s := schedule.ops[i].call_s or 0.0) >= SLOW_LAUNCH_S and call_s > SLOW_LAUNCH * usual_s
    }
    if not slow or not launches:
        return schedule, ()
    ops = tuple(replace(op, call_s=usual_s or None) if i in slow else op for i, op in enumerate(schedule.ops))
    slowest = sorted(slow, key=lambda i: -(schedule.ops[i].call_s or 0.0))
    return replace(schedule, ops=ops), [op.name for op in (schedule.ops[i] for i in slowest) if isinstance(op, Kernel)]
