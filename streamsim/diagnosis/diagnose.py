"""Diagnosis of measured times: the usual mistakes that explain them.

The model simulates the intended program, and the program with each usual mistake, alone and in pairs. A program
explains the measured times if each of its predictions is within the error of the profile. If several programs explain
them, the result names a second measurement that distinguishes these programs.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamsim.checks import check_number, check_whole
from streamsim.compiled import simulate_one_of_many
from streamsim.device import PUBLISHED_WITHIN, Device, as_device
from streamsim.diagnosis.mistakes import MISTAKES, IntendedProgram, Mistake, made, pairs, with_ops
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError
from streamsim.program import Config, Copy, Kernel, Schedule, Synchronize, Workload
from streamsim.text import counted, format_between, format_seconds, short

replace = msgspec.structs.replace

# Relative error of a right explanation on a measured profile: from random schedules and published cases
# (docs/evidence.md).
KNOWN_MEASURED = 0.05
SHARP = 1 / 8  # share of that error by which programs on one card differ: most of it is common to all of them
SAME = 0.01  # programs whose times differ by less, relative, are one explanation
APART = 1.15  # a second measurement distinguishes two explanations if their times have at least this ratio
AGAIN = "the same program a second time in the same process, from an idle card on"
RETURN = "when the last call returns, before the program waits for the card"
AS_MEANT = "the program as it was meant"
STOPPED_EARLY = "the clock stopped before the card was done"
BISECTIONS = 24  # steps in the search for the cost of a mistake with a range
TOO_SHORT = 0.5  # share of the intended program's time; a program that takes less cannot have run to its end


class Measured(msgspec.Struct, frozen=True):
    """A measured time of a program, in seconds.

    ``streams``: the number of streams in this measurement (None: that of the program). ``without_kernels``: True if
    only the copies ran. Raises InputError for a time or a number of streams out of range.
    """

    seconds: float
    streams: int | None = None
    without_kernels: bool = False

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds, 1e-9, 1e6)
        if self.streams is not None:
            check_whole("streams", self.streams, 1, 1 << 16)

    @property
    def words(self) -> str:
        """The conditions of the measurement, such as "on 4 streams, copies only"; "" for none."""
        streams = "" if self.streams is None else f"on {counted(self.streams, 'stream')}"
        return ", ".join(filter(None, (streams, "copies only" if self.without_kernels else "")))


class Range(NamedTuple):
    """The least and the most seconds that a program may take; equal if the model predicts one time."""

    low_s: float
    high_s: float

    def off(self, seconds: float) -> float:
        """Return the relative distance of the range from a measured time: negative if the range lies below it."""
        nearest_s = min(max(seconds, self.low_s), self.high_s)
        return nearest_s / seconds - 1

    def words(self, within: float) -> str:
        """Return the range of the times, widened by a relative error, with units and the figures that it leaves."""
        return format_between(self.low_s * (1 - within), self.high_s * (1 + within), within)


class CandidateProgram(msgspec.Struct, frozen=True):
    """A program that may explain the measured times: the intended program, with no, one or two mistakes.

    - ``titles``, ``look``, ``remedies``: for each mistake, what the program does, how to see it, and what to change.
    - ``times_s``: the predicted range for each measured time, in their order.
    - ``off``: the largest relative distance of a prediction from its measured time.
    - ``fits``: True if ``off`` is within the error of the profile.
    - ``is_open_ended``: True if the mistake explains nearly any time that is too long.
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
        """The mistakes in words, or "the program as it was meant"."""
        return " and ".join(self.titles) or AS_MEANT


class NextMeasurement(msgspec.Struct, frozen=True):
    """A second measurement, and the time that each remaining explanation predicts for it, by its title."""

    what: str
    says: tuple[tuple[str, Range], ...]


class Diagnosis(Result, msgspec.Struct, frozen=True):
    """The explanations of measured times.

    - ``known_within``: the relative error that a right explanation may have.
    - ``explanations``: programs that fit come first, with few mistakes before many, and the likeliest of as many
      first; then the others, the nearest first.
    - ``next``: the measurement that distinguishes the explanations that fit (None: none is needed or known).
    """

    device: str
    measured: tuple[Measured, ...]
    known_within: float
    explanations: tuple[CandidateProgram, ...]
    next: NextMeasurement | None = None

    def __repr__(self) -> str:
        return short(f"Diagnosis({self.verdict})")

    @property
    def fitting(self) -> tuple[CandidateProgram, ...]:
        """The explanations within the error of the profile."""
        return tuple(found for found in self.explanations if found.fits)

    @property
    def simplest(self) -> tuple[CandidateProgram, ...]:
        """The intended program if it fits; else the explanations with one mistake; else all that fit.

        Open-ended mistakes count only if no other mistake fits alone.
        """
        if self.fitting and not self.fitting[0].titles:
            return self.fitting[:1]
        alone = [found for found in self.fitting if len(found.titles) < 2 and not found.is_open_ended]
        return tuple(alone) or self.fitting

    @property
    def open_ended(self) -> tuple[CandidateProgram, ...]:
        """The open-ended explanations that fit beside a mistake: they fit nearly any time that is too long."""
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
        return f"{1 + len(others)} explanations fit; the likeliest one: {first.title}"

    def _two(self) -> list[str]:
        """Return a sentence on the pairs of mistakes that fit, if any do."""
        pairs = [found for found in self.simplest if len(found.titles) == 2]
        if len(pairs) > 1:
            return [f"{len(pairs)} pairs of mistakes explain it; the nearest one: {pairs[0].title}"]
        return [f"two usual mistakes together explain it: {found.title}" for found in pairs]

    def _nothing(self) -> str:
        measured_s, times = self.measured[0].seconds, [found.times_s[0] for found in self.explanations]
        if measured_s > max(time.high_s for time in times):
            most_s = max(time.high_s for time in times) * (1 + self.known_within)
            most = format_seconds(most_s, self.known_within)
            return f"nothing known takes so long: at most {most} is explained"
        if measured_s < min(found.times_s[0].low_s for found in self.explanations if found.titles != (STOPPED_EARLY,)):
            return "it takes less time than it should: check the sizes, the kernel's time and the device"
        return "no usual mistake takes just so long"

    def _json(self) -> dict[str, Any]:
        return {
            "device": self.device,
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
    """Find the usual mistakes that explain the ``measured`` time of ``program``.

    - ``program``: a workload, cut and issued as ``config`` says (default: depth-first, one chunk), or a schedule.
    - ``device``: a Device, or the name or file of one.
    - ``measured``: seconds, or several measurements of the program.

    Raises InputError for an unknown device, for a graph, for no measurement, and for a measurement with another number
    of streams if the program is a schedule.
    """
    device = as_device(device)
    times = (Measured(float(measured)),) if isinstance(measured, int | float) else tuple(measured)
    if not times:
        raise InputError("measured = (): give at least one measured time")
    meant = _IntendedWork(program, device, config or Config())
    programs = [meant.as_measured(time) for time in times]
    known = KNOWN_MEASURED if device.source("h2d.bandwidth_bytes_per_s")[0] == "measured" else PUBLISHED_WITHIN
    found = sorted(_explanations(programs, times, known), key=lambda one: _rank(one, times, known))
    return Diagnosis(device.name, times, known, tuple(found), _second(meant, times, found))


def _rank(found: CandidateProgram, times: Sequence[Measured], known: float) -> tuple[bool, int, bool, float]:
    """Return the sort key of an explanation.

    Explanations that fit come first, with few mistakes before many, and the likeliest first of as many, with open-ended
    ones last. Explanations that do not fit are ordered by their distance.
    """
    if not found.fits:
        return True, 0, False, abs(found.off)
    return False, len(found.titles), found.is_open_ended, -_likelihood(found, times, known * SHARP)


def _likelihood(found: CandidateProgram, times: Sequence[Measured], error: float) -> float:
    """Return the logarithm of the likelihood of an explanation, up to a constant.

    A common mistake is likelier. A time is likely if it is near the prediction in units of the relative ``error``, and
    if the prediction is narrow: a range that holds nearly any time explains none of them.
    """
    common = sum(math.log(mistake.common) for mistake in MISTAKES if mistake.title in found.titles)
    hits = (time.off(measured.seconds) / error for time, measured in zip(found.times_s, times, strict=True))
    widths = (math.log(time.high_s / time.low_s) + error for time in found.times_s)
    return common - sum(hit * hit / 2 + math.log(width) for hit, width in zip(hits, widths, strict=True))


class _IntendedWork(NamedTuple):
    """The intended work: a workload with its configuration, or a schedule."""

    program: Workload | Schedule
    device: Device
    config: Config

    def as_measured(self, measured: Measured) -> IntendedProgram:
        """Return the program with the number of streams of a measurement, and without kernels if it had none."""
        program, config = self.program, self.config
        if isinstance(program, Schedule):
            if measured.streams is not None:
                raise InputError(f"streams = {measured.streams}: a schedule has its streams; give a workload")
            meant = _live(IntendedProgram(program, self.device))
            kept = [op for op in program.ops if not isinstance(op, Kernel)]
            return with_ops(meant, kept) if measured.without_kernels else meant
        work = replace(program, kernels=()) if measured.without_kernels else program
        if measured.streams is not None:
            config = replace(config, streams=measured.streams)
        return _live(IntendedProgram(config.schedule(work), self.device, config, lambda config: config.schedule(work)))


def _live(meant: IntendedProgram) -> IntendedProgram:
    if meant.schedule.launch == "graph":
        raise InputError("launch = 'graph': a graph makes none of the usual mistakes; diagnose the live program")
    return meant


# What explains the measured times


def _explanations(
    programs: list[IntendedProgram], times: Sequence[Measured], known: float
) -> Iterator[CandidateProgram]:
    """Yield the intended program, and the program with each mistake and each pair.

    A program that takes the same times as one with fewer of its mistakes is left out.
    """
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


def _takes(meant: IntendedProgram) -> Range:
    seconds = simulate_one_of_many(meant.schedule, meant.device).makespan_s
    return Range(seconds, seconds)


def _with(mistakes: Sequence[Mistake], meant: IntendedProgram) -> Range:
    """Return the range of times of the program with the mistakes."""
    levels = (0.0, 1.0) if any(mistake.has_range for mistake in mistakes) else (0.0,)
    taken = [_takes(made(mistakes, meant, level) or meant) for level in levels]
    return Range(taken[0].low_s, taken[-1].high_s)


def _are_same(found: Sequence[Range], other: Sequence[Range]) -> bool:
    """Return True if two programs take the same times, within 1 %."""
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


def _calls_return(meant: IntendedProgram) -> Range:
    """Return the time after which the host has made all its calls, without the waits at the end."""
    ops = list(meant.schedule.ops)
    while len(ops) > 1 and isinstance(ops[-1], Synchronize):
        ops.pop()
    called = with_ops(meant, ops)
    seconds = simulate_one_of_many(called.schedule, called.device).host_s
    return Range(seconds, seconds)


def _too_short(meant: IntendedProgram) -> Range:
    """Return the range from the return of all calls to the least time in which the program can run to its end."""
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


# A second measurement


def _second(
    meant: _IntendedWork, times: Sequence[Measured], found: Sequence[CandidateProgram]
) -> NextMeasurement | None:
    """Return the measurement that distinguishes the most pairs of explanations that fit; None without such a pair."""
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


def _measurable(meant: _IntendedWork, times: Sequence[Measured]) -> Iterator[tuple[str, Measured]]:
    """Yield easy measurements that were not made yet, each with its words."""
    had = {(time.streams, time.without_kernels) for time in times}
    yield RETURN, Measured(1.0)
    yield AGAIN, Measured(1.0)
    if (None, True) not in had and _has_both(meant.program):
        yield "the same without the kernels", Measured(1.0, without_kernels=True)
    if not isinstance(meant.program, Schedule):
        for streams in (1, 2, 4):
            if streams != meant.config.streams and (streams, False) not in had and meant.config.order != "serial":
                yield f"the same over {counted(streams, 'stream')}", Measured(1.0, streams)


def _has_both(program: Workload | Schedule) -> bool:
    """Return True if there are both kernels and copies."""
    if isinstance(program, Schedule):
        return any(isinstance(op, Kernel) for op in program) and any(isinstance(op, Copy) for op in program)
    arrays = program.inputs + program.outputs + program.h2d_once + program.d2h_once
    return bool(program.kernels) and bool(arrays)


def _level(mistakes: Sequence[Mistake], measured: IntendedProgram, seconds: float) -> float:
    """Return the level, 0.0 (the mistakes' least time) to 1.0 (the most), at which they give the measured time."""
    low, high = 0.0, 1.0
    if not any(mistake.has_range for mistake in mistakes):
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        takes_s = _takes(made(mistakes, measured, middle) or measured).low_s
        low, high = (middle, high) if takes_s < seconds else (low, middle)
    return low


def _says(
    explains: CandidateProgram, program: IntendedProgram, by_title: dict[str, Mistake], what: str, level: float
) -> Range:
    """Return the range that an explanation predicts for a second measurement.

    Open-ended mistakes, of the first run or its clock, do not affect the same program run a second time.
    """
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
