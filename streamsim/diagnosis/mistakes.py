"""The usual mistakes of programs that should overlap, each as a change of the intended program.

The most frequent mistakes in public threads come first, and are marked as common. A mistake changes the configuration,
the device or the ops that the host issues, and the model simulates the changed program. The cost of some mistakes does
not follow from any size (cold host memory, an allocation). These have a least and a most time, and explain a range of
measured times. A first run and earlier work explain nearly any time that is too long. These two are open-ended and come
last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.checks import LEAST_FILL
from streamsim.device import CALLS, COMPILED, Device, front_end_of, with_front_end, with_values
from streamsim.program import LEGACY_STREAM, Config, Copy, HostOp, HostWork, Kernel, Op, Schedule, Synchronize
from streamsim.transform import stage_of

BLOCKING = "blocking"  # an ordinary stream: it and the legacy default stream wait for each other
# Loading a module holds the first launch: 0.4 to 41 ms in public recordings. A context or a compiler takes seconds.
FIRST_RUN_S = 0.2e-3, 10.0
EARLIER_S = 0.1e-3, 60.0  # what was launched before the clock started
ALLOCATION_S = 20e-6, 1e-3  # cudaMalloc and cudaFree together, for each chunk
ALLOCATED_BYTES_PER_S = 30e9  # and the most time for much memory: 32 ms for 1 GiB in a public thread
ISSUE, OPS, DEVICE = 0, 1, 2  # the part that a mistake changes; several mistakes are made in this order
HOSTS_DIFFER = 0.15  # relative error of a library's calls, whose times differ between hosts
OFTEN = 1.4  # of the six mistakes that most public threads are about, against each of the others
SHORT_S = 2e-6  # a short kernel or cudaMemset in the default stream
# The host stages pageable copies. Profiles have the rate of memory in the host's caches. Other memory is slower, and
# pages that were never written fault first: 1.8 to 3 GB/s in public threads, 0.5 to 2.8 GB/s in recordings.
COLD, COLD_BYTES_PER_S = 0.6, {"h2d": 4e9, "d2h": 1e9}


class IntendedProgram(NamedTuple):
    """A program as it was intended, or with mistakes already made.

    ``config``: how its work is cut and issued, and ``build``: the function that makes a schedule of a config. Both are
    None for a schedule from a file, and after a change of ops.
    """

    schedule: Schedule
    device: Device
    config: Config | None = None
    build: Callable[[Config], Schedule] | None = None

    def issued(self, **changes: object) -> IntendedProgram | None:
        """Return the program with a changed config; None without a config or without a difference."""
        if self.config is None or self.build is None:
            return None
        config = replace(self.config, **changes)
        return None if config == self.config else self._replace(config=config, schedule=self.build(config))


class Mistake(NamedTuple):
    """A usual mistake.

    - ``title``: what the program does; ``look``: how to see it in the code or in a profiler; ``remedy``: what to
      change.
    - ``kind``: a program can have only one mistake of a kind.
    - ``make``: returns the program with the mistake, or None if the program has it already or cannot have it. Its
      second argument is 0.0 for the least time that the mistake costs and 1.0 for the most.
    - ``step``: ISSUE, OPS or DEVICE; mistakes are made in this order.
    - ``has_range``: True if the least and the most time differ.
    - ``doubt``: the additional relative error of its times.
    - ``is_open_ended``: True if it explains nearly any time that is too long.
    - ``common``: how often it is made, against a mistake that is made now and then.
    """

    title: str
    look: str
    remedy: str
    kind: str
    make: Callable[[IntendedProgram, float], IntendedProgram | None]
    step: int = OPS
    has_range: bool = False
    doubt: float = 0.0
    is_open_ended: bool = False
    common: float = 1.0


# The ops


def with_ops(meant: IntendedProgram, ops: Sequence[Op], streams: Sequence[str] | None = None) -> IntendedProgram:
    """Return the program with ``ops``, and with the kinds of ``streams`` (None: unchanged)."""
    schedule = replace(meant.schedule, ops=tuple(ops), unchunked=None)
    if streams is not None:
        schedule = replace(schedule, streams=tuple(streams))
    return meant._replace(schedule=schedule, config=None, build=None)


def ends_of_chunks(schedule: Schedule) -> list[int]:
    """Return the indices of the ops that end a chunk: the next op goes back in the order copy in, kernel, copy out."""
    work = [i for i, op in enumerate(schedule.ops) if isinstance(op, Copy | Kernel)]
    ends = [i for i, j in pairwise(work) if stage_of(schedule.ops[j]) < stage_of(schedule.ops[i])]
    return [*ends, *work[-1:]]


def _blocking_copies(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    ops = [replace(op, blocking=True) if isinstance(op, Copy) else op for op in meant.schedule.ops]
    return None if tuple(ops) == meant.schedule.ops else with_ops(meant, ops)


def _pageable(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program with pageable host memory, warm (0.0) or cold (1.0)."""
    schedule = meant.schedule
    buffers = [replace(b, memory="pageable") if b.memory == "pinned" else b for b in schedule.buffers]
    changed = meant.issued(memory="pageable")
    if changed is None and tuple(buffers) != schedule.buffers:
        cut = replace(schedule, buffers=tuple(buffers), unchunked=None)
        changed = meant._replace(schedule=cut, config=None, build=None)
    return changed and changed._replace(device=_with_cold_memory(meant.device, level))


def _with_cold_memory(device: Device, level: float) -> Device:
    """Return the device with rates of pageable memory between those of the profile (0.0) and the least ones (1.0)."""
    rates = {}
    for direction, link in (("h2d", device.h2d), ("d2h", device.d2h)):
        warm = link.pageable_bandwidth_bytes_per_s
        least = min(COLD * warm, COLD_BYTES_PER_S[direction])
        rates[f"{direction}.pageable_bandwidth_bytes_per_s"] = warm + level * (least - warm)
    return with_values(device, rates) if level else device


def _not_cut(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if meant.config is None or meant.config.chunks == 1:
        return None
    return meant.issued(order="depth-first", chunks=1, streams=1, buffers=None)


def _one_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if meant.config is not None and meant.config.order == "depth-first" and meant.config.buffers is None:
        return meant.issued(streams=1)
    return _all_in(meant, 1) if len(meant.schedule.used_streams) > 1 else None  # else it is in one already


def _default_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    return _all_in(meant, LEGACY_STREAM)


def _all_in(meant: IntendedProgram, stream: int) -> IntendedProgram | None:
    """Return the program with every op in one stream, without waits and records of events, which do nothing there."""
    if meant.schedule.used_streams in ((stream,), ()):
        return None
    kept = [op for op in meant.schedule.ops if isinstance(op, Copy | Kernel | HostOp)]
    ops = [replace(op, stream=stream) if isinstance(op, Copy | Kernel) else _synchronised(op, stream) for op in kept]
    return with_ops(meant, ops)


def _synchronised(op: Op, stream: int) -> Op:
    """Return ``op``; a host's wait for a stream or an event becomes a wait for ``stream``."""
    if isinstance(op, Synchronize) and (op.stream is not None or op.event is not None):
        return replace(op, stream=stream, event=None)
    return op


def _kernels_in_default_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program with its kernels in the default stream.

    The other streams become ordinary ones, which wait for the default stream; otherwise the program would race.
    """
    schedule = meant.schedule
    if not any(isinstance(op, Kernel) for op in schedule.ops) or {LEGACY_STREAM} & set(schedule.used_streams):
        return None
    ops = [replace(op, stream=LEGACY_STREAM) if isinstance(op, Kernel) else op for op in schedule.ops]
    return with_ops(meant, ops, [BLOCKING] * len(schedule.streams))


def _default_stream_beside(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program with a short kernel in the default stream behind each chunk, beside ordinary streams."""
    schedule = meant.schedule
    if LEGACY_STREAM in schedule.used_streams or len(set(schedule.used_streams)) < 2:
        return None
    short = Kernel(stream=LEGACY_STREAM, name="kernel in the default stream", duration_s=SHORT_S)
    return with_ops(meant, _behind_chunks(schedule, [short]), [BLOCKING] * len(schedule.streams))


def _behind_chunks(schedule: Schedule, more: Sequence[Op]) -> list[Op]:
    """Return the ops with the ops ``more`` behind each chunk except the last."""
    ends = set(ends_of_chunks(schedule)[:-1])
    return [new for i, op in enumerate(schedule.ops) for new in (op, *(more if i in ends else ()))]


def _waits_in_the_loop(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    ops = _behind_chunks(meant.schedule, [Synchronize()])
    return None if len(ops) == len(meant.schedule.ops) else with_ops(meant, ops)


def _allocates_in_the_loop(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program with an allocation before each chunk and a free behind it (none behind the last)."""
    least, most = ALLOCATION_S
    copied = sum(op.bytes for op in meant.schedule.ops if isinstance(op, Copy))
    most += copied / max(1, len(ends_of_chunks(meant.schedule))) / ALLOCATED_BYTES_PER_S
    work = HostWork(least + level * (most - least), "cudaMalloc")
    ops = _behind_chunks(meant.schedule, [Synchronize(name="cudaFree"), work])
    return with_ops(meant, [work, *ops])


def _first_run(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program in which the host loads a module before the first launch; without kernels, at its start."""
    least, most = FIRST_RUN_S
    first = next((i for i, op in enumerate(meant.schedule.ops) if isinstance(op, Kernel)), 0)
    load = HostWork(least + level * (most - least), "loading the module")
    return with_ops(meant, [*meant.schedule.ops[:first], load, *meant.schedule.ops[first:]])


def _earlier_work(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program in which each stream still runs a kernel that was launched before the clock started."""
    least, most = EARLIER_S
    seconds = least + level * (most - least)
    earlier = [
        Kernel(stream=stream, name="earlier work", duration_s=seconds, fill=LEAST_FILL)
        for stream in meant.schedule.used_streams
    ]
    return with_ops(meant, [*earlier, *meant.schedule.ops])


def _few_queues(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program issued breadth-first over one hardware queue."""
    config = meant.config
    if config is None or config.streams < 2 or config.order != "depth-first" or config.buffers is not None:
        return None
    issued = meant.issued(order="breadth-first")
    return issued and issued._replace(device=meant.device.with_connections(1))


# The device


def _one_copy_engine(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if meant.device.copy_engines.count == 1:
        return None
    return meant._replace(device=with_values(meant.device, {"copy_engines.count": 1}))


def _shared_link(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program on a device whose two directions share the rate of one."""
    device = meant.device
    if device.copy_engines.count == 1:
        return None
    half = {
        f"{name}.duplex_bandwidth_bytes_per_s": min(link.duplex_bandwidth_bytes_per_s, link.bandwidth_bytes_per_s / 2)
        for name, link in (("h2d", device.h2d), ("d2h", device.d2h))
    }
    return meant._replace(device=with_values(device, half))


def _front_end(name: str) -> Callable[[IntendedProgram, float], IntendedProgram | None]:
    def make(meant: IntendedProgram, _: float) -> IntendedProgram | None:
        is_bare = front_end_of(meant.device) in (CALLS, COMPILED)
        return meant._replace(device=with_front_end(meant.device, name)) if is_bare else None

    return make


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "host memory is pageable",
        "malloc, new, a NumPy array or a tensor without pin_memory(); profilers call these copies Pageable",
        "allocate host buffers with cudaMallocHost, cupyx.empty_pinned or pin_memory=True, once, before the loop",
        "memory",
        _pageable,
        step=ISSUE,
        has_range=True,
        common=OFTEN,
    ),
    Mistake(
        "copies block the host",
        "cudaMemcpy, set(), get() or .to() without non_blocking; each call lasts as long as its copy",
        "cudaMemcpyAsync, get(blocking=False) or non_blocking=True, from pinned memory, in the chunk's stream",
        "waits",
        _blocking_copies,
        common=OFTEN,
    ),
    Mistake(
        "all work is in the default stream",
        "no stream argument at all; a profiler shows one stream, the default one",
        "create non-blocking streams, and give every copy and launch its chunk's stream",
        "streams",
        _default_stream,
        common=OFTEN,
    ),
    Mistake(
        "kernels are in the default stream",
        "<<<grid, block>>> without a stream beside cudaMemcpyAsync with one",
        "give the launch its stream: <<<grid, block, 0, stream>>>, or launch inside `with stream:`",
        "streams",
        _kernels_in_default_stream,
    ),
    Mistake(
        "something in the default stream runs between chunks, beside ordinary streams",
        "cudaMemset, a library call or a launch without a stream in the loop; streams made with cudaStreamCreate",
        "cudaStreamCreateWithFlags(..., cudaStreamNonBlocking), and a stream argument for that call",
        "streams",
        _default_stream_beside,
    ),
    Mistake(
        "one stream for all chunks",
        "a profiler shows all copies and kernels in one stream",
        "two to four streams in turn: chunk i in stream i mod S",
        "streams",
        _one_stream,
        step=ISSUE,
        common=OFTEN,
    ),
    Mistake(
        "the work is not cut into chunks",
        "a profiler shows one copy in, one kernel and one copy back, each of all the data",
        "cut the arrays into chunks, and issue the copies and the kernel of each chunk in its stream",
        "streams",
        _not_cut,
        step=ISSUE,
        common=OFTEN,
    ),
    Mistake(
        "the host waits in the loop",
        "cudaDeviceSynchronize, .item(), .cpu() or print of a result for every chunk",
        "wait once, behind the loop; or for an event of the chunk before the last one",
        "waits",
        _waits_in_the_loop,
        common=OFTEN,
    ),
    Mistake(
        "breadth-first issue on one hardware queue",
        "all copies in, then all kernels; CUDA_DEVICE_MAX_CONNECTIONS=1 or a card before Kepler",
        "issue depth-first, chunk by chunk; unset CUDA_DEVICE_MAX_CONNECTIONS",
        "streams",
        _few_queues,
        step=ISSUE,
    ),
    Mistake(
        "one copy engine for both directions",
        "asyncEngineCount is 1 (under WSL2 too); a profiler never shows both directions at once",
        "nothing overlaps the two directions on this card; hide one of them behind kernels",
        "engines",
        _one_copy_engine,
        step=DEVICE,
    ),
    Mistake(
        "both directions share one link's rate",
        "alone each direction is fast, both at once each has half the rate: nvbandwidth's bidirectional tests",
        "a slot with all its lanes; less data back; nothing in the program",
        "engines",
        _shared_link,
        step=DEVICE,
    ),
    Mistake(
        "the calls are CuPy's",
        "a profiler shows the card waiting between short ops; 5 to 15 us a call",
        "fewer, larger chunks; fuse kernels; a CUDA graph",
        "calls",
        _front_end("cupy"),
        step=DEVICE,
        doubt=HOSTS_DIFFER,
    ),
    Mistake(
        "the calls are PyTorch's",
        "a profiler shows the card waiting between short ops; 10 to 30 us a call",
        "fewer, larger chunks; torch.compile; a CUDA graph",
        "calls",
        _front_end("pytorch"),
        step=DEVICE,
        doubt=HOSTS_DIFFER,
    ),
    Mistake(
        "memory is allocated and freed in the loop",
        "cudaMalloc and cudaFree for every chunk: cudaFree waits for the whole card",
        "allocate before the loop, or use cudaMallocAsync or the library's memory pool",
        "waits",
        _allocates_in_the_loop,
        has_range=True,
    ),
    Mistake(
        "a first run was timed",
        "a second run is faster: the first call makes the context, the first launch loads its module or compiles it",
        "run once before the timing starts, then take the median of several runs",
        "clock",
        _first_run,
        has_range=True,
        is_open_ended=True,
    ),
    Mistake(
        "earlier work was still running when the clock started",
        "a copy back, .cpu(), .item() or a wait is timed behind launches: these return at once, and run on",
        "wait for the card before the clock starts; the time belongs to the kernels before it",
        "clock",
        _earlier_work,
        has_range=True,
        is_open_ended=True,
    ),
)


def pairs(mistakes: Sequence[Mistake]) -> Iterator[tuple[Mistake, ...]]:
    """Yield every pair of mistakes that a program can have together, in the order of making; no open-ended ones."""
    closed = [mistake for mistake in mistakes if not mistake.is_open_ended]
    for k, first in enumerate(closed):
        for second in closed[k + 1 :]:
            if second.kind != first.kind:
                yield tuple(sorted((first, second), key=lambda mistake: mistake.step))


def made(mistakes: Sequence[Mistake], meant: IntendedProgram, level: float = 0.0) -> IntendedProgram | None:
    """Return the program with all of ``mistakes``, made one after the other; None if nothing changes."""
    program = meant
    for mistake in mistakes:
        program = mistake.make(program, level) or program
    return None if program is meant else program
