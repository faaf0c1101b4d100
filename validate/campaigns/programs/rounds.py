"""The rounds of every program here: some to warm up, then rounds that have a name and are timed.

``python -m campaigns.programs.inference FILE pinned async`` adds a line of JSON to FILE for each of these variants.
Their rounds come in turn, so that a host that changes its speed changes it for all of them. A round has its variant's
name, begins with its first call and ends when its results are there; before it a little of Python is timed, which says
how fast the host is just then. Where CUPTI records them, as many rounds follow that nothing records: in another process
a host may have another speed.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

Ranges = Callable[[str], AbstractContextManager[Any]]

WARM_UP, ROUNDS = 3, 8
PACED, TRIES = 1000, 5  # turns of a loop that does nothing, and of how often the fastest counts


class Work(NamedTuple):
    """``run``: a round, which returns when its results are there; ``is_right``: whether these are what they must be."""

    run: Callable[[], object]
    is_right: Callable[[], bool]


def main(variants: Mapping[str, Callable[[], Work]], ranges: Ranges) -> None:
    """Run the variants that the command line names; ``ranges`` names a part of a program."""
    file, *names = sys.argv[1:]
    works = {name: variants[name]() for name in names}
    for _ in range(WARM_UP):
        for work in works.values():
            work.run()
    found = timed(works, ranges)
    beside = timed(works, nullcontext) if nothing_records_any_more() else {}
    with open(file, "a", encoding="utf-8") as lines:
        for name, work in works.items():
            times = {"program": name, "by": "", "verified": work.is_right(), **found[name]}
            if beside:
                times |= {"beside_s": beside[name]["wall_s"], "beside_pace_s": beside[name]["pace_s"]}
            lines.write(json.dumps(times) + "\n")


def timed(works: Mapping[str, Work], ranges: Ranges) -> dict[str, dict[str, list[float]]]:
    """Return by variant the seconds of its rounds, and of the loop before each."""
    found: dict[str, dict[str, list[float]]] = {name: {"wall_s": [], "pace_s": []} for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name]["pace_s"].append(pace_s())
            with ranges(name):
                start = time.perf_counter()
                work.run()
                found[name]["wall_s"].append(time.perf_counter() - start)
    return found


def pace_s() -> float:
    """Return the seconds that a little of Python takes just now."""

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
