"""No control character of any file reaches the terminal or a pipe: names are text, whatever they hold.

An ESC sequence in a name could write the clipboard, move the cursor over an answer or rename the window; a mark of
direction could show a number backwards; ``=`` at the start of a cell of CSV is a formula where a spreadsheet opens it.
"""

import ast
import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from unicodedata import category

import msgspec
import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from made_recordings import call, copy, kernel, kineto, pipeline, span

import streamsim
import streamsim_validate
from streamsim.cli import main
from streamsim.device import load_device, parse_device, write_device
from streamsim.errors import FORMULA, from_cell, printable, to_cell
from streamsim.program import (
    Buffer,
    Copy,
    Kernel,
    Layer,
    Layers,
    Op,
    Region,
    Schedule,
    Synchronize,
    Workload,
    WorkloadKernel,
    parse_schedule,
    write_layers,
    write_schedule,
    write_workload,
)

CLIPBOARD = "\x1b]52;c;aGk=\x07"  # an OSC 52 sequence
HOSTILE = [
    f"{CLIPBOARD}\x1b[2J\x9b31m",
    "a\rb\nc\td\x00\x08\x7f\u202egnp.exe",
    "[red]a[/red][/]",
    "=1+1",
]
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)  # a file of JSON has no halves
names = st.sampled_from(HOSTILE) | texts
TABLES = (  # of each reader and each way to print
    ("devices", "check", "card.toml"),
    ("predict", "workload.toml", "--chunks", "4", "--streams", "2", "--device", "card.toml"),
    ("explain", "workload.toml", "--chunks", "4", "--streams", "2", "--device", "card.toml"),
    ("explain", "schedule.json", "--device", "card.toml", "--format", "markdown"),
    ("check", "schedule.json"),
    ("whatif", "schedule.json", "--device", "card.toml", "--pin", "--async", "--drop-sync", "--kernel", "*=0.5x"),
    ("best", "--layers", "layers.toml", "--device", "card.toml"),
    ("sweep", "workload.toml", "--chunks", "1,2", "--device", "card.toml", "-o", "out.csv"),
    ("sweep", "workload.toml", "--chunks", "1,2", "--device", "card.toml", "--format", "table"),
    ("explain", "trace.json", "--list"),
    ("devices", "check", "broken.toml"),
)


def files(name: str) -> None:
    """One file of each kind, that has ``name`` wherever a file may have one."""
    Path("out.csv").unlink(missing_ok=True)
    card = load_device("h200")
    known = dict.fromkeys(card.sources, f"assumed: {name}")
    write_device(msgspec.structs.replace(card, name=name, description=name, link=name, sources=known), "card.toml")
    kernels = (WorkloadKernel(name, duration_s=20e-6),)
    write_workload(Workload(1 << 16, (4,), (4,), kernels), "workload.toml")
    layer = "".join(name.split(",")).strip() or "layer"
    write_layers(Layers(tuple(Layer(1 << 20, kernels, f"{layer}{n}") for n in range(3))), "layers.toml")
    buffers = Buffer(name, 1 << 20, "device"), Buffer(f"{name}h", 1 << 20, "pageable")
    there, here = Region(name, 0, 1 << 20), Region(f"{name}h", 0, 1 << 20)
    ops: list[Op] = [
        Copy("h2d", 1 << 20, 1, here, there),
        Kernel(2, name, duration_s=20e-6, reads=(there,), writes=(there,)),
        Copy("d2h", 1 << 20, 1, here, there),
        Synchronize(),
    ]
    write_schedule(Schedule(tuple(ops * 2), ("non-blocking",) * 2, name=name, buffers=buffers), "schedule.json")
    events = [
        *pipeline(),
        span("user_annotation", name, 0, 90),
        span("cpu_op", name, 11, 1),
        call(name, 30, 2, 9),
        kernel(300, 30, 10, name=name),
        copy(name, 400, 30, 11),
        *(
            {"ph": "M", "name": f"{who}_name", "pid": 420, "tid": 421, "args": {"name": name}}
            for who in ("process", "thread")
        ),
    ]
    properties = [{"id": 0, "name": name, "totalGlobalMem": 1 << 30, "numSms": 4}]
    Path("trace.json").write_text(kineto(*events, deviceProperties=properties))
    Path("broken.toml").write_text(f"{json.dumps(name, ensure_ascii=True)} = 1\n")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp(CLIPBOARD))  # so is what messages name
    yield
    os.chdir(before)


def said(*command: str) -> str:
    """All that a command prints, on stdout and stderr."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(list(command))
    assert code in (0, 1, 2), f"{command}: {out.getvalue()}"
    return out.getvalue()


def unsafe(text: str) -> str:
    return "".join(sorted({c for c in text if not c.isprintable() and c != "\n"}))


def cut(name: str) -> str:
    return "".join(name.split())[:4]


@examples(4)
@given(texts.filter(str.strip))
@example(HOSTILE[0])
@example(HOSTILE[1])
@example(HOSTILE[2])
@example(HOSTILE[3])
def test_no_control_character_of_a_file_is_printed(name: str) -> None:
    """The folder has a hostile name too, and so have its files where messages name them."""
    files(name)
    found = {command: unsafe(said(*command)) for command in TABLES}
    assert not any(found.values()), {command: text for command, text in found.items() if text}
    assert cut(printable(name)) in "".join(said("predict", "schedule.json", "--device", "card.toml").split())


@pytest.mark.parametrize("name", HOSTILE)
def test_what_belongs_into_a_file_holds_the_name_and_no_control_character(name: str) -> None:
    files(name)
    profile = said("devices", "show", "card.toml")
    schedule = said("code", "--as", "schedule", "--layers", "layers.toml")
    assert parse_device(profile).name == name
    assert any(isinstance(op, Kernel) and op.name == name for op in parse_schedule(schedule.encode()).ops)
    controls = {c for text in (profile, schedule) for c in text if category(c) == "Cc"}
    assert controls <= {"\n", "\t"}


# CSV


@given(names)
def test_a_cell_is_neither_a_formula_nor_a_control_character_and_is_read_back(name: str) -> None:
    cell = to_cell(name)
    assert isinstance(cell, str)
    assert not unsafe(cell)
    assert not cell.startswith(FORMULA[:-1])
    assert from_cell(cell) == printable(name)
    assert [to_cell(value) for value in (None, -1, -0.5, True)] == [None, -1, -0.5, True]


# One place


def test_commands_print_through_the_one_place_alone() -> None:
    """No ``print``, ``click.echo``, ``Console`` or markup but in the files that make text safe, or print data."""
    homes = {"printing.py", "running.py", "terminal.py"}
    for package in (streamsim, streamsim_validate):
        for path in sorted((Path(str(package.__file__)).parent / "cli").glob("*.py")):
            if path.name not in homes:
                assert not _prints(path), path


def _prints(path: Path) -> list[str]:
    called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    found = [ast.unparse(function) for function in called]
    return [name for name in found if name in ("print", "click.echo", "click.secho", "Console", "rich.print")]
