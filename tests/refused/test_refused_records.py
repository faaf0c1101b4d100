"""What the validator refuses: its commands, records and samples, files of kernels, plans and values."""

import gzip
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_gpu.cuda import fake_gpu, replayed
from refusals import refusal, refused
from small_record import ONE, RECORD, a_device, a_recipe, a_record, an_entry

from streamsim.files import write_toml
from streamsim.program import Copy, Kernel, Region, Schedule
from streamsim_validate.calibrate import read_samples
from streamsim_validate.cli import main
from streamsim_validate.cli import tune as tune_cli
from streamsim_validate.compare import compare
from streamsim_validate.gpu import Gpu, Key, check_fits, find_kernel, kernels, load_kernels
from streamsim_validate.gpu.kernels import widths_of
from streamsim_validate.records import Group, Recipe, read_record
from streamsim_validate.run import Plan, Planned, campaign, check_language
from streamsim_validate.run.programs import function_of
from streamsim_validate.suites import sincos, suite

RECORDED = Path(__file__).parents[2] / "validate" / "campaigns" / "records" / "calibration-h200.samples.gz"
SAMPLES = RECORDED.read_bytes()
PACKED = gzip.compress(msgspec.json.encode(RECORD))


def flipped(data: bytes, at: int) -> bytes:
    """With one byte changed."""
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def packed(**changes: Any) -> bytes:
    """The record, its run changed."""
    run = msgspec.structs.replace(RECORD.runs[0], **changes)
    return gzip.compress(msgspec.json.encode(msgspec.structs.replace(RECORD, runs=(run,))))


FIRST = an_entry(a_recipe(**ONE), (4.0,))
FILES = {
    "r.json.gz": PACKED,
    "long.json.gz": packed(entries=(msgspec.structs.replace(FIRST, wall_s=(86_401.0,)),)),
    "early.json.gz": packed(entries=(msgspec.structs.replace(FIRST, wall_s=(-1e308,)),)),
    "chains.json.gz": packed(groups=(Group(1, (("record", 10**19, 16, ()),)),)),
    "cut.json.gz": PACKED[:-9],
    "older.json.gz": gzip.compress(b'{"schema_version": 2}'),
    "list.json.gz": gzip.compress(b"[1, 2]"),
    "there.json.gz": b"precious",
    "plain.gz": b"no gzip",
    "object.gz": gzip.compress(b"{}"),
    "damaged.gz": flipped(SAMPLES, 2000),
    "torn.gz": flipped(SAMPLES, -9),
    "mine.cu": b'extern "C" __global__ void mine(const Arrays a) {}',
    "none_in_it.cu": b"int main() {}",
    "latin.cu": b"// \xe9",
    "nothing.py": b"pass",
    "exits.py": b"raise SystemExit(3)",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the process: it has the files, a profile of another card, and no card but an emulated one."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    other = msgspec.structs.replace(a_device(), description="calibrated on Some Other Card")
    write_toml(other, tmp_path / "other.toml")

    @contextmanager
    def opened(_number: int) -> Iterator[Gpu]:
        yield fake_gpu()[0]

    monkeypatch.setattr(tune_cli, "open_gpu", opened)
    monkeypatch.setattr(kernels, "_REGISTRY", dict(kernels._REGISTRY))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(campaign.hardware, "import_cupy", lambda: None)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.chdir(tmp_path)


TUNE = "tune --h2d 64KiB --kernel 20us --d2h 64KiB --max-chunks 4 --max-streams 2"
LINES = {
    "run -o no/such/r.json.gz": "...there is no folder",
    "run -o there.json.gz": "there.json.gz: there is such a file already; move it away, or",
    "calibrate --from none.gz": "none.gz: cannot read it: no such file",
    f"calibrate --from {RECORDED} --samples s.gz": "--samples: --from measures nothing",
    f"calibrate --from {RECORDED} -o r.json.gz": "...there is such a file already, and not a device profile",
    "calibrate -o same --samples same": "--samples same: is the profile's file, too; name another one",
    "compare cut.json.gz": "cut.json.gz: is truncated; copy it again",
    "compare r.json.gz --device other.toml": "...another card's profile",
    f"{TUNE} --kernels mine.cu": "--kernels mine.cu: has mine, and the workload names kernel;",
    f"{TUNE} --as cuda-c++ --kernels mine.cu": "--kernels: programs in C++ are measured with their stand-in",
    f"{TUNE} --as cupy --kernels a.py --kernels b.py": "--kernels: 2 files; give the one",
    f"{TUNE} --as pytorch --device h200:cupy": "...the calls of cupy would be counted and those of pytorch meas",
    f"{TUNE} --front-end cupy": "--front-end: the calls of cupy would be counted and those of calls measured; give",
}


@pytest.mark.parametrize(("line", "said"), LINES.items(), ids=range(len(LINES)))
def test_a_command_says_in_one_line_what_is_wrong(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    refused(line.split(), capsys, said, main)


@pytest.mark.parametrize("line", [f"{TUNE} -o t.json.gz", "calibrate -o gpu.toml --samples s.gz"])
def test_without_cupy_a_command_ends_with_3(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused(line.split(), capsys, "...CuPy is not installed: pip install", main, code=3)


# Values

NEED = {Key("device", "d"): 10 << 20, Key("pinned", "h"): 20 << 20}


def scheduled(pattern: str, **arguments: Any) -> Schedule:
    return Recipe(pattern, arguments, sincos(8, 1), "x").schedule()


def widths(elements: int, *reads: Region) -> object:
    kernel = Kernel(1, "copy", elements, reads=reads)
    return widths_of(find_kernel(kernel), kernel)


plan = partial(Plan, "new.json.gz")
SMALL = Planned("x", Schedule((Copy("h2d", 64, 1),), ("non-blocking",)))
CALLS: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (lambda: replayed([SMALL] * 2, fake_gpu()[0], 1), (), "...same key"),
    (suite, ("fast",), "suite = 'fast': expected one of quick, standard, random"),
    (scheduled, ("zigzag",), "pattern = 'zigzag': expected one of serial, "),
    (partial(scheduled, chunks=1 << 20), ("serial",), "chunks = 1048576: ... calls, more than the 50000 that any run"),
    (lambda: plan(suite="standard", count=3), (), "...only the suites random and programs are drawn"),
    (compare, (a_record(FIRST),), "...no calibrated profile: give one with --device"),
    (read_record, ("older.json.gz",), "...schema_version = 2: this streamsim-validate reads 3;"),
    (read_record, ("list.json.gz",), "...is not a record"),
    *(
        (read_samples, (Path(name),), f"{name}...no calibration samples")
        for name in ("plain.gz", "object.gz", "damaged.gz", "torn.gz")
    ),
    *(
        (read_record, (name,), f"{name}: is not a record, or a damaged one (Expected `{said}")
        for name, said in (("long.json.gz", "float` <= 86400.0"), ("early.json.gz", "float` >= -86400.0"))
    ),
    (read_record, ("chains.json.gz",), "chains.json.gz: is not a record, or a damaged one (..."),
    (load_kernels, ("none_in_it.cu",), "...has no kernel"),
    (load_kernels, ("latin.cu",), "latin.cu: is not UTF-8 text"),
    (function_of, ("nothing.py",), "nothing.py: has no function kernels; define kernels(x, y)"),
    (function_of, ("exits.py",), "exits.py: cannot be run: SystemExit"),
    (check_language, ("cupy", ("one.py", "other.py")), "...2 files; give the one"),
    (widths, (8, Region("a", 0, 20)), "...reads 20 bytes at 0 of 'a', expected a multiple of 1"),
    (widths, (1, *[Region("a", 0, 1)] * 5), "...reads has 5 regions, more than 4"),
    (check_fits, (NEED, 73 << 20, 20 << 20), "...10 MiB of device memory are needed and 9 MiB are free"),
    (check_fits, (NEED, 74 << 20, 19 << 20), "...20 MiB of host memory are needed and 19 MiB are free"),
]


@pytest.mark.parametrize(("call", "arguments", "said"), CALLS, ids=range(len(CALLS)))
def test_a_value_is_refused_in_one_line(call: Callable[..., object], arguments: tuple[Any, ...], said: str) -> None:
    refusal(partial(call, *arguments), said)
