"""What it is worth to calibrate calls in programs and to set each sample's speed beside the pace of that calibration.

``cd tests; python -m programs.program_calls`` prints the table of docs/evidence.md: of the records that were calibrated
so, with the calls of programs, and with those of the mixes of calls in the same samples.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from programs.earlier_records import FOLDER
from programs.refitted import refitted

from streamsim_validate.calibrate.program_calls import PROGRAM_KINDS, fit_calls, with_calls
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.compare.comparison import DEVICE_BOUND, HOST_BOUND, percentile95
from streamsim_validate.compare.predictions import classify, compare, predicted_beside_s
from streamsim_validate.compare.profiles import profiles_of
from streamsim_validate.compare.programs import issuing_s
from streamsim_validate.records.files import read_record
from streamsim_validate.records.timed import closed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from programs.refitted import Change

    from streamsim.device.profile import Device
    from streamsim_validate.records import Record

RECORDS = {f"{card}, {i}": f"random-{card.lower()}-{i}" for i in (3, 4) for card in ("H100", "H200")}
UP_TO = (64, 256, 1 << 20)  # calls


class Issued(NamedTuple):
    """A schedule: how many calls, and the median seconds they took over those that are predicted."""

    calls: int
    ratio: float


def by_mixes(record: Record) -> Record:
    """The record with the calls that the mixes among its samples say, and no pace of programs beside them."""
    return refitted(record, _by_mixes)


def _by_mixes(device: Device, samples: Samples) -> Change:
    timings = {chain: runs for chain, runs in samples.timings.items() if chain.kind not in PROGRAM_KINDS}
    older = Samples(samples.card, samples.date, timings)
    return with_calls(device, fit_calls(older, device.host.after_wait_s)), older


def issued_of(record: Record) -> Iterator[Issued]:
    """Every live schedule of a record whose calls wait for nothing."""
    for run in record.runs:
        profiles = profiles_of(run)
        for entry in run.entries:
            if not entry.issue_s:
                continue
            schedule, took_s = entry.build(), median(entry.issue_s)
            bound = classify(schedule, took_s, median(entry.wall_s))
            if schedule.launch == "live" and bound in (DEVICE_BOUND, HOST_BOUND):
                expected_s = predicted_beside_s(partial(issuing_s, closed(schedule)), entry, profiles, entry.issue_s)
                yield Issued(len(schedule.ops), took_s / expected_s)


def row(label: str, record: Record) -> str:
    """A row of the table."""
    issued = list(issued_of(record))
    ratios = []
    for above, up_to in zip((0, *UP_TO), UP_TO, strict=False):
        own = [one.ratio for one in issued if above < one.calls <= up_to]
        ratios.append(f"{median(own):.2f} ({len(own)})")
    missed = [abs(1 / one.ratio - 1) for one in issued]
    bound = [abs(found.error) for found in compare(record).rows if found.klass == HOST_BOUND]
    return f"| {label} | {' | '.join(ratios)} | {_median_and_p95(missed)} | {_median_and_p95(bound)} |"


def _median_and_p95(errors: list[float]) -> str:
    return f"{100 * median(errors):.1f}, {100 * percentile95(errors):.1f} %"


def main() -> None:
    """Print the table."""
    for label, name in RECORDS.items():
        record = read_record(FOLDER / f"{name}.json.gz")
        print(row(f"{label}: mixes", by_mixes(record)))
        print(row(f"{label}: programs", record))


if __name__ == "__main__":
    main()
