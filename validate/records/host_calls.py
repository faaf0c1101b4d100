"""The chains of calls that show the host's speed: their times, and the time of one link.

A host's calls cost 10 to 25 % more or less within minutes. So a record holds the times of these chains among its
schedules and in its calibrations. :mod:`streamsim_validate.calibrate` has the schedules of the chains, and fits the
cost of each call.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from statistics import mean, median
from typing import NamedTuple

from streamsim.checks import LARGEST_BYTES, LONGEST_S, check_whole
from streamsim.errors import InputError

SHORTEST_S = 1e-9  # no clock here resolves less

# A chain's kind, size and length, and of each of its runs device_s, wall_s and issue_s.
ChainRow = tuple[str, int, int, tuple[tuple[float, float, float], ...]]
PaceRow = tuple[str, int, int, tuple[float, ...]]  # of each of its runs how long the pace beside it took


class Chain(NamedTuple):
    """A probe: a chain of ``length`` links of one ``kind``. ``size``: bytes, elements or streams, by the kind."""

    kind: str
    size: int
    length: int

    @property
    def key(self) -> str:
        """The name of the chain among the results."""
        return f"{self.kind} {self.size} x{self.length}"


class Timing(NamedTuple):
    """The seconds of one run: on the card between events, for the host until all was done, and until all was issued."""

    device_s: float
    wall_s: float
    issue_s: float


Timings = Mapping[Chain, Sequence[Timing]]  # of each chain its runs


def rows_of(timings: Timings) -> tuple[ChainRow, ...]:
    """Return the form that a file holds."""
    return tuple((*chain, tuple((t.device_s, t.wall_s, t.issue_s) for t in runs)) for chain, runs in timings.items())


def timings_of(rows: Iterable[ChainRow]) -> dict[Chain, list[Timing]]:
    """Return the timings from the form that a file holds."""
    return {Chain(kind, size, n): [Timing(*run) for run in runs] for kind, size, n, runs in rows}


def check_rows(rows: Iterable[ChainRow]) -> None:
    """Raise InputError for a chain that no card could have run, or a time that no clock shows."""
    for kind, size, length, runs in rows:
        for name, value in (("size", size), ("length", length)):
            check_whole(f"chain {kind!r}: {name}", value, 0, LARGEST_BYTES)
        check_times(f"chain {kind!r}", [seconds for run in runs for seconds in run])


def check_times(what: str, seconds: Sequence[float]) -> None:
    """Raise InputError for a time that no clock shows."""
    if not all(abs(time) <= LONGEST_S for time in seconds):  # a difference may be below 0
        raise InputError(f"{what}: has a time of more than {LONGEST_S:g} s, which no clock shows; measure it again")


def per_link(
    timings: Timings,
    kind: str,
    size: int,
    column: str = "device_s",
    typical: Callable[[Sequence[float]], float] = median,
) -> float:
    """Return the seconds of one more link: the slope between the shortest and the longest chain.

    ``typical``: the statistic of the runs of each length. Raises InputError unless there are two lengths.
    """
    lengths = sorted(chain.length for chain in timings if (chain.kind, chain.size) == (kind, size))
    if len(lengths) < 2:
        raise InputError(f"calibration: no chains of {kind!r} of size {size}; calibrate again")
    first, last = lengths[0], lengths[-1]
    short, long = (typical([getattr(t, column) for t in timings[Chain(kind, size, n)]]) for n in (first, last))
    return float(long - short) / (last - first)


COPIES, CHUNK, MIX_LENGTH = "hd", "hkd", 64  # the calls of a link of a mix, by their letters, and its links
FEW_STREAMS, MANY_STREAMS = 4, 32
MIXES = ((COPIES, FEW_STREAMS), (CHUNK, FEW_STREAMS), (CHUNK, MANY_STREAMS))
RECORD_CHAINS, WAIT_CHAINS, SYNCHRONISE_CHAINS = "record", "wait", "synchronise"  # kinds of chains of one call


class HostCalls(NamedTuple):
    """Seconds of calls that wait for nothing: numbers of :class:`streamsim.device.profile.Host`."""

    copy_s: float
    kernel_s: float
    record_s: float
    wait_s: float
    synchronize_s: float
    first_on_stream_s: float


def mix_kind(letters: str) -> str:
    """Return the kind of the chains of a mix of calls."""
    return f"mix {letters}"


def mix_chain(letters: str, streams: int) -> Chain:
    """Return the chain of a mix of calls over this many streams."""
    return Chain(mix_kind(letters), streams, MIX_LENGTH)


PACE_CHAIN = mix_chain(CHUNK, FEW_STREAMS)  # issued beside each sample of a schedule


def usual_pace_s(paces_s: Iterable[Sequence[float]]) -> float:
    """Return the median seconds in which the host issued the pace beside the programs of a calibration.

    Raises InputError if there are none.
    """
    found = [*chain.from_iterable(paces_s)]
    if not found:
        raise InputError("calibration: no paces beside the programs, of an earlier version; calibrate again")
    return float(median(found))


def mixes_s(timings: Timings) -> dict[Chain, float]:
    """Return the seconds in which the host issued each of the mixes. Raises InputError when one is missing."""
    found = {}
    for mix in (mix_chain(letters, streams) for letters, streams in MIXES):
        if mix not in timings:
            raise InputError(f"calibration: no chain {mix.key!r}; calibrate again")
        found[mix] = float(median(timing.issue_s for timing in timings[mix]))
    return found


def speed_of(took_s: Mapping[Chain, float], usual_s: Mapping[Chain, float]) -> float:
    """Return the time of the host's calls over the usual time, from the times of the same mixes.

    The result is the geometric mean over the mixes. A host changes its speed for all calls at once. The medians of two
    mixes may fall on two of its speeds, so their difference says little about one call.
    """
    return math.exp(mean(math.log(took_s[mix] / usual_s[mix]) for mix in usual_s))
