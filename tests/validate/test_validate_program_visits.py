"""Visits to the programs of the suite: how many, which runs count, and what their rounds say of a front end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from fake_cuda import fake_gpu
from hypothesis import given
from hypothesis import strategies as st
from program_libraries import emulate

from streamsim.errors import InputError
from streamsim_validate.calibrate.front_ends import KINDS, fit_front_end
from streamsim_validate.gpu import LostGpuError
from streamsim_validate.records import (
    CHUNK_ROUND,
    PROGRAMS,
    STAND_IN,
    Entry,
    Program,
    Recipe,
    Run,
    finish,
    journal_path,
    key_of,
    quiet_runs,
    stand_ins,
)
from streamsim_validate.run import Plan, campaign, program_runs
from streamsim_validate.run.beside import BesideLibrary
from streamsim_validate.run.campaign import measure_plan
from streamsim_validate.run.program_runs import Visiting, WrittenProgram, measure_programs, planned_programs, to_fit
from streamsim_validate.run.programs import Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from timed_arrays import Library

    from streamsim import Config


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return emulate(monkeypatch)


def scripted(monkeypatch: pytest.MonkeyPatch, visits: dict[int, list[float | str]]) -> list[int]:
    """Runs of a program of so many chunks take so long to issue, visit by visit, or fail; chunks in that order.

    The slower a run was issued the sooner it was done: that decides nothing.
    """
    order: list[int] = []
    script = {chunks: iter(each) for chunks, each in visits.items()}

    def run(_: Any, _workload: Any, config: Config, repeats: int, _work: int, kinds: Sequence[str]) -> Any:
        order.append(config.chunks)
        issue_s = next(script[config.chunks])
        if isinstance(issue_s, str):
            raise InputError(issue_s)
        issues = tuple(issue_s + 0.001 * k for k in range(repeats))
        return Result(True, issues, tuple(9 - s for s in issues)), dict.fromkeys(kinds, (issue_s, issue_s))

    monkeypatch.setattr(BesideLibrary, "run", run)
    return order


def written(*chunks: int) -> list[WrittenProgram]:
    recipes = [Recipe("depth-first", {"chunks": n, "streams": 1}, stand_ins(2048, 1, 2), STAND_IN) for n in chunks]
    return [WrittenProgram(key_of("cupy", one), one.schedule(), one, language="cupy") for one in recipes]


def told(items: list[WrittenProgram], visiting: Visiting) -> list[Entry]:
    found: list[Entry] = []
    measure_programs(items, fake_gpu()[0], 0, visiting, found.append)
    return found


@pytest.mark.usefixtures("library")
def test_programs_are_visited_until_the_quietest_visit_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each at least twice, once all others have been.

    The second visit to the second one is quieter than the first by more than a tenth, and the fourth confirms it; the
    third visit to the fourth one is quieter than all others, which is as it may be: four at most.
    """
    visits: dict[int, list[float | str]] = {1: [1, 1.05], 2: [1.2, 1, 1.3, 1.05], 3: [1.5, 1.4], 4: [1, 1.2, 0.8, 1.3]}
    order = scripted(monkeypatch, visits)
    found = told(written(1, 2, 3, 4), Visiting(3, visits=4))
    assert order == [1, 2, 3, 4, 1, 2, 3, 4, 2, 4, 2, 4]
    last = {entry.key: entry for entry in found}
    assert [entry.program.tries for entry in last.values() if entry.program] == [2, 4, 2, 4]
    entry = list(last.values())[3]
    assert entry.issue_s == pytest.approx(
        [s + 0.001 * k for s in visits[4] for k in range(3) if not isinstance(s, str)]
    )
    assert entry.wall_s == pytest.approx([9 - s for s in entry.issue_s])
    assert entry.program is not None
    assert entry.program.rounds_s == (1, 1, 1.2, 1.2, 0.8, 0.8, 1.3, 1.3)
    assert len(entry.program.links_s) == 8
    assert len(entry.program.kernels_s) == 1
    assert sum(map(len, entry.program.others_s.values())) == 2 * 8


@pytest.mark.usefixtures("library")
def test_once_it_is_late_no_program_is_visited_again_and_the_others_are_once(monkeypatch: pytest.MonkeyPatch) -> None:
    order = scripted(monkeypatch, {n: [1.0] * 2 for n in (1, 2, 3, 4)})
    items = written(1, 2, 3, 4)
    found = told(items, Visiting(3, is_late=lambda: len(order) >= 6))
    assert order == [1, 2, 3, 4, 1, 2]
    assert [entry.key for entry in found] == [item.key for item in (*items, *items[:2])]
    order.clear()
    script = scripted(monkeypatch, {n: [1.0] for n in (1, 2, 3, 4)})
    told(items, Visiting(3, is_late=lambda: True))
    assert script == [1, 2, 3, 4]


@pytest.mark.usefixtures("library")
def test_what_fails_later_leaves_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails at once is not visited again; a visit that fails confirms nothing and is none of its number."""
    order = scripted(monkeypatch, {1: ["oh dear"], 2: [1.0, "oh no", 1.0]})
    items = written(1, 2)
    first, *others = told(items, Visiting(3))
    assert order == [1, 2, 2, 2]
    assert (first.key, first.status) == (items[0].key, "failed: oh dear")
    assert [(entry.status, entry.program and entry.program.tries) for entry in others] == [("ok", 1), ("ok", 2)]


@pytest.mark.usefixtures("library")
def test_visits_that_were_made_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    items = written(1, 2)
    scripted(monkeypatch, {1: [1.0], 2: [1.0, 1.0]})
    known = {entry.key: entry for entry in told(items, Visiting(3, visits=1))}
    order = scripted(monkeypatch, {1: [1.3, 1.0], 2: [1.0]})
    found = told(items, Visiting(3, known=known))
    assert order == [1, 2, 1]
    assert [entry.program.tries for entry in found if entry.program] == [2, 2, 3]


def test_it_is_late_once_the_limit_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=lambda: now_s))
    limited, unlimited = (Plan("r", suite=PROGRAMS, limit_s=limit_s).visiting({}) for limit_s in (60.0, 0.0))
    assert (limited.visits, limited.is_late(), unlimited.is_late()) == (5, False, False)
    now_s = 160.0
    assert (limited.is_late(), unlimited.is_late()) == (True, False)
    assert Plan("r", suite=PROGRAMS, visits=3).visiting({}).visits == 3


def test_a_card_that_is_lost_in_a_later_visit_leaves_what_there_is_and_that_program_alone(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(str(tmp_path / "r.json.gz"), suite=PROGRAMS, seed=7, count=2, repeats=2, front_ends=("cupy",))
    visited: list[str] = []
    visit = program_runs._Visits.visit

    def lost(self: Any, item: WrittenProgram) -> Entry:
        visited.append(item.key)
        if len(visited) == 3:
            raise LostGpuError("gone")
        return visit(self, item)

    monkeypatch.setattr(program_runs._Visits, "visit", lost)
    with pytest.raises(LostGpuError):
        measure_plan(plan, 8, fake_gpu()[0], None)
    measure_plan(plan, 8, fake_gpu()[0], None)
    first, second = (item.key for item in campaign.planned(plan, 8))
    assert visited == [first, second, first, second]
    measured = finish(journal_path(plan.output), plan.output).measured()
    assert {entry.key: entry.program.tries for _, entry in measured if entry.program} == {first: 1, second: 2}
    assert library.card.log


# Runs that count


def an_entry(issue_s: Sequence[float]) -> Entry:
    (item,) = written(1)
    walls = [9 + s for s in issue_s]
    return item.ran(walls=walls, issues=issue_s, program=Program("cupy"))


times = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30)


@given(times, st.floats(1.11, 3.0))
def test_quiet_runs_are_near_the_fastest_tenth_whatever_the_others_took(issue_s: list[float], slowness: float) -> None:
    """The fastest is one of them, each keeps its wall time, and none is among them that all slower ones are not."""
    quiet = quiet_runs(an_entry(issue_s))
    rounded = [round(s, 9) for s in issue_s]
    assert min(rounded) in quiet.issue_s
    assert sorted(quiet.issue_s) == sorted(rounded)[: len(quiet.issue_s)]
    assert quiet.wall_s == pytest.approx([9 + s for s in quiet.issue_s])
    assert quiet_runs(an_entry([1.0] * 12 + [slowness] * 88)) == quiet_runs(an_entry([1.0] * 12))


def test_quiet_runs_by_hand() -> None:
    """Of 0, 1... 10 tenths beyond 1 the fastest tenth ends with 1.1: up to 1.21 they are quiet."""
    entry = an_entry([1 + k / 10 for k in range(11)])
    assert quiet_runs(entry).issue_s == pytest.approx((1, 1.1, 1.2))
    without = msgspec.structs.replace(entry, issue_s=())
    assert quiet_runs(without) == ((), without.wall_s)


def test_issue_times_alone_are_those_of_programs() -> None:
    entry = an_entry([1.0, 2.0])
    with pytest.raises(InputError, match="different numbers of samples"):
        msgspec.structs.replace(entry, program=None)
    with pytest.raises(InputError, match="different numbers of samples"):
        msgspec.structs.replace(entry, issue_s=(1.0,))


# What the rounds say of a front end


def calibrated(rounds: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    return {"date": "", "front_ends": {"cupy": {"version": "it", "rounds": rounds}}}


def a_run(before: Any, after: Any, *programs: Program) -> Run:
    recipe = planned_programs(7, 1, ("cupy",))[0].recipe
    entries = tuple(Entry(str(k), "", recipe=recipe, program=one) for k, one in enumerate(programs))
    return Run(8, "", 0, 3, samples=before, samples_after=after, entries=entries)


def test_a_front_end_is_calibrated_by_all_rounds_of_a_run() -> None:
    """Those of both calibrations, or of the one there is, and of the programs; what the record keeps is left alone."""
    own = Program("cupy", rounds_s=(1.03, 1.04), others_s={"k": (2.05, 2.06)})
    before, after = (calibrated({CHUNK_ROUND: [s], "k": [2 * s], "i": [s]}) for s in (1.0, 1.02))
    run = a_run(before, after, own, own)
    rounds = {CHUNK_ROUND: (1, 1.02, 1.03, 1.04, 1.03, 1.04), "k": (2, 2.04, 2.05, 2.06, 2.05, 2.06), "i": (1, 1.02)}
    assert to_fit(run) == (calibrated(rounds), calibrated(rounds))
    assert before == calibrated({CHUNK_ROUND: [1.0], "k": [2.0], "i": [1.0]})
    without = msgspec.structs.replace(run, entries=())
    assert to_fit(without) == (before, after)
    cut_short = to_fit(msgspec.structs.replace(run, samples_after=None))
    rounds = {CHUNK_ROUND: (1, 1.03, 1.04, 1.03, 1.04), "k": (2, 2.05, 2.06, 2.05, 2.06), "i": (1,)}
    assert cut_short == (calibrated(rounds), None)


COSTS_S = {"i": 9e-6, "o": 9e-6, "k": 7e-6, "r": 0.5e-6, "w": 0.5e-6, "s": 4e-6, "|": 1e-6}


def rounds_of(rng: np.random.Generator, slowness: float, kinds: Sequence[str], runs: int) -> dict[str, Any]:
    """Calls that add up, within 2 %, of a host that is so many times as slow."""
    each_s = {kind: slowness * sum(COSTS_S[letter] for letter in kind) for kind in kinds}
    return {kind: tuple(s * rng.uniform(1, 1.02, runs)) for kind, s in each_s.items()}


def fitted(
    calibrations: Sequence[float], visits: Sequence[float]
) -> tuple[list[float], dict[str, Sequence[float]], dict[str, Sequence[float]]]:
    """Costs of calls over what they are, and the rounds that they were fitted to and those that there were.

    Of a host so many times as slow during the calibrations, and during the visits to one program after another.
    """
    rng = np.random.default_rng(0)
    before, after = (rounds_of(rng, slowness, KINDS, 25) for slowness in calibrations)
    others = [kind for kind in KINDS if kind != CHUNK_ROUND]
    programs = []
    for k, slowness in enumerate(visits):
        some = [others[(2 * k + n) % len(others)] for n in range(2)]
        found = rounds_of(rng, slowness, [CHUNK_ROUND, *some], 2)
        programs.append(Program("cupy", rounds_s=found.pop(CHUNK_ROUND), others_s=found))
    plain: dict[str, Any] | None = to_fit(a_run(calibrated(before), calibrated(after), *programs))[0]
    assert plain is not None
    rounds: dict[str, Sequence[float]] = plain["front_ends"]["cupy"]["rounds"]
    known = fit_front_end(rounds, "")
    names = {"i": "copy_s", "k": "kernel_s", "s": "synchronize_s", "|": "enter_s"}
    there: dict[str, Sequence[float]] = {
        kind: (*before[kind], *after[kind], *(s for one in programs for s in one.others_s.get(kind, ())))
        for kind in others
    }
    return [getattr(known, name) / COSTS_S[letter] for letter, name in names.items()], rounds, there


@pytest.mark.parametrize("calibrations", [(1.5, 1.5), (1.0, 1.5), (1.5, 1.0)])
@pytest.mark.parametrize("visits", [(1.0, 1.5) * 21, (1.5, 1.0, 1.4) * 14], ids=["half slow", "two thirds slow"])
def test_slow_calibrations_do_not_outvote_the_quiet_visits(
    calibrations: tuple[float, float], visits: tuple[float, ...]
) -> None:
    """42 visits: with 50 runs of each kind in two slow calibrations there are some 8 beside programs, half of them."""
    costs, _, _ = fitted(calibrations, visits)
    assert costs == pytest.approx([1.0] * 4, abs=0.04)


def test_where_nothing_is_disturbed_all_rounds_count() -> None:
    costs, rounds, there = fitted((1.0, 1.0), (1.0,) * 22)
    assert {kind: rounds[kind] for kind in there} == there
    assert costs == pytest.approx([1.0] * 4, abs=0.03)
