"""The rounds of every program here: some to warm up, then rounds that have a name and are timed.

``python -m campaigns.recorded.inference --variants pinned async`` prints what each round of either took, as JSON. Their
rounds come in turn, so that a host that changes its speed changes it for all of them. A round has its variant's name,
begins with its first call and ends when its results are there; before it a little of Python is timed, which says how
fast the host is just then. In ``--times FILE`` the same is a line of each variant, added by each process. Where CUPTI
records them, as many rounds follow that nothing records: in another process a host may have another speed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

Ranges = Callable[[str], AbstractContextManager[Any]]

WARM_UP, ROUNDS = 3, 8
PACED, TRIES = 1000, 5  # turns of a loop that does nothing, and of how often the fastest counts


class Work(NamedTuple):
    """``run``: a round, which returns when its results are there; ``is_right``: whether these are what they must be."""

    run: Callable[[], object]
    is_right: Callable[[], bool]


class Rounds(NamedTuple):
    """Seconds of rounds, and of the loop before each."""

    wall_s: list[float]
    pace_s: list[float]


def main(
    variants: Mapping[str, Callable[[], Work]], ranges: Ranges, under: AbstractContextManager[Any] | None = None
) -> None:
    """Variants that the command line asks for; ``ranges`` names a part of a program, and all runs ``under`` that."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variants", choices=variants, nargs="+", required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--times", type=Path)
    given = parser.parse_args()
    with under or nullcontext():
        works = {variant: variants[variant]() for variant in given.variants}
        for _ in range(WARM_UP):
            for work in works.values():
                work.run()
        found = {"rounds": timed(works, ranges, given.rounds)}
        if nothing_records_any_more():
            found["beside"] = timed(works, nullcontext, given.rounds)
        lines = (
            {"variant": variant, "verified": work.is_right()}
            | {what: rounds[variant]._asdict() for what, rounds in found.items()}
            for variant, work in works.items()
        )
        said = "".join(json.dumps(line) + "\n" for line in lines)
    if given.times is None:
        print(said, end="")
    else:
        with given.times.open("a", encoding="utf-8") as file:
            file.write(said)


def timed(works: Mapping[str, Work], ranges: Ranges, rounds: int) -> dict[str, Rounds]:
    """Return what each round takes, by variant."""
    found = {variant: Rounds([], []) for variant in works}
    for _ in range(rounds):
        for variant, work in works.items():
            found[variant].pace_s.append(pace_s())
            with ranges(variant):
                start = time.perf_counter()
                work.run()
                found[variant].wall_s.append(time.perf_counter() - start)
    return found


def pace_s() -> float:
    """Return what a little of Python takes just now."""

    def once() -> float:
        start = time.perf_counter()
        for _ in range(PACED):
            pass
        return time.perf_counter() - start

    return min(once() for _ in range(TRIES))


def nothing_records_any_more() -> bool:
    """Return whether CUPTI recorded this process; from here on it does not."""
    cupti = sys.modules.get("cupti.cupti")
    if cupti is None:
        return False
    for kind in cupti.ActivityKind:
        with suppress(Exception):  # those that nobody records
            cupti.activity_disable(kind)
    return True
