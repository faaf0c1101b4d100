"""The loops of :mod:`streamsim.program.patterns` as plans of programs, for any number of chunks.

The tests compare each program with the schedule of its pattern, op for op.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from streamsim.code.plans import FLOAT_BYTES, ONCE, Array, ChunkKernels, Cut, KernelCall, Plan
from streamsim.code.steps import StepWriter
from streamsim.errors import InputError
from streamsim.program import (
    ALIGN_BYTES,
    PREFETCH_BUFFERS,
    STAGES,
    Config,
    Direction,
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


def _words(kernel: WorkloadKernel, launches: int) -> str:
    words = f"{launches} launches of {kernel.name}" if launches > 1 else kernel.name
    shown = "".join(c for c in words if c.isprintable())[:40]
    return shown if kernel.duration_s is None else f"{shown}: {format_seconds(kernel.duration_s)} in all"


class LoopPlan(Plan):
    """The program of a workload, cut and issued as a configuration says.

    Raises InputError for a workload that no such program can run, also for bytes that are not whole floats.
    """

    def __init__(self, workload: Workload, config: Config) -> None:
        config.check(workload)  # the errors of predict are errors here, too
        self._take_arrays(workload, config)
        if config.chunks > self.most_chunks:
            raise InputError(
                f"chunks = {config.chunks}: an array has pieces for {self.most_chunks} chunks only, and in a program"
                " each chunk has a piece of every array; use fewer, or --h2d-once, --d2h-once for a small array"
            )
        self.title, self.is_graph = config.pattern, config.launch == "graph"
        self.defaults = {"chunks": config.chunks}
        if not config.issued.own_streams:
            self.defaults["streams"] = config.streams
        if config.slots is not None:
            self.defaults["buffers"] = config.buffers or PREFETCH_BUFFERS
        self.streams, self.has_host_work = config.issued.own_streams, workload.has_host_work
        self.kernels = self._chunk_kernels(workload, config.chunks) if workload.kernels else None
        if all(kernel.is_timed for kernel in workload.kernels):
            self.kernels_s = sum(kernel.whole_s(workload.work) for kernel in workload.kernels)
        each = [repr(workload.host_work_s)] if workload.host_work_s else []
        share = [f"{workload.host_load_s!r} / chunks"] if workload.host_load_s else []
        self._work = " + ".join([*each, *share])  # of the host, before it issues a chunk: seconds
        self._loop, self._is_blocking = config.loop(workload), config.issued.is_blocking
        self._others = "" if self._is_blocking or self._loop.roles else "streams"  # over which chunks take turns
        recorded = {step.event for step in self._loop.steps if step.does == "record"}
        self.events = {name: "chunks" for name in self._loop.events if name in recorded}
        if self._tables and self._others:
            self.events["loaded_once"] = ""
        if self._once and (self._others or self._loop.ends):
            self.events["ended"] = self._others

    def _take_arrays(self, workload: Workload, config: Config) -> None:
        """Take the arrays of a workload, and how each is cut."""
        unit = 0 if workload.elements else ALIGN_BYTES // FLOAT_BYTES
        self._inputs = _named("x", "h2d", workload.inputs, workload.elements or 1, unit)
        self._outputs = _named("y", "d2h", workload.outputs, workload.elements or 1, unit)
        self._tables = _named("w", "h2d_once", workload.h2d_once, 1, 1)
        self._once = _named(ONCE, "d2h_once", workload.d2h_once, 1, ALIGN_BYTES // FLOAT_BYTES)
        self._targets = [*self._outputs, *self._once] or self._inputs[-1:]
        if workload.kernels and not self._targets:
            raise InputError("kernels: the program needs an array that they work on; give --h2d or --d2h")
        resident = [self._targets[0]._replace(name="x")] if workload.kernels and not self._inputs else []
        self._sources = self._inputs or resident
        self._in_rings = [] if config.slots is None else [*self._inputs, *self._outputs]
        whole = [*self._inputs, *self._outputs, *resident]
        cut = [*whole, *(self._once if workload.kernels else ())]
        self.most_chunks = min((-(-a.floats // a.unit) for a in (cut if resident else whole)), default=1)
        self._has_one_cut = len({array[1:] for array in cut}) == 1
        coming, going = [*self._inputs, *self._tables], [*self._outputs, *self._once]
        arrays = [*coming, *going, *resident]
        has_one_size = len({array.floats for array in arrays}) == 1
        size_of = {a.name: "SIZE" if has_one_size else f"SIZE_{a.name.upper()}" for a in arrays}
        self.sizes = {size_of[array.name]: array.floats for array in arrays}
        self.cuts = tuple(Cut(self._part(a), size_of[a.name], a.unit) for a in (cut[:1] if self._has_one_cut else cut))
        place = config.memory
        on_card = [
            Array(f"d_{a.name}", "device", f"{self._part(a)}[0].stop", "nothing", is_ring=True)
            if a in self._in_rings
            else Array(f"d_{a.name}", "device", size_of[a.name], "nothing")
            for a in (*coming, *going)
        ]
        self.memory = (
            *(Array(f"h_{a.name}", place, size_of[a.name], "random") for a in coming),
            *(Array(f"h_{a.name}", place, size_of[a.name], "nothing") for a in going),
            *on_card,
            *(Array(f"d_{a.name}", "device", size_of[a.name], "resident") for a in resident),
        )
        self.results = tuple(f"h_{a.name}" for a in going) or tuple(f"d_{a.name}" for a in coming)

    def _part(self, array: _Array, name: str = "part") -> str:
        """Return the name of the array's chunks, or of their heads of buffers."""
        return name if self._has_one_cut else f"{name}_{array.name}"

    def _on_host(self, array: _Array, chunk: str) -> str:
        return f"h_{array.name}[{self._part(array)}[{chunk}]]"

    def _on_card(self, array: _Array, chunk: str) -> str:
        """Return a chunk of an array on the card; of a table, the whole."""
        if array in self._tables:
            return f"d_{array.name}"
        if array in self._in_rings:
            return f"d_{array.name}[{chunk} % buffers][{self._part(array, 'head')}[{chunk}]]"
        return f"d_{array.name}[{self._part(array)}[{chunk}]]"

    def _chunk_kernels(self, workload: Workload, chunks: int) -> ChunkKernels:
        launches = list(zip(workload.kernels, workload.launches_in(chunks), strict=True))
        each_s = [kernel.whole_s(workload.work) / many if kernel.is_timed else 0.0 for kernel, many in launches]
        calls = tuple(
            KernelCall(many, _words(kernel, many), one_s / max(each_s) if all(each_s) else 1.0)
            for (kernel, many), one_s in zip(launches, each_s, strict=True)
        )
        some = self._sources, self._tables, self._targets
        sources, tables, targets = (tuple(array.name for array in arrays) for arrays in some)
        is_even = len({array[1:] for array in (*self._sources, *self._targets)}) == 1
        return ChunkKernels(calls, sources, tables, targets, is_even)

    def kernels_alone(self, to: StepWriter) -> list[str]:
        return to.within("pool[0]", to.loop("i", "chunks", self._stage(to, "run", "pool[0]", "i")))

    def steps(self, to: StepWriter) -> list[str]:
        """Return all calls, in order."""
        used = {step.stream for step in self._loop.steps if step.does != "prepare"}
        used |= {0, *self._loop.ends[: bool(self._once)]}
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
        for number, some in groupby(steps, lambda step: step.stream if step.does in STAGES else None):
            if number is None:
                lines += [line for step in some for line in self._call(to, step, chunk)]
                continue
            stream = self._stream(number)
            lines += to.within(stream, [line for step in some for line in self._stage(to, step.does, stream, chunk)])
        return lines

    def _call(self, to: StepWriter, step: patterns.Step, chunk: str) -> list[str]:
        """Return the call of a step that is no copy and no kernel; it may be under a condition, or none."""
        if step.does == "prepare":
            return [to.say("host work", seconds=self._work)] if self._work else []
        stream, distance = self._stream(step.stream), step.distance
        conditions = ["hands_over"] if step.between_streams else []
        if step.does == "wait":
            earlier = f"{chunk} - {distance}" if distance else chunk
            conditions += [f"{chunk} >= {distance}"] if distance else []
            return to.when(conditions, [to.say("wait", event=f"{step.event}[{earlier}]", stream=stream)])
        conditions += [f"{chunk} + {distance} < chunks"] if distance else []
        return to.when(conditions, [to.say("record", event=f"{step.event}[{chunk}]", stream=stream)])

    def _stage(self, to: StepWriter, stage: str, stream: str, chunk: str) -> list[str]:
        """Return the calls of a stage of a chunk."""
        if stage == "run":
            pieces = dict.fromkeys(self._on_card(a, chunk) for a in (*self._sources, *self._tables, *self._targets))
            return [to.say("kernels", pieces=", ".join(pieces), stream=stream)]
        direction: Direction = "h2d" if stage == "copy in" else "d2h"
        copied = self._inputs if stage == "copy in" else self._outputs
        pairs = [(self._on_card(array, chunk), self._on_host(array, chunk)) for array in copied]
        return [line for pair in pairs for line in to.copy(direction, *pair, stream, self._is_blocking)]

    def _copies_once(self, to: StepWriter, direction: Direction, arrays: Sequence[_Array], number: int) -> list[str]:
        copy = partial(to.copy, direction, stream=self._stream(number), is_blocking=self._is_blocking)
        copies = [line for array in arrays for line in copy(f"d_{array.name}", f"h_{array.name}")]
        return to.within(self._stream(number), copies)

    def _once_in(self, to: StepWriter) -> list[str]:
        """Return the copies of the tables in the first stream, and the waits of the other streams."""
        if not self._tables:
            return []
        lines = self._copies_once(to, "h2d", self._tables, 0)
        if self._others:
            lines += to.when(["streams > 1"], [to.say("record", event="loaded_once", stream="stream[0]")])
            lines += to.loop("k", self._others, [to.say("wait", event="loaded_once", stream="stream[k]")], first="1")
        return lines

    def _once_out(self, to: StepWriter) -> list[str]:
        """Return the waits of the first stream for the others, and the copies of arrays that go back once."""
        if not self._once:
            return []
        first, *others = self._loop.ends or (0,)

        def joined(event: str, other: str) -> list[str]:
            wait = to.say("wait", event=event, stream=self._stream(first))
            return [to.say("record", event=event, stream=other), wait]

        lines = to.loop("k", self._others, joined("ended[k]", "stream[k]"), first="1") if self._others else []
        lines += [line for other in others for line in joined("ended", self._stream(other))]
        return [*lines, *self._copies_once(to, "d2h", self._once, first)]
