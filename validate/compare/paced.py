"""Predictions of samples that were measured at different speeds of the host and of the link.

A shared host doubles the cost of calls for tenths of a second, so the median of some samples may fall on any speed. A
chain of calls, the pace, was issued just before and just after each sample. Each sample is predicted with the host at
that speed. The prediction of the median is to the measured median as the prediction of the middle sample is to that
sample. The link is timed beside each sample in the same way.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from streamsim.device import DIRECTIONS, Device, changed, with_values

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the speeds, at which is predicted; between them on a line


def at_speed(device: Device, calls: Iterable[str], speed: float) -> Device:
    """Return the device with calls, by their names in its host, that take ``speed`` times as long."""
    return with_values(device, {f"host.{call}": getattr(device.host, call) * speed for call in calls})


def with_link(device: Device, times: float) -> Device:
    """Return the device with a link that others use: copies both ways at once take ``times`` times as long.

    The others take from the bandwidth that both directions share. One direction alone does not need all of it, so it
    keeps its own bandwidth if as much is left.
    """
    each = [getattr(device, way) for way in DIRECTIONS]
    shared = sum(link.duplex_bandwidth_bytes_per_s for link in each) / times
    slower = dict[str, float]()
    for way, link in zip(DIRECTIONS, each, strict=True):
        duplex = link.duplex_bandwidth_bytes_per_s / times
        slower[f"{way}.duplex_bandwidth_bytes_per_s"] = duplex
        slower[f"{way}.bandwidth_bytes_per_s"] = max(duplex, min(link.bandwidth_bytes_per_s, shared))
    return changed(device, slower)


def expected_beside(
    predict: Callable[[Device], float], changed_to: Callable[[float], Device], times: Sequence[float]
) -> np.ndarray:
    """Return the seconds beside each sample, with ``times`` the usual time; ``changed_to``: the device then."""
    known = sorted({float(some) for some in np.quantile(times, QUANTILES)})
    return np.interp(times, known, [predict(changed_to(some)) for some in known])


def slower_by_link(
    predict: Callable[[Device], float], device: Device, links: Sequence[float], usual_s: float
) -> np.ndarray:
    """Return the factor by which the link slows each sample.

    ``links``: for each sample, the time of copies both ways at once, over the usual time. ``usual_s``: the prediction
    on ``device``. A program that takes no time is not slowed.
    """
    return expected_beside(predict, partial(with_link, device), links) / usual_s if usual_s else np.ones(len(links))


def beside_median(expected_s: np.ndarray, samples_s: Sequence[float]) -> float:
    """Return the seconds beside the median of ``samples_s``, all above 0, by what is expected of each."""
    return statistics.median(samples_s) * float(np.median(expected_s / np.asarray(samples_s)))
