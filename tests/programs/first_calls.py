"""What issuing the live schedules of the records took, beside what their calls cost in long chains.

``cd tests; python -m programs.first_calls`` prints the table of docs/evidence.md.
"""

from __future__ import annotations

import math
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from programs.launches import FOLDER

from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND
from streamsim_validate.compare.predictions import classify, predicted_beside_s
from streamsim_validate.compare.profiles import profiles_of
from streamsim_validate.compare.programs import issuing_s
from streamsim_validate.records.files import read_record
from streamsim_validate.records.timed import closed

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = {f"{card}, {i}": f"random-{card.lower()}-{i}" for i in (1, 2, 3, 4) for card in ("H100", "H200")}
UP_TO = (64, 256, 1 << 20)  # calls
WARM_AFTER = 100  # calls, by which what is cold has come down to 1/e


class Issued(NamedTuple):
    """A schedule: how many calls, the median seconds they took, what is expected of them and of a copy's beside it."""

    calls: int
    took_s: float
    expected_s: float
    copy_s: float

    @property
    def cold(self) -> float:
        """What the time would grow by, relative, if the first call took a copy's call longer, and later ones less."""
        return self.copy_s * WARM_AFTER * (1 - math.exp(-self.calls / WARM_AFTER)) / self.took_s


def issued_of(name: str) -> Iterator[Issued]:
    """Every live schedule of a record whose calls wait for nothing."""
    for run in read_record(FOLDER / f"{name}.json.gz").runs:
        profiles = profiles_of(run)
        for entry in run.entries:
            if not entry.issue_s:
                continue
            schedule = entry.build()
            bound = classify(schedule, median(entry.issue_s), median(entry.wall_s))
            if schedule.launch == "graph" or bound not in (DEVICE_BOUND, HOST_BOUND):
                continue
            beside_s = predicted_beside_s(partial(issuing_s, closed(schedule)), entry, profiles, entry.issue_s)
            yield Issued(len(schedule.ops), median(entry.issue_s), beside_s, profiles.of(entry).host.copy_s)


def coldness(issued: list[Issued]) -> float:
    """How much longer the first call takes, in a copy's calls: least squares of the relative errors."""
    cold = np.array([one.cold for one in issued])
    missed = np.array([1 - one.expected_s / one.took_s for one in issued])
    return float(cold @ missed / (cold @ cold))


def row(label: str, name: str) -> str:
    """A row of the table."""
    issued = list(issued_of(name))
    ratios = []
    for above, up_to in zip((0, *UP_TO), UP_TO, strict=False):
        own = [one.took_s / one.expected_s for one in issued if above < one.calls <= up_to]
        ratios.append(f"{median(own):.2f} ({len(own)})")
    found = coldness(issued)
    without, with_it = (
        100 * median(abs((one.expected_s / one.took_s) + more * one.cold - 1) for one in issued) for more in (0, found)
    )
    return f"| {label} | {' | '.join(ratios)} | {found:.2f} | {without:.1f} % | {with_it:.1f} % |"


def main() -> None:
    """Print the table."""
    for label, name in RECORDS.items():
        print(row(label, name))


if __name__ == "__main__":
    main()
