"""What to measure next: the model proposes, what a card measured corrects it.

What a card takes over what the model predicts is uncertain in ways that are known: the profile's numbers scatter, a
host changes its speed, kernels take longer than was said, and the model itself misses by a few per cent, much alike for
programs that are much alike. All of that makes the logarithm of measured over predicted a Gaussian process over the
candidates: its covariance is that of the model's own predictions as the profile is drawn from its spread. Each
measurement narrows it, and the next candidate is the one that promises the largest expected improvement over the best
so far (J. Mockus, The application of Bayesian methods for seeking the extremum, 1978).

How far the model misses, and how much alike it does for programs that are not, is learnt from what it has missed by so
far: of a few hypotheses the likeliest holds (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine
Learning, 2006, 5.4.1). A profile that is wrong in kind, of two copy engines where there is one, is so found out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from streamsim.analysis.intervals import draws
from streamsim.device.profile import number_names
from streamsim.device.variations import multiplied
from streamsim.errors import InputError
from streamsim.search.evaluate import evaluate, is_fast
from streamsim.search.grid import Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload

Array = np.ndarray[Any, np.dtype[np.float64]]

CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
STREAMS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
DRAWS, DRAWS_ON_SIMPY = 64, 8
PROFILE_SPREAD = 0.1  # of every number of a profile that does not say how well it is known
HOST_SPREAD = 0.25  # hosts change between two speeds, 1.5 to 1.7 apart (docs/evidence.md)
COMMON_SPREAD = 0.1  # of all programs of a workload alike: kernels that take another time than was said
MODEL_MISS = 0.03  # with the right profile
MISSES = (1, 2, 4, 8)  # times as far
REACHES = (1.0, 2.0)  # doublings: of programs as far apart the misses correlate by 0.6
LARGER_IS_RARER = 0.5  # a miss n times as large is thought less likely by this power of n
LEAST_SCATTER = 1e-4  # of measured seconds: no clock and no card repeats itself better


def candidates(workload: Workload, device: Device, grid: Grid) -> list[Config]:
    """The programs of ``grid`` that fit on the card, the simplest first, each once.

    Of one chunk, breadth-first is depth-first.
    """
    configs = grid.within(device.memory_bytes).configs(workload)
    twice = "depth-first" in grid.orders
    return [config for config in configs if config.chunks > 1 or not twice or config.order != "breadth-first"]


def default_grid(most_chunks: int = 256, most_streams: int = 32, **rest: Any) -> Grid:
    """Numbers of chunks and streams up to these that are a quarter apart or more; ``rest``: other axes of a Grid."""
    chunks = tuple(n for n in CHUNKS if n <= most_chunks)
    return Grid(chunks=chunks, streams=tuple(n for n in STREAMS if n <= most_streams), **rest)


class Hypothesis(NamedTuple):
    """How far the model misses by itself (a standard deviation of the logarithm), and how far that reaches."""

    miss: float
    reach: float


@dataclass(frozen=True)
class Beliefs:
    """What is thought of n candidates before any is measured.

    ``predicted_s``: shape (n,), seconds. ``drawn``: shape (draws, n): log of what devices as likely as the profile take
    over that. ``places``: shape (n, axes): where programs lie that are alike, in doublings of a number. ``miss``: by
    how much the model errs with the right profile, relative.
    """

    predicted_s: Array
    drawn: Array
    places: Array
    miss: float = MODEL_MISS

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """Of how the model misses; the first holds until measurements say otherwise."""
        return [Hypothesis(times * self.miss, reach) for reach in REACHES for times in MISSES]

    def covariance(self, some: Sequence[int], others: Sequence[int], how: Hypothesis | None = None) -> Array:
        """Of log(measured / predicted) of ``some`` candidates (rows) with ``others`` (columns)."""
        how = self.hypotheses[0] if how is None else how
        apart = ((self.places[some][:, None] - self.places[others][None]) ** 2).sum(axis=2)
        alike = how.miss**2 * np.exp(-apart / (2 * how.reach**2))
        found: Array = self.drawn[:, some].T @ self.drawn[:, others] / len(self.drawn) + COMMON_SPREAD**2 + alike
        return found

    def likeliest(self, measured: Mapping[int, tuple[float, float]]) -> Hypothesis:
        """The hypothesis under which what was measured is the least surprising; of equals the earlier one."""
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
        """The seconds that each candidate is expected to take, and the standard deviation of their logarithm.

        ``measured``: by candidate its seconds and by how much of them (a share) they scatter. ``how``: None: the
        likeliest.
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
        """The candidates that were measured, log(measured / predicted) of each, and the covariance of their noise."""
        known = list(measured)
        times, scatter = np.array([measured[k] for k in known]).T
        missed = np.log(times) - np.log(self.predicted_s[known])
        return known, missed, np.diag(np.maximum(scatter, LEAST_SCATTER) ** 2)

    def next(self, measured: Mapping[int, tuple[float, float]], without: frozenset[int] = frozenset()) -> int | None:
        """The candidate to measure next, ``without`` those that cannot be; None when there is none left.

        The first is what the model would pick. Of equals the earlier one.
        """
        left = self._left(measured, without)
        if not left:
            return None
        if not measured:
            return min(left, key=lambda k: self.predicted_s[k])
        promises = self._promises(measured, left)
        return left[promises.index(max(promises))]

    def promise(self, measured: Mapping[int, tuple[float, float]], without: frozenset[int] = frozenset()) -> float:
        """By what share the best that was measured is expected to be improved upon by any one of the others."""
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
    """By how much less than the best a normal variable is on average, the best counted as 0; ``gain``: of its mean."""
    if deviation <= 0:
        return max(gain, 0.0)
    z = gain / deviation
    below = 0.5 * math.erfc(-z / math.sqrt(2))
    return gain * below + deviation * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def beliefs(workload: Workload, configs: Sequence[Config], device: Device, seed: int = 0) -> Beliefs:
    """What the model says of ``configs``, and of how far it may be off. ``seed``: of the devices that are drawn.

    Times are those until the host knows that all is done. Raises InputError for no configs, and where ``device`` has no
    cost for a kernel.
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
    """Devices as likely as ``device``, on hosts of other speeds."""
    if not device.spread:
        device = msgspec.structs.replace(device, spread=dict.fromkeys(number_names(device), PROFILE_SPREAD))
    host = [name for name in number_names(device) if name.startswith("host.")]
    speeds = np.exp(HOST_SPREAD * np.random.default_rng(seed).standard_normal(many)).tolist()
    found = draws(device, max(many, 20), seed)
    return [multiplied(drawn, dict.fromkeys(host, speed)) for drawn, speed in zip(found, speeds, strict=False)]


def _places(configs: Sequence[Config]) -> Array:
    """Where each lies: a doubling of chunks, streams or buffers apart is 1, issued in another way the root of 2."""
    numbers = np.log2([(config.chunks, config.streams, config.buffers or config.chunks) for config in configs])
    ways = [(config.order, config.launch, config.memory) for config in configs]
    kinds = sorted(set(ways))
    return np.hstack([numbers, [[float(way == kind) for kind in kinds] for way in ways]])
