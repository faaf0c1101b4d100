"""Training loops as threads, streams and events, and the gain of each usual change.

Worker ``w`` of a data loader is a thread of the host that loads the batches ``w``, ``w + workers`` and so on. With
pinned memory, one more thread copies every batch into a pinned buffer. The training process waits for the next batch,
copies it to the card, and issues its step. A step needs the weights of the step before it. All steps therefore stay in
order in one stream.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from streamsim.checks import LARGEST_BYTES, LONGEST_S, check_choice, check_number, check_whole
from streamsim.compiled import simulate_one_of_many
from streamsim.device import CALLS, Device, as_device, front_end_of, known_within, with_front_end, with_values
from streamsim.displayed import Result, attributes
from streamsim.program import (
    Buffer,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    StreamKind,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.rules import S_PER_TICK
from streamsim.text import counted, format_ratio, format_seconds, listed, short
from streamsim.timeline import Timeline

replace = msgspec.structs.replace

MOST_WORKERS = 256
SLOTS = 2  # device buffers for batches: the copy fills one while the step works on the other
PICTURED = 8  # steps of a pictured time line, plus one for each worker
LEAST_STEPS = 16  # steps that are simulated, after as many steps to warm up
FASTER = 0.9  # a part shortened to this share shows whether the loop waits for it
# Workers hand batches over in shared memory, whose pages the training process touches first. On an H100's host, such
# memory was staged at 3.4 GB/s, and memory touched before at 6.7 GB/s. It was pinned as slowly.
FIRST_TOUCH_PACE = 0.5  # share of the pageable rate
BINDS = 0.25  # the loop waits for a part if it gains at least this share of the time that the part gains
FILLS = 0.9  # or if the part takes this share of the loop's time
WORTH = 1.01  # a change that gains less is not worth a line
WORTH_DOING = 1.03  # a change that gains less is no answer
PAGEABLE = "h2d.pageable_bandwidth_bytes_per_s"
MAIN = 0
COPIES, STEPS = 1, 2  # streams
Issue = Literal["in turn", "copy first", "step first"]


class Loop(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A training loop. Times are in seconds.

    - ``batch``: samples in a batch; ``batch_bytes``: bytes of a batch that are copied to the card.
    - ``step_s``: a step alone on the card; ``issue_s``: the host's time to issue a step.
    - ``load_s``: the time in which one worker loads a batch; ``workers``: their number (0: the training process loads).
    - ``is_pinned``: batches are copied from pinned memory; ``non_blocking``: their copies do not block the host.
    - ``reads_loss``: the host waits for each step, because it reads the loss.
    - ``issue``: "in turn": a batch's copy and its step follow each other in one stream. "copy first", "step first": the
      next batch's copy is in its own stream, issued before or behind the step.
    - ``comes_pinned``: batches arrive in pinned memory, so the loop does not copy them there.
    - ``has_own_pace``: the device's pageable rate was measured with these batches.

    Raises InputError naming the field.
    """

    batch: int
    batch_bytes: int
    step_s: float
    load_s: float = 0.0
    workers: int = 0
    issue_s: float = 0.0
    is_pinned: bool = False
    non_blocking: bool = False
    reads_loss: bool = False
    issue: Issue = "in turn"
    comes_pinned: bool = False
    has_own_pace: bool = False

    def __post_init__(self) -> None:
        check_whole("batch", self.batch, 1, LARGEST_BYTES)
        check_whole("batch_bytes", self.batch_bytes, 1, LARGEST_BYTES)
        check_number("step_s", self.step_s, 1e-9, LONGEST_S)
        check_number("load_s", self.load_s, 0.0, LONGEST_S)
        check_whole("workers", self.workers, 0, MOST_WORKERS)
        check_number("issue_s", self.issue_s, 0.0, LONGEST_S)
        check_choice("issue", self.issue, ("in turn", "copy first", "step first"))

    def schedule(self, steps: int, staging_s: float) -> Schedule:
        """Return the program of ``steps`` steps; ``staging_s``: seconds to copy a batch into pinned memory."""
        return _Program(self, steps, staging_s).schedule()

    @property
    def pins(self) -> bool:
        """True if the loop copies each batch into pinned memory."""
        return self.is_pinned and not self.comes_pinned

    @property
    def period_workers(self) -> int:
        """The number of workers that load in turn, at least 1."""
        return max(1, self.workers)


class _Program:
    """The ops of a loop, in an order in which each op waits only for earlier ops."""

    def __init__(self, loop: Loop, steps: int, staging_s: float) -> None:
        self._loop, self._steps, self._staging_s = loop, steps, staging_s
        self._pinning = loop.workers + 1  # the thread that pins
        self._ops: list[Op] = []

    def schedule(self) -> Schedule:
        loop, steps = self._loop, self._steps
        if loop.issue == "in turn":
            for i in range(steps):
                self._batch(i, STEPS)
                self._step(i)
        else:
            self._batch(0, COPIES)
            for i in range(steps):
                if loop.issue == "step first":
                    self._step(i)
                if i + 1 < steps:
                    self._batch(i + 1, COPIES)
                if loop.issue == "copy first":
                    self._step(i)
        self._ops.append(Synchronize())
        host = Buffer("batches", steps * loop.batch_bytes, "pinned" if loop.is_pinned else "pageable")
        card = [Buffer(f"batch{k}", loop.batch_bytes, "device") for k in range(SLOTS)]
        streams: tuple[StreamKind, ...] = ("non-blocking", "non-blocking")
        return Schedule(tuple(self._ops), streams, (host, *card), 2 * steps, name=f"training loop, {steps} steps")

    def _batch(self, i: int, stream: int) -> None:
        """Add the ops that load, pin and copy batch ``i``, once the step that used its device buffer before is done."""
        loop = self._loop
        self._load(i)
        if stream == COPIES and i >= SLOTS:
            self._ops.append(WaitEvent(self._ran(i - SLOTS), stream))
        host, card = Region("batches", i * loop.batch_bytes, loop.batch_bytes), self._on_card(i)
        self._ops.append(Copy("h2d", loop.batch_bytes, stream, host, card, blocking=not loop.non_blocking))
        if stream == COPIES:
            self._ops.append(RecordEvent(self._loaded(i), stream))

    def _load(self, i: int) -> None:
        loop = self._loop
        ready = MAIN
        if loop.load_s:
            ready = 1 + i % loop.workers if loop.workers else MAIN
            self._ops.append(HostWork(loop.load_s, "load a batch", ready))
        if loop.pins and loop.workers and self._staging_s:
            if ready != MAIN:
                self._ops.append(WaitThread(ready, self._pinning))
            ready = self._pinning
            self._ops.append(HostWork(self._staging_s, "copy the batch into pinned memory", ready))
        elif loop.pins and self._staging_s:
            self._ops.append(HostWork(self._staging_s, "copy the batch into pinned memory", MAIN))
        if ready != MAIN:
            self._ops.append(WaitThread(ready, MAIN))

    def _step(self, i: int) -> None:
        loop = self._loop
        if loop.issue != "in turn":
            self._ops.append(WaitEvent(self._loaded(i), STEPS))
        beside_s = min(loop.step_s, loop.issue_s)  # the step ends no earlier than its last call
        if loop.issue_s > beside_s:
            self._ops.append(HostWork(loop.issue_s - beside_s, "issue the step"))
        self._ops.append(Kernel(STEPS, "step", duration_s=loop.step_s, reads=(self._on_card(i),)))
        if beside_s:
            self._ops.append(HostWork(beside_s, "issue the step"))
        if loop.issue != "in turn":
            self._ops.append(RecordEvent(self._ran(i), STEPS))
        if loop.reads_loss:
            self._ops.append(Synchronize(stream=STEPS, name="loss.item()"))

    def _on_card(self, i: int) -> Region:
        return Region(f"batch{i % SLOTS}", 0, self._loop.batch_bytes)

    def _loaded(self, i: int) -> int:
        return 2 * i

    def _ran(self, i: int) -> int:
        return 2 * i + 1


class LoopRow(msgspec.Struct, frozen=True):
    """A loop and its predicted time.

    - ``title``: the changes that make it, or "as it is"; ``loop``: the loop.
    - ``step_s``: seconds from step to step once the loop is warm; ``binds``: the parts that it waits for.
    - ``gain``: the time of the unchanged loop over its time.
    - ``assumes``: conditions for the changes ("" for none).
    """

    title: str
    loop: Loop
    step_s: float
    gain: float
    binds: tuple[str, ...]
    assumes: str = ""

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        return self.loop.batch / self.step_s


class LoopAdvice(Result, msgspec.Struct, frozen=True):
    """The usual changes of a training loop on a device, and their gains.

    ``rows``: the unchanged loop first, then changes, and last all useful changes together if that is faster than each
    row before. ``notes``: rows in which the order of issue matters. ``known_within``: the relative error of the times
    if the profile's latencies are assumed: 0.10 is 10 %; else 0.
    """

    device: str
    rows: tuple[LoopRow, ...]
    notes: tuple[str, ...] = ()
    known_within: float = 0.0

    def __repr__(self) -> str:
        return short(f"LoopAdvice({self.verdict})")

    @property
    def best(self) -> LoopRow:
        """The first row within 1 % of the fastest one: rows with fewer changes come first."""
        least = min(row.step_s for row in self.rows)
        return next(row for row in self.rows if row.step_s <= least * WORTH)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        first, best = self.rows[0], self.best
        if best.gain < WORTH_DOING:
            return f"nothing to gain: the loop waits for {listed(first.binds)}"
        gain = format_ratio(best.gain, self.known_within)
        return f"{best.title}: {gain} as fast; then the loop waits for {listed(best.binds)}"

    def _json(self) -> dict[str, Any]:
        loops = [{**msgspec.structs.asdict(row), "samples_per_s": row.samples_per_s} for row in self.rows]
        return {**attributes(self, "device", "verdict"), "best": self.best.title, "notes": self.notes, "loops": loops}


def loop_advice(loop: Loop, device: Device | str | Path, smaller_bytes: int | None = None) -> LoopAdvice:
    """Predict the gains of the usual changes of ``loop`` on ``device``.

    - ``device``: a Device, or the name or file of one. Its calls are PyTorch's, unless it has another front end's.
    - ``smaller_bytes``: bytes of a batch in a smaller type on the host, which the card converts (None: unknown).

    Raises InputError for an unknown device, and for batches that do not fit on the card.
    """
    card = _with_calls(as_device(device))
    slots = 1 if loop.issue == "in turn" else SLOTS
    card.check_room(slots * loop.batch_bytes, "use smaller batches, or a card with more memory")
    as_it_is = _row("as it is", loop, card, None)
    changes = _changes(loop, card, smaller_bytes)
    rows = [as_it_is]
    for titles in (*((change.title,) for change in changes), _PINNED, _PREFETCHED):
        found = [change for change in changes if change.title in titles]
        if len(found) == len(titles):
            rows.append(_row(_titles(found), _changed(loop, found), card, as_it_is, _assumed(found)))
    rows += _together(loop, card, changes, rows)
    return LoopAdvice(card.name, tuple(rows), tuple(_order_matters(rows, card)), known_within(card))


def timelines_of(found: LoopAdvice, device: Device) -> dict[str, Timeline]:
    """Return the time lines of the unchanged loop and of the best loop on ``device``, by title, with equal steps."""
    shown = {row.title: row.loop for row in (found.rows[0], found.best)}
    steps = PICTURED + max(loop.workers for loop in shown.values())
    card = _with_calls(device)
    return {title: _run(loop, card, steps, staging_s_of(loop, card)) for title, loop in shown.items()}


def _with_calls(device: Device) -> Device:
    """Return the device with the calls of PyTorch, unless it has those of another front end."""
    return with_front_end(device, "pytorch") if front_end_of(device) == CALLS else device


class _Change(NamedTuple):
    """A usual change of a loop: its title, the fields that it sets, and its conditions."""

    title: str
    fields: dict[str, Any]
    assumes: str = ""


def _changes(loop: Loop, device: Device, smaller_bytes: int | None) -> list[_Change]:
    """Return the usual changes that this loop does not have yet, the simplest first."""
    all_made = replace(loop, is_pinned=True, non_blocking=True, issue="step first", reads_loss=False)
    title, assumes = (STEP_FIRST, "") if loop.issue == "copy first" else (PREFETCHER, TWO_BATCHES)
    known = [
        _Change(PIN, {"is_pinned": True}),
        _Change(NON_BLOCKING, {"non_blocking": True}),
        _Change(title, {"issue": "step first", "non_blocking": True}, assumes),
        _Change("the loss read once in a while", {"reads_loss": False}, LATER),
        _Change("more workers", {"workers": enough_workers(all_made, device)}, CORES),
        _Change("a smaller type on the host", {"batch_bytes": smaller_bytes or loop.batch_bytes}, SMALLER),
    ]
    if not device.has_room(SLOTS * loop.batch_bytes):
        known = [change for change in known if change.assumes != TWO_BATCHES]
    return [
        change._replace(title=_workers(change.fields["workers"])) if "workers" in change.fields else change
        for change in known
        if replace(loop, **change.fields) != loop
    ]


def _workers(count: int) -> str:
    return counted(count, "worker")


def _changed(loop: Loop, changes: Sequence[_Change]) -> Loop:
    return replace(loop, **{name: value for change in changes for name, value in change.fields.items()})


def _titles(changes: Sequence[_Change]) -> str:
    return listed([change.title for change in changes]) or "as it is"


def _assumed(changes: Sequence[_Change]) -> str:
    return "; ".join(change.assumes for change in changes if change.assumes)


def _order_matters(rows: Sequence[LoopRow], device: Device) -> Iterator[str]:
    """Yield a note for each row whose new prefetcher would be slower if it issued the copy before the step."""
    for row in rows:
        if row.loop.issue == "step first" and rows[0].loop.issue == "in turn":
            other_s = seconds_a_step(replace(row.loop, issue="copy first"), device)
            if other_s > row.step_s * WORTH:
                yield (
                    f"{row.title}: issue the step before the next batch's copy; the other way round it takes"
                    f" {format_seconds(other_s, known_within(device))} a step"
                )


def _together(loop: Loop, device: Device, changes: list[_Change], rows: Sequence[LoopRow]) -> Iterator[LoopRow]:
    """Yield the loop with every change that gains beside the others, if it is faster than each row so far."""
    changes = _with_enough_workers(loop, device, changes)
    kept, least_s = list(changes), seconds_a_step(_changed(loop, changes), device)
    for change in reversed(changes):  # the largest changes for the user are dropped first
        without = [other for other in kept if other is not change]
        if seconds_a_step(_changed(loop, without), device) <= least_s * WORTH:
            kept = without
    kept = _with_enough_workers(loop, device, kept)
    row = _row(_titles(kept), _changed(loop, kept), device, rows[0], _assumed(kept))
    if row.step_s * WORTH < min(other.step_s for other in rows):
        yield row


def _with_enough_workers(loop: Loop, device: Device, changes: Sequence[_Change]) -> list[_Change]:
    """Return the changes with as many workers as the loop with the other changes needs."""
    others = [change for change in changes if "workers" not in change.fields]
    count = enough_workers(_changed(loop, others), device)
    return [
        change._replace(title=_workers(count), fields={"workers": count}) if "workers" in change.fields else change
        for change in changes
    ]


PIN, NON_BLOCKING = "pin_memory=True", "non_blocking=True"
PREFETCHER = "a prefetcher"
STEP_FIRST = "the step issued before the next copy"  # of a loop that has a prefetcher
_PINNED, _PREFETCHED = (PIN, NON_BLOCKING), (PIN, NON_BLOCKING, PREFETCHER)
TWO_BATCHES = f"the card has room for {SLOTS} batches"
LATER = "nothing needs the loss at once"
SMALLER = "the card converts the batch, which takes it next to no time; loading takes as long"
CORES = "the host has a core for each worker, and none of them slows another one down"


def enough_workers(loop: Loop, device: Device) -> int:
    """Return the fewest workers with which the loop does not wait for loading, at least as many as it has."""
    if not loop.load_s:
        return loop.workers
    without_s = seconds_a_step(replace(loop, load_s=0.0, workers=loop.period_workers), device)
    return max(loop.workers, min(MOST_WORKERS, math.ceil(loop.load_s / without_s - 1e-9)))


def staging_s_of(loop: Loop, device: Device) -> float:
    """Return the seconds to copy a batch into pinned memory, at the rate at which the host stages pageable copies."""
    return loop.batch_bytes / _staged(loop, device).h2d.pageable_bandwidth_bytes_per_s


def _staged(loop: Loop, device: Device) -> Device:
    """Return the device with the rate at which the host stages the batches of this loop."""
    if not loop.workers or loop.has_own_pace:
        return device
    return with_values(device, {PAGEABLE: device.h2d.pageable_bandwidth_bytes_per_s * FIRST_TOUCH_PACE})


def seconds_a_step(loop: Loop, device: Device, staging_s: float | None = None) -> float:
    """Return the seconds from step to step, once the loop is warm."""
    warm = loop.period_workers * math.ceil(LEAST_STEPS / loop.period_workers)
    staging_s = staging_s_of(loop, device) if staging_s is None else staging_s
    steps = 2 * warm + 1  # behind the last one no batch is loaded
    timeline = _run(loop, device, steps, staging_s)
    ends = [timeline.end[i] for i, op in enumerate(timeline.schedule.ops) if isinstance(op, Kernel)]
    return (ends[2 * warm - 1] - ends[warm - 1]) * S_PER_TICK / warm


def _run(loop: Loop, device: Device, steps: int, staging_s: float) -> Timeline:
    return simulate_one_of_many(loop.schedule(steps, staging_s), _staged(loop, device))


def _row(title: str, loop: Loop, device: Device, as_it_is: LoopRow | None, assumes: str = "") -> LoopRow:
    seconds = seconds_a_step(loop, device)
    gain = 1.0 if as_it_is is None else as_it_is.step_s / seconds
    return LoopRow(title, loop, seconds, gain, _binds(loop, device, seconds), assumes)


def _binds(loop: Loop, device: Device, seconds: float) -> tuple[str, ...]:
    """Return the parts that the loop waits for.

    If such a part takes less time, the loop gains at least a quarter of that. Or the part fills the loop's time, beside
    another part that does. There are several if parts take turns.
    """
    staging_s = staging_s_of(loop, device)
    less = 1 - FASTER
    parts: dict[str, tuple[float, float]] = {
        "loading": (
            loop.load_s / loop.period_workers,
            seconds_a_step(replace(loop, load_s=loop.load_s * FASTER), device),
        ),
        "the step": (
            max(loop.step_s, loop.issue_s),
            seconds_a_step(replace(loop, step_s=loop.step_s * FASTER, issue_s=loop.issue_s * FASTER), device),
        ),
        "the copy": (
            _copy_s(loop, device),
            seconds_a_step(replace(loop, batch_bytes=max(1, round(loop.batch_bytes * FASTER))), device, staging_s),
        ),
        "pinning": (staging_s * loop.pins, seconds_a_step(loop, device, staging_s * FASTER)),
    }
    bound = [
        name
        for name, (part_s, faster_s) in parts.items()
        if part_s and (part_s >= FILLS * seconds or seconds - faster_s >= BINDS * less * part_s)
    ]
    return tuple(bound) or ("calls of the host",)


def _copy_s(loop: Loop, device: Device) -> float:
    link = _staged(loop, device).h2d
    rate = link.bandwidth_bytes_per_s if loop.is_pinned else link.pageable_bandwidth_bytes_per_s
    return loop.batch_bytes / rate
