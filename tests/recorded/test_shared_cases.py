"""Small recordings after public cases, where their folder is there: beside the project, as ../shared/cases."""

import sqlite3
from pathlib import Path

import pytest
from made_recordings import SHARED

from streamsim.recorded import Replay, read_recording, replay, summarise, verdict_of

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


def test_the_record_of_an_awaited_event_is_found(tmp_path: Path) -> None:
    found = replayed("event_sync_2023.sql", tmp_path).recording
    assert found.calls.record.tolist() == [-1, -1, -1, 2, -1]
    assert not found.unread


def test_pages_that_move_are_an_amount_and_a_time(tmp_path: Path) -> None:
    replay = replayed("page_faults.sql", tmp_path)
    found = summarise(replay.recording)
    assert [(amount.what, amount.count, amount.bytes) for amount in found.pages] == [
        ("pages in, ahead of need", 2, 512 << 20)
    ]
    assert found.cards[0].pages_s == pytest.approx(0.11363)
    assert verdict_of(found.cards[0])[0].startswith("binds: pages of unified memory that nobody prefetched")
    assert not found.unread


def test_a_prefetch_binds(tmp_path: Path) -> None:
    (card,) = summarise(replayed("prefetch_holds_stream.sql", tmp_path).recording).cards
    assert max(card.engines, key=lambda use: use.busy_s).name == "unified memory"


def test_the_only_card_listed_is_meant_and_its_own_copies_give_its_rates(tmp_path: Path) -> None:
    found = replayed("amd_bytes_text.json", tmp_path)
    assert (found.recording.cards[0].id, found.recording.cards[0].name) == (2, "AMD Instinct MI300X VF")
    assert found.device.h2d.bandwidth_bytes_per_s == pytest.approx(50e9, rel=0.01)
    assert found.recording.work.bytes.max() == 100_000_000
