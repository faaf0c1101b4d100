"""``--layers``: what commands say of a model's layers is what the library says, and what they refuse."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from stamped import figures, printed, unstamped

from streamsim.advice import explain
from streamsim.analysis import predict
from streamsim.files import write_toml
from streamsim.program import Layer, Layers, Offload, WorkloadKernel, parse_schedule

TIMES = ((40_000_000, 900e-6), (90_000_000, 500e-6), (10_000_000, 3e-3))
MODEL = Layers(tuple(Layer(n_bytes, (WorkloadKernel(duration_s=seconds),)) for n_bytes, seconds in TIMES), passes=2)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_toml(MODEL, tmp_path / "model.toml")
    return tmp_path


OPTIONS = (
    *("--direction", "both", "--passes", "3", "--depth", "1", "--resident", " layer0 ,layer2"),
    *("--reserve", "1MB", "--memory", "pageable"),
)
CONFIG = Offload(1, ("layer0", "layer2"), "pageable", 1_000_000)


def test_predict_schedule_and_explain_say_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--layers", "model.toml", *OPTIONS, "--device", "a100")
    schedule = CONFIG.schedule(replace(MODEL, passes=3, direction="both"))
    predicted, explained = (figures(capsys, command, *options) for command in ("predict", "explain"))
    inputs = unstamped(predicted).pop("inputs")
    wanted = json.loads(json.dumps(predict(schedule, "a100").to_json()))
    del wanted["inputs"]
    assert predicted.pop("assumed") == explained["assumed"] == replace(MODEL, direction="both").assumed
    assert predicted == wanted
    assert (inputs["depth"], inputs["resident"], inputs["device"]) == (1, ["layer0", "layer2"], "a100")
    assert inputs["layers"]["passes"] == 3
    assert explained["makespan_s"] == explain(schedule, "a100").makespan_s
    assert parse_schedule(printed(capsys, "code", "--as", "schedule", *options).encode()) == schedule


@pytest.mark.parametrize("limit", ["200MB", "300MB", "1GB"])
@pytest.mark.parametrize("command", ["best", "explain"])
def test_what_is_said_first_of_layers_whatif_makes_with_the_same_gain(
    command: str, limit: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_toml(replace(MODEL, layers=MODEL.layers * 3), folder / "model.toml")
    device = ("--device", "a100", "--memory-limit", limit, "--json")
    first = json.loads(printed(capsys, command, "--layers", "model.toml", *device))["first"]
    said = json.loads(printed(capsys, "whatif", "model.toml", *device, *first["options"]))["first"]
    assert (said["options"], said["gain"]) == (first["options"], pytest.approx(first["gain"]))
    assert first["gain"] > 1.03
