"""The tables of the pages, made from the records: no cell of a page is written by hand.

    cd validate; python -m campaigns.tables accuracy   # prints a table; without a name, all
    cd validate; python -m campaigns.tables --write    # every table of every page anew, in its place

On a page a table stands below the comment ``<!-- table: NAME -->``. Needs no card.
"""

import gzip
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from campaigns import recordings
from streamsim import Config, Device, Workload, load_device
from streamsim.analysis import works_in
from streamsim.device import EFFECTS, parse_device, without
from streamsim.search import proposals
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
from streamsim_validate.run import BUDGET
from streamsim_validate.run.tuning import ratio_of

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "validate" / "campaigns" / "records"
CARDS = {"h100": "H100", "h200": "H200"}
NEWEST = 2  # records of each card
SAMPLES = 100  # of an interval
GOOD_CHOICE, GOOD_TUNING = 0.05, 0.02  # slower than the best measured
TRIALS = 50  # of a choice at random
BEYOND = 0.05
LATENCIES = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s", "in_flight_bytes")
LENGTHS_US = (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, inf)
LANGUAGES = {"cupy": "CuPy", "pytorch": "PyTorch", "cuda-c++": "CUDA C++"}
PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n)\n?((?:\|[^\n]*\n)*)\n?")


class PageTable(NamedTuple):
    """A head and rows of cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace(" --- ", "---")


# Records and how far off they are


def newest(kind: str, count: int = NEWEST) -> dict[str, list[Path]]:
    """Return by card the last ``count`` records of a kind, such as ``random``, by their numbers."""
    found = {card: sorted(RECORDS.glob(f"{kind}-{card}-*"), key=_number) for card in CARDS}
    return {card: paths[-count:] for card, paths in found.items() if paths}


def _number(path: Path) -> int:
    return int(_name(path).rpartition("-")[2])


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


read = cache(read_record)


@cache
def comparison(path: Path) -> Comparison:
    """Return a record beside its predictions."""
    return compare(read(path))


def of_all(paths: Iterable[Path]) -> Comparison:
    """Return several records of a card as one."""
    found = [comparison(path) for path in paths]
    return msgspec.structs.replace(found[0], rows=tuple(row for one in found for row in one.rows))


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def errors(found: Sequence[float], worst: bool = True) -> str:
    """Return the median, the 95th percentile, and the worst of absolute errors."""
    if not found:
        return ""
    values = (median(found), percentile95(found), max(found))[: 3 if worst else 2]
    return " / ".join(f"{100 * value:.1f}" for value in values) + " %"


def by_bound(rows: Iterable[Row], worst: bool = True, counted: bool = True) -> list[str]:
    """Return the errors of device-bound and of host-bound rows, behind their number."""
    own = list(rows)
    classes = ([abs(row.error) for row in own if row.klass == klass] for klass in (DEVICE_BOUND, HOST_BOUND))
    return [f"{len(found)}: {errors(found, worst)}" if counted else errors(found, worst) for found in classes]


# Tables


def accuracy() -> PageTable:
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
    return PageTable(head, rows)


def records() -> PageTable:
    """Each of the newest records: errors by class."""
    found = (path for kind in ("random", "standard") for paths in newest(kind).values() for path in paths)
    rows = [[_name(path), *by_bound(comparison(path).rows)] for path in found]
    return PageTable(("record", "device-bound", "host-bound"), rows)


def intervals() -> PageTable:
    """Of the newest random records how many measured medians lie in their 90 % interval, and how wide it is."""
    rows = []
    for path in (path for paths in newest("random").values() for path in paths):
        found = by_class(expectations(read(path), comparison(path).rows, SAMPLES))
        classes = [found[klass] for klass in (DEVICE_BOUND, HOST_BOUND) if klass in found]
        rows.append([_name(path), *(f"{100 * x:.0f} %" for one in classes for x in (one.inside, one.mean_width))])
    return PageTable(("record", "device-bound: inside", "mean width", "host-bound: inside", "mean width"), rows)


def lengths() -> PageTable:
    """Device-bound random schedules by the time for each of their copies and kernels."""
    found: list[tuple[float, float]] = []  # microseconds over copies and kernels, and the absolute error
    for path in (path for paths in newest("random").values() for path in paths):
        own = {(row.connections, row.key): row for row in comparison(path).rows if row.klass == DEVICE_BOUND}
        for run, entry in read(path).measured():
            if row := own.get((run.connections, entry.key)):
                found.append((1e6 * row.predicted_s / works_in(entry.build()), abs(row.error)))
    rows = []
    for least, most in pairwise(LENGTHS_US):
        some = [error for length_us, error in found if least <= length_us < most]
        name = f"{least:.0f} us and more" if most == inf else f"{least:.0f} to {most:.0f} us"
        beyond = sum(error > BEYOND for error in some) / max(1, len(some))
        rows.append([name if least else f"up to {most:.0f} us", str(len(some)), errors(some), f"{100 * beyond:.0f} %"])
    return PageTable(
        ("a copy or kernel takes", "schedules", "median / 95th percentile / worst", "more than 5 % off"), rows
    )


def programs() -> PageTable:
    """Programs in each language of the newest records of each card."""
    rows = []
    for card, paths in newest("programs-suite").items():
        found = of_all(paths)
        for language, name in LANGUAGES.items():
            own = tuple(row for row in found.rows if row.front_end == language)
            choices = msgspec.structs.replace(found, rows=own).choices
            good = sum(choice.regret <= GOOD_CHOICE for choice in choices)
            rows.append([CARDS[card], name, *by_bound(own, worst=False), f"{good} of {len(choices)}"])
    return PageTable(("card", "language", "device-bound", "host-bound", "choices within 5 %"), rows)


def recorded() -> PageTable:
    """Recorded programs: replays, and what changes of them were predicted to bring from the recording alone."""
    rows = []
    for card, (folder,) in newest("recordings", 1).items():
        record = recordings.read_record(folder)
        good = [one for one in recordings.replays(folder, record) if isinstance(one, recordings.Replayed)]
        found = list(recordings.predictions(good, record))
        missed = [abs(one.error) for one in good], [abs(one.error_alone) for one in found]
        cells = (f"{len(some)}: {errors(some)}" for some in missed)
        rows.append([CARDS[card], *cells, str(sum(one.misleads for one in found) or "none")])
    return PageTable(("card", "replays", "changes, from the recording alone", "recommended, and slower"), rows)


def effects() -> PageTable:
    """The errors with each effect off, all other numbers as calibrated."""
    random, suite = (
        [read(path) for paths in newest(kind).values() for path in paths] for kind in ("random", "standard")
    )
    rows = []
    for words, change in ways().items():
        of_random, of_suite = (by_bound(_changed(some, change), False, False) for some in (random, suite))
        rows.append([words, *of_random, of_suite[0]])
    return PageTable(("without", "random, device-bound", "random, host-bound", "standard suite, device-bound"), rows)


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
        for run in record.runs:
            profiles = profiles_of(run, None)
            for entry in run.entries:  # all were measured
                yield row_of(entry, run, Profiles(change(profiles.of(entry))))


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


def shipped() -> PageTable:
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
            rows.append([CARDS[card], name, *by_bound(found, worst=False, counted=False)])
    return PageTable(("card", "predicted with", "device-bound", "host-bound"), rows)


class Tuning(msgspec.Struct, frozen=True):
    """A workload, its candidates that could be measured, and the wall times of each, seconds.

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

    @property
    def is_good(self) -> bool:
        """Whether what was found is within 2 % of the best, or within their noise, side by side."""
        ratio, low, _ = ratio_of(self.found_s, self.best_s, 0)
        return self.found == self.best or ratio <= 1 + GOOD_TUNING or low <= 1

    def regrets(self, device: Device) -> tuple[float, float, float]:
        """Return the share by which a choice is slower than the best: the model's, of ``tune``, and at random."""
        seconds, everyone, rng = [median(walls) for walls in self.wall_s], range(len(self.configs)), random.Random(0)
        offers, measured = proposals(self.workload, self.configs, device), dict[int, float]()
        while len(measured) < BUDGET and (k := offers.next(measured)) is not None:
            measured[k] = seconds[k]
        drawn_s = [min(seconds[k] for k in rng.sample(everyone, BUDGET)) for _ in range(TRIALS)]
        pick_s, tuned_s, random_s = next(iter(measured.values())), min(measured.values()), fmean(drawn_s)
        return pick_s / min(seconds) - 1, tuned_s / min(seconds) - 1, random_s / min(seconds) - 1


class Tunings(msgspec.Struct, frozen=True):
    """Every candidate of drawn workloads, measured on a card, and the profile of just before, as TOML."""

    card: str
    profile: str
    tunings: tuple[Tuning, ...]


def read_tunings(card: str) -> Tunings:
    """Return the record of a card."""
    return msgspec.json.decode(gzip.decompress((RECORDS / f"tuning-{card}.json.gz").read_bytes()), type=Tunings)


def tuned() -> PageTable:
    """What ten measurements find of all the candidates that were measured, by who chooses them: mean over workloads."""
    rows = []
    for card, name in CARDS.items():
        record = read_tunings(card)
        device = parse_device(record.profile)
        regrets = zip(*(one.regrets(device) for one in record.tunings), strict=True)
        good = sum(one.is_good for one in record.tunings)
        rows.append([name, *(percent(fmean(some)) for some in regrets), f"{good} of {len(record.tunings)}"])
    head = ("card", "the model's pick", "`tune`", "at random", "`tune` within 2 % of the best")
    return PageTable(head, rows)


TABLES: dict[str, Callable[[], PageTable]] = {
    table.__name__: table
    for table in (accuracy, records, lengths, intervals, programs, recorded, effects, shipped, tuned)
}


# Pages


def pages() -> list[Path]:
    """Return those that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rewritten(text: str, made: Callable[[str], str]) -> str:
    """Return a page with what ``made`` gives for the name of each of its tables."""
    return PLACE.sub(lambda place: f"{place[1]}\n{made(place[2])}\n", text)


def main(names: Sequence[str]) -> None:
    """Print tables, or write them into the pages."""
    if names == ["--write"]:
        for page in pages():
            page.write_text(rewritten(page.read_text("utf-8"), lambda name: str(TABLES[name]())), encoding="utf-8")
    else:
        print("\n".join(f"{name}\n{TABLES[name]()}" for name in names or TABLES))


if __name__ == "__main__":
    main(sys.argv[1:])
