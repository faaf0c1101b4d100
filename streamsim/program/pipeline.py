"""Pipelines: workloads cut into chunks and issued by a loop, as Schedules.

Copies name their buffers, so that a schedule can be checked for races and replayed with its output verified. Host and
device arrays hold the whole workload, unless chunks use buffers in turn. Arrays that are copied once go in before the
first chunk, in the loop's first stream, for which the other streams wait. They go back after the last chunk.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, NamedTuple, TypeVar

from streamsim.collector import collector_off
from streamsim.program.builder import Event, Memory, Program, Stream
from streamsim.program.loops import TURN, Issue, Loop, Prepare, Record, Stage, Step, Turns
from streamsim.program.schedule import Kernel
from streamsim.program.workload import Workload

T = TypeVar("T")
HOST_WORK = "host work"  # before a chunk


class _Array(NamedTuple):
    """An array on the card and on the host: the whole array, and the piece of each chunk (None: no piece)."""

    card: Memory
    host: Memory
    on_card: list[Memory | None]
    on_host: list[Memory | None]


class _Pipeline:
    """A workload in a program: its memory, and the copies and kernels of each chunk.

    What depends on no stream is worked out once for all chunks, so that a schedule of many chunks costs little more
    than its ops.
    """

    def __init__(self, workload: Workload, turns: Turns, is_pageable: bool, is_blocking: bool) -> None:
        self.program = Program()
        self._turns, self._is_pageable, self._is_blocking = turns, is_pageable, is_blocking
        cut = workload.in_chunks(turns.chunks)
        self._parts = cut.cut(turns.chunks)
        inputs = self._arrays("in", [part.inputs for part in self._parts], turns.slots)
        outputs = self._arrays("out", [part.outputs for part in self._parts], turns.slots)
        self._once_in = [self._array(f"once_in{k}", [n]) for k, n in enumerate(workload.h2d_once)]
        self._once_out = self._arrays("once_out", [part.d2h_once for part in self._parts])
        self._copies_in, self._copies_out = self._pieces(inputs), self._pieces(outputs)
        self._host_s = self._spread([workload.host_s(part) for part in self._parts])
        self._kernels = self._spread([list(map(_arguments, cut.launches(part))) for part in self._parts])
        tables = [array.card for array in self._once_in]
        self._reads = [[*pieces, *tables] for pieces in self._on_card(inputs)]
        # Without an output array, kernels write the last input.
        self._writes = self._on_card([*outputs, *self._once_out] or inputs[-1:])

    def _arrays(self, prefix: str, sizes: list[tuple[int, ...]], slots: int | None = None) -> list[_Array]:
        """Return the arrays of which each part has these bytes."""
        columns = zip(*self._spread(sizes), strict=True)
        return [self._array(f"{prefix}{k}", column, slots) for k, column in enumerate(columns)]

    def _array(self, name: str, sizes: Sequence[int], slots: int | None = None) -> _Array:
        """Return an array whose chunks have these bytes; the card holds ``slots`` chunks at a time (None: all)."""
        program, whole = self.program, sum(sizes)
        host = (program.pageable if self._is_pageable else program.pinned)(f"h_{name}", whole)
        if slots is None:
            cards = [program.device(f"d_{name}", whole)]
            on_card = cards[0].cut(sizes)
        else:
            cards = [program.device(f"d_{name}_{slot}", max(sizes)) for slot in range(slots)]
            heads = {size: [card[:size] for card in cards] if size else [None] * slots for size in set(sizes)}
            on_card = [heads[size][slot] for slot, size in zip(cycle(range(slots)), sizes, strict=False)]
        return _Array(cards[0], host, on_card, host.cut(sizes))

    def _spread(self, values: Sequence[T]) -> list[T]:
        """Return the value of each chunk's part, chunk by chunk."""
        return [value for value, part in zip(values, self._parts, strict=True) for _ in range(part.many)]

    def _pieces(self, arrays: Sequence[_Array]) -> list[list[tuple[Memory, Memory]]]:
        """Return each chunk's pieces, on the card and on the host."""
        if not arrays:
            return [[]] * self._turns.chunks
        columns = [zip(array.on_card, array.on_host, strict=True) for array in arrays]
        return [[(card, host) for card, host in row if card and host] for row in zip(*columns, strict=True)]

    def _on_card(self, arrays: Sequence[_Array]) -> list[list[Memory]]:
        """Return each chunk's pieces on the card."""
        if not arrays:
            return [[]] * self._turns.chunks
        return [[card for card in row if card] for row in zip(*[array.on_card for array in arrays], strict=True)]

    def prepare(self, chunk: int) -> None:
        """Add the host's work before it issues a chunk."""
        if self._host_s[chunk]:
            self.program.host_work(self._host_s[chunk], HOST_WORK)

    def has(self, stage: Stage, chunk: int) -> bool:
        """Return whether the chunk has work in this stage."""
        of_stage: dict[Stage, Sequence[Sequence[Any]]] = {
            "copy in": self._copies_in,
            "run": self._kernels,
            "copy out": self._copies_out,
        }
        return bool(of_stage[stage][chunk])

    def issue(self, stage: Stage, chunk: int, stream: Stream) -> None:
        """Issue a stage of a chunk."""
        if stage == "copy in":
            for card, host in self._copies_in[chunk]:
                stream.copy_in(card, host, blocking=self._is_blocking)
        elif stage == "run":
            for arguments in self._kernels[chunk]:
                stream.kernel(**arguments, reads=self._reads[chunk], writes=self._writes[chunk])
        else:
            for card, host in self._copies_out[chunk]:
                stream.copy_out(host, card, blocking=self._is_blocking)

    def copy_in_once(self, first: Stream, others: Sequence[Stream]) -> None:
        """Copy the arrays of ``h2d_once`` to the card in the first stream, and let the other streams wait for them."""
        for array in self._once_in:
            first.copy_in(array.card, array.host, blocking=self._is_blocking)
        if others and (self._once_in or self._once_out):  # the events of the last copies have later numbers
            loaded = self.program.event()
            if self._once_in:
                first.record(loaded)
                for stream in others:
                    stream.wait(loaded)

    def copy_out_once(self, first: Stream, others: Sequence[Stream]) -> None:
        """Let the first stream wait for the others, and copy the arrays of ``d2h_once`` back."""
        if not self._once_out:
            return
        for stream in others:
            first.wait(stream.record())
        for array in self._once_out:
            first.copy_out(array.host, array.card, blocking=self._is_blocking)


def _arguments(kernel: Kernel) -> dict[str, Any]:
    """Return the arguments of a stream's ``kernel``, without the memory."""
    names = ("name", "elements", "parameter", "fill", "threads", "share", "parts")
    return {"duration": kernel.duration_s, **{name: getattr(kernel, name) for name in names}}


class _Issuer:
    """The calls of a loop while it is issued, over the streams and events of a program."""

    def __init__(self, pipeline: _Pipeline, loop: Loop, turns: Turns) -> None:
        self._pipeline, self._loop, self._turns = pipeline, loop, turns
        program = pipeline.program
        self.streams = [program.stream() for _ in loop.roles or range(turns.streams)]
        recorded = [turns.recorded(step) for step in loop.steps if isinstance(step, Record)]
        self._events = [[program.event() for _ in loop.events] for _ in range(max(recorded, default=0))]
        self._recorded: set[tuple[str, int]] = set()  # events, by name and chunk

    def issue(self) -> None:
        """Issue all passes over the chunks."""
        chunks, behind = self._turns.chunks, self._turns.ahead
        for bodies in self._loop.passes:
            for i in range(chunks + behind * any(body.follows for body in bodies)):
                for body in bodies:
                    chunk = i - behind if body.follows else i
                    if 0 <= chunk < chunks and (body.needs is None or self._pipeline.has(body.needs, chunk)):
                        self._issue_body(body.steps, chunk)

    def _issue_body(self, steps: Sequence[Step], chunk: int) -> None:
        turn = self.streams[chunk % len(self.streams)]
        for step in steps:
            if isinstance(step, Prepare):
                self._pipeline.prepare(chunk)
                continue
            stream = turn if step.stream == TURN else self.streams[step.stream]
            if isinstance(step, Issue):
                self._pipeline.issue(step.stage, chunk, stream)
            elif isinstance(step, Record):
                if chunk < self._turns.recorded(step):
                    stream.record(self._event(step.event, chunk))
                    self._recorded.add((step.event, chunk))
            else:
                before = step.event, chunk - self._turns.distance(step.before)
                if before in self._recorded:
                    stream.wait(self._event(*before))

    def _event(self, name: str, chunk: int) -> Event:
        return self._events[chunk][self._loop.events.index(name)]


@collector_off()  # nothing that is made here becomes garbage before the end
def program_of(workload: Workload, loop: Loop, turns: Turns, is_pageable: bool, is_blocking: bool) -> Program:
    """Return the program of a workload, cut and issued by ``loop``; at its end the host waits for the card."""
    pipeline = _Pipeline(workload, turns, is_pageable, is_blocking)
    issuer = _Issuer(pipeline, loop, turns)
    first, *others = issuer.streams[: turns.chunks]
    pipeline.copy_in_once(first, [] if loop.roles else others)
    issuer.issue()
    if loop.ends:
        first, *others = [issuer.streams[k] for k in loop.ends]
    pipeline.copy_out_once(first, others)
    pipeline.program.synchronize()
    return pipeline.program
