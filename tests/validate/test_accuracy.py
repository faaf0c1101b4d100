"""How accurate the model is, on the committed records of runs that it was not fitted to.

Each record is predicted with what was calibrated, by isolated micro-benchmarks, before its own run and after.
The figures below are promises: when a change of the model breaks one, the model got worse.
"""

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from documents import ROOT
from effort import THOROUGH
from once import compare_once, numbers_of

from streamsim_validate.calibrate import Samples
from streamsim_validate.calibrate.fits import fit
from streamsim_validate.compare import DEVICE_BOUND, HOST_BOUND, Comparison, Row, percentile95
from streamsim_validate.compare.comparison import EVERYTHING, summarise
from streamsim_validate.records import read_record
from streamsim_validate.suites import CONNECTIONS

pytestmark = pytest.mark.measured


class Bounds(NamedTuple):
    """Largest absolute errors; ``worst`` may be exceeded where the run's own noise explains it (None: named only)."""

    median: float
    p95: float
    worst: float | None = None


STEADY = "host-bound, of runs that scatter by less than 5 %"
STANDARD, RANDOM = "standard", "random"
# What holds today of each suite. Nobody can have looked at the drawn schedules while building. Their goals are 1 %, 5 %
# and 12 % if device-bound, and 4 % and 12 % if host-bound. On the hosts of the H100 others used the link.
BOUNDS = {
    STANDARD: {
        DEVICE_BOUND: Bounds(0.0076, 0.0426, 0.106),
        HOST_BOUND: Bounds(0.0371, 0.1055),
        STEADY: Bounds(0.0318, 0.0829),
        "blocking": Bounds(0.0133, 0.0613),  # by its issue time it would count as host-bound
        "pageable": Bounds(0.105, 0.19),
    },
    RANDOM: {
        DEVICE_BOUND: Bounds(0.016, 0.0744, 0.261),
        HOST_BOUND: Bounds(0.0589, 0.1752),
        STEADY: Bounds(0.066, 0.2336),
        "blocking": Bounds(0.0182, 0.081),
    },
}
OF_SOME_CONNECTIONS = BOUNDS[STANDARD] | {  # fewer schedules, and one calibration each
    DEVICE_BOUND: Bounds(0.0079, 0.0496),
    HOST_BOUND: Bounds(0.0355, 0.1068),
}
MARGINS = {STANDARD: 18.0, RANDOM: 6.8}  # the best published formula's median error over the model's
COUNTS = {STANDARD: 540, RANDOM: 200}  # schedules
# The goal is 1 % of the best for 95 % of the workloads. Who has measured everything, in the other run, comes to 93 and
# 96 %.
GOOD_CHOICE, GOOD_SHARE, WORST_CHOICE = 0.01, 0.87, 0.0296
FEWEST = 10  # rows of which a median says something
NOISE_REACH = 3.0  # half quartile distances: two standard deviations where the samples are normal

FOLDER = ROOT / "validate" / "campaigns" / "records"
PATHS = [path for suite in BOUNDS for path in sorted(FOLDER.glob(f"{suite}-*.json.gz"))]
# A comparison takes 5 s: an ordinary run makes those that pages show as well, a thorough one makes all.
JUDGED = [path for path in PATHS if THOROUGH or not path.name.endswith("-10.json.gz")]
OF_STANDARD = [path for path in JUDGED if path.name.startswith(STANDARD)]
each_record = pytest.mark.parametrize("path", JUDGED, ids=lambda path: path.name)
each_standard_record = pytest.mark.parametrize("path", OF_STANDARD, ids=lambda path: path.name)


def suite_of(path: Path) -> str:
    return path.name.partition("-")[0]


@cache
def comparison(path: Path) -> Comparison:
    return compare_once(read_record(path))


def rows_of(path: Path, klass: str) -> list[Row]:
    if klass == STEADY:
        return [row for row in rows_of(path, HOST_BOUND) if row.noise < 0.05]
    return [row for row in comparison(path).rows if row.klass == klass]


def test_there_are_separate_runs_with_all_schedules_predicted() -> None:
    assert Counter(path.name.rpartition("-")[0] for path in PATHS) == {
        **dict.fromkeys(("standard-h200", "random-h100", "random-h200"), 2)
    }
    keys = [{entry.key for run in read_record(p).runs for entry in run.entries} for p in PATHS if p not in OF_STANDARD]
    assert len(set().union(*keys)) == sum(map(len, keys))
    for path in JUDGED:
        found = comparison(path)
        assert len(found.rows) == COUNTS[suite_of(path)]
        assert found.unpredicted == found.unmeasured == ()
    assert len({read_record(path).runs[0].started for path in PATHS}) == len(PATHS)


# A fit takes seconds: a thorough run does all; those of the shipped profiles are done elsewhere.
OF_RANDOM = [path for path in PATHS if path not in OF_STANDARD]
CALIBRATIONS = [*product(OF_RANDOM, ("before", "after"))]


@pytest.mark.parametrize("path, when", CALIBRATIONS if THOROUGH else CALIBRATIONS[5:6])  # noqa: PT006
@pytest.mark.usefixtures("fitting_once")
def test_a_profile_is_what_the_samples_kept_with_it_say(path: Path, when: str) -> None:
    """But for the last digits, which depend on the linear algebra of the machine."""
    (run,) = read_record(path).runs
    kept = run.profile(when)
    assert kept is not None
    samples = msgspec.convert(run.samples if when == "before" else run.samples_after, Samples)
    found = fit(samples)
    assert numbers_of(found) == pytest.approx(numbers_of(kept), rel=1e-9, abs=1e-15)
    assert found.spread == pytest.approx(kept.spread, rel=1e-6)


@each_record
def test_errors_of_each_class(path: Path) -> None:
    for klass, bounds in BOUNDS[suite_of(path)].items():
        rows = rows_of(path, klass)
        assert klass != STEADY or len(rows) >= FEWEST
        found = summarise([row.error for row in rows], [row.key for row in rows])
        assert found.median <= bounds.median, klass
        assert found.p95 <= bounds.p95, found.worst_key
        beyond = [row for row in rows if abs(row.error) > max(bounds.worst or 1e9, NOISE_REACH * row.noise)]
        assert bounds.worst is None or not beyond, beyond


@each_standard_record
@pytest.mark.parametrize("connections", CONNECTIONS)
def test_any_number_of_connections_is_predicted_as_well(path: Path, connections: int) -> None:
    for klass, bounds in OF_SOME_CONNECTIONS.items():
        errors = [abs(row.error) for row in rows_of(path, klass) if row.connections == connections]
        if klass != STEADY and len(errors) >= FEWEST:
            assert summarise(errors).median <= bounds.median, klass
            assert percentile95(errors) <= bounds.p95, klass


@each_record
def test_the_published_formulas_are_far_behind(path: Path) -> None:
    name, times = comparison(path).margin(EVERYTHING)
    assert times >= MARGINS[suite_of(path)], name


@each_standard_record
def test_the_models_choice_is_nearly_the_best(path: Path) -> None:
    regrets = [choice.regret for choice in comparison(path).choices]
    assert sum(regret <= GOOD_CHOICE for regret in regrets) >= GOOD_SHARE * len(regrets)
    assert max(regrets) <= WORST_CHOICE
