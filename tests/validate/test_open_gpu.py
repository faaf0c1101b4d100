"""The card's checks, where no card is needed: the lock, the errors, the versions."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from streamsim.errors import InputError
from streamsim_validate.gpu import CONNECTIONS_VARIABLE, NoGpuError, connections, import_cupy
from streamsim_validate.gpu.card import device_lock

HOLD = """
import sys, time
from streamsim_validate.gpu.card import device_lock
with device_lock("0000:01:00.0"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def hold() -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_validator_is_refused_and_the_lock_dies_with_its_holder() -> None:
    with hold() as process:
        refusal = r"another streamsim-validate is measuring on the GPU 0000:01:00\.0"
        with pytest.raises(InputError, match=refusal), device_lock("0000:01:00.0"):
            pass
        with device_lock("0000:02:00.0"):
            pass  # another card is free
        process.kill()
        process.wait()
    deadline = time.monotonic() + 120
    while True:
        try:
            with device_lock("0000:01:00.0"):
                return
        except InputError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="has no umask")
@pytest.mark.parametrize("left_over", [False, True])
def test_every_user_can_open_the_lock_file_whatever_the_umask(tmp_path: Path, left_over: bool) -> None:
    path = tmp_path / "streamsim-validate-x.lock"
    if left_over:
        path.touch(0o600)
    before = os.umask(0o077)
    try:
        with device_lock("x"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)


def refused(*_: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_another_users_lock_file_is_locked_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fchmod", refused, raising=False)
    with device_lock("x"), pytest.raises(InputError, match="another streamsim-validate"), device_lock("x"):
        pass


def test_a_lock_file_that_is_kept_from_us_is_not_evaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In another folder there would be another lock, and two would measure at once."""
    path = tmp_path / "streamsim-validate-x.lock"
    path.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(InputError) as caught, device_lock("x"):
        pass
    monkeypatch.undo()
    assert f"cannot make the lock file (Permission denied); let its owner run `chmod a+r {path}`" in str(caught.value)
    assert "TMPDIR" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="follows links")
def test_a_link_in_place_of_the_lock_file_opens_nothing_to_others(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    (tmp_path / "streamsim-validate-x.lock").symlink_to(secret)
    with pytest.raises(InputError, match=r"cannot make the lock file .*remove it"), device_lock("x"):
        pass
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_no_cupy_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NoGpuError, match=r"CuPy.*pip install '\.\[cuda13\]'") as caught:
        import_cupy()
    assert caught.value.exit_code == 3
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(("value", "found"), [("", 8), ("1", 1), ("32", 32), ("99", 32), ("0", 1), ("many", 8)])
def test_connections_as_the_driver_reads_them(monkeypatch: pytest.MonkeyPatch, value: str, found: int) -> None:
    monkeypatch.setenv(CONNECTIONS_VARIABLE, value)
    assert connections() == found
