"""The host's speed, from the chains of calls that are measured with every group of schedules.

A host's calls cost 10 to 25 % more or less within minutes. So a record holds the times of these chains among its
schedules and in its calibrations. :mod:`streamsim_validate.calibrate` has the schedules of the chains, and fits the
cost of each call.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import mean, median
from typing import NamedTuple

from streamsim.errors import InputError
from streamsim_validate.records.chains import Chain, Timings

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
