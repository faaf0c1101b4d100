"""The usual mistakes of programs that should overlap, each as a change undone in the work as it was meant.

A mistake gives the work other options of its config, other ops or another device, and the model simulates it. The cost
of some mistakes does not follow from any size (cold host memory, an allocation). These have a least and a most time,
and explain a range of measured times. A first run and earlier work explain nearly any time that is too long.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import combinations, pairwise
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.device import CALLS, COMPILED, front_end_of, with_front_end, with_values
from streamsim.errors import LEAST_FILL
from streamsim.program import LEGACY_STREAM, Copy, HostOp, HostWork, Kernel, Op, Synchronize
from streamsim.transform import Work, stage_of

# Loading a module holds the first launch: 0.4 to 41 ms in public recordings. A context or a compiler takes seconds.
FIRST_RUN_S = 0.2e-3, 10.0
EARLIER_S = 0.1e-3, 60.0  # what was launched before the clock started
ALLOCATION_S = 20e-6, 1e-3  # cudaMalloc and cudaFree together, for each chunk
ALLOCATED_BYTES_PER_S = 30e9  # and the most time for much memory: 32 ms for 1 GiB in a public thread
OFTEN = 1.4  # of the six mistakes that most public threads are about, against each of the others
# The host stages pageable copies. Profiles have the rate of memory in the host's caches. Other memory is slower, and
# pages that were never written fault first: 1.8 to 3 GB/s in public threads, 0.5 to 2.8 GB/s in recordings.
COLD, COLD_BYTES_PER_S = 0.6, {"h2d": 4e9, "d2h": 1e9}
SHORT = Kernel(stream=LEGACY_STREAM, name="kernel in the default stream", duration_s=2e-6)  # or a cudaMemset


class Mistake(NamedTuple):
    """A usual mistake.

    - ``title``: what the program does; ``look``: how to see it in the code or in a profiler; ``remedy``: what to
      change.
    - ``kind``: a program can have only one mistake of a kind. Those of the clock explain nearly any time that is too
      long.
    - ``make``: returns the program with the mistake, or the program itself if it cannot have it. The second argument is
      0.0 for the least time that the mistake costs and 1.0 for the most.
    - ``has_range``: True if the least and the most time differ.
    - ``common``: how often it is made, against a mistake that is made now and then.
    """

    title: str
    look: str
    remedy: str
    kind: str
    make: Callable[[Work, float], Work]
    has_range: bool = False
    common: float = 1.0


def pairs() -> Iterator[tuple[Mistake, Mistake]]:
    """Yield every pair of mistakes that a program can have together, in the order of making; none of the clock's."""
    closed = (mistake for mistake in MISTAKES if mistake.kind != "clock")
    return (pair for pair in combinations(closed, 2) if pair[0].kind != pair[1].kind)


def made(mistakes: Iterable[Mistake], meant: Work, level: float = 0.0) -> Work:
    """Return the program with all of ``mistakes``, made one after the other."""
    return reduce(lambda program, mistake: mistake.make(program, level), mistakes, meant)


def with_ops(work: Work, ops: Iterable[Op], **fields: object) -> Work:
    """Return the program with other ops, and other fields of its schedule."""
    schedule = replace(work.schedule, ops=tuple(ops), unchunked=None, **fields)
    return work if schedule == work.schedule else work._replace(schedule=schedule, source=None)


def _on(work: Work, values: dict[str, float]) -> Work:
    return work._replace(device=with_values(work.device, values))


# The memory, the chunks and the streams


def _pageable(meant: Work, level: float) -> Work:
    """Return the program with pageable host memory, warm (0.0) or cold (1.0)."""
    if meant.pipeline is not None:
        made = meant.with_options(memory="pageable")
    else:
        buffers = (replace(b, memory="pageable") if b.memory == "pinned" else b for b in meant.schedule.buffers)
        made = with_ops(meant, meant.schedule.ops, buffers=tuple(buffers))
    if not level or made.schedule == meant.schedule:
        return made
    rates = {}
    for direction, link in (("h2d", meant.device.h2d), ("d2h", meant.device.d2h)):
        warm = link.pageable_bandwidth_bytes_per_s
        least = min(COLD * warm, COLD_BYTES_PER_S[direction])
        rates[f"{direction}.pageable_bandwidth_bytes_per_s"] = 1 / ((1 - level) / warm + level / least)
    return _on(made, rates)


def _not_cut(meant: Work, _: float) -> Work:
    if meant.pipeline is None:
        return meant
    return meant.with_options(order="depth-first", chunks=1, streams=1, buffers=None)


def _few_queues(meant: Work, _: float) -> Work:
    """Return the program issued breadth-first over one hardware queue."""
    was = meant.pipeline
    if was is None or was.config.streams < 2 or was.config.pattern != "depth-first":
        return meant
    return meant.with_options(order="breadth-first")._replace(device=meant.device.with_connections(1))


def _all_in(stream: int) -> Callable[[Work, float], Work]:
    """Put every op into one stream, without waits and records of events, which do nothing there."""

    def moved(op: Op) -> Op:
        if isinstance(op, Synchronize) and (op.stream is not None or op.event is not None):
            return replace(op, stream=stream, event=None)
        return replace(op, stream=stream) if isinstance(op, Copy | Kernel) else op

    def make(meant: Work, _: float) -> Work:
        if len(meant.schedule.used_streams) < 2 and stream != LEGACY_STREAM:
            return meant
        return with_ops(meant, (moved(op) for op in meant.schedule.ops if isinstance(op, Copy | Kernel | HostOp)))

    return make


def _kernels_in_default_stream(meant: Work, _: float) -> Work:
    """Return the program with its kernels in the default stream; the other streams wait for it, else it would race."""
    ops = (replace(op, stream=LEGACY_STREAM) if isinstance(op, Kernel) else op for op in meant.schedule.ops)
    return _beside_default_stream(meant, ops)


def _short_in_default_stream(meant: Work, _: float) -> Work:
    return (
        _beside_default_stream(meant, _behind_chunks(meant, SHORT)) if len(meant.schedule.used_streams) > 1 else meant
    )


def _beside_default_stream(meant: Work, ops: Iterable[Op]) -> Work:
    """Return the program with ``ops``, of which some are in the default stream, and with ordinary other streams."""
    if LEGACY_STREAM in meant.schedule.used_streams:
        return meant
    return with_ops(meant, ops, streams=("blocking",) * len(meant.schedule.streams))


# The calls of the host


def _behind_chunks(meant: Work, *more: Op) -> list[Op]:
    """Return the ops with the ops ``more`` behind each chunk except the last.

    A chunk ends where the next op goes back in the order copy in, kernel, copy out.
    """
    ops = meant.schedule.ops
    work = [i for i, op in enumerate(ops) if isinstance(op, Copy | Kernel)]
    ends = {i for i, j in pairwise(work) if stage_of(ops[j]) < stage_of(ops[i])}
    return [new for i, op in enumerate(ops) for new in (op, *(more if i in ends else ()))]


def _blocking_copies(meant: Work, _: float) -> Work:
    return with_ops(meant, (replace(op, blocking=True) if isinstance(op, Copy) else op for op in meant.schedule.ops))


def _waits_in_the_loop(meant: Work, _: float) -> Work:
    return with_ops(meant, _behind_chunks(meant, Synchronize()))


def _allocates_in_the_loop(meant: Work, level: float) -> Work:
    """Return the program with an allocation before each chunk and a free behind it (none behind the last)."""
    least, most = ALLOCATION_S
    copied = sum(op.bytes for op in meant.schedule.ops if isinstance(op, Copy))
    chunks = 1 + len(_behind_chunks(meant, SHORT)) - len(meant.schedule.ops)
    most += copied / chunks / ALLOCATED_BYTES_PER_S
    work = HostWork(least + level * (most - least), "cudaMalloc")
    return with_ops(meant, [work, *_behind_chunks(meant, Synchronize(name="cudaFree"), work)])


def _first_run(meant: Work, level: float) -> Work:
    """Return the program in which the host loads a module before the first launch; without kernels, at its start."""
    (least, most), ops = FIRST_RUN_S, meant.schedule.ops
    first = next((i for i, op in enumerate(ops) if isinstance(op, Kernel)), 0)
    loading = HostWork(least + level * (most - least), "loading the module")
    return with_ops(meant, [*ops[:first], loading, *ops[first:]])


def _earlier_work(meant: Work, level: float) -> Work:
    """Return the program in which each stream still runs a kernel that was launched before the clock started."""
    least, most = EARLIER_S
    seconds, streams = least + level * (most - least), meant.schedule.used_streams
    earlier = [Kernel(stream, "earlier work", duration_s=seconds, fill=LEAST_FILL) for stream in streams]
    return with_ops(meant, [*earlier, *meant.schedule.ops])


# The device


def _one_copy_engine(meant: Work, _: float) -> Work:
    return _on(meant, {"copy_engines.count": 1}) if meant.device.copy_engines.count > 1 else meant


def _shared_link(meant: Work, _: float) -> Work:
    """Return the program on a device whose two directions share the rate of one."""
    links = {"h2d": meant.device.h2d, "d2h": meant.device.d2h}
    half = {f"{name}.duplex_bandwidth_bytes_per_s": link.bandwidth_bytes_per_s / 2 for name, link in links.items()}
    return _on(meant, half) if meant.device.copy_engines.count > 1 else meant


def _library(meant: Work, level: float) -> Work:
    """Return the program with a library's calls: CuPy's (0.0) or PyTorch's (1.0), which cost more."""
    if front_end_of(meant.device) not in (CALLS, COMPILED):
        return meant
    return meant._replace(device=with_front_end(meant.device, "pytorch" if level > 0.5 else "cupy"))


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
        *("streams", _all_in(1), False, OFTEN),
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
        *("streams", _all_in(LEGACY_STREAM), False, OFTEN),
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
        *("waits", _waits_in_the_loop, False, OFTEN),
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
        "the calls are a library's, such as CuPy's or PyTorch's",
        "a profiler shows the card waiting between short ops; 5 to 15 us a call of CuPy, 10 to 30 us of PyTorch",
        "fewer, larger chunks; fuse kernels or torch.compile; a CUDA graph",
        *("calls", _library, True),
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
    *("end", lambda meant, _: meant),
)
