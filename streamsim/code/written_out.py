"""Schedules without a pattern as plans: their ops one by one, with their own buffers, streams and events."""

import re
from typing import Any

from streamsim.code import plans
from streamsim.code.plans import FLOAT_BYTES
from streamsim.errors import InputError
from streamsim.program import (
    LEGACY_STREAM,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
)

MOST_OPS = 2000  # a longer program cannot be read any more
LONGEST_NAME = 24
LAUNCHES_TIMED = 10  # launches in a row of the kernel that sets the stand-in's rounds
SCRATCH, SCRATCH_FLOATS = "d_scratch", 1 << 16  # memory of kernels that name none
OWN = {"h2d": ("h_own_in", "d_own_in"), "d2h": ("h_own_out", "d_own_out")}  # memory of copies that name none


class _Written:
    """The plan of a schedule while it is written. Raises InputError naming an op that cannot be written."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.memory: dict[str, plans.Array] = {}
        self._own = dict.fromkeys(OWN, 0)  # floats of each direction so far
        self._names = self._buffers()
        self.has_legacy = any(op.stream == LEGACY_STREAM for op in schedule.ops)
        kinds = (["legacy"] if self.has_legacy else []) + list(schedule.streams)
        self.kinds = tuple(kinds)
        self.steps: list[plans.Step] = []
        self._body: list[plans.Step] = []
        self._stream = ""
        self._recorded: set[int] = set()  # events so far
        self.written: dict[str, None] = {}  # host buffers that copies write, by first use
        self.computed: dict[str, None] = {}  # device buffers that something writes
        self._longest: tuple[plans.LaunchStep | None, float] = (
            None,
            0.0,
        )  # the launch with most seconds a float, and its seconds

    def _buffers(self) -> dict[str, str]:
        """Return the names of the buffers in the program, and declare their memory."""
        sent = {
            op.host.buffer for op in self.schedule.ops if isinstance(op, Copy) and op.direction == "h2d" and op.host
        }
        names: dict[str, str] = {}
        for k, buffer in enumerate(self.schedule.buffers):
            prefix = "d_" if buffer.memory == "device" else "h_"
            name = re.sub(r"[^a-z0-9]+", "_", buffer.name.lower()).strip("_").removeprefix(prefix)[:LONGEST_NAME]
            name = prefix + (name or "buffer")
            if name in self.memory or name in (SCRATCH, *sum(OWN.values(), ())):
                name += f"_{k}"
            if buffer.bytes % FLOAT_BYTES:
                raise _no_floats(f"buffers[{k}].bytes", buffer.bytes)
            start: Any = "nothing" if buffer.memory == "device" else "random" if buffer.name in sent else "blank"
            names[buffer.name] = name
            self.memory[name] = plans.Array(name, buffer.memory, buffer.bytes // FLOAT_BYTES, start)
        return names

    def piece(self, where: str, region: Region) -> plans.Piece:
        """Return the floats of a region."""
        for field in ("offset", "bytes"):
            if getattr(region, field) % FLOAT_BYTES:
                raise _no_floats(f"{where}.{field}", getattr(region, field))
        name, first, floats = self._names[region.buffer], region.offset // FLOAT_BYTES, region.bytes // FLOAT_BYTES
        return (
            plans.Piece(name) if floats == self.memory[name].floats else plans.Piece(name, first=first, floats=floats)
        )

    def floats(self, piece: plans.Piece) -> int:
        return piece.floats or self.memory[piece.name].floats

    def stream(self, number: int) -> str:
        return f"stream[{number if self.has_legacy else number - 1}]"

    def add(self, i: int, op: Op) -> None:
        """Write the next op."""
        if op.card or op.thread:
            raise InputError(f"ops[{i}]: a program is for one card and one host thread; give card and thread 0")
        if isinstance(op, WaitThread):
            raise InputError(f"ops[{i}]: waits of one host thread for another are not written; take it out")
        if isinstance(op, Copy | Kernel):
            stream = self.stream(op.stream)
            if stream != self._stream:
                self.close()
                self._stream = stream
            self._body.append(self._copy(i, op) if isinstance(op, Copy) else self._kernel(i, op))
            return
        self.close()
        if isinstance(op, HostWork):
            self.steps.append(plans.WorkStep(repr(op.duration_s)))
        elif isinstance(op, RecordEvent):
            self._recorded.add(op.event)
            self.steps.append(plans.RecordStep(f"event[{op.event}]", self.stream(op.stream)))
        elif isinstance(op, WaitEvent):
            if self.schedule.launch == "graph" and op.event not in self._recorded:
                return  # it waits for nothing, and CUDA refuses it in a graph
            self.steps.append(plans.WaitStep(f"event[{op.event}]", self.stream(op.stream)))
        else:
            stream = "" if op.stream is None else self.stream(op.stream)
            self.steps.append(plans.SynchroniseStep(stream, "" if op.event is None else f"event[{op.event}]"))

    def close(self) -> None:
        """End the block of calls in one stream."""
        if self._body:
            self.steps.append(plans.WithinStep(self._stream, tuple(self._body)))
        self._body, self._stream = [], ""

    def _copy(self, i: int, op: Copy) -> plans.CopyStep:
        if op.bytes % FLOAT_BYTES:
            raise _no_floats(f"ops[{i}].bytes", op.bytes)
        first, floats = self._own[op.direction], op.bytes // FLOAT_BYTES
        sides = []
        for region, side, name in zip((op.host, op.device), ("host", "device"), OWN[op.direction], strict=True):
            if region is not None:
                sides.append(self.piece(f"ops[{i}].{side}", region))
                continue
            start: Any = "nothing" if side == "device" else "random" if op.direction == "h2d" else "blank"
            self._own[op.direction] = first + floats
            self.memory[name] = plans.Array(name, "device" if side == "device" else "pinned", first + floats, start)
            sides.append(plans.Piece(name, first=first, floats=floats))
        host, card = sides
        (self.written if op.direction == "d2h" else self.computed)[(host if op.direction == "d2h" else card).name] = (
            None
        )
        return plans.CopyStep(op.direction, card, host, op.blocking)

    def _kernel(self, i: int, op: Kernel) -> plans.LaunchStep:
        """Return a launch from the kernel's first read region to its first written one, as long as the shorter."""
        to = self.piece(f"ops[{i}].writes[0]", op.writes[0]) if op.writes else plans.Piece(SCRATCH)
        source = self.piece(f"ops[{i}].reads[0]", op.reads[0]) if op.reads else to
        if SCRATCH in (to.name, source.name):
            self.memory[SCRATCH] = plans.Array(SCRATCH, "device", SCRATCH_FLOATS, "nothing")
        if op.writes:
            self.computed[to.name] = None
        floats = min(self.floats(source), self.floats(to))
        seconds = op.duration_s or 0.0
        launch = plans.LaunchStep(self._cut(source, floats), self._cut(to, floats), seconds / floats)
        longest = self._longest[0]
        if longest is None or launch.weight > longest.weight:
            self._longest = launch, seconds
        return launch

    def weigh(self) -> plans.TimedKernels | None:
        """Turn each launch's seconds a float into its weight; return the launch that sets the rounds."""
        launch, seconds = self._longest
        is_timed = all(op.duration_s for op in self.schedule.ops if isinstance(op, Kernel))
        self.steps = [_weighed(step, launch.weight if is_timed and launch else 0.0) for step in self.steps]
        if launch is None or not is_timed:
            return None
        again = plans.LoopStep("_", "0", str(LAUNCHES_TIMED), (launch._replace(weight=1.0),))
        what = f"the longest launch for its floats, {LAUNCHES_TIMED} times"
        return plans.TimedKernels((plans.WithinStep("pool[0]", (again,)),), LAUNCHES_TIMED * seconds, what)

    def _cut(self, piece: plans.Piece, floats: int) -> plans.Piece:
        return piece if self.floats(piece) == floats else piece._replace(floats=floats)


def _weighed(step: plans.Step, most: float) -> plans.Step:
    """Return a step whose launches have their weights as shares of ``most`` (0: all are equal)."""
    if isinstance(step, plans.WithinStep):
        return plans.WithinStep(step.stream, tuple(_weighed(call, most) for call in step.body))
    return step._replace(weight=step.weight / most if most else 1.0) if isinstance(step, plans.LaunchStep) else step


def _no_floats(where: str, value: int) -> InputError:
    return InputError(f"{where} = {value}: the arrays of a program hold floats; give a multiple of {FLOAT_BYTES}")


def plan_of_schedule(schedule: Schedule) -> plans.CodePlan:
    """Return the plan of a program with the calls of ``schedule`` one by one. Raises InputError if none can."""
    ops = list(schedule.ops)
    while ops and isinstance(ops[-1], Synchronize) and (schedule.launch == "graph" or ops[-1] == Synchronize()):
        ops.pop()  # the program waits for the card at its end
    if len(ops) > MOST_OPS:
        raise InputError(
            f"ops: {len(ops)} calls written out are no program to read (at most {MOST_OPS}); give the options of"
            " predict in place of a schedule, and its loop is written"
        )
    if not any(isinstance(op, Copy | Kernel) for op in ops):
        raise InputError("ops: nothing is copied or run; a program needs a copy or a kernel")
    written = _Written(schedule)
    for i, op in enumerate(ops):
        written.add(i, op)
    written.close()
    timed_kernels = written.weigh()
    has_kernels = any(isinstance(op, Kernel) for op in ops)
    title = re.sub(r"[^A-Za-z0-9 .,=_-]+", " ", schedule.name).strip()[:40]
    return plans.CodePlan(
        title=title or "a schedule",
        is_graph=schedule.launch == "graph",
        defaults={},
        memory=tuple(written.memory.values()),
        cuts=(),
        kernels=plans.ChunkKernels((plans.KernelCall(1, "one launch"),), ("x",), (), ("y",), True)
        if has_kernels
        else None,
        events=(plans.Events("event", str(schedule.events)),) if schedule.events else (),
        issue=tuple(written.steps),
        results=tuple(written.written or written.computed),
        streams=len(written.kinds),
        kinds=written.kinds,
        has_host_work=any(isinstance(op, HostWork) for op in ops),
        timed_kernels=timed_kernels,
    )
