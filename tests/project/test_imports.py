"""Who may import whom, and what ``import streamsim`` loads."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamsim"
# Folders, from the top down: a room imports only from rooms after its own. What lies beside the folders is for all.
ROOMS = (
    "cli",
    "code",
    "playground",
    "answer",
    "page",
    "report",
    "recorded",
    "diagnosis",
    "search",
    "advice",
    "analysis",
    "transform",
    "races",
    "compiled",
    "model",
    "timeline",
    "lowering",
    "rules",
    "device",
    "program",
    "files",
    "text",
)
FOR_ALL = {"errors", "collector", "displayed"}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """``streamsim.lowering.costs`` -> ``lowering``; ``streamsim.errors`` -> ``errors``."""
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    return ".".join(("streamsim", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, anywhere in it."""
    return imported(nodes_of(path))


def imported(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            found.add(node.module or "")
    return frozenset(found)


def test_every_folder_is_a_room_and_says_what_lives_there() -> None:
    folders = {path.parent.name for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE}
    assert folders == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", *FOR_ALL}
    for path in PACKAGE.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_imports_go_down_only() -> None:
    for path in FILES:
        own = room_of(module_of(path))
        if own not in ("", "__main__"):  # streamsim/__init__.py exports from everywhere
            below = FOR_ALL if own in FOR_ALL else {*FOR_ALL, *ROOMS[ROOMS.index(own) :]}
            for name in imports(path):
                assert not name.startswith("streamsim.") or room_of(name) in below, f"{path} imports {name}"


def test_the_predictor_knows_neither_the_card_nor_the_validator() -> None:
    for path in FILES:
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"cupy", "cupyx", "cuda", "cupti", "streamsim_validate", "validate"}, path
        assert "matplotlib" not in roots or path.name == "pictures.py", path


def test_nothing_read_is_ever_executed() -> None:
    for path in FILES:
        called = {
            node.func.id for node in nodes_of(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec", "compile", "__import__"}, path
        roots = {name.split(".")[0] for name in imports(path)}
        runs = {"subprocess"} if path.name == "playground.py" else set()  # npm and pip, with arguments of its own
        assert roots & {"pickle", "marshal", "shelve", "yaml", "subprocess", "runpy", "ctypes"} == runs, path


QUIETLY = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): "


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


def test_what_is_heavy_is_loaded_when_it_is_used() -> None:
    loaded = loaded_after("import streamsim, streamsim.cli")
    assert not loaded & {"matplotlib", "numba", "cupy", "torch", "distributed", "streamsim.cli.predict"}
    one = "main('predict --h2d 64MiB --kernel 1ms --chunks 64 --streams 4 --json'.split())"
    loaded = loaded_after(f"from streamsim.cli import main\n{QUIETLY}{one}")
    assert "streamsim.model" in loaded
    assert "numba" not in loaded


# The validator


VALIDATOR = ROOT / "validate"
ITS_ROOMS = ("cli", "run", "calibrate", "gpu", "suites", "compare", "records", "progress")  # from the top down
WITHOUT_A_CARD = {"compare", "records"}
OF_A_CARD = {"cupy", "cupyx", "cupti", "cuda"}
ITS_FILES = sorted(path for path in VALIDATOR.rglob("*.py") if "campaigns" not in path.parts)  # which are not packaged


def test_every_file_of_the_validator_is_in_a_room_that_says_what_lives_there() -> None:
    rooms = {path.relative_to(VALIDATOR).with_suffix("").parts[0] for path in ITS_FILES}
    assert rooms == {*ITS_ROOMS, "__init__", "__main__"}
    for path in VALIDATOR.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_validators_imports_go_down_only_and_through_the_door() -> None:
    for path in ITS_FILES:
        own = path.relative_to(VALIDATOR).with_suffix("").parts[0]
        below = set(ITS_ROOMS[ITS_ROOMS.index(own) :] if own in ITS_ROOMS else ITS_ROOMS)
        for name in imports(path):
            if name.startswith("streamsim_validate."):
                assert room_of(name) in (below & WITHOUT_A_CARD if own in WITHOUT_A_CARD else below), f"{path}: {name}"
                assert name == f"streamsim_validate.{own}" or name.count(".") == 1 or room_of(name) == own, path


def test_a_cards_libraries_are_asked_for_in_one_room_and_only_when_they_are_needed() -> None:
    for path in ITS_FILES:
        statements = ast.parse(path.read_text()).body
        outside = (one for one in statements if not isinstance(one, ast.FunctionDef | ast.ClassDef))
        at_once = imported(node for one in outside for node in ast.walk(one))
        found = at_once if "gpu" in path.parts else imports(path)
        assert not {name.split(".")[0] for name in found} & OF_A_CARD, path


def test_comparing_needs_no_card_and_loads_nothing_that_does() -> None:
    """In a process that cannot import a card's libraries."""
    record = str(VALIDATOR / "campaigns" / "records" / "races-h200.json.gz")
    blocked = f"import sys; sys.modules.update(dict.fromkeys({sorted(OF_A_CARD)!r}))"
    command = f"from streamsim_validate.cli import main; main(['compare', {record!r}, '--device', 'h200'])"
    loaded = loaded_after(f"{blocked}\n{QUIETLY}{command}")
    assert "streamsim_validate.compare.comparison" in loaded
    rooms = {room_of(name) for name in loaded if name.startswith("streamsim_validate.")}
    assert rooms <= {*WITHOUT_A_CARD, "cli"}
