"""The outputs of a sweep that is never stopped, for the others to equal."""

from pathlib import Path

import pytest
from sweeps import small

from streamsim.search import write_sweep


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of one sweep, never stopped."""
    directory = tmp_path_factory.mktemp("whole")
    for form in ("csv", "jsonl"):
        write_sweep(small(), directory / f"out.{form}")
    return directory
