"""A mutant's trial: cosmic-ray runs the tests of its module in a copy of the project, the near ones first."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome
from coverage import CoverageData
from mutation.sample import ROOT, Group

if TYPE_CHECKING:
    from cosmic_ray.work_item import MutationSpec, WorkItem, WorkResult

NEAR, WIDE = "mutants", "mutants-wide"  # profiles of hypothesis: tests/conftest.py
SLOWER, LONGEST_S = 3, 900  # than where nothing is mutated; the machine may be busy
LEFT_OUT = (".git", ".venv*", "build", "dist", "__pycache__", ".hypothesis")
WRITING = ("env", "-u", "PYTHONDONTWRITEBYTECODE")  # compiled once; of a mutant nothing is kept, as cosmic-ray has it
TIMEOUT = "timeout"  # what cosmic-ray says in place of an output


Reached = dict[str, dict[int, list[str]]]  # by file and line of it the tests that run it


class Stage(NamedTuple):
    """Tests to run and what they may take; ``reached``: which of them are worth it, where that is known."""

    words: list[str]
    tests: Sequence[str]
    limit_s: float
    reached: Reached

    def command(self, way: MutationSpec) -> str:
        """What tries a mutant: the tests that run its function, those first that run little beside it."""
        return shlex.join([*self.words, *(self._worth_it(way) or self.tests)])

    def _worth_it(self, way: MutationSpec) -> list[str]:
        lines = self.reached.get(str(way.module_path), {})
        tests = {test for line in body_around(way) for test in lines.get(line, ())}
        much = Counter(test for file in self.reached.values() for found in file.values() for test in found)
        return sorted(tests, key=lambda test: (much[test], test))


def body_around(way: MutationSpec) -> range:
    """The lines of the innermost function in which a mutation is; none where it is in no body of one."""
    line = way.start_pos[0]
    functions = (
        node
        for node in ast.walk(ast.parse(way.module_path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0)
    )
    innermost = max(functions, key=lambda node: node.lineno, default=None)
    return range(0) if innermost is None else range(innermost.body[0].lineno, (innermost.end_lineno or 0) + 1)


@contextmanager
def copy_of(root: Path = ROOT) -> Iterator[Path]:
    """A copy of the project, in which one is meanwhile."""
    with TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name) / "project"
        shutil.copytree(root, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        with chdir(folder):
            yield folder


def python_here() -> list[str]:
    """A Python that imports the packages of this folder and not what is installed, which no mutant changes."""
    names = (Path(".ci/names").absolute(), Path.cwd())  # validate/ by the name by which it is imported
    return ["env", f"PYTHONPATH={os.pathsep.join(map(str, names))}", "PYTHONHASHSEED=0", sys.executable]


def stages_of(group: Group, least_s: float, deselected: Sequence[str] = ()) -> list[Stage]:
    """The near tests and the wide ones, and what they take where nothing is mutated; exits where they fail there."""
    stages = []
    for profile, tests in ((NEAR, group.near), (WIDE, group.wide)):
        if not tests:
            continue
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--hypothesis-profile={profile}"]
        words = [*python_here(), "-m", "pytest", *options, *(f"--deselect={test}" for test in deselected)]
        seen = ["--cov", "--cov-context=test", "--cov-report="] if profile == NEAR else []
        began = time.monotonic()
        outcome, output = run_tests(shlex.join([*WRITING, *words, *seen, *tests]), LONGEST_S)
        if outcome != TestOutcome.SURVIVED:
            sys.exit(f"{killer(output) or output}: fails where nothing is mutated")
        limit_s = max(least_s, SLOWER * (time.monotonic() - began))
        stages.append(Stage(words, tests, limit_s, reached_by(group.files) if seen else {}))
    return stages


def reached_by(files: Sequence[str]) -> Reached:
    """What pytest-cov has just seen of some files; of what runs before a test, all of its file, which may share it."""
    data = CoverageData()
    data.read()
    seen = {Path(name).resolve(): data.contexts_by_lineno(name) for name in data.measured_files()}
    return {
        file: {
            line: sorted({_tests_of(context) for context in contexts if context}) for line, contexts in lines.items()
        }
        for file in files
        if (lines := seen.get(Path(file).resolve()))
    }


def _tests_of(context: str) -> str:
    test, _, phase = context.partition("|")
    return test if phase == "run" else test.partition("::")[0]


def try_mutant(item: WorkItem, stages: Sequence[Stage]) -> WorkResult:
    """One stage after another, until a test notices."""
    for stage in stages:
        result = mutate_and_test(item.mutations, stage.command(item.mutations[0]), stage.limit_s)
        if result.test_outcome != TestOutcome.SURVIVED:
            break
    return result


def killer(output: str) -> str:
    """The test that noticed, by what pytest said; "timeout" where none did in time."""
    if output == TIMEOUT:
        return TIMEOUT
    return next((line.split()[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))), "")
