"""No control character of any file reaches the terminal or a pipe: names are text, whatever they hold.

An ESC sequence in a name could write the clipboard, move the cursor over an answer or rename the window; a mark of
direction could show a number backwards; ``=`` at the start of a cell of CSV is a formula where a spreadsheet opens it.
"""

import contextlib
import io
import json
from pathlib import Path

import msgspec
import pytest
from effort import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made_recordings import kernel, kineto, pipeline, span

from streamsim import program
from streamsim.cli import main
from streamsim.device import load_device
from streamsim.errors import FORMULA, from_cell, printable, to_cell
from streamsim.files import write_toml

CLIPBOARD = "\x1b]52;c;aGk=\x07"  # an OSC 52 sequence
HOSTILE = [f"{CLIPBOARD}\x1b[2J\x9b31m", "a\rb\nc\td\x00\x08\x7f\u202egnp.exe", "[red]a[/red][/]", "=1+1"]
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
    write_toml(msgspec.structs.replace(card, name=name, description=name, link=name, sources=known), "card.toml")
    kernels = (program.WorkloadKernel(name, duration_s=20e-6),)
    write_toml(program.Workload(1 << 16, (4,), (4,), kernels), "workload.toml")
    layer = "".join(name.split(",")).strip() or "layer"
    write_toml(program.Layers(tuple(program.Layer(1 << 20, kernels, f"{layer}{n}") for n in range(3))), "layers.toml")
    buffers = program.Buffer(name, 1 << 20, "device"), program.Buffer(f"{name}h", 1 << 20, "pageable")
    there, here = program.Region(name, 0, 1 << 20), program.Region(f"{name}h", 0, 1 << 20)
    kernel_op = program.Kernel(2, name, duration_s=20e-6, reads=(there,), writes=(there,))
    ops = (program.Copy("h2d", 1 << 20, 1, here, there), kernel_op, program.Synchronize()) * 2
    program.write_schedule(program.Schedule(ops, ("non-blocking",) * 2, name=name, buffers=buffers), "schedule.json")
    events = [*pipeline(), span("user_annotation", name, 0, 90), kernel(300, 30, 10, name=name)]
    events.append({"ph": "M", "name": "process_name", "pid": 420, "tid": 421, "args": {"name": name}})
    properties = [{"id": 0, "name": name, "totalGlobalMem": 1 << 30, "numSms": 4}]
    Path("trace.json").write_text(kineto(*events, deviceProperties=properties))
    Path("broken.toml").write_text(f"{json.dumps(name, ensure_ascii=True)} = 1\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / CLIPBOARD).mkdir()  # so is what messages name
    monkeypatch.chdir(tmp_path / CLIPBOARD)


def said(*command: str) -> str:
    """All that a command prints, on stdout and stderr."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(list(command))
    assert code in (0, 1, 2), f"{command}: {out.getvalue()}"
    return out.getvalue()


def unsafe(text: str) -> str:
    return "".join(sorted({c for c in text if not c.isprintable() and c != "\n"}))


@settings(examples(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(HOSTILE) | texts.filter(str.strip))
@example(HOSTILE[0])
@example(HOSTILE[1])
def test_no_control_character_of_a_file_is_printed(name: str) -> None:
    """The folder has a hostile name too, where messages name it."""
    files(name)
    for command in TABLES:
        assert not unsafe(said(*command)), command
    shown = "".join(said("predict", "schedule.json", "--device", "card.toml").split())
    assert "".join(printable(name).split())[:4] in shown


# CSV


@given(names)
def test_a_cell_is_neither_a_formula_nor_a_control_character_and_is_read_back(name: str) -> None:
    cell = to_cell(name)
    assert isinstance(cell, str)
    assert not unsafe(cell)
    assert not cell.startswith(FORMULA[:-1])
    assert from_cell(cell) == printable(name)
    assert [to_cell(value) for value in (None, -1, -0.5, True)] == [None, -1, -0.5, True]
