"""The usual mistakes of programs that should overlap, each as the program from which a change is undone.

A mistake changes the configuration, the device or the ops that the host issues, and the model simulates the changed
program. The cost of some mistakes does not follow from any size (cold host memory, an allocation). These have a least
and a most time, and explain a range of measured times. A first run and earlier work explain nearly any time that is too
long: they are open-ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.checks import LEAST_FILL
from streamsim.device import CALLS, COMPILED, Device, front_end_of, with_front_end, with_values
from streamsim.program import LEGACY_STREAM, Config, Copy, HostOp, HostWork, Kernel, Op, Schedule, Synchronize
from streamsim.transform import stage_of

# Loading a module holds the first launch: 0.4 to 41 ms in public recordings. A context or a compiler takes seconds.
FIRST_RUN_S = 0.2e-3, 10.0
EARLIER_S = 0.1e-3, 60.0  # what was launched before the clock started
ALLOCATION_S = 20e-6, 1e-3  # cudaMalloc and cudaFree together, for each chunk
ALLOCATED_BYTES_PER_S = 30e9  # and the most time for much memory: 32 ms for 1 GiB in a public thread
HOSTS_DIFFER = 0.15  # relative error of a library's calls, whose times differ between hosts
OFTEN = 1.4  # of the six mistakes that most public threads are about, against each of the others
# The host stages pageable copies. Profiles have the rate of memory in the host's caches. Other memory is slower, and
# pages that were never written fault first: 1.8 to 3 GB/s in public threads, 0.5 to 2.8 GB/s in recordings.
COLD, COLD_BYTES_PER_S = 0.6, {"h2d": 4e9, "d2h": 1e9}
SHORT = Kernel(stream=LEGACY_STREAM, name="kernel in the default stream", duration_s=2e-6)  # or a cudaMemset


class IntendedProgram(NamedTuple):
    """A program as it was intended, or with mistakes already made.

    ``config``: how its work is cut and issued, and ``build``: the function that makes a schedule of a config. Both are
    None for a schedule from a file, and after a change of ops.
    """

    schedule: Schedule
    device: Device
    config: Config | None = None
    build: Callable[[Config], Schedule] | None = None

    def issued(self, **options: object) -> IntendedProgram | None:
        """Return the program with other options of its config; None without a config or without a difference."""
        if self.config is None or self.build is None:
            return None
        config = replace(self.config, **options)
        return None if config == self.config else self._replace(config=config, schedule=self.build(config))

    def with_ops(self, ops: Sequence[Op], **fields: object) -> IntendedProgram | None:
        """Return the program with other ops, and other fields of its schedule; None without a difference."""
        schedule = replace(self.schedule, ops=tuple(ops), unchunked=None, **fields)
        is_same = schedule.ops == self.schedule.ops and not fields
        return None if is_same else self._replace(schedule=schedule, config=None, build=None)

    def on(self, values: dict[str, float]) -> IntendedProgram:
        """Return the program on its device with other values."""
        return self._replace(device=with_values(self.device, values))


class Mistake(NamedTuple):
    """A usual mistake.

    - ``title``: what the program does; ``look``: how to see it in the code or in a profiler; ``remedy``: what to
      change.
    - ``kind``: a program can have only one mistake of a kind.
    - ``make``: returns the program with the mistake, or None if the program has it already or cannot have it. Its
      second argument is 0.0 for the least time that the mistake costs and 1.0 for the most.
    - ``has_range``: True if the least and the most time differ.
    - ``common``: how often it is made, against a mistake that is made now and then.
    """

    title: str
    look: str
    remedy: str
    kind: str
    make: Callable[[IntendedProgram, float], IntendedProgram | None]
    has_range: bool = False
    common: float = 1.0

    @property
    def doubt(self) -> float:
        """The additional relative error of its times."""
        return HOSTS_DIFFER if self.kind == "calls" else 0.0

    @property
    def is_open_ended(self) -> bool:
        """True if it explains nearly any time that is too long."""
        return self.kind == "clock" and self.has_range


# The memory, the chunks and the streams


def _pageable(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program with pageable host memory, warm (0.0) or cold (1.0)."""
    was = meant.schedule
    buffers = tuple(replace(b, memory="pageable") if b.memory == "pinned" else b for b in was.buffers)
    made = meant.issued(memory="pageable")
    if made is None and buffers != was.buffers:
        made = meant.with_ops(was.ops, buffers=buffers)
    rates = {}
    for direction, link in (("h2d", meant.device.h2d), ("d2h", meant.device.d2h)):
        warm = link.pageable_bandwidth_bytes_per_s
        least = min(COLD * warm, COLD_BYTES_PER_S[direction])
        rates[f"{direction}.pageable_bandwidth_bytes_per_s"] = 1 / ((1 - level) / warm + level / least)
    return made.on(rates) if made and level else made


def _not_cut(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if meant.config is None or meant.config.chunks == 1:
        return None
    return meant.issued(order="depth-first", chunks=1, streams=1, buffers=None)


def _one_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if meant.config is not None and meant.config.order == "depth-first" and meant.config.buffers is None:
        return meant.issued(streams=1)
    return _all_in(meant, 1) if len(meant.schedule.used_streams) > 1 else None  # else it is in one already


def _all_in(meant: IntendedProgram, stream: int) -> IntendedProgram | None:
    """Return the program with every op in one stream, without waits and records of events, which do nothing there."""
    if meant.schedule.used_streams in ((stream,), ()):
        return None

    def moved(op: Op) -> Op:
        if isinstance(op, Synchronize) and (op.stream is not None or op.event is not None):
            return replace(op, stream=stream, event=None)
        return replace(op, stream=stream) if isinstance(op, Copy | Kernel) else op

    return meant.with_ops([moved(op) for op in meant.schedule.ops if isinstance(op, Copy | Kernel | HostOp)])


def _kernels_in_default_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program with its kernels in the default stream; the other streams wait for it, else it would race."""
    ops = [replace(op, stream=LEGACY_STREAM) if isinstance(op, Kernel) else op for op in meant.schedule.ops]
    return _beside_default_stream(meant, ops)


def _beside_default_stream(meant: IntendedProgram, ops: Sequence[Op]) -> IntendedProgram | None:
    """Return the program with ``ops``, of which some are in the default stream, and with ordinary other streams."""
    schedule = meant.schedule
    if LEGACY_STREAM in schedule.used_streams or tuple(ops) == schedule.ops:
        return None
    return meant.with_ops(ops, streams=("blocking",) * len(schedule.streams))


def _short_in_default_stream(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    if len(meant.schedule.used_streams) < 2:
        return None
    return _beside_default_stream(meant, _behind_chunks(meant.schedule, [SHORT]))


def _few_queues(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program issued breadth-first over one hardware queue."""
    config = meant.config
    if config is None or config.streams < 2 or config.order != "depth-first" or config.buffers is not None:
        return None
    issued = meant.issued(order="breadth-first")
    return issued and issued._replace(device=meant.device.with_connections(1))


# The calls of the host


def ends_of_chunks(schedule: Schedule) -> list[int]:
    """Return the indices of the ops that end a chunk: the next op goes back in the order copy in, kernel, copy out."""
    work = [i for i, op in enumerate(schedule.ops) if isinstance(op, Copy | Kernel)]
    ends = [i for i, j in pairwise(work) if stage_of(schedule.ops[j]) < stage_of(schedule.ops[i])]
    return [*ends, *work[-1:]]


def _behind_chunks(schedule: Schedule, more: Sequence[Op]) -> list[Op]:
    """Return the ops with the ops ``more`` behind each chunk except the last."""
    ends = set(ends_of_chunks(schedule)[:-1])
    return [new for i, op in enumerate(schedule.ops) for new in (op, *(more if i in ends else ()))]


def _blocking_copies(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    return meant.with_ops([replace(op, blocking=True) if isinstance(op, Copy) else op for op in meant.schedule.ops])


def _allocates_in_the_loop(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program with an allocation before each chunk and a free behind it (none behind the last)."""
    least, most = ALLOCATION_S
    copied = sum(op.bytes for op in meant.schedule.ops if isinstance(op, Copy))
    most += copied / max(1, len(ends_of_chunks(meant.schedule))) / ALLOCATED_BYTES_PER_S
    work = HostWork(least + level * (most - least), "cudaMalloc")
    return meant.with_ops([work, *_behind_chunks(meant.schedule, [Synchronize(name="cudaFree"), work])])


def _first_run(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program in which the host loads a module before the first launch; without kernels, at its start."""
    (least, most), ops = FIRST_RUN_S, meant.schedule.ops
    first = next((i for i, op in enumerate(ops) if isinstance(op, Kernel)), 0)
    return meant.with_ops([*ops[:first], HostWork(least + level * (most - least), "loading the module"), *ops[first:]])


def _earlier_work(meant: IntendedProgram, level: float) -> IntendedProgram | None:
    """Return the program in which each stream still runs a kernel that was launched before the clock started."""
    least, most = EARLIER_S
    seconds, streams = least + level * (most - least), meant.schedule.used_streams
    earlier = [Kernel(stream, "earlier work", duration_s=seconds, fill=LEAST_FILL) for stream in streams]
    return meant.with_ops([*earlier, *meant.schedule.ops])


# The device


def _one_copy_engine(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    return meant.on({"copy_engines.count": 1}) if meant.device.copy_engines.count > 1 else None


def _shared_link(meant: IntendedProgram, _: float) -> IntendedProgram | None:
    """Return the program on a device whose two directions share the rate of one."""
    links = {"h2d": meant.device.h2d, "d2h": meant.device.d2h}
    half = {f"{name}.duplex_bandwidth_bytes_per_s": link.bandwidth_bytes_per_s / 2 for name, link in links.items()}
    return meant.on(half) if meant.device.copy_engines.count > 1 else None


def _front_end(name: str) -> Callable[[IntendedProgram, float], IntendedProgram | None]:
    def make(meant: IntendedProgram, _: float) -> IntendedProgram | None:
        is_bare = front_end_of(meant.device) in (CALLS, COMPILED)
        return meant._replace(device=with_front_end(meant.device, name)) if is_bare else None

    return make


# In the order in which several are made: those that change the config come before those that change single ops.
MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "host memory is pageable",
        "malloc, new, a NumPy array or a tensor without pin_memory(); profilers call these copies Pageable",
        "allocate host buffers with cudaMallocHost, cupyx.empty_pinned or pin_memory=True, once, before the loop",
        *("memory", _pageable, True, OFTEN),
    ),
    Mistake(
        "one stream for all chunks",
        "a profiler shows all copies and kernels in one stream",
        "two to four streams in turn: chunk i in stream i mod S",
        *("streams", _one_stream, False, OFTEN),
    ),
    Mistake(
        "the work is not cut into chunks",
        "a profiler shows one copy in, one kernel and one copy back, each of all the data",
        "cut the arrays into chunks, and issue the copies and the kernel of each chunk in its stream",
        *("streams", _not_cut, False, OFTEN),
    ),
    Mistake(
        "breadth-first issue on one hardware queue",
        "all copies in, then all kernels; CUDA_DEVICE_MAX_CONNECTIONS=1 or a card before Kepler",
        "issue depth-first, chunk by chunk; unset CUDA_DEVICE_MAX_CONNECTIONS",
        *("streams", _few_queues),
    ),
    Mistake(
        "copies block the host",
        "cudaMemcpy, set(), get() or .to() without non_blocking; each call lasts as long as its copy",
        "cudaMemcpyAsync, get(blocking=False) or non_blocking=True, from pinned memory, in the chunk's stream",
        *("waits", _blocking_copies, False, OFTEN),
    ),
    Mistake(
        "all work is in the default stream",
        "no stream argument at all; a profiler shows one stream, the default one",
        "create non-blocking streams, and give every copy and launch its chunk's stream",
        *("streams", lambda meant, _: _all_in(meant, LEGACY_STREAM), False, OFTEN),
    ),
    Mistake(
        "kernels are in the default stream",
        "<<<grid, block>>> without a stream beside cudaMemcpyAsync with one",
        "give the launch its stream: <<<grid, block, 0, stream>>>, or launch inside `with stream:`",
        *("streams", _kernels_in_default_stream),
    ),
    Mistake(
        "something in the default stream runs between chunks, beside ordinary streams",
        "cudaMemset, a library call or a launch without a stream in the loop; streams made with cudaStreamCreate",
        "cudaStreamCreateWithFlags(..., cudaStreamNonBlocking), and a stream argument for that call",
        *("streams", _short_in_default_stream),
    ),
    Mistake(
        "the host waits in the loop",
        "cudaDeviceSynchronize, .item(), .cpu() or print of a result for every chunk",
        "wait once, behind the loop; or for an event of the chunk before the last one",
        *("waits", lambda meant, _: meant.with_ops(_behind_chunks(meant.schedule, [Synchronize()])), False, OFTEN),
    ),
    Mistake(
        "memory is allocated and freed in the loop",
        "cudaMalloc and cudaFree for every chunk: cudaFree waits for the whole card",
        "allocate before the loop, or use cudaMallocAsync or the library's memory pool",
        *("waits", _allocates_in_the_loop, True),
    ),
    Mistake(
        "one copy engine for both directions",
        "asyncEngineCount is 1 (under WSL2 too); a profiler never shows both directions at once",
        "nothing overlaps the two directions on this card; hide one of them behind kernels",
        *("engines", _one_copy_engine),
    ),
    Mistake(
        "both directions share one link's rate",
        "alone each direction is fast, both at once each has half the rate: nvbandwidth's bidirectional tests",
        "a slot with all its lanes; less data back; nothing in the program",
        *("engines", _shared_link),
    ),
    Mistake(
        "the calls are CuPy's",
        "a profiler shows the card waiting between short ops; 5 to 15 us a call",
        "fewer, larger chunks; fuse kernels; a CUDA graph",
        *("calls", _front_end("cupy")),
    ),
    Mistake(
        "the calls are PyTorch's",
        "a profiler shows the card waiting between short ops; 10 to 30 us a call",
        "fewer, larger chunks; torch.compile; a CUDA graph",
        *("calls", _front_end("pytorch")),
    ),
    Mistake(
        "a first run was timed",
        "a second run is faster: the first call makes the context, the first launch loads its module or compiles it",
        "run once before the timing starts, then take the median of several runs",
        *("clock", _first_run, True),
    ),
    Mistake(
        "earlier work was still running when the clock started",
        "a copy back, .cpu(), .item() or a wait is timed behind launches: these return at once, and run on",
        "wait for the card before the clock starts; the time belongs to the kernels before it",
        *("clock", _earlier_work, True),
    ),
)
STOPPED_EARLY = Mistake(
    "the clock stopped before the card was done",
    "no cudaDeviceSynchronize or event between the last call and the end of the timing",
    "wait for the card before the clock is read, or time with events",
    *("clock", lambda meant, _: meant),
)


def pairs() -> Iterator[tuple[Mistake, Mistake]]:
    """Yield every pair of mistakes that a program can have together, in the order of making; no open-ended ones."""
    closed = (mistake for mistake in MISTAKES if not mistake.is_open_ended)
    return (pair for pair in combinations(closed, 2) if pair[0].kind != pair[1].kind)


def made(mistakes: Sequence[Mistake], meant: IntendedProgram, level: float = 0.0) -> IntendedProgram | None:
    """Return the program with all of ``mistakes``, made one after the other; None if nothing changes."""
    program = meant
    for mistake in mistakes:
        program = mistake.make(program, level) or program
    return None if program is meant else program
