"""The times of a probe's chains, as records and calibration samples hold them, and the time of one link."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
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
