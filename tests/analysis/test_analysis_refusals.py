"""What the room refuses: a change, an interval or an explanation is named in one line, and no file is written."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from refusals import refusal
from strategies import NS, d2h, h2d, kernel, make_device, program

from streamsim import load_device
from streamsim.advice import explain, what_if
from streamsim.analysis import draws, interval
from streamsim.program import (
    Buffer,
    Copy,
    HostWork,
    Kernel,
    Op,
    Region,
    Synchronize,
    WaitThread,
)
from streamsim.transform import changes as change
from streamsim.transform import in_pieces, steps_of

DEVICE, IDEAL, H200 = make_device(), load_device("ideal"), load_device("h200")
TWO_STEPS = program(*(h2d(1, 10), kernel(1, 20), d2h(1, 10)) * 2, Synchronize(), streams=1)
COPIED = (Copy("h2d", 100, 1, Region("host", 0, 100)), Synchronize(stream=1), kernel(1, 20))
PAGEABLE = program(*COPIED, streams=1, buffers=(Buffer("host", 100, "pageable"),))
THERE, CARD = Region("h", 0, 8), Region("d", 0, 8)
OVERWRITTEN = program(  # what the first kernel reads, by the second copy
    *(Copy("h2d", 8, 1, THERE, CARD), Kernel(1, duration_s=NS, reads=(CARD,))) * 2,
    streams=1,
    buffers=(Buffer("h", 8, "pinned"), Buffer("d", 8, "device")),
)
NOBODY_WAITS = (h2d(1, 4), WaitThread(0, thread=1), kernel(1, 4, thread=1), h2d(1, 4), kernel(1, 4))
NO_STEPS: list[tuple[tuple[Op, ...], str]] = [
    ((h2d(1, 4), kernel(1, 4), kernel(1, 4)), "no step is repeated"),
    ((HostWork(1.0),), "no step is repeated"),
    ((h2d(1, 4), kernel(1, 4, thread=1), h2d(1, 4)), "several host threads: in step 1 thread 1 waits for nobody"),
    (NOBODY_WAITS, "several host threads: in step 1 nobody waits for thread 1"),
]
ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"samples": 19}, "samples = 19: expected"),
    ({"seed": -1}, "seed = -1: expected"),
    ({"level": 0.0}, "level = 0.0: expected"),
    ({"level": math.nan}, "level = nan: expected"),
]
NO_SPREAD = "device 'ideal': its profile has no spread"
SPREAD_OF = "; calibrate the card with streamsim-validate calibrate, or take a card's profile, such as h200"

# What to make, how the message begins, and what it must show.
REFUSED: list[tuple[Callable[[], object], str, str]] = [
    *((partial(steps_of, program(*ops)), "", said) for ops, said in NO_STEPS),
    (lambda: in_pieces(TWO_STEPS, 11), "", "a copy of 10 bytes cannot be cut into 11 pieces"),
    (
        lambda: what_if(OVERWRITTEN, DEVICE, [change.order("breadth-first")]),
        "",
        "cannot be issued breadth-first: its data needs another order",
    ),
    *(
        (partial(what_if, TWO_STEPS, DEVICE, [made]), f"{made.option}: nothing in the schedule shows ", "--independent")
        for made in (change.streams(2), change.chunks(4))
    ),
    (
        lambda: what_if(TWO_STEPS, DEVICE, [change.chunks(3)], True),
        "",
        "this program is 2 chunks and cannot be made 3: give a multiple of 2",
    ),
    (lambda: what_if(PAGEABLE, DEVICE, [change.graph()]), "", "blocking or pageable"),
    *((partial(interval, program(h2d(1, 10)), H200, **bad), said, "") for bad, said in ARGUMENTS),
    (lambda: interval(program(h2d(1, 10)), IDEAL), NO_SPREAD, SPREAD_OF),
    (lambda: draws(IDEAL, 100), NO_SPREAD, SPREAD_OF),
    (lambda: replace(DEVICE, spread={"models": 0.1}), "spread.models", ""),
    (lambda: explain(program(Kernel(1, "mine", 100)), IDEAL), "", "no cost for it"),
]


@pytest.mark.parametrize(("make", "begins", "shows"), REFUSED, ids=[f"{b}{s}"[:40] for _, b, s in REFUSED])
def test_bad_input_is_one_line_that_says_what_is_wrong(make: Callable[[], object], begins: str, shows: str) -> None:
    said = refusal(make)
    assert said.startswith(begins)
    assert shows in said
