"""Programs of a million ops, from the schedule to the time line: ``python tests/benchmarks/bench_large.py [ops]``.

Of schedules on the H200's profile, all effects on, compiled code cached; and of a recording of as many calls. Seconds
of this process's processor, the medians of rounds in turn: those of one machine, which others use too. What can be
compared between machines is what they are over the time that it takes to make the schedule, every op checked. The
columns of schedules:

- schedule: its ops, made and checked.
- lower: made ready for the device, for either model.
- records: that as records for the compiled loop.
- loop: all times of all ops that run on the card.
- events: when events and host calls are complete.
- all: ``streamsim.compiled.simulate``, from the schedule to its makespan; over the column ``schedule``.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from streamsim import (
    Copy,
    Device,
    Kernel,
    Schedule,
    Workload,
    WorkloadKernel,
    breadth_first,
    depth_first,
    load_device,
    ring,
)
from streamsim.compiled import simulate
from streamsim.compiled.loop import run_loop
from streamsim.compiled.records import LoopArguments, flatten, new_state
from streamsim.lowering import Lowered, lower
from streamsim.model import OpTimes, complete_events
from streamsim.recorded import (
    NONE,
    Annotations,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    HostCalls,
    RecordedCard,
    RecordedStream,
    RecordedThread,
    Recording,
    WorkKind,
    program_of,
)

OPS, ROUNDS = 1_000_000, 3
COLUMNS = ("schedule", "lower", "records", "loop", "events", "all", "over")
KERNELS = 40  # of a recorded program: as many names, each with a grid of its own
# Of its calls, the shares of those that launch, copy, copy from pageable memory, free, record, and are none of these.
SHARES = {
    CallKind.LAUNCH: 0.8,
    CallKind.COPY_ASYNC: 0.07,
    CallKind.COPY: 0.01,
    CallKind.FREE: 0.002,
    CallKind.RECORD: 0.02,
    CallKind.SYNCHRONIZE_STREAM: 0.01,
    CallKind.OTHER: 0.088,
}


def workload(chunks: int) -> Workload:
    """1 MiB each way and a 10 us kernel per chunk."""
    return Workload(chunks << 18, (4,), (4,), (WorkloadKernel(duration_s=10e-6 * chunks),))


def recorded(count: int) -> Recording:
    """So many calls of two threads in turn, half a microsecond to nine apart."""
    draw = np.random.default_rng(1)
    kind = draw.choice(list(SHARES), count, p=list(SHARES.values()))
    start_ns = np.cumsum(draw.integers(3500, 16_000, count))
    calls = {"kind": kind, "name": np.zeros(count), "thread": np.arange(count) // 5000 % 2, "stream": np.ones(count)}
    calls |= {"start_ns": start_ns, "end_ns": start_ns + 3000, "correlation": np.arange(count)}
    calls |= dict.fromkeys(("event", "record"), np.full(count, NONE))
    call = np.flatnonzero(np.isin(kind, (CallKind.LAUNCH, CallKind.COPY_ASYNC, CallKind.COPY)))
    is_copy, which, several = (
        kind[call] != CallKind.LAUNCH,
        draw.integers(0, KERNELS, len(call)),
        np.ones((len(call), 3)),
    )
    took_ns = 2000 * 1.05**which * draw.normal(1, 0.03, len(call)) // 32 * 32
    ours = draw.choice([CopyMemory.PAGEABLE, CopyMemory.PINNED], len(call))
    there = draw.choice([CopyDirection.H2D, CopyDirection.D2H], len(call))
    work: dict[str, Any] = dict.fromkeys(CardWork.dtypes(), np.zeros(len(call)))
    work |= {"kind": np.where(is_copy, WorkKind.COPY, WorkKind.KERNEL), "name": which + 1, "call": call}
    work |= {"stream": draw.choice([1, 2], len(call), p=[0.9, 0.1]), "bytes": is_copy * 4096 * (which + 1)}
    work |= {"start_ns": start_ns[call] + 6000, "end_ns": start_ns[call] + 6000 + took_ns}
    work |= {"direction": is_copy * there, "memory": is_copy * ours, "block": several * 128}
    work |= {
        "grid": several * (7 * which + 1)[:, None],
        "graph": np.full(len(call), NONE),
        "node": np.full(len(call), NONE),
    }
    return Recording(
        "Kineto",
        "made up",
        ("call", *(f"kernel {k}" for k in range(KERNELS))),
        ((1, "program"),),
        tuple(RecordedThread(1, number) for number in range(2)),
        tuple(RecordedStream(1, 0, 1, number, "blocking" if number else "legacy") for number in range(3)),
        (RecordedCard(0),),
        HostCalls.of(calls),
        CardWork.of(work),
        Annotations.of({name: [] for name in Annotations.dtypes()}),
    )


PROGRAMS: dict[str, Callable[[int], Schedule]] = {
    "depth-first, 4 streams": lambda ops: depth_first(workload(ops // 3), ops // 3, 4),
    "breadth-first, 32 streams": lambda ops: breadth_first(workload(ops // 3), ops // 3, 32),
    "depth-first, pageable": lambda ops: depth_first(workload(ops // 3), ops // 3, 4, memory="pageable"),
    "ring of 3, 2 streams": lambda ops: ring(workload(ops // 5), ops // 5, 3, 2),
    "recorded": lambda ops: program_of(recorded(ops * 11 // 20)).schedule,
}


def timed(work: Callable[[], Any], into: list[float]) -> Any:
    """What ``work`` gives; its CPU seconds, with garbage collected before, go ``into`` a list."""
    gc.collect()
    begin = time.process_time()
    found = work()
    into.append(time.process_time() - begin)
    return found


def looped(arrays: LoopArguments, device: Device, ops: int) -> OpTimes:
    """The times of a program that has been made records."""
    rows = np.full((5, ops), -1, np.int64)
    run_loop(*arrays, new_state(device, ops), rows)
    return OpTimes(*(array("q", row.tobytes()) for row in rows))


def steps(make: Callable[[], Schedule], device: Device) -> list[float]:
    """Seconds of each column of the table."""
    took: list[float] = []
    schedule: Schedule = timed(make, took)
    lowered: Lowered = timed(lambda: lower(schedule, device), took)
    arrays: LoopArguments = timed(lambda: flatten(lowered), took)
    times = timed(lambda: looped(arrays, device, len(schedule)), took)
    timed(lambda: complete_events(times, lowered), took)
    timed(lambda: simulate(schedule, device).makespan_s, took)
    return took


def main() -> None:
    """Print both tables."""
    numbers = [int(float(text)) for text in sys.argv[1:] if text[:1].isdigit()]
    ops, device = numbers[0] if numbers else OPS, load_device("h200")
    simulate(PROGRAMS["depth-first, 4 streams"](30), device)  # code is there
    print(f"{f'seconds of {ops:,} ops':26}" + "".join(f"{name:>9}" for name in COLUMNS))
    for name, make in PROGRAMS.items():
        rounds = [steps(lambda: make(ops), device) for _ in range(ROUNDS)]  # noqa: B023
        took = [median(column) for column in zip(*rounds, strict=True)]
        took.append(median(whole / made for made, *_, whole in rounds))
        print(f"{name:26}" + "".join(f"{seconds:9.2f}" for seconds in took), flush=True)
    recording, read = recorded(ops), list[float]()
    for _ in range(ROUNDS):
        program = timed(lambda: program_of(recording), read).schedule
    work = sum(isinstance(op, Copy | Kernel) for op in program)
    print(f"program_of {ops:,} calls: {median(read):.2f} s, {len(program):,} ops of which {work:,} copies and kernels")


if __name__ == "__main__":
    main()
