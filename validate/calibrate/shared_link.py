"""The cost of a copy beside the other direction, and while kernels wait in several queues: probes and fit."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from streamsim.device import Device
from streamsim.program import Copy, Op
from streamsim.program.schedule import Direction
from streamsim_validate.calibrate.copies import copy_lengths
from streamsim_validate.calibrate.probe import (
    BUFFERS,
    DIRECTIONS,
    GATE_BYTES,
    HOST_BYTES,
    KI,
    MI,
    Probe,
    moved,
    probe_of,
    with_kernel,
)
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.simulated import nearest_numbers

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
