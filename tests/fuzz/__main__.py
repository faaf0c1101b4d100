"""Mutated files and options, against every command: ``python tests/fuzz --inputs 20000``.

Nothing may come of any but a result or one line of complaint: no traceback, no more than 10 s of the processor, no more
than 1 GiB. Input i of a seed is always the same. What is found is cut down, and printed once for each fault; exit code
1 then. ``--input I`` shows and tries one again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from queue import Empty, Queue
from random import Random
from signal import SIGKILL
from threading import Thread
from typing import TYPE_CHECKING, Any

from kinds import KINDS, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

STUCK_S = 300  # by the clock: of code that no signal reaches


def main() -> int:
    """Share the inputs out among processes, and gather what they find."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only inputs of this kind; repeatable")
    parser.add_argument("--input", type=int, metavar="I", help="this one alone, in this process")
    parser.add_argument("--from", type=int, dest="first", help=argparse.SUPPRESS)  # of a process: where it begins,
    parser.add_argument("--report", type=int, help=argparse.SUPPRESS)  # and the pipe that it writes to
    asked = parser.parse_args()
    if asked.report is not None:
        work(asked)
        return 0
    if asked.input is not None:
        return show(asked)
    found: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for report in gather(asked):
        counts[report["fault"]] += 1
        if found.setdefault(report["fault"], report) is report:
            print(f"\n{report['fault']}\n  input {report['number']}, {report['kind']}: {line(report)}", flush=True)
            for name, text in report["files"].items():
                print(f"  {name}: {text[:2000]!r}", flush=True)
    print(f"\n{asked.inputs} inputs of seed {asked.seed}: {len(found)} faults in {counts.total()} of them")
    for fault, times in counts.most_common():
        print(f"{times:6d}  {fault}")
    return 1 if found else 0


def line(report: dict[str, Any]) -> str:
    """What to type."""
    return shlex.join([report["program"], *report["arguments"]])[:2000]


class Child:
    """A process that tries every so many-th input, and tells before each which; ``told`` gets what it tells."""

    def __init__(self, asked: argparse.Namespace, first: int, told: Queue[tuple[Child, str]]) -> None:
        ours, its = os.pipe()
        command = [sys.executable, os.path.dirname(__file__), "--inputs", str(asked.inputs), "--seed", str(asked.seed)]
        command += [word for kind in asked.kind or () for word in ("--kind", kind)]
        command += ["--processes", str(asked.processes), "--from", str(first), "--report", str(its)]
        self.process = subprocess.Popen(command, pass_fds=[its], stdout=subprocess.DEVNULL)
        os.close(its)
        self.at, self.since = first, time.monotonic()
        Thread(target=self._listen, args=(ours, told), daemon=True).start()

    def _listen(self, pipe: int, told: Queue[tuple[Child, str]]) -> None:
        with open(pipe) as lines:
            for text in lines:
                told.put((self, text))
        told.put((self, ""))  # it has ended


def gather(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every report; a process that dies or hangs is a fault of the input that it was at, and another goes on."""
    told: Queue[tuple[Child, str]] = Queue()
    children = {Child(asked, first, told) for first in range(min(asked.processes, asked.inputs))}
    while children:
        for child in children:
            if time.monotonic() - child.since > STUCK_S:
                child.process.kill()
        try:
            child, text = told.get(timeout=1)
        except Empty:
            continue
        if text:
            report = json.loads(text)
            child.at, child.since = report["number"], time.monotonic()
            if "fault" in report:
                yield report
            continue
        children.remove(child)
        if code := child.process.wait():
            how = f"hangs for {STUCK_S} s" if code == -SIGKILL else f"the process ends with {code}"
            kind, made = input_of(asked, child.at)
            fault = f"{how}: {made.program} {made.arguments[0]}"
            yield {"number": child.at, "kind": kind, "fault": fault} | made._asdict()
            children.add(Child(asked, child.at + asked.processes, told))


def input_of(asked: argparse.Namespace, number: int) -> Any:
    """Of the kinds asked for; the same, always."""
    return draw(Random(f"{asked.seed} {number}"), asked.kind or list(KINDS))


def work(asked: argparse.Namespace) -> None:
    """In a process: try, cut down what is found, tell."""
    from trials import fault_of, prepare, shrink

    prepare()
    seen = set()
    with open(asked.report, "w") as pipe:

        def tell(**report: Any) -> None:
            pipe.write(json.dumps(report) + "\n")
            pipe.flush()

        for number in range(asked.first, asked.inputs, asked.processes):
            tell(number=number)
            kind, made = input_of(asked, number)
            if fault := fault_of(made):
                if fault not in seen:
                    made = shrink(made, fault)
                seen.add(fault)
                tell(number=number, kind=kind, fault=fault, **made._asdict())


def show(asked: argparse.Namespace) -> int:
    """Try one, and print it cut down."""
    from trials import fault_of, prepare, shrink

    prepare()
    kind, made = input_of(asked, asked.input)
    fault = fault_of(made)
    made = shrink(made, fault) if fault else made
    print(f"{kind}: {shlex.join([made.program, *made.arguments])}")
    for name, text in made.files.items():
        print(f"{name}: {text!r}")
    print(fault or "as it should be")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
