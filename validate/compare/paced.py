"""What is predicted beside samples that were each measured while the host had another speed.

A shared host doubles the cost of calls for tenths of a second, so the median of some samples may fall on any speed. A
chain of calls, the pace, was issued just before each sample and just after. Each is predicted with the host as fast as
it was then; the prediction stands to the measured median as it does for the sample in the middle.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

from streamsim.device.variations import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamsim.device.profile import Device

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the speeds, at which is predicted; between them on a line


def at_speed(device: Device, calls: Iterable[str], speed: float) -> Device:
    """The device with calls, by their names in its host, that take so many times as long."""
    return with_values(device, {f"host.{call}": getattr(device.host, call) * speed for call in calls})


def predicted_beside(
    predict: Callable[[Device], float],
    at_speed: Callable[[float], Device],
    speeds: Sequence[float],
    samples_s: Sequence[float],
) -> float:
    """Seconds beside the median of ``samples_s``, all above 0.

    ``at_speed``: the device with calls that take so many times as long; ``speeds``: how many times as long they took
    beside each sample.
    """
    known = sorted({float(speed) for speed in np.quantile(speeds, QUANTILES)})
    expected_s = np.interp(speeds, known, [predict(at_speed(speed)) for speed in known])
    return statistics.median(samples_s) * float(np.median(expected_s / np.asarray(samples_s)))
