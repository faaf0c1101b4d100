"""How accurate the model is, on the committed records of runs that it was not fitted to.

Each record is predicted with what was calibrated, by isolated micro-benchmarks, before its own run and after.
The figures below are promises: when a change of the model breaks one, the model got worse.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from effort import THOROUGH

from streamsim_validate.calibrate.fits import fit
from streamsim_validate.calibrate.samples import PlainSamples, Samples
from streamsim_validate.compare.comparison import EVERYTHING, Comparison, Row, summarise
from streamsim_validate.compare.predictions import compare
from streamsim_validate.records.files import read_record
from streamsim_validate.suites.suites import CONNECTIONS


class Bounds(NamedTuple):
    """Largest absolute errors; ``worst`` may be exceeded where the run's own noise explains it (None: named only)."""

    median: float
    p95: float
    worst: float | None


# What holds today: the goals, but for those of a choice, which are within 1 % of the best measured for 95 % of the
# workloads and never over 5 %. Who has measured everything, in the other run, comes to 93 and 96 %.
BOUNDS = {
    "device-bound": Bounds(0.0071, 0.0426, 0.104),
    "host-bound": Bounds(0.0371, 0.1055, None),
    "blocking": Bounds(0.0133, 0.0613, None),  # by its issue time it would count as host-bound
    "pageable": Bounds(0.105, 0.19, None),
}
STEADY = Bounds(0.0287, 0.0829, None)  # of the host-bound schedules whose runs scatter by less than
LITTLE = 0.05
OF_SOME_CONNECTIONS = BOUNDS | {  # fewer schedules, and one calibration each
    "device-bound": Bounds(0.0079, 0.0479, None),
    "host-bound": Bounds(0.0355, 0.1068, None),
}
MARGIN = 18.1  # the best published formula's median error over the model's
GOOD_CHOICE, GOOD_SHARE, WORST_CHOICE = 0.01, 0.87, 0.0296
FEWEST = 10  # rows of which a median says something
SCHEDULES, RECORDS = 400, 2  # at least

FOLDER = Path(__file__).parents[2] / "records"
PATHS = sorted(FOLDER.glob("standard-*.json.gz"))
each_record = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
pytestmark = pytest.mark.skipif(not PATHS, reason=f"no measured records in {FOLDER.name}/ yet")


@cache
def comparison(path: Path) -> Comparison:
    return compare(read_record(path))


def _beyond(rows: list[Row], worst: float) -> list[str]:
    found = (row for row in rows if abs(row.error) > worst and not row.is_noise)
    return [f"{row.error:+.1%} (noise {row.noise:.1%}) {row.key}" for row in found]


def _holds_for_those_that_repeat(path: Path, bounds: Bounds) -> None:
    rows = [row for row in comparison(path).rows if row.klass == "host-bound" and row.noise < LITTLE]
    assert len(rows) >= FEWEST
    found = summarise([row.error for row in rows])
    assert found.median <= bounds.median
    assert found.p95 <= bounds.p95


def test_there_are_separate_runs_with_all_schedules_predicted() -> None:
    found = [comparison(path) for path in PATHS]
    assert len(found) >= RECORDS
    for one in found:
        assert len(one.rows) >= SCHEDULES
        assert one.unpredicted == one.unmeasured == ()
        assert {row.connections for row in one.rows} == set(CONNECTIONS)
    assert len({read_record(path).runs[0].started for path in PATHS}) == len(PATHS)


# A fit takes seconds: of every number of connections one, from both records, before and after.
CALIBRATIONS = [*product(PATHS, CONNECTIONS, ("before", "after"))]
SOME = CALIBRATIONS if THOROUGH else [*CALIBRATIONS[:1], *CALIBRATIONS[5:6], *CALIBRATIONS[9:10]]


@pytest.mark.parametrize(("path", "connections", "when"), SOME, ids=lambda one: getattr(one, "name", one))
@pytest.mark.usefixtures("fitting_once")
def test_a_profile_is_what_the_samples_kept_with_it_say(path: Path, connections: int, when: str) -> None:
    """But for the last digits, which depend on the linear algebra of the machine."""
    (run,) = (run for run in read_record(path).runs if run.connections == connections)
    samples, kept = run.samples if when == "before" else run.samples_after, run.profile(when)
    assert samples is not None
    assert kept is not None
    found = fit(Samples.from_plain(msgspec.convert(samples, PlainSamples)))
    for part in ("h2d", "d2h", "compute", "hand_over", "host"):
        for field in getattr(kept, part).__struct_fields__:
            value = getattr(getattr(kept, part), field)
            wanted = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert getattr(getattr(found, part), field) == wanted, f"{part}.{field}"
    assert found.spread == pytest.approx(kept.spread, rel=1e-6)


@each_record
@pytest.mark.parametrize("klass", BOUNDS)
def test_errors_of_each_class(path: Path, klass: str) -> None:
    bounds, found = BOUNDS[klass], comparison(path).summaries["class"][klass]
    assert found.median <= bounds.median
    assert found.p95 <= bounds.p95, found.worst_key


@each_record
def test_host_bound_schedules_that_repeat_are_predicted_better(path: Path) -> None:
    _holds_for_those_that_repeat(path, STEADY)


@each_record
@pytest.mark.parametrize("klass", [klass for klass, bounds in BOUNDS.items() if bounds.worst is not None])
def test_the_worst_errors_are_small_or_noise(path: Path, klass: str) -> None:
    worst = BOUNDS[klass].worst
    assert worst is not None
    assert _beyond([row for row in comparison(path).rows if row.klass == klass], worst) == []


@each_record
@pytest.mark.parametrize("connections", CONNECTIONS)
def test_any_number_of_connections_is_predicted_as_well(path: Path, connections: int) -> None:
    groups = comparison(path).summaries["connections"]
    for klass, bounds in OF_SOME_CONNECTIONS.items():
        found = groups.get(f"{connections} connections {klass}")
        if found is not None and found.n >= FEWEST:
            assert found.median <= bounds.median
            assert found.p95 <= bounds.p95, found.worst_key


# Of schedules drawn from the hash of the commit that measured them, which nobody can have looked at while building. The
# goals are 1 %, 5 % and 12 % for device-bound ones and 4 % and 12 % for host-bound ones: this is what holds, with at
# most a fiftieth to spare on the worst record. Of the host-bound ones, those that scatter by less than LITTLE too.
EARLIER, LATER = ("1", "2"), ("3", "4")  # calibrated by mixes of calls; and in programs, on busier hosts
NEWEST = ("h100-5", "h200-5", "h200-6")  # in programs, too
LAST = ("h100-6", "h200-7")
SHARED = ("h100-7", "h200-8")  # the same schedules on both cards
FRESH = ("h100-8", "h200-9")
LINKED = ("h100-9", "h100-10")  # what others left of the link was measured as well, and on the second that was little
QUIET = ("h200-10",)  # likewise, and nobody used it
OF_RANDOM = {
    EARLIER: {
        "device-bound": Bounds(0.0096, 0.0819, 0.1786),
        "host-bound": Bounds(0.0618, 0.2255, None),
        "blocking": Bounds(0.0164, 0.0721, None),
    },
    LATER: {
        "device-bound": Bounds(0.0109, 0.0791, 0.1787),
        "host-bound": Bounds(0.0543, 0.2246, None),
        "blocking": Bounds(0.0226, 0.056, None),
    },
    NEWEST: {
        "device-bound": Bounds(0.011, 0.0718, 0.2988),
        "host-bound": Bounds(0.0747, 0.1753, None),
        "blocking": Bounds(0.036, 0.0608, None),
    },
    LAST: {
        "device-bound": Bounds(0.0126, 0.0696, 0.1464),
        "host-bound": Bounds(0.0472, 0.1783, None),
        "blocking": Bounds(0.0204, 0.075, None),
    },
    SHARED: {
        "device-bound": Bounds(0.0099, 0.0665, 0.2017),
        "host-bound": Bounds(0.0507, 0.1212, None),
        "blocking": Bounds(0.0232, 0.077, None),
    },
    FRESH: {
        "device-bound": Bounds(0.0116, 0.0797, 0.3289),
        "host-bound": Bounds(0.0715, 0.1323, None),
        "blocking": Bounds(0.0077, 0.0812, None),
    },
    LINKED: {
        "device-bound": Bounds(0.016, 0.0652, 0.1555),
        "host-bound": Bounds(0.0579, 0.1752, None),
        "blocking": Bounds(0.0182, 0.081, None),
    },
    QUIET: {
        "device-bound": Bounds(0.0087, 0.0627, 0.261),
        "host-bound": Bounds(0.0589, 0.1542, None),
        "blocking": Bounds(0.0119, 0.0553, None),
    },
}
STEADY_RANDOM = {
    EARLIER: Bounds(0.055, 0.1357, None),
    LATER: Bounds(0.0453, 0.1577, None),
    NEWEST: Bounds(0.0747, 0.1753, None),
    LAST: Bounds(0.0476, 0.1839, None),
    SHARED: Bounds(0.0647, 0.1313, None),
    FRESH: Bounds(0.0447, 0.1349, None),
    LINKED: Bounds(0.0336, 0.085, None),
    QUIET: Bounds(0.066, 0.2336, None),
}
RANDOM_MARGIN = {EARLIER: 10.5, LATER: 8.5, NEWEST: 11.7, LAST: 10.1, SHARED: 13.6, FRESH: 15.1}
RANDOM_MARGIN |= {LINKED: 6.8, QUIET: 16.5}
RANDOM = {"random-h100": 10, "random-h200": 10}
RANDOM_PATHS = sorted(FOLDER.glob("random-*.json.gz"))
RANDOM_SCHEDULES = 200


def _which(path: Path) -> tuple[str, ...]:
    return next(which for which in OF_RANDOM if path.name.removesuffix(".json.gz").endswith(which))


# An ordinary run looks at the last of each card and at one whose link others used, a thorough one at all.
SOME_RANDOM = [path for path in RANDOM_PATHS if THOROUGH or _which(path) in (LINKED, QUIET)]
each_random_record = pytest.mark.parametrize("path", SOME_RANDOM, ids=lambda path: path.name)


def test_there_are_random_records_of_each_card_all_measured_and_predicted() -> None:
    assert Counter(path.name.rpartition("-")[0] for path in RANDOM_PATHS) == RANDOM
    for path in SOME_RANDOM:
        found = comparison(path)
        assert len(found.rows) == RANDOM_SCHEDULES
        assert found.unpredicted == found.unmeasured == ()


def test_the_random_records_have_no_schedule_in_common_but_two_of_two_cards_that_have_all() -> None:
    keys = {path: {entry.key for run in read_record(path).runs for entry in run.entries} for path in RANDOM_PATHS}
    assert {len(own) for own in keys.values()} == {RANDOM_SCHEDULES}
    shared = {tuple(map(_which, pair)) for pair in combinations(keys, 2) if keys[pair[0]] & keys[pair[1]]}
    assert shared == {(SHARED, SHARED)}
    one, other = (own for path, own in keys.items() if _which(path) == SHARED)
    assert one == other


@each_random_record
@pytest.mark.parametrize("klass", OF_RANDOM[LATER])
def test_errors_of_schedules_that_nobody_had_seen(path: Path, klass: str) -> None:
    bounds, rows = OF_RANDOM[_which(path)][klass], [row for row in comparison(path).rows if row.klass == klass]
    found = summarise([row.error for row in rows])
    assert found.median <= bounds.median
    assert found.p95 <= bounds.p95
    if bounds.worst is not None:
        assert _beyond(rows, bounds.worst) == []


@each_random_record
def test_host_bound_schedules_that_nobody_had_seen_and_that_repeat(path: Path) -> None:
    _holds_for_those_that_repeat(path, STEADY_RANDOM[_which(path)])


@each_random_record
def test_the_published_formulas_are_far_behind_on_them(path: Path) -> None:
    name, times = comparison(path).margin(EVERYTHING)
    assert times >= RANDOM_MARGIN[_which(path)], name


@each_record
def test_the_published_formulas_are_far_behind(path: Path) -> None:
    name, times = comparison(path).margin(EVERYTHING)
    assert times >= MARGIN, name


@each_record
def test_the_models_choice_is_nearly_the_best(path: Path) -> None:
    choices = comparison(path).choices
    good = [choice for choice in choices if choice.regret <= GOOD_CHOICE]
    assert len(good) >= GOOD_SHARE * len(choices)
    assert [choice for choice in choices if choice.regret > WORST_CHOICE] == []
