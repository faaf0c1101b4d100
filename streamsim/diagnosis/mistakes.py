"""The usual mistakes of programs that should overlap: changes of :mod:`streamsim.transform.changes` that are undone.

A mistake gives the work other options of its config, other ops or another device, and the model simulates it. The cost
of some mistakes does not follow from any size (cold host memory, an allocation). These have a least and a most time,
and explain a range of measured times. A first run and earlier work explain nearly any time that is too long.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import combinations
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.device import with_values
from streamsim.errors import LEAST_FILL
from streamsim.program import Kernel
from streamsim.transform import Undo, Work
from streamsim.transform import changes as make

EARLIER_S = 0.1e-3, 60.0  # what was launched before the clock started
OFTEN = 1.4  # of the six mistakes that most public threads are about, against each of the others


class Mistake(NamedTuple):
    """A usual mistake.

    - ``title``: what the program does; ``look``: how to see it in the code or in a profiler; ``remedy``: what to
      change.
    - ``make``: returns the program with the mistake, or the program itself if it cannot have it. The second argument is
      0.0 for the least time that the mistake costs and 1.0 for the most.
    - ``common``: how often it is made, against a mistake that is made now and then.
    - ``has_range``: True if the least and the most time differ.
    - ``is_open_ended``: True if the mistake explains nearly any time that is too long.
    """

    title: str
    look: str
    remedy: str
    make: Undo
    common: float = 1.0
    has_range: bool = False
    is_open_ended: bool = False


def pairs() -> Iterator[tuple[Mistake, Mistake]]:
    """Yield every pair of mistakes that a program can have together, in the order of making; none is open-ended."""
    return combinations((mistake for mistake in MISTAKES if not mistake.is_open_ended), 2)


def made(mistakes: Iterable[Mistake], meant: Work, level: float = 0.0) -> Work:
    """Return the program with all of ``mistakes``, made one after the other."""
    return reduce(lambda program, mistake: mistake.make(program, level), mistakes, meant)


def _one_copy_engine(meant: Work, _: float) -> Work:
    return meant._replace(device=with_values(meant.device, {"copy_engines.count": 1}))


def _shared_link(meant: Work, _: float) -> Work:
    """Return the program on a device whose two directions share the rate of one."""
    links = {"h2d": meant.device.h2d, "d2h": meant.device.d2h}
    half = {f"{name}.duplex_bandwidth_bytes_per_s": link.bandwidth_bytes_per_s / 2 for name, link in links.items()}
    return meant._replace(device=with_values(meant.device, half)) if meant.device.copy_engines.count > 1 else meant


def _behind_earlier_work(meant: Work, level: float) -> Work:
    """Return the program in which each stream still runs a kernel that was launched before the clock started."""
    least, most = EARLIER_S
    seconds, schedule = least + level * (most - least), meant.schedule
    earlier = (Kernel(stream, "earlier work", duration_s=seconds, fill=LEAST_FILL) for stream in schedule.used_streams)
    return meant.issued(replace(schedule, ops=(*earlier, *schedule.ops), unchunked=None))


# In the order in which several are made: those that change the config come before those that change single ops.
MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "host memory is pageable",
        "malloc, new, a NumPy array or a tensor without pin_memory(); profilers call these copies Pageable",
        "allocate host buffers with cudaMallocHost, cupyx.empty_pinned or pin_memory=True, once, before the loop",
        *(make.pageable, OFTEN, True),
    ),
    Mistake(
        "one stream for all chunks",
        "a profiler shows all copies and kernels in one stream: without a stream argument the default one",
        "two to four non-blocking streams in turn: chunk i in stream i mod S",
        *(make.one_stream, OFTEN),
    ),
    Mistake(
        "the work is not cut into chunks",
        "a profiler shows one copy in, one kernel and one copy back, each of all the data",
        "cut the arrays into chunks, and issue the copies and the kernel of each chunk in its stream",
        *(make.not_cut, OFTEN),
    ),
    Mistake(
        "breadth-first issue on one hardware queue",
        "all copies in, then all kernels; CUDA_DEVICE_MAX_CONNECTIONS=1 or a card before Kepler",
        "issue depth-first, chunk by chunk; unset CUDA_DEVICE_MAX_CONNECTIONS",
        make.few_queues,
    ),
    Mistake(
        "copies block the host",
        "cudaMemcpy, set(), get() or .to() without non_blocking; each call lasts as long as its copy",
        "cudaMemcpyAsync, get(blocking=False) or non_blocking=True, from pinned memory, in the chunk's stream",
        *(make.blocking, OFTEN),
    ),
    Mistake(
        "kernels are in the default stream",
        "<<<grid, block>>> without a stream beside cudaMemcpyAsync with one",
        "give the launch its stream: <<<grid, block, 0, stream>>>, or launch inside `with stream:`",
        make.kernels_in_legacy,
    ),
    Mistake(
        "something in the default stream runs between chunks, beside ordinary streams",
        "cudaMemset, a library call or a launch without a stream in the loop; streams made with cudaStreamCreate",
        "cudaStreamCreateWithFlags(..., cudaStreamNonBlocking), and a stream argument for that call",
        make.short_in_legacy,
    ),
    Mistake(
        "the host waits in the loop",
        "cudaDeviceSynchronize, .item(), .cpu() or print of a result for every chunk",
        "wait once, behind the loop; or for an event of the chunk before the last one",
        *(make.waiting, OFTEN),
    ),
    Mistake(
        "memory is allocated and freed in the loop",
        "cudaMalloc and cudaFree for every chunk: cudaFree waits for the whole card",
        "allocate before the loop, or use cudaMallocAsync or the library's memory pool",
        *(make.allocating, 1.0, True),
    ),
    Mistake(
        "one copy engine for both directions",
        "asyncEngineCount is 1 (under WSL2 too); a profiler never shows both directions at once",
        "nothing overlaps the two directions on this card; hide one of them behind kernels",
        _one_copy_engine,
    ),
    Mistake(
        "both directions share one link's rate",
        "alone each direction is fast, both at once each has half the rate: nvbandwidth's bidirectional tests",
        "a slot with all its lanes; less data back; nothing in the program",
        _shared_link,
    ),
    Mistake(
        "the calls are a library's, such as CuPy's or PyTorch's",
        "a profiler shows the card waiting between short ops; 5 to 15 us a call of CuPy, 10 to 30 us of PyTorch",
        "fewer, larger chunks; fuse kernels or torch.compile; a CUDA graph",
        *(make.of_a_library, 1.0, True),
    ),
    Mistake(
        "a first run was timed",
        "a second run is faster: the first call makes the context, the first launch loads its module or compiles it",
        "run once before the timing starts, then take the median of several runs",
        *(make.first_run, 1.0, True, True),
    ),
    Mistake(
        "earlier work was still running when the clock started",
        "a copy back, .cpu(), .item() or a wait is timed behind launches: these return at once, and run on",
        "wait for the card before the clock starts; the time belongs to the kernels before it",
        *(_behind_earlier_work, 1.0, True, True),
    ),
)
STOPPED_EARLY = Mistake(
    "the clock stopped before the card was done",
    "no cudaDeviceSynchronize or event between the last call and the end of the timing",
    "wait for the card before the clock is read, or time with events",
    lambda meant, _: meant,
)
