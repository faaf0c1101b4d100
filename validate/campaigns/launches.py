"""What the launches of the graphs in the records took the host, by what is in them.

``cd validate; python -m campaigns.launches`` prints the table of docs/evidence.md.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsim.lowering.costs import COPIES
from streamsim.lowering.lowered import lower
from streamsim.lowering.order import edges_of
from streamsim.rules.graphs import edge
from streamsim_validate.compare.comparison import percentile95
from streamsim_validate.compare.profiles import profiles_of
from streamsim_validate.records.files import read_record
from streamsim_validate.records.timed import closed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Schedule

FOLDER = Path(__file__).parents[2] / "records"
RECORDS = {
    "H100, 1": "random-h100-1",
    "H100, 2": "random-h100-2",
    "H200, 1": "random-h200-1",
    "H200, 2": "random-h200-2",
    "suite, 1": "standard-h200-1",
    "suite, 2": "standard-h200-2",
}


class Content(NamedTuple):
    """What the launch of a graph is paid for: itself, its copies, edges from engine to engine, streams that join."""

    launches: int
    copies: int
    edges: int
    joining: int


class Launched(NamedTuple):
    """A graph and the seconds of its launch, the median over the speed that the host had beside it."""

    content: Content
    took_s: float


def content_of(schedule: Schedule, device: Device) -> Content:
    """What is in a graph: an edge is an op that waits for one of another kind, in its stream or by an event."""
    lowered = lower(closed(schedule), device)
    kind = lowered.kind
    return Content(
        launches=1,
        copies=sum(map(kind.count, COPIES)),
        edges=sum(edge(kind[before], kind[op], 1) for before, op in edges_of(lowered.after, lowered.also)),
        joining=len(schedule.used_streams) - 1,
    )


def launches_of(name: str) -> Iterator[Launched]:
    """Every graph of a record beside which the host's speed is known."""
    for run in read_record(FOLDER / f"{name}.json.gz").runs:
        profiles = profiles_of(run)
        device, speeds = profiles.whole, profiles.speeds
        for entry in run.entries:
            if entry.issue_s and entry.group in speeds:
                schedule = entry.build()
                if schedule.launch == "graph":
                    took_s = median(entry.issue_s) / speeds[entry.group]
                    yield Launched(content_of(schedule, device), took_s)


def costs_s(launches: list[Launched]) -> list[float]:
    """Seconds of each part of what launches are paid for, with the least squares of the relative errors."""
    relative = np.array([np.array(content) / took_s for content, took_s in launches])
    return [float(cost) for cost in np.linalg.lstsq(relative, np.ones(len(launches)), rcond=None)[0]]


def row(label: str, name: str) -> str:
    """A row of the table."""
    launches = list(launches_of(name))
    costs = costs_s(launches)
    missed = [abs(float(np.dot(content, costs)) / took_s - 1) * 100 for content, took_s in launches]
    launch, copy, edge, stream = (cost * 1e6 for cost in costs)
    return (
        f"| {label} | {launch:.1f} us | {copy:.1f} us | {edge:.2f} us | {stream:.1f} us"
        f" | {median(missed):.1f}, {percentile95(missed):.1f} % of {len(launches)} |"
    )


def main() -> None:
    """Print the table."""
    for label, name in RECORDS.items():
        print(row(label, name))


if __name__ == "__main__":
    main()
