"""The ``tune`` command: what it says, and what it says to bad input; on an emulated card, or on none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_arrays import CALL_S, ROUND_S, installed
from fake_cuda import Launch, fake_gpu

from streamsim_validate.cli import main
from streamsim_validate.cli import tune as cli
from streamsim_validate.gpu import Gpu
from streamsim_validate.records import journal_path, read_record

SMALL = ["--h2d", "64KiB", "--kernel", "20us", "--d2h", "64KiB", "--max-chunks", "4", "--max-streams", "2"]
PROGRAMS = 1 + 3 * 2 * 2  # one chunk, and 2, 3 or 4 of them on one or two streams in two orders
QUICK = [*SMALL, "--budget", "3", "--repeats", "2", "-o", "t.json.gz"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def open_on(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """The command finds an emulated card."""

    @contextmanager
    def opened(_number: int) -> Iterator[Gpu]:
        yield fake_gpu(**more)[0]

    monkeypatch.setattr(cli, "open_gpu", opened)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    open_on(monkeypatch)


@pytest.mark.usefixtures("card")
def test_the_json_is_one_object_of_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *QUICK, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert (found["device"], found["record"], found["candidates"]) == ("h200", "t.json.gz", PROGRAMS)
    assert len(found["tried"]) == 3
    first = found["tried"][0]
    assert {name: first[name] for name in found["picked"]} == found["picked"]
    assert min(tried["predicted_s"] for tried in found["tried"]) == first["predicted_s"]
    assert found["gain_low"] <= found["gain"] <= found["gain_high"]
    assert found["gain"] == pytest.approx(found["picked_s"] / found["found_s"])
    assert found["is_sure"] is (found["gain_low"] > 1)
    assert 0 <= found["promise"] < 1
    assert found["left_out"] == {}
    assert found["workload"]["inputs"] == [65536]


def test_interrupted_it_says_how_to_go_on_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presses = iter([False, True])

    def press(launch: Launch) -> None:
        if launch.elements < 1 << 16 and next(presses, False):
            raise KeyboardInterrupt

    open_on(monkeypatch, kernels={"streamsim_spin": press})
    assert main(["tune", *QUICK]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert journal_path("t.json.gz").exists()
    open_on(monkeypatch)
    assert main(["tune", *QUICK]) == 0
    assert "going on from t.json.gz.journal" in capsys.readouterr().err


# Programs in a language


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("language", ["cupy", "pytorch"])
def test_programs_in_a_language_are_measured_and_their_calls_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], language: str
) -> None:
    """The stand-in's 16 Ki floats take 16.4 us a round and a call: one round, since two take more than 20 us."""
    installed(monkeypatch)
    assert main(["tune", *QUICK, "--as", language, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["device"] == f"h200:{language}"
    assert found["kernels"]["work"] == 1
    assert found["kernels"]["said_s"] == pytest.approx(20e-6, rel=0.2)
    assert found["kernels"]["measured_s"] == pytest.approx((1 << 14) * ROUND_S + CALL_S, rel=1e-3)
    assert found["workload"]["kernels"][0]["duration_s"] < 20e-6
    assert read_record("t.json.gz").suite == f"tune as {language}"
    assert main(["tune", *QUICK[:-1], "other.json.gz", "--as", language, "--front-end", "calls"]) == 0
    assert "A stand-in of 1 round takes 17.38 us over all the work, where 20 us was said" in capsys.readouterr().out


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("more", "suite", "device"),
    [
        ([], "tune as pytorch", "h200:pytorch"),
        (["--as", "calls"], "tune", "h200"),
        (["--as", "cupy"], "tune as cupy", "h200:cupy"),
        (["--front-end", "calls"], "tune as pytorch", "h200"),
    ],
)
def test_the_workloads_front_end_is_what_is_measured_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: list[str], suite: str, device: str
) -> None:
    installed(monkeypatch)
    Path("w.toml").write_text('inputs = ["64KiB"]\nkernels = ["20us"]\nfront_end = "pytorch"\n')
    options = ["--max-chunks", "2", "--budget", "2", "--repeats", "2", "-o", "t.json.gz", "--json"]
    assert main(["tune", "w.toml", *options, *more]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == device
    assert read_record("t.json.gz").suite == suite


@pytest.mark.usefixtures("card")
def test_a_function_of_ones_own_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch)
    text = "import torch\ndef kernels(x, y):\n    torch.special.legendre_polynomial_p(x, 3, out=y)\n"
    Path("mine.py").write_text(text)
    assert main(["tune", *QUICK, "--as", "pytorch", "--kernels", "mine.py"]) == 0
    assert "Your kernels take 50.15 us over all the work, where 20 us was said" in capsys.readouterr().out


def test_without_nvcc_it_says_so_before_the_card_is_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "open_gpu", lambda _: pytest.fail("opens the card"))
    monkeypatch.setenv("PATH", "")
    assert_one_line(capsys, [*QUICK, "--as", "cuda-c++"], "--as cuda-c++: no nvcc to compile it with")


# Bad input


def assert_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, code: int = 2) -> None:
    before = sorted(os.listdir())
    assert main(["tune", *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(os.listdir()) == before
