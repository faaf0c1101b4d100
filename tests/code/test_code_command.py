"""``streamsim code`` and ``best --as``: what they write."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from streamsim.cli import main
from streamsim.code import FRONT_END_OF, Language, code_of
from streamsim.files import write_toml
from streamsim.program import Config, workload_of_sizes

FEW = ("--max-chunks", "2", "--max-streams", "2", "--order", "depth-first", "--device", "ideal")
SIZES = ("--h2d", "64KiB", "--kernel", "20us", "--d2h", "64KiB")
WORKLOAD = workload_of_sizes(["64KiB"], ["20us"], ["64KiB"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_options_of_predict_make_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*SIZES, "--chunks", "8", "--streams", "4", "--buffers", "2", "--device", "a100"]
    assert main(["code", *options, "-o", "pipeline.cu"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("pipeline.cu").read_text() == code_of(WORKLOAD, Config("depth-first", 8, 4, 2), "cuda-c++")


@pytest.mark.parametrize(("front_end", "language"), [("cupy", "cupy"), ("pytorch", "pytorch"), ("calls", "cuda-c++")])
def test_the_language_is_that_of_the_workloads_front_end(
    front_end: str, language: Language, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = replace(WORKLOAD, front_end=front_end)
    write_toml(workload, "loop.toml")
    assert main(["code", "loop.toml", "--chunks", "4", "--host-work", "3ms"]) == 0
    assert capsys.readouterr().out == code_of(replace(workload, host_work_s=3e-3), Config(chunks=4), language)
    assert main(["code", "loop.toml", "--chunks", "4", "--as", "cupy"]) == 0
    assert capsys.readouterr().out == code_of(workload, Config(chunks=4), "cupy")


def test_best_writes_what_it_says_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    # On the ideal device one stream cannot overlap, and of one or two chunks over two streams two are faster: of 1 ms
    # a stage, two of three stages overlap by halves. The calls of CuPy, some microseconds each, do not change that.
    sizes = ["--h2d", "64MiB", "--kernel", "1ms", "--d2h", "64MiB"]
    assert main(["best", *sizes, *FEW, "--as", "cupy", "-o", "best.py"]) == 0
    assert "2 chunks on 2 streams, depth-first" in capsys.readouterr().out
    workload = workload_of_sizes(["64MiB"], ["1ms"], ["64MiB"])
    assert Path("best.py").read_text() == code_of(workload, Config("depth-first", 2, 2), "cupy")


@pytest.mark.parametrize(("language", "chunks"), [("cupy", 1), ("pytorch", 1), ("cuda-c++", 2)])
def test_best_counts_the_calls_of_the_program_that_it_writes(
    language: Language, chunks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # 64 KiB go over the ideal link, 64 GB/s, in 1 us: with bare calls, which cost nothing there, two chunks hide half
    # of each copy behind the kernels, 1 of 22 us. The calls of a library for another chunk cost several times that.
    assert main(["best", *SIZES, *FEW, "--as", language, "-o", "best.txt"]) == 0
    counted = capsys.readouterr().out.removesuffix("wrote best.txt\n")
    assert f"{chunks} chunk{'s' * (chunks > 1)} on {chunks} stream" in counted
    assert main(["best", *SIZES, *FEW, "--front-end", FRONT_END_OF[language]]) == 0
    assert capsys.readouterr().out == counted
    assert Path("best.txt").read_text() == code_of(WORKLOAD, Config("depth-first", chunks, chunks), language)
