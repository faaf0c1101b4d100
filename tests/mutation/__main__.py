"""Mutants of the code, and whether the tests notice: ``cd tests; python -m mutation``.

What is mutated, how often and which tests try it stands in pyproject.toml (``tool.mutation``). cosmic-ray finds the
mutations, makes a mutant, runs its tests and keeps a session, which its own commands read (``cr-report
--surviving-only --show-diff``) and with which a run that was stopped goes on. What it does not do is here: a draw, of
so many from a seed; two stages of tests by module, in a copy of the project; operators that broke things by hand; and a
table by module less the survivors that were judged to be the same program, ``tests/mutation/equivalent.toml``. Exit
code 1 where there are others.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome
from mutation.report import Trial, change, each, holes, read_judged, table
from mutation.sample import ROOT, Settings, draw, read_settings
from mutation.trials import copy_of, killer, stages_of, try_mutant

if TYPE_CHECKING:
    from cosmic_ray.work_item import WorkItem

SESSION = ROOT / "build" / "mutants.sqlite"
MEMORY_BYTES = 8 << 30  # of addresses; a mutant may ask for more and more


def main() -> int:
    """Draw, try what has not been tried, and say what came of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings = read_settings()
    modules = dict.fromkeys(group.module for group in settings.groups)
    parser.add_argument("--mutants", type=int, default=settings.mutants)
    parser.add_argument("--seed", type=int, default=settings.seed)
    parser.add_argument("--module", action="append", choices=modules, help="only of this module; repeatable")
    parser.add_argument("--session", type=Path, default=SESSION, help="one file does for several runs at once")
    parser.add_argument("--near", action="store_true", help="only the near tests: of what survives --again tries all")
    parser.add_argument("--again", action="store_true", help="try the holes once more")
    parser.add_argument("--list", action="store_true", help="try none; say what is known")
    asked = parser.parse_args()
    settings = msgspec.structs.replace(settings, mutants=asked.mutants, seed=asked.seed)
    if asked.near:
        groups = tuple(msgspec.structs.replace(group, wide=()) for group in settings.groups)
        settings = msgspec.structs.replace(settings, groups=groups)
    drawn = draw(settings, asked.module or list(modules))
    asked.session.parent.mkdir(parents=True, exist_ok=True)
    judged = read_judged()
    with use_db(asked.session.absolute()) as session:
        there = {item.job_id for item in session.work_items}
        session.add_work_items(item for item in drawn if item.job_id not in there)
        if not asked.list:
            known = {trial.item.job_id for trial in trials_of(settings, drawn, session)}
            again = {trial.item.job_id for trial in holes(trials_of(settings, drawn, session), judged) if asked.again}
            run(settings, [item for item in drawn if item.job_id not in known - again], session)
        trials = trials_of(settings, drawn, session)
    print(f"\n{table(trials, judged)}\n\n{each(trials, judged)}")
    return 1 if holes(trials, judged) else 0


def trials_of(settings: Settings, drawn: Sequence[WorkItem], session: WorkDB) -> list[Trial]:
    """What is known of the mutants that were drawn."""
    known = dict(session.results)
    return [Trial(settings.group_of(item).module, item, known[item.job_id]) for item in drawn if item.job_id in known]


def run(settings: Settings, items: Sequence[WorkItem], session: WorkDB) -> None:
    """Try mutants one after another, and write down what comes of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with copy_of():
        groups = dict.fromkeys(map(settings.group_of, items))
        stages = {group: stages_of(group, settings.limit_s, settings.deselected) for group in groups}
        for number, item in enumerate(items, 1):
            began = time.monotonic()
            result = try_mutant(item, stages[settings.group_of(item)])
            if result.test_outcome in (None, TestOutcome.INCOMPETENT):
                sys.exit(f"{item}: {result.output}")
            session.set_result(item.job_id, result)
            (way,), (before, after) = item.mutations, change(result.diff)
            said = f"{result.test_outcome} {killer(result.output)}" if result.is_killed else "SURVIVED"
            place = f"{item.job_id} {way.module_path}:{way.start_pos[0]}"
            print(
                f"{number}/{len(items)} {time.monotonic() - began:.0f} s {place}: {before} -> {after}: {said}",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
