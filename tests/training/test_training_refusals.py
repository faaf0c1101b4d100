"""What a training loop is refused for, in Python and on the command line: one line that names it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal, refusal_of

from streamsim.program import Loop, write_schedule

LOOP: dict[str, Any] = {"batch": 256, "batch_bytes": 154_000_000, "step_s": 45e-3}
STEP = "--batch 2 --step 45ms"
REFUSED = {
    "--step 45ms --batch-bytes 1MB": "--batch: is missing",
    "--batch 2 --batch-bytes 1MB": "--step: is missing",
    "--batch 2 --batch-bytes 1MB --step 0s": "--step = '0s': expected a time such as",
    STEP: "give one of the two",
    f"{STEP} --sample 3x4": "expected a shape and a type",
    f"{STEP} --sample 3xy:uint8": "--sample = 'y'",
    f"{STEP} --batch-bytes 1 --workers 900": "900",
    "program.json --sample 3x4:uint8": "--sample: the recording shows it",
}


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"step_s": 0.0}, {"workers": 1000}, {"issue": "never"}])
def test_what_is_no_loop_is_named(wrong: dict[str, Any]) -> None:
    assert next(iter(wrong)) in refusal(partial(Loop, **{**LOOP, **wrong}))


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_loop_that_is_not_whole_is_one_line(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_schedule(Loop(**LOOP).schedule(6, 0.0), tmp_path / "program.json")
    assert REFUSED[arguments] in refusal_of(["loop", *arguments.split()], capsys)
