"""Programs in a language as what tuning measures: on stand-ins of the libraries, whose clock counts calls and rounds.

Those in C++ are compiled for the host (``emulated_nvcc``).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from emulated_nvcc import COMPILER, write_nvcc
from fake_gpu.arrays import CALL_S, MINE, ROUND_S, installed
from fake_gpu.card import Card
from fake_gpu.cuda import fake_gpu
from strategies import make_device

from streamsim import Config, Workload, WorkloadKernel
from streamsim.code import Language
from streamsim.device import COMPILED
from streamsim.errors import InputError, one_line
from streamsim.search import candidates, default_grid
from streamsim_validate.calibrate import measure_front_ends
from streamsim_validate.calibrate.front_ends import KINDS, REPEATS, fit_front_end
from streamsim_validate.cli import main
from streamsim_validate.cli import tune as cli
from streamsim_validate.compare import compare
from streamsim_validate.gpu import compiled_rounds, probes
from streamsim_validate.records import read_record, recipe_of
from streamsim_validate.run import Planned, Task, tune
from streamsim_validate.run.programs import ProgramJob, Programs
from streamsim_validate.run.tuning import MORE
from streamsim_validate.suites import stand_ins

PYTHON: tuple[Language, ...] = ("cupy", "pytorch")
KERNEL_S = 20e-6
WORKLOAD = Workload(1024, (4,), (4,), (WorkloadKernel(duration_s=KERNEL_S),))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Card:
    return installed(monkeypatch)


def planned(config: Config, **more: Any) -> Planned:
    return Planned(config.words, Config().schedule(WORKLOAD), recipe_of(config, WORKLOAD, "any"), **more)


CONFIGS = {
    "serial": Config("serial", 4),
    "depth-first": Config("depth-first", 4, 2),
    "breadth-first": Config("breadth-first", 5, 3),
    "ring": Config("depth-first", 6, 3, 2),
    "graph": Config("depth-first", 4, 2, launch="graph"),
    "pageable": Config("depth-first", 2, 2, memory="pageable"),
}


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("language", PYTHON)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_program_of_every_pattern_is_run_and_verified(language: Language, config: Config) -> None:
    """So many times; with three times the launches, its kernels take three times as long."""
    items = [planned(config, language=language, work=40, times=times) for times in (1, 3)]
    with closing(Programs(fake_gpu()[0])) as programs:
        once, thrice = (programs.job(item).said(5) for item in items)
    assert once["verified"] is thrice["verified"] is True
    assert len(once["issue_s"]) == len(once["wall_s"]) == len(thrice["wall_s"]) == 5
    calls_s = 0.0 if config.launch == "graph" else 2 * config.chunks * CALL_S  # a graph is one call, whatever is in it
    assert thrice["wall_s"][0] - once["wall_s"][0] == pytest.approx(2 * 1024 * 40 * ROUND_S + calls_s)


needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no g++")


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What was compiled, a line each."""
    write_nvcc(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "compiled"


@needs_compiler
def test_programs_that_are_known_beforehand_are_compiled_beforehand_and_run_with_probes(nvcc: Path) -> None:
    """Each text once: one of both depth-first, one of prefetching, and that of chains of kernels. Some 4 s: g++.

    A launch of many rounds takes longer than one of a single round, whatever else the machine does.
    """
    told: list[tuple[str, int, int]] = []
    configs = [Config(chunks=4, streams=2), Config(chunks=2000), Config(chunks=1), Config("prefetch", 3, 1, 2)]
    with closing(Programs(fake_gpu()[0])) as programs:
        items = [planned(config, language="cuda-c++", is_probed=True) for config in configs]
        programs.plan(items, lambda *step: told.append(step))
        assert len(nvcc.read_text().splitlines()) == 3
        assert told == [("compiling programs", k, 3) for k in range(3)]
        jobs = [programs.job(item) for item in items]
        with pytest.raises(InputError, match="more chunks than elements"):
            jobs.pop(1).said(2)
        for job in jobs:
            found = job.said(2)
            assert found["verified"]
            assert [len(found[name]) for name in ("issue_s", "wall_s", "paces_s", "links_s")] == [2] * 4
            assert min(*found["paces_s"], *found["links_s"]) > 0
        workloads = [stand_ins(1000, n, work) for n, work in ((1, 1), (2, 400))]
        recipes = [recipe_of(configs[0], workload, "any") for workload in workloads]
        alone = (Planned("x", items[0].schedule, recipe, "cuda-c++", is_probed=True) for recipe in recipes)
        (few_s,), both_s = (programs.job(item).alone_s(1000) for item in alone)
        assert 0 <= few_s < both_s[0] == both_s[1]
    assert len(nvcc.read_text().splitlines()) == 3
    (folder,) = {line.split()[-1].rpartition("/")[0] for line in nvcc.read_text().splitlines()}
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'pipeline.cu(3): error: no such thing' >&2; exit 2", r"does not compile: pipeline\.cu\(3\): error: no"),
        ("printf '#!/bin/sh\\necho oh dear >&2\\nexit 3\\n' > $3; chmod +x $3", "exit code 3: oh dear"),
        ("printf '#!/bin/sh\\nexit 4\\n' > $3; chmod +x $3", "exit code 4: it says nothing"),
    ],
    ids=("compiling", "running", "silent"),
)
def test_what_goes_wrong_in_cpp_is_one_line(nvcc: Path, script: str, said: str) -> None:
    nvcc.with_name("nvcc").write_text(f"#!/bin/sh\n{script}\n")
    with closing(Programs(fake_gpu()[0])) as programs, pytest.raises(InputError, match=said) as caught:
        programs.job(planned(Config(), language="cuda-c++")).said(1)
    assert "\n" not in str(caught.value)


SLICE = 32 << 10  # bytes


def rounds_of(kind: str, folder: Path, turns: int) -> list[list[str]]:
    """What the program calls between two looks at the clock, of a run that warms up and of one that counts."""
    source, program = folder / "rounds.cu", folder / "rounds"
    source.write_text(probes())
    subprocess.run(["nvcc", "-o", program, source], check=True)
    done = subprocess.run([program, "rounds", str(turns), kind], capture_output=True, text=True, check=True)
    (seconds,) = json.loads(done.stdout)["rounds_s"]
    assert seconds > 0
    _, *timed = done.stderr.split("clock\n")
    return [between.splitlines() for between in timed[::2]]


@needs_compiler
def test_a_round_makes_the_calls_of_its_letters(nvcc: Path) -> None:
    """Slices of 8,192 floats, each turn the next; streams 1 to 4 in turn, or one, and with them events 1, 2, 3..."""
    in_turn, in_one = [], []
    for turn in range(5):
        stream, event, at = 1 + turn % 4, turn + 1, SLICE * turn
        in_turn += [f"h2d {SLICE} {at} {at} {stream}", f"kernel {stream}", f"d2h {SLICE} {at} {at} {stream}"]
        in_turn += [f"record {event} {stream}", f"wait {event} {stream}"]
        in_one += [f"h2d {SLICE} {at} {at} 1", f"record {event} {stream}", f"wait {event} {stream}"]
        in_one += ["kernel 1", "synchronise"]
    assert rounds_of("|ikorw", nvcc.parent, 5) == [in_turn, in_turn]
    assert rounds_of("irwks", nvcc.parent, 5) == [in_one, in_one]


@needs_compiler
@pytest.mark.usefixtures("nvcc")
def test_compiled_programs_are_calibrated_where_there_is_a_compiler() -> None:
    with compiled_rounds() as found:
        assert found is not None
        samples = measure_front_ends([], found)
    assert {kind: len(seconds) for kind, seconds in samples[COMPILED].rounds.items()} == dict.fromkeys(KINDS, REPEATS)
    assert fit_front_end(samples[COMPILED].rounds, "measured: here").spread >= 0


def test_a_compiler_that_does_not_work_stops_no_calibration(nvcc: Path) -> None:
    nvcc.with_name("nvcc").write_text("#!/bin/sh\necho no g++ >&2; exit 1\n")
    told: list[str] = []
    with compiled_rounds() as compiled:
        assert measure_front_ends([], compiled, lambda what, *_: told.append(what)) == {}
    assert told == [f"calibrating {COMPILED}", f"leaving {COMPILED} out: it does not compile: no g++"]


# Tuned


DEVICE = make_device(copy=200, kernel=100)


def a_task(
    tmp_path: Path, workload: Workload = WORKLOAD, budget: int = 4, language: Language = "cupy", **more: Any
) -> Task:
    configs = tuple(candidates(workload, DEVICE, default_grid(8, 4)))
    given: dict[str, Any] = {"configs": configs, "device": DEVICE, "repeats": 3, "language": language} | more
    return Task(str(tmp_path / "tuned.json.gz"), workload, budget=budget, **given)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("language", PYTHON)
def test_programs_are_tuned_with_kernels_that_take_what_was_said(tmp_path: Path, language: Language) -> None:
    """Of 1024 floats, 18 rounds and a call take 19.4 us, where the program has two calls. One chunk is best here."""
    task = a_task(tmp_path, budget=6, language=language)
    found = tune(task, fake_gpu()[0])
    assert found.kernels is not None
    assert found.kernels.work == 18
    assert found.kernels.said_s == pytest.approx(KERNEL_S)
    assert found.kernels.measured_s == pytest.approx(18 * 1024 * ROUND_S + CALL_S)
    (kernel,) = found.workload.kernels
    assert kernel.duration_s == pytest.approx(found.kernels.measured_s)
    assert found.found.chunks == 1 < found.picked.chunks
    assert found.is_sure
    record = read_record(task.output)
    assert record.suite == f"tune as {language}"
    (run,) = record.runs
    keys = {"stand-in of 18 rounds", f"stand-in of 18 rounds, {1 + MORE} times"}
    assert keys < {entry.key for entry in run.entries}
    for entry in run.entries:
        assert (entry.device_s, entry.issue_s, entry.verified, len(entry.wall_s) >= 3) == ((), (), True, True)
    with pytest.raises(InputError, match=f"'tune as {language}' on Emulated has wall times of programs alone"):
        compare(record, DEVICE)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("language", PYTHON)
def test_kernels_of_ones_own_are_timed_and_tuned(tmp_path: Path, language: Language) -> None:
    """What was said of them is far off; the model predicts with what they take."""
    mine = tmp_path / "mine.py"
    mine.write_text(MINE[language])
    found = tune(a_task(tmp_path, language=language, kernels=(str(mine),)), fake_gpu()[0])
    assert found.kernels is not None
    assert tuple(found.kernels) == pytest.approx((0, KERNEL_S, 7 * 1024 * ROUND_S + CALL_S))
    assert sum(kernel.duration_s or 0 for kernel in found.workload.kernels) == pytest.approx(found.kernels.measured_s)
    keys = [entry.key for entry in read_record(tmp_path / "tuned.json.gz").runs[0].entries]
    assert keys[:2] in (["kernels", f"kernels, {1 + MORE} times"], [f"kernels, {1 + MORE} times", "kernels"])


def scripted(fails: Callable[[Config], None] = lambda _: None, verified: bool = True) -> Programs:
    """Programs of which each takes its chunks in microseconds, or what ``fails`` raises."""

    class Scripted(ProgramJob):
        def make_ready(self) -> None:
            """Nothing."""

        def said(self, repeats: int) -> dict[str, Any]:
            fails(self._config)
            wall_s = 1e-6 * self._config.chunks + 2e-5 * self.item.times
            return {"verified": verified, "work": 5, "wall_s": (wall_s,) * repeats}

        def alone_s(self, elements: int) -> tuple[float, ...]:
            raise NotImplementedError

    found = Programs(fake_gpu()[0])
    found.job = lambda item: Scripted(item, found)  # type: ignore[method-assign]
    return found


def test_a_program_that_fails_is_left_out_with_the_reason(tmp_path: Path) -> None:
    error, broken = RuntimeError("CUDA out of memory.\nTried to allocate"), list[Config]()

    def fails(config: Config) -> None:
        if config.chunks > 1 and config in (broken or [config]):
            broken[:] = [config]
            raise error

    found = tune(a_task(tmp_path), fake_gpu()[0], runner=scripted(fails=fails))
    assert len(found.tried) == 4
    assert found.left_out == {broken[0].words: one_line(f"failed: {type(error).__name__}: {error}")}


def test_output_that_is_not_verified_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^stand-in of 5 rounds: failed: its output is not that of the serial"):
        tune(a_task(tmp_path), fake_gpu()[0], runner=scripted(verified=False))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds an emulated card."""
    monkeypatch.setattr(cli, "open_gpu", lambda _number: nullcontext(fake_gpu()[0]))


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
    found = json.loads(capsys.readouterr().out)
    assert (found["device"], found["record"], len(found["tried"])) == (device, "t.json.gz", 2)
    assert found["tried"][0]["predicted_s"] == min(tried["predicted_s"] for tried in found["tried"])
    assert read_record("t.json.gz").suite == suite
