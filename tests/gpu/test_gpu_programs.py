"""On a real card: programs of the suite in every language that is here are run, verified and compared."""

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from streamsim.code import training_program
from streamsim.program import Loop
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
        low, high = found["host_speeds"][language]
        assert 0.3 < low <= high < 4


# README's own way from a plan to how well it was predicted


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
