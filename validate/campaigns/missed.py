"""The likeliest numbers of the rule of model error, from records of random schedules, by card and class.

``cd validate; python -m campaigns.missed campaigns/records/random-*.json.gz`` finds the two numbers of
``streamsim/analysis/model_error.py`` for these records, in some minutes. Today's numbers are of six earlier records
in the history of the repository. Each row: the number of schedules, nanoseconds, degrees of freedom.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from streamsim.analysis import drawn_times_s, works_in
from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND
from streamsim_validate.compare.coverage import by_profile
from streamsim_validate.compare.predictions import compare
from streamsim_validate.compare.profiles import predict_device_s, profiles_of
from streamsim_validate.records import Record
from streamsim_validate.records.files import read_record

SAMPLES = 150
NORMAL95 = 1.645
MISSED_NS = np.geomspace(1, 16, 41)
FREEDOMS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0)
LEAST_DENSITY = 1e-300
MIXED = 200  # normal distributions that stand for one of Student's


class Seen(NamedTuple):
    """A schedule: its class, the logarithm of measured over predicted, how that is spread, copies and kernels a ns."""

    klass: str
    missed: float
    spread: float
    works_per_ns: float


def seen_in(record: Record) -> Iterator[Seen]:
    """Yield the device- and host-bound schedules; how far they are spread before anything is missed."""
    bound_by = (DEVICE_BOUND, HOST_BOUND)
    rows = {(row.connections, row.key): row for row in compare(record).rows if row.klass in bound_by}
    for run in record.runs:
        own = [entry for entry in run.entries if (run.connections, entry.key) in rows]
        for profile, entries in by_profile(own, profiles_of(run)):
            schedules = [entry.build() for entry in entries]
            drawn_s = drawn_times_s(schedules, profile, SAMPLES, time_s=predict_device_s)
            for entry, schedule, times_s in zip(entries, schedules, drawn_s, strict=True):
                row = rows[run.connections, entry.key]
                low, high = np.log(np.quantile(times_s, (0.05, 0.95)))
                middle, spread = (low + high) / 2, (high - low) / 2 / NORMAL95
                rate = works_in(schedule) / row.predicted_s * 1e-9
                yield Seen(row.klass, float(np.log(row.measured_s) - middle), float(spread), rate)


@cache
def variances(freedom: float) -> np.ndarray:
    """Return the variances of the normal distributions that Student's is a mixture of."""
    drawn = np.random.default_rng(0).chisquare(freedom, 100_000)
    return freedom / np.quantile(drawn, (np.arange(MIXED) + 0.5) / MIXED)


def likeliest(seen: Sequence[Seen]) -> tuple[float, float]:
    """Return the nanoseconds and degrees of freedom."""
    missed, spread, rate = (np.array([getattr(one, name) for one in seen]) for name in Seen._fields[1:])

    def likelihood(missed_ns: float, freedom: float) -> float:
        variance = spread[:, None] ** 2 + missed_ns * rate[:, None] * variances(freedom)
        density = np.exp(-(missed[:, None] ** 2) / (2 * variance)) / np.sqrt(variance)
        return float(np.log(density.mean(axis=1) + LEAST_DENSITY).sum())

    return max(product(MISSED_NS, FREEDOMS), key=lambda pair: likelihood(*pair))


def main() -> None:
    """Print what is likeliest of all schedules, of each card and of each class."""
    groups: defaultdict[str, list[Seen]] = defaultdict(list)
    for path in sys.argv[1:]:
        record = read_record(path)
        for one in seen_in(record):
            for name in ("all", record.card.name, one.klass):
                groups[name].append(one)
    for name, seen in groups.items():
        missed_ns, freedom = likeliest(seen)
        print(f"{name:28s} {len(seen):5d} {missed_ns:6.2f} ns {freedom:5.1f}")


if __name__ == "__main__":
    main()
