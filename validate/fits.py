"""From the raw samples of the calibration's probes to a profile: pure arithmetic, the same with or without a card."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from streamsim.device import Compute, CopyEngines, Device, HandOver, Host, KernelCost, LinkDirection, number_names
from streamsim.errors import InputError
from streamsim_validate.gpu import Card  # noqa: TC001 (msgspec reads the annotation when it decodes)
from streamsim_validate.record import median_and_spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.schedule import Direction

KI, MI = 1 << 10, 1 << 20
DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
COPY_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI, 64 * MI)
DUPLEX_BYTES = (64 * KI, 256 * KI, MI, 4 * MI, 16 * MI)
PAGEABLE_BYTES = (256 * KI, MI, 4 * MI, 16 * MI)
LINK_BYTES = 256 * KI
CYCLES = ("hk", "kd", "hd", "hkd", "hdk")
MIXES = {"mix hd": "hd", "mix hkd": "hkd", "mix hkkd": "hkkd"}
GRAPH_NODES = (8, 32, 128)
KERNELS = (
    ("sincos", 2),
    ("sincos", 10),
    ("sincos", 40),
    ("sincos", 176),
    ("vector_add", 0),
    ("copy", 0),
    ("sleep", 100_000),
)
SMALL_ELEMENTS = (KI, 4 * KI, 16 * KI, 64 * KI, 128 * KI, 192 * KI, 256 * KI, 320 * KI, 384 * KI, 512 * KI, 768 * KI)
LARGE_ELEMENTS = (MI, 3 * MI // 2, 2 * MI, 4 * MI, 16 * MI, 64 * MI)


class Chain(NamedTuple):
    """A probe: ``length`` times what ``kind`` says, of ``size`` bytes or elements."""

    kind: str
    size: int
    length: int

    @property
    def key(self) -> str:
        """Its name among the results."""
        return f"{self.kind} {self.size} x{self.length}"


class Timing(NamedTuple):
    """One run: on the card between events, for the host until all was done, and until all was issued."""

    device_s: float
    wall_s: float
    issue_s: float


class PlainSamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Samples as a file holds them."""

    card: Card
    connections: int
    date: str
    timings: list[tuple[str, int, int, list[tuple[float, float, float]]]]
    schema_version: int = 1


@dataclass(frozen=True)
class Samples:
    """The raw samples of a calibration."""

    card: Card
    connections: int
    date: str
    timings: dict[Chain, list[Timing]]

    def plain(self) -> PlainSamples:
        """As a file holds them."""
        rows = [(*chain, [tuple(t) for t in timings]) for chain, timings in self.timings.items()]
        return PlainSamples(self.card, self.connections, self.date, rows)  # type: ignore[arg-type]

    @classmethod
    def from_plain(cls, plain: PlainSamples) -> Samples:
        """From what a file holds."""
        timings = {Chain(kind, size, n): [Timing(*t) for t in rows] for kind, size, n, rows in plain.timings}
        return cls(plain.card, plain.connections, plain.date, timings)

    def per_link(self, kind: str, size: int, column: str = "device_s") -> float:
        """Seconds that one more link of a chain takes: the slope between its shortest and longest length."""
        lengths = sorted(chain.length for chain in self.timings if (chain.kind, chain.size) == (kind, size))
        if len(lengths) < 2:
            raise InputError(f"calibration: no chains of {kind!r} of size {size}; calibrate again")
        short, long = (self._median(Chain(kind, size, n), column) for n in (lengths[0], lengths[-1]))
        return (long - short) / (lengths[-1] - lengths[0])

    def points(self, kind: str, column: str = "device_s") -> list[tuple[int, float]]:
        """(length, median seconds) of every chain of a kind of one size."""
        return sorted((chain.length, self._median(chain, column)) for chain in self.timings if chain.kind == kind)

    def noise(self, kind: str, column: str = "device_s") -> float:
        """Typical relative spread of the chains of a kind: half the quartile distance over the median."""
        found = []
        for chain, timings in self.timings.items():
            if chain.kind == kind:
                middle, spread = median_and_spread(tuple(getattr(t, column) for t in timings))
                found.append(spread / middle)
        return float(median(found))

    def _median(self, chain: Chain, column: str) -> float:
        return float(median(getattr(t, column) for t in self.timings[chain]))


def kernel_kind(name: str, parameter: int) -> str:
    """The kind of the chains of a kernel."""
    return f"kernel {name}({parameter})"


def elements_of(name: str) -> tuple[int, ...]:
    """The sizes at which a kernel is measured."""
    return SMALL_ELEMENTS + (LARGE_ELEMENTS if name != "sleep" else LARGE_ELEMENTS[:-2])


class Link(NamedTuple):
    """Seconds of latency and seconds per byte."""

    latency_s: float
    s_per_byte: float

    def at(self, n_bytes: int) -> float:
        """Seconds of a copy."""
        return self.latency_s + n_bytes * self.s_per_byte


def fit_link(points: Sequence[tuple[float, float]]) -> Link:
    """Least squares of latency + bytes * s_per_byte over (bytes, seconds), every point's error relative to its time."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = above / sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    return Link(max(0.0, mean_y - slope * mean_x), slope)


def duplex_periods(there: float, back: float, alone_there: float, alone_back: float) -> tuple[float, float]:
    """Seconds a copy, each way, while the other way is never idle.

    ``there``: seconds per link of the chain with one copy there and two back, as long as its copies back:
    n copies there take n x; meanwhile n x / y of the 2 n copies back have run at y, the others run alone.
    So there = x + (2 - x / y) alone_back, and back likewise with x and y exchanged. Solved by iteration.
    """
    x, y = alone_there, alone_back
    for _ in range(200):
        y += there - (x + (2 - x / y) * alone_back)
        x += back - (y + (2 - y / x) * alone_there)
    return max(x, alone_there), max(y, alone_back)


def fit_duplex(
    sizes: Sequence[int], own: Sequence[float], other: Sequence[float], alone: Link, other_latency: float
) -> Link:
    """Latency and shared seconds per byte of a direction whose other direction is never idle.

    While the other direction's copy is in its latency, bytes flow at the lone rate. With B bytes of the n
    moved so, period = latency + B s_alone + (n - B) s_shared: a line in n + B (s_alone / s_shared - 1).
    """
    link = alone
    for _ in range(20):
        points = []
        for n_bytes, period, other_period in zip(sizes, own, other, strict=True):
            lone = max(0.0, (period - link.latency_s) * min(1.0, other_latency / other_period)) / alone.s_per_byte
            points.append((n_bytes + lone * (alone.s_per_byte / link.s_per_byte - 1), period))
        link = fit_link(points)
    return link


def fit(samples: Samples) -> Device:
    """The profile that explains the samples. Raises InputError when probes are missing."""
    alone = {d: fit_link([(n, samples.per_link(d, n)) for n in COPY_BYTES]) for d in DIRECTIONS}
    host = _fit_host(samples, alone["h2d"])
    h2d, d2h = _fit_directions(samples, alone, host)
    parts = {
        "h2d": h2d,
        "d2h": d2h,
        "copy_engines": CopyEngines(min(samples.card.copy_engines, 2), "same-queue-first", _fit_switch(samples, alone)),
        "compute": _fit_compute(samples),
        "hand_over": _fit_hand_overs(samples, alone),
        "host": host,
    }
    names = {f"{part}.{name}" for part, value in parts.items() for name in number_names(value)}
    return Device(
        name=_slug(samples.card.name),
        description=f"calibrated on {samples.card.name}, driver {samples.card.driver}, {samples.date}",
        connections=samples.connections,
        sources={name: _source(samples, name) for name in sorted({*names, "connections"})},
        spread=_spread(samples),
        **parts,  # type: ignore[arg-type]
    )


ATTRIBUTES = {
    "connections": "measured: CUDA_DEVICE_MAX_CONNECTIONS of the calibrating process, or CUDA's default",
    "copy_engines.count": "measured: the card's asyncEngineCount",
    "compute.resident_threads": "measured: the card's multiprocessors times their threads",
    "compute.concurrent_kernels": "published: compute capability 7.0 and later, technical specifications,"
    " https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
    "host.pageable_immediate_bytes": "published: 64 KB, CUDA runtime API, API synchronization behavior,"
    " https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
}


def _source(samples: Samples, name: str) -> str:
    card = samples.card
    on = f"{card.name}, driver {card.driver}, CUDA {card.cuda_runtime}, CuPy {card.cupy}, {samples.date}"
    return ATTRIBUTES.get(name, f"measured: streamsim-validate calibrate on {on}")


def _fit_directions(samples: Samples, alone: dict[Direction, Link], host: Host) -> list[LinkDirection]:
    there, back = DIRECTIONS
    periods: dict[Direction, list[float]] = {there: [], back: []}
    for n in DUPLEX_BYTES:
        both = (samples.per_link(f"duplex {d}", n) for d in DIRECTIONS)
        x, y = duplex_periods(*both, *(samples.per_link(d, n) for d in DIRECTIONS))
        periods[there].append(x)
        periods[back].append(y)
    made = []
    for own, other in ((there, back), (back, there)):
        link = alone[own]
        duplex = fit_duplex(DUPLEX_BYTES, periods[own], periods[other], link, alone[other].latency_s)
        pageable = _fit_pageable(samples, own, host, link)
        made.append(
            LinkDirection(
                latency_s=link.latency_s,
                duplex_latency_s=max(duplex.latency_s, link.latency_s),
                bandwidth_bytes_per_s=1 / link.s_per_byte,
                duplex_bandwidth_bytes_per_s=min(1 / duplex.s_per_byte, 1 / link.s_per_byte),
                pageable_latency_s=pageable.latency_s,
                pageable_bandwidth_bytes_per_s=1 / pageable.s_per_byte,
            )
        )
    return made


def _fit_pageable(samples: Samples, direction: Direction, host: Host, pinned: Link) -> Link:
    """A pageable copy holds the host: its chain's link holds the call, and the way to the card and back, too.

    Its latency is no less than that of pinned memory, whatever the noise of the line says.
    """
    held_s = host.copy_s + host.submit_s + host.wake_s
    points = [(n, samples.per_link(f"pageable {direction}", n) - held_s) for n in PAGEABLE_BYTES]
    free = fit_link(points)
    if free.latency_s >= pinned.latency_s:
        return free
    weighted = [(n / seconds, (seconds - pinned.latency_s) / seconds) for n, seconds in points]
    return Link(pinned.latency_s, sum(x * y for x, y in weighted) / sum(x * x for x, _ in weighted))


def _fit_switch(samples: Samples, alone: dict[Direction, Link]) -> float:
    """What a copy takes longer when the copies take turns over four queues, mean of both directions."""
    longer = [samples.per_link(f"switch {d}", MI) - samples.per_link(d, MI) for d in alone]
    return max(0.0, sum(longer) / len(longer))


def _fit_compute(samples: Samples) -> Compute:
    card = samples.card
    kernels = tuple(_fit_kernel(samples, name, parameter) for name, parameter in KERNELS)
    return Compute(
        floor_s=min(cost.duration_s[0] for cost in kernels),
        concurrent_kernels=128,
        resident_threads=card.multiprocessors * card.threads_per_multiprocessor,
        arbitration="issue-order",
        kernel_signal="each",
        kernels=kernels,
    )


def _fit_kernel(samples: Samples, name: str, parameter: int) -> KernelCost:
    """Back to back in one stream: the time includes what passes between two kernels of a stream."""
    sizes = elements_of(name)
    times = [samples.per_link(kernel_kind(name, parameter), n) for n in sizes]
    for i, (before, after) in enumerate(pairwise(times)):
        times[i + 1] = max(after, before)  # noise must not make a larger kernel faster
    return KernelCost(name, parameter, sizes, tuple(times))


STEPS = ("hk", "kd", "hd", "kh", "dk", "dh")


def _fit_hand_overs(samples: Samples, alone: dict[Direction, Link]) -> HandOver:
    """From cycles of ops in one stream.

    A cycle gives the sum of its hand-overs, and no sums of cycles tell all six apart; the smallest solution
    shares them out evenly.
    """
    import numpy as np

    kernel_s = samples.per_link(kernel_kind(*KERNELS[0]), KI)
    own = {"h": alone["h2d"].at(LINK_BYTES), "d": alone["d2h"].at(LINK_BYTES), "k": kernel_s}
    rows, sums = [], []
    for cycle in CYCLES:
        steps = [a + b for a, b in zip(cycle, cycle[1:] + cycle[0], strict=True)]
        rows.append([float(steps.count(step)) for step in STEPS])
        sums.append(samples.per_link(f"cycle {cycle}", LINK_BYTES) - sum(own[c] for c in cycle))
    found = dict(
        zip(STEPS, (max(0.0, float(s)) for s in np.linalg.lstsq(np.array(rows), np.array(sums))[0]), strict=True)
    )
    return HandOver(
        h2d_to_kernel_s=found["hk"],
        kernel_to_d2h_s=found["kd"],
        h2d_to_d2h_s=found["hd"],
        kernel_to_h2d_s=found["kh"],
        d2h_to_kernel_s=found["dk"],
        d2h_to_h2d_s=found["dh"],
        kernel_to_kernel_s=0.0,  # part of the kernels' own times
        event_s=max(0.0, samples.per_link("ping-pong", 0) - kernel_s),
    )


def _fit_host(samples: Samples, h2d: Link) -> Host:
    mix = {letters: samples.per_link(kind, 0, "issue_s") for kind, letters in MIXES.items()}
    copy_s = mix["hd"] / 2
    kernel_s = (mix["hkkd"] - mix["hd"]) / 2
    tiny_s = samples.per_link(kernel_kind(*KERNELS[0]), KI)
    held = (
        samples.per_link("blocking copy", LINK_BYTES, "wall_s") - copy_s - h2d.at(LINK_BYTES),
        samples.per_link("blocking kernel", 0, "wall_s") - kernel_s - tiny_s,
    )
    there_and_back_s = max(0.0, sum(held) / 2)  # to the card and back; which way takes how long does not show
    nodes = samples.points("graph")
    (first, first_s), (last, last_s) = nodes[0], nodes[-1]
    node_s = (last_s - first_s) / (last - first)
    return Host(
        copy_s=copy_s,
        kernel_s=max(0.0, kernel_s),
        record_s=samples.per_link("record", 0, "issue_s"),
        wait_s=samples.per_link("wait", 0, "issue_s"),
        synchronize_s=samples.per_link("synchronise", 0, "wall_s"),
        submit_s=there_and_back_s / 2,
        wake_s=there_and_back_s / 2,
        graph_launch_s=max(0.0, first_s - first * node_s),
        graph_node_s=max(0.0, node_s - h2d.at(LINK_BYTES)),
        pageable_immediate_bytes=64 * KI,
    )


def _spread(samples: Samples) -> dict[str, float]:
    """Relative spread (half the quartile distance over the median) of the runs behind a number."""
    found: dict[str, float] = {}
    for d in DIRECTIONS:
        found |= dict.fromkeys((f"{d}.latency_s", f"{d}.bandwidth_bytes_per_s"), samples.noise(d))
        found |= dict.fromkeys(
            (f"{d}.duplex_latency_s", f"{d}.duplex_bandwidth_bytes_per_s"), samples.noise(f"duplex {d}")
        )
        pageable = samples.noise(f"pageable {d}")
        found |= dict.fromkeys((f"{d}.pageable_latency_s", f"{d}.pageable_bandwidth_bytes_per_s"), pageable)
    issue = samples.noise("mix hkd", "issue_s")
    found |= dict.fromkeys((f"host.{call}_s" for call in ("copy", "kernel", "record", "wait")), issue)
    found |= dict.fromkeys(("host.graph_launch_s", "host.graph_node_s"), samples.noise("graph"))
    crossing = samples.noise("cycle hkd")
    return found | dict.fromkeys((f"hand_over.{f}" for f in HandOver.__struct_fields__), crossing)


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
