"""A sweep on a real Dask cluster: a scheduler and two worker processes on this machine."""

import os
import signal
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sweeps import small

from streamsim.cli import main
from streamsim.search import write_sweep

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs Dask")

OPTIONS = ["sweep", "--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..40"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    quiet = {"silence_logs": 50, "dashboard_address": "127.0.0.1:0"}
    distributed = import_module("distributed")  # half a second, for those tests alone
    with distributed.LocalCluster(2, threads_per_worker=1, processes=True, host="127.0.0.1", **quiet) as local:
        yield local


def test_a_cluster_found_by_its_address_gives_the_same_file(
    cluster: Any, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.csv"
    assert main([*OPTIONS, "-o", str(path), "--dask", cluster.scheduler_address]) == 0
    assert capsys.readouterr().err == ""
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


@pytest.mark.fault
def test_a_worker_that_dies_in_the_middle_loses_nothing(cluster: Any, whole: Path, tmp_path: Path) -> None:
    """SIGKILL to one of the two: Dask runs its block again; every row is there, and none twice."""
    path = tmp_path / "out.csv"
    with import_module("distributed").Client(cluster) as client:
        before = client.run(os.getpid)
        killed: list[int] = []

        def progress(done: int, _of_all: int) -> None:
            if done >= 10 and not killed:
                busy = {address for address, keys in client.processing().items() if keys}
                killed.append(before[min(busy or before)])
                os.kill(killed[0], signal.SIGKILL)

        write_sweep(small(), path, executor=client, block=1, progress=progress)
    assert killed
    assert path.read_bytes() == (whole / "out.csv").read_bytes()


def test_a_cluster_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamsim.cli.predict.CLUSTER_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "no address"):
        assert main([*OPTIONS, "-o", str(tmp_path / "out.csv"), "--dask", address]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"streamsim: error: --dask = {address!r}: no cluster there: ")
        assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
