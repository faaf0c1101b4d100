"""Tuning with ten measurements: by the model, at random, and by simulated annealing as Kernel Tuner does it.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before, every candidate of eight drawn
workloads is measured, and then what ten of these measurements find beside the fastest of all:

    cd validate; python -m campaigns.tuning --seed 7 profile.toml campaigns/records/tuning-h200.json.gz

Anywhere ``python -m campaigns.tuning campaigns/records/tuning-h200.json.gz`` prints the table.
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
TRIALS = 50  # of a strategy that draws
COLDEST = 0.001  # Kernel Tuner's T_min; T begins at 1
HAMMING = 0.2  # how often its neighbour differs in one parameter, however far
MOST_IDLE = 100  # rounds without a new measurement, after which it begins anew elsewhere


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


class Record(msgspec.Struct, frozen=True):
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


def by_annealing(seen: Seen, rng: random.Random, budget: int = BUDGET) -> list[int]:
    """As Kernel Tuner's ``simulated_annealing`` with ``max_fevals`` does it: its default T, T_min, and neighbours.

    T falls from 1 to ``COLDEST`` with the number of distinct measurements, whatever alpha is: its schedule is scaled
    to their number. A candidate that was measured before is known and costs none.
    """
    places = _places(seen.configs)
    everyone = range(len(places))
    budget = min(budget, len(places))
    at = rng.choice(everyone)
    measured = {at: None}
    idle = 0
    while len(measured) < budget:
        temperature = COLDEST ** (len(measured) / budget)
        before = len(measured)
        to = _neighbour(places, at, rng)
        measured[to] = None
        old, new = float(seen.seconds[at]), float(seen.seconds[to])
        if new < old or math.exp((old - new) / old / temperature) > rng.random():
            at = to
        idle = idle + 1 if len(measured) == before else 0
        if idle > MOST_IDLE:
            at, idle = rng.choice(everyone), 0
    return list(measured)


def _places(configs: Sequence[Config]) -> Array:
    """Which value of each parameter a candidate has, by its number among the values that there are; (n, parameters)."""
    rows = [msgspec.structs.astuple(config) for config in configs]
    columns = [list(dict.fromkeys(sorted(column, key=_sorted_as))) for column in zip(*rows, strict=True)]
    return np.array([[column.index(value) for column, value in zip(columns, row, strict=True)] for row in rows])


def _sorted_as(value: str | float | None) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    return (1, 0.0, value) if isinstance(value, str) else (1, float(value), "")


def _neighbour(places: Array, at: int, rng: random.Random) -> int:
    """Return one that differs in one parameter alone, or by no more than one step in each; else any."""
    apart = np.abs(places - places[at])
    near = (apart > 0).sum(axis=1) == 1 if rng.random() < HAMMING else apart.max(axis=1) == 1
    found = np.flatnonzero(near).tolist()
    return int(rng.choice(found)) if found else rng.randrange(len(places))


# -- on a card ---------------------------------------------------------------------------------------------------------


def record(seed: int, profile: Path, output: Path, date: str, count: int = COUNT) -> None:
    """Measure and keep every candidate of so many workloads."""
    from streamsim_validate.gpu import open_gpu

    text = profile.read_text(encoding="utf-8")
    with open_gpu() as gpu:
        tunings = tuple(measured(workload, parse_device(text), gpu, seed) for workload in drawn(seed, count))
        found = Record(gpu.card.name, seed, date, text, tunings)
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


def read_record(path: Path) -> Record:
    """Return a record of such tunings."""
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Record)


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
    annealed: float


def regret_of(seen: Seen, offers: Proposals, true_s: Array, seed: int = 0) -> Regret:
    """Return ``true_s``: by which the choices are judged."""

    def over(chosen: Iterable[int]) -> float:
        return float(true_s[fastest(seen, chosen)] / true_s.min() - 1)

    order = by_the_model(seen, offers)
    rng = random.Random(seed)
    trials = {
        name: statistics.fmean(over(strategy(seen, rng)) for _ in range(TRIALS))
        for name, strategy in (("random", at_random), ("annealed", by_annealing))
    }
    return Regret(over(order[:1]), over(order), **trials)


def regrets(found: Record) -> list[Regret]:
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


def rows(found: Record) -> list[str]:
    """Return a row of the table for each workload."""
    lines = []
    for one, regret in zip(found.tunings, regrets(found), strict=True):
        (kernel,) = one.workload.kernels
        what = f"{one.workload.elements} floats, sincos {kernel.parameter}, {len(one.configs)} programs"
        beside = ratio_of(one.found_s, one.best_s, 0)[0] - 1 if one.found != one.best else 0.0
        lines.append(f"| {what} | {' | '.join(f'{100 * share:.1f} %' for share in regret)} | {100 * beside:+.1f} % |")
    return lines


def main() -> None:
    """Measure if a profile is given, and print the table of the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="[PROFILE] RECORD")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--date", default="")
    given = parser.parse_args()
    *profile, path = given.files
    if profile:
        record(given.seed, profile[0], path, given.date)
    found = read_record(path)
    print("\n".join(rows(found)))
    print(f"{sum(map(is_good, found.tunings))} of {len(found.tunings)} within 2 % of the best, or their noise")


if __name__ == "__main__":
    main()
