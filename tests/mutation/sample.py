"""Which mutants are tried: as many as asked for, drawn from a seed, at places all over the modules.

cosmic-ray finds what can be done to the code. It makes eleven mutants of every ``+`` and one of every ``and``, so the
draw is of a place first and then of one of its mutants; no place comes twice. Left out is what says nothing of what a
program does: annotations, what stands under ``if TYPE_CHECKING``, and ``strict=`` of a ``zip``.
"""

from __future__ import annotations

import ast
import hashlib
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import WorkItem
from mutation.operators import register

if TYPE_CHECKING:
    from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parents[2]

Place = tuple[tuple[int, int], tuple[int, int]]  # (line, column) of its begin and its end


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of a module, as paths from the root, and the tests that try their mutants.

    A mutant that the tests of ``near`` let live is tried by those of ``wide``.
    """

    module: str
    files: tuple[str, ...]
    near: tuple[str, ...]
    wide: tuple[str, ...]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``tool.mutation`` of pyproject.toml.

    ``limit_s``: what the tests of a mutant may take at least. ``deselected``: tests that may fail where the machine is
    busy, whatever the code does.
    """

    seed: int
    mutants: int
    limit_s: float
    deselected: tuple[str, ...]
    groups: tuple[Group, ...]

    def group_of(self, item: WorkItem) -> Group:
        """The group whose file a mutant is of."""
        return next(group for group in self.groups if str(item.mutations[0].module_path) in group.files)


def read_settings(root: Path = ROOT) -> Settings:
    """What the project asks for."""
    table = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutation"]
    return msgspec.convert(table, Settings)


def draw(settings: Settings, modules: Sequence[str] = (), root: Path = ROOT) -> list[WorkItem]:
    """The mutants of a seed: to each module by its lines, module by module; only those of some ``modules``, if any.

    A job's id names a mutant in any draw.
    """
    register()
    files: dict[str, list[str]] = defaultdict(list)
    for group in settings.groups:
        files[group.module] += group.files
    found: list[WorkItem] = []
    with chdir(root):
        lines = {module: sum(len(_text(file).splitlines()) for file in own) for module, own in files.items()}
        for module, count in shares(lines, settings.mutants).items():
            if module in (modules or files):
                found += _draw_of(files[module], count, Random(f"{settings.seed} {module}"))
    return found


def shares(weights: dict[str, int], total: int) -> dict[str, int]:
    """``total`` whole things by weight; those left over go to the largest remainders."""
    exact = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    found = {name: int(share) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: found[name] - exact[name])[: total - sum(found.values())]:
        found[name] += 1
    return found


def _text(file: str | Path) -> str:
    return Path(file).read_text(encoding="utf-8")


def _draw_of(files: Sequence[str], count: int, random: Random) -> Iterator[WorkItem]:
    places = [ways for file in files for ways in places_of(file)]
    random.shuffle(places)
    for ways in places:
        if not count:
            return
        way = random.choice(ways)
        if mutated := mutant_of(way, _text(way.module_path)):
            name = hashlib.sha256(f"{way.module_path}\n{mutated}".encode()).hexdigest()[:8]
            yield WorkItem.single(name, way)
            count -= 1


def places_of(file: str) -> list[list[MutationSpec]]:
    """What can be done to a file, place by place."""
    session = WorkDB(":memory:", WorkDB.Mode.create)
    init([file], session, {})
    ways = [way for item in session.work_items for way in item.mutations]
    session.close()
    rank = {name: number for number, name in enumerate(operator_names())}
    left_out = list(_left_out(_text(file)))
    found: dict[Place, list[MutationSpec]] = defaultdict(list)
    for way in sorted(ways, key=lambda way: (way.start_pos, way.end_pos, rank[way.operator_name], way.occurrence)):
        if not any(first <= way.start_pos and way.end_pos <= last for first, last in left_out):
            found[way.start_pos, way.end_pos].append(way)
    return list(found.values())


def _left_out(text: str) -> Iterator[Place]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield _place(node)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            yield _place(node)
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            if isinstance(annotation, ast.expr):
                yield _place(annotation)


def _place(node: ast.expr | ast.stmt | ast.keyword) -> Place:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def mutant_of(way: MutationSpec, text: str) -> str:
    """The text of the mutant, or "": what is no Python, or the same program, or what Python itself warns of."""
    mutated: str | None = mutate_code(text, get_operator(way.operator_name)(), way.occurrence)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if mutated is None or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(text)):
                return ""
            compile(mutated, way.module_path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return ""
    return mutated
