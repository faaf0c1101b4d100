"""The tables of the pages, made from the records: no cell of a page is written by hand.

    cd validate; python -m campaigns.tables            # the names of the tables
    cd validate; python -m campaigns.tables accuracy   # one of them
    cd validate; python -m campaigns.tables --write    # every table of every page anew, in its place

On a page a table stands below the comment ``<!-- table: NAME -->``. Needs no card.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from campaigns import recordings, replayed, tuning
from streamsim import load_device
from streamsim.analysis import works_in
from streamsim.device import EFFECTS, Device, without
from streamsim_validate.compare import (
    DEVICE_BOUND,
    HOST_BOUND,
    Comparison,
    Profiles,
    Row,
    by_class,
    compare,
    expectations,
    percentile95,
    profiles_of,
    row_of,
)
from streamsim_validate.records import Record, read_record

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "validate" / "campaigns" / "records"
CARDS = {"h100": "H100", "h200": "H200"}
NEWEST = 2  # records of each card
SAMPLES = 100  # of an interval
GOOD_CHOICE = 0.05  # slower than the best measured
BEYOND = 0.05
LATENCIES = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s", "in_flight_bytes")
LENGTHS_US = (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, inf)
LANGUAGES = {"cupy": "CuPy", "pytorch": "PyTorch", "cuda-c++": "CUDA C++"}
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n)\n?((?:\|[^\n]*\n)*)\n?")


class Table(NamedTuple):
    """A head and rows of cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace(" --- ", "---")


# Records and how far off they are


def newest(kind: str, count: int = NEWEST) -> dict[str, list[Path]]:
    """Return by card the last ``count`` records of a kind, such as ``random``, by their numbers."""
    found = {card: sorted(RECORDS.glob(f"{kind}-{card}-*.json.gz"), key=_number) for card in CARDS}
    return {card: paths[-count:] for card, paths in found.items() if paths}


def _number(path: Path) -> int:
    return int(path.name.partition(".")[0].rpartition("-")[2])


read = cache(read_record)


@cache
def comparison(path: Path) -> Comparison:
    """Return a record beside its predictions."""
    return compare(read(path))


def of_all(paths: Iterable[Path]) -> Comparison:
    """Return several records of a card as one."""
    found = [comparison(path) for path in paths]
    return msgspec.structs.replace(found[0], rows=tuple(row for one in found for row in one.rows))


def of_class(rows: Iterable[Row], klass: str) -> list[float]:
    """Return the absolute errors of the rows of a class."""
    return [abs(row.error) for row in rows if row.klass == klass]


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def errors(found: Sequence[float], worst: bool = True) -> str:
    """Return the median, the 95th percentile, and the worst."""
    if not found:
        return ""
    values = (median(found), percentile95(found), max(found))[: 3 if worst else 2]
    return " / ".join(f"{100 * value:.1f}" for value in values) + " %"


# Tables


def accuracy() -> Table:
    """Random schedules of the newest records of each card, and the best published formula on them."""
    rows = []
    for card, paths in newest("random").items():
        found = of_all(paths)
        for klass in (DEVICE_BOUND, HOST_BOUND):
            own, others = found.summaries["class"][klass], [one[klass] for one in found.formulas.values()]
            best = min(others, key=lambda one: one.median)
            cells = (percent(value) for one in (own, best) for value in (one.median, one.p95))
            rows.append([CARDS[card], klass, str(own.n), *cells])
    head = ("card", "schedules", "number", "median error", "95th percentile", "best formula, median", "95th percentile")
    return Table(head, rows)


def of_records() -> Table:
    """Return each of the newest records: errors by class."""
    rows = []
    for path in (path for kind in ("random", "standard") for paths in newest(kind).values() for path in paths):
        classes = (of_class(comparison(path).rows, klass) for klass in (DEVICE_BOUND, HOST_BOUND))
        rows.append([path.name.partition(".")[0], *(f"{len(own)}: {errors(own)}" for own in classes)])
    return Table(("record", "device-bound", "host-bound"), rows)


def intervals() -> Table:
    """Of the newest random records how many measured medians lie in their 90 % interval, and how wide it is."""
    rows = []
    for path in (path for paths in newest("random").values() for path in paths):
        found = by_class(expectations(read(path), comparison(path).rows, SAMPLES))
        classes = [found[klass] for klass in (DEVICE_BOUND, HOST_BOUND) if klass in found]
        cells = [f"{100 * share:.0f} %" for one in classes for share in (one.inside, one.mean_width)]
        rows.append([path.name.partition(".")[0], *cells])
    return Table(("record", "device-bound: inside", "mean width", "host-bound: inside", "mean width"), rows)


def lengths() -> Table:
    """Device-bound random schedules by the time for each of their copies and kernels."""
    found = [one for paths in newest("random").values() for path in paths for one in _lengths_in(path)]
    rows = []
    for least, most in pairwise(LENGTHS_US):
        own = [error for length_us, error in found if least <= length_us < most]
        name = f"{least:.0f} us and more" if most == inf else f"{least:.0f} to {most:.0f} us"
        beyond = sum(error > BEYOND for error in own) / max(1, len(own))
        rows.append([name if least else f"up to {most:.0f} us", str(len(own)), errors(own), f"{100 * beyond:.0f} %"])
    return Table(("a copy or kernel takes", "schedules", "median / 95th percentile / worst", "more than 5 % off"), rows)


def _lengths_in(path: Path) -> Iterator[tuple[float, float]]:
    """Of each device-bound schedule the microseconds over its copies and kernels, and the absolute error."""
    rows = {(row.connections, row.key): row for row in comparison(path).rows if row.klass == DEVICE_BOUND}
    for run, entry in read(path).measured():
        row = rows.get((run.connections, entry.key))
        if row is not None:
            yield 1e6 * row.predicted_s / works_in(entry.build()), abs(row.error)


def programs() -> Table:
    """Programs in each language of the newest records of each card."""
    rows = []
    for card, paths in newest("programs-suite").items():
        found = of_all(paths)
        for language, name in LANGUAGES.items():
            own = [row for row in found.rows if row.front_end == language]
            choices = msgspec.structs.replace(found, rows=tuple(own)).choices
            good = sum(choice.regret <= GOOD_CHOICE for choice in choices)
            classes = (of_class(own, klass) for klass in (DEVICE_BOUND, HOST_BOUND))
            cells = [f"{len(one)}: {errors(one, worst=False)}" for one in classes]
            rows.append([CARDS[card], name, *cells, f"{good} of {len(choices)}"])
    return Table(("card", "language", "device-bound", "host-bound", "choices within 5 %"), rows)


def known() -> Table:
    """CUDA C++ programs by what is known of the kernel: its time over all the data alone, or a chunk's as well."""
    rows = []
    for card, paths in newest("programs-suite").items():
        for name, change in (("the whole and a chunk", lambda record: record), ("the whole alone", whole_alone)):
            found = [row for path in paths for row in compare(change(read(path))).rows if row.front_end == "cuda-c++"]
            cells = (errors(of_class(found, klass)) for klass in (DEVICE_BOUND, HOST_BOUND))
            rows.append([CARDS[card], name, *cells])
    return Table(("card", "known of each kernel", "device-bound", "host-bound"), rows)


def whole_alone(record: Record) -> Record:
    """Return the record as if nobody had measured what a kernel takes over a chunk."""
    return msgspec.structs.replace(
        record,
        runs=tuple(
            msgspec.structs.replace(
                run,
                entries=tuple(
                    entry
                    if entry.program is None
                    else msgspec.structs.replace(entry, program=msgspec.structs.replace(entry.program, chunks_s=()))
                    for entry in run.entries
                ),
            )
            for run in record.runs
        ),
    )


def recorded() -> Table:
    """Recorded programs: replays, and what changes of them were predicted to bring from the recording alone."""
    rows = []
    for card, name in CARDS.items():
        folder = max(RECORDS.glob(f"recordings-{card}-*"), key=_number)
        record = replayed.read_record(folder)
        good = [one for one in replayed.replays(folder, record) if isinstance(one, replayed.Replayed)]
        found = [
            one for one in replayed.predictions(good, record, recordings.PAIRS) if isinstance(one, replayed.Predicted)
        ]
        replays, changes = [abs(one.error) for one in good], [abs(one.error_alone) for one in found]
        slower = sum(one.misleads for one in found)
        rows.append([name, *(f"{len(one)}: {errors(one)}" for one in (replays, changes)), str(slower or "none")])
    return Table(("card", "replays", "changes, from the recording alone", "recommended, and slower"), rows)


def effects() -> Table:
    """Return the errors with each effect off, all other numbers as calibrated."""
    random = [read(path) for paths in newest("random").values() for path in paths]
    suite = [read(path) for paths in newest("standard").values() for path in paths]
    rows = []
    for words, change in ways().items():
        of_random, of_suite = (list(_changed(records, change)) for records in (random, suite))
        cells = (of_class(of_random, DEVICE_BOUND), of_class(of_random, HOST_BOUND), of_class(of_suite, DEVICE_BOUND))
        rows.append([words, *(errors(found, worst=False) for found in cells)])
    return Table(("without", "random, device-bound", "random, host-bound", "standard suite, device-bound"), rows)


def ways() -> dict[str, Callable[[Device], Device]]:
    """Return the model as it is, and without each effect that the calibration's probes show apart, by its words."""
    shown = {name: words for name, words in EFFECTS.items() if name != "launch"}
    of_each = {f"{words} (`{name}`)": partial(_without, name) for name, words in shown.items()}
    return {"**the model**": lambda device: device} | of_each


def _without(effect: str, device: Device) -> Device:
    return without(device, effect)


def _changed(records: Iterable[Record], change: Callable[[Device], Device]) -> Iterator[Row]:
    """Yield every schedule, each predicted with its run's own profile after a change."""
    for record in records:
        profiles = {id(run): profiles_of(run, None) for run in record.runs}
        for run, entry in record.measured():
            yield row_of(entry, run, Profiles(change(profiles[id(run)].of(entry)), {}))


def with_assumed(card: Device, other: Device) -> Device:
    """Return ``card`` with the numbers of ``other`` that a profile assumes if nobody calibrated the card."""
    links = {
        way: msgspec.structs.replace(
            getattr(card, way),
            crowded_bandwidth_bytes_per_s=getattr(card, way).bandwidth_bytes_per_s,
            **{name: getattr(getattr(other, way), name) for name in LATENCIES},
        )
        for way in ("h2d", "d2h")
    }
    compute = msgspec.structs.replace(card.compute, floor_s=other.compute.floor_s)
    return msgspec.structs.replace(card, **links, compute=compute, hand_over=other.hand_over, host=other.host)


def shipped() -> Table:
    """With the shipped profiles, and with what a profile that nobody calibrated would assume: the other card's."""
    rows = []
    for card, other in (("h100", "h200"), ("h200", "h100")):
        device = load_device(card)
        changed = {
            "the record's calibration": None,
            "the shipped profile": device,
            f"latencies and calls of the {CARDS[other]}": with_assumed(device, load_device(other)),
        }
        for name, profile in changed.items():
            found = [row for path in newest("random")[card] for row in compare(read(path), profile).rows]
            cells = (errors(of_class(found, klass), worst=False) for klass in (DEVICE_BOUND, HOST_BOUND))
            rows.append([CARDS[card], name, *cells])
    return Table(("card", "predicted with", "device-bound", "host-bound"), rows)


def tuned() -> Table:
    """What ten measurements find of all the candidates that were measured, by who chooses them: mean over workloads."""
    rows = []
    for card, name in CARDS.items():
        record = tuning.read_record(RECORDS / f"tuning-{card}.json.gz")
        found = tuning.regrets(record)
        means = [sum(column) / len(found) for column in zip(*found, strict=True)]
        good = sum(map(tuning.is_good, record.tunings))
        rows.append([name, *map(percent, means), f"{good} of {len(found)}"])
    head = ("card", "the model's pick", "`tune`", "at random", "`tune` within 2 % of the best")
    return Table(head, rows)


TABLES: dict[str, Callable[[], Table]] = {
    "accuracy": accuracy,
    "records": of_records,
    "lengths": lengths,
    "intervals": intervals,
    "programs": programs,
    "known": known,
    "recorded": recorded,
    "effects": effects,
    "shipped": shipped,
    "tuned": tuned,
}


# Pages


def pages() -> list[Path]:
    """Return those that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rewritten(text: str, made: Callable[[str], str]) -> str:
    """Return a page with what ``made`` gives for the name of each of its tables; "" leaves that table as it is."""
    return PLACE.sub(lambda place: f"{place[1]}\n{made(place[2]) or place[3]}\n", text)


def main() -> None:
    """Print tables, or write them into the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="into the pages, those named or all")
    given = parser.parse_args()
    if unknown := set(given.names) - TABLES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: no such table; there are {', '.join(TABLES)}")

    @cache
    def made(name: str) -> str:
        if given.names and name not in given.names:
            return ""
        print(f"{name} ...", file=sys.stderr, flush=True)
        return str(TABLES[name]())

    if given.write:
        for page in pages():
            text = page.read_text(encoding="utf-8")
            page.write_text(rewritten(text, made), encoding="utf-8")
    else:
        print("\n".join(map(made, given.names)) or "\n".join(TABLES))


if __name__ == "__main__":
    main()
