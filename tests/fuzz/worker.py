"""A process that tries every so many-th input of a seed, and tells what it finds: ``python worker.py``.

Its arguments: an :class:`Asked` as JSON, where to begin, the pipe to tell it to, and the file for the number of that
input which it is at. Lines: "ready", and a JSON object for each input with a fault.
"""

import json
import os
import sys
from random import Random
from typing import NamedTuple

import kinds
from kinds import Input
from shrinking import shrink
from trials import Hang, fault_of, limits, prepare

UNDRAWN = "takes too long, or too much, to be drawn"


class Asked(NamedTuple):
    """``parts``: into how many the inputs are dealt; ``only``: the kinds of input, all if empty."""

    inputs: int
    seed: int
    parts: int
    only: tuple[str, ...] = ()

    def input(self, number: int) -> tuple[str, Input]:
        """Its kind and itself; the same, always."""
        return kinds.draw(Random(f"{self.seed} {number}"), list(self.only or kinds.KINDS))

    def draw(self, number: int) -> tuple[str, Input, str | None]:
        """Its kind, itself, and None; or what is wrong: it is drawn within the limits in which it is tried."""
        try:
            with limits():
                return *self.input(number), None
        except (Hang, MemoryError):
            return "none", Input("fuzz", ("--input", str(number)), {}), UNDRAWN


def work(asked: Asked, first: int, pipe: int, place: int) -> None:
    """Try, cut down what is found for the first time, tell; until who asked is gone, however that was."""
    seen, asking = set(), os.getppid()
    with os.fdopen(pipe, "w", buffering=1) as told:
        prepare()
        told.write("ready\n")
        for number in range(first, asked.inputs, asked.parts):
            if os.getppid() != asking:
                return
            os.pwrite(place, number.to_bytes(8, "little"), 0)
            kind, made, ours = asked.draw(number)
            if fault := ours or fault_of(made):
                if fault not in seen and not ours:
                    made = shrink(made, fault, lambda tries: os.pwrite(place, tries.to_bytes(8, "little"), 8))
                seen.add(fault)
                told.write(json.dumps({"number": number, "kind": kind, "fault": fault} | made._asdict()) + "\n")


def main() -> None:
    inputs, seed, parts, only = json.loads(sys.argv[1])
    work(Asked(inputs, seed, parts, tuple(only)), *map(int, sys.argv[2:]))


if __name__ == "__main__":
    main()
