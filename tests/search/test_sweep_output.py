"""The output of a sweep: stopped, killed, refused, and the same file in the end."""

import csv
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sweeps import NOTE, rows_of, small

from streamsim.cli import main
from streamsim.errors import InputError
from streamsim.files import try_lock
from streamsim.search import JOURNAL, read_rows, sweep_output, write_sweep
from streamsim.search.sweep_output import _decoded, _encoded


def test_every_format_holds_the_same_rows(whole: Path) -> None:
    rows = rows_of(small())
    for form in ("csv", "jsonl"):
        assert list(read_rows(whole / f"out.{form}")) == rows
    assert sorted(path.name for path in whole.iterdir()) == ["out.csv", "out.jsonl"]
    with open(whole / "out.csv", newline="") as file:
        assert [float(row["makespan_s"]) for row in csv.DictReader(file)] == [row["makespan_s"] for row in rows]


def test_whole_numbers_stay_whole_in_every_format(whole: Path) -> None:
    """A number of chunks that comes back as 4.0 cannot be given to anything that cuts."""
    for form in ("csv", "jsonl"):
        for row in read_rows(whole / f"out.{form}"):
            assert {name for name, value in row.items() if type(value) is int} == {
                "connections", "h2d_bytes", "d2h_bytes", "chunks", "streams",
            }  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_rule_of_the_card_is_read_back_as_the_text_that_it_is(tmp_path: Path, form: str) -> None:
    sweep = small("1", set=["compute.arbitration=ready-order,issue-order"])
    write_sweep(sweep, tmp_path / f"out.{form}")
    rows = list(read_rows(tmp_path / f"out.{form}"))
    assert [row["compute.arbitration"] for row in rows] == ["ready-order", "issue-order"]
    assert rows == rows_of(sweep)


class Stopped(Exception):  # noqa: N818 - no error
    pass


def stop_after(combinations: int) -> Any:
    def progress(done: int, _of_all: int) -> None:
        if done >= combinations:
            raise Stopped

    return progress


@pytest.mark.fault
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_stopped_sweep_goes_on_to_the_same_file(whole: Path, tmp_path: Path, form: str) -> None:
    """Stopped twice, with half a block written after the journal; the blocks are cut otherwise when it goes on.

    And with more than all that is left to write: what nobody takes note of has to be cut off, not only written over.
    """
    path = tmp_path / f"out.{form}"
    for stop, block, torn in ((7, 3, 1), (19, 5, 1000)):
        with pytest.raises(Stopped):
            write_sweep(small(), path, block=block, progress=stop_after(stop))
        with open(path, "ab") as file:
            file.write(b"h200,8,a row that was cut off in the mid" * torn)
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


SLOWLY = """
import time
from streamsim.search.sweep_output import _Output
append = _Output.append
_Output.append = lambda *what: (append(*what), time.sleep(0.05))
"""


@pytest.mark.fault
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_killed_sweep_goes_on_to_the_same_file(tmp_path: Path, form: str) -> None:
    """SIGKILL, SIGTERM and Ctrl-C, at whatever place it happens to be; then to the end."""
    options = ["--h2d", "1MiB", "--kernel", "10us", "--d2h", "1MiB", "--chunks", "1..100", "--streams", "4"]
    path, other = tmp_path / f"out.{form}", tmp_path / f"whole.{form}"
    codes = []
    for after, how in ((1, signal.SIGTERM), (1500, signal.SIGINT), (3000, signal.SIGKILL)):
        command = [sys.executable, "-c", SLOWLY + COUNTING, *options, "-o", str(path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while process.poll() is None and (not path.exists() or path.stat().st_size < after):
            time.sleep(0.002)
        process.send_signal(how)
        codes.append(process.wait())
        assert process.stderr is not None
        process.stderr.close()
    assert codes == [-signal.SIGTERM, 130, -signal.SIGKILL]
    assert path.with_name(path.name + JOURNAL).exists()
    for target in (path, other):
        assert main(["sweep", *options, "-o", str(target)]) == 0
    assert path.read_bytes() == other.read_bytes()
    assert [row["chunks"] for row in read_rows(path)] == list(range(1, 101))  # nothing lost, nothing twice


@pytest.mark.fault
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
    refused = pytest.raises(InputError, match=r"csv: an unfinished output of another sweep .*; choose another name")
    for k, (other, form) in enumerate(((small("1..41"), "csv"), (small(streams=["2"]), "csv"), (small(), "jsonl"))):
        with refused:
            write_sweep(other, path, form)
        theirs = tmp_path / f"{k}.csv"
        with pytest.raises(Stopped):
            write_sweep(other, theirs, form, block=5, progress=stop_after(5))
        with refused:  # and the other way round
            write_sweep(small(), theirs)
    assert path.read_bytes() == before
    write_sweep(small(), path)
    for again in (small(), small("1..41")):
        with pytest.raises(InputError, match=r"out.csv: is there already, and finished; choose another name"):
            write_sweep(again, path)


def test_an_output_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model may say something else."""
    with pytest.raises(Stopped):
        write_sweep(small(), tmp_path / "out.csv", block=5, progress=stop_after(5))
    monkeypatch.setattr(sweep_output, "version", lambda _: "0.0.0")
    with pytest.raises(InputError, match=r"an unfinished output of another sweep \(or of another version"):
        write_sweep(small(), tmp_path / "out.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="counts what is open in /proc")
def test_no_file_stays_open_whoever_is_refused_or_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor of an output that another process finished, and so took away, as its lock was asked for."""
    path, lock, seen = tmp_path / "out.csv", try_lock, list[int]()

    def taken_away_once(file: int) -> bool:
        if not seen:
            path.unlink()
        seen.append(file)
        return lock(file)

    def begin_another(_done: int, _of_all: int) -> None:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(InputError, match="writes a sweep to it"):
            write_sweep(small(), path)
        assert len(os.listdir("/proc/self/fd")) == before

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sweep_output, "try_lock", taken_away_once)
    write_sweep(small(), path, block=40, progress=begin_another)
    assert len(seen) == 3
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.fault
def test_a_sweep_that_is_done_needs_nothing_of_what_it_would_go_on_from(whole: Path, tmp_path: Path) -> None:
    """Somebody removes the journal as soon as the last rows are there: the sweep ends well."""
    path = tmp_path / "out.csv"

    def tidy_up(done: int, of_all: int) -> None:
        if done == of_all:
            path.with_name(path.name + JOURNAL).unlink()

    write_sweep(small(), path, progress=tidy_up)
    assert path.read_bytes() == (whole / path.name).read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_to_a_device_has_no_place_to_go_on_from() -> None:
    journal = write_sweep(small(), os.devnull)
    assert (journal.rows, journal.next, journal.bytes) == (40, 40, 0)


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(10))
    os.truncate(path, 10)
    with pytest.raises(InputError, match=r"out\.csv: is shorter than its journal says; remove both"):
        write_sweep(small(), path)
    path.with_name(path.name + JOURNAL).write_text("{}")
    with pytest.raises(InputError, match="is no journal of a sweep, or was edited; remove it and its output"):
        write_sweep(small(), path)


def test_rows_that_no_journal_knows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("rows of somebody\n")
    with pytest.raises(InputError, match=r"out\.csv: is there already, and finished"):
        write_sweep(small(), path)
    assert path.read_text() == "rows of somebody\n"


@pytest.mark.fault
@pytest.mark.parametrize("form", ["csv", "jsonl"])
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


@pytest.mark.fault
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
    ("right", "wrong"),
    [
        (b'"next":20', b'"next":21'),
        (b'"rows":20', b'"rows":19'),
        (b'"left_out":0', b'"left_out":1'),
        (b'"reason":""', b'"reason":"of nothing"'),
        (b'"fastest":["h200"', b'"fastest":["h100"'),
        (b'"fastest":["h200"', b'"fastest":[1e400'),
        (b",", b", "),
    ],
)
def test_a_journal_that_somebody_edited_is_refused(tmp_path: Path, form: str, right: bytes, wrong: bytes) -> None:
    """And nothing is cut off. One that says something else of the rows, but is whole, is refused as well."""
    path = tmp_path / f"out.{form}"
    journal = path.with_name(path.name + JOURNAL)
    with pytest.raises(Stopped):
        write_sweep(small(), path, block=5, progress=stop_after(20))
    before, text = path.read_bytes(), journal.read_bytes()
    assert right in text
    journal.write_bytes(text.replace(right, wrong, 1))
    with pytest.raises(InputError, match="is no journal of a sweep, or was edited; remove it and its output"):
        write_sweep(small(), path)
    shorter = replace(_decoded(text), bytes=len(before) - 1)
    journal.write_bytes(_encoded(shorter))
    with pytest.raises(InputError, match=r"is not what its journal .* says; remove both"):
        write_sweep(small(), path)
    assert path.read_bytes() == before
    journal.write_bytes(text)
    write_sweep(small(), path)
    assert list(read_rows(path)) == rows_of(small())


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize(("right", "wrong"), [(b"h200", b"h100"), (b",2,", b",7,"), (b"0.", b"9."), (b"\n", b" ")])
def test_rows_that_are_not_those_that_were_written_are_refused(
    tmp_path: Path, form: str, right: bytes, wrong: bytes
) -> None:
    """Of the same length, and most of them rows: what a damaged file system leaves, or a text editor."""
    path = tmp_path / f"out.{form}"
    with pytest.raises(Stopped):
        write_sweep(small(streams=["1,2"]), path, block=5, progress=stop_after(20))
    before = path.read_bytes()
    right, wrong = (right, wrong) if form == "csv" else (right.replace(b",2,", b":2,"), wrong.replace(b",7,", b":7,"))
    path.write_bytes(before.replace(right, wrong, 1))
    assert path.read_bytes() != before
    with pytest.raises(InputError, match=r"is not what its journal .* says; remove both"):
        write_sweep(small(streams=["1,2"]), path)
    assert path.read_bytes() == before.replace(right, wrong, 1)
    path.write_bytes(before)
    write_sweep(small(streams=["1,2"]), path)
    assert list(read_rows(path)) == rows_of(small(streams=["1,2"]))


def test_the_fastest_row_may_be_of_any_block(tmp_path: Path) -> None:
    """Half the work is fastest, and comes second of three."""
    sweep = small("1", scale=["1,0.5,2"])
    journal = write_sweep(sweep, tmp_path / "out.csv", block=1)
    assert journal.fastest == list(rows_of(sweep)[1].values())


def test_a_journal_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.with_name(path.name + JOURNAL).write_text('{"next": 5, "ch": ' + "[" * 5000 + "]" * 5000 + "}")
    with pytest.raises(InputError, match="is no journal of a sweep, or was edited; remove it and its output"):
        write_sweep(small(), path)


# As Windows has it


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the list of the files that are open")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_no_file_is_removed_or_replaced_while_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Windows refuses both."""
    unlink, replace = type(tmp_path).unlink, os.replace
    gone: list[str] = []

    def check_closed(path: Any) -> None:
        gone.append(str(path))
        numbers = os.listdir("/proc/self/fd")
        links = [os.path.realpath(f"/proc/self/fd/{number}") for number in numbers]
        assert os.path.realpath(path) not in links, path

    def watched_unlink(path: Path, missing_ok: bool = False) -> None:
        check_closed(path)
        unlink(path, missing_ok)

    def watched_replace(source: Any, target: Any) -> None:
        check_closed(source)
        check_closed(target)
        replace(source, target)

    monkeypatch.setattr(type(tmp_path), "unlink", watched_unlink)
    monkeypatch.setattr(os, "replace", watched_replace)
    path = tmp_path / f"out.{form}"
    write_sweep(small(), path)
    assert list(read_rows(path)) == rows_of(small())
    assert gone


@pytest.mark.parametrize("special", [False, True])
def test_rows_are_written_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, special: bool) -> None:
    """Without ``O_BINARY`` Windows would write two bytes for each line end, and the journal count one."""
    rows = os.devnull if special else tmp_path / "out.csv"
    flags: list[int] = []
    opened = os.open

    def watched_open(path: Any, how: int, *mode: int) -> int:
        if os.fspath(path) == os.fspath(rows):  # others are numba's
            flags.append(how)
        return opened(path, how & ~sweep_output.BINARY, *mode)

    monkeypatch.setattr(sweep_output, "BINARY", 1 << 30)
    monkeypatch.setattr(os, "open", watched_open)
    write_sweep(small(), rows, "csv")
    assert flags
    assert all(how & 1 << 30 for how in flags)
