"""From a measured time to the mistakes that explain it.

The program as it was meant and the program with each usual mistake, alone and in pairs, are simulated. A program
explains the measured times if each of them lies within what is known of the profile. Several explanations may be left;
then the result names a second measurement that tells them apart.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from streamsim.checks import check_number, check_whole
from streamsim.compiled import simulate_one_of_many
from streamsim.device.assumptions import PUBLISHED_WITHIN
from streamsim.device.library import as_device
from streamsim.diagnosis.mistakes import MISTAKES, Meant, made, pairs, with_ops
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError
from streamsim.program.config import Config
from streamsim.program.schedule import Copy, Kernel, Schedule, Synchronize
from streamsim.text.quantities import format_seconds
from streamsim.text.shown import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim.diagnosis.mistakes import Mistake
    from streamsim.program.workload import Workload

replace = msgspec.structs.replace

# How far a right explanation may be off: what random schedules and published cases showed (docs/evidence.md).
KNOWN_MEASURED = 0.05
SAME = 0.01  # two programs whose times differ by less are one explanation
APART = 1.15  # a second measurement tells two explanations apart from this ratio on
AGAIN = "the same program a second time in the same process, from an idle card on"
RETURN = "when the last call returns, before the program waits for the card"
AS_MEANT = "the program as it was meant"
STOPPED_EARLY = "the clock stopped before the card was done"
BISECTIONS = 24  # in search of what a mistake of a range cost
TOO_SHORT = 0.5  # of its time as it was meant; what takes less cannot have run to its end


class Measured(msgspec.Struct, frozen=True):
    """A measured time in seconds: over how many ``streams`` (None: as asked), and whether kernels were left out."""

    seconds: float
    streams: int | None = None
    without_kernels: bool = False

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, 1e-9, 1e6)
        if self.streams is not None:
            check_whole("streams", self.streams, 1, 1 << 16)

    @property
    def words(self) -> str:
        """How it was measured, such as "on 4 streams, copies only"."""
        streams = [] if self.streams is None else [f"on {self.streams} stream{'s' * (self.streams > 1)}"]
        return ", ".join([*streams, *(["copies only"] * self.without_kernels)])


class Range(NamedTuple):
    """Least and most seconds that a program may take; the same where one time is predicted."""

    low_s: float
    high_s: float

    def off(self, seconds: float) -> float:
        """Relative distance of a measured time: negative where the program is predicted to take less."""
        nearest_s = min(max(seconds, self.low_s), self.high_s)
        return nearest_s / seconds - 1

    @property
    def words(self) -> str:
        """One time, or from when to when."""
        if self.high_s == self.low_s:
            return format_seconds(self.low_s)
        return f"{format_seconds(self.low_s)} to {format_seconds(self.high_s)}"


class CandidateProgram(msgspec.Struct, frozen=True):
    """A program that may explain the measured times: seconds for each of them, in their order.

    ``off``: the largest relative distance from a measured time. ``fits``: whether that is within what is known.
    ``is_open_ended``: whether it explains nearly any time that is too long.
    """

    titles: tuple[str, ...]
    look: tuple[str, ...]
    remedies: tuple[str, ...]
    times_s: tuple[Range, ...]
    off: float
    fits: bool
    is_open_ended: bool = False

    @property
    def title(self) -> str:
        """What the program does, in words."""
        return " and ".join(self.titles) or AS_MEANT


class NextMeasurement(msgspec.Struct, frozen=True):
    """A second measurement, and what each explanation that is left says of it; seconds."""

    what: str
    says: tuple[tuple[str, Range], ...]


class Diagnosis(Result, msgspec.Struct, frozen=True):
    """What explains the measured times, nearest first. ``known``: how far off a right explanation may be.

    ``next``: the measurement that tells the explanations that fit apart; None where one fits, or none does.
    """

    device: str
    measured: tuple[Measured, ...]
    known: float
    explanations: tuple[CandidateProgram, ...]
    next: NextMeasurement | None = None

    def __repr__(self) -> str:
        return short(f"Diagnosis({self.verdict})")

    @property
    def fitting(self) -> tuple[CandidateProgram, ...]:
        """The explanations that are equal within what is known of the profile."""
        return tuple(found for found in self.explanations if found.fits)

    @property
    def simplest(self) -> tuple[CandidateProgram, ...]:
        """The program as it was meant if that fits; else those that fit with one mistake; else all that fit.

        What is open-ended is among them only if no other mistake fits alone.
        """
        if self.fitting and not self.fitting[0].titles:
            return self.fitting[:1]
        alone = [found for found in self.fitting if len(found.titles) < 2 and not found.is_open_ended]
        return tuple(alone) or self.fitting

    @property
    def open_ended(self) -> tuple[CandidateProgram, ...]:
        """What fits beside a mistake, as it fits nearly any time that is too long."""
        if not self.simplest or not self.simplest[0].titles:
            return ()
        return tuple(found for found in self.fitting if found.is_open_ended and found not in self.simplest)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if not self.simplest:
            return self._nothing()
        first, *others = self.simplest
        if not first.titles:
            return "the program takes the time that it should take"
        if first.is_open_ended:
            return " ".join(["no usual mistake alone takes just so long; was the clock right?", *self._two()])
        if len(first.titles) == 2:
            return "".join(self._two())
        if not others:
            return f"one usual mistake explains it: {first.title}"
        return f"{1 + len(others)} explanations fit equally well; the most usual one: {first.title}"

    def _two(self) -> list[str]:
        """A sentence on the pairs of mistakes that fit, if any do."""
        pairs = [found for found in self.simplest if len(found.titles) == 2]
        if len(pairs) > 1:
            return [f"{len(pairs)} pairs of mistakes explain it; the nearest one: {pairs[0].title}"]
        return [f"two usual mistakes together explain it: {found.title}" for found in pairs]

    def _nothing(self) -> str:
        measured_s, times = self.measured[0].seconds, [found.times_s[0] for found in self.explanations]
        if measured_s > max(time.high_s for time in times):
            return f"nothing known takes so long: at most {format_seconds(max(t.high_s for t in times))} is explained"
        if measured_s < min(found.times_s[0].low_s for found in self.explanations if found.titles != (STOPPED_EARLY,)):
            return "it takes less time than it should: check the sizes, the kernel's time and the device"
        return "no usual mistake takes just so long"

    def _json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "known_within": self.known,
            "verdict": self.verdict,
            "measured": self.measured,
            "explanations": [
                {
                    "mistakes": found.titles,
                    "fits": found.fits,
                    "open_ended": found.is_open_ended,
                    "off": found.off,
                    "predicted_s": found.times_s,
                    **attributes(found, "look", "remedies"),
                }
                for found in self.explanations
            ],
            "next_measurement": self.next and {"what": self.next.what, "says_s": dict(self.next.says)},
        }


def diagnose(
    program: Workload | Schedule,
    device: Device | str | Path,
    measured: float | Sequence[Measured],
    config: Config | None = None,
) -> Diagnosis:
    """Which usual mistakes make ``program`` take as long as it was ``measured`` to take, in seconds.

    ``program``: a workload, cut and issued as ``config`` says (default: depth-first, one chunk), or a schedule. Raises
    InputError for an unknown device, a graph, and several measurements over streams where the program is a schedule.
    """
    device = as_device(device)
    times = (Measured(float(measured)),) if isinstance(measured, int | float) else tuple(measured)
    if not times:
        raise InputError("measured = (): give at least one measured time")
    meant = _Meant(program, device, config or Config())
    programs = [meant.as_measured(time) for time in times]
    known = KNOWN_MEASURED if device.source("h2d.bandwidth_bytes_per_s")[0] == "measured" else PUBLISHED_WITHIN
    found = sorted(_explanations(programs, times, known), key=_rank)
    return Diagnosis(device.name, times, known, tuple(found), _second(meant, times, found))


def _rank(found: CandidateProgram) -> tuple[bool, int, bool, float]:
    """What fits comes first: few mistakes before many, of single ones the usual ones; the rest by how near it is."""
    if not found.fits:
        return True, 0, False, abs(found.off)
    return False, len(found.titles), found.is_open_ended, abs(found.off) if len(found.titles) > 1 else 0.0


class _Meant(NamedTuple):
    """What was meant: a workload with its configuration, or a schedule."""

    program: Workload | Schedule
    device: Device
    config: Config

    def as_measured(self, measured: Measured) -> Meant:
        """The program on the streams, and with the kernels, with which it was measured."""
        program, config = self.program, self.config
        if isinstance(program, Schedule):
            if measured.streams is not None:
                raise InputError(f"streams = {measured.streams}: a schedule has its streams; give a workload")
            meant = _live(Meant(program, self.device))
            kept = [op for op in program.ops if not isinstance(op, Kernel)]
            return with_ops(meant, kept) if measured.without_kernels else meant
        work = replace(program, kernels=()) if measured.without_kernels else program
        if measured.streams is not None:
            config = replace(config, streams=measured.streams)
        return _live(Meant(config.schedule(work), self.device, config, lambda config: config.schedule(work)))


def _live(meant: Meant) -> Meant:
    if meant.schedule.launch == "graph":
        raise InputError("launch = 'graph': a graph makes none of the usual mistakes; diagnose the live program")
    return meant


# What explains the measured times


def _explanations(programs: list[Meant], times: Sequence[Measured], known: float) -> Iterator[CandidateProgram]:
    """The program as it was meant, with each mistake and with each two of them that are not one of the two again."""
    as_meant = [_takes(program) for program in programs]
    yield _explains((), as_meant, times, known)
    alone: dict[str, list[Range]] = {}
    for mistakes in chain(((mistake,) for mistake in MISTAKES), pairs(MISTAKES)):
        found = [_with(mistakes, program) for program in programs]
        parts = [as_meant, *(alone[m.title] for m in mistakes if m.title in alone)]
        if len(mistakes) == 1:
            alone[mistakes[0].title] = found
        if not any(_are_same(found, part) for part in parts):
            yield _explains(mistakes, found, times, known)
    yield _stopped_early([_too_short(program) for program in programs], times, known)


def _takes(meant: Meant) -> Range:
    seconds = simulate_one_of_many(meant.schedule, meant.device).makespan_s
    return Range(seconds, seconds)


def _with(mistakes: Sequence[Mistake], meant: Meant) -> Range:
    """What the program takes with the mistakes."""
    levels = (0.0, 1.0) if any(mistake.has_range for mistake in mistakes) else (0.0,)
    taken = [_takes(made(mistakes, meant, level) or meant) for level in levels]
    return Range(taken[0].low_s, taken[-1].high_s)


def _are_same(found: Sequence[Range], other: Sequence[Range]) -> bool:
    """Whether two programs take the same times, for all that can be measured."""
    return all(
        abs(a - b) <= SAME * b for one, two in zip(found, other, strict=True) for a, b in zip(one, two, strict=True)
    )


def _explains(
    mistakes: Sequence[Mistake], found: list[Range], times: Sequence[Measured], known: float
) -> CandidateProgram:
    off = max((time.off(measured.seconds) for time, measured in zip(found, times, strict=True)), key=abs)
    return CandidateProgram(
        titles=tuple(mistake.title for mistake in mistakes),
        look=tuple(mistake.look for mistake in mistakes),
        remedies=tuple(mistake.remedy for mistake in mistakes),
        times_s=tuple(found),
        off=off,
        fits=abs(off) <= known + max((mistake.doubt for mistake in mistakes), default=0.0),
        is_open_ended=any(mistake.is_open_ended for mistake in mistakes),
    )


def _calls_return(meant: Meant) -> Range:
    """When the host has made all its calls, if it does not wait at the end."""
    ops = list(meant.schedule.ops)
    while len(ops) > 1 and isinstance(ops[-1], Synchronize):
        ops.pop()
    called = with_ops(meant, ops)
    seconds = simulate_one_of_many(called.schedule, called.device).host_s
    return Range(seconds, seconds)


def _too_short(meant: Meant) -> Range:
    """From when the calls return, to the least time in which the program can have run to its end."""
    returned_s = _calls_return(meant).low_s
    return Range(returned_s, max(returned_s, TOO_SHORT * _takes(meant).low_s))


def _stopped_early(found: list[Range], times: Sequence[Measured], known: float) -> CandidateProgram:
    explains = _explains((), found, times, known)
    return replace(
        explains,
        titles=(STOPPED_EARLY,),
        look=("no cudaDeviceSynchronize or event between the last call and the end of the timing",),
        remedies=("wait for the card before the clock is read, or time with events",),
    )


# What tells the rest apart


def _second(meant: _Meant, times: Sequence[Measured], found: Sequence[CandidateProgram]) -> NextMeasurement | None:
    """The measurement that tells most of the explanations apart that fit; None where there is nothing to tell apart."""
    fitting = [explains for explains in found if explains.fits and len(explains.titles) < 2]
    if len(fitting) < 2 or not fitting[0].titles:
        return None
    by_title = {mistake.title: mistake for mistake in MISTAKES}
    measured = meant.as_measured(times[0])
    levels = {
        explains.title: _level([by_title[title] for title in explains.titles], measured, times[0].seconds)
        for explains in fitting
        if explains.titles != (STOPPED_EARLY,)
    }
    best: tuple[int, NextMeasurement] | None = None
    for what, second in _measurable(meant, times):
        program = meant.as_measured(second)
        says = [(one.title, _says(one, program, by_title, what, levels.get(one.title, 0.0))) for one in fitting]
        apart = sum(_are_apart(one, two) for k, (_, one) in enumerate(says) for _, two in says[k + 1 :])
        if apart and (best is None or apart > best[0]):
            best = apart, NextMeasurement(what, tuple(says))
    return best and best[1]


def _measurable(meant: _Meant, times: Sequence[Measured]) -> Iterator[tuple[str, Measured]]:
    """Easy measurements that were not made yet."""
    had = {(time.streams, time.without_kernels) for time in times}
    yield RETURN, Measured(1.0)
    yield AGAIN, Measured(1.0)
    if (None, True) not in had and _has_both(meant.program):
        yield "the same without the kernels", Measured(1.0, without_kernels=True)
    if not isinstance(meant.program, Schedule):
        for streams in (1, 2, 4):
            if streams != meant.config.streams and (streams, False) not in had and meant.config.order != "serial":
                yield f"the same over {streams} stream{'s' * (streams > 1)}", Measured(1.0, streams)


def _has_both(program: Workload | Schedule) -> bool:
    """Whether there are kernels, and copies that are left without them."""
    if isinstance(program, Schedule):
        return any(isinstance(op, Kernel) for op in program) and any(isinstance(op, Copy) for op in program)
    arrays = program.inputs + program.outputs + program.h2d_once + program.d2h_once
    return bool(program.kernels) and bool(arrays)


def _level(mistakes: Sequence[Mistake], measured: Meant, seconds: float) -> float:
    """Where between its least and its most time the mistakes take the measured time: 0.0 to 1.0."""
    low, high = 0.0, 1.0
    if not any(mistake.has_range for mistake in mistakes):
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        takes_s = _takes(made(mistakes, measured, middle) or measured).low_s
        low, high = (middle, high) if takes_s < seconds else (low, middle)
    return low


def _says(explains: CandidateProgram, program: Meant, by_title: dict[str, Mistake], what: str, level: float) -> Range:
    """What an explanation says of a second measurement; a mistake of the first run or its clock is over by then."""
    if explains.titles == (STOPPED_EARLY,):
        return _too_short(program)
    mistakes = [by_title[title] for title in explains.titles]
    if what == AGAIN:
        mistakes = [mistake for mistake in mistakes if not mistake.is_open_ended]
    takes = _calls_return if what == RETURN else _takes
    return takes(made(mistakes, program, level) or program)


def _are_apart(one: Range, two: Range) -> bool:
    low, high = sorted((one, two))
    return low.high_s * APART <= high.low_s
