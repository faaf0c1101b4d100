"""Who may import whom, and what ``import streamsim`` loads."""

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import streamsim

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamsim"
# Folders, from the top down: a room imports only from rooms after its own. What lies beside the folders is for all.
ROOMS = (
    "cli",
    "code",
    "page",
    "report",
    "recorded",
    "diagnosis",
    "training",
    "search",
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
FOR_ALL = {"errors", "checks", "collector", "arguments", "displayed"}
HEAVY = ("numpy", "simpy", "matplotlib", "rich", "cupy", "msgspec", "click", "numba")
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str:
    """``streamsim.rules.link`` -> ``rules``; ``streamsim.errors`` -> ``errors``."""
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    return ".".join(("streamsim", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path, checking: bool = True) -> frozenset[str]:
    """Every module that a file imports, anywhere in it; ``checking``: also those for type checkers only."""
    skipped: set[ast.AST] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped.update(child for statement in node.body for child in ast.walk(statement))
    found: set[str] = set()
    for node in nodes_of(path):
        if node in skipped and not checking:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return frozenset(found)


def test_every_folder_is_a_room_and_says_what_lives_there() -> None:
    folders = {path.parent.name for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE}
    assert folders == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", *FOR_ALL}
    for path in PACKAGE.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_of(path))
def test_imports_go_down_only(path: Path) -> None:
    own = room_of(module_of(path))
    if own in ("", "__main__"):
        return  # streamsim/__init__.py exports from everywhere, lazily
    below = FOR_ALL if own in FOR_ALL else {*FOR_ALL, *ROOMS[ROOMS.index(own) :]}
    for name in imports(path, checking=False):
        if name.startswith("streamsim."):
            assert room_of(name) in below, f"{own} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_of(path))
def test_the_predictor_knows_neither_the_card_nor_the_validator(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"cupy", "cupyx", "cuda", "cupti", "streamsim_validate", "validate"}
    assert "matplotlib" not in roots or path.name in ("gantt.py", "heatmap.py", "pictures.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_of(path))
def test_nothing_read_is_ever_executed(path: Path) -> None:
    called = {node.func.id for node in nodes_of(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__"}
    roots = {name.split(".")[0] for name in imports(path)}
    runs = {"subprocess"} if path.name == "fetch_pyodide.py" else set()  # npm and pip, with arguments of its own
    assert roots & {"pickle", "marshal", "shelve", "yaml", "subprocess", "runpy", "ctypes"} == runs


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


def test_importing_streamsim_loads_nothing_heavy() -> None:
    assert not loaded_after("import streamsim") & {*HEAVY, "streamsim.model"}
    assert not loaded_after("import streamsim; streamsim.__version__, dir(streamsim)") & set(HEAVY)


def test_a_name_loads_its_own_room_and_not_those_above() -> None:
    loaded = loaded_after("from streamsim import Schedule, depth_first")
    assert "streamsim.program.patterns" in loaded
    assert not loaded & {"numpy", "simpy", "matplotlib", "rich", "click", "streamsim.report"}


def test_predicting_loads_neither_pictures_nor_numpy() -> None:
    loaded = loaded_after("import streamsim.cli, streamsim.report.text")
    assert not loaded & {"numpy", "matplotlib", "streamsim.report.gantt", "streamsim.report.trace", "rich", "cupy"}


def test_every_public_name_is_there_and_known_to_type_checkers() -> None:
    for name in streamsim.__all__:
        assert getattr(streamsim, name) is not None
    assert set(streamsim.__all__) == {*streamsim._HOME, "__version__"}
    assert set(streamsim.__all__) <= set(dir(streamsim))
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    exported = {
        (node.module, alias.name) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for name, home in streamsim._HOME.items():
        assert (f"streamsim.{home}", name) in exported
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        streamsim.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_every_public_name_has_a_line_of_documentation() -> None:
    for name in streamsim._HOME:
        doc = getattr(streamsim, name).__doc__ or ""
        assert doc.splitlines()[0].endswith((".", ":")) or "``" in doc.splitlines()[0], name
