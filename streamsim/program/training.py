"""Training loops as threads, streams and events.

Worker ``w`` of a data loader is a thread of the host that loads the batches ``w``, ``w + workers`` and so on. With
pinned memory, one more thread copies every batch into a pinned buffer. The training process waits for the next batch,
copies it to the card, and issues its step. A step needs the weights of the step before it. All steps therefore stay in
order in one stream.
"""

import math
import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from streamsim.errors import Bytes, Checked, InputError, KernelTime, Limits, shown
from streamsim.files import Parsers, parse_toml, toml_of
from streamsim.program import schedule as calls
from streamsim.program.schedule import Schedule
from streamsim.text import parse_bytes, parse_count, parse_seconds

MOST_WORKERS = 256
SLOTS = 2  # device buffers for batches: a prefetcher fills one while the step works on the other
LEAST_STEPS = 16  # to warm up
MAIN = 0  # the thread of the training process
COPIES, STEPS = 1, 2  # streams
RAN = 1  # event 2 i is behind the copy of batch i, and event 2 i + RAN behind its step


# The fields' names in files, where they differ: those of the options of ``streamsim loop``.
NAMES = {"step_s": "step", "load_s": "load", "issue_s": "issue", "is_pinned": "pinned", "reads_loss": "item"}


class Loop(Checked, frozen=True, kw_only=True, rename={**NAMES, "issue": "order"}):
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

    batch: Bytes
    batch_bytes: Bytes
    step_s: KernelTime
    load_s: float = 0.0
    workers: Annotated[int, Limits(most=MOST_WORKERS)] = 0
    issue_s: float = 0.0
    is_pinned: bool = False
    non_blocking: bool = False
    reads_loss: bool = False
    issue: Literal["in turn", "copy first", "step first"] = "in turn"
    comes_pinned: bool = False
    has_own_pace: bool = False

    @property
    def pins(self) -> bool:
        """True if the loop copies each batch into pinned memory."""
        return self.is_pinned and not self.comes_pinned

    @property
    def period_workers(self) -> int:
        """The number of workers that load in turn, at least 1."""
        return max(1, self.workers)

    @property
    def warm_steps(self) -> int:
        """The number of steps that warm the loop up, whole rounds of the workers. As many more are measured."""
        return self.period_workers * math.ceil(LEAST_STEPS / self.period_workers)

    @property
    def slots(self) -> int:
        """The number of batches that need to be on the card at once."""
        return 1 if self.issue == "in turn" else SLOTS

    def schedule(self, steps: int, staging_s: float) -> Schedule:
        """Return the program of ``steps`` steps; ``staging_s``: seconds to copy a batch into pinned memory."""
        ahead, ops = self.slots - 1, list[calls.Op]()
        for i in range(-ahead, steps):
            batch = self._batch(i + ahead, staging_s) if i + ahead < steps else ()
            step = self._step(i) if i >= 0 else ()
            ops += (*step, *batch) if self.issue == "step first" else (*batch, *step)
        host = calls.Buffer("batches", steps * self.batch_bytes, "pinned" if self.is_pinned else "pageable")
        card = (calls.Buffer(f"batch{k}", self.batch_bytes, "device") for k in range(SLOTS))
        streams: tuple[calls.StreamKind, ...] = ("non-blocking", "non-blocking")
        name = f"training loop, {steps} steps"
        return Schedule((*ops, calls.Synchronize()), streams, (host, *card), 2 * steps, name=name)

    def _batch(self, i: int, staging_s: float) -> Iterator[calls.Op]:
        """Yield the ops that load, pin and copy batch ``i``, once the step that used its device buffer before is done.

        Only with two buffers the copy is in a stream of its own, with events between the streams.
        """
        yield from self._load(i, staging_s)
        stream = COPIES if self.slots == SLOTS else STEPS
        if stream == COPIES and i >= SLOTS:
            yield calls.WaitEvent(2 * (i - SLOTS) + RAN, stream)
        host = calls.Region("batches", i * self.batch_bytes, self.batch_bytes)
        yield calls.Copy("h2d", self.batch_bytes, stream, host, self._on_card(i), blocking=not self.non_blocking)
        if stream == COPIES:
            yield calls.RecordEvent(2 * i, stream)

    def _load(self, i: int, staging_s: float) -> Iterator[calls.Op]:
        ready = MAIN
        if self.load_s:
            ready = 1 + i % self.workers if self.workers else MAIN
            yield calls.HostWork(self.load_s, "load a batch", ready)
        if self.pins and staging_s:
            pinning = self.workers + 1 if self.workers else MAIN
            if ready != MAIN:
                yield calls.WaitThread(ready, pinning)
            ready = pinning
            yield calls.HostWork(staging_s, "copy the batch into pinned memory", ready)
        if ready != MAIN:
            yield calls.WaitThread(ready, MAIN)

    def _step(self, i: int) -> Iterator[calls.Op]:
        has_events = self.slots == SLOTS
        if has_events:
            yield calls.WaitEvent(2 * i, STEPS)
        beside_s = min(self.step_s, self.issue_s)  # the step ends no earlier than its last call
        if self.issue_s > beside_s:
            yield calls.HostWork(self.issue_s - beside_s, "issue the step")
        yield calls.Kernel(STEPS, "step", duration_s=self.step_s, reads=(self._on_card(i),))
        if beside_s:
            yield calls.HostWork(beside_s, "issue the step")
        if has_events:
            yield calls.RecordEvent(2 * i + RAN, STEPS)
        if self.reads_loss:
            yield calls.Synchronize(stream=STEPS, name="loss.item()")

    def _on_card(self, i: int) -> calls.Region:
        return calls.Region(f"batch{i % SLOTS}", 0, self.batch_bytes)


# Files of loops: TOML with the names of the options of ``streamsim loop``. Sizes and times may be text with a unit.

BYTES_OF = {
    **dict.fromkeys(("float64", "int64"), 8),
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
}


def parse_sample(text: str, field: str = "sample") -> int:
    """Return the bytes of an array in a text such as ``"3x224x224:float32"``. Raises InputError naming ``field``."""
    shape, _, kind = str(text).strip().partition(":")
    if kind not in BYTES_OF:
        types = ", ".join(BYTES_OF)
        raise InputError(
            f"{field} = {shown(text)}: expected a shape and a type such as 3x224x224:float32; types: {types}"
        )
    return math.prod(parse_count(part, field) for part in shape.split("x")) * BYTES_OF[kind]


class LoopFile(Loop, frozen=True, kw_only=True, rename=NAMES):
    """The content of a loop's file. ``sample``: bytes of each array of a sample, in place of ``batch_bytes``.

    ``prefetcher``: the next batch is copied in its own stream, before the step is issued.
    """

    batch: int = 0
    batch_bytes: int = 0
    step_s: float = 0.0
    sample: tuple[int, ...] = ()
    prefetcher: bool = False

    def __post_init__(self) -> None:
        """Check nothing: the loop that is made of the file checks itself."""

    def loop(self) -> Loop:
        """Return the loop that the file describes. Raises InputError if the file says too little or too much."""
        if not self.batch or not self.step_s:
            raise InputError("--batch, --step: a loop needs both")
        if bool(self.sample) == bool(self.batch_bytes):
            raise InputError("--sample, --batch-bytes: give one of the two")
        fields = {name: getattr(self, name) for name in Loop.__struct_fields__}
        fields["batch_bytes"] = self.batch_bytes or self.batch * sum(self.sample)
        ahead = {"issue": "copy first", "non_blocking": True} if self.prefetcher else {}
        return Loop(**fields | ahead)


_PARSERS: Parsers = {
    **dict.fromkeys(("step", "issue", "load"), parse_seconds),
    "batch": parse_count,
    "batch_bytes": parse_bytes,
    "sample": parse_sample,
}


def read_loop_file(path: str | os.PathLike[str]) -> LoopFile:
    """Return the content of a loop's TOML file. Raises InputError naming the file, the field and the value."""

    def listed(table: dict[str, Any]) -> dict[str, Any]:
        sample = table.get("sample")
        return {**table, "sample": [sample]} if isinstance(sample, str) else table

    return parse_toml(*toml_of(path), LoopFile, "loop", _PARSERS, listed)
