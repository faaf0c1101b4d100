"""Calibrate: isolated micro-benchmarks of a card -> its Device profile.

Every probe is itself a Schedule, replayed by the same machinery as any other, so that a host call costs in
a probe what it costs in a pipeline. Probes come as chains of two lengths: the difference of their times over
the difference of their lengths is the time of one link, free of what a run costs once. Chains whose ops are
shorter than the calls that issue them stand behind a gate, a spinning kernel that holds the streams until
all is queued. None of them is a pipeline that is later predicted.
"""

from __future__ import annotations

import gzip
import random
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from streamsim.errors import InputError
from streamsim.schedule import (
    Buffer,
    Copy,
    Direction,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
)
from streamsim_validate import fits
from streamsim_validate.fits import KI, MI, Chain, Samples, Timing
from streamsim_validate.gpu import connections
from streamsim_validate.measure import collector_off
from streamsim_validate.replay import Bench, Replayer, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamsim.device import Device
    from streamsim_validate.gpu import Gpu

GATE_S = 800e-6  # long enough to queue some hundred ops
WARM_UP_RUNS, REPEATS = 1, 7
FLOAT_BYTES = 4
LARGEST_ELEMENTS = 64 * MI
PAGEABLE, DEVICE_IN, DEVICE_OUT = "pageable", "card_in", "card_out"
BUFFERS = (
    Buffer(PAGEABLE, 3 * max(fits.PAGEABLE_BYTES), "pageable"),
    Buffer(DEVICE_IN, LARGEST_ELEMENTS * FLOAT_BYTES, "device"),
    Buffer(DEVICE_OUT, LARGEST_ELEMENTS * FLOAT_BYTES, "device"),
)
TINY = Kernel(1, "sincos", KI, 2)


def calibrate(gpu: Gpu) -> Device:
    """The profile of the card, measured now. Raises InputError when a probe fails."""
    return fits.fit(take(gpu))


def take(gpu: Gpu, seed: int = 0) -> Samples:
    """Measure every probe, repeats interleaved in shuffled order, and keep the raw samples."""
    found = list(probes())
    timings: dict[Chain, list[Timing]] = {chain: [] for chain, _ in found}
    bench, rng = Bench(gpu), random.Random(seed)
    try:
        prepare(bench, (schedule for _, schedule in found))
        ready = [(chain, Replayer(schedule, bench)) for chain, schedule in found]
        with collector_off():
            for turn in range(WARM_UP_RUNS + REPEATS):
                rng.shuffle(ready)
                for chain, replayer in ready:
                    sample = replayer.run()
                    if turn >= WARM_UP_RUNS:
                        timings[chain].append(Timing(sample.device_s, sample.wall_s, sample.issue_s))
        for _, replayer in ready:
            replayer.close()
    finally:
        bench.close()
    return Samples(gpu.card, connections(), date.today().isoformat(), timings)


def probes() -> Iterator[tuple[Chain, Schedule]]:
    """Every probe: what it is, and its schedule."""
    yield from _copies()
    yield from _kernels()
    yield from _hand_overs()
    yield from _host()


def _chain(
    kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object
) -> tuple[Chain, Schedule]:
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, BUFFERS, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def _gates(streams: int) -> list[Op]:
    return [Kernel(stream, duration_s=GATE_S, fill=0.01) for stream in range(1, streams + 1)]


def _lengths(n_bytes: int) -> tuple[int, int]:
    return (8, 40) if n_bytes <= 4 * MI else (2, 6)


def _copies() -> Iterator[tuple[Chain, Schedule]]:
    """Copies back to back, one way, both ways, from several queues, and pageable."""
    for direction in fits.DIRECTIONS:
        for n_bytes in fits.COPY_BYTES:
            for n in _lengths(n_bytes):
                yield _chain(direction, n_bytes, n, [*_gates(1), *(Copy(direction, n_bytes, 1) for _ in range(n))])
        for n_bytes in fits.DUPLEX_BYTES:
            for n in _lengths(n_bytes):
                yield _chain(f"duplex {direction}", n_bytes, n, [*_gates(2), *_both_ways(direction, n_bytes, n)], 2)
        for n in (8, 32):
            yield _chain(f"switch {direction}", MI, n, [*_gates(4), *_turns(direction, n)], 4)
        for n_bytes in fits.PAGEABLE_BYTES:
            for n in (1, 3):
                yield _chain(f"pageable {direction}", n_bytes, n, _pageable(direction, n_bytes, n))


def _both_ways(direction: Direction, n_bytes: int, n: int) -> Iterator[Op]:
    """``n`` copies one way and twice as many the other way, so that the first are never alone."""
    other: Direction = "d2h" if direction == "h2d" else "h2d"
    for _ in range(n):
        yield Copy(direction, n_bytes, 1)
        yield Copy(other, n_bytes, 2)
        yield Copy(other, n_bytes, 2)


def _and_kernel(copy: Copy) -> tuple[Op, Op]:
    return copy, msgspec.structs.replace(TINY, stream=copy.stream)


def _turns(direction: Direction, n: int) -> Iterator[Op]:
    """Copies that take turns over four streams, because each stream's next waits for a tiny kernel."""
    for i in range(n):
        yield from _and_kernel(Copy(direction, MI, 1 + i % 4))


def _pageable(direction: Direction, n_bytes: int, n: int) -> list[Op]:
    """Copies of one stretch of memory after another: memory just copied would still be in the host's cache."""
    return [
        Copy(direction, n_bytes, 1, Region(PAGEABLE, i * n_bytes, n_bytes), Region(DEVICE_IN, 0, n_bytes))
        for i in range(n)
    ]


def _kernels() -> Iterator[tuple[Chain, Schedule]]:
    """Each kernel back to back in one stream, over its elements."""
    for name, parameter in fits.KERNELS:
        for elements in fits.elements_of(name):
            touched = Region(DEVICE_IN, 0, elements * FLOAT_BYTES)
            reads = (touched, touched) if name == "vector_add" else (touched,)
            writes = (Region(DEVICE_OUT, 0, elements * FLOAT_BYTES),)
            kernel = Kernel(1, name, elements, parameter, reads=reads, writes=writes)
            for n in (8, 40) if elements < MI else (2, 8):
                yield _chain(fits.kernel_kind(name, parameter), elements, n, [*_gates(1), *[kernel] * n])


def _hand_overs() -> Iterator[tuple[Chain, Schedule]]:
    """Cycles of ops of known time in one stream, live behind a gate; and from stream to stream by events."""
    makers: dict[str, Op] = {"h": Copy("h2d", fits.LINK_BYTES, 1), "d": Copy("d2h", fits.LINK_BYTES, 1), "k": TINY}
    for cycle in fits.CYCLES:
        for n in (8, 40):
            yield _chain(f"cycle {cycle}", fits.LINK_BYTES, n, [*_gates(1), *[makers[c] for c in cycle] * n])
    for n in (8, 40):
        ops: list[Op] = []
        for i in range(n):
            here, there = 1 + i % 2, 2 - i % 2
            ops += (msgspec.structs.replace(TINY, stream=here), RecordEvent(i, here), WaitEvent(i, there))
        yield _chain("ping-pong", 0, n, [*_gates(1), RecordEvent(n, 1), WaitEvent(n, 2), *ops], 2, events=n + 1)


def _host() -> Iterator[tuple[Chain, Schedule]]:
    """What calls cost the host, in the mix of a live pipeline, and what a call that waits costs."""
    for n in (16, 64):
        for kind, make in fits.MIXES.items():
            ops: list[Op] = []
            for i in range(n):
                ops += _mix(make, 1 + i % 4, i)
            yield _chain(kind, 0, n, ops, 4, events=n)
        yield _chain("record", 0, n, [RecordEvent(i, 1 + i % 4) for i in range(n)], 4, events=n)
        records: list[Op] = [RecordEvent(i, 1 + i) for i in range(4)]
        waits: list[Op] = [WaitEvent(i % 4, 1 + (i + 1) % 4) for i in range(n)]
        yield _chain("wait", 0, n, records + waits, 4, events=4)  # CUDA refuses events last recorded in a capture
        yield _chain("synchronise", 0, n, [Synchronize(stream=1)] * n)
        yield _chain("blocking copy", fits.LINK_BYTES, n, [Copy("h2d", fits.LINK_BYTES, 1, blocking=True)] * n)
        yield _chain("blocking kernel", 0, n, [TINY, Synchronize(stream=1)] * n)
    for n in fits.GRAPH_NODES:
        yield _chain("graph", fits.LINK_BYTES, n, [Copy("h2d", fits.LINK_BYTES, 1)] * n, launch="graph")


def _mix(letters: str, stream: int, event: int) -> Iterator[Op]:
    made: dict[str, Op] = {
        "h": Copy("h2d", 4 * KI, stream),
        "d": Copy("d2h", 4 * KI, stream),
        "k": msgspec.structs.replace(TINY, stream=stream),
        "r": RecordEvent(event, stream),
        "w": WaitEvent(event, 1 + stream % 4),
    }
    return (made[letter] for letter in letters)


def write_samples(samples: Samples, path: Path) -> None:
    """Keep the raw samples (gzip'd JSON), from which ``fits.fit`` makes the profile again."""
    from streamsim.files import write_bytes

    write_bytes(gzip.compress(msgspec.json.encode(samples.plain()), mtime=0), path)


def read_samples(path: Path) -> Samples:
    """The raw samples of a calibration. Raises InputError when the file is not one."""
    try:
        return Samples.from_plain(msgspec.json.decode(gzip.decompress(path.read_bytes()), type=fits.PlainSamples))
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{path}: no calibration samples ({error}); measure them with `streamsim-validate calibrate`"
        ) from error
