"""What calls cost the host, from the chains that are measured with every group of schedules.

A host's calls cost 10 to 25 % more or less within minutes, so a record says what they cost among its schedules. The
schedules of the chains are calibration's (:mod:`streamsim_validate.calibrate`).
"""

from __future__ import annotations

import math
from statistics import mean, median
from typing import TYPE_CHECKING, NamedTuple

from streamsim.errors import InputError
from streamsim.lowering.costs import FEW_STREAMS
from streamsim_validate.records.chains import Chain, Timing, Timings, per_link

if TYPE_CHECKING:
    from collections.abc import Sequence

COPIES, CHUNK, MIX_LENGTH = "hd", "hkd", 64  # the calls of a link of a mix, by their letters, and its links
MANY_STREAMS = 32
MIXES = ((COPIES, FEW_STREAMS), (CHUNK, FEW_STREAMS), (CHUNK, MANY_STREAMS))
RECORD_CHAINS, WAIT_CHAINS, SYNCHRONISE_CHAINS = "record", "wait", "synchronise"  # kinds of chains of one call
DOUBLINGS = math.log2(MANY_STREAMS / FEW_STREAMS)


class HostCalls(NamedTuple):
    """Seconds that calls which wait for nothing cost the host: numbers of :class:`streamsim.device.profile.Host`."""

    copy_s: float
    kernel_s: float
    streams_s: float
    record_s: float
    wait_s: float
    synchronize_s: float


def mix_kind(letters: str) -> str:
    """The kind of the chains of a mix of calls."""
    return f"mix {letters}"


def mix_chain(letters: str, streams: int) -> Chain:
    """The chain of a mix over so many streams."""
    return Chain(mix_kind(letters), streams, MIX_LENGTH)


PACE_CHAIN = mix_chain(CHUNK, FEW_STREAMS)  # issued beside each sample of a schedule


def fit_host_calls(timings: Timings) -> HostCalls:
    """From the chains that calibration's ``host_calls`` are. Raises InputError when one is missing.

    Copies and kernels at what they cost in the mean of a whole chain: its first calls find the host's caches cold, as
    those of any run do that follows a wait. What more streams cost is read off runs of the same round, since a host
    may run at another speed for seconds.
    """
    copies_s, all_s = _few_streams_s(timings, COPIES), _few_streams_s(timings, CHUNK)
    found = HostCalls(
        copy_s=copies_s / 2,
        kernel_s=all_s - copies_s,
        streams_s=all_s / len(CHUNK) * (float(median(growths_over_streams(timings))) - 1) / DOUBLINGS,
        record_s=per_link(timings, RECORD_CHAINS, 0, "issue_s"),
        wait_s=per_link(timings, WAIT_CHAINS, 0, "issue_s"),
        synchronize_s=per_link(timings, SYNCHRONISE_CHAINS, 0, "wall_s"),
    )
    return HostCalls(*(max(0.0, seconds) for seconds in found))


def speed_of(timings: Timings, usual: HostCalls) -> float:
    """How many times as long as ``usual``, in which copies cost something, the host's calls took in such chains.

    One number for all of them, the geometric mean over the mixes: a host that changes its speed does so for every
    call, and the medians of two mixes may fall on either of its speeds, so their difference says little of a call.
    Raises InputError when a chain is missing.
    """
    apart = []
    for letters, streams in MIXES:
        more_s = usual.streams_s * math.log2(streams / FEW_STREAMS)
        link_s = sum((usual.kernel_s if letter == "k" else usual.copy_s) + more_s for letter in letters)
        took_s = median(timing.issue_s for timing in _runs(timings, letters, streams))
        apart.append(took_s / (MIX_LENGTH * link_s))
    return math.exp(mean(map(math.log, apart)))


def pace_of(issue_s: float, usual: HostCalls) -> float:
    """How many times as long as ``usual`` the host's calls took where it issued ``PACE_CHAIN`` in so many seconds."""
    return issue_s / (MIX_LENGTH * sum(usual.kernel_s if letter == "k" else usual.copy_s for letter in CHUNK))


def _few_streams_s(timings: Timings, letters: str) -> float:
    """Seconds in which the host issues a link of a mix over few streams, in the mean of its chain."""
    return float(median(timing.issue_s for timing in _runs(timings, letters, FEW_STREAMS))) / MIX_LENGTH


def growths_over_streams(timings: Timings) -> list[float]:
    """How many times as long the longer mix takes over many streams as over few, in each round of runs."""
    few, many = (_runs(timings, CHUNK, streams) for streams in (FEW_STREAMS, MANY_STREAMS))
    return [b.issue_s / a.issue_s for a, b in zip(few, many, strict=False)]  # an interrupted round has but one


def _runs(timings: Timings, letters: str, streams: int) -> Sequence[Timing]:
    chain = mix_chain(letters, streams)
    if chain not in timings:
        raise InputError(f"calibration: no chain {chain.key!r}; calibrate again")
    return timings[chain]
