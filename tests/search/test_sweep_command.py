"""``streamsim sweep``: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from sweeps import said

from streamsim.analysis import kernel_assumptions
from streamsim.device import link_words, load_device
from streamsim.program import workload_of_sizes

# The command

WORK = "--h2d 64KiB --kernel 10us --d2h 64KiB"


def test_without_a_file_it_prints(capsys: pytest.CaptureFixture[str], whole: Path) -> None:
    """What is taken for granted is on stderr: the link, and what is assumed of kernels in the most chunks."""
    (line,) = kernel_assumptions(workload_of_sizes(["64KiB"], ["10us"], ["64KiB"]), 40, load_device("h200"))
    notes = f"streamsim: h200: {link_words('h200')}\nstreamsim: in 40 chunks {line}\n"
    notes += "streamsim: no --device given: h200\n"
    assert said(capsys, *WORK.split(), "--chunks", "1..40") == ((whole / "out.csv").read_text(), notes)
    assert said(capsys, *WORK.split(), "--chunks", "1..40", "--json") == ((whole / "out.jsonl").read_text(), notes)


def test_what_is_left_out_is_counted_with_the_first_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Of eight chunks of 16 KiB two are 32 KiB, and four are 64, which have no room; 20,000 cannot be issued."""
    options = "--elements 16Ki --buffers 2,4 --chunks 8,20000 --memory-limit 48KiB --json"
    out, err = said(capsys, *WORK.split(), *options.split())
    assert [(row["chunks"], row["buffers"]) for row in map(json.loads, out.splitlines())] == [(8, 2)]
    assert err.startswith("streamsim: 3 combinations left out, the first because chunks = 20000: ")
