"""Sweeps to run, and their rows."""

from typing import Any

import pytest

from streamsim.cli import main
from streamsim.search import SLOW, Sweep, is_fast, sweep_blocks, sweep_of

NOTE = "" if is_fast() else f"streamsim: {SLOW}\n"


def rows_of(sweep: Sweep, **how: Any) -> list[dict[str, Any]]:
    return [row for block in sweep_blocks(sweep, **how) for row in block.rows]


def small(chunks: str = "1..40", **more: list[str]) -> Sweep:
    return sweep_of({"h2d": ["64KiB"], "kernel": ["10us"], "d2h": ["64KiB"], "chunks": [chunks], **more})


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    code = main(["sweep", *arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err.removeprefix(NOTE)
