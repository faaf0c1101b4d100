"""How many measured medians the predicted intervals hold: by hand, and on the committed records."""

from pathlib import Path
from statistics import median

import msgspec
import pytest
import small_record
from effort import THOROUGH
from strategies import h2d, make_device, program

from streamsim.device import Device
from streamsim.errors import InputError
from streamsim_validate.compare import DEVICE_BOUND, Coverage, by_class, compare, expectations, predict_device_s
from streamsim_validate.compare.predictions import classify
from streamsim_validate.records import Entry, Record, digest, read_record

FOLDER = Path(__file__).parents[2] / "validate" / "campaigns" / "records"
# Records that nobody had when the rule of misses was found: docs/evidence.md.
PATHS = sorted(FOLDER.glob("random-*.json.gz"))
LEAST, MOST = 0.85, 0.97  # of the device-bound medians
SAMPLES, EVERY = (200, 1) if THOROUGH else (24, 8)  # draws, and one schedule in so many

SIGMA = 0.1
DEVICE = msgspec.structs.replace(make_device(), spread={"h2d.bandwidth_bytes_per_s": SIGMA})


def an_entry(millis: int, times: float) -> Entry:
    """A copy of so many milliseconds (next to nothing is missed of those), measured as so many times its prediction."""
    schedule = program(h2d(1, 1_000_000 * millis), streams=1)
    measured_s = times * predict_device_s(schedule, DEVICE)
    return Entry(f"{millis} ms", digest(schedule), "ok", True, None, schedule, (measured_s,), (1.0,), (1e-9,))


def a_record(profile: Device = DEVICE) -> Record:
    """With s = 0.1 the interval is 0.848 to 1.179 times the prediction: two of five inside, two above, one below."""
    entries = map(an_entry, (10, 20, 30, 40, 50), (1.0, 1.1, 1.3, 1.7, 0.6))
    return small_record.a_record(*entries, connections=32, profile=profile)


def coverage(record: Record, samples: int = 200) -> dict[str, Coverage]:
    return by_class(expectations(record, compare(record).rows, samples))


def test_shares_and_widths_by_hand() -> None:
    # The width is e^(1.645 s) - e^(-1.645 s) = 0.3306 but for the scatter of 1000 draws.
    found = coverage(a_record(), samples=1000)[DEVICE_BOUND]
    assert (found.n, found.inside, found.below, found.above) == (5, 0.4, 0.2, 0.4)
    assert found.mean_width == pytest.approx(0.3306, rel=0.1)
    assert found.median_width == pytest.approx(found.mean_width, rel=0.01)


@pytest.mark.parametrize(("sigma", "inside"), [(0.2, 0.6), (0.5, 1.0), (0.0, 0.2)])
def test_intervals_are_as_wide_as_the_profiles_spread(sigma: float, inside: float) -> None:
    """With s = 0.2: 0.720 to 1.390; with s = 0.5: 0.439 to 2.276."""
    device = msgspec.structs.replace(DEVICE, spread={"h2d.bandwidth_bytes_per_s": sigma})
    assert coverage(a_record(device))[DEVICE_BOUND].inside == inside


def test_a_profile_without_spread_is_one_clear_line() -> None:
    with pytest.raises(InputError, match="has no spread"):
        coverage(a_record(msgspec.structs.replace(DEVICE, spread={})))


def some_device_bound(record: Record) -> Record:
    """With those of one in so many schedules that the card bound, which takes no prediction to know."""
    (run,) = record.runs
    some = [entry for _, entry in record.measured()][::EVERY]
    bound = tuple(entry for entry in some if klass_of(entry) == DEVICE_BOUND)
    return msgspec.structs.replace(record, runs=(msgspec.structs.replace(run, entries=bound),))


def klass_of(entry: Entry) -> str:
    return classify(entry.build(), median(entry.issue_s), median(entry.wall_s))


@pytest.mark.measured
def test_the_interval_holds_nine_in_ten_of_the_measured_medians() -> None:
    """Drawn from the spreads of the records' own calibrations."""
    found = []
    for record in map(read_record, PATHS):
        rows = compare(some_device_bound(record)).rows
        found += expectations(record, rows, SAMPLES)
    assert LEAST <= by_class(found)[DEVICE_BOUND].inside <= MOST
