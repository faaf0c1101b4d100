"""What came of the mutants, for a page: a table by module, and the survivors one by one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from cosmic_ray.work_item import TestOutcome

if TYPE_CHECKING:
    from cosmic_ray.work_item import WorkItem, WorkResult

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


class Trial(NamedTuple):
    """What came of a mutant of a module."""

    module: str
    item: WorkItem
    result: WorkResult

    @property
    def survived(self) -> bool:
        """Whether no test noticed."""
        return bool(self.result.test_outcome == TestOutcome.SURVIVED)


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that does what the code does, and why; ``before`` and ``after``: the lines that differ, as one."""

    file: str
    before: str
    after: str
    why: str


Judged = dict[tuple[str, str, str], Equivalent]


def read_judged(path: Path = EQUIVALENT) -> Judged:
    """The mutants that were judged equivalent."""
    found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, list[Equivalent]])
    return {(one.file, one.before, one.after): one for one in found.get("mutants", [])}


def change(diff: str) -> tuple[str, str]:
    """The lines that differ, before and after, each as one."""
    lines = diff.splitlines()[3:]  # behind cosmic-ray's title and the two names
    return _joined(lines, "-"), _joined(lines, "+")


def _joined(lines: Iterable[str], sign: str) -> str:
    return " ".join(" ".join(line[1:] for line in lines if line.startswith(sign)).split())


def judgement_of(trial: Trial, judged: Judged) -> Equivalent | None:
    """That of a mutant, if it was judged equivalent."""
    return judged.get((str(trial.item.mutations[0].module_path), *change(trial.result.diff)))


def holes(trials: Iterable[Trial], judged: Judged) -> list[Trial]:
    """The mutants that survived and are not judged equivalent."""
    return [trial for trial in trials if trial.survived and judgement_of(trial, judged) is None]


def table(trials: Sequence[Trial], judged: Judged) -> str:
    """By module: how many were tried, killed and survived, and of those not equivalent the share killed."""
    rows = [
        "| module | tried | killed | equivalent | survived | killed of those not equivalent |",
        "|---|---|---|---|---|---|",
    ]
    for module in (*dict.fromkeys(trial.module for trial in trials), "all"):
        own = [trial for trial in trials if module in ("all", trial.module)]
        survived, killed = len(holes(own, judged)), sum(not trial.survived for trial in own)
        share = f"{killed / (killed + survived):.1%}".replace("%", " %") if killed + survived else ""
        rows.append(f"| {module} | {len(own)} | {killed} | {len(own) - killed - survived} | {survived} | {share} |")
    return "\n".join(rows)


def each(trials: Iterable[Trial], judged: Judged) -> str:
    """A row for each survivor: where it is, what it does, and why that is equivalent."""
    rows = ["| where | was | became | why that is equivalent |", "|---|---|---|---|"]
    for trial in trials:
        if not trial.survived:
            continue
        (way,), (before, after) = trial.item.mutations, change(trial.result.diff)
        judgement = judgement_of(trial, judged)
        why = "**a hole**" if judgement is None else judgement.why
        rows.append(f"| `{way.module_path}` {way.definition_name or ''} | `{before}` | `{after}` | {why} |")
    return "\n".join(rows)
