"""The next candidate to measure: the model proposes, and measurements on the card correct it.

A profile is wrong in some of its numbers, a host changes its speed, and kernels take longer than given. Similar
programs are then wrong by similar factors. A candidate is therefore expected to take its predicted time, times
measured over predicted of the most similar candidate that was measured. The next candidate is the fastest by that.

If measurements are far from the predictions, the profile may be wrong in kind, such as two copy engines in place of
one. Then every second candidate is the one least similar to those measured, among those not expected much slower.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import Config, Workload
from streamsim.search.grid import COARSE_CHUNKS, Grid, evaluate

Array = np.ndarray[Any, np.dtype[np.float64]]

STREAMS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
WRONG = 0.1  # the median of abs(log(measured / predicted)) above which a profile may be wrong in kind
NEAR = 0.3  # candidates that are expected to be slower by up to this share may be the fastest then


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


@dataclass(frozen=True)
class Proposals:
    """Proposals of the candidate to measure next, among n candidates.

    - ``predicted_s``: predicted seconds, shape (n,).
    - ``places``: coordinates of the candidates, in doublings of a number, shape (n, axes). Near candidates are similar.

    ``measured`` holds the measured seconds by candidate, and ``without`` the candidates to leave out.
    """

    predicted_s: Array
    places: Array

    def expected_s(self, measured: Mapping[int, float]) -> Array:
        """Return the expected seconds of each candidate, shape (n,)."""
        if not measured:
            return self.predicted_s
        found: Array = self.predicted_s * self._factors(measured)[self._apart(measured).argmin(axis=1)]
        return found

    def next(self, measured: Mapping[int, float], without: frozenset[int] = frozenset()) -> int | None:
        """Return the candidate to measure next, or None if there is none left; of equally good ones, the first."""
        left, expected_s = self._left(measured, without), self.expected_s(measured)
        fastest = min(left, key=expected_s.__getitem__, default=None)
        if fastest is None or len(measured) % 2 == 0 or np.median(np.abs(np.log(self._factors(measured)))) <= WRONG:
            return fastest
        apart = self._apart(measured).min(axis=1)
        fast = [k for k in left if expected_s[k] <= (1 + NEAR) * expected_s[fastest]]
        return max(fast, key=apart.__getitem__)

    def promise(self, measured: Mapping[int, float], without: frozenset[int] = frozenset()) -> float:
        """Return the share by which any candidate left is expected to be faster than the best measured one."""
        left = self._left(measured, without)
        if not left or not measured:
            return 0.0
        return max(0.0, 1 - float(self.expected_s(measured)[left].min()) / min(measured.values()))

    def _left(self, measured: Mapping[int, float], without: frozenset[int]) -> list[int]:
        return [k for k in range(len(self.predicted_s)) if k not in measured and k not in without]

    def _factors(self, measured: Mapping[int, float]) -> Array:
        """Return measured over predicted of each measured candidate."""
        found: Array = np.array([*measured.values()]) / self.predicted_s[[*measured]]
        return found

    def _apart(self, measured: Mapping[int, float]) -> Array:
        """Return the squared distances of all candidates (rows) from the measured ones (columns)."""
        found: Array = ((self.places[:, None] - self.places[[*measured]]) ** 2).sum(axis=2)
        return found


def proposals(workload: Workload, configs: Sequence[Config], device: Device) -> Proposals:
    """Return the proposals among ``configs``, predicted on ``device``.

    A time ends when the host knows that all work is done. Raises InputError for no configs, and for a kernel without a
    cost on ``device``.
    """
    if not configs:
        raise InputError("configs = []: nothing to choose from; give at least one")
    return Proposals(np.array(evaluate(workload, configs, device)) + device.host.wake_s, _places(configs))


def _places(configs: Sequence[Config]) -> Array:
    """Return the coordinates of configs. A doubling of chunks, streams or buffers is 1 apart, another order root 2."""
    numbers = np.log2([(config.chunks, config.streams, config.buffers or config.chunks) for config in configs])
    ways = [(config.order, config.launch, config.memory) for config in configs]
    kinds = sorted(set(ways))
    return np.hstack([numbers, [[float(way == kind) for kind in kinds] for way in ways]])
