"""The hardware queues put in order again, on emulated ones that keep CUDA's habits: see QueueOwners."""

# ruff: noqa: N802, ARG002 - CUDA's names, and its arguments whether emulated or not

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fake_gpu.card import CALL_NS, Node, nothing
from fake_gpu.cuda import CARD, DEVICE_TO_HOST, HOST_TO_DEVICE, FakeCuda
from hypothesis import given
from hypothesis import strategies as st

from streamsim.errors import InputError
from streamsim.lowering import QueueOwners
from streamsim.program import Schedule, depth_first
from streamsim_validate.gpu import CONNECTIONS_VARIABLE, Bench, Gpu, connections
from streamsim_validate.gpu.card import device_lock
from streamsim_validate.gpu.replayer import QueueOrder
from streamsim_validate.records.record import legacy
from streamsim_validate.suites import sincos

ENGINES = (HOST_TO_DEVICE, DEVICE_TO_HOST, "kernels")


class QueuedCuda(FakeCuda):
    """Engines with hardware queues: a copy engine drains the queue that it is at, then turns to the next, round."""

    def __init__(self, queues: int) -> None:
        super().__init__()
        self._queues = queues
        self._owners = {engine: QueueOwners(queues) for engine in ENGINES}
        self._waiting: dict[Any, list[tuple[int, list[int]]]] = {engine: [] for engine in ENGINES}
        self.uses = 0

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self._issue(kind, stream)

    def launchKernel(self, function: int, *arguments: int) -> None:
        self._issue("kernels", arguments[7])

    def _issue(self, engine: Any, stream: int) -> None:
        self.uses += 1
        self._waiting[engine].append((self._owners[engine].queue_of(stream), []))

    def eventRecord(self, event: int, stream: int) -> None:
        """Behind the copy that was issued last, which is in ``stream``."""
        (busy,) = [engine for engine in ENGINES if self._waiting[engine]]
        self._waiting[busy][-1][1].append(event)

    def deviceSynchronize(self) -> None:
        for engine, ops in self._waiting.items():
            at = ops[0][0] if ops else 0
            for turn in range(self._queues):
                for queue, events in ops:
                    if queue == (at + turn) % self._queues:
                        self.events |= dict.fromkeys(events, Node(nothing, [], self.clock.take(CALL_NS)))
            self._waiting[engine] = []

    def queues_of(self, engine: Any, streams: list[int]) -> list[int]:
        return [self._owners[engine].queue_of(stream) for stream in streams]


WORKLOAD = sincos(1000, 2)


def program(streams: int, launch: str = "live", memory: str = "pinned") -> Schedule:
    return depth_first(WORKLOAD, 40, streams, memory=memory, launch=launch)


def emulated(queues: int) -> tuple[QueueOrder, QueuedCuda, list[int]]:
    """The order under test, the card, and the streams of all schedules."""
    cuda = QueuedCuda(queues)
    gpu = Gpu(cuda, CARD, queues)
    return Bench(gpu).queue_order, cuda, gpu.streams(["non-blocking"] * 40)[1:]


@given(queues=st.integers(2, 9), history=st.lists(st.tuples(st.sampled_from(ENGINES), st.integers(0, 39)), max_size=60))
def test_after_any_history_stream_i_has_the_queue_that_comes_after_that_of_stream_i_minus_1(
    queues: int, history: list[tuple[Any, int]]
) -> None:
    """Round and round: which queue is the first does not show, and matters to nothing."""
    order, cuda, streams = emulated(queues)
    for engine, stream in history:
        cuda._issue(engine, streams[stream])
    cuda.deviceSynchronize()
    order.lose()
    order.before(program(queues))
    for engine in (HOST_TO_DEVICE, DEVICE_TO_HOST):
        first, *others = cuda.queues_of(engine, streams[:queues])
        assert others == [(first + i) % queues for i in range(1, queues)]
    assert sorted(cuda.queues_of("kernels", streams[:queues])) == list(range(queues))


def test_programs_that_leave_every_stream_its_queue_cost_nothing() -> None:
    order, cuda, _ = emulated(8)
    order.before(program(8))
    once = cuda.uses
    assert once > 0
    order.before(program(8))
    order.before(program(2))
    assert cuda.uses == once


@pytest.mark.parametrize(
    "disturbing",
    [
        program(9),
        program(4, launch="graph"),
        program(4, memory="pageable"),
        legacy(WORKLOAD, 4),
        Schedule(program(4).ops, ("blocking",) * 4, program(4).buffers),
    ],
    ids=("more streams", "graph", "pageable", "legacy stream", "blocking streams"),
)
def test_what_may_disturb_the_order_has_it_restored_before_and_after(disturbing: Schedule) -> None:
    order, cuda, _ = emulated(8)
    order.before(program(8))
    once = cuda.uses
    for schedule, restored in ((disturbing, 2), (disturbing, 3), (program(8), 4), (program(8), 4)):
        order.before(schedule)
        assert cuda.uses == restored * once


# The card's checks: the lock, the errors, the versions


HOLD = """
import time
from streamsim_validate.gpu.card import device_lock
with device_lock("0000:01:00.0"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_second_validator_is_refused_and_the_lock_dies_with_its_holder() -> None:
    refusal = r"another streamsim-validate is measuring on the GPU 0000:01:00\.0"
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=refusal), device_lock("0000:01:00.0"):
            pass
        with device_lock("0000:02:00.0"):
            pass  # another card is free
        process.kill()
        process.wait()
    with device_lock("0000:01:00.0"):
        pass


def test_a_lock_file_that_is_kept_from_us_is_not_evaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In another folder there would be another lock, and two would measure at once."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "streamsim-validate-x.lock"
    path.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(InputError) as caught, device_lock("x"):
        pass
    monkeypatch.undo()
    assert f"cannot make the lock file (Permission denied); let its owner run `chmod a+r {path}`" in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="follows links")
def test_a_link_in_place_of_the_lock_file_opens_nothing_to_others(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    (tmp_path / "streamsim-validate-x.lock").symlink_to(secret)
    with pytest.raises(InputError, match=r"cannot make the lock file .*remove it"), device_lock("x"):
        pass
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("value", "found", "known"),
    [("", 8, 0), ("1", 1, 1), ("32", 32, 32), ("99", 32, 32), ("0", 1, 1), ("many", 8, 0)],
)
def test_connections_as_the_driver_reads_them(
    monkeypatch: pytest.MonkeyPatch, value: str, found: int, known: int
) -> None:
    """The order of the queues is restored only if their number is set."""
    monkeypatch.setenv(CONNECTIONS_VARIABLE, value)
    assert (connections(), connections(if_not_set=0)) == (found, known)
