"""What a graph's edges between engines are worth: errors of records with what they cost and without.

``cd validate; python -m campaigns.graph_edges`` prints the table of docs/evidence.md; with paths that of others. The
number is fitted to the samples that a record keeps, whatever its profiles say, so a record may be older than it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from campaigns.launches import FOLDER, RECORDS
from campaigns.refitted import refitted
from streamsim_validate.calibrate.host_probes import edge_s
from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND, percentile95
from streamsim_validate.compare.predictions import compare
from streamsim_validate.records.files import read_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaigns.refitted import Change
    from streamsim.device.profile import Device
    from streamsim_validate.calibrate.samples import Samples
    from streamsim_validate.records.record import Record

EDGE = "graph_edge_s"


class Errors(NamedTuple):
    """Of n schedules, in per cent: of the times on the card, and the worst by the host's clock."""

    n: int
    median: float
    p95: float
    worst: float
    wall_worst: float

    def __str__(self) -> str:
        return f"{self.median:.2f}, {self.p95:.2f}, {self.worst:.1f}; {self.wall_worst:.1f}"


def with_edges(record: Record, *, cost: bool) -> Record:
    """The record with what its samples say that edges cost in its profiles; or with edges that cost nothing."""

    def change(device: Device, samples: Samples) -> Change:
        host = msgspec.structs.replace(device.host, **{EDGE: edge_s(samples, device.host) if cost else 0.0})
        sources = device.sources | {f"host.{EDGE}": "measured: the samples beside it"}
        return msgspec.structs.replace(device, host=host, sources=sources), samples

    return refitted(record, change)


def errors_of(record: Record) -> dict[tuple[str, bool], Errors]:
    """By class the errors of all of its schedules, and of its graphs."""
    graphs = {entry.key for _, entry in record.measured() if entry.build().launch == "graph"}
    rows = compare(record).rows
    found = {}
    for klass in (HOST_BOUND, DEVICE_BOUND):
        for only in (False, True):
            own = [row for row in rows if row.klass == klass and (row.key in graphs or not only)]
            if not own:
                continue
            missed = [100 * abs(row.error) for row in own]
            wall = [100 * abs(row.wall_predicted_s / row.wall_s - 1) for row in own]
            found[klass, only] = Errors(len(own), median(missed), percentile95(missed), max(missed), max(wall))
    return found


def table(label: str, record: Record) -> list[str]:
    """The rows of the table for a record."""
    without, found = (errors_of(with_edges(record, cost=cost)) for cost in (False, True))
    graphs = {key: f"its {errors.n} graphs" if errors.n > 1 else "its graph" for key, errors in found.items()}
    names = {(klass, only): graphs[klass, only] if only else f"{klass}, {label}" for klass, only in found}
    return [f"| {name} | {without[key]} | {found[key]} |" for key, name in names.items()]


def main(paths: Sequence[str]) -> None:
    """Print the table."""
    records = {Path(path).stem: Path(path) for path in paths}
    records = records or {label: FOLDER / f"{name}.json.gz" for label, name in RECORDS.items()}
    for label, path in records.items():
        print("\n".join(table(label, read_record(path))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
