"""The loops of :mod:`streamsim.program.patterns` as plans of programs, for any number of chunks.

The tests compare each program with the schedule of its pattern, op for op.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from streamsim.code.plans import FLOAT_BYTES, ONCE, Array, ChunkKernels, CodePlan, Cut, KernelCall, TimedKernels
from streamsim.code.steps import StepWriter
from streamsim.errors import InputError
from streamsim.program import (
    ALIGN_BYTES,
    PREFETCH_BUFFERS,
    ChunkLoop,
    Config,
    Direction,
    HostMemory,
    Workload,
    WorkloadKernel,
    patterns,
)
from streamsim.text import format_seconds


class _Array(NamedTuple):
    """An array of the workload: its name, its floats, and the floats of a unit that is never cut."""

    name: str
    floats: int
    unit: int


class _Arrays:
    """The arrays of a workload, and how each is cut. Raises InputError for bytes that are not whole floats."""

    def __init__(self, workload: Workload, config: Config) -> None:
        unit = 0 if workload.elements else ALIGN_BYTES // FLOAT_BYTES
        self.inputs = _named("x", "h2d", workload.inputs, workload.elements or 1, unit)
        self.outputs = _named("y", "d2h", workload.outputs, workload.elements or 1, unit)
        self.tables = _named("w", "h2d_once", workload.h2d_once, 1, 1)
        self.once = _named(ONCE, "d2h_once", workload.d2h_once, 1, ALIGN_BYTES // FLOAT_BYTES)
        self.targets = [*self.outputs, *self.once] or self.inputs[-1:]
        if workload.kernels and not self.targets:
            raise InputError("kernels: the program needs an array that they work on; give --h2d or --d2h")
        self.resident = [self.targets[0]._replace(name="x")] if workload.kernels and not self.inputs else []
        self.sources = self.inputs or self.resident
        self.in_rings = [] if config.slots is None else [*self.inputs, *self.outputs]
        whole = [*self.inputs, *self.outputs, *self.resident]
        self.cut = [*whole, *(self.once if workload.kernels else ())]
        never_empty = self.cut if self.resident else whole
        self.most_chunks = min((-(-array.floats // array.unit) for array in never_empty), default=1)
        self.has_one_cut = len({array[1:] for array in self.cut}) == 1
        coming, going = [*self.inputs, *self.tables], [*self.outputs, *self.once]
        arrays = [*coming, *going, *self.resident]
        has_one_size = len({array.floats for array in arrays}) == 1
        self.size_of = {a.name: "SIZE" if has_one_size else f"SIZE_{a.name.upper()}" for a in arrays}
        self.sizes = {self.size_of[array.name]: array.floats for array in arrays}
        place: HostMemory = "pageable" if config.is_pageable else "pinned"
        self.memory = (
            *(Array(f"h_{a.name}", place, self.size_of[a.name], "random") for a in coming),
            *(Array(f"h_{a.name}", place, self.size_of[a.name], "nothing") for a in going),
            *map(self._on_card, [*coming, *going]),
            *(Array(f"d_{a.name}", "device", self.size_of[a.name], "resident") for a in self.resident),
        )

    def _on_card(self, array: _Array) -> Array:
        is_ring = array in self.in_rings
        size = f"{self.part(array)}[0].stop" if is_ring else self.size_of[array.name]
        return Array(f"d_{array.name}", "device", size, "nothing", is_ring)

    def cuts(self) -> tuple[Cut, ...]:
        """Return how the arrays are cut, or only the first one if all are cut alike."""
        cut = self.cut[:1] if self.has_one_cut else self.cut
        return tuple(Cut(self.part(array), self.size_of[array.name], array.unit) for array in cut)

    def part(self, array: _Array, name: str = "part") -> str:
        """Return the name of the array's chunks, or of their heads of buffers."""
        return name if self.has_one_cut else f"{name}_{array.name}"

    def on_host(self, array: _Array, chunk: str) -> str:
        """Return a chunk of an array on the host."""
        return f"h_{array.name}[{self.part(array)}[{chunk}]]"

    def on_card(self, array: _Array, chunk: str) -> str:
        """Return a chunk of an array on the card; of a table, the whole."""
        if array in self.tables:
            return f"d_{array.name}"
        if array in self.in_rings:
            return f"d_{array.name}[{chunk} % buffers][{self.part(array, 'head')}[{chunk}]]"
        return f"d_{array.name}[{self.part(array)}[{chunk}]]"

    def kernels(self, workload: Workload) -> ChunkKernels:
        each_s = [kernel.launch_s(workload.work) if kernel.is_timed else 0.0 for kernel in workload.kernels]
        calls = tuple(
            KernelCall(kernel.launches, _words(kernel), one_s / max(each_s) if all(each_s) else 1.0)
            for kernel, one_s in zip(workload.kernels, each_s, strict=True)
        )
        some = self.sources, self.tables, self.targets
        sources, tables, targets = (tuple(array.name for array in arrays) for arrays in some)
        return ChunkKernels(calls, sources, tables, targets, len({a[1:] for a in (*self.sources, *self.targets)}) == 1)


def _named(letter: str, field: str, sizes: Sequence[int], elements: int, unit: int) -> list[_Array]:
    """Return the arrays of a field; ``unit``: floats that stay together (0: the floats of an element)."""
    for k, size in enumerate(sizes):
        if size % FLOAT_BYTES:
            what = "bytes" if unit else "bytes an element"
            raise InputError(
                f"{field}[{k}] = {size} {what}: the arrays of a program hold floats; give a multiple of {FLOAT_BYTES}"
            )
    names = [letter] if len(sizes) == 1 else [f"{letter}{k}" for k in range(len(sizes))]
    floats = [size // FLOAT_BYTES for size in sizes]
    return [_Array(name, elements * one, unit or one) for name, one in zip(names, floats, strict=True)]


def _words(kernel: WorkloadKernel) -> str:
    words = f"{kernel.launches} launches of {kernel.name}" if kernel.launches > 1 else kernel.name
    shown = "".join(c for c in words if c.isprintable())[:40]
    return shown if kernel.duration_s is None else f"{shown}: {format_seconds(kernel.duration_s)} in all"


def plan_of(workload: Workload, config: Config) -> CodePlan:
    """Return the plan of a workload's program. Raises InputError for a workload that no such program can run."""
    config.check(workload)  # the errors of predict are errors here, too
    arrays = _Arrays(workload, config)
    if config.chunks > arrays.most_chunks:
        raise InputError(
            f"chunks = {config.chunks}: an array has pieces for {arrays.most_chunks} chunks only, and in a program each"
            " chunk has a piece of every array; use fewer, or --h2d-once, --d2h-once for a small array"
        )
    defaults = {"chunks": config.chunks}
    if not config.own_streams:
        defaults["streams"] = config.streams
    if config.slots is not None:
        defaults["buffers"] = config.buffers or PREFETCH_BUFFERS
    issued = _Issued(arrays, config.loop(workload), config.is_blocking, workload)
    return CodePlan(
        title=config.pattern,
        is_graph=config.launch == "graph",
        defaults=defaults,
        sizes=arrays.sizes,
        memory=arrays.memory,
        cuts=arrays.cuts(),
        kernels=arrays.kernels(workload) if workload.kernels else None,
        events=issued.events(),
        issue=issued.steps,
        results=tuple(f"h_{a.name}" for a in (*arrays.outputs, *arrays.once))
        or tuple(f"d_{a.name}" for a in (*arrays.inputs, *arrays.tables)),
        most_chunks=arrays.most_chunks,
        streams=config.own_streams,
        has_host_work=workload.has_host_work,
        timed_kernels=issued.timed_kernels(workload),
    )


class _Issued:
    """The calls of a loop, as steps of a language."""

    def __init__(self, arrays: _Arrays, loop: ChunkLoop, is_blocking: bool, workload: Workload) -> None:
        self._arrays, self._loop, self._is_blocking = arrays, loop, is_blocking
        each = [repr(workload.host_work_s)] if workload.host_work_s else []
        share = [f"{workload.host_load_s!r} / chunks"] if workload.host_load_s else []
        self._work = " + ".join([*each, *share])  # of the host, before it issues a chunk: seconds
        self._others = "" if is_blocking or loop.roles else "streams"  # the number over which chunks take turns

    def events(self) -> dict[str, str]:
        """Return the events that are recorded, and the number of each."""
        recorded = {step.event for step in self._loop.steps if isinstance(step, patterns.RecordStep)}
        found = {name: "chunks" for name in self._loop.events if name in recorded}
        if self._arrays.tables and self._others:
            found["loaded_once"] = ""
        if self._arrays.once and (self._others or self._loop.ends):
            found["ended"] = self._others
        return found

    def timed_kernels(self, workload: Workload) -> TimedKernels | None:
        """Return the kernels of all chunks, one chunk after another; None if the time of a kernel is unknown."""
        if not workload.kernels or not all(kernel.is_timed for kernel in workload.kernels):
            return None
        seconds = sum(kernel.whole_s(workload.work) for kernel in workload.kernels)
        return TimedKernels(self._all_kernels, seconds, "the kernels of all chunks")

    def _all_kernels(self, to: StepWriter) -> list[str]:
        return to.within("pool[0]", to.loop("i", "chunks", self._stage(to, "run", "pool[0]", "i")))

    def steps(self, to: StepWriter) -> list[str]:
        """Return all calls, in order."""
        used = {step.stream for step in self._loop.steps if not isinstance(step, patterns.Prepare)}
        used |= {0, *self._loop.ends[: bool(self._arrays.once)]}
        roles = [to.say("let", name=role, value=f"stream[{k}]") for k, role in enumerate(self._loop.roles) if k in used]
        passes = [line for bodies in self._loop.passes for line in self._pass(to, bodies)]
        return [*roles, *self._once_in(to), *passes, *self._once_out(to)]

    def _stream(self, number: int) -> str:
        if number == patterns.TURN:
            return "stream[0]" if self._is_blocking else "stream[i % streams]"
        return self._loop.roles[number] if self._loop.roles else f"stream[{number}]"

    def _pass(self, to: StepWriter, bodies: patterns.Pass) -> list[str]:
        """Return one pass over the chunks. Bodies that follow are for chunk k, behind chunk i."""
        now = [step for body in bodies if not body.follows for step in body.steps]
        behind = [step for body in bodies if body.follows for step in body.steps]
        if not behind:
            return to.loop("i", "chunks", self._body(to, now, "i"))
        body = to.when(["i < chunks"], self._body(to, now, "i"))
        body += [to.say("let", name="k", value="i - ahead"), *to.when(["k >= 0"], self._body(to, behind, "k"))]
        ahead = to.say("let", name="ahead", value="int(buffers > 1)")
        return [ahead, *to.loop("i", "chunks + ahead", body)]

    def _body(self, to: StepWriter, steps: Sequence[patterns.Step], chunk: str) -> list[str]:
        lines: list[str] = []
        for number, some in groupby(steps, lambda step: step.stream if isinstance(step, patterns.Issue) else None):
            if number is None:
                lines += [line for step in some for line in self._call(to, step, chunk)]
                continue
            stream, stages = self._stream(number), [step.stage for step in some if isinstance(step, patterns.Issue)]
            lines += to.within(stream, [line for stage in stages for line in self._stage(to, stage, stream, chunk)])
        return lines

    def _call(self, to: StepWriter, step: patterns.Step, chunk: str) -> list[str]:
        """Return the call of a step that is no copy and no kernel; it may be under a condition, or none."""
        conditions: list[str] = []
        if isinstance(step, patterns.WaitStep | patterns.RecordStep) and step.between_streams:
            conditions.append("hands_over")
        match step:
            case patterns.WaitStep(event, number, before):
                earlier = f"{chunk} - {before}" if before else chunk
                conditions += [f"{chunk} >= {before}"] if before else []
                call = to.say("wait", event=f"{event}[{earlier}]", stream=self._stream(number))
            case patterns.RecordStep(event, number, awaited):
                conditions += [] if awaited is None else [f"{chunk} + {awaited} < chunks"]
                call = to.say("record", event=f"{event}[{chunk}]", stream=self._stream(number))
            case _:
                return [to.say("host work", seconds=self._work)] if self._work else []
        return to.when(conditions, [call])

    def _stage(self, to: StepWriter, stage: patterns.Stage, stream: str, chunk: str) -> list[str]:
        """Return the calls of a stage of a chunk."""
        arrays = self._arrays
        if stage == "run":
            pieces = dict.fromkeys(arrays.on_card(a, chunk) for a in (*arrays.sources, *arrays.tables, *arrays.targets))
            return [to.say("kernels", pieces=", ".join(pieces), stream=stream)]
        direction: Direction = "h2d" if stage == "copy in" else "d2h"
        copied = arrays.inputs if stage == "copy in" else arrays.outputs
        pairs = [(arrays.on_card(array, chunk), arrays.on_host(array, chunk)) for array in copied]
        return [line for pair in pairs for line in to.copy(direction, *pair, stream, self._is_blocking)]

    def _copies_once(self, to: StepWriter, direction: Direction, arrays: Sequence[_Array], number: int) -> list[str]:
        copy = partial(to.copy, direction, stream=self._stream(number), is_blocking=self._is_blocking)
        copies = [line for array in arrays for line in copy(f"d_{array.name}", f"h_{array.name}")]
        return to.within(self._stream(number), copies)

    def _once_in(self, to: StepWriter) -> list[str]:
        """Return the copies of the tables in the first stream, and the waits of the other streams."""
        if not self._arrays.tables:
            return []
        lines = self._copies_once(to, "h2d", self._arrays.tables, 0)
        if self._others:
            lines += to.when(["streams > 1"], [to.say("record", event="loaded_once", stream="stream[0]")])
            lines += to.loop("k", self._others, [to.say("wait", event="loaded_once", stream="stream[k]")], first="1")
        return lines

    def _once_out(self, to: StepWriter) -> list[str]:
        """Return the waits of the first stream for the others, and the copies of arrays that go back once."""
        if not self._arrays.once:
            return []
        first, *others = self._loop.ends or (0,)

        def joined(event: str, other: str) -> list[str]:
            wait = to.say("wait", event=event, stream=self._stream(first))
            return [to.say("record", event=event, stream=other), wait]

        lines = to.loop("k", self._others, joined("ended[k]", "stream[k]"), first="1") if self._others else []
        lines += [line for other in others for line in joined("ended", self._stream(other))]
        return [*lines, *self._copies_once(to, "d2h", self._arrays.once, first)]
