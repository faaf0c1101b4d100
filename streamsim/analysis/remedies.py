"""Remedies: for each cause of lost time the changes that are tried against it, each one made.

A counterfactual (:mod:`streamsim.analysis.counterfactual`) takes a cause of lost time away, whether that can be done
or not; a remedy is a change of :mod:`streamsim.transform.changes`, or several, on a card that can be had, and the model
says what it takes. For each cause there are several to choose from. Where the schedule has races, its remedies have the
waits that it lacks.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.analysis import counterfactual as without
from streamsim.analysis.causes import CAUSES
from streamsim.device import MOST_CONNECTIONS, Device
from streamsim.errors import InputError
from streamsim.program import Kernel, ResultCache, most_streams
from streamsim.races import check, repaired
from streamsim.transform import (
    COPIES_BACK,
    ISSUE_ORDERS,
    Case,
    Change,
    Changed,
    LayersSource,
    Origin,
    Scenario,
    chunk_count,
    dependences_of,
    has_host_waits,
    has_legacy,
    has_pageable,
    is_recorded,
    is_work,
    names_memory,
    slow_calls,
    stage_of,
    working_streams,
)
from streamsim.transform import changes as make

Tries = Iterator[tuple[Change, ...]]

FACTORS = (2, 4, 8)  # by which chunks are made finer or coarser
STREAMS = (2, 3, 4, 8)
SEVERAL = (2, 4)  # streams for what is one chunk now
RING = 2  # times as many buffers
OWN = 0  # a buffer for each chunk
MOST_OPS = 20_000  # of a schedule with finer chunks


class Remedy(NamedTuple):
    """A change in words, and the schedule and the device with it.

    ``assumes``: what must hold for it that the schedule does not show, as "if" says it; "" for nothing. ``options``: of
    ``whatif``, for the same.
    """

    text: str
    scenario: Scenario
    assumes: str = ""
    options: str = ""


def _has_room(remedy: Remedy) -> bool:
    schedule, device = remedy.scenario
    return device.has_room(schedule.device_bytes)


class Remedies:
    """The remedies for a scenario. ``source``: what its schedule was made from, if known."""

    def __init__(self, scenario: Scenario, source: Origin | None = None) -> None:
        schedule, device = scenario
        self._is_mended = dependences_of(schedule).is_racy
        sound = repaired(schedule, check(schedule)) if self._is_mended else schedule
        self._was = scenario
        self._case = Case(sound, device, source)
        self._pipeline = self._case.pipeline
        self._needs = dependences_of(sound)
        self._holds = has_host_waits(schedule)
        self._made = ResultCache[Changed | None]()  # by options

    def of(self, key: str) -> Iterator[Remedy]:
        """What can be done about a cause (a key of :data:`streamsim.analysis.causes.CAUSES`), the simplest first.

        As far as it has room on the card.
        """
        return filter(_has_room, self._any(key))

    def has_any(self, key: str) -> bool:
        """Return True if there is a remedy, with room on the card or without."""
        return next(self._any(key), None) is not None

    def _any(self, key: str) -> Iterator[Remedy]:
        tries = (_OF_LAYERS if isinstance(self._case.source, LayersSource) else _TRIES).get(key)
        if tries is None or self._needs.last < 0:
            return
        with suppress(InputError):  # no chunks are shown
            for changes in tries(self):
                made = self._with(changes)
                if made is not None and made.case.scenario != self._was:
                    yield self._remedy(key, made)

    def _with(self, changes: tuple[Change, ...]) -> Changed | None:
        """The program with changes; None where they cannot be made."""
        if not changes:
            return Changed(self._case)
        return self._made.of(tuple(change.option for change in changes), lambda: self._make(changes[:-1], changes[-1]))

    def _make(self, before: tuple[Change, ...], last: Change) -> tuple[Changed | None, int]:
        """Make one more change. Return the program, and its number of ops; None and 0 if it cannot be made."""
        made, was = None, self._with(before)
        if was is not None:
            with suppress(InputError):
                made = make.changed(last, was)
        return made, len(made.case.schedule) if made else 0

    def _remedy(self, key: str, made: Changed) -> Remedy:
        text, schedule = made.text, made.case.schedule
        if key == "host-work":
            text += f", for each of which it works; or {CAUSES['host-work'].otherwise}"
        if made.case.source is None and schedule is not self._was.schedule:
            schedule = replace(schedule, name=": ".join(filter(None, (self._was.schedule.name, text))))
        text += "; and add the waits that its races lack" * self._is_mended
        case = made.case._replace(schedule=schedule)
        return Remedy(text, case.scenario, made.condition, " ".join(made.options))

    def _held(self, several: Iterable[tuple[Change, ...]]) -> Tries:
        """Changes with the host waiting where it does now, and if that is early, without it too."""
        for changes, holds in product(several, (True, False) if self._holds else (True,)):
            yield changes if holds else (make.drop_sync(), *changes)

    # By cause

    def _pinned(self) -> Tries:
        if has_pageable(self._case.schedule):
            yield (make.pin(),)

    def _off_legacy(self) -> Tries:
        if has_legacy(self._case.schedule):
            yield (make.off_legacy(),)

    def _unheld(self) -> Tries:
        if self._holds:
            yield (make.drop_sync(),)

    def _reordered(self) -> Tries:
        names = dict.fromkeys(self._needs.orders)
        if self._pipeline is not None and self._pipeline.config.order in ISSUE_ORDERS:
            names = dict.fromkeys((*(ISSUE_ORDERS - {self._pipeline.config.order}), *names))
        for name in names:
            yield (make.order(name),)

    def _apart(self) -> Tries:
        """Chunks that wait for each other no more than their data needs, in streams and buffers of their own."""
        if self._pipeline is not None:
            yield from self._pipeline_apart()
        elif self._needs.has_needless_order:
            if self._has_one_working_stream() and not all(map(names_memory, filter(is_work, self._case.schedule.ops))):
                yield (make.prefetch(1),)
            more = tuple((make.streams(n),) for n in self._more_streams())
            yield from self._held(((make.drop_waits(),), *more))
            for times in (RING, OWN):
                yield from self._held((make.buffers(times), *changes) for changes in ((), *more))

    def _has_one_working_stream(self) -> bool:
        """Return True if kernels and copies back are in one stream, but not the legacy stream among blocking ones."""
        schedule = self._case.schedule
        working = {op.stream for op in schedule.ops if isinstance(op, Kernel) or stage_of(op) == COPIES_BACK}
        return len(working) == 1 and not has_legacy(schedule)

    def _more_streams(self) -> list[int]:
        schedule, now = self._case.schedule, 0
        chunks = chunk_count(schedule)
        if not self._has_parts():
            now = len(working_streams(schedule))
        return [n for n in STREAMS if now < n <= chunks]

    def _has_parts(self) -> bool:
        """Return True if streams have parts to play, such as copying in: no chunk is in one of them."""
        ops, needs = self._case.schedule.ops, self._needs
        of: dict[int, int] = {}
        works = [i for i, op in enumerate(ops) if is_work(op) and i not in needs.common]
        return any(of.setdefault(needs.chunk[i], ops[i].stream or 0) != (ops[i].stream or 0) for i in works)

    def _pipeline_apart(self) -> Tries:
        """The workload over more streams, and with more buffers; of chunks that stay in order with a prefetcher."""
        assert self._pipeline is not None
        workload, config = self._pipeline.workload, self._pipeline.config
        if self._needs.has_needless_order:
            yield from self._held(((make.drop_waits(),),))
        if workload.in_order and not config.is_prefetch:
            yield (make.prefetch(1),)
        several = [n for n in STREAMS if config.streams < n <= min(config.chunks, most_streams(workload))]
        for buffers in ((), (make.buffers(RING),), (make.buffers(OWN),)):
            if buffers:
                yield buffers
            for n in several:
                yield (*[make.drop_sync()] * self._holds, *buffers, make.streams(n))

    def _buffered(self) -> Tries:
        """Layers that take turns over more buffers: one more, twice as many, one for each."""
        assert isinstance(self._case.source, LayersSource)
        layers, config = self._case.source.layers, self._case.source.config
        slots, all_slots = config.slots(layers), replace(config, depth=len(layers.steps)).slots(layers)
        for depth in dict.fromkeys((slots + 1, RING * slots, all_slots)):
            if slots < depth <= all_slots:
                yield (make.depth(depth),)

    def _connected(self) -> Tries:
        if without.has_few_connections(self._was):
            yield from self._fewer_streams()
            if _has_queues(self._case.device):
                used = len(working_streams(self._case.schedule))
                wanted = min(MOST_CONNECTIONS, max(used, self._case.device.connections))
                for number in dict.fromkeys((wanted, MOST_CONNECTIONS)):
                    yield (make.connections(number),)

    def _thinned(self) -> Tries:
        if not without.has_few_connections(self._was):  # else that is to blame
            yield from self._fewer_streams()

    def _fewer_streams(self) -> Tries:
        if not self._has_parts():
            now = len(working_streams(self._case.schedule))
            for n in (n for n in reversed((1, *STREAMS)) if n < now):
                yield (make.streams(n),)

    def _warmed(self) -> Tries:
        if slow_calls(self._case.scenario):
            yield (make.warm_calls(),)

    def _launched(self) -> Tries:
        if self._case.schedule.launch == "graph":
            yield (make.live(),)
            return
        whole = self._with((make.graph(),))
        if whole is not None and not whole.assumes and not is_recorded(self._case.schedule):
            yield (make.graph(),)  # of a recording, which is one run, a whole graph would be captured and launched once
        elif self._pipeline is None:
            yield (make.step_graphs(),)

    def _coarser(self) -> Tries:
        chunks = self._chunks()
        for factor in FACTORS:
            if ceil(chunks / factor) < chunks:
                yield (make.chunks(ceil(chunks / factor)),)

    def _chunks(self) -> int:
        return self._pipeline.config.chunks if self._pipeline else chunk_count(self._case.schedule)

    def _less_worked(self) -> Tries:
        """Fewer chunks, where the host works before each."""
        if self._pipeline is not None and self._pipeline.workload.host_work_s:
            yield from self._coarser()

    def _finer(self) -> Tries:
        chunks = self._chunks()
        is_one = chunks == 1 and not (self._pipeline and self._pipeline.config.is_prefetch)
        in_order = self._pipeline is not None and self._pipeline.workload.in_order
        most = self._pipeline.workload.most_chunks if self._pipeline else chunks * max(FACTORS)
        for factor in (f for f in FACTORS if len(self._case.schedule) * f <= MOST_OPS and chunks * f <= most):
            finer = make.chunks(chunks * factor)
            if is_one and in_order:
                yield (finer, make.prefetch(1))
            elif is_one and self._pipeline:
                yield from ((*[make.drop_sync()] * self._holds, finer, make.streams(n)) for n in SEVERAL)
            else:
                yield from self._held(
                    (finer, make.streams(n)) if n else (finer,) for n in (SEVERAL if is_one else (0,))
                )


def _has_queues(device: Device) -> bool:
    """Return True if the card can have more hardware queues than one: from compute capability 3.5 on.

    Those of 1.x run one kernel at a time; those of 2.x (Fermi) signal the ends of kernels by runs.
    """
    return device.compute.concurrent_kernels > 1 and device.compute.kernel_signal == "each"


_TRIES: dict[str, Callable[[Remedies], Tries]] = {
    "pageable-memory": Remedies._pinned,
    "legacy-stream": Remedies._off_legacy,
    "host-waits": Remedies._unheld,
    "issue-order": Remedies._reordered,
    "needless-order": Remedies._apart,
    "connections": Remedies._connected,
    "many-streams": Remedies._thinned,
    "host-work": Remedies._less_worked,
    "slow-calls": Remedies._warmed,
    "host-issue": Remedies._launched,
    "small-chunks": Remedies._coarser,
    "few-chunks": Remedies._finer,
}
_OF_LAYERS: dict[str, Callable[[Remedies], Tries]] = {
    "pageable-memory": Remedies._pinned,
    "needless-order": Remedies._buffered,
    "host-issue": Remedies._launched,
}
MADE = frozenset(_TRIES)  # the causes that something can be done about
