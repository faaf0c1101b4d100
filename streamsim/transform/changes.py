"""The changes that can be made to a program: for each what it does, what it assumes, and its words.

A change turns a program into another one: another schedule, another device, or both. Copies and kernels do the same
work on the same bytes, and a program without races stays without races. If the workload of a schedule is known, a
change of chunks, streams, order, buffers, memory or launch is the same pattern with other options. Otherwise the change
works on the ops. It may have to assume what the schedule does not show, such as independent steps, and says so. Several
changes are made one after another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import reduce
from itertools import chain, pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from streamsim.device import CALLS, COMPILED, Device, front_end_of, with_front_end, with_values
from streamsim.errors import SHORTEST_KERNEL_S, InputError, counted, shown
from streamsim.program import LEGACY_STREAM, Config, Copy, HostOp, HostWork, Kernel, Op, Schedule, Synchronize
from streamsim.text import format_bytes, format_seconds
from streamsim.timeline import call_name
from streamsim.transform import calls_and_memory as calls
from streamsim.transform import chunks as cutting
from streamsim.transform import guard
from streamsim.transform import work as programs
from streamsim.transform.dependences import IN_ROUNDS, dependences_of, still_ordered
from streamsim.transform.steps import chunk_count, is_by_steps, is_recorded
from streamsim.transform.work import LayersSource, LoopSource, Work, is_load, is_work

# Of the gap between two kernels of a graph, the part that a profiler counts to a kernel launched by itself: 0.6 of 1.0
# us, by five nets that PyTorch's profiler recorded live on an H100 and an H200 and that were captured then.
GAP_IN_A_RECORDED_TIME = 0.6
# The host stages pageable copies. Profiles have the rate of memory in the host's caches. Other memory is slower, and
# pages that were never written fault first: 1.8 to 3 GB/s in public threads, 0.5 to 2.8 GB/s in recordings.
COLD, COLD_BYTES_PER_S = 0.6, {"h2d": 4e9, "d2h": 1e9}
# Loading a module holds the first launch: 0.4 to 41 ms in public recordings. A context or a compiler takes seconds.
FIRST_RUN_S = 0.2e-3, 10.0
ALLOCATION_S = 20e-6, 1e-3  # cudaMalloc and cudaFree together, for each chunk
ALLOCATED_BYTES_PER_S = 30e9  # and the most time for much memory: 32 ms for 1 GiB in a public thread
SHORT_S = 2e-6  # a short kernel
ISSUE_ORDERS = {"depth-first", "breadth-first"}
CAN_BE_CUT = "your steps can be cut"
NEEDS_NO_RESULT = "the host needs no result before the end"
ONLY_PASSED_ON = "each copy to the card has the bytes that just came back"
READS_NO_RESULT = "the host reads no result before the next synchronisation that is left"
IN_TIME = "the next step's input does not depend on this step's result"
LATER = "nothing needs the loss at once"
TWO_BATCHES = "the card has room for 2 batches"
CORES = "the host has a core for each worker"
LOADS_ALONE = "the host's work before a step's copies is loading that needs no result of a step"
SAME_CALLS = "the calls that come again are the same each time"
NEEDS_NO_HOST = "nothing that the host does between its calls is needed by them"
TO_BE_SAID = {guard.INDEPENDENT, CAN_BE_CUT, guard.NEEDS_NO_LEGACY}  # before a change is made by whoever asks for it
# Changes are made in this order: of memory and calls, of the order of work, of its times, of graphs, of the device.
MAKING_ORDER = (
    *("--keep", "--pin", "--off-legacy", "--async", "--drop-sync", "--pool", "--warm-calls", "--workers"),
    *("--drop-waits", "--buffers", "--resident", "--depth", "--chunks", "--streams", "--order", "--prefetch"),
    *("--front-end-cost", "--kernel", "--graph", "--step-graphs", "--live", "--set-connections", "--on-device"),
)


Words = str | Callable[[Work, Work], str]  # a function is given the program before and with the change
OfLoop = tuple[LoopSource, str, str]  # another training loop, in words, and what it needs, behind "if"


def _setting(words: str, needs: str = "", **fields: Any) -> Callable[[LoopSource], OfLoop]:
    """Return a function that gives a training loop other fields."""
    return lambda was: (was.with_fields(**fields), words, needs)


class Change(NamedTuple):
    """A change of a program.

    - ``option``: the option of ``streamsim whatif``.
    - ``make``: returns the changed program. Raises InputError if the change cannot be made.
    - ``does``: the words for the change; "" if the option says enough. ``needs``: a condition other than lost orders,
      in words behind "if"; "" for none.
    - ``of_config``: returns other fields for the config of a workload, which makes the change then; None: it cannot.
    - ``of_loop``: returns what it makes of a training loop, in place of all of these; None: nothing.
    - ``copies_ahead``: True if copies to the card pass ops of earlier steps, into other buffers than those of now.
    """

    option: str
    make: Callable[[Work], Work]
    does: Words = ""
    needs: Words = ""
    of_config: Callable[[Config], dict[str, Any] | None] | None = None
    of_loop: Callable[[LoopSource], OfLoop] | None = None
    copies_ahead: bool = False

    def of(self, work: Work) -> "Change":
        """Return the change as it is made to ``work``. Raises InputError if that is a loop without such a change."""
        if isinstance(work.source, LoopSource):
            if self.of_loop is None:
                raise InputError("the program is a training loop, which has no such change; try --pin or --workers")
            loop, words, needs = self.of_loop(work.source)
            return self._replace(make=lambda _: loop.work(), does=words, needs=needs)
        options = self.of_config(work.pipeline.config) if work.pipeline and self.of_config else None
        return self if options is None else self._replace(make=lambda work: work.with_options(**options))

    @property
    def kind(self) -> str:
        """The option without its value."""
        return self.option.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed program.

    - ``done``: the option and the words of each change that changes something.
    - ``assumes``: what must hold that the program does not show.
    """

    work: Work
    done: tuple[tuple[str, str], ...] = ()
    assumes: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The words of the command line that make the changes with ``streamsim whatif``."""
        return tuple(word for option, _ in self.done for word in option.split(maxsplit=1))

    @property
    def text(self) -> str:
        """The words of all changes as one phrase."""
        *most, last = [words for _, words in self.done if words] or [""]
        return ", and ".join(filter(None, (", ".join(most), last)))

    @property
    def condition(self) -> str:
        """All assumptions in words behind "if"; "" for none."""
        return " and ".join(self.assumes)


def in_making_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes in the order in which they are made; of several of a kind, the last one."""
    last = {change.option if change.kind == "--kernel" else change.kind: change for change in changes}
    return tuple(sorted(last.values(), key=lambda change: MAKING_ORDER.index(change.kind)))


def changed(change: Change, was: Changed, independent: bool = True) -> Changed:
    """Return the program with one more change.

    ``independent``: True if the user said that the steps are independent and can be cut. Raises InputError, which
    names the change, if it cannot be made.
    """
    work = was.work
    try:
        change = change.of(work)
        made = change.make(work)
        needs = _said(change.needs, work, made)
        conditions = dict.fromkeys(filter(None, (needs, *_conditions(change, work, made))))
        unsaid = [] if independent else [some for some in conditions if some in TO_BE_SAID]
        if unsaid:
            raise InputError(f"nothing in the schedule shows that {unsaid[0]}; if so, say it with --independent")
    except InputError as error:
        message = str(error)
        raise type(error)(message if message.startswith("--") else f"{change.option}: {message}") from None
    if made[:2] == work[:2]:
        return Changed(made, was.done, was.assumes)
    done = (*was.done, (change.option, _said(change.does, work, made)))
    return Changed(made, done, tuple(dict.fromkeys((*was.assumes, *conditions))))


def _said(words: Words, was: Work, made: Work) -> str:
    return words if isinstance(words, str) else words(was, made)


def _conditions(change: Change, was: Work, made: Work) -> Iterator[str]:
    """Yield the conditions for the orders that a change loses. Raises InputError for one that it must not lose."""
    between = list[guard.Lost]()
    for one in guard.lost_orders(was, made):
        if one.conditions == (guard.NEVER,):
            where = f"ops[{one.later}] would not wait for ops[{one.earlier}]"
            raise InputError(f"{where}, and may use the same memory: name what both use")
        if one.conditions == (guard.INDEPENDENT,):
            between.append(one)
        else:
            yield from one.conditions
    if between and made.first is not None:
        yield _of_steps(change, between, made.first.ops)


def _of_steps(change: Change, lost: Sequence[guard.Lost], ops: Sequence[Op]) -> str:
    """Return the condition behind steps that lose an order; "" if copies ahead need none.

    A copy without named memory, into another buffer than now, needs nothing of kernels. Its input may be what was
    copied back.
    """
    pairs = [(ops[one.earlier], ops[one.later]) for one in lost]
    if not change.copies_ahead or not all(is_load(later) and not is_load(earlier) for earlier, later in pairs):
        return guard.INDEPENDENT
    copies = [op for op in ops if isinstance(op, Copy)]
    while not is_load(copies[-1]):
        copies.pop()
    return "" if all(is_load(op) and not programs.names_memory(op) for op in copies) else IN_TIME


def changed_by(changes: Iterable[Change], work: Work, independent: bool = True) -> Changed:
    """Return the program with all changes, made one after another as by :func:`changed`."""
    return reduce(lambda found, change: changed(change, found, independent), changes, Changed(work))


def _reissued(issue: Callable[[Schedule], Schedule]) -> Callable[[Work], Work]:
    """Return a function that issues the ops so, with the waits that their data needs where an order is lost."""
    return lambda work: work.issued(still_ordered(work.schedule, issue(work.schedule)))


def _of_results(condition: str) -> Words:
    """Return a function that gives the ``condition`` of recorded programs; others say how their host uses results."""
    return lambda work, _: condition if work.pipeline is None and is_recorded(work.schedule) else ""


def _with_memory(words: str) -> Words:
    """Return a function that adds to ``words`` how much memory of the card the change takes or frees."""

    def does(work: Work, made: Work) -> str:
        more = made.schedule.device_bytes - work.schedule.device_bytes
        return f"{words} ({format_bytes(abs(more))} {'less' if more < 0 else 'more'})"

    return does


# A function of the type Undo makes the usual mistake that a change mends. If no size tells what the mistake costs, its
# ``level`` does: from 0.0, the least time, to 1.0, the most. If the program cannot have the mistake, it is returned.

Undo = Callable[[Work, float], Work]


def undone(work: Work, ops: Iterable[Op], **fields: object) -> Work:
    """Return the program with other ops, and other fields of its schedule."""
    schedule = replace(work.schedule, ops=tuple(ops), unchunked=None, **fields)
    return work if schedule == work.schedule else work.issued(schedule)


def _behind_chunks(work: Work, *more: Op) -> list[Op]:
    """Return the ops with the ops ``more`` behind each chunk except the last.

    A chunk ends where the next op goes back in the order copy in, kernel, copy out.
    """
    ops = work.schedule.ops
    works = [i for i, op in enumerate(ops) if isinstance(op, Copy | Kernel)]
    ends = {i for i, j in pairwise(works) if programs.stage_of(ops[j]) < programs.stage_of(ops[i])}
    return [new for i, op in enumerate(ops) for new in (op, *(more if i in ends else ()))]


# Memory and calls

PIN = Change(  # the call of a copy that was pageable takes the profile's time
    "--pin",
    _reissued(calls.pinned),
    "allocate the host buffers as pinned memory",
    of_config=lambda _: {"memory": "pinned"},
    of_loop=_setting("pin_memory=True", is_pinned=True),
)


def pageable(meant: Work, level: float) -> Work:
    """Undo :data:`PIN`: the host memory is pageable, warm (0.0) or cold (1.0)."""
    if meant.pipeline is not None:
        made = meant.with_options(memory="pageable")
    else:
        buffers = (replace(b, memory="pageable") if b.memory == "pinned" else b for b in meant.schedule.buffers)
        made = undone(meant, meant.schedule.ops, buffers=tuple(buffers))
    rates = {}
    for name, link in (("h2d", meant.device.h2d), ("d2h", meant.device.d2h)):
        warm = link.pageable_bandwidth_bytes_per_s
        least = min(COLD * warm, COLD_BYTES_PER_S[name])
        rates[f"{name}.pageable_bandwidth_bytes_per_s"] = 1 / ((1 - level) / warm + level / least)
    return made._replace(device=with_values(meant.device, rates))


# What a step copies back and the next one copies to the card again stays on the card.
KEEP = Change(
    "--keep",
    lambda work: work.issued(*calls.kept_on_card(work.schedule)),
    "keep on the card what comes back and goes up again",
    ONLY_PASSED_ON,
)


def _off_legacy_words(work: Work, _: Work) -> str:
    unknown = programs.orders_unknown(work.schedule)
    where = "the streams of the ops before them" if unknown else "a stream of their own"
    events = ", with events where ops need each other" * (programs.has_legacy(work.schedule) and not unknown)
    return f"issue the legacy default stream's ops in {where}, make all streams non-blocking{events}"


OFF_LEGACY = Change("--off-legacy", _reissued(programs.without_legacy), _off_legacy_words)


def kernels_in_legacy(meant: Work, _: float) -> Work:
    """Undo :data:`OFF_LEGACY`: kernels are in the default stream. Ordinary streams wait for it, so nothing races."""
    ops = (replace(op, stream=LEGACY_STREAM) if isinstance(op, Kernel) else op for op in meant.schedule.ops)
    return _beside_legacy(meant, ops)


def short_in_legacy(meant: Work, _: float) -> Work:
    """Undo :data:`OFF_LEGACY` for a short kernel, or a cudaMemset, behind each chunk."""
    short = Kernel(stream=LEGACY_STREAM, name="kernel in the default stream", duration_s=SHORT_S)
    return _beside_legacy(meant, _behind_chunks(meant, short)) if len(meant.schedule.used_streams) > 1 else meant


def _beside_legacy(meant: Work, ops: Iterable[Op]) -> Work:
    if LEGACY_STREAM in meant.schedule.used_streams:
        return meant
    return undone(meant, ops, streams=("blocking",) * len(meant.schedule.streams))


def _depth_first(config: Config) -> dict[str, Any]:
    """Return the fields of a pipeline with nothing that holds its host, if that is not pageable memory."""
    return {"order": "depth-first"} if config.issued.is_blocking else {}


ASYNC = Change(  # no copy holds the host, nor a synchronisation with its stream right behind it
    "--async",
    _reissued(calls.asynchronous),
    "use asynchronous copies",
    _of_results(READS_NO_RESULT),
    _depth_first,
    _setting("non_blocking=True", non_blocking=True),
)


def blocking(meant: Work, _: float) -> Work:
    """Undo :data:`ASYNC`: each copy holds the host."""
    return undone(meant, (replace(op, blocking=True) if isinstance(op, Copy) else op for op in meant.schedule.ops))


DROP_SYNC = Change(  # the host waits only at the end
    "--drop-sync",
    _reissued(calls.without_host_waits),
    "use asynchronous copies and synchronise once at the end",
    _of_results(NEEDS_NO_RESULT),
    _depth_first,
    _setting("the loss read once in a while", LATER, reads_loss=False),
)


def waiting(meant: Work, _: float) -> Work:
    """Undo :data:`DROP_SYNC`: the host waits behind each chunk."""
    return undone(meant, _behind_chunks(meant, Synchronize()))


def _of_copies_back(work: Work, _: Work) -> str:
    return READS_NO_RESULT if programs.COPIES_BACK in map(programs.stage_of, work.schedule.ops) else ""


POOL = Change(  # no free waits for the card
    "--pool",
    lambda work: work.issued(calls.pooled(work.schedule)),
    "allocate memory once, or from a pool (cudaMallocAsync), and free nothing in between",
    _of_copies_back,
)


def allocating(meant: Work, level: float) -> Work:
    """Undo :data:`POOL`: memory is allocated before each chunk and freed behind it (not behind the last)."""
    least, most = ALLOCATION_S
    copied = sum(op.bytes for op in meant.schedule.ops if isinstance(op, Copy))
    chunks = 1 + len(_behind_chunks(meant, Synchronize())) - len(meant.schedule.ops)
    most += copied / chunks / ALLOCATED_BYTES_PER_S
    work = HostWork(least + level * (most - least), "cudaMalloc")
    return undone(meant, [work, *_behind_chunks(meant, Synchronize(name="cudaFree"), work)])


def _slow_call_words(work: Work, _: Work) -> str:
    ops = work.schedule.ops
    slowest, *others = sorted(calls.slow_calls(work), key=lambda i: -(ops[i].call_s or 0.0))
    op, more = ops[slowest], f", and {len(others)} more" * bool(others)
    launching = f" to launch {shown(op.name)}" if isinstance(op, Kernel) else ""
    held = f"held the host for {format_seconds(op.call_s or 0.0)}{launching}{more}"
    return f"make the call once before: {call_name(op)} of ops[{slowest}] {held}"


# Calls that hold the host far longer than others of their kind are made once before.
WARM_CALLS = Change("--warm-calls", lambda work: work.issued(calls.without_slow_calls(work)), _slow_call_words)


def first_run(meant: Work, level: float) -> Work:
    """Undo :data:`WARM_CALLS`: the host loads a module before the first launch; without kernels, at its start."""
    (least, most), ops = FIRST_RUN_S, meant.schedule.ops
    first = next((i for i, op in enumerate(ops) if isinstance(op, Kernel)), 0)
    loading = HostWork(least + level * (most - least), "loading the module")
    return undone(meant, [*ops[:first], loading, *ops[first:]])


def workers(count: int) -> Change:
    """Load the data of the steps in ``count`` workers: threads or processes of the host that load in turn."""
    words = counted(count, "worker")
    return Change(
        f"--workers {count}",
        lambda work: work.issued(calls.with_workers(work.schedule, count)),
        f"load the data in {words}",
        f"{LOADS_ALONE} and {CORES}",
        of_loop=_setting(words, CORES, workers=count),
    )


# Chunks, streams and their order


def chunks(count: int) -> Change:
    """Cut the work into ``count`` chunks in all."""

    def make(work: Work) -> Work:
        known = dependences_of(work.first).shared.values() if work.first else ()  # another change may hide it
        made = work.schedule if is_by_steps(work.schedule) else calls.slow_calls_apart(work)
        return work.issued(made).issued(*cutting.in_chunks(made, count, frozenset(chain.from_iterable(known))))

    def needs(work: Work, _: Work) -> str:
        schedule = work.schedule
        is_known = work.pipeline or chunk_count(schedule) == count or not dependences_of(schedule).unnamed
        return "" if is_known else CAN_BE_CUT

    def of_config(config: Config) -> dict[str, Any]:
        return {"chunks": count, "streams": min(config.streams, count)}

    return Change(f"--chunks {count}", make, f"cut into {counted(count, 'chunk')}", needs, of_config)


def not_cut(meant: Work, _: float) -> Work:
    """Undo :func:`chunks`: all work is one chunk."""
    return meant.with_options(order="depth-first", chunks=1, streams=1, buffers=None) if meant.pipeline else meant


def streams(count: int) -> Change:
    """Deal the chunks out to ``count`` streams in turn."""

    def does(work: Work, _: Work) -> str:
        config = work.pipeline.config if work.pipeline else None
        now = config.streams if config else len(programs.working_streams(work.schedule))
        if count < now:
            return f"use {counted(count, 'stream')} instead of {now}"
        depth_first = " depth-first" if config and config.issued.own_streams else ""
        return f"issue chunks{depth_first} in {counted(count, 'non-blocking stream')} in turn"

    def of_config(config: Config) -> dict[str, Any]:
        order = "depth-first" if config.issued.own_streams else config.order
        return {"order": order, "streams": count, "buffers": config.slots}

    return Change(
        f"--streams {count}",
        lambda work: work.issued(cutting.in_streams(work.schedule, count)),
        does,
        of_config=of_config,
    )


def one_stream(meant: Work, _: float) -> Work:
    """Undo :func:`streams`: all is in one stream, without waits and records of events, which do nothing there."""

    def moved(op: Op) -> Op:
        if isinstance(op, Synchronize) and (op.stream is not None or op.event is not None):
            return replace(op, stream=1, event=None)
        return replace(op, stream=1) if isinstance(op, Copy | Kernel) else op

    if len(meant.schedule.used_streams) < 2:
        return meant
    return undone(meant, (moved(op) for op in meant.schedule.ops if isinstance(op, Copy | Kernel | HostOp)))


def order(name: str) -> Change:
    """Issue the same ops in another order: depth-first (chunk by chunk) or breadth-first (stage by stage)."""
    said = "breadth-first in rounds of one chunk a stream" if name == IN_ROUNDS else name
    return Change(
        f"--order {name}",
        lambda work: work.issued(*cutting.in_order(work.schedule, name)),
        f"issue the same ops in another order: {said}",
        of_config=lambda config: {"order": name} if {name, config.order} <= ISSUE_ORDERS else None,
    )


def few_queues(meant: Work, _: float) -> Work:
    """Undo :func:`order` and :func:`connections`: breadth-first issue over one hardware queue."""
    was = meant.pipeline
    if was is None or was.config.streams < 2 or was.config.pattern != "depth-first":
        return meant
    return meant.with_options(order="breadth-first")._replace(device=meant.device.with_connections(1))


def prefetch(depth: int) -> Change:
    """Copy the input of the next ``depth`` steps beside this step's work."""

    def make(work: Work) -> Work:
        made, numbers = cutting.prefetched(work.schedule, depth)
        works = [(i,) for i in numbers if i >= 0 and is_work(work.schedule.ops[i])]
        return work.issued(still_ordered(work.schedule, made), works)

    def of_loop(was: LoopSource) -> OfLoop:
        if depth > 1:
            raise InputError("a training loop copies one batch ahead; give --prefetch 1")
        has_one = was.loop.issue == "copy first"
        words, needs = ("the step issued before the next copy", "") if has_one else ("a prefetcher", TWO_BATCHES)
        return was.with_fields(issue="step first", non_blocking=True), words, needs

    buffers = "a second device buffer" if depth == 1 else f"{depth} more device buffers"
    of = "step's" if depth == 1 else f"{depth} steps'"
    return Change(
        f"--prefetch {depth}",
        make,
        f"copy the next {of} input beside this step's work, into {buffers} (a prefetcher)",
        of_config=lambda _: {"order": "prefetch", "streams": 1, "buffers": depth + 1},
        of_loop=of_loop,
        copies_ahead=True,
    )


DROP_WAITS = Change(
    "--drop-waits",
    lambda work: work.issued(cutting.without_needless_waits(work.schedule)),
    "drop waits that the data does not need",
)


def buffers(times: int) -> Change:
    """Give chunks ``times`` as many of the device buffers that they use one after another; 0: one for each chunk."""

    def of_config(config: Config) -> dict[str, Any]:
        slots = config.slots
        if slots is None or slots * max(times, 1) >= config.chunks:
            raise InputError("--buffers: no buffer is used twice that could be more of them")
        own = config.chunks if config.order == "prefetch" else None
        return {"buffers": times * slots if times else own}

    several = f"{times} device buffers in turn for each that they share" if times else "device buffers of their own"
    return Change(
        f"--buffers {times}",
        lambda work: work.issued(cutting.with_buffers(work.schedule, times)),
        _with_memory(f"give chunks {several}"),
        of_config=of_config,
    )


def depth(count: int) -> Change:
    """Stream layers through ``count`` buffers."""
    return _placed(f"--depth {count}", f"stream the layers through {counted(count, 'buffer')}", depth=count)


def resident(names: Sequence[str]) -> Change:
    """Keep the layers of these ``names`` on the card, and stream the others."""
    words = f"keep {counted(len(names), 'layer')} on the card"
    return _placed(f"--resident {','.join(names)}", words, resident=tuple(names))


def _placed(option: str, words: str, **fields: Any) -> Change:
    """Return the change that gives the placement of layers other ``fields``."""

    def make(work: Work) -> Work:
        if not isinstance(work.source, LayersSource):
            raise InputError("the program streams no layers")
        layers, config = work.source.layers, replace(work.source.config, **fields)
        return Work(config.schedule(layers), work.device, LayersSource(layers, config))

    return Change(option, make, _with_memory(words))


# What calls and kernels take


def front_end_cost(factor: float, text: str) -> Change:
    """Let calls, and what a front end does for each of them, take ``factor`` of their time."""

    def make(work: Work) -> Work:
        return work.issued(replace(work.schedule, ops=tuple(_cheaper(op, factor) for op in work.schedule.ops)))

    return Change(f"--front-end-cost {text}", make)


def of_a_library(meant: Work, level: float) -> Work:
    """Undo :func:`front_end_cost`: the calls are a library's, CuPy's (0.0) or PyTorch's (1.0), which cost more."""
    if front_end_of(meant.device) not in (CALLS, COMPILED):
        return meant
    return meant._replace(device=with_front_end(meant.device, "pytorch" if level > 0.5 else "cupy"))


def _cheaper(op: Op, factor: float) -> Op:
    if isinstance(op, HostWork):
        return replace(op, duration_s=op.duration_s * factor) if programs.is_of_a_call(op) else op
    return replace(op, call_s=op.call_s * factor) if op.call_s else op


def kernels(pattern: str, factor: float, text: str) -> Change:
    """Let kernels whose names match a shell pattern take ``factor`` of their time. Raises InputError if none does."""

    def make(work: Work) -> Work:
        names = sorted({op.name for op in work.schedule.ops if isinstance(op, Kernel)})
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join([*map(repr, names[:5]), *(["..."] if len(names) > 5 else [])]) or "no kernels"
            raise InputError(f"--kernel {pattern!r}: no kernel has such a name; there are {known}")
        ops: list[Op] = []
        for op in work.schedule.ops:
            if isinstance(op, Kernel) and fnmatchcase(op.name, pattern):
                seconds = work.device.occupancy(op).alone_s
                op = replace(op, duration_s=seconds * factor, elements=0, share=1.0, parts=())
            ops.append(op)
        return work.issued(replace(work.schedule, ops=tuple(ops)))

    return Change(f"--kernel {text}", make)


# Graphs: the program is captured once and launched once, or what comes again between two waits is launched each time.


def _as_graph(work: Work) -> Work:
    if programs.orders_unknown(work.schedule):
        raise InputError("no graph can hold the legacy default stream's order; add --off-legacy")
    in_legacy = LEGACY_STREAM in work.schedule.used_streams
    schedule = programs.legacy_apart(work.schedule) if in_legacy else work.schedule
    ops = (op for op in schedule.ops if not isinstance(op, HostOp))
    kept = [_captured(op, work.device.compute.graph_gap_s) for op in ops]
    captured = replace(schedule, ops=(*kept, Synchronize()), launch="graph")
    return work.issued(still_ordered(work.schedule, captured))


def _captured(op: Op, gap_s: float) -> Op:
    """The op in a graph. A kernel's recorded time holds some of the gap behind it, which the graph has of itself."""
    captured = replace(op, call_s=None, thread=0)
    if not isinstance(captured, Kernel) or op.call_s is None or captured.duration_s is None:
        return captured
    held_s = gap_s * (GAP_IN_A_RECORDED_TIME if op.call_s else 1)  # in a graph until the next one begins
    return replace(captured, duration_s=max(SHORTEST_KERNEL_S, captured.duration_s - held_s))


def of_the_host(work: Work, _: Work | None = None) -> str:
    """Return the condition of a graph of the whole program; "" if its host does nothing between its calls."""
    ops = work.schedule.ops
    works = any(isinstance(op, HostOp) and not isinstance(op, Synchronize) for op in ops)
    holds = LEGACY_STREAM in work.schedule.used_streams or calls.has_host_waits(work.schedule)
    return NEEDS_NO_HOST if works or holds else ""


def _as_step_graphs(work: Work) -> Work:
    if work.schedule.launch == "graph":
        raise InputError("--step-graphs: the program is one CUDA graph already; issue it op by op with --live")
    if programs.has_legacy(work.schedule):
        raise InputError("--step-graphs: no graph can hold the legacy default stream's order; add --off-legacy")
    return work.issued(still_ordered(work.schedule, calls.with_step_graphs(work.schedule, work.device)))


GRAPH = Change("--graph", _as_graph, "launch it as a CUDA graph", of_the_host, lambda _: {"launch": "graph"})
STEP_GRAPHS = Change(
    "--step-graphs", _as_step_graphs, "launch what comes again between two waits as a CUDA graph", SAME_CALLS
)
LIVE = Change(
    "--live",
    lambda work: work._replace(schedule=replace(work.schedule, launch="live")),
    "issue its ops one by one, without the graph",
    of_config=lambda _: {"launch": "live"},
)


# The device


def connections(count: int) -> Change:
    """Give the device ``count`` hardware queues."""
    words = f"set CUDA_DEVICE_MAX_CONNECTIONS={count}"
    return _of_device(f"--set-connections {count}", words, lambda device: device.with_connections(count))


def on_device(device: Device) -> Change:
    """Run the program on another device."""
    return _of_device(f"--on-device {device.name}", f"run it on {device.name}", lambda _: device)


def _of_device(option: str, words: str, other: Callable[[Device], Device]) -> Change:
    return Change(
        option,
        lambda work: work._replace(device=other(work.device)),
        words,
        of_loop=lambda was: (replace(was, card=other(was.card)), words, ""),
    )
