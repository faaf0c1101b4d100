"""The cost of copies with the link to themselves, from and to pinned and pageable memory: probes and their fit.

Pageable copies are probed twice. Cold: a walk through more memory than the host's caches hold, as programs have it. Its
rate is the profile's. Warm: a few megabytes again and again, which the caches hold. Their rate stands beside it, in the
source of the profile's number.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from streamsim.device import Host, LinkDirection
from streamsim.program import Buffer, Copy, Op, Region
from streamsim.program.schedule import Direction
from streamsim_validate.calibrate.probe import (
    BUFFERS,
    DEVICE_IN,
    DIRECTIONS,
    GATE_BYTES,
    HOST_BYTES,
    KI,
    LARGEST_PAGEABLE_BYTES,
    MI,
    PAGEABLE,
    Probe,
    moved,
    probe_of,
)
from streamsim_validate.calibrate.samples import Samples

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
