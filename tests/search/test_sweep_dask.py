"""A sweep on a real Dask cluster: a scheduler and two worker processes on this machine."""

import os
import signal
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from streamsim.cli import main
from streamsim.errors import InputError
from streamsim.search import Sweep, sweep_of, write_sweep

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs streamsim[dask]")

OPTIONS = ["--h2d", "64KiB..128KiB*2", "--kernel", "10us", "--d2h", "64KiB", "--chunks", "1..60", "--streams", "1,4"]


def sweep() -> Sweep:
    return sweep_of(
        {"h2d": ["64KiB..128KiB*2"], "kernel": ["10us"], "d2h": ["64KiB"], "chunks": ["1..60"], "streams": ["1,4"]}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file that one process writes."""
    path = tmp_path_factory.mktemp("whole") / "out.csv"
    write_sweep(sweep(), path)
    return path.read_bytes()


def local_cluster(workers: int) -> Any:
    quiet = {"silence_logs": 50, "dashboard_address": "127.0.0.1:0"}
    distributed = import_module("distributed")  # half a second, for those tests alone
    return distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", **quiet)


def client_of(cluster: Any) -> Any:
    return import_module("distributed").Client(cluster)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster(2) as local:
        yield local


def test_a_cluster_gives_the_same_file(cluster: Any, whole: bytes, tmp_path: Path) -> None:
    """Both workers took part, and the file is that of one process."""
    path = tmp_path / "out.csv"
    with client_of(cluster) as client:
        write_sweep(sweep(), path, executor=client.get_executor(), block=10)
        done = client.run(lambda dask_worker: dask_worker.state.executed_count)
    assert len(done) == 2
    assert all(done.values())
    assert sum(done.values()) == 24
    assert path.read_bytes() == whole


def test_the_command_finds_a_cluster_by_its_address(
    cluster: Any, whole: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.csv"
    assert main(["sweep", *OPTIONS, "-o", str(path), "--dask", cluster.scheduler_address]) == 0
    assert capsys.readouterr().err == ""
    assert path.read_bytes() == whole


@pytest.mark.fault
def test_a_worker_that_dies_in_the_middle_loses_nothing(cluster: Any, whole: bytes, tmp_path: Path) -> None:
    """SIGKILL to one of the two while it works on a block; every row is there, and none twice."""
    path = tmp_path / "out.csv"
    with client_of(cluster) as client:
        before = client.run(os.getpid)
        killed: list[int] = []

        def progress(done: int, _of_all: int) -> None:
            if done >= 60 and not killed:
                busy = {address for address, keys in client.processing().items() if keys}
                killed.append(before[min(busy or before)])
                os.kill(killed[0], signal.SIGKILL)

        journal = write_sweep(sweep(), path, executor=client.get_executor(), block=4, progress=progress)
        client.wait_for_workers(2, timeout=120)
        after = client.run(os.getpid)
    assert killed
    assert killed[0] not in after.values()
    assert journal.rows == 240
    assert path.read_bytes() == whole


def test_a_cluster_that_goes_away_is_one_line_and_the_sweep_goes_on_later(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    cluster = local_cluster(1)
    with client_of(cluster) as client:

        def progress(done: int, _of_all: int) -> None:
            if done >= 8:
                cluster.close()

        with pytest.raises(InputError) as error:
            write_sweep(sweep(), path, executor=client.get_executor(), block=4, progress=progress)
    assert "\n" not in str(error.value)
    assert "executor" in str(error.value)
    write_sweep(sweep(), path)
    assert path.read_bytes() == whole


def test_a_cluster_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamsim.cli.sweep.CLUSTER_S", 0.5)
    assert main(["sweep", *OPTIONS, "-o", str(tmp_path / "out.csv"), "--dask", "tcp://127.0.0.1:9"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamsim: error: --dask = 'tcp://127.0.0.1:9': no cluster there: ")
    assert err.count("\n") == 1
    assert main(["sweep", *OPTIONS, "-o", str(tmp_path / "out.csv"), "--dask", "no address"]) == 2
    assert capsys.readouterr().err.startswith("streamsim: error: --dask = 'no address': no cluster there: ")
    assert not list(tmp_path.iterdir())
