"""What the room refuses, commands and values: one line that begins with what is wrong, and no file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from layered import layers_of
from refusals import refusal
from strategies import make_device, pipeline_of, program
from sweeps import NOTE

from streamsim.cli import main
from streamsim.device import load_device
from streamsim.program import Config, HostWork, Layer, Workload, WorkloadKernel
from streamsim.search import Grid, best_offload, best_program, proposals, sweep

COMMANDS = [
    (
        "best --h2d 4KiB --max-chunks 1000000 --max-streams 1000",
        "chunks, streams = 1000000, 1000 numbers: a grid of 2000000000 programs, more than 1000000; give fewer",
    ),
    ("best --h2d 4KiB --order breadth-first --buffers 2", "an empty grid: buffers = 2: a ring"),
    ("best --h2d 4KiB --memory pageable --launch graph", "an empty grid: launch = 'graph': pageable"),
    (
        "best --h2d 4KiB --h2d-once 8 --memory-limit 8",
        "memory_limit_bytes = 8 (8 B): no program of the grid fits into so much of the card's memory; the smallest"
        " takes 40 B; the arrays that are copied once take 8 B of it: cut them, allow more, or take a larger card",
    ),
    (
        "best --h2d 4KiB --memory-limit 64 --order breadth-first",
        "memory_limit_bytes = 64 (64 B): no program of the grid fits into so much of the card's memory; the"
        " smallest takes 4 KiB; use buffers = 2, chunks = 256, depth-first over 2 streams: that holds 32 B",
    ),
    ("sweep --h2d 4KiB --chunks 4..1", "chunks = '4..1': expected a smaller and a larger number"),
    ("sweep --h2d 1KiB..4KiB", "h2d = '1KiB..4KiB': a range without a step"),
    (
        "sweep --h2d 4KiB --chunks 1..1000 --streams 1..1000 --format table",
        "1,000,000 combinations are too many for a table; give --output FILE or --format csv",
    ),
    ("sweep --h2d 4KiB --launch graph --memory pageable", "an empty grid: none of its 1 combinations can be issued: "),
    (
        "sweep --h2d 4KiB --elements 1 --chunks 2..10001 --streams 1..10001",
        "streams = 10001 values: a sweep of 100010000 combinations, more than 100000000; give larger steps",
    ),
    ("sweep --h2d 4KiB --device h200,h200", "device = 'h200': two profiles of this name"),
    ("sweep --h2d 4KiB --scale x", "scale = 'x': expected a number from 1e-09 to 1e+09"),
    ("sweep --h2d 4KiB -o x.gif", "x.gif: expected a file name that ends in one of .csv, .jsonl"),
    ("sweep --h2d 4KiB -o /dev/full", "/dev/full: cannot write it: no space left on device"),
    ("sweep --h2d 4KiB --workers 2 --dask tcp://127.0.0.1:1", "--workers, --dask: both spread the sweep; give one"),
    ("sweep --file bad.toml", "bad.toml: colour = 'red': unknown; expected one of"),
    ("sweep --file worse.toml", "worse.toml: chunks = {'a': 1}: expected a text, a number or a list of them"),
    ("sweep --file long.toml", "long.toml: chunks = a int too long to write: expected a number of fewer digits"),
]


@pytest.mark.parametrize(("line", "said"), COMMANDS)
def test_a_command_says_in_one_line_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text('colour = "red"\n')
    Path("worse.toml").write_text("chunks = {a = 1}\n")
    Path("broken.toml").write_text("chunks = [\n")
    Path("long.toml").write_text(f"chunks = 0x{'1' * 5000}\n")
    files = sorted(tmp_path.iterdir())
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    err = err.removeprefix(NOTE)
    assert (out, err.count("\n")) == ("", 1)
    assert err.removeprefix("streamsim: error: ").startswith(said)
    assert sorted(tmp_path.iterdir()) == files


IDEAL, ONE = load_device("ideal"), Layer(4, (WorkloadKernel(duration_s=1e-6),))
OFFLOADS: list[tuple[dict[str, Any], str]] = [
    (
        {"memory_limit_bytes": 8, "reserve_bytes": 3},
        "memory limit = 8 bytes (8 B): the largest layer, layer1, has 6 B of weights and 3 B are reserved",
    ),
    (
        {"memory_limit_bytes": 8, "reserve_bytes": 0, "pinned_limit_bytes": 5},
        "no way to place 10 B of weights fits into 8 B for weights on the card and 5 B pinned on the host; allow",
    ),
]
CONFIGS: list[tuple[dict[str, Any], str]] = [
    ({"order": "random"}, "order = 'random': expected one of"),
    ({"buffers": 2, "order": "breadth-first"}, "buffers = 2: a ring of buffers is issued depth-first"),
    ({"order": "serial", "streams": 2}, "streams = 2: the order serial has 1 stream of its own"),
    ({"order": "serial", "launch": "graph"}, "launch = 'graph': a serial program"),
    ({"memory": "pageable", "launch": "graph"}, "launch = 'graph': pageable copies"),
]
SWEPT: list[tuple[dict[str, Any], str]] = [
    ({"chunk": 4}, "chunk = 4: unknown; expected one of "),
    ({"chunks": []}, "chunks = []: expected a text, a number or a list of them"),
    ({"chunks": 2, "device": "h20o"}, "device = 'h20o': neither a shipped profile"),
]
VALUES: list[tuple[Callable[[], object], str]] = [
    *((partial(Config, **bad), said) for bad, said in CONFIGS),
    *((partial(sweep, **{"workload": pipeline_of(64), **asked}), said) for asked, said in SWEPT),
    *((partial(best_offload, layers_of((4, 5), (6, 3)), IDEAL, **more), said) for more, said in OFFLOADS),
    (lambda: best_program(program(HostWork(1.0)), make_device()), "ops: there is no copy and no kernel to cut"),
    (lambda: proposals(pipeline_of(8), [], make_device()), "configs = []: nothing to choose from"),
    (
        lambda: proposals(Workload(8, (4,), (4,), (WorkloadKernel("nobody"),)), [Config()], make_device()),
        "kernel 'nobody' with",
    ),
    (
        lambda: Grid(chunks=(9, 5, 7)).configs(pipeline_of(4)),
        "chunks = 5: an empty grid: the workload has at most 4 chunks",
    ),
    *(
        (partial(Grid, **{field: value}), f"{field} = {said}")  # type: ignore[arg-type]
        for field in ("chunks", "streams", "order", "buffers", "launch")
        for value, said in (((), "[]: an empty grid; give at least one"), ([1], "list: expected a tuple"))
    ),
    (lambda: sweep(pipeline_of(8), []), "devices = []: a sweep needs at least one"),
]


@pytest.mark.parametrize(("make", "said"), VALUES, ids=[said[:40] for _, said in VALUES])
def test_a_value_says_in_one_line_what_is_wrong(make: Callable[[], object], said: str) -> None:
    assert refusal(make).startswith(said)
