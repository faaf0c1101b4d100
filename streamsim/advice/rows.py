"""The changes that are tried, each against a cause of lost time, the easiest first.

A counterfactual (:mod:`streamsim.analysis.losses`) takes a cause of lost time away, whether that can be done
or not. A change of :mod:`streamsim.transform.changes` can be made, on a card that can be had. Some changes are tried
only beside others, since they bring nothing alone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from streamsim import transform
from streamsim.analysis import Key, has_few_connections, loads_of
from streamsim.device import MOST_CONNECTIONS
from streamsim.errors import InputError
from streamsim.program import most_streams
from streamsim.transform import changes as make

Changes = tuple[transform.Change, ...]
Tries = Iterator[Changes]

LEAST_WORK = 0.02  # of the time of slow calls: with less work on the card, no call is named
RING = 2  # times as many buffers
OWN = 0  # a buffer for each chunk
GOLDEN = 0.618  # of a model, from one layer that stays to the next: spreads any number of them evenly
SEVERAL = (2, 4)  # streams for what is one chunk now
MOST_OPS = 20_000  # of a schedule with finer chunks


class Values(NamedTuple):
    """The values that are tried: factors by which chunks are made finer or coarser, streams, steps copied ahead.

    ``in_pairs``: where no single change gains more, other chunks and streams are tried together.
    """

    factors: tuple[int, ...] = (2, 4, 8)
    streams: tuple[int, ...] = (2, 3, 4, 8)
    depths: tuple[int, ...] = (1,)
    most_chunks: int = 1 << 20
    in_pairs: bool = False


def changes_to_try(work: transform.Work, values: Values, independent: bool = False) -> Iterator[tuple[Key, Changes]]:
    """Yield the changes to try of a program, with the cause against which each is tried.

    ``independent``: its steps are said to need nothing of each other.
    """
    if not any(map(transform.is_work, work.schedule.ops)):
        return
    if isinstance(work.source, transform.LoopSource):
        yield from _of_loop(work)
        return
    rows: dict[Key, Callable[[], Tries]] = {"host-issue": lambda: _launched(work)}
    if isinstance(work.source, transform.LayersSource):
        if transform.has_pageable(work.schedule):
            yield "pageable-memory", (make.PIN,)
        rows = {"needless-order": lambda: _of_layers(work), **rows}
    else:
        found = _Pipelined(work, values, independent)
        yield from found.plain()
        rows = {
            "issue-order": found.reordered,
            "needless-order": found.apart,
            "few-chunks": found.finer,
            "small-chunks": found.coarser,
            "host-work": found.loaded,
            "connections" if has_few_connections(work) else "many-streams": found.dealt,
            **rows,
        }
    for key, tries in rows.items():
        with suppress(InputError):  # no chunks are shown
            for changes in tries():
                yield key, changes


def _of_loop(work: transform.Work) -> Iterator[tuple[Key, Changes]]:
    """Yield the usual changes of a training loop, and enough workers for the loop with all of the others."""
    usual: list[tuple[Key, transform.Change]] = [
        ("pageable-memory", make.PIN),
        ("host-waits", make.ASYNC),
        ("host-waits", make.DROP_SYNC),
        ("needless-order", make.prefetch(1)),
    ]
    with_all = work
    for key, change in usual:
        yield key, (change,)
        with suppress(InputError):  # no room for two batches
            with_all = transform.changed_by([change], with_all).work
    yield "host-work", (make.workers(transform.enough_workers(with_all)),)


def _of_layers(work: transform.Work) -> Tries:
    """Yield layers that take turns over more buffers (one more, twice as many, one for each), or stay on the card.

    All of them stay, or those for which there is room, spread over the model.
    """
    assert isinstance(work.source, transform.LayersSource)
    layers, config, device = work.source.layers, work.source.config, work.device
    sizes = [step.weight_bytes for step in layers.steps]
    slots, all_slots = config.slots(layers), replace(config, depth=len(sizes)).slots(layers)
    for depth in dict.fromkeys((slots + 1, RING * slots, all_slots)):
        if slots < depth <= all_slots:
            yield (make.depth(depth),)
    stay, every = config.numbers(layers), {*range(len(sizes))}
    kept, free = {*stay}, (device.memory_bytes or 0) - config.device_bytes(layers)
    if device.has_room(layers.weight_bytes + config.reserve_bytes):
        kept = every
    for n in sorted(every - kept, key=lambda n: n * GOLDEN % 1):
        if sizes[n] <= free:
            free -= sizes[n]
            kept.add(n)
    if kept > stay:
        yield (make.resident(tuple(dict.fromkeys(layers.steps[n].name for n in sorted(kept)))),)


def _launched(work: transform.Work) -> Tries:
    """Yield a CUDA graph, or none. A recording is one run: as a whole it would be captured and run once."""
    if work.schedule.launch == "graph":
        yield (make.LIVE,)
        return
    if not transform.is_recorded(work.schedule) and not make.of_the_host(work):
        yield (make.GRAPH,)
    if work.pipeline is None:
        yield (make.STEP_GRAPHS,)


class _Pipelined:
    """The changes to try of a program that is neither a training loop nor layers."""

    def __init__(self, work: transform.Work, values: Values, independent: bool) -> None:
        self._work, self._values, self._independent = work, values, independent
        self._pipeline = work.pipeline
        self._needs = transform.dependences_of(work.schedule)
        self._holds = transform.has_host_waits(work.schedule)
        self._release = _release(work)

    def _held(self, several: Iterable[Changes]) -> Tries:
        """Changes with the host waiting where it does now, and if that is early, with its release too."""
        for changes, holds in product(several, (True, False) if self._holds else (True,)):
            if changes or not holds:
                yield changes if holds else (self._release, *changes)

    def plain(self) -> Iterator[tuple[Key, Changes]]:
        """Changes of memory and calls, each where the program has what it changes."""
        work, schedule = self._work, self._work.schedule
        is_pageable = transform.has_pageable(schedule)
        slow_s = sum(schedule.ops[i].call_s or 0.0 for i in transform.slow_calls(work))
        is_slow = slow_s > 0 and sum(busy_s for busy_s, _ in loads_of(work).values()) >= LEAST_WORK * slow_s
        rows: list[tuple[Key, bool, Changes]] = [
            ("slow-calls", is_slow, (make.WARM_CALLS,)),
            ("pageable-memory", is_pageable, (make.PIN,)),
            ("host-waits", transform.allocates(schedule), (make.POOL,)),
            ("host-waits", self._holds, (make.ASYNC,)),
            ("host-waits", self._holds, (make.DROP_SYNC,)),
            ("host-waits", self._holds and is_pageable, (make.PIN, self._release)),  # staging holds the host, too
            ("legacy-stream", transform.has_legacy(schedule), (make.OFF_LEGACY,)),
        ]
        yield from ((key, changes) for key, has_it, changes in rows if has_it)

    def reordered(self) -> Tries:
        names = dict.fromkeys(self._needs.orders)
        if self._pipeline is not None and self._pipeline.config.order in transform.ISSUE_ORDERS:
            names = dict.fromkeys((*(transform.ISSUE_ORDERS - {self._pipeline.config.order}), *names))
        for name in names:
            yield (make.order(name),)

    def apart(self) -> Tries:
        """Chunks that wait for each other no more than their data needs, in streams and buffers of their own.

        Chunks that stay in order are copied ahead.
        """
        yield from ((change,) for change in self._ahead())
        now, most = self._streams(), self._chunks()
        if self._pipeline:
            most = min(most, most_streams(self._pipeline.workload))
        more = [(make.streams(n),) for n in self._values.streams if now < n <= most]
        if not self._needs.has_needless_order:
            yield from more
            return
        yield from self._held([(make.DROP_WAITS,), *more])
        for times in (RING, OWN):
            with suppress(InputError):  # no buffer is named that could be more of them
                make.buffers(times).of(self._work).make(self._work)
                yield from self._held((make.buffers(times), *changes) for changes in ((), *more))

    def _ahead(self) -> Iterator[transform.Change]:
        """Yield changes that copy ahead what kernels in one stream need; or keep what would be old then."""
        ops = self._work.schedule.ops
        if self._pipeline is not None:
            if self._pipeline.workload.in_order and self._pipeline.config.order != "prefetch":
                yield make.prefetch(1)
        elif not self._independent and transform.bounced(self._work.schedule):
            yield make.KEEP
        elif not all(map(transform.names_memory, ops)) and not transform.has_legacy(self._work.schedule):
            of_others = {op.stream for op in ops if transform.is_work(op) and not transform.is_load(op)}
            yield from map(make.prefetch, self._values.depths if len(of_others) == 1 else ())

    def _streams(self) -> int:
        """Return over how many streams chunks are dealt out; 0 if streams have parts to play, such as copying in."""
        of: dict[int, int | None] = {}
        for i, op in enumerate(self._work.schedule.ops):
            is_of_a_chunk = transform.is_work(op) and i not in self._needs.common
            if is_of_a_chunk and of.setdefault(self._needs.chunk[i], op.stream) != op.stream:
                return 0
        return len(transform.working_streams(self._work.schedule))

    def _chunks(self) -> int:
        return self._pipeline.config.chunks if self._pipeline else transform.chunk_count(self._work.schedule)

    def finer(self) -> Tries:
        chunks, most, workload = self._chunks(), self._values.most_chunks, self._pipeline and self._pipeline.workload
        is_one = chunks == 1 and not (self._pipeline and self._pipeline.config.order == "prefetch")
        for finer in (chunks * factor for factor in self._values.factors):
            if len(self._work.schedule) * finer > MOST_OPS * chunks:
                continue
            if finer > (min(most, workload.most_chunks) if workload else most):
                continue
            if is_one and workload and workload.in_order:
                yield make.chunks(finer), make.prefetch(1)
            elif is_one:
                yield from self._held((make.chunks(finer), make.streams(n)) for n in SEVERAL)
            else:
                yield from self._held([(make.chunks(finer),)])

    def coarser(self) -> Tries:
        """Fewer chunks of a workload; those of a schedule are not merged."""
        chunks = self._pipeline.config.chunks if self._pipeline else 1
        for factor in self._values.factors:
            if ceil(chunks / factor) < chunks:
                yield (make.chunks(ceil(chunks / factor)),)

    def loaded(self) -> Tries:
        if self._pipeline is None:
            yield (make.workers(transform.enough_workers(self._work)),)

    def dealt(self) -> Tries:
        """Fewer streams; and more hardware queues on cards that have them: from compute capability 3.5 on.

        Cards of 1.x run one kernel at a time; those of 2.x (Fermi) signal the ends of kernels by runs.
        """
        device, now = self._work.device, self._streams()
        yield from ((make.streams(n),) for n in reversed((1, *self._values.streams)) if n < now)
        can_have_more = device.compute.concurrent_kernels > 1 and device.compute.kernel_signal == "each"
        if can_have_more and has_few_connections(self._work):
            used = len(transform.working_streams(self._work.schedule))
            wanted = min(MOST_CONNECTIONS, max(used, device.connections))
            yield from ((make.connections(number),) for number in dict.fromkeys((wanted, MOST_CONNECTIONS)))


def _release(work: transform.Work) -> transform.Change:
    """Return the change that lets the host go on: asynchronous copies, or if it waits for more, a wait at the end."""
    with suppress(InputError):
        if not transform.has_host_waits(make.ASYNC.of(work).make(work).schedule):
            return make.ASYNC
    return make.DROP_SYNC
