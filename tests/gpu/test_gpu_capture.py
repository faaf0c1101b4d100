"""On a real card: programs in CuPy and PyTorch captured by the command as it is typed, and what CUPTI says of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamsim.recorded import CallKind, CopyDirection, CopyMemory, WorkKind, part_of, read_recording, untraced_time_s

pytestmark = pytest.mark.gpu

BATCHES, BYTES = 8, 4 << 20
CUPY = """
import cupy
import cupyx
from cupyx.profiler import time_range

batches = cupyx.zeros_pinned((8, 1 << 20), "float32")
scores = cupyx.zeros_pinned((8, 1 << 20), "float32")
on_card = list(cupy.empty(batches.shape, "float32"))
streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
done = cupy.cuda.Event(disable_timing=True)

def run():
    for k in range(8):
        with streams[k % 2] as stream:
            on_card[k].set(batches[k])
            cupy.sin(on_card[k], out=on_card[k])
            on_card[k].get(out=scores[k], blocking=False)
    done.record(streams[0])
    streams[1].wait_event(done)
    streams[1].synchronize()

run()
for _ in range(2):
    with time_range("round"):
        run()
"""
PYTORCH = """
import torch

batches = torch.zeros(8, 1 << 20)
scores = torch.zeros(8, 1 << 20)

def run():
    for batch, score in zip(batches, scores):
        score.copy_(torch.sin(batch.to("cuda")))

run()
for _ in range(2):
    with torch.profiler.record_function("round"):
        run()
"""


def captured(folder: Path, program: str) -> dict[str, Any]:
    """What ``import --json`` says of its second round, once it was captured."""
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    (folder / "program.py").write_text(program)
    line = "capture --window round[2] --untraced-runs 3 -o found.json.gz --json --"
    command = [sys.executable, "-m", "streamsim_validate", *line.split(), sys.executable, "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_program_in_cupy_is_captured(tmp_path: Path) -> None:
    """Every call and all work of two streams, its events, its time without CUPTI; replayed within 10 %."""
    found = captured(tmp_path, CUPY)
    whole = read_recording(tmp_path / "found.json.gz")
    recording = part_of(whole, window="round[2]")
    work, calls = recording.work, recording.calls
    copies = work.rows(work.kind == WorkKind.COPY)
    assert sorted(copies.direction.tolist()) == [CopyDirection.H2D] * BATCHES + [CopyDirection.D2H] * BATCHES
    assert set(copies.bytes.tolist()) == {BYTES}
    assert set(copies.memory.tolist()) == {CopyMemory.PINNED}
    assert int((work.kind == WorkKind.KERNEL).sum()) == BATCHES
    assert (work.call >= 0).all()
    assert [recording.streams[stream].kind for stream in sorted(set(work.stream.tolist()))] == ["non-blocking"] * 2
    (wait,) = calls.rows(calls.kind == CallKind.WAIT).record.tolist()
    assert calls.kind[wait] == CallKind.RECORD
    assert calls.stream[wait] == work.stream[0]
    assert recording.cards[0].name
    assert recording.cards[0].copy_engines >= 1
    assert len(whole.untraced) == 3
    replayed = found["replay"]
    assert abs(replayed["error"]) < 0.1
    assert replayed["untraced_s"] == untraced_time_s(whole, "round[2]")
    assert 0.3 < replayed["untraced_s"] / replayed["recorded_s"] < 1.5  # the host may have been slower then


def test_a_program_in_pytorch_is_captured(tmp_path: Path) -> None:
    """Pageable memory; its ranges are those of record_function."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    found = captured(tmp_path, PYTORCH)
    recording = part_of(read_recording(tmp_path / "found.json.gz"), window="round[2]")
    copies = recording.work.rows(recording.work.kind == WorkKind.COPY)
    assert sorted(copies.direction.tolist()) == [CopyDirection.H2D] * BATCHES + [CopyDirection.D2H] * BATCHES
    assert set(copies.memory.tolist()) == {CopyMemory.PAGEABLE}
    assert found["replay"]["untraced_s"] > 0
