"""Mutated files and options, against every reader and command: ``python tests/fuzz --inputs 1000000``.

Nothing may come of any but a result or one line of complaint: no traceback, no more than 10 s of the processor, no wait
of 30 s without it, no more than 1 GiB. One input in a thousand is large, up to 10 MB. Input i of a seed is always the
same, and drawn within these limits. What is found is cut down, and printed once for each fault, with its number; exit
code 1 then. ``--input I`` shows and tries one again.
"""

import argparse
import os
import shlex
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from kinds import KINDS
from shrinking import shrink
from trials import check_right, fault_of, prepare
from worker import Asked
from workers import gather

SHOWN, TOLD_EVERY = 2000, 10_000  # letters of a file; inputs


def main() -> int:
    """Share the inputs out among processes, and print what they find."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only inputs of this kind; repeatable")
    parser.add_argument("--input", type=int, metavar="I", help="this one alone, in this process")
    given = parser.parse_args()
    asked = Asked(given.inputs, given.seed, max(1, min(given.processes, given.inputs)), tuple(given.kind or ()))
    prepare()
    return _try_all(asked) if given.input is None else _show(asked, given.input)


def _try_all(asked: Asked) -> int:
    for kind in asked.only or KINDS:
        check_right(kind)
    began = time.monotonic()
    counts: Counter[str] = Counter()
    tried = told = 0

    def count(now: int) -> None:
        nonlocal tried, told
        tried = now
        if tried >= told + TOLD_EVERY:
            told = tried
            print(f"{tried} inputs in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    with suppress(KeyboardInterrupt):  # some are better than none
        for report in gather(asked, on_progress=count):
            if not counts[report["fault"]]:
                _print(report)
            counts[report["fault"]] += 1
    took_s = time.monotonic() - began
    found = f"{len(counts)} faults in {counts.total()} of them"
    print(f"\n{tried} inputs of seed {asked.seed} in {took_s:.0f} s: {found}")
    for fault, times in counts.most_common():
        print(f"{times:6d}  {fault}")
    return 1 if counts else 0


def _print(report: dict[str, Any]) -> None:
    words = shlex.join([report["program"], *report["arguments"]])
    print(f"\n{report['fault']}\n  input {report['number']}, {report['kind']}: {words[:SHOWN]}", flush=True)
    for name, text in report["files"].items():
        print(f"  {name}, {len(text)} letters: {text[:SHOWN]!r}", flush=True)


def _show(asked: Asked, number: int) -> int:
    """Try one, and print it cut down."""
    kind, made, ours = asked.draw(number)
    fault = ours or fault_of(made)
    made = shrink(made, fault) if fault and not ours else made
    _print({"number": number, "kind": kind, "fault": fault or "as it should be"} | made._asdict())
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
