"""The command: what it prints is what the library says."""

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from made_recordings import export, kineto, pipeline, span
from stamped import figures, printed, unstamped

import streamsim
from streamsim import program
from streamsim.analysis import predict, work_bound
from streamsim.cli import app
from streamsim.device import load_device
from streamsim.files import write_toml
from streamsim.model import simulate
from streamsim.search import Grid
from streamsim_validate.cli import main as validate

PIPELINE = ["predict", "--h2d", "64MiB", "--kernel", "0.57ms", "--d2h", "64MiB"]
LAYERS = program.Layers(
    tuple(
        program.Layer(1 << 26, (program.WorkloadKernel(duration_s=1e-3),), name) for name in ("embedding", "x", "head")
    )
)
WORKLOAD = program.Workload(None, (1 << 26,), (1 << 26,), (program.WorkloadKernel("kernel", 0.57e-3),))


def test_every_result_says_by_which_version_and_profile_it_was_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The digest stands for the numbers: another name leaves it, another number does not."""
    write_toml(msgspec.structs.replace(load_device("h200"), name="mine"), tmp_path / "mine.toml")
    asked = (["--device", "h200"], ["--device", str(tmp_path / "mine.toml")], ["--set", "host.kernel=9us"])
    profiles = [figures(capsys, *PIPELINE, *device)["profile"] for device in asked]
    assert [profile["name"] for profile in profiles] == ["h200", "mine", "h200"]
    same, mine, slower = (profile["digest"] for profile in profiles)
    assert same == mine != slower
    (tmp_path / "plan.json").write_text(printed(capsys, "code", "--as", "schedule", *PIPELINE[1:], "--chunks", "4"))
    plan = str(tmp_path / "plan.json")
    for command in (["predict", plan], ["explain", plan], ["whatif", plan, "--pin"], ["best", plan, "--independent"]):
        unstamped(figures(capsys, *command))
    for command in (["check", plan], ["devices"]):
        assert list(figures(capsys, *command))[:2] == ["schema_version", "streamsim"]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("--order breadth-first --streams 2", {"order": "breadth-first", "streams": 2}),
        ("--order serial", {"order": "serial"}),
        ("--buffers 2 --streams 3", {"buffers": 2, "streams": 3}),
        ("--memory pageable", {"memory": "pageable"}),
        ("--launch graph --streams 4", {"launch": "graph", "streams": 4}),
    ],
)
def test_every_option_reaches_the_pattern(
    capsys: pytest.CaptureFixture[str], options: str, arguments: dict[str, Any]
) -> None:
    said = unstamped(figures(capsys, *PIPELINE, "--chunks", "8", *options.split()))
    schedule = program.build(WORKLOAD, chunks=8, **arguments)
    asked = arguments.get("memory", "pinned"), arguments.get("launch", "live")
    expected = json.loads(json.dumps(predict(schedule, "h200", work_bound(WORKLOAD, "h200", *asked)).to_json()))
    inputs = said.pop("inputs")
    del expected["inputs"]
    assert said == expected
    assert {name: inputs[name] for name in arguments} == arguments
    wanted = printed(capsys, "code", "--as", "schedule", *PIPELINE[1:], "--chunks", "8", *options.split())
    assert program.parse_schedule(wanted.encode()) == schedule


def test_one_schedule_has_one_speed_up_everywhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of predict, a schedule's file, Python, best and sweep, the last two made to look at this configuration only."""
    path, shape = tmp_path / "s.json", ("--chunks", "3", "--streams", "2", "--order", "breadth-first")
    predicted = figures(capsys, *PIPELINE, *shape)
    printed(capsys, "code", "--as", "schedule", *PIPELINE[1:], *shape, "-o", str(path))
    simulated = figures(capsys, "predict", str(path))
    p = predict(program.build(WORKLOAD, "breadth-first", 3, 2), load_device("h200"))
    swept = json.loads(printed(capsys, "sweep", *PIPELINE[1:], *shape, "--json"))
    grid = Grid(chunks=(3,), streams=(2,), order=("breadth-first",))
    best = streamsim.best(WORKLOAD, load_device("h200"), grid).to_json()
    for said in (predicted, simulated, p.to_json(), swept, best | {"speedup": best["best"]["gain"]}):
        assert (said["serial_s"], said["speedup"]) == (p.serial_s, p.speedup)
        assert said.get("serial_program", "unchunked") == "unchunked"
    assert p.serial_s == simulate(program.serial(WORKLOAD), load_device("h200")).makespan_s


def commands(group: click.Command | None = app, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [prefix]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            found += commands(group.get_command(context, name), (*prefix, name))
    return found


@pytest.mark.ci
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_example_in_the_help_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = printed(capsys, *words, "--help")
    assert text.startswith(f"Usage: {' '.join(('streamsim', *words))}")
    assert text == printed(capsys, *words, "-h")
    assert len(text.splitlines()) <= 40
    if "--help-all shows" in text:
        text = printed(capsys, *words, "--help-all")
    examples = [shlex.split(line) for line in text.splitlines() if line.startswith("    streamsim ")]
    assert examples or words[:1] in (("devices",),)
    monkeypatch.chdir(tmp_path)
    if words != ("init",):
        write_toml(WORKLOAD, tmp_path / "workload.toml")
    for name in ("schedule.json", "program.json", "before.json", "after.json"):
        program.write_schedule(program.depth_first(WORKLOAD, 4, 2), tmp_path / name)
    write_toml(LAYERS, tmp_path / "layers.toml")
    write_toml(load_device("ideal"), tmp_path / "my-card.toml")
    (tmp_path / "loop.toml").write_text('batch = 256\nbatch_bytes = "150MB"\nstep = "45ms"\n')
    trace = kineto(*pipeline(), span("user_annotation", "ProfilerStep#3", 5, 100))
    (tmp_path / "trace.json").write_text(trace)
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(trace.encode()))
    export().write(tmp_path / "report.sqlite")
    for example in examples:
        if words == ("playground",):  # its files have to be fetched: tests/page/test_playground.py makes one of others
            continue
        printed(capsys, *example[1:])


def test_what_stands_twice_is_an_option_and_no_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that looks like an option, help, and the options of a program that is captured."""
    monkeypatch.chdir(tmp_path)
    printed(capsys, "predict", "--h2d", "4KiB", "--trace", "--chunks", "--chunks", "4")
    assert (tmp_path / "--chunks").exists()
    printed(capsys, "predict", "--chunks", "4", "--chunks", "8", "--help")
    (tmp_path / "program.py").write_text("print()")
    assert validate(["capture", "-o", "a.json", "python", "program.py", "-o", "x", "-o", "y"]) != 0
    assert "given twice" not in capsys.readouterr().err
