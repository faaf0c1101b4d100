"""The parts of the calibration's probes: isolated micro-benchmarks and small programs, each of them a Schedule.

They are replayed by the same machinery as any other schedule, so that a host call costs in a probe what it costs
in a pipeline. Probes come as chains of two lengths: the difference of their times over the difference of their
lengths is the time of one link, free of what a run costs once. Chains whose ops are shorter than the calls that
issue them stand behind a gate, which holds their engine until all is queued: a long copy for copies, a spinning
kernel for the rest. Behind a gate copies of several streams that take turns with kernels start later than in a program
that is issued as it runs, so these stand behind none: short ones are a graph. Mixes of calls come over few streams and
over many instead, and programs (:mod:`streamsim_validate.calibrate.program_calls`) in many sizes, of which nothing
counts but how long the host issued them. None of them is a pipeline that is later predicted.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsim.program.schedule import Buffer, Copy, Direction, Kernel, Op, Region, Schedule, Synchronize
from streamsim_validate.records import Chain

KI, MI = 1 << 10, 1 << 20
LARGEST_PAGEABLE_BYTES, MOST_ELEMENTS = 16 * MI, 64 * MI
LINK_BYTES, MIX_BYTES = 256 * KI, 64 * KI

DIRECTIONS: tuple[Direction, ...] = ("h2d", "d2h")
GATE_S, GATE_BYTES = 800e-6, 40 * MI  # long enough to queue some hundred ops
FLOAT_BYTES = 4
PAGEABLE, DEVICE_IN, DEVICE_OUT = "pageable", "card_in", "card_out"
HOST: dict[Direction, str] = {"h2d": "host_in", "d2h": "host_out"}
HOST_BYTES = 64 * MI  # copies of a chain share memory only with others of their stream
BUFFERS = (
    Buffer(PAGEABLE, 3 * LARGEST_PAGEABLE_BYTES, "pageable"),
    *(Buffer(name, HOST_BYTES, "pinned") for name in HOST.values()),
    Buffer(DEVICE_IN, MOST_ELEMENTS * FLOAT_BYTES, "device"),
    Buffer(DEVICE_OUT, MOST_ELEMENTS * FLOAT_BYTES, "device"),
)
TINY = Kernel(1, "sincos", KI, 2)
Probe = tuple[Chain, Schedule]


def cycle_bytes(copy: int) -> int:
    """Return the size of copy number ``copy`` of a cycle: 256 to 768 KiB, all different, evenly spread at any length.

    An engine that waits for another looks for its signal at intervals (8 us on an H200), so cycles of like
    ops fall into step with it and their hand-overs come out all short or all long.
    """
    return (256 + copy * 197 % 512) * KI


def probe_of(kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object) -> Probe:
    """The probe of that chain: its ops and a wait for all of them, in so many streams; ``more``: of the schedule."""
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def gate() -> Op:
    """Return a kernel that holds stream 1 until all behind it is queued."""
    return Kernel(1, duration_s=GATE_S, fill=0.01)


def moved(direction: Direction, n_bytes: int, stream: int, number: int) -> Copy:
    """Return copy number ``number`` of a chain, of memory of its own as in a pipeline.

    Copies back of one and the same stretch would stay in the host's cache and be a little faster.
    """
    offset = number % (HOST_BYTES // n_bytes) * n_bytes
    device = DEVICE_IN if direction == "h2d" else DEVICE_OUT
    return Copy(direction, n_bytes, stream, Region(HOST[direction], offset, n_bytes), Region(device, offset, n_bytes))


def with_kernel(direction: Direction, n_bytes: int, stream: int, number: int) -> tuple[Copy | Kernel, Copy | Kernel]:
    """Return a copy, and the kernel that reads what it has brought or writes what it takes back.

    From and to memory of the card as in a pipeline; the chains of the two directions share none of it.
    """
    copy = moved(direction, n_bytes, stream, number)
    assert copy.device is not None
    elsewhere = copy.device.offset + HOST_BYTES
    reads, writes = copy.device, Region(DEVICE_OUT, elsewhere, n_bytes)
    if direction == "d2h":
        reads, writes = Region(DEVICE_IN, elsewhere, n_bytes), copy.device
    kernel = Kernel(stream, TINY.name, n_bytes // FLOAT_BYTES, TINY.parameter, reads=(reads,), writes=(writes,))
    return (copy, kernel) if direction == "h2d" else (kernel, copy)


def tiny(stream: int) -> Kernel:
    """Return the shortest kernel, in a stream."""
    return replace(TINY, stream=stream)
