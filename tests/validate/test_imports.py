"""Who may import whom in the validator, and that what needs no card is whole where there is none."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import streamsim_validate

PACKAGE = Path(streamsim_validate.__file__).parent
# Folders, from the top down: a room imports only from rooms after its own, and those by what they hand out.
ON_A_CARD = ("run", "calibrate", "gpu", "suites")
WITHOUT = ("compare", "records")
ROOMS = ("cli", *ON_A_CARD, *WITHOUT)
FILES_ALONE = {"suites"}
FOR_ALL = {"progress"}
OF_A_CARD = {"cupy", "cupyx", "cupti", "cuda"}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "campaigns" not in path.parts)  # which are not packaged


def module_of(path: Path) -> str:
    return ".".join(("streamsim_validate", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def room_of(module: str) -> str:
    """``streamsim_validate.gpu.card`` -> ``gpu``; "" for what lies beside the rooms' folders."""
    room = [*module.split("."), ""][1]
    return room if room in ROOMS or room in FOR_ALL else ""


def imported(tree: ast.AST) -> set[str]:
    """Every module that a file imports, anywhere in it, for type checkers too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found.add(node.module or "")
    return found


def of_file(path: Path) -> set[str]:
    return imported(ast.parse(path.read_text()))


def test_every_folder_is_a_room_and_says_what_lives_there() -> None:
    folders = {path.parent.name for path in FILES if path.name == "__init__.py" and path.parent != PACKAGE}
    assert folders == {*ROOMS} - FILES_ALONE
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", *FILES_ALONE, *FOR_ALL}
    for path in PACKAGE.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_down_only_and_through_the_door(path: Path) -> None:
    own = room_of(module_of(path))
    if not own:
        return
    below = FOR_ALL if own in FOR_ALL else {*FOR_ALL, *ROOMS[ROOMS.index(own) :]}
    for name in of_file(path):
        if name.startswith("streamsim_validate."):
            room = room_of(name)
            assert room in below, f"{own} imports {name}"
            assert room == own or name == f"streamsim_validate.{room}", f"{own} imports {name}: not by its door"


@pytest.mark.parametrize("path", [path for path in FILES if room_of(module_of(path)) in WITHOUT], ids=module_of)
def test_records_and_comparisons_know_nothing_of_a_card(path: Path) -> None:
    found = of_file(path)
    assert not {name.split(".")[0] for name in found} & OF_A_CARD
    assert {room_of(name) for name in found if name.startswith("streamsim_validate")} <= set(WITHOUT)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_cards_libraries_are_asked_for_in_one_room_and_only_when_they_are_needed(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if room_of(module_of(path)) != "gpu":
        assert not {name.split(".")[0] for name in imported(tree)} & OF_A_CARD
    for statement in tree.body:
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            assert not {name.split(".")[0] for name in imported(statement)} & OF_A_CARD


def loaded_after(statement: str) -> set[str]:
    """The modules that are loaded after ``statement``, in a process that cannot import a card's libraries."""
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({sorted(OF_A_CARD)!r}))"
    shown = "import json\nprint(json.dumps([name for name, module in sys.modules.items() if module]))"
    code = f"{blocked}\n{statement}\n{shown}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import streamsim_validate.compare, streamsim_validate.compare.tables",
        "import streamsim_validate.records",
        "from streamsim_validate.cli import main; assert main(['compare', '--worst', '1', 'RECORD']) == 0",
    ],
)
def test_comparing_needs_no_card_and_loads_nothing_that_does(statement: str) -> None:
    record = Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "races-h200.json.gz"
    loaded = loaded_after(statement.replace("'RECORD'", f"'--device', 'h200', {str(record)!r}"))
    assert "streamsim_validate.records.record" in loaded
    assert not {room_of(name) for name in loaded if name.startswith("streamsim_validate.")} & set(ON_A_CARD)
