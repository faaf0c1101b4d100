"""Small recordings after public cases, where their folder is there: beside the project, as ../shared/cases."""

import sqlite3
from pathlib import Path

import pytest
from made_recordings import SHARED

from streamsim.recorded import Replay, read_recording, replay

CASES = SHARED.parent / "cases"
pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(not CASES.is_dir(), reason="no folder ../shared/cases beside the project"),
]


def replayed(name: str, folder: Path) -> Replay:
    path = CASES / name
    if path.suffix == ".sql":
        path = folder / "t.sqlite"
        with sqlite3.connect(path) as connection:
            connection.executescript((CASES / name).read_text())
        connection.close()
    return replay(read_recording(path))


@pytest.mark.parametrize(
    "name",
    [
        *("event_sync_2023.sql", "prefetch_holds_stream.sql", "page_faults.sql"),
        *("amd_bytes_text.json", "called_before.json", "one_block.json"),
        *("frees_in_loop.json", "free_holds_host.json"),
    ],
)
def test_a_recording_replays_in_about_its_time(name: str, tmp_path: Path) -> None:
    assert abs(replayed(name, tmp_path).error) < 0.03
