"""The ``calibrate`` command where there is no card: kept samples are fitted, what cannot be done is one line."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from streamsim.device.files import read_device
from streamsim.program.schedule import RecordEvent, WaitEvent
from streamsim_validate.calibrate import fits
from streamsim_validate.calibrate.all_probes import probes
from streamsim_validate.calibrate.samples import read_samples
from streamsim_validate.cli import main
from streamsim_validate.records.timed import with_timing_events

RECORDED = str(Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "calibration-h200.samples.gz")


@pytest.mark.usefixtures("fitting_once")
def test_kept_samples_give_the_profile_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.toml"
    assert main(["calibrate", "--from", RECORDED, "-o", str(output)]) == 0
    assert read_device(output) == fits.fit(read_samples(Path(RECORDED)))
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith(f"{output}: calibrated on NVIDIA H200")
    assert re.fullmatch(r"took: the fit \d+\.\d s", said[-2])
    assert any(line.startswith("h2d.latency_s ") and " us +- " in line for line in said)


def test_without_cupy_it_says_so_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["calibrate", "-o", str(tmp_path / "gpu.toml"), "--samples", str(tmp_path / "s.gz")]) == 3
    complaint = capsys.readouterr().err
    assert "CuPy" in complaint
    assert complaint.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "missing/gpu.toml"], "there is no folder 'missing'"),
        (["--from", "none.gz"], "none.gz: cannot read it: no such file"),
        (["--from", RECORDED, "--samples", "s.gz"], "--samples: --from measures nothing"),
        (["--from", RECORDED, "-o", RECORDED], "there is such a file already, and not a device profile"),
        (["-o", "same", "--samples", "same"], "--samples same: is the profile's file, too; name another one"),
    ],
)
def test_bad_usage_is_one_line_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_no_live_probe_waits_for_an_event_before_recording_it() -> None:
    """CUDA refuses to wait for an event whose latest record was in another program's capture."""
    for _, schedule in probes(270_336):
        recorded: set[int] = set()
        for op in with_timing_events(schedule).ops:
            if isinstance(op, RecordEvent):
                recorded.add(op.event)
            elif isinstance(op, WaitEvent) and schedule.launch == "live":
                assert op.event in recorded, schedule.name
