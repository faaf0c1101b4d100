"""Writing: what was there stays until the new file is whole."""

import gzip
import os
import stat
from pathlib import Path

import pytest

from streamsim import files
from streamsim.errors import InputError

# Writing


def write_half(path: Path, error: BaseException) -> None:
    with files.replacing(path) as file:
        file.write(b"half")
        file.flush()
        raise error


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    with pytest.raises(RuntimeError):
        write_half(path, RuntimeError())
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "new.json", KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == [path]
    files.write_bytes(b"x", tmp_path / "new.json")
    assert (tmp_path / "new.json").stat().st_mode == path.stat().st_mode  # that of any new file


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_may_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    path.chmod(0o400)
    with pytest.raises(InputError, match="cannot write it"):
        files.write_text("text", path)
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write it"):
        files.write_text("text", tmp_path / "new")
    tmp_path.chmod(0o700)
    assert path.read_text() == "before"


def test_a_link_stays_a_link_and_a_mode_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    files.write_text("after", link)
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    out, into = os.pipe()
    files.write_bytes(b"through", f"/dev/fd/{into}")
    assert os.read(out, 100) == b"through"
    os.close(out)
    os.close(into)
    files.write_bytes(b"gone", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o4755])
def test_a_file_that_root_replaces_stays_its_owners(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out.json"
    path.write_text("before")
    os.chown(path, 1234, 5678)
    path.chmod(mode)
    files.write_text("after", path)
    found = path.stat()
    assert (path.read_text(), found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == ("after", 1234, 5678, mode)


def test_a_name_that_says_gzip_is_kept_to(tmp_path: Path) -> None:
    for name in ("t.json.gz", "t.GZ"):
        for _ in range(2):
            with files.replacing_packed(tmp_path / name) as file:
                file.write(b"all of it")
        assert gzip.decompress((tmp_path / name).read_bytes()) == b"all of it"
    assert (tmp_path / "t.json.gz").read_bytes() == (tmp_path / "t.GZ").read_bytes()  # neither name nor time is in it
    with pytest.raises(RuntimeError), files.replacing_packed(tmp_path / "t.json.gz") as file:
        raise RuntimeError
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == b"all of it"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.GZ", "t.json.gz"]
