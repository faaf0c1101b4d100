"""The ``calibrate`` command where there is no card: kept samples are fitted, what cannot be done is one line."""

from pathlib import Path

import pytest

from streamsim.device import read_device
from streamsim.program import RecordEvent, WaitEvent
from streamsim_validate.calibrate import all_probes, fits, read_samples
from streamsim_validate.cli import main
from streamsim_validate.records.recipe import with_timing_events

RECORDED = str(Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "calibration-h200.samples.gz")


@pytest.mark.usefixtures("fitting_once")
def test_kept_samples_give_the_profile_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.toml"
    assert main(["calibrate", "--from", RECORDED, "-o", str(output)]) == 0
    assert read_device(output) == fits.fit(read_samples(Path(RECORDED)))
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith(f"{output}: calibrated on NVIDIA H200")
    assert any(line.startswith("cupy: not calibrated, since the samples have none of it") for line in said)


def test_no_live_probe_waits_for_an_event_before_recording_it() -> None:
    """CUDA refuses to wait for an event whose latest record was in another program's capture."""
    for _, schedule in all_probes(270_336):
        recorded: set[int] = set()
        for op in with_timing_events(schedule).ops:
            if isinstance(op, RecordEvent):
                recorded.add(op.event)
            elif isinstance(op, WaitEvent) and schedule.launch == "live":
                assert op.event in recorded, schedule.name
