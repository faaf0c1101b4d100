"""What ``python -m mutation`` needs is there, and it tells mutants that a test notices from those that none does."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

pytest.importorskip("cosmic_ray", reason="of the extra mutation")

from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_item import MutationSpec, WorkerOutcome, WorkItem, WorkResult
from cosmic_ray.work_item import TestOutcome as Outcome  # pytest would take it for a test
from mutation.operators import OURS, register
from mutation.report import Trial, change, each, holes, read_judged, table
from mutation.sample import ROOT, Group, Settings, draw, mutant_of, places_of, read_settings, shares
from mutation.trials import copy_of, killer, python_here, stages_of, try_mutant

MODULES = {"model", "bounds", "check", "search", "compare"}


def test_what_the_settings_name_is_there_and_every_file_stands_once() -> None:
    settings = read_settings()
    groups = settings.groups
    assert {group.module for group in groups} == MODULES
    files = [file for group in groups for file in group.files]
    assert len(files) == len(set(files))
    assert all((ROOT / name).is_file() and name.endswith(".py") for name in files)
    assert all((ROOT / name).exists() for group in groups for name in (*group.near, *group.wide))
    for file, _, name in (test.partition("::") for test in settings.deselected):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_no_file_of_the_modules_is_forgotten() -> None:
    """But for their doors, which hand out names."""
    named = {file for group in read_settings().groups for file in group.files}
    for folder in ("streamsim/model", "validate/compare"):
        there = {f"{folder}/{path.name}" for path in (ROOT / folder).glob("*.py")} - {f"{folder}/__init__.py"}
        assert there <= named


def test_what_was_judged_is_there_still() -> None:
    """Lines of a judgement are those of the file, so that none outlives its reason."""
    for one in read_judged().values():
        assert one.before in " ".join((ROOT / one.file).read_text(encoding="utf-8").split()), one
        assert one.why


# A project of one function


SOURCE = "def least(a, b):\n    while a < b:\n        return a\n    return b\n"
GROUP = Group("tiny", ("tiny.py",), ("near.py",), ("wide.py",))
NEAR = "from tiny import least\n\ndef test_it():\n    assert least(1, 2) == 1\n"
WIDE = "from tiny import least\n\ndef test_it():\n    assert least(2, 1) == 1\n"
PROFILES = (
    "from hypothesis import settings\nfor name in ('mutants', 'mutants-wide'):\n    settings.register_profile(name)\n"
)
FILES = {"tiny.py": SOURCE, "near.py": NEAR, "wide.py": WIDE, "conftest.py": PROFILES}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def a_way(name: str, place: int = 0, file: str = "tiny.py") -> MutationSpec:
    return MutationSpec(file, name, place, (2, 0), (2, 1), definition_name="least")


TRIALS = (
    ("core/ReplaceComparisonOperator_Lt_Gt", "while a > b:", Outcome.KILLED, "near.py::test_it"),
    # The same program: of equals either is the least.
    ("core/ReplaceComparisonOperator_Lt_LtE", "while a <= b:", Outcome.SURVIVED, ""),
    ("ours/DropStatement", "pass", Outcome.KILLED, "timeout"),
)


def test_a_mutant_is_killed_where_a_test_notices(tiny: Path) -> None:
    register()
    with copy_of(tiny) as folder:
        stages = stages_of(GROUP, 60)
        for name, after, outcome, by in TRIALS:
            limited = [stage._replace(limit_s=1) if by == "timeout" else stage for stage in stages]
            result = try_mutant(WorkItem.single("1", a_way(name)), limited)
            assert (result.test_outcome, killer(result.output)) == (outcome, by)
            assert change(result.diff)[1] == after
            assert (folder / "tiny.py").read_text() == SOURCE


def test_tests_that_fail_where_nothing_is_mutated_try_nothing(tiny: Path) -> None:
    with copy_of(tiny) as folder:
        (folder / "tiny.py").write_text("least = max\n")
        with pytest.raises(SystemExit, match=r"near.py::test_it: fails where nothing is mutated"):
            stages_of(GROUP, 60)


def test_the_tests_of_a_copy_read_the_copy() -> None:
    """And not what is installed, which no mutant changes."""
    code = "import streamsim, streamsim_validate as v; print(streamsim.__file__); print(v.__file__)"
    with copy_of() as folder:
        homes = subprocess.run([*python_here(), "-c", code], capture_output=True, text=True, check=True).stdout
        assert homes.splitlines() == [
            f"{folder}/streamsim/__init__.py",
            f"{folder}/.ci/names/streamsim_validate/__init__.py",
        ]


# The draw


def test_shares_are_by_weight_and_add_up() -> None:
    assert shares({"a": 100, "b": 50, "c": 50}, 20) == {"a": 10, "b": 5, "c": 5}
    assert shares({"a": 1, "b": 1, "c": 1}, 500) == {"a": 167, "b": 167, "c": 166}


def test_our_operators_do_what_their_examples_say() -> None:
    for operator in OURS:
        for example in operator.examples():
            made = mutate_code(example.pre_mutation_code, operator(), example.occurrence)
            assert made == example.post_mutation_code


def test_a_seed_draws_the_same_mutants_and_no_place_twice(tiny: Path) -> None:
    settings = Settings(7, 3, 60, (), (GROUP,))
    mutants = draw(settings, root=tiny)
    assert mutants == draw(settings, root=tiny)
    assert len({item.job_id for item in mutants}) == len(mutants) == 3
    assert len({(way.start_pos, way.end_pos) for item in mutants for way in item.mutations}) == 3
    assert mutants != draw(msgspec.structs.replace(settings, seed=8), root=tiny)
    assert all(mutant_of(way, SOURCE) not in ("", SOURCE) for item in mutants for way in item.mutations)


def test_what_says_nothing_of_what_a_program_does_is_left_alone(tmp_path: Path) -> None:
    checked = "if TYPE_CHECKING:\n    x = 1 + 1\n"
    typed = "def f(a: int | str) -> int | None:\n    return zip(a, strict=True)\n"
    (tmp_path / "typed.py").write_text(checked + typed)
    assert places_of(str(tmp_path / "typed.py")) == []
    assert mutant_of(a_way("core/ReplaceComparisonOperator_Eq_Is"), "x = 'a' == y\n") == ""


# What is said of it


def test_survivors_that_are_judged_equivalent_do_not_count_against_the_tests(tmp_path: Path) -> None:
    fates = (Outcome.KILLED, Outcome.KILLED, Outcome.SURVIVED, Outcome.SURVIVED)
    diff = "--- mutation diff ---\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n def f():\n-    x = {}\n+    pass"
    results = [WorkResult(WorkerOutcome.NORMAL, "", fate, diff.format(k)) for k, fate in enumerate(fates)]
    items = [WorkItem.single(str(k), a_way("core/NumberReplacer", k, "m.py")) for k in range(4)]
    trials = [Trial("model", item, result) for item, result in zip(items, results, strict=True)]
    path = tmp_path / "equivalent.toml"
    path.write_text('[[mutants]]\nfile = "m.py"\nbefore = "x = 2"\nafter = "pass"\nwhy = "nothing reads x"\n')
    judged = read_judged(path)
    assert holes(trials, judged) == trials[3:]
    assert table(trials, judged).splitlines()[2:] == [
        "| model | 4 | 2 | 1 | 1 | 66.7 % |",
        "| all | 4 | 2 | 1 | 1 | 66.7 % |",
    ]
    assert each(trials, judged).splitlines()[2:] == [
        "| `m.py` least | `x = 2` | `pass` | nothing reads x |",
        "| `m.py` least | `x = 3` | `pass` | **a hole** |",
    ]
