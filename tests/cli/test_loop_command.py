"""The command loop: what it prints and writes, and what it says of bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamsim.cli import main
from streamsim.program import Loop, write_schedule

LOOP = ["loop", "--batch", "256", "--sample", "3x224x224:float32", "--step", "45ms", "--device", "a100"]


def test_a_file_says_what_options_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loop.toml"
    file.write_text('batch = 256\nsample = "3x224x224:float32"\nstep = "45ms"\nload = "240ms"\nworkers = 4\n')
    assert main(["loop", str(file), "--device", "a100", "--json"]) == 0
    of_file = json.loads(capsys.readouterr().out)
    assert main([*LOOP, "--load", "240ms", "--workers", "4", "--json"]) == 0
    of_options = json.loads(capsys.readouterr().out)
    assert of_file["loops"] == of_options["loops"]
    assert main(["loop", str(file), "--device", "a100", "--workers", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loops"][0]["loop"]["workers"] == 8
    assert main(["loop", str(file), "--workers", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loops"][0]["loop"]["workers"] == 0


def test_every_command_reads_the_file_of_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the first change that the command loop names, whose gain whatif gives."""
    file = tmp_path / "loop.toml"
    file.write_text('batch = 256\nbatch_bytes = "154MB"\nstep = "45ms"\nload = "240ms"\nworkers = 4\n')

    def said(command: str, *options: str) -> Any:
        assert main([command, str(file), "--device", "a100", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    first, explained, predicted = said("loop")["first"], said("explain"), said("predict")
    assert said("best") == said("loop")
    assert first == explained["first"]
    assert predicted["makespan_s"] == explained["makespan_s"]
    assert main(["predict", str(file), "--device", "a100,h200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["makespan_s"] == predicted["makespan_s"]
    changed = said("whatif", *first["options"])
    assert changed["together"]["gain"] == pytest.approx(first["gain"])
    assert changed["before"]["makespan_s"] == pytest.approx(said("loop")["takes_s"])
    assert main(["code", str(file), "--as", "pytorch", "-o", str(tmp_path / "code.py")]) == 0
    compile((tmp_path / "code.py").read_text(), "code.py", "exec")
    assert "num_workers=4" in (tmp_path / "code.py").read_text()


@pytest.mark.parametrize(
    "more", [[], ["--pinned", "--non-blocking"], ["--item"], ["--load", "240ms", "--workers", "4"]]
)
def test_the_program_is_python_with_the_loaders_arguments(more: list[str], tmp_path: Path) -> None:
    path = tmp_path / "out.py"
    assert main([*LOOP, *more, "-o", str(path)]) == 0
    text = path.read_text()
    compile(text, str(path), "exec")
    assert "DataLoader(" in text
    assert f"num_workers={6 if '--load' in more else 0}" in text


@pytest.mark.parametrize(
    "fields", [{}, {"load_s": 0.1}, {"load_s": 0.01, "reads_loss": True}, {"is_pinned": True, "load_s": 0.1}]
)
def test_a_recorded_loop_is_told_what_explain_and_whatif_say(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = Loop(batch=256, batch_bytes=154_000_000, step_s=45e-3, **fields)
    path = tmp_path / "program.json"
    write_schedule(loop.schedule(8, 0.0), path)

    def said(command: str, *options: str) -> Any:
        assert main([command, str(path), "--device", "a100:pytorch", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    first = said("loop")["first"]
    assert first == said("explain")["first"]
    assert first["gain"] > 1.03
    assert ("--workers" in first["options"]) == (loop.load_s == 0.1)
    assert said("whatif", "--independent", *first["options"])["together"]["gain"] == pytest.approx(first["gain"])
