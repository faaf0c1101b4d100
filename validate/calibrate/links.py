"""The cost of copies alone, beside the other direction, and while kernels wait in several queues: probes, fit, spread.

Pageable copies are probed twice. Cold: a walk through more memory than the host's caches hold, as programs have it. Its
rate is the profile's. Warm: a few megabytes again and again, which the caches hold. Their rate stands beside it, in the
source of the profile's number.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.device import Device, Host, LinkDirection
from streamsim.program import Buffer, Copy, Direction, Op, Region
from streamsim_validate.calibrate.samples import (
    BUFFERS,
    DEVICE_IN,
    DIRECTIONS,
    GATE_BYTES,
    HOST_BYTES,
    KI,
    LARGEST_PAGEABLE_BYTES,
    MI,
    PAGEABLE,
    Misfit,
    Probe,
    Samples,
    misfits,
    moved,
    nearest_numbers,
    probe_of,
    rms,
    with_kernel,
)

COPY_STREAMS = 4
COPY_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)
PAGEABLE_BYTES = (256 * KI, MI, 4 * MI, LARGEST_PAGEABLE_BYTES)
COLD_KINDS: dict[Direction, str] = {d: f"cold pageable {d}" for d in DIRECTIONS}  # samples of before have none
COLD_LENGTHS = (8, 32)  # of chains of LARGEST_PAGEABLE_BYTES: the long one is larger than the caches of most hosts
COLD = "cold"
COLD_BUFFERS = (*BUFFERS, Buffer(COLD, max(COLD_LENGTHS) * LARGEST_PAGEABLE_BYTES, "pageable"))
LENGTHS, LENGTHS_OF_LARGE = (8, 40), (2, 6)  # of chains of copies, large ones from 4 MiB on


def copies() -> Iterator[Probe]:
    """Yield copies back to back, one way, over some streams: in one stream they are faster than in pipelines."""
    for direction in DIRECTIONS:
        for n_bytes in COPY_BYTES:
            streams = min(COPY_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
            for n in copy_lengths(n_bytes):
                ops = [moved(direction, n_bytes, 1 + i % streams, i) for i in range(n)]
                yield probe_of(direction, n_bytes, n, [Copy(direction, GATE_BYTES, 1), *ops], streams, buffers=BUFFERS)


def copy_lengths(n_bytes: int) -> tuple[int, int]:
    """Return the lengths of a short and a long chain of copies of ``n_bytes``."""
    return LENGTHS if n_bytes < 4 * MI else LENGTHS_OF_LARGE


def pageable() -> Iterator[Probe]:
    """Yield chains of copies of one stretch of memory after another, few and warm, then many and cold."""
    for direction in DIRECTIONS:
        for n_bytes in PAGEABLE_BYTES:
            for n in (1, 3):
                ops = [_staged(direction, PAGEABLE, n_bytes, i) for i in range(n)]
                yield probe_of(f"pageable {direction}", n_bytes, n, ops, buffers=BUFFERS)
        for n in COLD_LENGTHS:
            ops = [_staged(direction, COLD, LARGEST_PAGEABLE_BYTES, i) for i in range(n)]
            yield probe_of(COLD_KINDS[direction], LARGEST_PAGEABLE_BYTES, n, ops, buffers=COLD_BUFFERS)


def _staged(direction: Direction, buffer: str, n_bytes: int, number: int) -> Op:
    host, device = Region(buffer, number * n_bytes, n_bytes), Region(DEVICE_IN, 0, n_bytes)
    return Copy(direction, n_bytes, 1, host, device)


# The fit


class Link(NamedTuple):
    """Seconds of latency and seconds per byte."""

    latency_s: float
    s_per_byte: float

    def at(self, n_bytes: int) -> float:
        """Return the seconds of a copy."""
        return self.latency_s + n_bytes * self.s_per_byte


def fit_link(points: Sequence[tuple[float, float]]) -> Link:
    """Return the weighted least squares line through (bytes, seconds): errors are relative to each point's time."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = above / sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    return Link(max(0.0, mean_y - slope * mean_x), slope)


def quiet_link(samples: Samples, direction: Direction, host: Host, link: Link) -> LinkDirection:
    """Return a direction with the link to itself and nobody waiting."""
    pageable = cold_link(samples, direction, host, link)
    return LinkDirection(
        latency_s=link.latency_s,
        duplex_latency_s=link.latency_s,
        crowded_latency_s=link.latency_s,
        crowded_duplex_latency_s=link.latency_s,
        in_flight_bytes=1,
        bandwidth_bytes_per_s=1 / link.s_per_byte,
        duplex_bandwidth_bytes_per_s=1 / link.s_per_byte,
        crowded_bandwidth_bytes_per_s=1 / link.s_per_byte,
        pageable_latency_s=pageable.latency_s,
        pageable_bandwidth_bytes_per_s=1 / pageable.s_per_byte,
    )


def cold_link(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """Return pageable copies of memory that no cache holds; of warm memory if the samples have no cold copies.

    The latency is the one of warm copies, because all cold copies have one size. Cold copies are never faster than warm
    ones.
    """
    warm, kind = warm_link(samples, direction, host, pinned), COLD_KINDS[direction]
    if not samples.has({kind}):
        return warm
    copy_s = samples.per_link(kind, LARGEST_PAGEABLE_BYTES) - _held_s(host) - warm.latency_s
    return Link(warm.latency_s, max(warm.s_per_byte, copy_s / LARGEST_PAGEABLE_BYTES))


def warm_link(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """Return pageable copies of memory that has just been copied.

    The latency is at least the one of pinned memory, whatever the noise of the line gives. If the line gives less, the
    rate is the median over the sizes: small copies may come out of the host's caches, three times as fast as large
    ones.
    """
    kind = f"pageable {direction}"
    points = [(n, samples.per_link(kind, n) - _held_s(host)) for n in PAGEABLE_BYTES]
    free = fit_link(points)
    if free.latency_s >= pinned.latency_s:
        return free
    return Link(pinned.latency_s, median((seconds - pinned.latency_s) / n for n, seconds in points))


def _held_s(host: Host) -> float:
    """Return the seconds for which a pageable copy holds the host beside the copy: the call, and there and back."""
    return host.copy_s + host.submit_s + host.wake_s


DUPLEX_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI)
STEP_BYTES = (64 * KI, 128 * KI, 256 * KI, MI, 4 * MI)
CROWDED_BYTES = (128 * KI, 256 * KI, 512 * KI, MI, 4 * MI, 16 * MI)
ISSUED_BYTES = 512 * KI  # from this size on a copy takes longer than the calls for it, another one and two kernels
STEP_STREAMS = CROWDED_STREAMS = 8
# Seconds, shares and bytes: most of what the other direction costs on either side.
DUPLEX_STARTS = [(1e-6, 4e-6, 0.1, 0.05, 64.0 * KI), (3e-6, 1e-6, 0.05, 0.1, 64.0 * KI)]


def duplex() -> Iterator[Probe]:
    """Yield copies both ways: n one way beside twice as many the other way, so the first are never alone; and in step.

    In step: each copy is followed by one back in its stream, so neither direction runs ahead. That shows the cost of
    both together to a per cent or two. The chains of unlike numbers show how it is shared.
    """
    for direction in DIRECTIONS:
        other: Direction = "d2h" if direction == "h2d" else "h2d"
        for n_bytes in DUPLEX_BYTES:
            gates = [Copy(direction, GATE_BYTES, 1), Copy(other, GATE_BYTES, 2)]
            for n in copy_lengths(n_bytes):
                ops: list[Op] = []
                for i in range(n):
                    ops.append(moved(direction, n_bytes, 1, i))
                    ops += (moved(other, n_bytes, 2, 2 * i + k) for k in (0, 1))
                yield probe_of(f"duplex {direction}", n_bytes, n, [*gates, *ops], 2, buffers=BUFFERS)
    for n_bytes in STEP_BYTES:
        for n in (16, 48) if n_bytes < 4 * MI else (8, 24):
            ops = [moved(d, n_bytes, 1 + i % STEP_STREAMS, i) for i in range(n) for d in DIRECTIONS]
            yield probe_of("duplex", n_bytes, n, [Copy("h2d", GATE_BYTES, 1), *ops], STEP_STREAMS, buffers=BUFFERS)


def crowded() -> Iterator[Probe]:
    """Yield copies that take turns with light kernels, over several queues: during a copy the other queues wait.

    A kernel stands behind each copy to the card, and before each copy back, whose data it has just written. Then both
    kinds of chain run at a time. The chains are long, because the cost grows over the first dozens of kernels issued
    ahead.
    """
    for n_bytes in CROWDED_BYTES:
        launch = "live" if n_bytes >= ISSUED_BYTES else "graph"
        streams = min(CROWDED_STREAMS, HOST_BYTES // n_bytes)  # copies of one stretch come in one stream
        for n in (32, 96) if n_bytes < 4 * MI else (16, 40) if n_bytes == 4 * MI else (8, 20):
            turns = {d: [with_kernel(d, n_bytes, 1 + i % streams, i) for i in range(n)] for d in DIRECTIONS}
            for d in DIRECTIONS:
                ops: list[Op] = [op for turn in turns[d] for op in turn]
                yield probe_of(f"crowded {d}", n_bytes, n, ops, streams, buffers=BUFFERS, launch=launch)
            both: list[Op] = []
            for there, back in zip(turns["h2d"], turns["d2h"], strict=True):
                both += there
                both += (replace(op, stream=op.stream + streams) for op in back)
            yield probe_of("crowded", n_bytes, n, both, 2 * streams, buffers=BUFFERS, launch=launch)


# The fit


def fit_duplex(samples: Samples, device: Device) -> Device:
    """Return the device with the costs of the other direction: latencies, bandwidths, and bytes in flight."""

    def made(numbers: Sequence[float]) -> Device:
        there_s, back_s, there_slower, back_slower, in_flight = numbers
        h2d, d2h = (
            replace(
                link,
                duplex_latency_s=link.latency_s + more_s,
                crowded_duplex_latency_s=link.latency_s + more_s,
                duplex_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / (1 + slower),
                in_flight_bytes=max(1, round(in_flight)),
            )
            for link, more_s, slower in ((device.h2d, there_s, there_slower), (device.d2h, back_s, back_slower))
        )
        return replace(device, h2d=h2d, d2h=d2h)

    return made(nearest_numbers(samples, list(duplex()), made, DUPLEX_STARTS))


def fit_crowded(samples: Samples, device: Device) -> Device:
    """Return the device with the cost for a copy of kernels that wait in several queues, one way and both ways."""
    if device.connections == 1:
        return device

    def made(numbers: Sequence[float]) -> Device:
        there_s, back_s, both_s, there_slower, back_slower = numbers
        h2d, d2h = (
            replace(
                link,
                crowded_latency_s=link.latency_s + more_s,
                crowded_duplex_latency_s=max(link.latency_s + more_s, link.duplex_latency_s + both_s),
                crowded_bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / (1 + slower),
            )
            for link, more_s, slower in ((device.h2d, there_s, there_slower), (device.d2h, back_s, back_slower))
        )
        return replace(device, h2d=h2d, d2h=d2h)

    return made(nearest_numbers(samples, list(crowded()), made, [(1e-6, 1e-6, 0.5e-6, 0.05, 0.05)]))


FITTED = {copies: 4, duplex: 5, crowded: 6}  # probes: how many numbers were fitted to them
TWO_IN_SERIES = tuple(f"duplex {d}" for d in DIRECTIONS)  # two copies beside one: the misfit of one is twice theirs
LATENCY_BYTES = MI  # copies of at most so much tell of the latency, larger ones of the bandwidth


def link_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the numbers of both directions, each from the chains that show it."""
    missed = [m for probes, numbers in FITTED.items() for m in misfits(samples, list(probes()), device, numbers)]
    found: dict[str, float] = {}
    for d in DIRECTIONS:
        one = _direction_spread(samples, d, getattr(device, d), missed)
        found |= {f"{d}.{name}": value for name, value in one.items()}
    return found


def _direction_spread(
    samples: Samples, d: Direction, link: LinkDirection, missed: Sequence[Misfit]
) -> dict[str, float]:
    kinds = {
        "": (d,),
        "duplex_": (f"duplex {d}", "duplex"),
        "crowded_": (f"crowded {d}",),
        "crowded_duplex_": ("crowded",),
    }
    warm = f"pageable {d}"
    cold = COLD_KINDS[d] if samples.has({COLD_KINDS[d]}) else warm
    found = {
        f"pageable_{name}": samples.scatter(k) for name, k in (("latency_s", warm), ("bandwidth_bytes_per_s", cold))
    }
    for which, chains in kinds.items():
        scatter = rms(samples.scatter(kind) for kind in chains)
        own = [m for m in missed if m.kind in chains]
        name = f"{which}latency_s"
        latency_s = getattr(link, name)
        if latency_s:
            found[name] = math.hypot(scatter, rms(m.missed_s / latency_s for m in own if m.size <= LATENCY_BYTES))
        name = f"{which}bandwidth_bytes_per_s"
        if hasattr(link, name):
            large = [m for m in own if m.size > LATENCY_BYTES]
            of_copies = (m.relative * (2 if m.kind in TWO_IN_SERIES else 1) for m in large or own)
            found[name] = math.hypot(scatter, rms(of_copies))
    return found
