"""The verdict on a recording in three lines: the limit, the idle time and its reason, and one change to try."""

from collections.abc import Sequence
from typing import NamedTuple

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, known_within
from streamsim.errors import InputError
from streamsim.program import HostWork, Schedule
from streamsim.recorded.idle import AFTER
from streamsim.recorded.summary import RecordedCardUse
from streamsim.text import format_ratio, format_seconds
from streamsim.transform import Change, Scenario, is_of_a_call
from streamsim.transform import changes as make

BINDING = 0.6  # share of the time from which the busiest engine is called the limit
LEAST_GAIN = 1.03  # a change with a smaller gain is not worth trying
PIN, ASYNC, GRAPH = make.pin(), make.make_async(), make.graph()
TRIED: tuple[tuple[Change, ...], ...] = (
    (PIN,),
    (ASYNC,),
    (PIN, ASYNC),
    (PIN, ASYNC, make.prefetch(1)),
    (GRAPH,),
)


class Trial(NamedTuple):
    """A change to try: in words, as options of ``streamsim whatif``, and the old time over the new one."""

    words: str
    options: str
    gain: float


def verdict_of(use: RecordedCardUse, schedule: Schedule, device: Device, file: str) -> tuple[str, str, str]:
    """Return the three lines of the verdict; ``file``: the recording's or program's file, for the suggested command."""
    return _binds(use), _stands_still(use), _to_try(best_trial(schedule, device), device, file)


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


def _to_try(trial: Trial | None, device: Device, file: str) -> str:
    if trial is None:
        return "try: nothing that was tried gains 3 %; streamsim explain says what is lost"
    gain = format_ratio(trial.gain, known_within(device))
    return f"try: {trial.words}, {gain} as fast (streamsim whatif {file} {trial.options})"


def _share(seconds: float, use: RecordedCardUse) -> str:
    return f"{seconds / use.span_s:.0%}" if use.span_s else "0 %"


def best_trial(schedule: Schedule, device: Device) -> Trial | None:
    """Return the change with the largest gain among a few that keep the program's order; None if none gains 3 %."""
    if (first := calls_before(schedule, device)) is not None:  # the easiest change of all: no other one is tried
        return first
    works = any(isinstance(op, HostWork) and not is_of_a_call(op) for op in schedule.ops)
    best: Trial | None = None
    for changes in TRIED:
        if works and changes == (GRAPH,):  # the graph would leave out what the host does between its calls
            continue
        trial = _trial(schedule, device, changes)
        if trial is not None and trial.gain >= LEAST_GAIN * (best.gain if best else 1.0):  # later ones ask for more
            best = trial
    return best


def calls_before(schedule: Schedule, device: Device) -> Trial | None:
    """Return the gain of slow calls made once before, such as first launches; None if it is less than 3 %."""
    trial = _trial(schedule, device, (make.warm_calls(),))
    return trial if trial is not None and trial.gain >= LEAST_GAIN else None


def _trial(schedule: Schedule, device: Device, changes: Sequence[Change]) -> Trial | None:
    """Return what changes gain together; None if they cannot be made or change nothing."""
    try:
        found = make.changed_by(changes, Scenario(schedule, device))
    except InputError:
        return None
    if not found.options:
        return None
    before_s, after_s = (simulate_one_of_many(*case).makespan_s for case in ((schedule, device), found.case.scenario))
    return Trial(found.text, " ".join(found.options), before_s / max(after_s, 1e-9))
