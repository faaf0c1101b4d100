"""Diagnosis of measured times: the usual mistakes that explain them.

The model simulates the intended program, and the program with each usual mistake, alone and in pairs. A program
explains the measured times if each of its predictions is within the error of the profile. If several programs explain
them, the result names a second measurement that distinguishes these programs.

A mistake is a change of :mod:`streamsim.transform.changes` undone. It gives the work other options of its config, other
ops or another device. The cost of some mistakes does not follow from any size (cold host memory, an allocation). These
have a least and a most time, and explain a range of measured times. A first run and earlier work explain nearly any
time that is too long.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from streamsim.compiled import simulate_one_of_many
from streamsim.device import PUBLISHED_WITHIN, Device, as_device, with_values
from streamsim.displayed import Result, attributes
from streamsim.errors import LEAST_FILL, Checked, InputError, Limits, counted, short
from streamsim.program import Config, Kernel, Schedule, Synchronize, Workload
from streamsim.text import format_between
from streamsim.transform import Source, Undo, Work
from streamsim.transform import changes as make

# Relative error of a right explanation on a measured profile: from random schedules and published cases
# (docs/evidence.md).
KNOWN_MEASURED = 0.05
SHARP = 1 / 8  # share of that error by which programs on one card differ: most of it is common to all of them
SAME = 1.01  # programs whose times differ by less are one explanation
APART = 1.15  # a second measurement distinguishes two explanations if their times have at least this ratio
AGAIN = "the same program a second time in the same process, from an idle card on"
RETURN = "when the last call returns, before the program waits for the card"
AS_MEANT = "the program as it was meant"
TOO_SHORT = 0.5  # share of the intended program's time; a program that takes less cannot have run to its end


# The mistakes

EARLIER_S = 0.1e-3, 60.0  # what was launched before the clock started
OFTEN = 1.4  # of the six mistakes that most public threads are about, against each of the others


class Mistake(NamedTuple):
    """A usual mistake.

    - ``title``: what the program does; ``look``: how to see it in the code or in a profiler; ``remedy``: what to
      change.
    - ``make``: returns the program with the mistake, or the program itself if it cannot have it. The second argument is
      0.0 for the least time that the mistake costs and 1.0 for the most.
    - ``common``: how often it is made, against a mistake that is made now and then.
    - ``is_open_ended``: True if the mistake explains nearly any time that is too long.
    """

    title: str
    look: str
    remedy: str
    make: Undo
    common: float = 1.0
    is_open_ended: bool = False


def pairs() -> Iterator[tuple[Mistake, Mistake]]:
    """Yield every pair of mistakes that a program can have together, in the order of making; none is open-ended."""
    return combinations((mistake for mistake in MISTAKES if not mistake.is_open_ended), 2)


def made(mistakes: Iterable[Mistake], meant: Work, level: float = 0.0) -> Work:
    """Return the program with all of ``mistakes``, made one after the other."""
    return reduce(lambda program, mistake: mistake.make(program, level), mistakes, meant)


def _one_copy_engine(meant: Work, _: float) -> Work:
    return meant._replace(device=with_values(meant.device, {"copy_engines.count": 1}))


def _shared_link(meant: Work, _: float) -> Work:
    """Return the program on a device whose two directions share the rate of one."""
    links = {"h2d": meant.device.h2d, "d2h": meant.device.d2h}
    half = {f"{name}.duplex_bandwidth_bytes_per_s": link.bandwidth_bytes_per_s / 2 for name, link in links.items()}
    return meant._replace(device=with_values(meant.device, half)) if meant.device.copy_engines.count > 1 else meant


def _behind_earlier_work(meant: Work, level: float) -> Work:
    """Return the program in which each stream still runs a kernel that was launched before the clock started."""
    seconds = EARLIER_S[0] + level * (EARLIER_S[1] - EARLIER_S[0])
    streams = meant.schedule.used_streams
    earlier = (Kernel(stream, "earlier work", duration_s=seconds, fill=LEAST_FILL) for stream in streams)
    return make.undone(meant, [*earlier, *meant.schedule.ops])


# In the order in which several are made: those that change the config come before those that change single ops.
MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "host memory is pageable",
        "malloc, new, a NumPy array or a tensor without pin_memory(); profilers call these copies Pageable",
        "allocate host buffers with cudaMallocHost, cupyx.empty_pinned or pin_memory=True, once, before the loop",
        *(make.pageable, OFTEN),
    ),
    Mistake(
        "one stream for all chunks",
        "a profiler shows all copies and kernels in one stream: without a stream argument the default one",
        "two to four non-blocking streams in turn: chunk i in stream i mod S",
        *(make.one_stream, OFTEN),
    ),
    Mistake(
        "the work is not cut into chunks",
        "a profiler shows one copy in, one kernel and one copy back, each of all the data",
        "cut the arrays into chunks, and issue the copies and the kernel of each chunk in its stream",
        *(make.not_cut, OFTEN),
    ),
    Mistake(
        "breadth-first issue on one hardware queue",
        "all copies in, then all kernels; CUDA_DEVICE_MAX_CONNECTIONS=1 or a card before Kepler",
        "issue depth-first, chunk by chunk; unset CUDA_DEVICE_MAX_CONNECTIONS",
        make.few_queues,
    ),
    Mistake(
        "copies block the host",
        "cudaMemcpy, set(), get() or .to() without non_blocking; each call lasts as long as its copy",
        "cudaMemcpyAsync, get(blocking=False) or non_blocking=True, from pinned memory, in the chunk's stream",
        *(make.blocking, OFTEN),
    ),
    Mistake(
        "kernels are in the default stream",
        "<<<grid, block>>> without a stream beside cudaMemcpyAsync with one",
        "give the launch its stream: <<<grid, block, 0, stream>>>, or launch inside `with stream:`",
        make.kernels_in_legacy,
    ),
    Mistake(
        "something in the default stream runs between chunks, beside ordinary streams",
        "cudaMemset, a library call or a launch without a stream in the loop; streams made with cudaStreamCreate",
        "cudaStreamCreateWithFlags(..., cudaStreamNonBlocking), and a stream argument for that call",
        make.short_in_legacy,
    ),
    Mistake(
        "the host waits in the loop",
        "cudaDeviceSynchronize, .item(), .cpu() or print of a result for every chunk",
        "wait once, behind the loop; or for an event of the chunk before the last one",
        *(make.waiting, OFTEN),
    ),
    Mistake(
        "memory is allocated and freed in the loop",
        "cudaMalloc and cudaFree for every chunk: cudaFree waits for the whole card",
        "allocate before the loop, or use cudaMallocAsync or the library's memory pool",
        make.allocating,
    ),
    Mistake(
        "one copy engine for both directions",
        "asyncEngineCount is 1 (under WSL2 too); a profiler never shows both directions at once",
        "nothing overlaps the two directions on this card; hide one of them behind kernels",
        _one_copy_engine,
    ),
    Mistake(
        "both directions share one link's rate",
        "alone each direction is fast, both at once each has half the rate: nvbandwidth's bidirectional tests",
        "a slot with all its lanes; less data back; nothing in the program",
        _shared_link,
    ),
    Mistake(
        "the calls are a library's, such as CuPy's or PyTorch's",
        "a profiler shows the card waiting between short ops; 5 to 15 us a call of CuPy, 10 to 30 us of PyTorch",
        "fewer, larger chunks; fuse kernels or torch.compile; a CUDA graph",
        make.of_a_library,
    ),
    Mistake(
        "a first run was timed",
        "a second run is faster: the first call makes the context, the first launch loads its module or compiles it",
        "run once before the timing starts, then take the median of several runs",
        *(make.first_run, 1.0, True),
    ),
    Mistake(
        "earlier work was still running when the clock started",
        "a copy back, .cpu(), .item() or a wait is timed behind launches: these return at once, and run on",
        "wait for the card before the clock starts; the time belongs to the kernels before it",
        *(_behind_earlier_work, 1.0, True),
    ),
)
STOPPED_EARLY = Mistake(
    "the clock stopped before the card was done",
    "no cudaDeviceSynchronize or event between the last call and the end of the timing",
    "wait for the card before the clock is read, or time with events",
    lambda meant, _: meant,
)


# What was measured, and what explains it


class Measured(Checked, frozen=True):
    """A measured time of a program, in seconds.

    ``streams``: the number of streams in this measurement (None: that of the program). ``without_kernels``: True if
    only the copies ran. ``uncut``: True if the work was one chunk. Raises InputError for a time or a number of streams
    out of range.
    """

    seconds: Annotated[float, Limits(1e-9, 1e6)]
    streams: Annotated[int, Limits(1, 1 << 16)] | None = None
    without_kernels: bool = False
    uncut: bool = False

    @property
    def words(self) -> str:
        """The conditions of the measurement, such as "on 4 streams, copies only"; "" for none."""
        streams = "" if self.streams is None else f"on {counted(self.streams, 'stream')}"
        return ", ".join(filter(None, (streams, "copies only" * self.without_kernels, "uncut" * self.uncut)))


FURTHER = {  # what else can be measured, the easiest first
    "the same work uncut: one copy in, the kernels, one copy back": Measured(1.0, uncut=True),
    RETURN: Measured(1.0),
    AGAIN: Measured(1.0),
    "the same without the kernels": Measured(1.0, without_kernels=True),
    "the same over 1 stream": Measured(1.0, streams=1),
}


class Range(NamedTuple):
    """The least and the most seconds that a program may take; equal if the model predicts one time."""

    low_s: float
    high_s: float

    def off(self, seconds: float) -> float:
        """Return the relative distance of the range from a measured time: negative if the range lies below it."""
        return min(max(seconds, self.low_s), self.high_s) / seconds - 1

    def words(self, within: float) -> str:
        """Return the range of the times, widened by a relative error, with units and the figures that it leaves."""
        return format_between(self.low_s * (1 - within), self.high_s * (1 + within), within)

    def is_apart(self, other: "Range") -> bool:
        """Return True if a measurement tells a time of one range from any time of the other."""
        return self.high_s * APART <= other.low_s or other.high_s * APART <= self.low_s


Second = tuple[str, dict[str, Range]]  # a measurement, and what each explanation predicts for it, by title


class CandidateProgram(msgspec.Struct, frozen=True):
    """A program that may explain the measured times: the intended program, with no, one or two ``mistakes``.

    - ``times_s``: the predicted range for each measured time, in their order.
    - ``off``: the largest relative distance of a prediction from its measured time.
    - ``fits``: True if ``off`` is within the error of the profile.
    """

    mistakes: tuple[Mistake, ...]
    times_s: tuple[Range, ...]
    off: float
    fits: bool

    @property
    def titles(self) -> tuple[str, ...]:
        """What the program does, for each mistake."""
        return tuple(mistake.title for mistake in self.mistakes)

    @property
    def title(self) -> str:
        """The mistakes in words, or "the program as it was meant"."""
        return " and ".join(self.titles) or AS_MEANT

    @property
    def is_open_ended(self) -> bool:
        """True if the mistake explains nearly any time that is too long."""
        return any(mistake.is_open_ended for mistake in self.mistakes)


class Diagnosis(Result, msgspec.Struct, frozen=True):
    """The explanations of measured times.

    - ``known_within``: the relative error that a right explanation may have.
    - ``explanations``: programs that fit come first, with few mistakes before many, and the likeliest of as many
      first; then the others, the nearest first.
    - ``next``: the measurement that distinguishes the explanations that fit (None: none is needed or known), and what
      each of them predicts for it, by title.
    """

    device: str
    measured: tuple[Measured, ...]
    known_within: float
    explanations: tuple[CandidateProgram, ...]
    next: Second | None = None

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
        if self.fitting and not self.fitting[0].mistakes:
            return self.fitting[:1]
        alone = (found for found in self.fitting if len(found.mistakes) < 2 and not found.is_open_ended)
        return tuple(alone) or self.fitting

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if not self.simplest:
            (meant,) = (found for found in self.explanations if not found.mistakes)
            is_short = self.measured[0].seconds < meant.times_s[0].low_s
            what = "it takes less time than it should" if is_short else "no usual mistake takes just so long"
            return f"{what}: check the sizes, the kernel's time and the device"
        first, *others = self.simplest
        if not first.mistakes:
            return "the program takes the time that it should take"
        if first.is_open_ended:
            return "no usual mistake alone takes just so long; was the clock right?"
        if len(first.mistakes) == 2:
            return f"two usual mistakes together explain it: {first.title}"
        if not others:
            return f"one usual mistake explains it: {first.title}"
        return f"{1 + len(others)} explanations fit; the likeliest one: {first.title}"

    def _json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "verdict": self.verdict,
            "measured": self.measured,
            "explanations": [
                {
                    "mistakes": found.titles,
                    "open_ended": found.is_open_ended,
                    "predicted_s": found.times_s,
                    **attributes(found, "fits", "off"),
                    "look": [mistake.look for mistake in found.mistakes],
                    "remedies": [mistake.remedy for mistake in found.mistakes],
                }
                for found in self.explanations
            ],
            "next_measurement": self.next and dict(zip(("what", "says_s"), self.next, strict=True)),
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
    of streams or chunks if the program is a schedule.
    """
    device = as_device(device)
    times = (Measured(float(measured)),) if isinstance(measured, int | float) else tuple(measured)
    if not times:
        raise InputError("measured = (): give at least one measured time")
    meant = _work(program, device, config or Config())
    known = KNOWN_MEASURED if device.source("h2d.bandwidth_bytes_per_s")[0] == "measured" else PUBLISHED_WITHIN
    found = _candidates([_as_measured(meant, time) for time in times], times, known)
    explanations = tuple(sorted(found, key=lambda one: _rank(one, times, known * SHARP)))
    return Diagnosis(device.name, times, known, explanations, _next(meant, times, explanations))


def _work(program: Workload | Schedule, device: Device, config: Config) -> Work:
    if isinstance(program, Schedule):
        return Work(program, device)
    return Work(config.schedule(program), device, Source(program, config))


def _as_measured(meant: Work, time: Measured) -> Work:
    """Return the program with the streams and chunks of a measurement, and without kernels if it had none."""
    if meant.pipeline is not None:
        work, config = meant.pipeline.workload, meant.pipeline.config
        if time.uncut:
            config = replace(config, order="depth-first", chunks=1, streams=1, buffers=None)
        config = replace(config, streams=time.streams or config.streams)
        meant = _work(replace(work, kernels=()) if time.without_kernels else work, meant.device, config)
    elif time.uncut or time.streams is not None:
        what = "uncut" if time.uncut else f"streams = {time.streams}"
        raise InputError(f"{what}: a schedule has its streams and chunks; give a workload")
    elif time.without_kernels:
        ops = tuple(op for op in meant.schedule.ops if not isinstance(op, Kernel))
        meant = Work(replace(meant.schedule, ops=ops, unchunked=None), meant.device)
    if meant.schedule.launch == "graph":
        raise InputError("launch = 'graph': a graph makes none of the usual mistakes; diagnose the live program")
    return meant


def _rank(found: CandidateProgram, times: Sequence[Measured], error: float) -> tuple[bool, int, bool, float]:
    """Return the sort key of an explanation.

    Explanations that fit come first, with few mistakes before many, and the likeliest first of as many, with open-ended
    ones last. Explanations that do not fit are ordered by their distance.

    A common mistake is likelier. A time is likely if it is near the prediction in units of the relative ``error``, and
    if the prediction is narrow: a range that holds nearly any time explains none of them.
    """
    if not found.fits:
        return True, 0, False, abs(found.off)
    hits = (time.off(measured.seconds) / error for time, measured in zip(found.times_s, times, strict=True))
    widths = (math.log(time.high_s / time.low_s) + error for time in found.times_s)
    unlikely = sum(hit * hit / 2 + math.log(width) for hit, width in zip(hits, widths, strict=True))
    unlikely -= sum(math.log(mistake.common) for mistake in found.mistakes)
    return False, len(found.mistakes), found.is_open_ended, unlikely


# What explains the measured times


def _candidates(programs: Sequence[Work], times: Sequence[Measured], known: float) -> Iterator[CandidateProgram]:
    """Yield the intended program, and the program with each mistake and each pair.

    A program that takes the same times as one with fewer of its mistakes is left out.
    """
    ranges: dict[tuple[Mistake, ...], tuple[Range, ...]] = {}
    for mistakes in ((), *((mistake,) for mistake in (*MISTAKES, STOPPED_EARLY)), *pairs()):
        found = ranges[mistakes] = tuple(_range(mistakes, program) for program in programs)
        if any(_are_same(found, ranges[fewer]) for n in range(len(mistakes)) for fewer in combinations(mistakes, n)):
            continue
        off = max((time.off(measured.seconds) for time, measured in zip(found, times, strict=True)), key=abs)
        yield CandidateProgram(mistakes, found, off, abs(off) <= known)


def _are_same(found: Sequence[Range], other: Sequence[Range]) -> bool:
    return all(max(a, b) <= SAME * min(a, b) for a, b in zip(chain(*found), chain(*other), strict=True))


def _range(mistakes: Sequence[Mistake], meant: Work) -> Range:
    """Return the range of times of the program with the mistakes.

    A clock that stops early shows a time from the return of all calls to the least in which the program can end.
    """
    if STOPPED_EARLY in mistakes:
        returned_s = _returns_s(meant)
        return Range(returned_s, max(returned_s, TOO_SHORT * _takes_s(meant)))
    least, most = made(mistakes, meant), made(mistakes, meant, 1.0)
    low_s = _takes_s(least)
    return Range(low_s, low_s if most == least else _takes_s(most))


def _takes_s(program: Work) -> float:
    return simulate_one_of_many(program.schedule, program.device).makespan_s


def _returns_s(program: Work) -> float:
    """Return the seconds until all calls have returned, without the waits at the end."""
    ops = program.schedule.ops
    while len(ops) > 1 and isinstance(ops[-1], Synchronize):
        ops = ops[:-1]
    return simulate_one_of_many(replace(program.schedule, ops=ops, unchunked=None), program.device).host_s


# A second measurement


def _next(meant: Work, times: Sequence[Measured], found: Sequence[CandidateProgram]) -> Second | None:
    """Return the measurement that distinguishes the explanations that fit; None if nothing does, or one is enough.

    It tells the two likeliest apart if any does, and of those that do, the most pairs; of equals the easiest one.
    """
    fitting = [one for one in found if one.fits and len(one.mistakes) < 2]
    if len(fitting) < 2 or not fitting[0].mistakes:
        return None
    had, telling = {time.words for time in times} - {""}, dict[tuple[bool, int], Second]()
    for what, second in FURTHER.items():
        try:
            program = _as_measured(meant, second)
        except InputError:  # a schedule has its streams and chunks, and there may be nothing but kernels
            continue
        if second.words not in had:
            says = {one.title: _says(one, program, what, times[0].seconds) for one in fitting}
            apart = [one.is_apart(two) for one, two in combinations(says.values(), 2)]
            telling.setdefault((apart[0], sum(apart)), (what, says))
    most = max(telling)
    return telling[most] if most[1] else None


def _says(found: CandidateProgram, program: Work, what: str, measured_s: float) -> Range:
    """Return the range that an explanation predicts for a second measurement, given the first one.

    A wrong clock does not affect the same program run a second time.
    """
    if STOPPED_EARLY in found.mistakes:
        return _range(found.mistakes, program)
    low_s, high_s = found.times_s[0]
    level = min(1.0, max(0.0, measured_s - low_s) / (high_s - low_s)) if high_s > low_s else 0.0
    wrong = program if what == AGAIN and found.is_open_ended else made(found.mistakes, program, level)
    seconds = _returns_s(wrong) if what == RETURN else _takes_s(wrong)
    return Range(seconds, seconds)
