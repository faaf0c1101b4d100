"""How accurate the model is, on the committed records of runs that it was not fitted to.

Each record is predicted with what was calibrated, by isolated micro-benchmarks, before its own run and after.
The figures below are promises: when a change of the model breaks one, the model got worse.
"""

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from effort import THOROUGH
from once import compare_once

from streamsim_validate.calibrate import PlainSamples, Samples
from streamsim_validate.calibrate.fits import fit
from streamsim_validate.compare.comparison import EVERYTHING, Comparison, Row, summarise
from streamsim_validate.records.files import read_record
from streamsim_validate.suites import CONNECTIONS


class Bounds(NamedTuple):
    """Largest absolute errors; ``worst`` may be exceeded where the run's own noise explains it (None: named only)."""

    median: float
    p95: float
    worst: float | None


# What holds today: the goals, but for those of a choice, which are within 1 % of the best measured for 95 % of the
# workloads and never over 5 %. Who has measured everything, in the other run, comes to 93 and 96 %.
BOUNDS = {
    "device-bound": Bounds(0.0076, 0.0426, 0.106),
    "host-bound": Bounds(0.0371, 0.1055, None),
    "blocking": Bounds(0.0133, 0.0613, None),  # by its issue time it would count as host-bound
    "pageable": Bounds(0.105, 0.19, None),
}
STEADY = Bounds(0.0318, 0.0829, None)  # of the host-bound schedules whose runs scatter by less than
LITTLE = 0.05
OF_SOME_CONNECTIONS = BOUNDS | {  # fewer schedules, and one calibration each
    "device-bound": Bounds(0.0079, 0.0496, None),
    "host-bound": Bounds(0.0355, 0.1068, None),
}
MARGIN = 18.0  # the best published formula's median error over the model's
GOOD_CHOICE, GOOD_SHARE, WORST_CHOICE = 0.01, 0.87, 0.0296
FEWEST = 10  # rows of which a median says something
SCHEDULES, RECORDS = 400, 2  # at least
NOISE_REACH = 3.0  # half quartile distances: two standard deviations where the samples are normal

FOLDER = Path(__file__).parents[2] / "validate" / "campaigns" / "records"
PATHS = sorted(FOLDER.glob("standard-*.json.gz"))
each_record = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
pytestmark = pytest.mark.skipif(not PATHS, reason=f"no measured records in {FOLDER.name}/ yet")


@cache
def comparison(path: Path) -> Comparison:
    return compare_once(read_record(path))


def _beyond(rows: list[Row], worst: float) -> list[str]:
    found = (row for row in rows if abs(row.error) > max(worst, NOISE_REACH * row.noise))
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


# A fit takes seconds: a thorough run does all; those of the shipped profiles are done elsewhere.
CALIBRATIONS = [*product(PATHS, CONNECTIONS, ("before", "after"))]
SOME = CALIBRATIONS if THOROUGH else CALIBRATIONS[5:6]


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
        _is_alike(msgspec.to_builtins(getattr(found, part)), msgspec.to_builtins(getattr(kept, part)), part)
    assert found.spread == pytest.approx(kept.spread, rel=1e-6)


def _is_alike(found: Any, kept: Any, name: str) -> None:
    if isinstance(kept, dict):
        assert found.keys() == kept.keys(), name
        for key, value in kept.items():
            _is_alike(found[key], value, f"{name}.{key}")
    elif isinstance(kept, list | tuple):
        assert len(found) == len(kept), name
        for i, value in enumerate(kept):
            _is_alike(found[i], value, f"{name}[{i}]")
    else:
        assert found == (pytest.approx(kept, rel=1e-9) if isinstance(kept, float) else kept), name


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


# Of schedules drawn from the hash of the commit that measured them, which nobody can have looked at while building: the
# newest two records of each card. The goals are 1 %, 5 % and 12 % for device-bound ones and 4 % and 12 % for host-bound
# ones: this is what holds, with at most a fiftieth to spare on the worst record. On the hosts of the H100 others used
# the link.
OF_RANDOM = {
    "device-bound": Bounds(0.016, 0.0744, 0.261),
    "host-bound": Bounds(0.0589, 0.1752, None),
    "blocking": Bounds(0.0182, 0.081, None),
}
STEADY_RANDOM = Bounds(0.066, 0.2336, None)  # of the host-bound ones those that scatter by less than LITTLE
RANDOM_MARGIN = 6.8
RANDOM = {"random-h100": 2, "random-h200": 2}
RANDOM_PATHS = sorted(FOLDER.glob("random-*.json.gz"))
RANDOM_SCHEDULES = 200
# A comparison takes 5 s: an ordinary run makes those that pages show as well, a thorough one makes all.
JUDGED_PATHS = [path for path in RANDOM_PATHS if THOROUGH or path.name.endswith("-9.json.gz")]


each_random_record = pytest.mark.parametrize("path", JUDGED_PATHS, ids=lambda path: path.name)


def test_there_are_random_records_of_each_card_all_measured_and_predicted() -> None:
    assert Counter(path.name.rpartition("-")[0] for path in RANDOM_PATHS) == RANDOM
    assert {path.name.rpartition("-")[0] for path in JUDGED_PATHS} == set(RANDOM)
    for path in JUDGED_PATHS:
        found = comparison(path)
        assert len(found.rows) == RANDOM_SCHEDULES
        assert found.unpredicted == found.unmeasured == ()


def test_the_random_records_have_no_schedule_in_common() -> None:
    keys = [{entry.key for run in read_record(path).runs for entry in run.entries} for path in RANDOM_PATHS]
    assert {len(own) for own in keys} == {RANDOM_SCHEDULES}
    assert len(set().union(*keys)) == RANDOM_SCHEDULES * len(keys)


@each_random_record
@pytest.mark.parametrize("klass", OF_RANDOM)
def test_errors_of_schedules_that_nobody_had_seen(path: Path, klass: str) -> None:
    bounds, rows = OF_RANDOM[klass], [row for row in comparison(path).rows if row.klass == klass]
    found = summarise([row.error for row in rows])
    assert found.median <= bounds.median
    assert found.p95 <= bounds.p95
    if bounds.worst is not None:
        assert _beyond(rows, bounds.worst) == []


@each_random_record
def test_host_bound_schedules_that_nobody_had_seen_and_that_repeat(path: Path) -> None:
    _holds_for_those_that_repeat(path, STEADY_RANDOM)


@each_random_record
def test_the_published_formulas_are_far_behind_on_them(path: Path) -> None:
    name, times = comparison(path).margin(EVERYTHING)
    assert times >= RANDOM_MARGIN, name


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
