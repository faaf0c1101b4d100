"""The loops of the patterns: what :mod:`streamsim.program.patterns` unrolls into ops, for any number of chunks.

The tests hold each loop to the schedule of its pattern, op for op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamsim.code.steps import (
    FLOAT_BYTES,
    ONCE,
    Copy,
    Cut,
    Events,
    HostWork,
    If,
    KernelCall,
    Kernels,
    Let,
    Loop,
    Memory,
    Piece,
    Plan,
    Record,
    Run,
    Step,
    Turn,
    Wait,
    Within,
)
from streamsim.errors import InputError
from streamsim.program.config import PREFETCH_BUFFERS, ROLES
from streamsim.program.workload import ALIGN_BYTES
from streamsim.text.quantities import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.program.config import Config, HostMemory
    from streamsim.program.schedule import Direction
    from streamsim.program.workload import Workload, WorkloadKernel

OF_CHUNK = "stream[i % streams]"


class _Array(NamedTuple):
    """An array of the workload: its letter and number, its floats, the floats of a unit that stays whole."""

    name: str
    floats: int
    unit: int

    @property
    def key(self) -> tuple[int, int]:
        """Arrays of which this is the same have the same chunks."""
        return self.floats, self.unit


class _Arrays:
    """The arrays of a workload, and how each is cut. Raises InputError for what cannot be an array of floats."""

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
        self.cuts = tuple(Cut(name, *key) for key, name in self._names.items())
        whole = [array for array in self.cut if array not in self.once or self.resident]
        self.most_chunks = min((-(-array.floats // array.unit) for array in whole), default=1)

    def part(self, array: _Array) -> str:
        return self._names[array.key]

    def is_sliced(self, array: _Array) -> bool:
        """Whether the card has room for a few of its chunks only."""
        return self.slots is not None and array in (*self.inputs, *self.outputs)

    def on_card(self, array: _Array, chunk: str) -> Piece:
        """What a chunk has of it; of a table all."""
        if array in self.tables:
            return Piece(f"d_{array.name}")
        return Piece(f"d_{array.name}", self.part(array), self.is_sliced(array), chunk)

    def memory(self) -> tuple[Memory, ...]:
        place: HostMemory = "pageable" if self.is_pageable else "pinned"
        coming, going = [*self.inputs, *self.tables], [*self.outputs, *self.once]
        hosts = [Memory(f"h_{a.name}", place, a.floats, "random" if a in coming else "nothing") for a in coming + going]
        cards = [
            Memory(f"d_{a.name}", "device", a.floats, "nothing", "buffers", self.part(a))
            if self.is_sliced(a)
            else Memory(f"d_{a.name}", "device", a.floats, "nothing")
            for a in coming + going
        ]
        return (*hosts, *cards, *(Memory(f"d_{a.name}", "device", a.floats, "resident") for a in self.resident))

    def worked_on(self) -> tuple[list[_Array], list[_Array], list[_Array]]:
        """What kernels read of each chunk, what they read whole, and what they write."""
        return self.inputs or self.resident, self.tables, [*self.outputs, *self.once] or self.inputs[-1:]

    def kernels(self, workload: Workload) -> Kernels:
        calls = tuple(KernelCall(kernel.launches, _words(kernel)) for kernel in workload.kernels)
        sources, tables, targets = self.worked_on()
        read, whole, written = (tuple(a.name for a in some) for some in (sources, tables, targets))
        return Kernels(calls, read, whole, written, len({a.key for a in (*sources, *targets)}) == 1)


def _named(letter: str, field: str, sizes: Sequence[int], elements: int, unit: int) -> list[_Array]:
    """``unit``: floats that stay together; 0: those of an element."""
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


def plan_of(workload: Workload, config: Config) -> Plan:
    """The program of a workload in a pattern. Raises InputError for a workload that such a program cannot have."""
    config.check(workload)  # what is an error for predict is one here
    arrays = _Arrays(workload, config)
    if config.chunks > arrays.most_chunks:
        raise InputError(
            f"chunks = {config.chunks}: an array has pieces for {arrays.most_chunks} chunks only, and in a program each"
            " chunk has a piece of every array; use fewer, or --h2d-once, --d2h-once for a small array"
        )
    defaults = {"chunks": config.chunks}
    if not config.is_prefetch and not config.is_blocking:
        defaults["streams"] = config.streams
    if config.slots is not None:
        defaults["buffers"] = config.buffers or PREFETCH_BUFFERS
    results = [f"h_{a.name}" for a in (*arrays.outputs, *arrays.once)]
    steps = _prefetch if config.is_prefetch else _pattern
    issue, events = steps(arrays, config, bool(workload.kernels), _host_work(workload))
    return Plan(
        title="ring" if config.buffers is not None and not config.is_prefetch else config.order,
        is_graph=config.launch == "graph",
        defaults=defaults,
        memory=arrays.memory(),
        cuts=arrays.cuts,
        kernels=arrays.kernels(workload) if workload.kernels else None,
        events=events,
        issue=issue,
        results=tuple(results or [f"d_{a.name}" for a in (*arrays.inputs, *arrays.tables)]),
        most_chunks=arrays.most_chunks,
        streams=ROLES if config.is_prefetch else int(config.is_blocking),
        has_host_work=workload.has_host_work,
        roles=("load", "compute", "store" if results else "_") if config.is_prefetch else (),
    )


def _host_work(workload: Workload) -> tuple[HostWork, ...]:
    """What the host does before it issues a chunk."""
    share = f"{workload.host_load_s!r} / chunks" if workload.host_load_s else ""
    seconds = " + ".join(text for text in (repr(workload.host_work_s) * (workload.host_work_s > 0), share) if text)
    return (HostWork(seconds),) if seconds else ()


def _stages(
    arrays: _Arrays, is_blocking: bool, has_kernels: bool, loaded: str = "i", computed: str = "i"
) -> tuple[tuple[Step, ...], ...]:
    """What is copied in of the chunk ``loaded``, run on the one that is ``computed``, and copied back of that."""

    def copy(direction: Direction, array: _Array, chunk: str) -> Copy:
        host = Piece(f"h_{array.name}", arrays.part(array), chunk=chunk)
        return Copy(direction, arrays.on_card(array, chunk), host, is_blocking)

    worked_on = dict.fromkeys(array for some in arrays.worked_on() for array in some)
    return (
        tuple(copy("h2d", array, loaded) for array in arrays.inputs),
        (Run(tuple(arrays.on_card(array, computed) for array in worked_on)),) if has_kernels else (),
        tuple(copy("d2h", array, computed) for array in arrays.outputs),
    )


def _pattern(
    arrays: _Arrays, config: Config, has_kernels: bool, begin: tuple[HostWork, ...]
) -> tuple[tuple[Step, ...], tuple[Events, ...]]:
    stages = [stage for stage in _stages(arrays, config.is_blocking, has_kernels) if stage]
    steps, events = tuple(step for stage in stages for step in stage), []
    stream = "stream[0]" if config.is_blocking else OF_CHUNK
    if config.order == "breadth-first":
        body: list[Step] = [_chunks(*begin * (k == 0), Within(stream, stage)) for k, stage in enumerate(stages)]
    elif config.buffers is None:
        body = [_chunks(*begin, Within(stream, steps))]
    else:
        events = [Events("done", "chunks")]
        body = [
            _chunks(
                *begin,
                Turn("i"),
                If("hands_over and i >= buffers", (Wait("done[i - buffers]", stream),)),
                Within(stream, steps),
                If("hands_over and i + buffers < chunks", (Record("done[i]", stream),)),
            )
        ]
    others = "streams" if not config.is_blocking else ""
    before, loaded = _once_in(arrays, config.is_blocking, others)
    after, ended = _once_out(arrays, config.is_blocking, others)
    return (*before, *body, *after), (*events, *loaded, *ended)


def _chunks(*body: Step) -> Loop:
    return Loop("i", "0", "chunks", body)


def _once_in(arrays: _Arrays, is_blocking: bool, others: str) -> tuple[list[Step], list[Events]]:
    """The tables in the first stream, and the wait of the ``others``."""
    if not arrays.tables:
        return [], []
    copies = tuple(Copy("h2d", Piece(f"d_{a.name}"), Piece(f"h_{a.name}"), is_blocking) for a in arrays.tables)
    steps: list[Step] = [Within("stream[0]", copies)]
    if not others:
        return steps, []
    steps.append(If("streams > 1", (Record("loaded_once", "stream[0]"),)))
    steps.append(Loop("k", "1", others, (Wait("loaded_once", "stream[k]"),)))
    return steps, [Events("loaded_once")]


def _once_out(arrays: _Arrays, is_blocking: bool, others: str) -> tuple[list[Step], list[Events]]:
    """The first stream's wait for the ``others``, and what is copied back once."""
    if not arrays.once:
        return [], []
    copies = tuple(Copy("d2h", Piece(f"d_{a.name}"), Piece(f"h_{a.name}"), is_blocking) for a in arrays.once)
    steps: list[Step] = [Within("stream[0]", copies)]
    if not others:
        return steps, []
    waits = Loop("k", "1", others, (Record("ended[k]", "stream[k]"), Wait("ended[k]", "stream[0]")))
    return [waits, *steps], [Events("ended", others)]


def _prefetch(
    arrays: _Arrays, _config: Config, has_kernels: bool, begin: tuple[HostWork, ...]
) -> tuple[tuple[Step, ...], tuple[Events, ...]]:
    """Batch i is loaded in one stream ahead of batch k, which is computed in the next and stored in the third."""
    copy_in, run, copy_out = _stages(arrays, False, has_kernels, "i", "k")
    load: list[Step] = [*begin, Turn("i"), If("i >= buffers", (Wait("ran[i - buffers]", "load"),))]
    load += [Within("load", copy_in)] if copy_in else []
    load += [Record("loaded[i]", "load")]
    work: list[Step] = [Turn("k"), Wait("loaded[k]", "compute")]
    work += [If("k >= buffers", (Wait("stored[k - buffers]", "compute"),))] if copy_out else []
    work += [Within("compute", run)] if run else []
    work += [Record("ran[k]", "compute")]
    if copy_out:
        work += [Wait("ran[k]", "store"), Within("store", copy_out), Record("stored[k]", "store")]
    events = [Events(name, "chunks") for name in ("loaded", "ran", *["stored"] * bool(copy_out))]
    steps: list[Step] = []
    if arrays.tables:
        copies = tuple(Copy("h2d", arrays.on_card(a, ""), Piece(f"h_{a.name}")) for a in arrays.tables)
        steps.append(Within("load", copies))
    body = (If("i < chunks", tuple(load)), If("k >= 0", tuple(work), Let("k", "i - ahead")))
    steps.append(Loop("i", "0", "chunks + ahead", body, Let("ahead", "min(buffers - 1, 1)")))
    if arrays.once:
        copies = tuple(Copy("d2h", Piece(f"d_{a.name}"), Piece(f"h_{a.name}")) for a in arrays.once)
        steps += [Record("ended", "compute"), Wait("ended", "store"), Within("store", copies)]
        events.append(Events("ended"))
    return tuple(steps), tuple(events)
