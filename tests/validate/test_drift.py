"""A host that gets slower while a run measures: its calls' costs are found again, and predictions follow them."""

import statistics
from functools import cache
from typing import Any

import msgspec
import pytest
from fake_cuda import CARD
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streamsim import load_device
from streamsim.device import HOST_TIMES, Device, changed, mean_of
from streamsim.model import simulate
from streamsim_validate.calibrate import host_calls
from streamsim_validate.compare import compare, expectations, predict_device_s, profiles_of
from streamsim_validate.compare.predictions import (
    FEWEST_REPEATS,
    mixes_s,
    predict_wall_s,
    speed_of,
    with_link,
)
from streamsim_validate.records import (
    LINK_PAIR,
    PACE_CHAIN,
    CallCosts,
    ChainRow,
    Entry,
    Group,
    Machine,
    Recipe,
    Record,
    Run,
    Timing,
    closed,
    digest,
    rows_of,
)
from streamsim_validate.suites import sincos

SHIPPED = load_device("h200")
H200 = replace(  # of any card; the probes' mean call has what the first ones after a wait take longer
    SHIPPED, description="", host=replace(SHIPPED.host, after_wait_s=0.0)
)
CONNECTIONS, SLOWER, OUTLIER_S = 8, 1.25, 5e-3
RECIPE = Recipe("depth-first", {"chunks": 32, "streams": 4}, sincos(32_000, 2), "grid")  # the host's calls set its time


def slowed(factor: float) -> Device:
    """The H200 with calls that cost the host so many times what they do."""
    calls = {name: getattr(H200.host, name) * factor for name in CallCosts._fields}
    return replace(H200, host=replace(H200.host, **calls)).with_connections(CONNECTIONS)


def a_group(number: int, factor: float, repeats: int = 3) -> Group:
    """What the probes show on that card, measured so many times."""
    device, timings = slowed(factor), {}
    for chain, schedule in host_calls():
        host = simulate(closed(schedule), device)
        timings[chain] = [Timing(0.0, host.host_s, host.issued[len(schedule.ops) - 1] * 1e-9)] * repeats
    return Group(number, rows_of(timings))


def an_entry(key: str, group: int, factor: float) -> Entry:
    """Measured on that card."""
    schedule = RECIPE.schedule()
    host = simulate(closed(schedule), slowed(factor))
    times = (predict_device_s(schedule, slowed(factor)),), (host.host_s,), (0.9 * host.host_s,)
    return Entry(key, digest(schedule), "ok", True, RECIPE, None, *times, group=group)


def calibrated(factor: float = 1.0) -> dict[str, Any]:
    """Samples of a calibration on that card, as a record keeps them: the mixes of calls, and the pace beside a program.

    The pace takes a tenth less there than as a chain among others.
    """
    paces_s = [["program ring", 2, 8, [0.9 * pace_s(factor)] * 3]]
    return {"timings": msgspec.to_builtins(a_group(0, factor).probes), "paces_s": paces_s}


def plain(device: Device) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(device))
    return found


def a_run(entries: tuple[Entry, ...], groups: tuple[Group, ...]) -> Run:
    known = calibrated()
    return Run(CONNECTIONS, "then", 0, 3, "now", plain(H200), plain(H200), entries, known, known, groups=groups)


def a_record(*runs: Run) -> Record:
    return Record(CARD, Machine("Linux", "a processor", 2, "3.12"), "mine", runs, "0.1")


@cache
def pace_s(factor: float) -> float:
    """Seconds in which the host issues the pace on that card."""
    schedule = next(schedule for chain, schedule in host_calls() if chain == PACE_CHAIN)
    return simulate(closed(schedule), slowed(factor)).issued[len(schedule.ops) - 1] * 1e-9


# Halfway through the run the host got slower.
GROUPS = (a_group(1, 1.0), a_group(2, SLOWER))


@cache
def early_and_late() -> tuple[Entry, Entry]:
    return an_entry("early", 1, 1.0), an_entry("late", 2, SLOWER)


@cache
def drifted() -> Record:
    return a_record(a_run(early_and_late(), GROUPS))


def test_a_host_that_got_slower_is_found_again_and_predictions_follow_it() -> None:
    assert profiles_of(drifted().runs[0]).speeds == pytest.approx({1: 1.0, 2: SLOWER}, rel=0.01)
    assert [row.error for row in compare(drifted()).rows] == pytest.approx([0, 0], abs=0.005)
    without = compare(a_record(a_run(early_and_late(), ()))).rows
    assert [row.error for row in without] == pytest.approx([0, 1 / SLOWER - 1], abs=0.03)


def a_paced_entry(*factors: float) -> Entry:
    """Samples of which each was measured on a host so many times as slow, and so was the pace beside it."""
    each = [an_entry("x", 0, factor) for factor in factors]
    times = {name: tuple(getattr(one, name)[0] for one in each) for name in ("device_s", "wall_s", "issue_s")}
    return replace(each[0], **times, paces_s=tuple(0.9 * pace_s(factor) for factor in factors))


def test_each_sample_is_predicted_with_the_host_as_fast_as_it_was_beside_it() -> None:
    """However many samples a host was slow for, the one in the middle is right; without a pace only fast ones are."""
    for factors in ((1, 1, SLOWER, 1, SLOWER), (SLOWER, 1, SLOWER, SLOWER, 1)):
        entry = a_paced_entry(*factors)
        (row,) = compare(a_record(a_run((entry,), ()))).rows
        assert [row.error, row.wall_error] == pytest.approx([0, 0], abs=0.005)
        assert row.measured_s == statistics.median(entry.device_s)
    unknown = replace(entry, paces_s=())
    (row,) = compare(a_record(a_run((unknown,), ()))).rows
    assert row.error == pytest.approx(1 / SLOWER - 1, abs=0.03)


def test_where_the_host_is_known_beside_each_sample_its_calibration_may_scatter() -> None:
    """By 30 % or by 60: the interval of what calls bind is as wide, and narrower than where nobody knows."""
    widths = []
    for entry, sigma in [(a_paced_entry(1, 1, 1), 0.3), (a_paced_entry(1, 1, 1), 0.6), (an_entry("x", 0, 1), 0.3)]:
        profile = replace(H200, spread=dict.fromkeys(HOST_TIMES, sigma))
        record = a_record(replace(a_run((entry,), ()), before=plain(profile), after=plain(profile)))
        (expected,) = expectations(record, compare(record).rows, samples=50)
        widths.append(expected.width)
    assert widths[0] == widths[1] < widths[2] / 2


def test_a_pace_of_no_time_or_of_few_samples_says_nothing() -> None:
    """Fewer than three, or one that no clock has seen: the run's own profile then."""
    for entry in (a_paced_entry(SLOWER, SLOWER), a_paced_entry(SLOWER, SLOWER, SLOWER)):
        known = replace(entry, paces_s=(0.0, *entry.paces_s[1:]))
        assert profiles_of(a_run((), ())).speeds_of(known) == []
        assert profiles_of(a_run((), ())).of(known) == H200.with_connections(CONNECTIONS)


# What others leave of the link

COPYING = Recipe("depth-first", {"chunks": 6, "streams": 3}, sincos(6_000_003, 2), "grid")  # both links set its time


def a_linked_entry(*times: float) -> Entry:
    """Samples of which each was measured while copies both ways took so many times as long, and so did those beside."""
    schedule = COPYING.schedule()
    cards = [with_link(H200.with_connections(CONNECTIONS), some) for some in times]
    measured_s = tuple(predict_device_s(schedule, card) for card in cards)
    walls_s = tuple(predict_wall_s(closed(schedule), card) for card in cards)
    links_s = tuple(some * predict_device_s(LINK_PAIR, H200) for some in times)
    paces_s = (0.9 * pace_s(1.0),) * len(times)
    entry = Entry("x", digest(schedule), "ok", True, COPYING, None, measured_s, walls_s, (1e-5,) * len(times))
    return replace(entry, paces_s=paces_s, links_s=links_s)


@pytest.mark.parametrize("times", [(1.0, 1.0, 1.6, 1.0, 1.6), (1.6, 1.0, 1.6, 1.6, 1.0), (1.1, 1.2, 1.3)])
def test_each_sample_is_predicted_with_what_others_left_of_the_link_beside_it(times: tuple[float, ...]) -> None:
    """Whichever sample is in the middle; the interval is about that, and wider by what the link changed."""
    entry = a_linked_entry(*times)
    record = a_record(a_run((entry,), ()))
    (row,) = compare(record).rows
    assert [row.error, row.wall_error] == pytest.approx([0, 0], abs=0.005)
    assert row.measured_s == statistics.median(entry.device_s)
    (expected,) = expectations(record, [row], samples=50)
    assert expected.is_inside
    untold = a_record(a_run((replace(entry, links_s=()),), ()))
    (usual,) = compare(untold).rows
    assert usual.predicted_s == pytest.approx(predict_device_s(COPYING.schedule(), H200), rel=0.005)
    (narrow,) = expectations(untold, [usual], samples=50)
    assert expected.width > narrow.width


def test_nothing_is_predicted_with_the_link_of_others_that_is_not_known() -> None:
    """Under a device that is given, and where a clock has not seen a copy."""
    entry = a_linked_entry(1.6, 1.6, 1.6)
    usual_s = predict_device_s(COPYING.schedule(), H200)
    (row,) = compare(a_record(a_run((entry,), ())), H200).rows
    assert row.predicted_s == pytest.approx(usual_s, rel=0.005)
    unseen = replace(entry, links_s=(0.0, *entry.links_s[1:]))
    (row,) = compare(a_record(a_run((unseen,), ()))).rows
    assert row.predicted_s == pytest.approx(usual_s, rel=0.005)


def test_a_host_has_one_speed() -> None:
    """1, 1.5 and 1.5 times as slow in the three mixes: 1.5 ** (2/3) for every call, none of which changes by itself."""

    def slower(row: ChainRow) -> ChainRow:
        kind, size, length, runs = row
        return kind, size, length, tuple((device_s, wall_s, 1.5 * issue_s) for device_s, wall_s, issue_s in runs)

    rows = GROUPS[0].probes
    two = tuple(slower(row) if row[0] == "mix hkd" else row for row in rows)
    assert [speed_of(mixes_s(some), mixes_s(rows)) for some in (rows, two)] == pytest.approx([1, 1.5 ** (2 / 3)])
    late = profiles_of(a_run(early_and_late(), (Group(2, two),))).of(early_and_late()[1])
    known = [(getattr(late.host, name), getattr(H200.host, name)) for name in CallCosts._fields]
    of_calls = {late_s / usual_s for late_s, usual_s in known if usual_s}
    assert max(of_calls) == pytest.approx(min(of_calls))


def test_a_runs_profile_is_the_mean_of_its_calibrations() -> None:
    one, other = (changed(H200, {"h2d.bandwidth": bandwidth}) for bandwidth in ("50GB/s", "60GB/s"))
    run = replace(a_run((), ()), before=plain(one), after=plain(other))
    assert profiles_of(run).whole == mean_of(one, other).with_connections(CONNECTIONS)
    assert profiles_of(replace(run, before=None)).whole == other.with_connections(CONNECTIONS)


def test_no_schedules_own_times_move_its_prediction() -> None:
    slow = replace(early_and_late()[1], device_s=(1.0,), wall_s=(1.0,), issue_s=(1.0,))
    (row,) = compare(a_record(a_run((slow,), GROUPS))).rows
    assert row.predicted_s == compare(drifted()).rows[1].predicted_s


@pytest.mark.parametrize(
    "probes",
    [
        (),
        a_group(2, SLOWER, FEWEST_REPEATS - 1).probes,
        tuple(row for row in GROUPS[1].probes if row[0] != "mix hd"),
        tuple((*row[:3], ((1e-6, 1e-6, -1e-6),) * 3) for row in GROUPS[1].probes),
    ],
    ids=["nothing probed", "interrupted", "a probe failed", "issued before 0"],
)
def test_a_group_that_does_not_say_is_predicted_with_the_runs_profile(probes: tuple[ChainRow, ...]) -> None:
    run = a_run(early_and_late(), (GROUPS[0], Group(2, probes)))
    assert profiles_of(run).of(early_and_late()[1]) == H200.with_connections(CONNECTIONS)
    assert len(compare(a_record(run)).rows) == 2


@given(st.integers(0, len(GROUPS[1].probes) - 1), st.integers(0, FEWEST_REPEATS - 1))
def test_one_outlier_changes_nothing(probe: int, repeat: int) -> None:
    rows = list(GROUPS[1].probes)
    *chain, runs = rows[probe]
    disturbed = tuple((OUTLIER_S,) * 3 if i == repeat else run for i, run in enumerate(runs))
    rows[probe] = (*chain, disturbed)  # type: ignore[assignment]
    run = a_run(early_and_late(), (GROUPS[0], Group(2, tuple(rows))))
    assert profiles_of(run).speeds == profiles_of(drifted().runs[0]).speeds
