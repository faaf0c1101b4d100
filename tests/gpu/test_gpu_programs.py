"""On a real card: programs in every language that is here, and captures, by the commands as typed."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamsim.code import training_program
from streamsim.program import Loop
from streamsim.recorded import CallKind, CopyDirection, CopyMemory, WorkKind, part_of, read_recording, untraced_time_s
from streamsim_validate.records import PROGRAMS, read_record

pytestmark = pytest.mark.gpu


COUNT = 12  # of each language: some ten workloads less than one


def typed(folder: Path, line: str, module: str = "streamsim_validate") -> str:
    """What the command prints; it must succeed."""
    command = [sys.executable, "-m", module, *line.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


HERE = {
    "cupy": find_spec("cupy") is not None,
    "pytorch": find_spec("torch") is not None,
    "cuda-c++": shutil.which("nvcc") is not None,
}


@pytest.mark.parametrize("language", [name for name, is_here in HERE.items() if is_here])
def test_the_stand_in_takes_the_time_that_was_given(tmp_path: Path, language: str) -> None:
    """Its copies, of 4 MiB each way in one chunk, take less than 1 ms beside kernels of 20 ms."""
    source = tmp_path / ("pipeline.cu" if language == "cuda-c++" else "pipeline.py")
    words = f"code --h2d 4MiB --kernel 15ms --kernel 5ms --d2h 4MiB --as {language} -o {source}"
    subprocess.run([sys.executable, "-m", "streamsim", *words.split()], check=True)
    program = [sys.executable, str(source)]
    if language == "cuda-c++":
        program = [str(tmp_path / "pipeline")]
        subprocess.run(["nvcc", "-O3", "-o", *program, str(source)], check=True)
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 18e-3 < min(json.loads(done.stdout)["wall_s"]) < 24e-3


@pytest.mark.skipif(not HERE["pytorch"], reason="PyTorch is not here")
@pytest.mark.parametrize(("load_ms", "step_ms", "expected_ms"), [(200, 20, 50), (20, 40, 40)])
def test_a_training_loop_waits_for_its_loading_or_its_step(
    tmp_path: Path, load_ms: float, step_ms: float, expected_ms: float
) -> None:
    """Four workers share the loading. The copies of 8 MB run beside the step."""
    loop = Loop(batch=64, batch_bytes=8_000_000, step_s=step_ms / 1e3, load_s=load_ms / 1e3, workers=4)
    loop = msgspec.structs.replace(loop, is_pinned=True, non_blocking=True, issue="step first")
    (tmp_path / "loop.py").write_text(training_program(loop, "a prefetcher"))
    done = subprocess.run([sys.executable, str(tmp_path / "loop.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step_ms"] == pytest.approx(expected_ms, rel=0.1)


def test_programs_are_run_verified_and_compared(tmp_path: Path) -> None:
    """Of a language that is not here, all are left out with the reason; of the others, none."""
    said = typed(tmp_path, f"run --suite {PROGRAMS} --seed 2026 --count {COUNT} -o programs.json.gz")
    record = read_record(tmp_path / "programs.json.gz")
    by_language: dict[str, list[str]] = {}
    for run in record.runs:
        for entry in run.entries:
            assert entry.program is not None
            by_language.setdefault(entry.program.language, []).append(entry.status)
            if entry.status == "ok":
                assert entry.verified
                assert min(entry.paces_s) > 0
                assert min(entry.program.kernels_s) > 0
    assert by_language["cupy"] == ["ok"] * COUNT, said
    for language, statuses in by_language.items():
        here = set(statuses) == {"ok"}
        assert here or all(status.startswith("skipped: ") for status in statuses), (language, said)
    found = json.loads(typed(tmp_path, "compare programs.json.gz --json"))
    assert found["unpredicted"] == []
    languages = [language for language, statuses in by_language.items() if set(statuses) == {"ok"}]
    for language in languages:
        errors = {name: one for name, one in found["at_speed"].items() if name.startswith(f"{language} ")}
        assert sum(one["n"] for one in errors.values()) == COUNT
        if (bound := errors.get(f"{language} device-bound")) is not None:
            assert bound["median_percent"] < 15, (language, bound)


def test_a_plan_is_written_run_and_compared(tmp_path: Path) -> None:
    """Its kernel is given by its time alone: 16 chunks of 36 us beside copies of 76 us each way, so the link binds."""
    plan = "code --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 -o plan.json"
    typed(tmp_path, plan, "streamsim")
    shown = typed(tmp_path, "run plan.json --repeats 25 -o mine.json.gz")
    assert shown.splitlines()[-1].startswith("mine.json.gz: 1 schedules measured on ")
    ((_, entry),) = read_record(tmp_path / "mine.json.gz").measured()
    assert entry.verified
    assert len(entry.wall_s) == 25
    found = json.loads(typed(tmp_path, "compare mine.json.gz --json"))
    (row,) = found["schedules"]
    assert found["unpredicted"] == found["unmeasured"] == []
    assert abs(row["error_percent"]) < 10
    assert 1e-3 < row["measured_s"] < 20e-3


# Programs captured by the command as it is typed, and what CUPTI says of them


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
    found: dict[str, Any] = json.loads(typed(folder, f"{line} {sys.executable} program.py"))
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
