"""The parts of the calibration's probes: isolated micro-benchmarks and small programs, each of them a Schedule.

They are replayed like any other schedule, so a call costs in a probe what it costs in a pipeline. Probes come as chains
of two lengths. The difference of their times over the difference of their lengths is the time of one link, free of what
a run costs once.

Chains whose ops are shorter than their calls stand behind a gate, which holds their engine until all is queued: a long
copy for copies, a spinning kernel for other ops. Behind a gate, copies of several streams that take turns with kernels
start later than in a live program. So these stand behind no gate, and short ones are a graph. Mixes of calls come over
few and over many streams. Of programs (:mod:`streamsim_validate.calibrate.program_calls`), only the time to issue them
counts. No probe is a pipeline that is predicted later.
"""

from msgspec.structs import replace

from streamsim.program import Buffer, Copy, Kernel, Op, Region, Schedule, Synchronize
from streamsim.program.schedule import Direction
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
    """Return the bytes of copy number ``copy`` of a cycle: 256 to 768 KiB, all different, evenly spread.

    An engine that waits for another looks for its signal at intervals (8 us on an H200). Cycles of equal ops fall into
    step with these intervals, and their hand-overs come out all short or all long.
    """
    return (256 + copy * 197 % 512) * KI


def probe_of(kind: str, size: int, length: int, ops: list[Op], streams: int = 1, **more: object) -> Probe:
    """Return the probe of a chain: its ops and a wait for all of them. ``more``: fields of the schedule."""
    chain = Chain(kind, size, length)
    closed = (*ops, Synchronize())
    schedule = Schedule(closed, ("non-blocking",) * streams, name=f"probe {chain.key}", **more)  # type: ignore[arg-type]
    return chain, schedule


def gate() -> Op:
    """Return a kernel that holds stream 1 until all behind it is queued."""
    return Kernel(1, duration_s=GATE_S, fill=0.01)


def moved(direction: Direction, n_bytes: int, stream: int, number: int) -> Copy:
    """Return copy number ``number`` of a chain, from or to memory of its own as in a pipeline.

    Copies back into one place would stay in the host's cache and be a little faster.
    """
    offset = number % (HOST_BYTES // n_bytes) * n_bytes
    device = DEVICE_IN if direction == "h2d" else DEVICE_OUT
    return Copy(direction, n_bytes, stream, Region(HOST[direction], offset, n_bytes), Region(device, offset, n_bytes))


def with_kernel(direction: Direction, n_bytes: int, stream: int, number: int) -> tuple[Copy | Kernel, Copy | Kernel]:
    """Return a copy with the kernel that reads its data, or that writes the data which it takes back.

    The memory of the card is used as in a pipeline. The chains of the two directions share none of it.
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
