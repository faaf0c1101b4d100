"""A sweep: its rows are what the model says, in order, each once, whoever makes them and however often it is killed."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import pipeline_of

from streamsim.cli import main
from streamsim.cli.sweep import sweep_command
from streamsim.device.library import load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.config import Config
from streamsim.program.files import write_workload
from streamsim.program.patterns import breadth_first, build, serial
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.report.heatmap import HeatMap, plot_heatmap, save_heatmap
from streamsim.search.evaluate import SLOW, is_fast
from streamsim.search.sweep import RETRIES, Axis, Sweep, predict_block, scaled, sweep_blocks
from streamsim.search.sweep_output import JOURNAL, ROWS, read_rows, write_sweep
from streamsim.search.sweep_text import read_sweep, sweep, sweep_of
from streamsim.text.quantities import parse_bytes, parse_count
from streamsim.text.ranges import expand

NOTE = "" if is_fast() else f"streamsim: {SLOW}\n"
ASKED = {
    "device": ["a100,k20c"],
    "set": ["h2d.latency_s=1us,20us"],
    "h2d": ["64KiB..256KiB*2"],
    "kernel": ["10us"],
    "d2h": ["64KiB"],
    "order": ["depth-first,breadth-first,serial"],
    "buffers": ["all,2"],
    "chunks": ["1..5"],
    "streams": ["1,2"],
}


def rows_of(sweep: Sweep, **how: Any) -> list[dict[str, Any]]:
    return [dict(zip(sweep.columns, row, strict=True)) for block in sweep_blocks(sweep, **how) for row in block.rows]


def small(chunks: str = "1..40", **more: list[str]) -> Sweep:
    return sweep_of({"h2d": ["64KiB"], "kernel": ["10us"], "d2h": ["64KiB"], "chunks": [chunks], **more})


# What is in it


def test_every_row_is_what_predicting_it_gives() -> None:
    """Each combination by itself, straight from profile, pattern and SimPy; the order is that of nested loops."""
    expected = []
    for name, latency, h2d in product(("a100", "k20c"), (1e-6, 20e-6), (65536, 131072, 262144)):
        base = load_device(name)
        more = latency - base.h2d.latency_s  # the other latencies change by as much
        others = ("duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s")
        moved = {name: getattr(base.h2d, name) + more for name in others}
        link = msgspec.structs.replace(base.h2d, latency_s=latency, **moved)
        device = msgspec.structs.replace(base, h2d=link)
        workload = Workload(None, (h2d,), (65536,), (WorkloadKernel(duration_s=10e-6),))
        orders = ("depth-first", "breadth-first", "serial")
        for order, buffers, chunks, streams in product(orders, (None, 2), range(1, 6), (1, 2)):
            if (order != "depth-first" and buffers) or (order == "serial" and streams > 1):
                continue
            took = simulate(build(workload, order, chunks, streams, buffers), device).makespan_s
            alone = simulate(serial(workload), device).makespan_s
            expected.append(
                {
                    **{"device": name, "connections": device.connections, "h2d.latency_s": latency, "elements": None},
                    **{"h2d_bytes": h2d, "kernel_s": 10e-6, "d2h_bytes": 65536, "order": order, "chunks": chunks},
                    **{"streams": streams, "buffers": buffers, "memory": "pinned", "launch": "live"},
                    **{"makespan_s": took, "serial_s": alone, "speedup": pytest.approx(alone / took)},
                }
            )
    sweep = sweep_of(ASKED)
    assert rows_of(sweep) == expected
    left_out = sum(block.left_out for block in sweep_blocks(sweep))
    assert left_out == len(sweep) - len(expected) > 0


@pytest.mark.skipif(not is_fast(), reason="needs streamsim[fast]")
def test_both_evaluators_give_the_same_rows() -> None:
    more = {"memory": ["pinned,pageable"], "launch": ["live,graph"], "connections": ["1,8"]}
    sweep = sweep_of({**ASKED, **more})
    assert rows_of(sweep, fast=True) == rows_of(sweep, fast=False)


@examples(60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_combinations_are_those_of_nested_loops(lengths: list[int]) -> None:
    names = ("chunks", "streams", "buffers", "connections")
    axes = tuple(Axis(name, tuple(range(1, n + 1))) for name, n in zip(names, lengths, strict=False))
    sweep = Sweep(axes, (load_device("ideal"),), pipeline_of(8))
    loops = [dict(zip(names, values, strict=False)) for values in product(*(axis.values for axis in axes))]
    assert [sweep.point(i) for i in range(len(sweep))] == loops


@examples(20)
@given(st.integers(1, 30), st.integers(0, 29))
def test_rows_depend_neither_on_the_blocks_nor_on_where_it_starts(block: int, start: int) -> None:
    sweep = small("1..6", streams=["1,2,3"], order=["depth-first,serial"], connections=["1"])
    whole = list(predict_block(sweep, 0, len(sweep)).rows)
    cut = [row for part in sweep_blocks(sweep, block=block) for row in part.rows]
    assert cut == whole
    before = len(predict_block(sweep, 0, start).rows)
    assert [row for part in sweep_blocks(sweep, start, block=block) for row in part.rows] == whole[before:]


def test_sizes_kernels_and_devices_can_be_axes() -> None:
    sweep = small(
        "2", h2d=["64KiB", "128KiB,256KiB"], kernel=["1us,2us", "3us"], scale=["1,2"], connections=["1,8"],
        memory=["pinned,pageable"], launch=["live,graph"],
        set=["copy_engines.count=1,2", "compute.arbitration=ready-order"],
    )  # fmt: skip
    rows = rows_of(sweep)
    assert len(sweep) == 2**7 * 1
    assert len(rows) == len(sweep) * 3 // 4  # pageable graphs are left out
    assert {(row["h2d_bytes_1"], row["h2d_bytes_2"]) for row in rows} == {
        (65536 * k, n * k) for n in (131072, 262144) for k in (1, 2)
    }
    assert {row["kernel_s_1"] for row in rows} == {1e-6, 2e-6, 4e-6}
    assert {row["copy_engines.count"] for row in rows} == {1, 2}
    assert {row["connections"] for row in rows} == {1, 8}
    assert len(
        {tuple(v for k, v in row.items() if k not in ("makespan_s", "serial_s", "speedup")) for row in rows}
    ) == len(rows)


def test_a_workload_file_with_another_kernel_time(tmp_path: Path) -> None:
    kernels = (WorkloadKernel(duration_s=1e-3), WorkloadKernel("sincos", parameter=10))
    write_workload(Workload(1 << 16, (4, 8), (2,), kernels), tmp_path / "w.toml")
    asked = {"workload": [str(tmp_path / "w.toml")], "chunks": ["1,4"], "scale": ["1,2"]}
    rows = rows_of(sweep_of(asked))
    assert [row["elements"] for row in rows] == [1 << 16, 1 << 16, 1 << 17, 1 << 17]
    assert {row["kernel_s_2"] for row in rows} == {None}
    assert [row["h2d_bytes_2"] for row in rows] == [8 << 16, 8 << 16, 8 << 17, 8 << 17]
    with pytest.raises(InputError, match="kernel_s: 1 given; the workload has 2"):
        sweep_of({**asked, "kernel": ["1ms"]})
    both = rows_of(sweep_of({**asked, "kernel": ["1ms", "2ms"]}))
    assert {row["kernel_s_2"] for row in both} == {2e-3, 4e-3}


def test_scaling_a_workload_scales_its_elements_and_times() -> None:
    workload = Workload(1000, (4,), (8,), (WorkloadKernel(duration_s=1e-3),))
    assert scaled(workload, 2.5) == Workload(2500, (4,), (8,), (WorkloadKernel(duration_s=2.5e-3),))


def test_connections_are_those_of_every_engine() -> None:
    workload = Workload(16384, (4,), (4,), (WorkloadKernel(duration_s=10e-6),))
    schedule = breadth_first(workload, 8, 4)
    device = load_device("h200")
    took = [simulate(schedule, card).makespan_s for card in (device.with_connections(1), device)]
    assert took[0] != took[1]
    (row,) = rows_of(small("8", streams=["4"], order=["breadth-first"], connections=["1"]))
    assert row["makespan_s"] == took[0]


# Ranges


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7,)),
        ("1..4", (1, 2, 3, 4)),
        ("1..10+4", (1, 5, 9)),
        ("1..64*4", (1, 4, 16, 64)),
        ("1..60*4", (1, 4, 16)),
        ("1..8*1.5", (1, 2, 3, 5, 8)),  # 1, 1.5, 2.25, 3.375, 5.06, 7.59
        ("3,1,2..3,1", (3, 1, 2)),
        ("1Ki..4Ki*2", (1024, 2048, 4096)),
        ("5..5", (5,)),
    ],
)
def test_ranges(text: str, values: tuple[int, ...]) -> None:
    assert expand(text, "chunks", parse_count) == values


@given(st.integers(1, 50), st.integers(0, 100), st.integers(1, 7))
def test_a_range_with_a_step_is_pythons_range(first: int, more: int, step: int) -> None:
    assert expand(f"{first}..{first + more}+{step}", "n", parse_count) == tuple(range(first, first + more + 1, step))


@given(st.floats(1e-6, 1), st.integers(1, 20), st.sampled_from((1.1, 2, 1.5)))
def test_a_range_with_a_factor_ends_at_its_end_if_it_hits_it(first: float, n: int, factor: float) -> None:
    values = expand(f"{first!r}..{first * factor**n!r}*{factor}", "time", lambda text, _: float(text), whole=False)
    assert len(values) == n + 1
    assert (values[0], values[-1]) == (first, first * factor**n)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "chunks = '': expected a count"),
        ("0", "chunks = '0': "),
        ("4..1", "chunks = '4..1': an empty range"),
        ("1..", "chunks = '1..': expected a count"),
        ("..4", "chunks = '..4': expected a count"),
        ("1..4..8", "chunks = '4..8': expected a count"),
        ("1..8*1", "chunks = '...*1': expected a factor above 1"),
        ("1..8*x", "chunks = '...*x': expected a factor above 1"),
        ("1..8*inf", "chunks = '...*inf': expected a factor above 1"),
        ("1..8+0", "chunks = '0': "),
        ("1..8+2*2", "chunks = '1..8+2*2': expected a count"),
        ("1,,2", "chunks = '': expected a count"),
        ("1..5000000", "chunks = '1..5000000': more than 1000000 values"),
    ],
)
def test_bad_ranges_are_refused(text: str, named: str) -> None:
    with pytest.raises(InputError) as error:
        expand(text, "chunks", parse_count)
    assert str(error.value).startswith(named)


def test_a_range_of_sizes_needs_a_step() -> None:
    with pytest.raises(InputError, match=r"h2d = '1MiB\.\.4MiB': a range without a step; add one such as"):
        expand("1MiB..4MiB", "h2d", parse_bytes, step_by_one=False)


# Sweep files


def test_a_sweep_file_says_what_the_options_say(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'device = ["a100", "k20c"]\nh2d = "64KiB..256KiB*2"\nkernel = ["10us"]\nd2h = ["64KiB"]\n'
        'order = "depth-first,breadth-first,serial"\nbuffers = ["all", 2]\nchunks = "1..5"\nstreams = [1, 2]\n'
        'set."h2d.latency_s" = ["1us", "20us"]\n'
    )
    assert read_sweep(path) == sweep_of(ASKED)


def test_a_sweep_files_workload_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    write_workload(pipeline_of(64), tmp_path / "sub" / "w.toml")
    (tmp_path / "sub" / "sweep.toml").write_text('workload = "w.toml"\nchunks = "1..3"\n')
    assert read_sweep(tmp_path / "sub" / "sweep.toml").workload == pipeline_of(64)


# In Python


def test_python_says_what_the_options_say() -> None:
    texts = {name: values[0] for name, values in ASKED.items() if name not in ("device", "set")}
    axes = {**texts, "chunks": range(1, 6), "streams": [1, 2], "buffers": [None, 2]}
    found = sweep(None, ["a100", load_device("k20c")], set={"h2d.latency_s": [1e-6, "20us"]}, **axes)
    assert found == sweep_of(ASKED)
    assert list(found) == rows_of(found) == list(found.rows(fast=False))
    assert repr(found) == (
        "Sweep(720 combinations: device x 2, h2d.latency_s x 2, h2d_bytes x 3, kernel_s x 1, d2h_bytes x 1,"
        " order x 3, buffers x 2, chunks x 5, streams x 2)"
    )


def test_a_workload_is_swept_on_the_h200_unless_another_device_is_named() -> None:
    work = pipeline_of(64)
    assert [row["chunks"] for row in sweep(work, chunks="1..64*4")] == [1, 4, 16, 64]
    assert [row["device"] for row in sweep(work)] == ["h200"]
    assert [row["device"] for row in sweep(work, "a100", streams=2)] == ["a100"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"chunk": 4}, "'chunk': no axis of that name; expected one of "),
        ({"chunks": []}, "chunks = []: expected a text, a number or a list of them"),
        ({"chunks": 2, "device": "h20"}, "device = 'h20': neither a shipped profile"),
        ({"chunks": 4, "workload": None}, "no workload: give one, or what it copies and runs as h2d, kernel and d2h"),
    ],
)
def test_what_cannot_be_swept_is_named(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        sweep(**{"workload": pipeline_of(64), **asked})
    assert str(error.value).startswith(message)


# The output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of one sweep, never stopped."""
    directory = tmp_path_factory.mktemp("whole")
    for form in ("csv", "jsonl", "parquet"):
        write_sweep(small(), directory / f"out.{form}")
    return directory


def test_every_format_holds_the_same_rows(whole: Path) -> None:
    rows = rows_of(small())
    for form in ("csv", "jsonl", "parquet"):
        assert list(read_rows(whole / f"out.{form}")) == rows
    assert sorted(path.name for path in whole.iterdir()) == ["out.csv", "out.jsonl", "out.parquet"]
    with open(whole / "out.csv", newline="") as file:
        assert [float(row["makespan_s"]) for row in csv.DictReader(file)] == [row["makespan_s"] for row in rows]


class Stopped(Exception):  # noqa: N818 - no error
    pass


def stop_after(combinations: int) -> Any:
    def progress(done: int, _of_all: int) -> None:
        if done >= combinations:
            raise Stopped

    return progress


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_stopped_sweep_goes_on_to_the_same_file(whole: Path, tmp_path: Path, form: str) -> None:
    """Stopped twice, with half a block written after the journal; the blocks are cut otherwise when it goes on."""
    path = tmp_path / f"out.{form}"
    rows_path = path.with_name(path.name + ROWS) if form == "parquet" else path
    for stop, block in ((7, 3), (19, 5)):
        with pytest.raises(Stopped):
            write_sweep(small(), path, block=block, progress=stop_after(stop))
        with open(rows_path, "ab") as file:
            file.write(b"h200,8,a row that was cut off in the mid")
    done = []
    journal = write_sweep(small(), path, block=4, progress=lambda at, _: done.append(at))
    assert done[0] > 19  # it went on
    assert (journal.rows, journal.next) == (40, 40)
    assert path.read_bytes() == (whole / path.name).read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


COUNTING = (
    "import sys; from streamsim.cli import main; import streamsim.search.sweep as s; s.BLOCK_ROWS = 2;"
    "sys.exit(main(['sweep', *sys.argv[1:]]))"
)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_killed_sweep_goes_on_to_the_same_file(tmp_path: Path, form: str) -> None:
    """SIGKILL, at whatever place it happens to be, several times; then to the end."""
    options = ["--h2d", "1MiB", "--kernel", "10us", "--d2h", "1MiB", "--chunks", "1..200", "--streams", "4"]
    path, other = tmp_path / f"out.{form}", tmp_path / f"whole.{form}"
    kills = 0
    for after in (1, 3000, 6000):
        process = subprocess.Popen([sys.executable, "-c", COUNTING, *options, "-o", str(path)], stderr=subprocess.PIPE)
        while process.poll() is None and (not path.exists() or path.stat().st_size < after):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        assert process.stderr is not None
        process.stderr.close()
    assert kills == 3
    assert path.with_name(path.name + JOURNAL).exists()
    for target in (path, other):
        assert main(["sweep", *options, "-o", str(target)]) == 0
    assert path.read_bytes() == other.read_bytes()
    assert [row["chunks"] for row in read_rows(path)] == list(range(1, 201))  # nothing lost, nothing twice


def test_a_file_that_cannot_grow_is_one_line_and_the_sweep_goes_on_later(whole: Path, tmp_path: Path) -> None:
    """A limit on file sizes stands for a full disk: the write stops half-way through a row."""
    path = tmp_path / "out.csv"
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
    options = ["--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40"]
    # -P: the streamsim of these tests, whose compiled code is cached by now, not that of the folder they run in.
    command = [sys.executable, "-P", "-c", limit + COUNTING, *options, "-o", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.removeprefix(NOTE) == (
        f"streamsim: error: {path}: cannot write it: file too large;"
        " make room, and the same command goes on where it stopped\n"
    )
    write_sweep(small(), path)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_an_output_of_another_sweep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(5))
    before = path.read_bytes()
    for other, form in ((small("1..41"), "csv"), (small(streams=["2"]), "csv"), (small(), "jsonl")):
        with pytest.raises(InputError, match=r"out.csv: an unfinished output of another sweep .*; choose another name"):
            write_sweep(other, path, form)
    assert path.read_bytes() == before
    write_sweep(small(), path)
    for again in (small(), small("1..41")):
        with pytest.raises(InputError, match=r"out.csv: is there already, and finished; choose another name"):
            write_sweep(again, path)


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(10))
    os.truncate(path, 10)
    with pytest.raises(InputError, match=r"out\.csv: is shorter than its journal says; remove both"):
        write_sweep(small(), path)
    path.with_name(path.name + JOURNAL).write_text("{}")
    with pytest.raises(InputError, match="is no journal of a sweep; remove it"):
        write_sweep(small(), path)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_second_sweep_on_one_output_is_refused_and_the_first_goes_on(whole: Path, tmp_path: Path, form: str) -> None:
    """The same sweep or another, begun while the first writes; whoever comes after it finds it finished."""
    path = tmp_path / f"out.{form}"
    refused = 0

    def begin_another(_done: int, _of_all: int) -> None:
        nonlocal refused
        for other in (small(), small("1..41")):
            with pytest.raises(InputError) as error:
                write_sweep(other, path)
            refused += str(error.value) == (
                f"{path}: process {os.getpid()} on {socket.gethostname()} writes a sweep to it; wait for it, or choose"
                " another output"
            )

    write_sweep(small(), path, block=20, progress=begin_another)
    assert refused == 4
    with pytest.raises(InputError, match="is there already, and finished"):
        write_sweep(small(), path)
    assert path.read_bytes() == (whole / path.name).read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_processes_that_begin_at_once_leave_one_whole_file(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    options = ["--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40", "-o", str(path)]
    began = [
        subprocess.Popen([sys.executable, "-c", COUNTING, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate()[1].decode().removeprefix(NOTE) for process in began]
    assert sorted(process.returncode for process in began) == [0, 2]
    assert re.search("writes a sweep to it|is there already, and finished", "".join(said))
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"next": -1},
        {"next": 1_000_000},
        {"next": 1_000_000, "left_out": 1_000_000 - 20},
        {"bytes": 10},
        {"bytes": -1},
        {"bytes": 0},
        {"rows": 19, "left_out": 1},
        {"rows": "many"},
        {"fewer bytes": 1},
    ],
)
def test_a_journal_that_the_rows_do_not_bear_out_is_refused(tmp_path: Path, form: str, wrong: dict[str, Any]) -> None:
    """And nothing is cut off."""
    path = tmp_path / f"out.{form}"
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(20))
    journal = json.loads(path.with_name(path.name + JOURNAL).read_bytes())
    wrong = {"bytes": journal["bytes"] - 1} if "fewer bytes" in wrong else wrong
    path.with_name(path.name + JOURNAL).write_text(json.dumps(journal | wrong))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"is not what its journal .* says; remove both|is no journal of a sweep"):
        write_sweep(small(), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_fastest_row_is_that_of_the_file_whatever_the_journal_says(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"out.{form}"
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(20))
    journal = json.loads(path.with_name(path.name + JOURNAL).read_bytes())
    path.with_name(path.name + JOURNAL).write_text(json.dumps(journal | {"fastest": ["h200", 0]}))
    written = write_sweep(small(), path)
    fastest = min(rows_of(small()), key=lambda row: row["makespan_s"])
    assert written.fastest == list(fastest.values())


# Executors


class OutOfOrder(Executor):
    """Runs what it is given only when it is asked for the result, in any order; the first ``failures`` tries fail."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures
        self.pool = ThreadPoolExecutor(4)
        self.submitted = 0
        self._lock = threading.Lock()

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.submitted += 1
        turn = self.submitted

        def run() -> Any:
            time.sleep(0.02 * (turn % 3 == 1))  # the first of three comes last
            with self._lock:
                fails, self._failures = self._failures > 0, self._failures - 1
            if fails:
                raise RuntimeError("a worker died")
            return function(*arguments, **more)

        return self.pool.submit(run)


def test_the_order_in_which_blocks_come_back_does_not_matter(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_sweep(small(), path, executor=OutOfOrder(), block=2)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_a_block_that_fails_is_tried_again(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    executor = OutOfOrder(failures=RETRIES)
    write_sweep(small(), path, executor=executor, block=2)
    assert executor.submitted == 20 + RETRIES
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_a_block_that_keeps_failing_is_one_line_and_the_sweep_goes_on_later(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    executor = OutOfOrder()
    with pytest.raises(InputError) as error:
        write_sweep(small(), path, executor=executor, block=2, retries=1, progress=lambda *_: executor.__init__(99))  # type: ignore[misc]
    assert "failed 2 times on the executor: RuntimeError: a worker died" in str(error.value)
    write_sweep(small(), path)
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_only_a_few_blocks_are_given_away_at_a_time() -> None:
    executor = OutOfOrder()
    blocks = sweep_blocks(small("1..200"), executor=executor, block=1)
    next(iter(blocks))
    assert executor.submitted <= 16


class Broken(Executor):
    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:  # noqa: ARG002
        raise BrokenProcessPool("a process died")


def test_an_executor_that_is_gone_is_one_line() -> None:
    with pytest.raises(InputError, match="the executor takes no more work: BrokenProcessPool: a process died"):
        list(sweep_blocks(small(), executor=Broken()))


def test_processes_give_the_same_file(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.csv"
    options = ["--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40", "--workers", "2"]
    assert main(["sweep", *options, "-o", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_a_million_combinations_take_little_memory() -> None:
    """The first and the last block of a million, in 60 MB more than the imports: nothing is laid out in advance."""
    code = (
        "import resource; from streamsim.search.sweep import predict_block as predict;"
        "from streamsim.search.sweep_text import sweep_of; from streamsim.model import simulate;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak();"
        "s = sweep_of({'kernel': ['1us..1000us+1us'], 'h2d': ['4MiB'], 'chunks': ['1..100'], 'streams': ['1..10']});"
        "assert len(s) == 1000000; predict(s, 0, 100, False); predict(s, len(s) - 10, len(s), False);"
        "print(peak() - before)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 60_000  # KiB


# The picture


def test_the_heat_map_shows_the_fastest_of_each_cell_and_marks_the_optimum() -> None:
    rows = [
        {"chunks": n, "streams": s, "order": order, "makespan_s": (n - 4) ** 2 + s + extra}
        for n, s, (order, extra) in product((1, 2, 4, 8), (1, 2), (("depth-first", 1), ("breadth-first", 0)))
    ]
    heat = HeatMap()
    heat.add(rows)
    assert heat.cells == {(n, s): (n - 4) ** 2 + s for n, s in product((1, 2, 4, 8), (1, 2))}
    assert heat.optimum == (4, 1)
    ax = plot_heatmap(heat)
    image = ax.images[0].get_array()
    assert image is not None
    assert image.shape == (2, 4)
    assert image[1, 3] == (8 - 4) ** 2 * 1e3 + 2e3
    star = ax.lines[0]
    assert (list(star.get_xdata()), list(star.get_ydata())) == ([2], [0])  # column of 4 chunks, row of 1 stream
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "4", "8"]


def test_the_same_rows_give_the_same_picture(tmp_path: Path) -> None:
    heat = HeatMap("chunks", "device")
    heat.add(rows_of(small("1..4", device=["a100,h200"])))
    for name in ("a.png", "b.png", "a.svg", "b.svg"):
        save_heatmap(heat, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


# The command

WORK = "--h2d 64KiB --kernel 10us --d2h 64KiB"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    code = main(["sweep", *arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err.removeprefix(NOTE)


def test_without_a_file_it_prints(capsys: pytest.CaptureFixture[str], whole: Path) -> None:
    assert said(capsys, *WORK.split(), "--chunks", "1..40") == ((whole / "out.csv").read_text(), "")
    assert said(capsys, *WORK.split(), "--chunks", "1..40", "--json") == ((whole / "out.jsonl").read_text(), "")


def test_it_sums_up_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = [*WORK.split(), "--elements", "16Ki", "--chunks", "1..4,20000", "--streams", "1,2"]
    out, err = said(capsys, *options, "-o", str(tmp_path / "o.jsonl"), "--plot", str(tmp_path / "m.svg"))
    rows = list(read_rows(tmp_path / "o.jsonl"))
    fastest = min(rows, key=lambda row: row["makespan_s"])
    assert out.startswith(f"8 rows in {tmp_path / 'o.jsonl'}; the fastest: device h200, chunks {fastest['chunks']},")
    assert err == (
        "streamsim: 2 combinations that cannot be issued were left out, the first because"
        " chunks = 20000: more chunks than elements (16384); use at most 16384\n"
    )
    assert (tmp_path / "m.svg").read_text().lstrip().startswith("<?xml")


def test_options_win_over_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('h2d = "64KiB"\nkernel = "10us"\nd2h = "64KiB"\nchunks = "1..40"\n')
    out, _ = said(capsys, "--file", str(tmp_path / "s.toml"), "--chunks", "7", "--json")
    assert json.loads(out)["chunks"] == 7


def test_every_example_in_the_help_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
    import shlex

    monkeypatch.chdir(tmp_path)
    write_workload(pipeline_of(1 << 20), tmp_path / "workload.toml")
    text = sweep_command.get_help(sweep_command.make_context("streamsim sweep", []))
    examples = [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("    streamsim sweep ")]
    assert len(examples) == 4
    for example in examples:
        said(capsys, *example)
    assert {"sweep.csv", "devices.jsonl", "map.png"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "no workload: give --h2d SIZE"),
        ("--h2d 4KiB --chunks 4..1", "chunks = '4..1': an empty range"),
        ("--h2d 4KiB --chunks x", "chunks = 'x': "),
        ("--h2d 1KiB..4KiB", "h2d = '1KiB..4KiB': a range without a step"),
        ("--h2d 4KiB --kernel 4KiB", "kernel = '4KiB': "),
        ("--h2d 4KiB --order random", "order = 'random': expected one of"),
        ("--h2d 4KiB --memory managed", "memory = 'managed': "),
        ("--h2d 4KiB --launch graph --memory pageable", "an empty grid: none of its 1 combinations can be issued: "),
        ("--h2d 4KiB --chunks 2000", "an empty grid: none of its 1 combinations can be issued: chunks = 2000: more"),
        (
            "--h2d 4KiB --elements 1 --chunks 2..10001 --streams 1..10001",
            "streams = 10001 values: a sweep of 100010000 combinations, more than 100000000; give larger steps",
        ),
        (
            "--h2d 4KiB --elements 1 --chunks 2..10001 --streams 1..10000",  # refused without looking at them all
            "an empty grid: none of its 100000000 combinations can be issued: chunks = 2: more chunks than",
        ),
        ("--h2d 4KiB --device b200", "device = 'b200': "),
        ("--h2d 4KiB --device h200,h200", "device = 'h200': two profiles of this name"),
        ("--h2d 4KiB --chunks=", "chunks = '': "),
        ("--h2d 4KiB --connections 0", "connections = '0': "),
        ("--h2d 4KiB --connections 33", "connections = '33': "),
        ("--h2d 4KiB --scale 0", "scale = '0': "),
        ("--h2d 4KiB --elements 1000", "an empty grid: none of its 1 combinations can be issued: elements = 1000: "),
        ("--h2d 4KiB --set h2d.latency_s", "set = 'h2d.latency_s': expected NAME=VALUES"),
        ("--h2d 4KiB --set h2d.latenzy_s=1us", "'h2d.latenzy_s': no number or rule of a device profile"),
        ("--h2d 4KiB --set h2d.latency_s=1GB/s", "h2d.latency_s = '1GB/s': "),
        ("--h2d 4KiB --set copy_engines.count=3", "an empty grid: none of its 1 combinations can be issued: copy_"),
        ("--h2d 4KiB --buffers none", "buffers = 'none': "),
        ("--h2d 4KiB -o x.gif", "x.gif: expected a file name that ends in one of .csv, .jsonl, .parquet"),
        ("--h2d 4KiB -o none/x.csv", "none/x.csv: cannot write it: no such file"),
        ("--h2d 4KiB -o .", ".: cannot write it: is a directory"),
        ("--h2d 4KiB -o /dev/full", "/dev/full: cannot write it: no space left on device"),
        ("--h2d 4KiB -o /proc/x.csv", "/proc/x.csv: cannot write it: "),
        ("--h2d 4KiB --format parquet", "--format parquet: needs a file"),
        ("--h2d 4KiB --plot m.png", "--plot: draws the rows of a file"),
        ("--h2d 4KiB -o x.csv --plot m.gif", "m.gif: expected a file name that ends in"),
        ("--h2d 4KiB -o x.csv --plot m.png --plot-by chunks,colour", "--plot-by chunks,colour: expected two of"),
        ("--h2d 4KiB --workers 2 --dask tcp://127.0.0.1:1", "--workers, --dask: give one of them"),
        ("--h2d 4KiB --retries -1", "Invalid value for '--retries': -1"),
        ("--file none.toml", "none.toml: cannot read it: no such file"),
        ("--file bad.toml", "bad.toml: colour = 'red': unknown; expected one of"),
        ("--file worse.toml", "worse.toml: chunks = {'a': 1}: expected a text, a number or a list of them"),
        ("--file broken.toml", "broken.toml: cannot be read: "),
        ("none.toml", "none.toml: cannot read it: no such file"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any, options: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text('colour = "red"\n')
    Path("worse.toml").write_text("chunks = {a = 1}\n")
    Path("broken.toml").write_text("chunks = [\n")
    files = {path.name for path in tmp_path.iterdir()}
    assert main(["sweep", *options.split()]) == 2
    out, err = capsys.readouterr()
    err = err.removeprefix(NOTE)
    assert (out, err.count("\n")) == ("", 1)
    assert err.removeprefix("streamsim: error: ").startswith(named)
    assert {path.name for path in tmp_path.iterdir()} == files


def test_values_check_themselves() -> None:
    device = (load_device("ideal"),)
    for axes, named in (
        ((Axis("chunks", (1,)), Axis("chunks", (2,))), "chunks: stands twice"),
        ((Axis("colour", (1,)),), "'colour': no axis of that name"),
    ):
        with pytest.raises(InputError, match=named):
            Sweep(axes, device, pipeline_of(8))
    with pytest.raises(InputError, match="empty axis"):
        Axis("chunks", ())
    with pytest.raises(InputError, match="no workload"):
        Sweep((Axis("chunks", (1,)),), device)
    with pytest.raises(InputError, match="devices"):
        Sweep((Axis("chunks", (1,)),), (), pipeline_of(8))
    assert Config().schedule(pipeline_of(8)) == build(pipeline_of(8))
