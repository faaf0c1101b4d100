"""Records and journals: what is written is read, and what is damaged is one clear line."""

import gzip
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from effort import examples
from fake_gpu.cuda import CARD
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from small_record import MACHINE, RECORD, a_device

from streamsim.device import load_device
from streamsim.errors import InputError
from streamsim.files import dump_toml
from streamsim.program import Workload, depth_first
from streamsim_validate import records
from streamsim_validate.records.files import Line, fold
from streamsim_validate.suites import sincos

HEADER = records.Header(CARD, MACHINE, "quick", "0.1")
BEGINS = records.RunBegins(8, "2026-01-01T00:00:00+00:00", 0, 3)
SCHEDULE = depth_first(sincos(100, 2), 2, 2)


def entry(key: str = "x", n: int = 3, status: str = "ok") -> records.Entry:
    times = tuple(1e-3 + i * 1e-9 for i in range(n))
    return records.Entry(key, records.digest(SCHEDULE), status, True, None, SCHEDULE, times, times, times)


GROUPS = (
    records.Group(1, ()),
    records.Group(2, (("record", 0, 16, (records.Timing(1e-6, 3e-6, 2e-6),) * 3), ("wait", 0, 64, ()))),
)
RUN = RECORD.runs[0]
GROUPED = replace(RUN, entries=(*RUN.entries, replace(entry(), group=2)), groups=GROUPS)
WHOLE = replace(RECORD, runs=(GROUPED,))
PACKED = gzip.compress(msgspec.json.encode(WHOLE), 9, mtime=0)


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    records.write_record(WHOLE, tmp_path / "r.json.gz")
    found = records.read_record(tmp_path / "r.json.gz")
    assert found == WHOLE
    assert (tmp_path / "r.json.gz").read_bytes() == PACKED  # the same record, the same bytes
    assert found.runs[0].profile() == found.runs[0].profile("after") == a_device()
    for _, one in found.measured():
        assert records.digest(one.build()) == one.digest


def test_a_workload_without_outputs_or_kernels_stays_without(tmp_path: Path) -> None:
    recipe = records.Recipe("depth-first", {"chunks": 2, "streams": 1}, Workload(100, (4,)), "grid")
    run = replace(WHOLE.runs[0], entries=(records.Entry(recipe.key, records.digest(recipe.schedule()), recipe=recipe),))
    records.write_record(replace(WHOLE, runs=(run,)), tmp_path / "r.json.gz")
    assert records.read_record(tmp_path / "r.json.gz").runs[0].entries[0].recipe == recipe


@examples(150)
@given(st.data())
def test_a_damaged_record_is_one_clear_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Cut anywhere, or with bytes changed in the file or in what it unpacks to."""
    path = tmp_path_factory.mktemp("damage") / "r.json.gz"
    how = data.draw(st.sampled_from(["cut", "packed", "plain"]))
    damaged = bytearray(PACKED if how != "plain" else msgspec.json.encode(WHOLE))
    if how == "cut":
        damaged = damaged[: data.draw(st.integers(0, len(damaged) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(gzip.compress(damaged, 1) if how == "plain" else bytes(damaged))
    complaint = _complaint(path)
    assert complaint or how != "cut"  # with a digit changed it is still a record
    assert not complaint or complaint.startswith(str(path))
    assert "\n" not in complaint
    assert len(complaint) <= 520


def _complaint(path: Path) -> str:
    try:
        records.read_record(path)
    except InputError as error:
        return str(error)
    return ""


def test_a_record_is_what_it_holds_packed_or_not_and_whatever_its_name(tmp_path: Path) -> None:
    for name, data in (("r.json", gzip.decompress(PACKED)), ("r.journal", PACKED)):
        (tmp_path / name).write_bytes(data)
        assert records.read_record(tmp_path / name) == WHOLE
    with pytest.raises(InputError, match=r"x\.journal: is the name of an unfinished record"):
        records.check_unused(tmp_path / "x.journal")


def test_nobodys_file_of_another_kind_is_written_over(tmp_path: Path) -> None:
    profile = dump_toml(load_device("h200"))
    for name, content, kind in (("r.gz", PACKED, "record"), ("p.toml", profile.encode(), "device"), ("m", b"x", "")):
        (tmp_path / name).write_bytes(content)
        for other in ("record", "device", "samples"):
            refused = pytest.raises(InputError, match=rf"{name}: there is such a file already, and not ")
            with nullcontext() if kind == other else refused:
                records.check_replaceable(tmp_path / name, other)
    for name in ("new.toml", "empty"):
        (tmp_path / "empty").touch()
        records.check_replaceable(tmp_path / name, "device")


H200 = "calibrated on NVIDIA H200"


@pytest.mark.parametrize(
    ("description", "accepted"),
    [
        (f"NVIDIA H200 SXM, PCIe gen 5; {H200}, driver 580.1, 2026-01-01", True),
        (f"{H200}; latencies by hand", True),
        ("NVIDIA H100, from a data sheet", True),  # it says nothing of a calibration
        (f"{H200} NVL, driver 580.1", False),
        ("like NVIDIA H200; calibrated on NVIDIA GH200, driver 580.1", False),
    ],
)
def test_a_card_whose_name_contains_the_records_is_another(description: str, accepted: bool) -> None:
    profile = replace(load_device("ideal"), description=description)
    refused = pytest.raises(InputError, match=r"another card's profile .* the record is of NVIDIA H200:")
    with nullcontext() if accepted else refused:
        records.check_same_card(replace(CARD, name="NVIDIA H200"), profile)


# Journals


def journal(path: Path, lines: list[Line]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


@pytest.mark.fault
def test_a_torn_line_is_dropped_and_the_journal_goes_on(tmp_path: Path) -> None:
    path = journal(tmp_path / "x.journal", [HEADER, BEGINS, entry("a")])
    path.write_bytes(path.read_bytes() + b'{"line":"entry","key":"b","dig')
    assert [line.key for line in records.read_journal(path) if isinstance(line, records.Entry)] == ["a"]
    with records.Journal(path, HEADER) as open_journal:
        assert open_journal.complete(8, 3) == {"a"}
        open_journal.append(entry("b"))
    assert [line.key for line in records.read_journal(path) if isinstance(line, records.Entry)] == ["a", "b"]


def test_what_is_complete_is_not_measured_again(tmp_path: Path) -> None:
    lines: list[Line] = [
        HEADER, BEGINS, entry("whole"), entry("part", 2), entry("none", 0, "interrupted"),
        entry("failed", 0, "failed: x"), entry("large", 0, "skipped: x"), entry("deadly", 0, "lost: x"),
    ]  # fmt: skip
    path = journal(tmp_path / "x.journal", lines)
    with records.Journal(path, HEADER) as open_journal:
        assert open_journal.complete(8, 3) == {"whole", "large", "deadly"}
        assert open_journal.complete(1, 3) == set()


def test_a_schedule_measured_again_keeps_its_fuller_entry() -> None:
    lines: list[Line] = [HEADER, BEGINS, entry("a", 1), entry("b"), BEGINS, entry("a", 3)]
    found = fold(lines)
    assert [[(one.key, len(one.wall_s)) for one in run.entries] for run in found.runs] == [[("b", 3)], [("a", 3)]]
    assert [one.key for _, one in found.measured()] == ["b", "a"]


OTHER_CARD = replace(CARD, name="Another")


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        ([HEADER], replace(HEADER, suite="standard"), "its suite is 'quick' and this one 'standard'"),
        ([HEADER], replace(HEADER, card=OTHER_CARD), "its card is 'Emulated' and this one 'Another'"),
        ([HEADER, entry("a"), SCHEDULE], HEADER, r"x\.journal: line 3 is damaged"),
    ],
)
def test_a_journal_of_something_else_or_a_damaged_one_is_not_resumed(
    tmp_path: Path, lines: list[Any], header: records.Header, message: str
) -> None:
    path = journal(tmp_path / "x.journal", lines)
    before = path.read_bytes()
    with pytest.raises(InputError, match=message):
        records.Journal(path, header)
    assert path.read_bytes() == before


def test_finishing_turns_the_journal_into_the_record(tmp_path: Path) -> None:
    """A record that cannot be written leaves its journal."""
    record = tmp_path / "r.json.gz"
    path = journal(records.journal_path(record), [HEADER, BEGINS, entry("a"), records.RunEnds("later")])
    assert records.read_record(path).runs[0].entries == (entry("a"),)  # an unfinished one can be read too
    with pytest.raises(InputError, match="there is no folder"):
        records.finish(path, tmp_path / "no such folder" / "r.json.gz")
    assert path.exists()
    found = records.finish(path, record)
    assert records.read_record(record) == found
    assert not path.exists()


def test_a_journal_whose_record_is_there_is_not_gone_on_with(tmp_path: Path) -> None:
    record = tmp_path / "r.json.gz"
    path = journal(records.journal_path(record), [HEADER, BEGINS, entry("a"), records.RunEnds("later")])
    records.write_record(fold(records.read_journal(path)), record)
    made = record.read_bytes()
    for again in (lambda: records.Journal(path, HEADER).close(), lambda: records.finish(path, record)):
        with pytest.raises(InputError, match=r"r\.json\.gz: there is such a file already; move it away, or"):
            again()
    assert (record.read_bytes(), path.exists()) == (made, True)
