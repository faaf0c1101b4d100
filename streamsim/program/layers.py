"""A model's layers: weights that a pass needs one after another, and the kernels that run on each.

Where a :class:`~streamsim.program.workload.Workload` is cut into equal chunks, layers are steps of their own sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from streamsim.checks import LARGEST_BYTES, check_calls, check_is, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.program.schedule import Kernel
from streamsim.program.workload import WorkloadKernel
from streamsim.text.quantities import format_bytes
from streamsim.text.shown import short, shown

MOST_STEPS = 10_000
MOST_RUNS = 1_000_000  # of steps, over all passes: a schedule of so many takes gigabytes


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One layer, or ``repeats`` equal ones in a row, each with weights of its own. Raises InputError naming the field.

    ``weight_bytes``: of one layer, all of which its kernels need. ``kernels``: with their times, one after another.
    ``name``: what it is called; several in a row are called ``name.0``, ``name.1``, ...
    """

    weight_bytes: int
    kernels: tuple[WorkloadKernel, ...]
    name: str = ""
    repeats: int = 1

    def __post_init__(self) -> None:
        check_whole("weight_bytes", self.weight_bytes, 1, LARGEST_BYTES)
        check_tuple("kernels", self.kernels, WorkloadKernel)
        check_is("name", self.name, str)
        check_whole("repeats", self.repeats, 1, MOST_STEPS)
        if not self.kernels:
            raise InputError("kernels = []: a layer needs a kernel; give its time, such as '0.57ms'")
        if "," in self.name or self.name != self.name.strip():
            raise InputError(f"name = {shown(self.name)}: expected no comma, and no space at either end")
        for k, kernel in enumerate(self.kernels):
            if not kernel.is_timed:
                raise InputError(f"kernels[{k}].duration_s: is missing; a layer's kernels say how long they take")
            kernel.launch_s(0)


class LayerStep(NamedTuple):
    """One layer of those that a pass goes through: its name, the bytes of its weights, its kernels."""

    name: str
    weight_bytes: int
    kernels: tuple[WorkloadKernel, ...]

    def launches(self, stream: int = 1) -> list[Kernel]:
        """Its kernels, launch by launch, less the bytes that they touch."""
        return [op for kernel in self.kernels for op in [_launch(kernel, stream)] * kernel.launches]


class Layers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The layers of a model, in their order, and how many passes over all of them a run makes.

    A pass is a token or a batch: weights that are not kept on the card are copied anew for each. Raises InputError
    naming the field, and for two layers of one name; layers without one are called ``layer`` and their number.
    """

    layers: tuple[Layer, ...]
    passes: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        check_tuple("layers", self.layers, Layer)
        check_is("name", self.name, str)
        check_whole("passes", self.passes, 1, MOST_RUNS)
        if not self.layers:
            raise InputError("layers = []: a model needs a layer; add one, with its weight_bytes and kernels")
        steps = sum(layer.repeats for layer in self.layers)
        if steps > MOST_STEPS or steps * self.passes > MOST_RUNS:
            raise InputError(
                f"layers, passes: {steps} layers and {self.passes} passes are more than {MOST_STEPS} layers, or than"
                f" {MOST_RUNS} together; give fewer passes"
            )
        of_pass = sum(layer.repeats * (1 + sum(kernel.launches for kernel in layer.kernels)) for layer in self.layers)
        check_calls(f"layers, passes: {steps} layers and {self.passes} passes", of_pass * self.passes)
        self._check_names()
        check_whole("weight_bytes in all", self.weight_bytes, 1, LARGEST_BYTES)

    def _check_names(self) -> None:
        seen: set[str] = set()
        for i, layer in enumerate(self.layers):
            for name in _names(layer, len(seen)):
                if name in seen:
                    raise InputError(
                        f"layers[{i}].name = {shown(layer.name)}: another layer is called {shown(name)}; rename one, or"
                        " say repeats"
                    )
                seen.add(name)

    @property
    def steps(self) -> tuple[LayerStep, ...]:
        """The layers that a pass goes through, each by itself."""
        found: list[LayerStep] = []
        for layer in self.layers:
            names = _names(layer, len(found))
            found += [LayerStep(name, layer.weight_bytes, layer.kernels) for name in names]
        return tuple(found)

    @property
    def weight_bytes(self) -> int:
        """Of all layers together."""
        return sum(layer.repeats * layer.weight_bytes for layer in self.layers)

    def scaled(self, factor: float) -> Layers:
        """The same with all kernels so many times as long."""
        layers = [
            msgspec.structs.replace(layer, kernels=tuple(kernel.scaled(factor) for kernel in layer.kernels))
            for layer in self.layers
        ]
        return msgspec.structs.replace(self, layers=tuple(layers))

    def __repr__(self) -> str:
        name, steps = f"{self.name}: " * bool(self.name), sum(layer.repeats for layer in self.layers)
        several = f", {self.passes} passes" * (self.passes > 1)
        return short(f"Layers({name}{steps} layer{'s' * (steps > 1)} of {format_bytes(self.weight_bytes)}{several})")


def _names(layer: Layer, first: int) -> list[str]:
    """Of the steps of a layer, of which ``first`` is the number of the first one."""
    if not layer.name:
        return [f"layer{first + k}" for k in range(layer.repeats)]
    return [layer.name] if layer.repeats == 1 else [f"{layer.name}.{k}" for k in range(layer.repeats)]


def _launch(kernel: WorkloadKernel, stream: int) -> Kernel:
    """It runs whole: no chunk has a share of it."""
    kernel.check_alone()
    duration_s, fill, threads = kernel.launch_s(0), kernel.fill, kernel.threads
    return Kernel(stream, kernel.name, 0, kernel.parameter, duration_s, fill, threads=threads)
