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
from streamsim.device import MOST_CONNECTIONS, Device
from streamsim.errors import InputError
from streamsim.program import Kernel, most_streams
from streamsim.transform import changes as make

Tries = Iterator[tuple[transform.Change, ...]]

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


def changes_to_try(
    work: transform.Work, values: Values, independent: bool = False
) -> Iterator[tuple[Key, tuple[transform.Change, ...]]]:
    """Yield the changes to try of a program, with the cause against which each is tried.

    ``independent``: its steps are said to need nothing of each other.
    """
    if not any(map(transform.is_work, work.schedule.ops)):
        return
    if isinstance(work.source, transform.LoopSource):
        yield from _of_loop(work)
        return
    found = _Rows(work, values, independent)
    for key, tries in (_OF_LAYERS if isinstance(work.source, transform.LayersSource) else _TRIES).items():
        with suppress(InputError):  # no chunks are shown
            for changes in tries(found):
                yield key, changes


def _of_loop(work: transform.Work) -> Iterator[tuple[Key, tuple[transform.Change, ...]]]:
    """Yield the usual changes of a training loop, and enough workers for the loop with all of the others."""
    usual: dict[Key, tuple[transform.Change, ...]] = {
        "pageable-memory": (make.pin(),),
        "host-waits": (make.make_async(), make.drop_sync()),
        "needless-order": (make.prefetch(1),),
    }
    with_all = work
    for key, changes in usual.items():
        for change in changes:
            yield key, (change,)
            with suppress(InputError):  # no room for two batches
                with_all = transform.changed_by([change], with_all).work
    yield "host-work", (make.workers(transform.enough_workers(with_all)),)


class _Rows:
    """The changes to try of one program."""

    def __init__(self, work: transform.Work, values: Values, independent: bool) -> None:
        self._work, self._values, self._independent = work, values, independent
        self._pipeline = work.pipeline
        self._needs = transform.dependences_of(work.schedule)
        self._holds = transform.has_host_waits(work.schedule)
        self._release = _release(work)

    def _held(self, several: Iterable[tuple[transform.Change, ...]]) -> Tries:
        """Changes with the host waiting where it does now, and if that is early, with its release too."""
        for changes, holds in product(several, (True, False) if self._holds else (True,)):
            if changes or not holds:
                yield changes if holds else (self._release, *changes)

    def warmed(self) -> Tries:
        held_s = sum(self._work.schedule.ops[i].call_s or 0.0 for i in transform.slow_calls(self._work))
        if held_s and sum(load.busy for load in loads_of(self._work).values()) >= LEAST_WORK * held_s:
            yield (make.warm_calls(),)

    def pinned(self) -> Tries:
        if transform.has_pageable(self._work.schedule):
            yield (make.pin(),)

    def unheld(self) -> Tries:
        if transform.allocates(self._work.schedule):
            yield (make.pool(),)
        if self._holds:
            yield (make.make_async(),)
            yield (make.drop_sync(),)
            if transform.has_pageable(self._work.schedule):
                yield make.pin(), self._release  # copies of pageable memory hold the host all the same

    def off_legacy(self) -> Tries:
        if transform.has_legacy(self._work.schedule):
            yield (make.off_legacy(),)

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
        schedule = self._work.schedule
        if self._pipeline is not None:
            if self._pipeline.workload.in_order and self._pipeline.config.order != "prefetch":
                yield (make.prefetch(1),)
        elif not self._independent and transform.bounced(schedule):
            yield (make.keep(),)  # copied ahead, it would be old
        elif self._has_one_working_stream() and not all(
            map(transform.names_memory, filter(transform.is_work, schedule.ops))
        ):
            yield from ((make.prefetch(depth),) for depth in self._values.depths)
        more = tuple((make.streams(n),) for n in self._more_streams())
        if not self._needs.has_needless_order:
            yield from more
            return
        yield from self._held(((make.drop_waits(),), *more))
        for times in (RING, OWN):
            with suppress(InputError):  # no buffer is named that could be more of them
                make.buffers(times).make(self._work)
                yield from self._held((make.buffers(times), *changes) for changes in ((), *more))

    def _has_one_working_stream(self) -> bool:
        """Return True if kernels and copies back are in one stream, but not the legacy stream among blocking ones."""
        schedule = self._work.schedule
        working = {
            op.stream
            for op in schedule.ops
            if isinstance(op, Kernel) or transform.stage_of(op) == transform.COPIES_BACK
        }
        return len(working) == 1 and not transform.has_legacy(schedule)

    def _more_streams(self) -> list[int]:
        now = 0 if self._has_parts() else len(transform.working_streams(self._work.schedule))
        most = min(self._chunks(), most_streams(self._pipeline.workload)) if self._pipeline else self._chunks()
        return [n for n in self._values.streams if now < n <= most]

    def _has_parts(self) -> bool:
        """Return True if streams have parts to play, such as copying in: no chunk is in one of them."""
        ops, needs = self._work.schedule.ops, self._needs
        of: dict[int, int] = {}
        works = [i for i, op in enumerate(ops) if transform.is_work(op) and i not in needs.common]
        return any(of.setdefault(needs.chunk[i], ops[i].stream or 0) != (ops[i].stream or 0) for i in works)

    def buffered(self) -> Tries:
        """Layers that take turns over more buffers: one more, twice as many, one for each; or that stay on the card."""
        assert isinstance(self._work.source, transform.LayersSource)
        layers, config = self._work.source.layers, self._work.source.config
        slots, all_slots = config.slots(layers), replace(config, depth=len(layers.steps)).slots(layers)
        for depth in dict.fromkeys((slots + 1, RING * slots, all_slots)):
            if slots < depth <= all_slots:
                yield (make.depth(depth),)
        yield from ((change,) for change in self.kept())

    def kept(self) -> Iterator[transform.Change]:
        """Layers that stay on the card: all of them, or those for which there is room, spread over the model."""
        assert isinstance(self._work.source, transform.LayersSource)
        layers, config, device = self._work.source.layers, self._work.source.config, self._work.device
        stay, steps = config.numbers(layers), layers.steps
        kept = {*range(len(steps))}
        if not device.has_room(layers.weight_bytes + config.reserve_bytes):
            free, more = (device.memory_bytes or 0) - config.device_bytes(layers), kept - stay
            kept = {*stay}
            for n in sorted(more, key=lambda n: n * GOLDEN % 1):
                if steps[n].weight_bytes <= free:
                    free -= steps[n].weight_bytes
                    kept.add(n)
        if kept > stay:
            yield make.resident(tuple(dict.fromkeys(steps[n].name for n in sorted(kept))))

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

    def _chunks(self) -> int:
        return self._pipeline.config.chunks if self._pipeline else transform.chunk_count(self._work.schedule)

    def less_worked(self) -> Tries:
        """Fewer chunks, where the host works before each; or workers that load the data of steps."""
        if self._pipeline is None:
            yield (make.workers(transform.enough_workers(self._work)),)
        elif self._pipeline.workload.host_work_s:
            yield from self.coarser()

    def connected(self) -> Tries:
        if has_few_connections(self._work):
            yield from self._fewer_streams()
            if _has_queues(self._work.device):
                used = len(transform.working_streams(self._work.schedule))
                wanted = min(MOST_CONNECTIONS, max(used, self._work.device.connections))
                for number in dict.fromkeys((wanted, MOST_CONNECTIONS)):
                    yield (make.connections(number),)

    def thinned(self) -> Tries:
        if not has_few_connections(self._work):  # else that is to blame
            yield from self._fewer_streams()

    def _fewer_streams(self) -> Tries:
        if not self._has_parts():
            now = len(transform.working_streams(self._work.schedule))
            for n in (n for n in reversed((1, *self._values.streams)) if n < now):
                yield (make.streams(n),)

    def launched(self) -> Tries:
        """As a CUDA graph, or without one. A recording is one run: as a whole it would be captured and run once."""
        if self._work.schedule.launch == "graph":
            yield (make.live(),)
            return
        graph = make.graph()
        if not transform.is_recorded(self._work.schedule) and not graph.condition(self._work):
            yield (graph,)
        if self._pipeline is None:
            yield (make.step_graphs(),)


def _release(work: transform.Work) -> transform.Change:
    """Return the change that lets the host go on: asynchronous copies, or if it waits for more, a wait at the end."""
    release = make.make_async()
    with suppress(InputError):
        if not transform.has_host_waits(release.of(work).make(work).schedule):
            return release
    return make.drop_sync()


def _has_queues(device: Device) -> bool:
    """Return True if the card can have more hardware queues than one: from compute capability 3.5 on.

    Those of 1.x run one kernel at a time; those of 2.x (Fermi) signal the ends of kernels by runs.
    """
    return device.compute.concurrent_kernels > 1 and device.compute.kernel_signal == "each"


_TRIES: dict[Key, Callable[[_Rows], Tries]] = {
    "slow-calls": _Rows.warmed,
    "pageable-memory": _Rows.pinned,
    "host-waits": _Rows.unheld,
    "legacy-stream": _Rows.off_legacy,
    "issue-order": _Rows.reordered,
    "needless-order": _Rows.apart,
    "few-chunks": _Rows.finer,
    "small-chunks": _Rows.coarser,
    "host-work": _Rows.less_worked,
    "connections": _Rows.connected,
    "many-streams": _Rows.thinned,
    "host-issue": _Rows.launched,
}
_OF_LAYERS: dict[Key, Callable[[_Rows], Tries]] = {
    "pageable-memory": _Rows.pinned,
    "needless-order": _Rows.buffered,
    "host-issue": _Rows.launched,
}
TRIED_AGAINST = frozenset(_TRIES)  # the causes that something can be done about
