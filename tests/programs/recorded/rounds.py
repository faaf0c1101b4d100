"""What every program here does with its work: some rounds to warm up, then rounds that have a name and are timed.

``python -m programs.recorded.inference --variant pinned`` prints what each round took, as JSON. A round begins with its
first call and ends when its results are there. In ``--times FILE`` the same is a line, added by each process. With
``--kineto FILE`` the PyTorch profiler records some more rounds behind the timed ones.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    Ranges = Callable[[str], AbstractContextManager[Any]]

NAME = "round"
WARM_UP, ROUNDS, PROFILED = 5, 24, 3


class Work(NamedTuple):
    """``run``: a round, which returns when its results are there; ``is_right``: whether these are what they must be."""

    run: Callable[[], object]
    is_right: Callable[[], bool]


def main(
    variants: Mapping[str, Callable[[], Work]], ranges: Ranges, under: AbstractContextManager[Any] | None = None
) -> None:
    """The variant that the command line asks for; ``ranges`` names a part of a program, and all runs ``under`` that."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=variants, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--times", type=Path)
    parser.add_argument("--kineto", type=Path)
    given = parser.parse_args()
    with under or nullcontext():
        work = variants[given.variant]()
        for _ in range(WARM_UP):
            work.run()
        wall_s = timed(work, ranges, given.rounds)
        if given.kineto:
            profiled(work, ranges, given.kineto)
        said = json.dumps({"variant": given.variant, "wall_s": wall_s, "verified": work.is_right()})
    if given.times is None:
        print(said)
    else:
        with given.times.open("a", encoding="utf-8") as file:
            file.write(said + "\n")


def timed(work: Work, ranges: Ranges, rounds: int) -> list[float]:
    """What each round takes, in seconds."""
    wall_s = []
    for _ in range(rounds):
        with ranges(NAME):
            start = time.perf_counter()
            work.run()
            wall_s.append(time.perf_counter() - start)
    return wall_s


def profiled(work: Work, ranges: Ranges, path: Path) -> None:
    """Rounds that the PyTorch profiler records; the first has what it does at its beginning."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    events = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, experimental_config=events) as found:
        timed(work, ranges, PROFILED)
    found.export_chrome_trace(str(path))
