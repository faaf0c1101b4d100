"""Tuning with ten measurements: by the model, and at random.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before, every candidate of eight drawn
workloads is measured, and then what ten of these measurements find beside the fastest of all:

    cd validate; python -m campaigns.tuning --seed 7 profile.toml campaigns/records/tuning-h200.json.gz

``python -m campaigns.tables tuned`` makes the table of the records, anywhere.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamsim import Config, Device, Workload, WorkloadKernel
from streamsim.device import parse_device
from streamsim.files import write_bytes
from streamsim.search import Proposals, candidates, default_grid, proposals
from streamsim_validate.run.tuning import ratio_of

Array = np.ndarray[Any, np.dtype[np.float64]]

BUDGET = 10
COUNT = 8
WORK = (2, 10, 40, 176)  # of sincos, those whose cost a calibration measures
LEAST, MOST = 1 << 18, 1 << 26  # elements
REPEATS, REPEATS_SIDE_BY_SIDE = 9, 45
GOOD = 0.02
TRIALS = 50  # at random


class Tuning(msgspec.Struct, frozen=True):
    """A workload, its candidates that could be measured and the wall times of each, seconds.

    ``found``: which of them ten measurements find, and ``best``, the fastest; ``found_s``, ``best_s``: what these two
    took side by side.
    """

    workload: Workload
    configs: tuple[Config, ...]
    wall_s: tuple[tuple[float, ...], ...]
    found: int
    best: int
    found_s: tuple[float, ...]
    best_s: tuple[float, ...]


class Tunings(msgspec.Struct, frozen=True):
    """The measured tunings, and the profile that was calibrated just before, as TOML."""

    card: str
    seed: int
    date: str
    profile: str
    tunings: tuple[Tuning, ...]


class Seen(NamedTuple):
    """Candidates, and the seconds that measuring each would show."""

    configs: Sequence[Config]
    seconds: Array


def drawn(seed: int, count: int = COUNT) -> Iterator[Workload]:
    """Yield so many workloads: a float in and a float out of each element, of which there is an odd number."""
    rng = random.Random(seed)
    for _ in range(count):
        elements = int(math.exp(rng.uniform(math.log(LEAST), math.log(MOST)))) | 1
        yield Workload(elements, (4,), (4,), (WorkloadKernel("sincos", parameter=rng.choice(WORK)),))


# -- strategies: each gives the candidates that it measures, in their order --------------------------------------------


def by_the_model(seen: Seen, offers: Proposals, budget: int = BUDGET) -> list[int]:
    """Choose as ``streamsim-validate tune`` does."""
    measured: dict[int, float] = {}
    while len(measured) < budget and (k := offers.next(measured)) is not None:
        measured[k] = float(seen.seconds[k])
    return list(measured)


def at_random(seen: Seen, rng: random.Random, budget: int = BUDGET) -> list[int]:
    """Choose any candidate, each once."""
    everyone = range(len(seen.configs))
    return rng.sample(everyone, min(budget, len(everyone)))


# -- on a card ---------------------------------------------------------------------------------------------------------


def record(seed: int, profile: Path, output: Path, date: str, count: int = COUNT) -> None:
    """Measure and keep every candidate of so many workloads."""
    from streamsim_validate.gpu import open_gpu

    text = profile.read_text(encoding="utf-8")
    with open_gpu() as gpu:
        tunings = tuple(measured(workload, parse_device(text), gpu, seed) for workload in drawn(seed, count))
        found = Tunings(gpu.card.name, seed, date, text, tunings)
    write_bytes(gzip.compress(msgspec.json.encode(found), mtime=0), output)


def measured(workload: Workload, device: Device, gpu: Any, seed: int) -> Tuning:
    """Return every candidate of a workload, repeats interleaved; then what is found beside the best."""
    from streamsim_validate.run.replays import Planned, measure

    everyone = candidates(workload, device, default_grid())
    items = [Planned(config.words, config.schedule(workload)) for config in everyone]
    results = [one for one in measure(items, gpu, REPEATS, seed) if one.status == "ok"]
    by_words = {config.words: config for config in everyone}
    configs = tuple(by_words[one.item.key] for one in results)
    wall_s = tuple(tuple(sample.wall_s for sample in one.samples) for one in results)
    seen = seen_of(configs, wall_s)
    found = fastest(seen, by_the_model(seen, proposals(workload, configs, device)))
    best = int(seen.seconds.argmin())
    again = [Planned(configs[k].words, configs[k].schedule(workload)) for k in dict.fromkeys((found, best))]
    beside = [tuple(sample.wall_s for sample in one.samples) for one in measure(again, gpu, REPEATS_SIDE_BY_SIDE, seed)]
    return Tuning(workload, configs, wall_s, found, best, beside[0], beside[-1])


# -- anywhere ----------------------------------------------------------------------------------------------------------


def read_record(path: Path) -> Tunings:
    """Return a record of such tunings."""
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Tunings)


def seen_of(configs: Sequence[Config], wall_s: Iterable[Sequence[float]]) -> Seen:
    """Return what the samples show."""
    return Seen(configs, np.array([statistics.median(walls) for walls in wall_s]))


def fastest(seen: Seen, some: Iterable[int]) -> int:
    """Return the one that showed the least time."""
    return min(some, key=lambda k: float(seen.seconds[k]))


class Regret(NamedTuple):
    """The share by which the chosen program is slower than the best, by how it was chosen; means of trials."""

    pick: float
    tuned: float
    random: float


def regret_of(seen: Seen, offers: Proposals, true_s: Array, seed: int = 0) -> Regret:
    """Return ``true_s``: by which the choices are judged."""

    def over(chosen: Iterable[int]) -> float:
        return float(true_s[fastest(seen, chosen)] / true_s.min() - 1)

    order, rng = by_the_model(seen, offers), random.Random(seed)
    drawn_s = statistics.fmean(over(at_random(seen, rng)) for _ in range(TRIALS))
    return Regret(over(order[:1]), over(order), drawn_s)


def regrets(found: Tunings) -> list[Regret]:
    """Return the regrets of each tuning of a record."""
    device = parse_device(found.profile)
    return [
        regret_of(seen, proposals(one.workload, one.configs, device), seen.seconds)
        for one in found.tunings
        for seen in [seen_of(one.configs, one.wall_s)]
    ]


def is_good(one: Tuning) -> bool:
    """Return whether what was found is within 2 % of the best, or within their noise, side by side."""
    ratio, low, _ = ratio_of(one.found_s, one.best_s, 0)
    return one.found == one.best or ratio <= 1 + GOOD or low <= 1


def main() -> None:
    """Measure the workloads of a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("record", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default="")
    given = parser.parse_args()
    record(given.seed, given.profile, given.record, given.date)


if __name__ == "__main__":
    main()
