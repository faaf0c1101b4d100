"""Remedies: changes that can be made to a program or to its device, each one made.

A counterfactual (:mod:`streamsim.analysis.counterfactual`) takes a cause of lost time away, whether that can be done
or not; a remedy is a schedule that can be issued on a card that can be had, and the model says what it takes. For
each cause there are several to choose from. None changes what is copied and computed, and none brings a race: where
the schedule has races, its remedies have the waits that it lacks. What a schedule does not show (ops that do not name
their memory, steps behind each other in a stream) a remedy may have to assume: it says so (``Remedy.assumes``), and so
do the changes of :mod:`streamsim.transform.changes`, which refuse it unless it is said.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from streamsim.analysis import counterfactual as without
from streamsim.analysis.causes import CAUSES
from streamsim.device.profile import MOST_CONNECTIONS
from streamsim.errors import InputError
from streamsim.program.config import Config, most_streams
from streamsim.program.schedule import Copy, Kernel, Synchronize
from streamsim.races.check import check, repaired
from streamsim.text.quantities import format_bytes, format_seconds
from streamsim.timeline.timeline import call_name
from streamsim.transform import calls_and_memory as calls
from streamsim.transform.calls_and_memory import names_memory
from streamsim.transform.dependences import Dependences, is_work
from streamsim.transform.recut import Recut
from streamsim.transform.repeated_step import is_recorded
from streamsim.transform.scenario import LayersSource, Origin, Scenario, Source
from streamsim.transform.step_graphs import with_step_graphs
from streamsim.transform.steps import are_independent, prefetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Launch, Op, Schedule
    from streamsim.program.workload import Workload

FACTORS = (2, 4, 8)  # by which chunks are made finer or coarser
STREAMS = (2, 3, 4, 8)
ASYNCHRONOUS, BLOCKING = ", with asynchronous copies", ", blocking as they are"
ISSUE_ORDERS = {"depth-first", "breadth-first"}
SEVERAL = (2, 4)  # streams for what is one chunk now
RING = 2  # times as many buffers
OWN = "device buffers of their own"
MOST_OPS = 20_000  # of a schedule with finer chunks
INDEPENDENT, CAN_BE_CUT = "your steps are independent", "your steps can be cut"
INDEPENDENT_AND_CUT = "your steps are independent and can be cut"
NEEDS_NO_RESULT = "the host needs no result before the end"
IN_TIME = "the next step's input does not depend on this step's result"


class Remedy(NamedTuple):
    """A change in words, and the schedule and the device with it.

    ``assumes``: what must hold for it that the schedule does not show, as "if" says it; "" for nothing.
    """

    text: str
    scenario: Scenario
    assumes: str = ""


def _has_room(remedy: Remedy) -> bool:
    schedule, device = remedy.scenario
    return device.has_room(schedule.device_bytes)


class Remedies:
    """The remedies for a scenario. ``needs``: of its schedule; ``source``: what that was made from, if known."""

    def __init__(self, scenario: Scenario, needs: Dependences, source: Origin | None = None) -> None:
        self._case = scenario
        self._layers = source if isinstance(source, LayersSource) else None
        self._source = source if isinstance(source, Source) else None
        self._is_mended = needs.is_racy
        self._sound = repaired(scenario.schedule, check(scenario.schedule)) if needs.is_racy else scenario.schedule
        self._needs = Dependences(self._sound) if needs.is_racy else needs
        self._names_memory = all(map(names_memory, filter(is_work, self._sound.ops)))
        self._holds = calls.has_host_waits(scenario)

    def of(self, key: str) -> Iterator[Remedy]:
        """What can be done about a cause (a key of :data:`streamsim.analysis.causes.CAUSES`), the simplest first.

        As far as it has room on the card.
        """
        return filter(_has_room, self._any(key))

    def has_any(self, key: str) -> bool:
        """Whether there is a remedy, with room on the card or without."""
        return next(self._any(key), None) is not None

    def _any(self, key: str) -> Iterator[Remedy]:
        make = _MAKERS.get(key) if self._layers is None else _OF_LAYERS.get(key)
        return iter(()) if make is None or self._needs.last < 0 else make(self)

    @cached_property
    def _steps(self) -> str:
        """What is assumed of the steps where one comes to pass another: nothing where the schedule shows it."""
        ops, needs = self._sound.ops, self._needs
        is_taken = any(
            not (names_memory(ops[i]) and names_memory(ops[k]))
            for i, before in enumerate(needs.before)
            for k in before - needs.conflicts[i]
        )
        return INDEPENDENT if is_taken and not are_independent(self._sound) else ""

    @cached_property
    def _recut(self) -> Recut:
        return Recut(self._sound, self._needs)

    @cached_property
    def _recut_once(self) -> Recut:
        """For cuts: what the host does once, in a slow first call, is not done again for every piece."""
        apart = calls.slow_calls_apart(Scenario(self._sound, self._case.device))
        return self._recut if apart == self._sound else Recut(apart)

    def _remedy(self, text: str, schedule: Schedule, assumes: str = "") -> Remedy:
        name = ": ".join(part for part in (self._case.schedule.name, text) if part)
        text += "; and add the waits that its races lack" * self._is_mended
        return Remedy(text, Scenario(replace(schedule, name=name), self._case.device), assumes)

    def _checked(self, text: str, schedule: Schedule, assumes: str = "") -> Remedy:
        """The remedy, with the waits that the change has lost: of ops for each other, of the host for its output."""
        findings = check(schedule)
        schedule = repaired(schedule, findings)
        if any(finding.rule == "unsynchronised-output" for finding in findings):
            schedule = replace(schedule, ops=(*schedule.ops, Synchronize()))
        return self._remedy(text, schedule, assumes)

    # By cause

    def _pinned(self) -> Iterator[Remedy]:
        if calls.has_pageable(self._case):
            yield self._checked("allocate the host buffers as pinned memory", calls.pinned(self._sound))

    def _off_legacy(self) -> Iterator[Remedy]:
        if not calls.has_legacy(self._case):
            return
        if not self._names_memory:
            yield self._remedy(
                "issue the legacy default stream's ops in the streams of the ops before them, make all streams"
                " non-blocking",
                calls.legacy_beside(self._sound),
                INDEPENDENT,
            )
        else:
            yield self._checked(
                "issue the legacy default stream's ops in a stream of their own, make all streams non-blocking, with"
                " events where ops need each other",
                calls.legacy_apart(self._sound),
            )

    def _unheld(self) -> Iterator[Remedy]:
        if self._holds:
            is_known = self._source is not None or not is_recorded(self._sound)
            yield self._checked(
                "use asynchronous copies and synchronise once at the end, with events where ops need each other",
                calls.without_host_waits(self._sound),
                "" if is_known else NEEDS_NO_RESULT,
            )

    def _reordered(self) -> Iterator[Remedy]:
        text, known = "issue the same ops in another order: ", set[str]()
        if self._source is not None and self._source.config.order in ISSUE_ORDERS:  # each chunk's host work before it
            known = ISSUE_ORDERS - {self._source.config.order}
            for name in known:
                yield from self._as_options(text + name, order=name)
        role = ", in the same three streams" * (self._source is not None and self._source.config.is_prefetch)
        for name in (name for name in self._needs.orders if name not in known):
            schedule = self._needs.reordered(self._sound, name, holds=True)
            words = text + name + role + BLOCKING * calls.holds_host(schedule.ops[:-1])
            yield self._remedy(words, schedule, self._steps)

    def _apart(self) -> Iterator[Remedy]:
        """Chunks that wait for each other no more than their data needs, in streams and buffers of their own."""
        if self._source is not None:
            if self._needs.has_needless_order:
                yield from self._spread("", self._recut, among=())
            yield from self._spread_by_options(self._source.workload, self._source.config)
            return
        if not self._needs.has_needless_order:
            return
        yield from self._prefetched()
        yield from self._spread("", self._recut)
        for times in (RING, None):
            schedule = self._recut.with_buffers(times)
            if schedule is not None:
                more = format_bytes(sum(buffer.bytes for buffer in schedule.buffers[len(self._sound.buffers) :]))
                several = OWN if times is None else f"{times} device buffers in turn for each that they share"
                yield from self._spread(f"give chunks {several} ({more} more)", Recut(schedule))

    def _prefetched(self) -> Iterator[Remedy]:
        """The next step's copies beside this step's work: of steps that do not name the buffers they copy into."""
        working = {op.stream for op in self._sound.ops if isinstance(op, Kernel) or _is_back(op)}
        if self._names_memory or len(working) != 1 or calls.has_legacy(self._case):
            return
        reads_back = any(map(_is_back, self._sound.ops))
        with suppress(InputError):
            yield self._remedy(
                "copy the next step's input beside this step's work, into a second device buffer (a prefetcher)",
                prefetched(self._sound, 1),
                IN_TIME if reads_back and self._holds else "",
            )

    def _spread(self, buffers: str, recut: Recut, among: Iterable[int] = STREAMS) -> Iterator[Remedy]:
        several = [n for n in among if recut.streams * recut.by_chunk < n <= recut.chunks]
        legacy = ", with what is in the legacy default stream," * calls.has_legacy(self._case)
        for streams, holds in self._held((None, *several)):
            dealt = "" if streams is None else f"issue chunks{legacy} in {streams} non-blocking streams in turn"
            text = ", and ".join(part for part in (buffers, dealt) if part) or "drop waits that the data does not need"
            schedule = recut.dealt(streams, holds=holds, keeps_waits=False)
            text += ASYNCHRONOUS * (not holds)
            yield (self._remedy if holds else self._checked)(text, schedule, self._steps)

    def _spread_by_options(self, workload: Workload, config: Config) -> Iterator[Remedy]:
        """The source over more streams (serial and prefetching programs have their own), and with more buffers."""
        has_own = config.order in ("serial", "prefetch")
        order = "depth-first" if has_own else config.order
        dealt = f"issue chunks{' depth-first' * has_own} in {{}} non-blocking streams in turn"
        if workload.in_order and not config.is_prefetch:
            yield from self._as_options(
                "copy the next chunk's input beside this chunk's kernels (a prefetcher): --order prefetch",
                order="prefetch",
                streams=1,
                buffers=None,
            )
        is_ring = config.is_prefetch and config.slots != config.chunks
        kept = f" with {config.slots} device buffers" * is_ring
        several = [n for n in STREAMS if config.streams < n <= min(config.chunks, most_streams(workload))]
        for text, ring in _rings(workload, config):
            if text:
                yield from self._as_options(text, buffers=ring.buffers)
            for n in several:
                words = f"{text}, and {dealt.format(n)}" if text else dealt.format(n) + kept
                words += ASYNCHRONOUS * self._holds
                has_own_buffers = ring.slots == config.chunks and (text or (config.is_prefetch and not config.buffers))
                buffers = None if has_own_buffers else ring.slots
                yield from self._as_options(words, order=order, streams=n, buffers=buffers)

    def _as_options(self, text: str, **options: Any) -> Iterator[Remedy]:
        """What `predict` makes of the source with other options; nothing of some that do not go together."""
        assert self._source is not None
        with suppress(InputError):
            other = replace(self._source.config, **options)
            yield Remedy(text, Scenario(other.schedule(self._source.workload), self._case.device))

    def _buffered(self) -> Iterator[Remedy]:
        """Layers that take turns over more buffers: one more, twice as many, one for each."""
        assert self._layers is not None
        layers, config = self._layers.layers, self._layers.config
        slots, all_slots = config.slots(layers), replace(config, depth=len(layers.steps)).slots(layers)
        for depth in dict.fromkeys((slots + 1, RING * slots, all_slots)):
            if slots < depth <= all_slots:
                other = replace(config, depth=depth)
                more = format_bytes(other.device_bytes(layers) - config.device_bytes(layers))
                text = f"stream the layers through {depth} buffers in place of {slots} ({more} more): --depth {depth}"
                yield Remedy(text, Scenario(other.schedule(layers), self._case.device))

    def _held(self, several: Iterable[int | None]) -> Iterator[tuple[int | None, bool]]:
        """Each number of streams with the host waiting where it does now, and if that is early, without it too."""
        return product(several, (True, False) if self._holds else (True,))

    def _connected(self) -> Iterator[Remedy]:
        if not without.has_few_connections(self._case):
            return
        yield from self._fewer_streams()
        schedule, device = self._case
        if _has_queues(device):
            wanted = min(MOST_CONNECTIONS, max(self._recut.streams, device.connections))
            for number in dict.fromkeys((wanted, MOST_CONNECTIONS)):
                text = f"set CUDA_DEVICE_MAX_CONNECTIONS={number}"
                yield Remedy(text, Scenario(schedule, device.with_connections(number)))

    def _thinned(self) -> Iterator[Remedy]:
        if not without.has_few_connections(self._case):  # else that is to blame
            yield from self._fewer_streams()

    def _fewer_streams(self) -> Iterator[Remedy]:
        recut = self._recut
        if recut.by_chunk:
            for streams in (n for n in reversed((1, *STREAMS)) if n < recut.streams):
                text = f"use {streams} stream{'s' * (streams > 1)} instead of {recut.streams}"
                if self._source is not None:
                    yield from self._as_options(text, streams=streams)
                else:
                    yield self._remedy(text, recut.dealt(streams), self._steps)

    def _warmed(self) -> Iterator[Remedy]:
        case = Scenario(self._sound, self._case.device)
        slow = calls.slow_calls(case)
        if slow:
            held_s = {i: self._sound.ops[i].call_s or 0.0 for i in slow}
            i = max(held_s, key=held_s.__getitem__)
            held = f"{call_name(self._sound.ops[i])} of ops[{i}] held the host for {format_seconds(held_s[i])}"
            more = f", and {len(slow) - 1} more" if len(slow) > 1 else ""
            yield self._remedy(f"make the call once before: {held}{more}", calls.without_slow_calls(case))

    def _launched(self) -> Iterator[Remedy]:
        launch: Launch = "live" if self._sound.launch == "graph" else "graph"
        text = "launch it as a CUDA graph" if launch == "graph" else "issue its ops one by one, without the graph"
        if self._source is not None:
            yield from self._as_options(text, launch=launch)
            return
        try:
            yield self._remedy(text, replace(self._sound, launch=launch))
        except InputError:  # something in it cannot be captured
            if not calls.has_legacy(self._case):
                yield from self._launched_in_parts()

    def _launched_in_parts(self) -> Iterator[Remedy]:
        schedule = with_step_graphs(self._sound, self._case.device)
        if schedule is not None:
            yield self._remedy(
                "launch what comes again between two waits as a CUDA graph, if its calls are the same each time",
                schedule,
            )

    def _coarser(self) -> Iterator[Remedy]:
        for factor in FACTORS:
            if self._source is not None:
                yield from self._rebuilt(ceil(self._source.config.chunks / factor))
            else:
                chunks = ceil(self._recut.chunks / factor)
                streams = min(chunks, self._recut.streams) if self._recut.by_chunk else None
                schedule = self._recut.merged(factor, streams)
                if schedule is not None:
                    yield self._remedy(_in_chunks(chunks, streams), schedule)

    def _less_worked(self) -> Iterator[Remedy]:
        """Fewer chunks, where the host works before each."""
        if self._source is not None and self._source.workload.host_work_s:
            for coarser in self._coarser():
                text = f"{coarser.text}, for each of which it works; or {CAUSES['host-work'].otherwise}"
                yield coarser._replace(text=text)

    def _finer(self) -> Iterator[Remedy]:
        for factor in FACTORS:
            if self._source is not None:
                yield from self._rebuilt(self._source.config.chunks * factor)
            elif len(self._sound) * factor <= MOST_OPS:
                yield from self._cut(factor)

    def _cut(self, factor: int) -> Iterator[Remedy]:
        recut = self._recut_once
        assumes = "" if self._names_memory else INDEPENDENT_AND_CUT if self._steps else CAN_BE_CUT
        several = SEVERAL if recut.chunks == 1 else (recut.streams if recut.by_chunk else None,)
        for streams, holds in self._held(several):
            schedule = recut.cut(factor, streams, holds=holds)
            if schedule is not None:
                text = _in_chunks(recut.chunks * factor, streams) + ASYNCHRONOUS * (not holds)
                yield (self._remedy if holds else self._checked)(text, schedule, assumes)

    def _rebuilt(self, chunks: int) -> Iterator[Remedy]:
        """The source in another number of chunks; one chunk in several, with asynchronous copies."""
        assert self._source is not None
        workload, config = self._source.workload, self._source.config
        most = min(workload.most_chunks, MOST_OPS * config.chunks // len(self._sound))
        if chunks == config.chunks or chunks > max(most, config.chunks):
            return
        was_one = config.chunks == 1 and not config.is_prefetch
        if was_one and workload.in_order:
            text = f"{_in_chunks(chunks, None)}, each copied in beside the kernels of the one before: --order prefetch"
            yield from self._as_options(text, order="prefetch", chunks=chunks, streams=1, buffers=None)
            return
        serial = config.order == "serial" and was_one
        for streams in SEVERAL if was_one else (min(config.streams, chunks),):
            text = _in_chunks(chunks, None if config.is_prefetch else streams)
            text += f", depth-first{ASYNCHRONOUS}" * serial
            order = "depth-first" if serial else config.order
            yield from self._as_options(text, order=order, chunks=chunks, streams=streams)


def _is_back(op: Op) -> bool:
    """Whether an op copies from the card."""
    return isinstance(op, Copy) and op.direction == "d2h"


def _rings(workload: Workload, config: Config) -> Iterator[tuple[str, Config]]:
    """The program with as many device buffers, in no words; twice as many, if those are fewer; one for each chunk."""
    yield "", config
    slots = config.slots
    if slots is None or slots >= config.chunks:
        return
    twice = (f"{RING * slots} device buffers in place of {slots}", replace(config, buffers=RING * slots))
    for name, other in (*[twice] * (RING * slots < config.chunks), (OWN, config.without_ring())):
        more = format_bytes(other.device_bytes(workload) - config.device_bytes(workload))
        yield f"give chunks {name} ({more} more)", other


def _in_chunks(chunks: int, streams: int | None) -> str:
    several = "" if streams is None else f" over {streams} stream{'s' * (streams > 1)}"
    return f"cut into {chunks} chunk{'s' * (chunks > 1)}{several}"


def _has_queues(device: Device) -> bool:
    """Whether the card can have more hardware queues than one: from compute capability 3.5 on.

    Those of 1.x run one kernel at a time; those of 2.x (Fermi) signal the ends of kernels by runs.
    """
    return device.compute.concurrent_kernels > 1 and device.compute.kernel_signal == "each"


_MAKERS: dict[str, Callable[[Remedies], Iterator[Remedy]]] = {
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
_OF_LAYERS: dict[str, Callable[[Remedies], Iterator[Remedy]]] = {
    "pageable-memory": Remedies._pinned,
    "needless-order": Remedies._buffered,
    "host-issue": Remedies._launched,
}
MADE = frozenset(_MAKERS)  # the causes that something can be done about
