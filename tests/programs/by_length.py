"""How far the device-bound random schedules of all records are off, by how long their copies and kernels are.

``cd tests; python -m programs.by_length`` prints the table of docs/evidence.md.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from programs.earlier_records import FOLDER

from streamsim.analysis.misses import works_in
from streamsim_validate.compare.comparison import DEVICE_BOUND
from streamsim_validate.compare.predictions import compare
from streamsim_validate.records.files import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEYOND = 5.0  # per cent
LEAST_US = (0.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, inf)


def misses(path: Path) -> Iterator[tuple[float, float]]:
    """Of each device-bound schedule the time over its copies and kernels, us, and the absolute error, per cent."""
    record = read_record(path)
    rows = {(row.connections, row.key): row for row in compare(record).rows if row.klass == DEVICE_BOUND}
    for run, entry in record.measured():
        row = rows.get((run.connections, entry.key))
        if row is not None:
            yield 1e6 * row.predicted_s / works_in(entry.build()), 100 * abs(row.error)


def main() -> None:
    """Print the table."""
    lengths_us, errors = np.array(
        [found for path in sorted(FOLDER.glob("random-*.json.gz")) for found in misses(path)]
    ).T
    for least, most in pairwise(LEAST_US):
        own = errors[(lengths_us >= least) & (lengths_us < most)]
        span = f"{least:.0f} to {most:.0f} us" if least else f"up to {most:.0f} us"
        name = f"{least:.0f} us and more" if most == inf else span
        median, p95 = np.percentile(own, [50, 95])
        beyond = 100 * np.mean(own > BEYOND)
        print(f"| {name} | {len(own)} | {median:.1f} / {p95:.1f} / {own.max():.1f} % | {beyond:.0f} % |")


if __name__ == "__main__":
    main()
