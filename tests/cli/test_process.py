"""Exit codes, and what becomes of the output: both programs, whatever their streams are."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from strategies import d2h, h2d, pipeline_of, program

from streamsim.cli import main, predict
from streamsim.device import load_device, write_device
from streamsim.program import Buffer, Region, depth_first, write_schedule
from streamsim_validate.cli import main as validate_main

Program = Callable[[list[str] | None], int]

PIPELINE = ["predict", "--h2d", "64MiB", "--kernel", "0.57ms"]
RECORD = "validate/campaigns/records/races-h200.json.gz"


@pytest.fixture
def racy(tmp_path: Path) -> str:
    """A schedule in which two copies touch the same bytes and nothing orders them."""
    there = Region("d", 0, 8)
    ops = (msgspec.structs.replace(op, device=there) for op in (h2d(1, 8), d2h(2, 8)))
    write_schedule(program(*ops, streams=2, buffers=(Buffer("d", 8, "device"),)), tmp_path / "racy.json")
    return str(tmp_path / "racy.json")


def test_an_error_that_nobody_expected_is_one_line_and_70(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(predict, "predict", broken)
    monkeypatch.delenv("STREAMSIM_TRACEBACK", raising=False)
    assert main(PIPELINE) == 70
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"streamsim: error: unexpected ZeroDivisionError: by\nzero; ")
    assert "STREAMSIM_TRACEBACK=1" in line
    monkeypatch.setenv("STREAMSIM_TRACEBACK", "1")
    assert main(PIPELINE) == 70
    assert 'raise ZeroDivisionError("by' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--kernl", "--kernel"),
        ("--xyzzy", None),
    ],
)
def test_a_mistyped_option_is_told_only_what_is_like_it(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str | None
) -> None:
    """The dashes do not count: all options have them."""
    assert main(["predict", typed, "3"]) == 2
    said = capsys.readouterr().err
    assert typed in said
    named = set(re.findall(r"--[a-z0-9-]+", said)) - {typed, "--help"}
    assert meant in named if meant else not named


@pytest.mark.parametrize(
    "command",
    [
        "predict --h2d 200 MB --kernel 4ms",
        "sweep --h2d 1..4*2 mib",
        "predict --h2d 1MiB --set h2d.bandwidth=51 GB/s",
    ],
)
def test_a_quantity_in_two_words_is_explained(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """The shell makes two arguments of it."""
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"streamsim: error: (\S*[0-9]) ([a-zA-Z/]+): is in two words; write it as one: \1\2", line)


# Completion


def completed(
    program: Program, name: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setenv(f"_{name.upper().replace('-', '_')}_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"{name} {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" "))))
    assert program([]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("predict --device folder/", ["plain,folder/other.toml"]),
        ("sweep --device h200,my", ["plain,h200,my-card.toml"]),
    ],
)
def test_options_with_a_fixed_set_and_device_files_are_completed(
    words: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for file in ("my-card.toml", "folder/other.toml", "my\x1b[2J.toml"):
        write_device(load_device("ideal"), file)
    assert completed(main, "streamsim", words, monkeypatch, capsys) == found


def with_output(monkeypatch: pytest.MonkeyPatch, file: io.TextIOBase, program: Program, arguments: list[str]) -> int:
    monkeypatch.setattr(sys, "stdout", file)
    code = program(arguments)
    file.flush()  # what could not be sent has been dropped
    file.close()
    return code


def nobody_reads() -> io.TextIOBase:
    out, into = os.pipe()
    os.close(out)
    return open(into, "w")


@pytest.mark.fault
def test_a_finding_is_one_though_nobody_reads_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, racy: str, tmp_path: Path
) -> None:
    """``check | head -1`` says by its code what it found, and nothing but what it found."""
    write_schedule(depth_first(pipeline_of(8), 2, 2), tmp_path / "clean.json")
    for form in ([], ["--json"]):
        assert with_output(monkeypatch, nobody_reads(), main, ["check", racy, *form]) == 1
        assert with_output(monkeypatch, nobody_reads(), main, ["check", str(tmp_path / "clean.json"), *form]) == 0
    compare = ["compare", "--worst", "0", "--device", "h200", RECORD]
    assert with_output(monkeypatch, nobody_reads(), validate_main, compare) == 0
    failing = [*compare, "--fail-if", "median > 0.0001%"]
    assert with_output(monkeypatch, nobody_reads(), validate_main, failing) == 1
    assert capsys.readouterr().err.startswith("failed: median")


@pytest.mark.fault
def test_no_room_for_the_output_is_bad_input_and_no_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, racy: str
) -> None:
    for command, arguments in (
        (main, ["check", racy]),
        (validate_main, ["compare", "--worst", "0", "--device", "h200", RECORD]),
    ):
        assert with_output(monkeypatch, open("/dev/full", "w"), command, arguments) == 2  # noqa: SIM115 - there
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("error: [Errno 28] No space left on device")


@pytest.mark.fault
@pytest.mark.parametrize("arguments", [PIPELINE, ["code", *PIPELINE[1:], "--as", "schedule"]])
def test_closed_output_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # what Python makes of >&-
    assert main(arguments) == 0
    assert capfd.readouterr() == ("", "")
    sys.stdout.close()  # what it opened in place of the closed one


INTERRUPTS = """
import importlib, os, signal, sys

class Interrupts:
    def find_spec(name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts)
sys.exit(importlib.import_module(sys.argv[1]).main())
"""


@pytest.mark.fault
@pytest.mark.parametrize("module", ["streamsim.__main__", "streamsim_validate.__main__"])
def test_control_c_while_it_is_loaded_is_no_traceback(module: str) -> None:
    """The same module that the installed programs and ``python -m`` begin with."""
    result = subprocess.run([sys.executable, "-c", INTERRUPTS, module], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
