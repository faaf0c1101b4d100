"""A sweep: its rows are what the model says, in order, each once, whoever makes them and however often it is killed."""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import pipeline_of
from sweeps import rows_of, small

from streamsim import program
from streamsim.device import known_within, load_device
from streamsim.errors import InputError
from streamsim.files import write_toml
from streamsim.model import simulate
from streamsim.search import Axis, Sweep, Swept, read_asked, sweep, sweep_blocks, sweep_of

MODULE = sys.modules["streamsim.search.sweep"]  # whose name in the room is the function's
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
        workload = program.Workload(None, (h2d,), (65536,), (program.WorkloadKernel(duration_s=10e-6),))
        orders: tuple[program.Order, ...] = ("depth-first", "breadth-first", "serial")
        for order, buffers, chunks, streams in product(orders, (None, 2), range(1, 6), (1, 2)):
            if (order != "depth-first" and buffers) or (order == "serial" and streams > 1):
                continue
            took = simulate(program.build(workload, order, chunks, streams, buffers=buffers), device).makespan_s
            alone = simulate(program.serial(workload), device).makespan_s
            expected.append(
                {
                    **{"device": name, "connections": device.connections, "h2d.latency_s": latency, "elements": None},
                    **{"h2d_bytes": h2d, "kernel_s": 10e-6, "d2h_bytes": 65536, "order": order, "chunks": chunks},
                    **{"h2d_once_bytes": None, "d2h_once_bytes": None, "kernel_launches": None},
                    **{"host_work_s": None, "host_load_s": None},
                    **{"streams": streams, "buffers": buffers, "memory": "pinned", "launch": "live"},
                    **{"makespan_s": took, "serial_s": alone, "speedup": pytest.approx(alone / took)},
                    "known_within": known_within(device) or None,
                }
            )
    sweep = sweep_of(ASKED)
    assert rows_of(sweep) == expected
    *_, last = sweep_blocks(sweep)
    assert last.left_out == len(sweep) - len(expected) > 0


@examples(60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_combinations_are_those_of_nested_loops(lengths: list[int]) -> None:
    names = ("chunks", "streams", "buffers", "connections")
    axes = tuple(Axis(name, tuple(range(1, n + 1))) for name, n in zip(names, lengths, strict=False))
    sweep = Sweep(axes[:1], axes[1:2], axes[2:], (load_device("ideal"),), pipeline_of(8))
    loops = [dict(zip(names, values, strict=False)) for values in product(*(axis.values for axis in axes))]
    assert [sweep.point(i) for i in range(len(sweep))] == loops


@examples(20)
@given(st.integers(1, 30), st.integers(0, 29))
def test_rows_depend_neither_on_the_blocks_nor_on_where_it_starts(block: int, start: int) -> None:
    sweep = small("1..6", streams=["1,2,3"], order=["depth-first,serial"], connections=["1"])
    whole = rows_of(sweep, block=len(sweep))
    assert rows_of(sweep, block=block) == whole
    before = sum(len(one.rows) for one in sweep_blocks(sweep, block=1) if one.stop <= start)
    assert rows_of(sweep, before=Swept(start), block=block) == whole[before:]


def test_a_workloads_file_with_other_sizes_and_times(tmp_path: Path) -> None:
    """One for each array and kernel that it has, in bytes."""
    kernels = (program.WorkloadKernel(duration_s=1e-3), program.WorkloadKernel("sincos", parameter=10))
    write_toml(program.Workload(1 << 16, (4, 8), (2,), kernels), tmp_path / "w.toml")
    asked = {"workload": [str(tmp_path / "w.toml")]}
    rows = rows_of(sweep_of({**asked, "h2d": ["64KiB,128KiB", "64KiB"]}))
    assert [(row["h2d_bytes_1"] >> 16, row["d2h_bytes"] >> 16) for row in rows] == [(1, 2), (2, 2)]
    assert {row["kernel_s_2"] for row in rows} == {None}
    with pytest.raises(InputError, match="kernel_s: 1 given; the workload has 2"):
        sweep_of({**asked, "kernel": ["1ms"]})
    launches = sweep_of({**asked, "kernel": ["25ms/600", "2ms"]})
    assert [kernel.name for kernel in launches.workload_at(launches.point(0)).kernels] == ["kernel", "sincos"]
    (row,) = rows_of(launches)
    assert (row["kernel_s_1"], row["kernel_launches_1"], row["kernel_launches_2"]) == (25e-3, 600, None)


# Sweep files


def test_a_sweep_file_says_what_the_options_say(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'device = ["a100", "k20c"]\nh2d = "64KiB..256KiB*2"\nkernel = ["10us"]\nd2h = ["64KiB"]\n'
        'order = "depth-first,breadth-first,serial"\nbuffers = ["all", 2]\nchunks = "1..5"\nstreams = [1, 2]\n'
        'set."h2d.latency_s" = ["1us", "20us"]\n'
    )
    assert sweep_of(read_asked(path)) == sweep_of(ASKED)
    write_toml(pipeline_of(64), tmp_path / "w.toml")
    path.write_text('workload = "w.toml"\nchunks = "1..3"\n')  # which lies beside it
    assert sweep_of(read_asked(path)) == sweep(pipeline_of(64), chunks=[1, 2, 3])


# In Python


def test_python_says_what_the_options_say() -> None:
    """Arrays that are copied once are arrays, not axes; the usual device is an H200."""
    once = sweep(h2d="64KiB", kernel="10us", h2d_once=["1KiB", "2KiB"], d2h_once="16B", elements="16Ki").workload
    assert (once.h2d_once, once.d2h_once, once.elements) == ((1024, 2048), (16,), 16384)
    assert [row["device"] for row in sweep(pipeline_of(64))] == ["h200"]
    cards = {"front_end": "calls", "connections": [1, 8], "memory_limit": "1GiB"}
    assert [row["connections"] for row in sweep(pipeline_of(64), "k20c", **cards)] == [1, 8]
    texts = {name: values[0] for name, values in ASKED.items() if name not in ("device", "set")}
    axes = {**texts, "chunks": range(1, 6), "streams": [1, 2], "buffers": [None, 2]}
    found = sweep(None, ["a100", load_device("k20c")], set={"h2d.latency_s": [1e-6, "20us"]}, **axes)
    assert found == sweep_of(ASKED)
    assert list(found) == rows_of(found) == rows_of(found, fast=False)


def test_a_number_that_is_no_text_is_in_seconds_whole_or_not() -> None:
    times: dict[str, Any] = {"kernel": ["1s", "0.5s", "2s"], "host_work": "0s,1s", "host_load": "3s"}
    numbers: dict[str, Any] = {"kernel": [1, 0.5, 2.0], "host_work": range(2), "host_load": 3}
    one: dict[str, Any] = {"h2d": "1MiB", "device": "h200", "chunks": 2}
    said = sweep(**one, **times, set={"h2d.latency_s": "1s,2us", "compute.concurrent_kernels": "16"})
    asked = sweep(**one, **numbers, set={"h2d.latency_s": [1, 2e-6], "compute.concurrent_kernels": 16})
    assert rows_of(asked) == rows_of(said)


@pytest.mark.parametrize(("most", "is_refused"), [(5, True), (4, False), (100, True)])
def test_a_sweep_is_refused_once_all_is_known_to_be_and_never_before(
    monkeypatch: pytest.MonkeyPatch, most: int, is_refused: bool
) -> None:
    """Five latencies of a program in more chunks than it has elements: no more than so many are looked at."""
    monkeypatch.setattr(MODULE, "MOST_REFUSED", most)
    asked: dict[str, Any] = {"elements": ["4"], "set": ["h2d.latency_s=1us,2us,3us,4us,5us"]}
    if is_refused:
        with pytest.raises(InputError, match="none of its 5 combinations can be issued: chunks = 7: more chunks than"):
            small("7", **asked)
    else:
        assert rows_of(small("7", **asked)) == []
    assert len(rows_of(small("7,4", **asked))) == 5
