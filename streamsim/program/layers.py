"""A model's layers: weights that a pass needs one after another, and the kernels that run on each.

Where a :class:`~streamsim.program.workload.Workload` is cut into equal chunks, layers are steps of their own sizes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated, Literal, NamedTuple

from msgspec.structs import replace

from streamsim import errors
from streamsim.files import parse_toml, toml_of
from streamsim.program.builder import Program, Stream
from streamsim.program.patterns import HostMemory
from streamsim.program.schedule import Kernel, MemoryKind, Region, Schedule
from streamsim.program.workload import OF_KERNELS, WorkloadKernel
from streamsim.text import format_bytes

PassDirection = Literal["forward", "backward", "both"]
DIRECTIONS: dict[PassDirection, str] = {"forward": "forward", "backward": "backward", "both": "forward and backward"}
MOST_STEPS = 10_000
Turn = tuple[int, bool]  # of a layer in a pass: its number, and whether its backward kernels run


class Layer(errors.Checked, frozen=True, omit_defaults=True):
    """One layer, or ``repeats`` equal ones in a row, each with weights of its own. Raises InputError naming the field.

    - ``weight_bytes``: the bytes of one layer's weights. Its kernels need all of them.
    - ``kernels``: the kernels of a layer, with their times, one after another.
    - ``backward``: the kernels of a layer in the backward direction (empty: ``kernels``).
    - ``name``: the name of the layer; several layers in a row are called ``name.0``, ``name.1``, ...
    """

    weight_bytes: errors.Bytes
    kernels: tuple[WorkloadKernel, ...]
    name: str = ""
    repeats: Annotated[int, errors.Limits(1, MOST_STEPS)] = 1
    backward: tuple[WorkloadKernel, ...] = ()

    def __post_init__(self) -> None:
        errors.Checked.__post_init__(self)
        if not self.kernels:
            raise errors.InputError("kernels = []: a layer needs a kernel; give its time, such as '0.57ms'")
        if "," in self.name or self.name != self.name.strip():
            raise errors.InputError(f"name = {errors.shown(self.name)}: expected no comma, and no space at either end")
        for kernel in (*self.kernels, *self.backward):
            if not kernel.is_timed:
                raise errors.InputError(f"kernels: {kernel.name} has no time; give its duration_s")
            kernel.launch_s(0)


class LayerStep(NamedTuple):
    """One layer of a model: its own name, and the layer or row of equal layers that it is of."""

    name: str
    layer: Layer

    @property
    def weight_bytes(self) -> int:
        """The bytes of its weights."""
        return self.layer.weight_bytes

    def kernels(self, is_backward: bool) -> tuple[WorkloadKernel, ...]:
        """Return the layer's kernels in a direction."""
        return (self.layer.backward or self.layer.kernels) if is_backward else self.layer.kernels

    def launches(self, is_backward: bool = False) -> list[Kernel]:
        """Return the layer's kernels in a direction, launch by launch, without the bytes that they touch."""
        found: list[Kernel] = []
        for kernel in self.kernels(is_backward):
            kernel.check_alone()
            op = Kernel(1, kernel.name, 0, kernel.parameter, kernel.launch_s(0), kernel.fill, threads=kernel.threads)
            found += [op] * kernel.launches
        return found


class Layers(errors.Checked, frozen=True, omit_defaults=True):
    """The layers of a model, in their order, and the passes over all of them that a run makes.

    A pass is a token or a batch. ``direction``: a forward pass goes from the first layer to the last, a backward pass
    from the last to the first; "both" is a training step, forward and then backward. Layers without a name are called
    ``layer`` and their number. Raises InputError naming the field, and for two layers of one name.
    """

    layers: tuple[Layer, ...]
    passes: Annotated[int, errors.Limits(1, errors.MOST_CALLS)] = 1
    name: str = ""
    direction: PassDirection = "forward"

    def __post_init__(self) -> None:
        errors.Checked.__post_init__(self)
        count = sum(layer.repeats for layer in self.layers)
        errors.check_whole("layers in all", count, 1, MOST_STEPS)
        steps, turns = self.steps, self.turns
        kernels = [kernel for number, is_backward in turns for kernel in steps[number].kernels(is_backward)]
        calls = self.passes * (len(turns) + sum(kernel.launches for kernel in kernels))
        errors.check_calls(f"layers, passes: {count} layers and {self.passes} passes", calls)
        name, times = Counter(step.name for step in steps).most_common(1)[0]
        if times > 1:
            raise errors.InputError(f"layers: {times} are called {errors.shown(name)}; rename one, or say repeats")
        errors.check_whole("weight_bytes in all", self.weight_bytes, 1, errors.LARGEST_BYTES)

    @property
    def is_backward(self) -> bool:
        """Whether a pass goes backward through the layers, after a forward pass or alone."""
        return self.direction != "forward"

    @property
    def steps(self) -> tuple[LayerStep, ...]:
        """The layers of the model, each by itself, in forward order."""
        found: list[LayerStep] = []
        for layer in self.layers:
            for k in range(layer.repeats):
                name = layer.name if layer.repeats == 1 else f"{layer.name}.{k}"
                found.append(LayerStep(name if layer.name else f"layer{len(found)}", layer))
        return tuple(found)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the layers in one pass, in order."""
        numbers = range(sum(layer.repeats for layer in self.layers))
        forward = [(number, False) for number in numbers if self.direction != "backward"]
        return (*forward, *((number, True) for number in reversed(numbers) if self.is_backward))

    @property
    def assumed(self) -> list[str]:
        """Sentences on what is assumed of backward passes; empty for forward passes."""
        found = ["weights do not change in a run, and no gradients of them are copied to the host"]
        if not all(layer.backward for layer in self.layers):
            found.append("a layer without `backward` takes as long backward as forward; add its kernels to the file")
        return found if self.is_backward else []

    @property
    def weight_bytes(self) -> int:
        """Of all layers together."""
        return sum(layer.repeats * layer.weight_bytes for layer in self.layers)

    @property
    def words(self) -> str:
        """The number of layers, their bytes, and the passes, in words."""
        words = [f"{errors.counted(len(self.steps), 'layer')} of {format_bytes(self.weight_bytes)}"]
        words += [DIRECTIONS[self.direction]] if self.is_backward else []
        return ", ".join([*words, f"{self.passes} passes"] if self.passes > 1 else words)


# Files of layers: TOML with ``[[layers]]``; ``streamsim init --schema layers`` prints the exact form. Sizes and times
# may be text with a unit, ``"400MB"``, and a kernel may be what ``--kernel`` takes.


def read_layers(path: str | os.PathLike[str]) -> Layers:
    """Return the layers in a TOML file. Raises InputError naming the file, the field and the value."""
    return parse_layers(*toml_of(path))


def parse_layers(text: str | bytes, where: str = "layers") -> Layers:
    """Return the layers in the TOML ``text``. Raises InputError that begins with ``where``."""
    return parse_toml(text, where, Layers, "layers", OF_KERNELS)


# Layers that do not all fit on the card: some stay there, the others are copied to it ahead of their turn.
#
# One stream copies, and one runs the kernels. Streamed layers take turns over ``depth`` buffers on the card. Each
# buffer is as large as the largest streamed layer, as every layer may come to lie in every buffer. A layer's copy waits
# until the kernels have ended that used its buffer before, and its kernels wait for its copy. Layers that stay on the
# card were copied there once, before the program begins, as a model is loaded: :func:`loading` is that program.
#
# Each pass copies the streamed layers anew. Only if a pass goes forward and then backward, the layers that are still in
# the buffers when the direction changes are not copied again.
#
# Copies are issued as many turns ahead as there are buffers. A copy from pageable memory holds the host, which issues
# no kernel meanwhile. Therefore a layer's kernels are then issued before the next layer's copy, which runs beside them.


class Offload(errors.Checked, frozen=True):
    """A placement of layers: the layers that stay on the card, and the buffers for the others.

    - ``depth``: the number of buffers for streamed layers. With 1, no copy runs beside a streamed layer's kernels.
    - ``resident``: the names of the layers that stay on the card. The name of a layer with repeats means all of them.
    - ``memory``: the host memory that holds the weights of the streamed layers.
    - ``reserve_bytes``: memory on the card for activations.

    Raises InputError naming the field.
    """

    depth: Annotated[int, errors.Limits(1, errors.LARGEST_COUNT)] = 2
    resident: tuple[str, ...] = ()
    memory: HostMemory = "pinned"
    reserve_bytes: int = 0

    def numbers(self, layers: Layers) -> frozenset[int]:
        """Return the numbers of the layers that stay on the card. Raises InputError for an unknown name."""
        errors.check_is("layers", layers, Layers)
        names = [{step.name, step.layer.name or step.name} for step in layers.steps]
        for name in self.resident:
            if not any(name in own for own in names):
                raise errors.InputError(f"resident = {errors.shown(name)}: no layer has this name")
        return frozenset(number for number, own in enumerate(names) if own.intersection(self.resident))

    def device_bytes(self, layers: Layers) -> int:
        """Return the bytes that the program holds on the card: resident layers, buffers, and the reserve."""
        stay, streamed = self._parted(layers)
        largest = max((step.weight_bytes for step in streamed), default=0)
        return sum(step.weight_bytes for step in stay) + self.slots(layers) * largest + self.reserve_bytes

    def pinned_bytes(self, layers: Layers) -> int:
        """Return the bytes of pinned memory on the host: the weights of the streamed layers."""
        return 0 if self.memory == "pageable" else sum(step.weight_bytes for step in self._parted(layers)[1])

    def slots(self, layers: Layers) -> int:
        """Return the number of buffers in use: at most the number of streamed layers."""
        return min(self.depth, len(self._parted(layers)[1]))

    def _parted(self, layers: Layers) -> tuple[list[LayerStep], list[LayerStep]]:
        """Return the layers that stay on the card, and the streamed ones."""
        stay, steps = self.numbers(layers), [*enumerate(layers.steps)]
        return [step for n, step in steps if n in stay], [step for n, step in steps if n not in stay]

    def schedule(self, layers: Layers) -> Schedule:
        """Return the program: see above. Raises InputError for an unknown name."""
        stay, steps, program = self.numbers(layers), layers.steps, Program()
        load, compute = program.stream(), program.stream()
        streamed = {n: step for n, step in enumerate(steps) if n not in stay}
        hosts = {n: _weights(program, step, self.memory) for n, step in streamed.items()}
        homes = {n: _weights(program, steps[n], "device") for n in sorted(stay)}
        largest, slots = max((step.weight_bytes for step in streamed.values()), default=0), self.slots(layers)
        buffers = [program.device(f"buffer {slot}", largest) for slot in range(slots)]
        reserved = (program.device("activations", self.reserve_bytes),) if self.reserve_bytes else ()
        loaded, ran = ([program.event() for _ in range(slots)] for _ in range(2))
        plan, used = _plan(layers, stay, slots), set[int]()
        coming = iter([turn for turn in plan if turn.slot is not None])

        def fetch() -> None:
            """Copy the layer of the next streamed turn as soon as its buffer is free, unless the layer is there."""
            turn = next(coming, None)
            if turn is not None and turn.slot is not None and turn.is_new:
                source, slot = hosts[turn.number], turn.slot
                if slot in used:
                    load.wait(ran[slot])
                used.add(slot)
                load.copy_in(buffers[slot][: source.bytes], source)
                load.record(loaded[slot])

        for _ in range(min(1, slots) if self.memory == "pageable" else slots):
            fetch()
        for number, is_backward, slot, is_new in plan:
            if slot is None:
                launch(compute, steps[number], is_backward, homes[number], reserved)
                continue
            if is_new:
                compute.wait(loaded[slot])
            launch(compute, steps[number], is_backward, buffers[slot], reserved)
            compute.record(ran[slot])
            fetch()
        program.synchronize()
        how = f", {DIRECTIONS[layers.direction]}" * layers.is_backward
        words = f"offload K={self.depth}, {len(stay)} of {len(steps)} layers stay{how}"
        return program.schedule(words, unchunked=one_by_one(layers, self.memory))


class _Planned(NamedTuple):
    """A turn of a layer: its number and direction, its buffer (None: it stays), and whether it must be copied there."""

    number: int
    is_backward: bool
    slot: int | None
    is_new: bool


def _plan(layers: Layers, stay: frozenset[int], slots: int) -> list[_Planned]:
    """Return all turns, in order.

    Streamed turns are counted up. If a pass goes forward and backward, they are counted up and down again, so that a
    layer has one count and one buffer.
    """
    found, held = list[_Planned](), dict[int, int]()
    count, step, was_backward = 0, 1, layers.turns[0][1]
    for number, is_backward in layers.turns * layers.passes:
        if is_backward != was_backward:  # the layer of the last turn is the first one again
            was_backward, step = is_backward, -step
            count += step
        slot = None if number in stay else count % slots
        found.append(_Planned(number, is_backward, slot, slot is not None and held.get(slot) != count))
        if slot is not None:
            held[slot] = count
            count += step
    return found


def launch(stream: Stream, step: LayerStep, is_backward: bool, weights: Region, written: tuple[Region, ...]) -> None:
    """Launch the kernels of a layer: they read its weights, and write ``written``."""
    read = (weights[: step.weight_bytes],)
    for op in step.launches(is_backward):
        stream.issue(replace(op, stream=stream.number, reads=read, writes=written))


def _weights(program: Program, step: LayerStep, kind: MemoryKind) -> Region:
    """Return new memory for the weights of a layer."""
    return program.buffer(f"{'d' if kind == 'device' else 'h'}_{step.name}", step.weight_bytes, kind)


def one_by_one(layers: Layers, memory: HostMemory) -> Schedule:
    """Return the program without overlap: each layer is copied in its turn, and no layer stays on the card.

    It has one stream and one buffer, and blocking copies from ``memory``.
    """
    program, steps = Program(), layers.steps
    stream = program.stream()
    hosts = [_weights(program, step, memory) for step in steps]
    buffer = program.device("buffer 0", max(step.weight_bytes for step in steps))
    for number, is_backward in layers.turns * layers.passes:
        step = steps[number]
        stream.copy_in(buffer[: step.weight_bytes], hosts[number], blocking=True)
        launch(stream, step, is_backward, buffer, ())
    program.synchronize()
    return program.schedule(f"one by one, {memory}")


def loading(layers: Layers, config: Offload) -> Schedule | None:
    """Return the program that copies the resident layers once, before the other program; None if there are none."""
    program = Program()
    stream = program.stream()
    for number in sorted(config.numbers(layers)):
        step = layers.steps[number]
        source = _weights(program, step, config.memory)
        stream.copy_in(_weights(program, step, "device"), source)
    program.synchronize()
    return program.schedule("load what stays") if config.resident else None
