"""Schedules without a pattern as plans: their ops one by one, with their own buffers, streams and events."""

import re
from itertools import groupby
from typing import Any, NamedTuple

from streamsim import program
from streamsim.code.plans import FLOAT_BYTES, Array, ChunkKernels, KernelCall, Plan
from streamsim.code.steps import StepWriter
from streamsim.errors import InputError

MOST_OPS = 2000  # a longer program cannot be read any more
LONGEST_NAME = 24
LAUNCHES_TIMED = 10  # launches in a row of the kernel that sets the stand-in's rounds
SCRATCH, SCRATCH_FLOATS = "d_scratch", 1 << 16  # memory of kernels that name none
OWN = {  # memory of copies that name none, on the host and on the card; it has as many floats as they copy
    "h2d": (Array("h_own_in", "pinned", "0", "random"), Array("d_own_in", "device", "0", "nothing")),
    "d2h": (Array("h_own_out", "pinned", "0", "blank"), Array("d_own_out", "device", "0", "nothing")),
}
OWN_NAMES = (SCRATCH, *(array.name for arrays in OWN.values() for array in arrays))
KERNELS = ChunkKernels((KernelCall(1, "one launch"),), ("x",), (), ("y",), is_even=True)


class _Piece(NamedTuple):
    """Floats of an array, from ``first`` on."""

    name: str
    first: int
    floats: int


class SchedulePlan(Plan):
    """The program that makes the calls of ``schedule`` one by one. Raises InputError naming an op that none can."""

    kernels_words = f"the longest launch for its floats, {LAUNCHES_TIMED} times"

    def __init__(self, schedule: program.Schedule) -> None:
        self.schedule, self.ops = schedule, _written_ops(schedule)
        self.is_graph, self.defaults, self.sizes = schedule.launch == "graph", {}, {}
        self.title = re.sub(r"[^A-Za-z0-9 .,=_-]+", " ", schedule.name).strip()[:40] or "a schedule"
        self.has_host_work = any(isinstance(op, program.HostWork) for op in self.ops)
        self.kernels = KERNELS if any(isinstance(op, program.Kernel) for op in self.ops) else None
        self.events = {"event": str(schedule.events)} if schedule.events else {}
        self._has_legacy = any(op.stream == program.LEGACY_STREAM for op in schedule.ops)
        self.streams = len(schedule.streams) + self._has_legacy
        self.kinds = ("legacy",) * self._has_legacy + tuple(schedule.streams)
        self._memory: dict[str, Array] = {}
        written: dict[str, None] = {}  # host buffers that copies write, by first use
        computed: dict[str, None] = {}  # device buffers that something writes
        self._own = dict.fromkeys(OWN, 0)  # floats of each direction so far
        self._names = self._buffers()
        # Of a copy, card and host; of a kernel, both.
        self._pieces = [self._checked(i, op, written, computed) for i, op in enumerate(self.ops)]
        self.memory, self.results = tuple(self._memory.values()), tuple(written or computed)
        self._paces = {  # seconds for a float
            i: (op.duration_s or 0.0) / self._pieces[i][1].floats
            for i, op in enumerate(self.ops)
            if isinstance(op, program.Kernel)
        }
        self._longest = max(self._paces, key=self._paces.__getitem__, default=-1)  # the launch with most rounds
        if self._paces and all(self._paces.values()):
            longest = self.ops[self._longest]
            assert isinstance(longest, program.Kernel)
            self.kernels_s = LAUNCHES_TIMED * (longest.duration_s or 0.0)

    def _buffers(self) -> dict[str, str]:
        """Return the names of the buffers in the program, and declare their memory."""
        sent = {op.host.buffer for op in self.ops if isinstance(op, program.Copy) and op.direction == "h2d" and op.host}
        names: dict[str, str] = {}
        for k, buffer in enumerate(self.schedule.buffers):
            prefix = "d_" if buffer.memory == "device" else "h_"
            name = re.sub(r"[^a-z0-9]+", "_", buffer.name.lower()).strip("_").removeprefix(prefix)[:LONGEST_NAME]
            name = prefix + (name or "buffer")
            if name in self._memory or name in OWN_NAMES:
                name += f"_{k}"
            start: Any = "nothing" if buffer.memory == "device" else "random" if buffer.name in sent else "blank"
            names[buffer.name] = name
            floats = _floats(f"buffers[{k}].bytes", buffer.bytes)
            self._memory[name] = Array(name, buffer.memory, str(floats), start)
        return names

    def _checked(
        self, i: int, op: program.Op, written: dict[str, None], computed: dict[str, None]
    ) -> tuple[_Piece, ...]:
        """Return the pieces of a copy or a kernel, and note the buffers that it writes."""
        if op.thread:
            raise InputError(f"ops[{i}].thread = {op.thread}: a program is for one host thread; give 0")
        if isinstance(op, program.WaitThread):
            raise InputError(f"ops[{i}]: waits of one host thread for another are not written; take it out")
        if isinstance(op, program.Copy):
            host, card = self._copied(i, op)
            if op.direction == "d2h":
                written[host.name] = None
            else:
                computed[card.name] = None
            return card, host
        return self._launched(i, op, computed) if isinstance(op, program.Kernel) else ()

    def _piece(self, where: str, region: program.Region) -> _Piece:
        first, floats = (_floats(f"{where}.{field}", getattr(region, field)) for field in ("offset", "bytes"))
        return _Piece(self._names[region.buffer], first, floats)

    def _copied(self, i: int, op: program.Copy) -> list[_Piece]:
        """Return the copied floats on the host and on the card. Copies that name no memory have their own."""
        floats, first, pieces = _floats(f"ops[{i}].bytes", op.bytes), self._own[op.direction], []
        for side, region, own in zip(("host", "device"), (op.host, op.device), OWN[op.direction], strict=True):
            if region is not None:
                pieces.append(self._piece(f"ops[{i}].{side}", region))
                continue
            self._own[op.direction] = first + floats
            self._memory[own.name] = own._replace(size=str(first + floats))
            pieces.append(_Piece(own.name, first, floats))
        return pieces

    def _launched(self, i: int, op: program.Kernel, computed: dict[str, None]) -> tuple[_Piece, ...]:
        """Return the first region that a kernel reads and the first that it writes, both as long as the shorter."""
        scratch = _Piece(SCRATCH, 0, SCRATCH_FLOATS)
        to = self._piece(f"ops[{i}].writes[0]", op.writes[0]) if op.writes else scratch
        source = self._piece(f"ops[{i}].reads[0]", op.reads[0]) if op.reads else to
        if scratch in (to, source):
            self._memory[SCRATCH] = Array(SCRATCH, "device", str(SCRATCH_FLOATS), "nothing")
        if op.writes:
            computed[to.name] = None
        floats = min(source.floats, to.floats)
        return source._replace(floats=floats), to._replace(floats=floats)

    def steps(self, to: StepWriter) -> list[str]:
        """Return all calls, in order."""
        lines: list[str] = []

        def stream_of(pair: tuple[int, program.Op]) -> int | None:
            return pair[1].stream if isinstance(pair[1], program.Copy | program.Kernel) else None

        for number, some in groupby(enumerate(self.ops), stream_of):
            if number is None:
                lines += [self._call(to, op) for i, op in some if not self._is_needless(i, op)]
            else:
                stream = self._stream(number)
                lines += to.within(stream, [line for i, op in some for line in self._work(to, i, op, stream)])
        return lines

    def _is_needless(self, i: int, op: program.Op) -> bool:
        """Return whether an op is a wait in a graph for an event without a record, which CUDA refuses to capture."""
        if not isinstance(op, program.WaitEvent) or self.schedule.launch == "live":
            return False
        return not any(isinstance(one, program.RecordEvent) and one.event == op.event for one in self.ops[:i])

    def _work(self, to: StepWriter, i: int, op: program.Op, stream: str) -> list[str]:
        """Return a copy or a kernel."""
        one, other = (self._text(to, piece) for piece in self._pieces[i])
        if isinstance(op, program.Copy):
            return to.copy(op.direction, one, other, stream, op.blocking)
        weight = self._paces[i] / self._paces[self._longest] if self.kernels_s else 1.0
        return [self._launch(to, i, stream, weight)]

    def _launch(self, to: StepWriter, i: int, stream: str, weight: float) -> str:
        source, target = (self._text(to, piece) for piece in self._pieces[i])
        return to.say("launch", source=source, target=target, rounds=to.rounds(weight), stream=stream)

    def _text(self, to: StepWriter, piece: _Piece) -> str:
        name, first, floats = piece
        is_whole = str(floats) == self._memory[name].size
        return name if is_whole else to.say("part", name=name, start=first, stop=first + floats)

    def _stream(self, number: int) -> str:
        return f"stream[{number if self._has_legacy else number - 1}]"

    def _call(self, to: StepWriter, op: program.Op) -> str:
        """Return an op that is no copy and no kernel."""
        match op:
            case program.HostWork(duration_s=seconds):
                return to.say("host work", seconds=repr(seconds))
            case program.RecordEvent(event=event, stream=stream):
                return to.say("record", event=f"event[{event}]", stream=self._stream(stream))
            case program.WaitEvent(event=event, stream=stream):
                return to.say("wait", event=f"event[{event}]", stream=self._stream(stream))
            case program.Synchronize(stream=int(stream)):
                return to.say("synchronise stream", name=self._stream(stream))
            case program.Synchronize(event=int(event)):
                return to.say("synchronise event", name=f"event[{event}]")
        return to.say("synchronise")

    def kernels_alone(self, to: StepWriter) -> list[str]:
        launch = self._launch(to, self._longest, "pool[0]", 1.0)
        return to.within("pool[0]", to.loop("_", str(LAUNCHES_TIMED), [launch]))


def _floats(where: str, n_bytes: int) -> int:
    if n_bytes % FLOAT_BYTES:
        raise InputError(f"{where} = {n_bytes}: the arrays of a program hold floats; give a multiple of {FLOAT_BYTES}")
    return n_bytes // FLOAT_BYTES


def _written_ops(schedule: program.Schedule) -> list[program.Op]:
    """Return the ops but for the last synchronisations: the program waits for the card at its end."""
    ops = list(schedule.ops)
    is_graph, whole_card = schedule.launch == "graph", program.Synchronize()
    while ops and (ops[-1] == whole_card or (is_graph and isinstance(ops[-1], program.Synchronize))):
        ops.pop()
    if len(ops) > MOST_OPS:
        raise InputError(
            f"ops: {len(ops)} calls written out are no program to read (at most {MOST_OPS}); give the options of"
            " predict in place of a schedule, and its loop is written; with --layers, fewer --passes"
        )
    if not any(isinstance(op, program.Copy | program.Kernel) for op in ops):
        raise InputError("ops: nothing is copied or run; a program needs a copy or a kernel")
    return ops
