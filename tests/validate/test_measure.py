"""Measuring many schedules: groups, order, probes, and what is kept when something fails or Ctrl-C is pressed."""

from itertools import chain

import msgspec
import pytest
from fake_cuda import FakeError, fake_gpu, replayed
from strategies import pipeline_of

from streamsim.program import Buffer, Copy, Region, Schedule, depth_first
from streamsim_validate.gpu import LostGpuError, Replayer
from streamsim_validate.gpu.replayer import Sample
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import Entry
from streamsim_validate.run import Planned, Replays
from streamsim_validate.run.measuring import SampleProbes
from streamsim_validate.suites import sincos

replace = msgspec.structs.replace
SMALL = sincos(1003, 3)
N = 64
HOST, DEVICE = Region("h", 0, N), Region("d", 16, N)
BUFFERS = (Buffer("h", N, "pinned"), Buffer("p", N, "pageable"), Buffer("d", 2 * N, "device"))


# Groups, order, interruption


def _items(n: int) -> list[Planned]:
    return [Planned(str(i), replace(depth_first(SMALL, 1 + i, 2), name=str(i))) for i in range(n)]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the schedules that are run, in order."""
    found: list[str] = []
    run = Replayer.run

    def watched(self: Replayer) -> Sample:
        found.append(self.schedule.name)
        return run(self)

    monkeypatch.setattr(Replayer, "run", watched)
    return found


def test_repeats_are_interleaved_in_an_order_shuffled_by_the_seed(order: list[str]) -> None:
    for seed in (1, 1, 2):
        replayed(_items(5), fake_gpu()[0], 4, seed)
    first, again, other = (order[end - 20 : end] for end in (30, 60, 90))  # behind ten runs that warm up
    rounds = [first[i : i + 5] for i in range(0, 20, 5)]
    assert all(sorted(a_round) == list("01234") for a_round in rounds)
    assert len({tuple(a_round) for a_round in rounds}) > 1
    assert first == again != other


SMALL_COPY = Schedule((Copy("h2d", N, 1, HOST, DEVICE),), ("non-blocking",), BUFFERS)


def interrupt_after(samples: int) -> OnStep:
    """Ctrl-C once there are so many samples of the first group."""

    def interrupt(what: str, done: int, _of_all: int) -> None:
        if what.endswith("measuring") and done == samples:
            raise KeyboardInterrupt

    return interrupt


def test_ctrl_c_settles_what_was_measured() -> None:
    settled: list[Entry] = []
    with pytest.raises(KeyboardInterrupt):
        replayed(_items(5), fake_gpu()[0], 4, on_entry=settled.append, on_step=interrupt_after(7))
    assert sorted(result.key for result in settled) == list("01234")
    assert {result.status for result in settled} == {"ok"}
    assert sum(len(result.wall_s) for result in settled) == 7
    assert sorted(len(result.wall_s) for result in settled) == [1, 1, 1, 2, 2]


# Probes


def test_host_and_link_are_measured_just_before_each_sample_of_a_job_and_just_after(
    order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a host that takes 1, 2, 3 ... ms for the pace, the means are 1.5, 3.5, 5.5 ... ms; so for the link."""
    pace, link = (replace(SMALL_COPY, name=name) for name in ("pace", "link"))
    results = replayed(_items(3), fake_gpu()[0], 2)
    assert [(result.paces_s, result.links_s) for result in results] == [((), ())] * 3
    order.clear()

    def read(self: Replayer) -> float:
        order.append(self.schedule.name)
        return order.count(self.schedule.name) * 1e-3

    run_s = Replayer.device_s
    monkeypatch.setattr(Replayer, "issue", read)
    monkeypatch.setattr(Replayer, "device_s", lambda self: (read if self.schedule.name == "link" else run_s)(self))
    results = replayed(_items(3), fake_gpu()[0], 2, probes=SampleProbes(pace, link))
    for name in ("paces_s", "links_s"):
        each = [getattr(result, name) for result in results]
        assert sorted(chain(*each)) == pytest.approx([(2 * k + 1.5) * 1e-3 for k in range(6)])
        assert [len(own) for own in each] == [2] * 3
    around = [name if name in ("pace", "link") else "job" for name in order[order.index("pace") :]]
    assert around == ["pace", "link", "job", "link", "pace"] * 6


def test_a_lost_context_loses_nothing_measured_before(order: list[str]) -> None:
    gpu, cuda = fake_gpu()
    settled: list[Entry] = []
    dead = False

    def fail(name: str, _arguments: tuple[object, ...]) -> None:
        nonlocal dead
        dead = dead or (name == "memcpyAsync" and len(order) == 3 * 2 + 6)
        if dead:
            raise FakeError("an illegal memory access was encountered")

    cuda.fail_at = fail
    with pytest.raises(LostGpuError, match="context is lost"):
        replayed(_items(3), gpu, 4, on_entry=settled.append)
    assert sorted(result.status.partition(":")[0] for result in settled) == ["lost", "ok", "ok"]
    assert sum(len(result.wall_s) for result in settled) == 4


def test_a_cuda_error_in_one_schedule_is_one_line_and_the_others_go_on() -> None:
    gpu, cuda = fake_gpu()

    def fail(name: str, arguments: tuple[object, ...]) -> None:
        if name == "memcpyAsync" and arguments[2] == N:
            raise FakeError("invalid argument")

    cuda.fail_at = fail
    bad, good = replayed([Planned("bad", SMALL_COPY), Planned("good", depth_first(SMALL, 2, 2))], gpu, 2)
    assert bad.status == "failed: the schedule: FakeError: invalid argument"
    assert good.status == "ok"


def test_memory_is_checked_before_it_is_allocated() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_device_bytes = 100 << 20  # 64 MiB of it are kept spare
    large = depth_first(pipeline_of(5 << 20), 2, 2)  # 20 MiB each way
    cuda.log.clear()
    big, small = replayed([Planned("big", large), Planned("small", depth_first(SMALL, 2, 2))], gpu, 1)
    assert big.status.startswith("skipped: buffers: 40 MiB of device memory are needed and 36 MiB are free")
    assert small.status == "ok"
    assert max(call[1] for call in cuda.log if call[0] == "malloc") < 1 << 20


def test_jobs_that_fit_only_one_after_another_are_grouped_so() -> None:
    gpu, cuda = fake_gpu()
    cuda.most_device_bytes = (64 << 20) + 100_000

    def job(key: str, buffer: str) -> Planned:
        device = Region(buffer, 0, 60_000)
        copy = Copy("h2d", 60_000, 1, None, device)
        return Planned(key, Schedule((copy,), ("non-blocking",), (Buffer(buffer, 60_000, "device"),)))

    jobs = [job("1", "a"), job("2", "a"), job("3", "b")]
    assert [[j.key for j in group] for group in Replays(gpu).plan(jobs, quietly)] == [["1", "2"], ["3"]]
    assert [result.status for result in replayed(jobs, gpu, 1)] == ["ok"] * 3
