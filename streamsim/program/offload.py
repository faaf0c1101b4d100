"""Layers that do not all fit on the card: some stay there, the others are copied to it ahead of their turn.

One stream copies, one runs the kernels. Streamed layers take turns over ``depth`` buffers on the card; each is as large
as the largest streamed layer, as from pass to pass every layer comes to lie in every buffer. A layer's copy waits until
the kernels have ended that used its buffer before, and its kernels wait for its copy. What stays on the card was copied
there once, before the program begins, as a model is loaded: :func:`loading` is that program.

Copies are issued as far ahead as there are buffers. A copy from pageable memory holds the host, which issues no kernel
meanwhile. ``kernel_first`` issues a layer's kernels before the next layer's copy, which then runs beside them.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from streamsim.checks import LARGEST_BYTES, LARGEST_COUNT, check_choice, check_is, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.program.builder import Program
from streamsim.program.config import HOST_MEMORIES, HostMemory
from streamsim.program.layers import Layers
from streamsim.text.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.program.builder import Memory, Stream
    from streamsim.program.layers import LayerStep
    from streamsim.program.schedule import Schedule


class Offload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to run layers: which stay on the card, and how many are there in turn. Raises InputError naming the field.

    ``depth``: buffers for streamed layers; with 1 nothing is copied beside the kernels that need the copy before it.
    ``resident``: names of the layers that stay on the card; that of a layer with repeats stands for all of them.
    ``memory``: where the weights of the others are on the host. ``reserve_bytes``: of the card, for activations.
    ``kernel_first``: each layer's kernels are issued before the next streamed layer's copy, one copy ahead.
    """

    depth: int = 2
    resident: tuple[str, ...] = ()
    memory: HostMemory = "pinned"
    reserve_bytes: int = 0
    kernel_first: bool = False

    def __post_init__(self) -> None:
        check_whole("depth", self.depth, 1, LARGEST_COUNT)
        check_tuple("resident", self.resident, str)
        check_choice("memory", self.memory, HOST_MEMORIES)
        check_whole("reserve_bytes", self.reserve_bytes, 0, LARGEST_BYTES)
        check_is("kernel_first", self.kernel_first, bool)
        for k, name in enumerate(self.resident):
            if name in self.resident[:k]:
                raise InputError(f"resident[{k}] = {shown(name)}: stands twice; keep one")

    def numbers(self, layers: Layers) -> frozenset[int]:
        """The numbers of the steps that stay on the card. Raises InputError for the name of no layer."""
        check_layers(layers)
        known: dict[str, list[int]] = {}
        for number, step in enumerate(layers.steps):
            known.setdefault(step.name, []).append(number)
        first = 0
        for layer in layers.layers:
            if layer.name:
                known.setdefault(layer.name, list(range(first, first + layer.repeats)))
            first += layer.repeats
        for name in self.resident:
            if name not in known:
                nearest = get_close_matches(name, known, n=1)
                hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
                raise InputError(f"resident = {shown(name)}: no layer has this name{hint}")
        return frozenset(number for name in self.resident for number in known[name])

    def device_bytes(self, layers: Layers) -> int:
        """Bytes that the program holds on the card: what stays, the buffers, and what is reserved."""
        stay, streamed = self._parted(layers)
        largest = max((step.weight_bytes for step in streamed), default=0)
        return sum(step.weight_bytes for step in stay) + self.slots(layers) * largest + self.reserve_bytes

    def pinned_bytes(self, layers: Layers) -> int:
        """Bytes of pinned memory on the host: the weights of the layers that do not stay on the card."""
        return 0 if self.memory == "pageable" else sum(step.weight_bytes for step in self._parted(layers)[1])

    def slots(self, layers: Layers) -> int:
        """Buffers that come into use: no more than there are streamed layers."""
        return min(self.depth, len(self._parted(layers)[1]))

    def other_order(self) -> Offload | None:
        """The same with the kernels issued first, where that can matter: pageable copies into several buffers."""
        matters = self.memory == "pageable" and self.depth > 1 and not self.kernel_first
        return msgspec.structs.replace(self, kernel_first=True) if matters else None

    def _parted(self, layers: Layers) -> tuple[list[LayerStep], list[LayerStep]]:
        """The steps that stay on the card, and the others."""
        stay = self.numbers(layers)
        parts: tuple[list[LayerStep], list[LayerStep]] = ([], [])
        for number, step in enumerate(layers.steps):
            parts[number not in stay].append(step)
        return parts

    def schedule(self, layers: Layers) -> Schedule:
        """The program: see the top of :mod:`streamsim.program.offload`. Raises InputError for the name of no layer."""
        run = _Run(layers, self)
        ahead = min(1, run.slots) if self.kernel_first else run.slots
        for item in range(ahead):
            run.fetch(item)
        item = 0
        for _ in range(layers.passes):
            for number in range(len(run.steps)):
                if number in run.stay:
                    run.launch(number, run.at_home[number])
                    continue
                run.compute.wait(run.loaded[item % run.slots])
                run.launch(number, run.buffers[item % run.slots])
                run.compute.record(run.ran[item % run.slots])
                if item + ahead < run.items:
                    run.fetch(item + ahead)
                item += 1
        run.program.synchronize()
        first = ", kernel first" * self.kernel_first
        words = f"offload K={self.depth}, {len(run.stay)} of {len(run.steps)} layers stay{first}"
        return run.program.schedule(words, unchunked=one_by_one(layers, self.memory, self.reserve_bytes))


class _Run:
    """Layers put into a program: its memory, its streams and events, and what is copied and run for each layer."""

    def __init__(self, layers: Layers, config: Offload) -> None:
        self.stay = config.numbers(layers)
        self.program = Program()
        self.load, self.compute = self.program.stream(), self.program.stream()
        self.steps = layers.steps
        self._streamed = [number for number in range(len(self.steps)) if number not in self.stay]
        self.slots = min(config.depth, len(self._streamed))
        self.items = len(self._streamed) * layers.passes
        on_host = self.program.pageable if config.memory == "pageable" else self.program.pinned
        self._host = {n: on_host(f"h_{self.steps[n].name}", self.steps[n].weight_bytes) for n in self._streamed}
        self.at_home = {
            n: self.program.device(f"d_{self.steps[n].name}", self.steps[n].weight_bytes) for n in sorted(self.stay)
        }
        largest = max((self.steps[number].weight_bytes for number in self._streamed), default=0)
        self.buffers = [self.program.device(f"buffer {slot}", largest) for slot in range(self.slots)]
        self._activations = activations(self.program, config.reserve_bytes)
        self.loaded = [self.program.event() for _ in range(self.slots)]
        self.ran = [self.program.event() for _ in range(self.slots)]

    def fetch(self, item: int) -> None:
        """Copy the streamed layer whose turn is ``item``, counted over all passes, when its buffer is free."""
        number, slot = self._streamed[item % len(self._streamed)], item % self.slots
        if item >= self.slots:
            self.load.wait(self.ran[slot])
        source = self._host[number]
        self.load.copy_in(self.buffers[slot][: source.bytes], source)
        self.load.record(self.loaded[slot])

    def launch(self, number: int, weights: Memory) -> None:
        """The kernels of a layer, whose weights are there."""
        launch(self.compute, self.steps[number], weights, self._activations)


def launch(stream: Stream, step: LayerStep, weights: Memory, activations: Sequence[Memory]) -> None:
    """The kernels of a layer: they read its weights, and work on what is reserved."""
    for op in step.launches():
        stream.kernel(
            op.duration_s,
            op.name,
            parameter=op.parameter,
            fill=op.fill,
            threads=op.threads,
            reads=weights[: step.weight_bytes],
            writes=activations,
        )


def activations(program: Program, n_bytes: int) -> tuple[Memory, ...]:
    """What layers compute on, if anything is reserved for it."""
    return (program.device("activations", n_bytes),) if n_bytes else ()


def one_by_one(layers: Layers, memory: HostMemory = "pageable", reserve_bytes: int = 0) -> Schedule:
    """The program people start from: each layer is copied when it is its turn, and nothing overlaps.

    Blocking copies from ``memory``, in one stream, into one buffer; no layer stays on the card.
    """
    check_layers(layers)
    check_choice("memory", memory, HOST_MEMORIES)
    program = Program()
    stream, steps = program.stream(), layers.steps
    on_host = program.pageable if memory == "pageable" else program.pinned
    hosts = [on_host(f"h_{step.name}", step.weight_bytes) for step in steps]
    buffer = program.device("buffer 0", max(step.weight_bytes for step in steps))
    reserved = activations(program, reserve_bytes)
    for _ in range(layers.passes):
        for step, host in zip(steps, hosts, strict=True):
            stream.copy_in(buffer[: step.weight_bytes], host, blocking=True)
            launch(stream, step, buffer, reserved)
    program.synchronize()
    return program.schedule(f"one by one, {memory}")


def loading(layers: Layers, config: Offload) -> Schedule | None:
    """The copies of what stays on the card, made once, before the program begins; None where nothing stays."""
    program = Program()
    stream = program.stream()
    for number in sorted(config.numbers(layers)):
        step = layers.steps[number]
        on_host = program.pageable if config.memory == "pageable" else program.pinned
        source = on_host(f"h_{step.name}", step.weight_bytes)
        stream.copy_in(program.device(f"d_{step.name}", step.weight_bytes), source)
    if not config.resident:
        return None
    program.synchronize()
    return program.schedule("load what stays")


def offload(
    layers: Layers,
    depth: int = 2,
    resident: Sequence[str] = (),
    memory: HostMemory = "pinned",
    reserve_bytes: int = 0,
    kernel_first: bool = False,
) -> Schedule:
    """Weights streamed to the card layer by layer, over ``depth`` buffers; the layers called ``resident`` stay there.

    The rest as for :class:`Offload`. Raises InputError naming what does not go together.
    """
    return Offload(depth, tuple(resident), memory, reserve_bytes, kernel_first).schedule(layers)


def check_layers(layers: Layers) -> None:
    """Raise InputError unless it is a model's layers."""
    check_is("layers", layers, Layers)
