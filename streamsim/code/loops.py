"""The loops of :mod:`streamsim.program.loops` as plans of programs, for any number of chunks.

The tests compare each program with the schedule of its pattern, op for op.
"""

from collections.abc import Sequence
from typing import NamedTuple

from streamsim.code import plans
from streamsim.code.plans import FLOAT_BYTES, ONCE
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
    loops,
)
from streamsim.text import format_seconds

OF_CHUNK = "stream[i % streams]"


class _Array(NamedTuple):
    """An array of the workload: its name, its floats, and the floats of a unit that is never cut."""

    name: str
    floats: int
    unit: int

    @property
    def key(self) -> tuple[int, int]:
        """A key that is equal for arrays with the same chunks."""
        return self.floats, self.unit


class _Arrays:
    """The arrays of a workload, and how each is cut. Raises InputError for bytes that are not whole floats."""

    def __init__(self, workload: Workload, config: Config) -> None:
        unit = 0 if workload.elements else ALIGN_BYTES // FLOAT_BYTES
        self.inputs = _named("x", "h2d", workload.inputs, workload.elements or 1, unit)
        self.outputs = _named("y", "d2h", workload.outputs, workload.elements or 1, unit)
        self.tables = _named("w", "h2d_once", workload.h2d_once, 1, 1)
        self.once = _named(ONCE, "d2h_once", workload.d2h_once, 1, ALIGN_BYTES // FLOAT_BYTES)
        self.resident: list[_Array] = []
        targets = [*self.outputs, *self.once] or self.inputs
        if workload.kernels and not targets:
            raise InputError("kernels: the program needs an array that they work on; give --h2d or --d2h")
        if workload.kernels and not self.inputs:
            self.resident = [_Array("x", *targets[0].key)]
        self.is_pageable, self.slots = config.is_pageable, config.slots
        self.cut = [*self.inputs, *self.outputs, *self.resident, *(self.once if workload.kernels else ())]
        keys = list(dict.fromkeys(array.key for array in self.cut))
        self._names = {
            key: "part" if len(keys) == 1 else f"part_{next(a.name for a in self.cut if a.key == key)}" for key in keys
        }
        self.cuts = tuple(plans.Cut(name, *key) for key, name in self._names.items())
        whole = [array for array in self.cut if array not in self.once or self.resident]
        self.most_chunks = min((-(-array.floats // array.unit) for array in whole), default=1)

    def part(self, array: _Array) -> str:
        return self._names[array.key]

    def is_sliced(self, array: _Array) -> bool:
        """Return whether the card holds only some chunks of the array."""
        return self.slots is not None and array in (*self.inputs, *self.outputs)

    def on_card(self, array: _Array, chunk: str) -> plans.Piece:
        """Return a chunk's piece of an array on the card; of a table, the whole."""
        if array in self.tables:
            return plans.Piece(f"d_{array.name}")
        return plans.Piece(f"d_{array.name}", self.part(array), self.is_sliced(array), chunk)

    def memory(self) -> tuple[plans.Array, ...]:
        place: HostMemory = "pageable" if self.is_pageable else "pinned"
        coming, going = [*self.inputs, *self.tables], [*self.outputs, *self.once]
        hosts = [
            plans.Array(f"h_{a.name}", place, a.floats, "random" if a in coming else "nothing") for a in coming + going
        ]
        cards = [
            plans.Array(f"d_{a.name}", "device", a.floats, "nothing", "buffers", self.part(a))
            if self.is_sliced(a)
            else plans.Array(f"d_{a.name}", "device", a.floats, "nothing")
            for a in coming + going
        ]
        return (*hosts, *cards, *(plans.Array(f"d_{a.name}", "device", a.floats, "resident") for a in self.resident))

    def worked_on(self) -> tuple[list[_Array], list[_Array], list[_Array]]:
        """Return the arrays that kernels read chunk by chunk, those that they read whole, and those that they write."""
        return self.inputs or self.resident, self.tables, [*self.outputs, *self.once] or self.inputs[-1:]

    def kernels(self, workload: Workload) -> plans.ChunkKernels:
        each_s = [kernel.launch_s(workload.work) if kernel.is_timed else 0.0 for kernel in workload.kernels]
        weights = [one_s / max(each_s) if all(each_s) else 1.0 for one_s in each_s]
        calls = tuple(
            plans.KernelCall(kernel.launches, _words(kernel), weight)
            for kernel, weight in zip(workload.kernels, weights, strict=True)
        )
        sources, tables, targets = self.worked_on()
        read, whole, written = (tuple(a.name for a in some) for some in (sources, tables, targets))
        return plans.ChunkKernels(calls, read, whole, written, len({a.key for a in (*sources, *targets)}) == 1)


def _named(letter: str, field: str, sizes: Sequence[int], elements: int, unit: int) -> list[_Array]:
    """Return the arrays of a field; ``unit``: floats that stay together (0: the floats of an element)."""
    for k, size in enumerate(sizes):
        if size % FLOAT_BYTES:
            what = "bytes" if unit else "bytes an element"
            raise InputError(
                f"{field}[{k}] = {size} {what}: the arrays of a program hold floats; give a multiple of {FLOAT_BYTES}"
            )
    names = [letter] if len(sizes) == 1 else [f"{letter}{k}" for k in range(len(sizes))]
    return [
        _Array(name, size // FLOAT_BYTES * elements, unit or size // FLOAT_BYTES)
        for name, size in zip(names, sizes, strict=True)
    ]


def _words(kernel: WorkloadKernel) -> str:
    words = f"{kernel.launches} launches of {kernel.name}" if kernel.launches > 1 else kernel.name
    shown = "".join(c for c in words if c.isprintable())[:40]
    return shown if kernel.duration_s is None else f"{shown}: {format_seconds(kernel.duration_s)} in all"


def plan_of(workload: Workload, config: Config) -> plans.CodePlan:
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
    results = [f"h_{a.name}" for a in (*arrays.outputs, *arrays.once)]
    loop = config.loop(workload)
    used = {
        0,
        *loop.ends[: bool(arrays.once)],
        *(step.stream for step in loop.steps if not isinstance(step, loops.Prepare)),
    }
    issued = _Issued(arrays, loop, config.is_blocking, _host_work(workload))
    return plans.CodePlan(
        title=config.pattern,
        is_graph=config.launch == "graph",
        defaults=defaults,
        memory=arrays.memory(),
        cuts=arrays.cuts,
        kernels=arrays.kernels(workload) if workload.kernels else None,
        events=issued.events(),
        issue=issued.steps(),
        results=tuple(results or [f"d_{a.name}" for a in (*arrays.inputs, *arrays.tables)]),
        most_chunks=arrays.most_chunks,
        streams=config.own_streams,
        has_host_work=workload.has_host_work,
        roles=tuple(role if number in used else "_" for number, role in enumerate(loop.roles)),
        timed_kernels=issued.timed_kernels(workload),
    )


def _host_work(workload: Workload) -> tuple[plans.WorkStep, ...]:
    """Return the host's work before it issues a chunk."""
    each = repr(workload.host_work_s) if workload.host_work_s else ""
    share = f"{workload.host_load_s!r} / chunks" if workload.host_load_s else ""
    seconds = " + ".join(filter(None, (each, share)))
    return (plans.WorkStep(seconds),) if seconds else ()


class _Issued:
    """The calls of a loop, as steps of a plan."""

    def __init__(self, arrays: _Arrays, loop: ChunkLoop, is_blocking: bool, work: tuple[plans.WorkStep, ...]) -> None:
        self._arrays, self._loop, self._is_blocking, self._work = arrays, loop, is_blocking, work

    def steps(self) -> tuple[plans.Step, ...]:
        """Return all calls, in order."""
        return (*self._once_in(), *map(self._pass, self._loop.passes), *self._once_out())

    def timed_kernels(self, workload: Workload) -> plans.TimedKernels | None:
        """Return the kernels of all chunks, one chunk after another; None if the time of a kernel is unknown."""
        if not workload.kernels or not all(kernel.is_timed for kernel in workload.kernels):
            return None
        turn = (plans.TurnStep("i"),) if self._arrays.slots is not None else ()
        chunks = plans.LoopStep("i", "0", "chunks", (*turn, *self._stage("run", "i")))
        seconds = sum(kernel.whole_s(workload.work) for kernel in workload.kernels)
        return plans.TimedKernels((plans.WithinStep("pool[0]", (chunks,)),), seconds, "the kernels of all chunks")

    def events(self) -> tuple[plans.Events, ...]:
        """Return the events that are recorded."""
        recorded = {step.event for step in self._loop.steps if isinstance(step, loops.Record)}
        found = [plans.Events(name, "chunks") for name in self._loop.events if name in recorded]
        if self._arrays.tables and self._others:
            found.append(plans.Events("loaded_once"))
        if self._arrays.once and (self._others or self._loop.ends):
            found.append(plans.Events("ended", self._others))
        return tuple(found)

    @property
    def _others(self) -> str:
        """The number of streams over which chunks take turns, as text; "" if there is only one or they have roles."""
        return "" if self._is_blocking or self._loop.roles else "streams"

    def _stream(self, number: int) -> str:
        if number == loops.TURN:
            return "stream[0]" if self._is_blocking else OF_CHUNK
        return self._loop.roles[number] if self._loop.roles else f"stream[{number}]"

    def _pass(self, bodies: loops.Pass) -> plans.LoopStep:
        """Return one pass over the chunks. Bodies that follow are for chunk k, behind chunk i."""
        now, behind = (
            [step for body in bodies if body.follows is follows for step in body.steps] for follows in (False, True)
        )
        if not behind:
            return plans.LoopStep("i", "0", "chunks", self._body(now, "i"))
        body = (
            plans.IfStep("i < chunks", self._body(now, "i")),
            plans.IfStep("k >= 0", self._body(behind, "k"), plans.Let("k", "i - ahead")),
        )
        return plans.LoopStep("i", "0", "chunks + ahead", body, plans.Let("ahead", "min(buffers - 1, 1)"))

    def _body(self, steps: Sequence[loops.Step], chunk: str) -> tuple[plans.Step, ...]:
        found: list[plans.Step] = []
        turns = [plans.TurnStep(chunk)] if self._arrays.slots is not None else []
        for step in steps:
            if isinstance(step, loops.Prepare):
                found += self._work
                continue
            found, turns = found + turns, []
            if isinstance(step, loops.Issue):
                stream, calls = self._stream(step.stream), self._stage(step.stage, chunk)
                latest = found[-1] if found else None
                if isinstance(latest, plans.WithinStep) and latest.stream == stream:
                    found[-1] = plans.WithinStep(stream, (*latest.body, *calls))
                else:
                    found.append(plans.WithinStep(stream, calls))
            elif isinstance(step, loops.Wait):
                found.append(self._wait(step, chunk))
            else:
                found.append(self._record(step, chunk))
        return tuple(found)

    def _wait(self, step: loops.Wait, chunk: str) -> plans.Step:
        stream = self._stream(step.stream)
        if step.before == 0:
            return plans.WaitStep(f"{step.event}[{chunk}]", stream)
        wait = plans.WaitStep(f"{step.event}[{chunk} - {step.before}]", stream)
        return plans.IfStep(_where(step, f"{chunk} >= {step.before}"), (wait,))

    def _record(self, step: loops.Record, chunk: str) -> plans.Step:
        record = plans.RecordStep(f"{step.event}[{chunk}]", self._stream(step.stream))
        if step.awaited is None:
            return record
        return plans.IfStep(_where(step, f"{chunk} + {step.awaited} < chunks"), (record,))

    def _stage(self, stage: loops.Stage, chunk: str) -> tuple[plans.Step, ...]:
        """Return the calls of a stage of a chunk."""
        arrays = self._arrays
        if stage == "copy in":
            return tuple(self._copy("h2d", array, chunk) for array in arrays.inputs)
        if stage == "copy out":
            return tuple(self._copy("d2h", array, chunk) for array in arrays.outputs)
        worked_on = dict.fromkeys(array for some in arrays.worked_on() for array in some)
        return (plans.RunStep(tuple(arrays.on_card(array, chunk) for array in worked_on)),)

    def _copy(self, direction: Direction, array: _Array, chunk: str) -> plans.CopyStep:
        host = plans.Piece(f"h_{array.name}", self._arrays.part(array), chunk=chunk)
        return plans.CopyStep(direction, self._arrays.on_card(array, chunk), host, self._is_blocking)

    def _copies_once(self, direction: Direction, arrays: Sequence[_Array], stream: int) -> plans.WithinStep:
        pieces = ((plans.Piece(f"d_{array.name}"), plans.Piece(f"h_{array.name}")) for array in arrays)
        copies = tuple(plans.CopyStep(direction, card, host, self._is_blocking) for card, host in pieces)
        return plans.WithinStep(self._stream(stream), copies)

    def _once_in(self) -> list[plans.Step]:
        """Return the copies of the tables in the first stream, and the waits of the other streams."""
        if not self._arrays.tables:
            return []
        steps: list[plans.Step] = [self._copies_once("h2d", self._arrays.tables, 0)]
        if self._others:
            steps.append(plans.IfStep("streams > 1", (plans.RecordStep("loaded_once", "stream[0]"),)))
            steps.append(plans.LoopStep("k", "1", self._others, (plans.WaitStep("loaded_once", "stream[k]"),)))
        return steps

    def _once_out(self) -> list[plans.Step]:
        """Return the waits of the first stream for the others, and the copies of arrays that go back once."""
        if not self._arrays.once:
            return []
        first, *others = self._loop.ends or (0,)
        steps: list[plans.Step] = []
        if self._others:
            waits = plans.RecordStep("ended[k]", "stream[k]"), plans.WaitStep("ended[k]", "stream[0]")
            steps.append(plans.LoopStep("k", "1", self._others, waits))
        for other in others:
            steps += [plans.RecordStep("ended", self._stream(other)), plans.WaitStep("ended", self._stream(first))]
        return [*steps, self._copies_once("d2h", self._arrays.once, first)]


def _where(step: loops.Record | loops.Wait, condition: str) -> str:
    return f"hands_over and {condition}" if step.between_streams else condition
