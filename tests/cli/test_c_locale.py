"""A terminal that knows only ASCII, and a device, files and pictures called 卡."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streamsim.device import load_device, write_device
from streamsim.program import Workload, WorkloadKernel, depth_first, write_schedule
from streamsim.text import as_unicode, one_line

NAME = "卡"
ESCAPED = r"\u5361"
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm", "COLUMNS": "100"}
WORKLOAD = Workload(1 << 16, (4,), (4,), (WorkloadKernel(duration_s=20e-6),))
SIZES = ("--h2d", "256KiB", "--kernel", "20us", "--d2h", "256KiB")
PICTURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>"}
FORMS = ("png", "svg", "pdf", "html")
SWEEP = ("sweep", *SIZES, "--chunks", "1..3", "--device", f"{NAME}.toml,ideal")
COMMANDS = {
    "predict": ("predict", *SIZES, "--chunks", "2", "--device", f"{NAME}.toml", "--explain"),
    "simulate": ("simulate", f"{NAME}.json", "--device", f"{NAME}.toml"),
    "explain": ("explain", f"{NAME}.json", "--device", f"{NAME}.toml"),
    "sweep": (*SWEEP, "-o", f"{NAME}.csv"),
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_device(msgspec.structs.replace(load_device("ideal"), name=NAME), tmp_path / f"{NAME}.toml")
    write_schedule(depth_first(WORKLOAD, 2, 2), tmp_path / f"{NAME}.json")
    return tmp_path


ONE_BY_ONE = """
import sys
from streamsim.cli import main

commands = " ".join(sys.argv[1:]).split(" then ")
sys.exit(max(main(command.split(" ")) for command in commands if not print(end="\\f", flush=True)))
"""


def in_a_terminal(folder: Path, *commands: tuple[str, ...]) -> tuple[int, list[bytes]]:
    """The largest exit code, and what was on the screen of an ASCII terminal for each command, in one process."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONIOENCODING", "PYTHONPATH")} | PLAIN
    words = " then ".join(" ".join(command) for command in commands).split(" ")
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ONE_BY_ONE, *words], cwd=folder, env=environment, stdout=its, stderr=its
    ) as process:
        os.close(its)
        screen = b""
        while data := _read(ours):
            screen += data
    os.close(ours)
    return process.returncode, screen.split(b"\f")[1:]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux, when nobody has the other side any more
        return b""


def test_what_plots_draws_and_says_the_name_escaped(here: Path) -> None:
    pictures = [here / f"{NAME}-{command}.{form}" for command, form in zip(COMMANDS, FORMS, strict=True)]
    commands = [
        (*COMMANDS[command], "--page" if file.suffix == ".html" else "--plot", file.name)
        for command, file in zip(COMMANDS, pictures, strict=True)
    ]
    code, screens = in_a_terminal(here, *commands)
    assert code == 0, screens
    for screen, picture in zip(screens, pictures, strict=True):
        assert screen.isascii()
        assert b"Traceback" not in screen
        assert ESCAPED.encode() in screen
        assert rb"\udc" not in screen  # half a letter is no letter
        assert picture.read_bytes().startswith(PICTURES[picture.suffix])


def test_the_names_of_files_are_text_in_json(here: Path) -> None:
    code, screens = in_a_terminal(here, *((*COMMANDS[name], "--json") for name in ("predict", "simulate", "explain")))
    assert code == 0, screens
    for screen in screens:
        text = screen.decode()
        text = text[text.index("{") :]  # errors, beside it on the screen, may say that the model is compiled
        found, end = json.JSONDecoder().raw_decode(text)
        assert msgspec.json.decode(text[:end])["inputs"]["device"] == found["inputs"]["device"] == f"{NAME}.toml"


def test_a_complaint_has_the_name_of_the_file(here: Path) -> None:
    code, (screen,) = in_a_terminal(here, ("simulate", "nö.json"))
    assert code == 2
    assert screen.startswith(rb"streamsim: error: n\xf6.json: cannot read it: no such file or directory; ")


def test_what_is_no_utf_8_either_is_escaped() -> None:
    assert as_unicode("a\udce9b") == r"a\xe9b"
    assert as_unicode("a\ud800b") == "a\ud800b"
    assert one_line("a\ud800b\udce5\udc8d\udca1") == r"a\ud800b\udce5\udc8d\udca1"
