"""A card on which every call takes a microsecond, so that every time is known, and something to tune on it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_gpu.cuda import FakeCuda, fake_gpu
from strategies import make_device

from streamsim.device import KernelCost
from streamsim.search import candidates, default_grid
from streamsim_validate.gpu import Gpu, replayer
from streamsim_validate.progress import OnStep
from streamsim_validate.records import Entry, read_journal
from streamsim_validate.run import Planned, Replays, Task
from streamsim_validate.suites import sincos

WORK = 2
COST = KernelCost("sincos", WORK, (100, 1000), (1e-6, 10e-6))
DEVICE = make_device(copy=200, kernel=100, kernels=(COST,))  # a byte a nanosecond: cut in four is best
WORKLOAD = sincos(500, WORK)


def a_task(tmp_path: Path, budget: int = 4, **more: Any) -> Task:
    given: dict[str, Any] = {"workload": WORKLOAD, "device": DEVICE, "repeats": 3} | more
    given.setdefault("configs", tuple(candidates(given["workload"], DEVICE, default_grid(8, 4))))
    return Task(str(tmp_path / "tuned.json.gz"), budget=budget, **given)


def ticking(patch: pytest.MonkeyPatch, **more: Any) -> tuple[Gpu, FakeCuda]:
    """A card on which every call takes a microsecond, and events are as far apart."""
    gpu, cuda = fake_gpu(**more)
    patch.setattr(replayer, "perf_counter_ns", cuda.clock)
    return gpu, cuda


Cards = Callable[..., tuple[Gpu, "FakeCuda"]]


def measured_keys(journal: Path) -> list[str]:
    """Of the entries, in the order of the journal."""
    return [line.key for line in read_journal(journal) if isinstance(line, Entry)]


def ctrl_c_on(words: str) -> Callable[[str, int, int], None]:
    def stop(what: str, _done: int, _of_all: int) -> None:
        if words in what:
            raise KeyboardInterrupt

    return stop


class Spy(Replays):
    """The runner of replays, which remembers what it was asked for."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__(gpu)
        self.gpu = gpu
        self.asked: list[str] = []

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        self.asked += [item.key for item in items]
        return super().plan(items, on_step)
