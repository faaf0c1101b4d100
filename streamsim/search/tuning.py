"""The next candidate to measure: the model proposes, and measurements on the card correct it.

The ratio of measured and predicted time is uncertain: the profile's numbers scatter, a host changes its speed, kernels
take longer than given, and the model errs by a few per cent, by similar amounts for similar programs. The logarithm of
this ratio is therefore a Gaussian process over the candidates. Its covariance is that of the model's own predictions
with profiles drawn from the spread. Each measurement narrows it. The next candidate is the one with the largest
expected improvement over the best one so far (J. Mockus, The application of Bayesian methods for seeking the extremum,
1978).

The size of the model's error, and how similar it is for different programs, are learnt from the errors so far: the
likeliest of a few hypotheses holds (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning,
2006, 5.4.1). This finds profiles that are wrong in kind, such as two copy engines in place of one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamsim.analysis import draws
from streamsim.device import Device, multiplied, number_names
from streamsim.errors import InputError
from streamsim.program import Config, Workload
from streamsim.search.evaluate import evaluate, is_fast
from streamsim.search.grid import COARSE_CHUNKS, Grid

Array = np.ndarray[Any, np.dtype[np.float64]]

STREAMS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
DRAWS, DRAWS_ON_SIMPY = 64, 8
PROFILE_SPREAD = 0.1  # of every number of a profile that does not say how well it is known
HOST_SPREAD = 0.25  # hosts change between two speeds, 1.5 to 1.7 apart (docs/limits.md)
COMMON_SPREAD = 0.1  # of all programs of a workload alike: kernels that take another time than was said
MODEL_MISS = 0.03  # with the right profile
MISSES = (1, 2, 4, 8)  # times as far
REACHES = (1.0, 2.0)  # doublings: of programs as far apart the misses correlate by 0.6
LARGER_IS_RARER = 0.5  # a miss n times as large is thought less likely by this power of n
LEAST_SCATTER = 1e-4  # of measured seconds: no clock and no card repeats itself better


def candidates(workload: Workload, device: Device, grid: Grid) -> list[Config]:
    """Return the configurations of ``grid`` that fit on the card, the simplest first, without equal programs.

    With one chunk, breadth-first equals depth-first.
    """
    configs = grid.within(device.memory_bytes).configs(workload)
    twice = "depth-first" in grid.order
    return [config for config in configs if config.chunks > 1 or not twice or config.order != "breadth-first"]


def default_grid(most_chunks: int = 256, most_streams: int = 32, **rest: Any) -> Grid:
    """Return a grid of usual numbers of chunks and streams up to these limits; ``rest``: other fields of the Grid."""
    chunks = tuple(n for n in COARSE_CHUNKS if n <= most_chunks)
    return Grid(chunks=chunks, streams=tuple(n for n in STREAMS if n <= most_streams), **rest)


class Hypothesis(NamedTuple):
    """A hypothesis about the model's own error.

    ``miss``: the standard deviation of log(measured / predicted). ``reach``: the distance, in doublings, at which
    errors of two programs still correlate by 0.6.
    """

    miss: float
    reach: float


@dataclass(frozen=True)
class Beliefs:
    """The prior distribution over the times of n candidates, before any measurement.

    - ``predicted_s``: predicted seconds, shape (n,).
    - ``drawn``: log(time on a device drawn from the profile's spread / predicted time), shape (draws, n).
    - ``places``: coordinates of the candidates, in doublings of a number, shape (n, axes). Near candidates are alike.
    - ``miss``: the relative error of the model with the right profile.
    """

    predicted_s: Array
    drawn: Array
    places: Array
    miss: float = MODEL_MISS

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses about the model's error; the first one holds before any measurement."""
        return [Hypothesis(times * self.miss, reach) for reach in REACHES for times in MISSES]

    def covariance(self, some: Sequence[int], others: Sequence[int], how: Hypothesis | None = None) -> Array:
        """Return covariances of log(measured / predicted) of ``some`` candidates (rows) with ``others`` (columns)."""
        how = self.hypotheses[0] if how is None else how
        apart = ((self.places[some][:, None] - self.places[others][None]) ** 2).sum(axis=2)
        alike = how.miss**2 * np.exp(-apart / (2 * how.reach**2))
        found: Array = self.drawn[:, some].T @ self.drawn[:, others] / len(self.drawn) + COMMON_SPREAD**2 + alike
        return found

    def likeliest(self, measured: Mapping[int, tuple[float, float]]) -> Hypothesis:
        """Return the most likely hypothesis given the measurements; of equally likely ones, the first."""
        if not measured:
            return self.hypotheses[0]
        known, missed, noise = self._known(measured)

        def likelihood(how: Hypothesis) -> float:
            own = self.covariance(known, known, how) + noise
            rarity = LARGER_IS_RARER * math.log(how.miss)
            return float(-missed @ np.linalg.solve(own, missed) / 2 - np.linalg.slogdet(own)[1] / 2 - rarity)

        return max(self.hypotheses, key=likelihood)

    def expected(
        self, measured: Mapping[int, tuple[float, float]], how: Hypothesis | None = None
    ) -> tuple[Array, Array]:
        """Return the expected seconds of each candidate, and the standard deviation of their logarithm.

        ``measured``: by candidate, its measured seconds and their relative scatter. ``how``: a hypothesis (None: the
        most likely one).
        """
        how = self.likeliest(measured) if how is None else how
        log_s = np.log(self.predicted_s)
        variance = (self.drawn**2).mean(axis=0) + COMMON_SPREAD**2 + how.miss**2
        if measured:
            known, missed, noise = self._known(measured)
            across = self.covariance(range(len(log_s)), known, how)
            weights = np.linalg.solve(self.covariance(known, known, how) + noise, across.T)
            log_s = log_s + weights.T @ missed
            variance = variance - np.einsum("ij,ji->i", across, weights)
        return np.exp(log_s), np.sqrt(np.maximum(variance, 0.0))

    def _known(self, measured: Mapping[int, tuple[float, float]]) -> tuple[list[int], Array, Array]:
        """Return the measured candidates, log(measured / predicted) of each, and the covariance of their noise."""
        known = list(measured)
        times, scatter = np.array([measured[k] for k in known]).T
        missed = np.log(times) - np.log(self.predicted_s[known])
        return known, missed, np.diag(np.maximum(scatter, LEAST_SCATTER) ** 2)

    def next(self, measured: Mapping[int, tuple[float, float]], without: frozenset[int] = frozenset()) -> int | None:
        """Return the candidate to measure next, or None if there is none left; ``without``: candidates to leave out.

        The first one is the fastest by the model. Of equally promising candidates, the first one is returned.
        """
        left = self._left(measured, without)
        if not left:
            return None
        if not measured:
            return min(left, key=lambda k: self.predicted_s[k])
        promises = self._promises(measured, left)
        return left[promises.index(max(promises))]

    def promise(self, measured: Mapping[int, tuple[float, float]], without: frozenset[int] = frozenset()) -> float:
        """Return the largest expected improvement by one more measurement, as a share of the best measured time."""
        left = self._left(measured, without)
        return 1 - math.exp(-max(self._promises(measured, left))) if left and measured else 0.0

    def _left(self, measured: Mapping[int, tuple[float, float]], without: frozenset[int]) -> list[int]:
        return [k for k in range(len(self.predicted_s)) if k not in measured and k not in without]

    def _promises(self, measured: Mapping[int, tuple[float, float]], some: Sequence[int]) -> list[float]:
        expected_s, deviation = self.expected(measured)
        log_s = np.log(expected_s)
        best = min(float(log_s[k]) for k in measured)
        return [expected_improvement(best - float(log_s[k]), float(deviation[k])) for k in some]


def expected_improvement(gain: float, deviation: float) -> float:
    """Return the mean of max(0, x) for a normal variable x with mean ``gain`` and standard deviation ``deviation``."""
    if deviation <= 0:
        return max(gain, 0.0)
    z = gain / deviation
    below = 0.5 * math.erfc(-z / math.sqrt(2))
    return gain * below + deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def beliefs(workload: Workload, configs: Sequence[Config], device: Device, seed: int = 0) -> Beliefs:
    """Return the prior distribution over the times of ``configs``; ``seed``: the seed of the drawn devices.

    A time ends when the host knows that all work is done. Raises InputError for no configs, and for a kernel without a
    cost on ``device``.
    """
    if not configs:
        raise InputError("configs = []: nothing to choose from; give at least one")
    predicted = _returned_s(workload, configs, device)
    drawn = _drawn(device, DRAWS if is_fast() else DRAWS_ON_SIMPY, seed)
    off = np.log([_returned_s(workload, configs, other) for other in drawn]) - np.log(predicted)
    return Beliefs(predicted, off, _places(configs))


def _returned_s(workload: Workload, configs: Sequence[Config], device: Device) -> Array:
    return np.array(evaluate(workload, configs, device)) + device.host.wake_s


def _drawn(device: Device, many: int, seed: int) -> list[Device]:
    """Return ``many`` devices drawn from the spread of ``device``, on hosts of random speeds."""
    if not device.spread:
        device = msgspec.structs.replace(device, spread=dict.fromkeys(number_names(device), PROFILE_SPREAD))
    host = [name for name in number_names(device) if name.startswith("host.")]
    speeds = np.exp(HOST_SPREAD * np.random.default_rng(seed).standard_normal(many)).tolist()
    found = draws(device, max(many, 20), seed)
    return [multiplied(drawn, dict.fromkeys(host, speed)) for drawn, speed in zip(found, speeds, strict=False)]


def _places(configs: Sequence[Config]) -> Array:
    """Return the coordinates of configs. A doubling of chunks, streams or buffers is 1 apart, another order root 2."""
    numbers = np.log2([(config.chunks, config.streams, config.buffers or config.chunks) for config in configs])
    ways = [(config.order, config.launch, config.memory) for config in configs]
    kinds = sorted(set(ways))
    return np.hstack([numbers, [[float(way == kind) for kind in kinds] for way in ways]])
