"""What that which is assumed of other cards is worth: one calibrated card with such numbers of the other.

``cd validate; python -m campaigns.assumed`` prints the table of docs/evidence.md.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim import Device, load_device
from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND, percentile95
from streamsim_validate.compare.predictions import compare
from streamsim_validate.records.files import read_record

if TYPE_CHECKING:
    from streamsim_validate.records import Record

FOLDER = Path(__file__).parents[2] / "records"
RECORDS = {"h100": ("random-h100-9", "random-h100-10"), "h200": ("random-h200-9", "random-h200-10")}
LATENCIES = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s", "in_flight_bytes")


def with_assumed(card: Device, other: Device) -> Device:
    """``card`` with what its profile would assume if it were not calibrated, of ``other``; no crowd slows its bytes."""
    links = {
        way: replace(
            getattr(card, way),
            crowded_bandwidth_bytes_per_s=getattr(card, way).bandwidth_bytes_per_s,
            **{name: getattr(getattr(other, way), name) for name in LATENCIES},
        )
        for way in ("h2d", "d2h")
    }
    compute = replace(card.compute, floor_s=other.compute.floor_s)
    return replace(card, **links, compute=compute, hand_over=other.hand_over, host=other.host)


def errors_of(record: Record, device: Device) -> list[str]:
    """The median and the 95th percentile of what either class is off, in per cent."""
    rows = compare(record, device).rows
    classes = ([abs(row.error) for row in rows if row.klass == klass] for klass in (DEVICE_BOUND, HOST_BOUND))
    return [f"{100 * median(errors):.1f}, {100 * percentile95(errors):.1f}" for errors in classes]


def main() -> None:
    """Print the table: of each record the shipped profile's errors, and those with the other card's numbers."""
    for name, other in (("h100", "h200"), ("h200", "h100")):
        card = load_device(name)
        for key in RECORDS[name]:
            record = read_record(FOLDER / f"{key}.json.gz")
            cells = errors_of(record, card) + errors_of(record, with_assumed(card, load_device(other)))
            print(f"| {key} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
