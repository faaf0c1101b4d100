"""A model's layers: weights that a pass needs one after another, and the kernels that run on each.

Where a :class:`~streamsim.program.workload.Workload` is cut into equal chunks, layers are steps of their own sizes.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec

from streamsim.checks import LARGEST_BYTES, check_calls, check_choice, check_is, check_tuple, check_whole
from streamsim.errors import InputError
from streamsim.files import dump_toml, of_table, parse_toml, read_bytes, write_text
from streamsim.program.files import OF_KERNELS
from streamsim.program.schedule import Kernel
from streamsim.program.workload import WorkloadKernel
from streamsim.text import LARGEST_TOML_BYTES, counted, format_bytes, one_line, short, shown

PassDirection = Literal["forward", "backward", "both"]
DIRECTIONS: tuple[PassDirection, ...] = get_args(PassDirection)
MOST_STEPS = 10_000
MOST_RUNS = 1_000_000  # of steps, over all passes: a schedule of so many takes gigabytes


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One layer, or ``repeats`` equal ones in a row, each with weights of its own. Raises InputError naming the field.

    - ``weight_bytes``: the bytes of one layer's weights. Its kernels need all of them.
    - ``kernels``: the kernels of a layer, with their times, one after another.
    - ``backward``: the kernels of a layer in the backward direction (empty: ``kernels``).
    - ``name``: the name of the layer; several layers in a row are called ``name.0``, ``name.1``, ...
    """

    weight_bytes: int
    kernels: tuple[WorkloadKernel, ...]
    name: str = ""
    repeats: int = 1
    backward: tuple[WorkloadKernel, ...] = ()

    def __post_init__(self) -> None:
        check_whole("weight_bytes", self.weight_bytes, 1, LARGEST_BYTES)
        check_tuple("kernels", self.kernels, WorkloadKernel)
        check_tuple("backward", self.backward, WorkloadKernel)
        check_is("name", self.name, str)
        check_whole("repeats", self.repeats, 1, MOST_STEPS)
        if not self.kernels:
            raise InputError("kernels = []: a layer needs a kernel; give its time, such as '0.57ms'")
        if "," in self.name or self.name != self.name.strip():
            raise InputError(f"name = {shown(self.name)}: expected no comma, and no space at either end")
        for field, kernels in (("kernels", self.kernels), ("backward", self.backward)):
            for k, kernel in enumerate(kernels):
                if not kernel.is_timed:
                    raise InputError(f"{field}[{k}].duration_s: is missing; a layer's kernels say how long they take")
                kernel.launch_s(0)

    def names(self, first: int) -> list[str]:
        """Return the name of each of the repeats; ``first``: the number of the first one in its model."""
        if not self.name:
            return [f"layer{first + k}" for k in range(self.repeats)]
        return [self.name] if self.repeats == 1 else [f"{self.name}.{k}" for k in range(self.repeats)]


class LayerStep(NamedTuple):
    """One layer of a model: its name, the bytes of its weights, and its kernels in both directions."""

    name: str
    weight_bytes: int
    kernels: tuple[WorkloadKernel, ...]
    backward: tuple[WorkloadKernel, ...] = ()

    def launches(self, is_backward: bool = False) -> list[Kernel]:
        """Return the layer's kernels in a direction, launch by launch, without the bytes that they touch."""
        kernels = (self.backward or self.kernels) if is_backward else self.kernels
        return [op for kernel in kernels for op in [_launch(kernel)] * kernel.launches]


class Turn(NamedTuple):
    """The turn of a layer in a pass: the number of the layer, and whether its backward kernels run."""

    number: int
    is_backward: bool


class Layers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The layers of a model, in their order, and the passes over all of them that a run makes.

    A pass is a token or a batch. ``direction``: a forward pass goes from the first layer to the last, a backward pass
    from the last to the first; "both" is a training step, forward and then backward. Layers without a name are called
    ``layer`` and their number. Raises InputError naming the field, and for two layers of one name.
    """

    layers: tuple[Layer, ...]
    passes: int = 1
    name: str = ""
    direction: PassDirection = "forward"

    def __post_init__(self) -> None:
        check_tuple("layers", self.layers, Layer)
        check_is("name", self.name, str)
        check_whole("passes", self.passes, 1, MOST_RUNS)
        check_choice("direction", self.direction, DIRECTIONS)
        if not self.layers:
            raise InputError("layers = []: a model needs a layer; add one, with its weight_bytes and kernels")
        steps = sum(layer.repeats for layer in self.layers)
        if steps > MOST_STEPS or steps * self.passes > MOST_RUNS:
            raise InputError(
                f"layers, passes: {steps} layers and {self.passes} passes are more than {MOST_STEPS} layers, or than"
                f" {MOST_RUNS} together; give fewer passes"
            )
        of_pass = 0
        for layer in self.layers:
            sides = [(layer.kernels, self.direction != "backward"), (layer.backward or layer.kernels, self.is_backward)]
            calls = [1 + sum(kernel.launches for kernel in kernels) for kernels, is_run in sides if is_run]
            of_pass += layer.repeats * sum(calls)
        check_calls(f"layers, passes: {steps} layers and {self.passes} passes", of_pass * self.passes)
        self._check_names()
        check_whole("weight_bytes in all", self.weight_bytes, 1, LARGEST_BYTES)

    def _check_names(self) -> None:
        seen: set[str] = set()
        for i, layer in enumerate(self.layers):
            for name in layer.names(len(seen)):
                if name in seen:
                    raise InputError(
                        f"layers[{i}].name = {shown(layer.name)}: another layer is called {shown(name)}; rename one, or"
                        " say repeats"
                    )
                seen.add(name)

    @property
    def is_backward(self) -> bool:
        """Whether a pass goes backward through the layers, after a forward pass or alone."""
        return self.direction != "forward"

    @property
    def direction_words(self) -> str:
        """The direction of a pass in words."""
        return "forward and backward" if self.direction == "both" else self.direction

    @property
    def steps(self) -> tuple[LayerStep, ...]:
        """The layers of the model, each by itself, in forward order."""
        found: list[LayerStep] = []
        for layer in self.layers:
            what = layer.weight_bytes, layer.kernels, layer.backward
            found += [LayerStep(name, *what) for name in layer.names(len(found))]
        return tuple(found)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the layers in one pass, in order."""
        numbers = range(sum(layer.repeats for layer in self.layers))
        forward = [Turn(number, False) for number in numbers if self.direction != "backward"]
        return (*forward, *(Turn(number, True) for number in reversed(numbers) if self.is_backward))

    @property
    def assumed(self) -> list[str]:
        """Sentences on what is assumed of backward passes; empty for forward passes."""
        if not self.is_backward:
            return []
        kept = ["weights do not change in a run, and no gradients of them are copied to the host"]
        if all(layer.backward for layer in self.layers):
            return kept
        return [*kept, "a layer without `backward` takes as long backward as forward; add its kernels to the file"]

    @property
    def weight_bytes(self) -> int:
        """Of all layers together."""
        return sum(layer.repeats * layer.weight_bytes for layer in self.layers)

    def scaled(self, factor: float) -> Layers:
        """Return the same layers with the times of all kernels multiplied by ``factor``."""

        def scaled(kernels: tuple[WorkloadKernel, ...]) -> tuple[WorkloadKernel, ...]:
            return tuple(kernel.scaled(factor) for kernel in kernels)

        layers = [
            msgspec.structs.replace(layer, kernels=scaled(layer.kernels), backward=scaled(layer.backward))
            for layer in self.layers
        ]
        return msgspec.structs.replace(self, layers=tuple(layers))

    @property
    def words(self) -> str:
        """The number of layers, their bytes, and the passes, in words."""
        steps = sum(layer.repeats for layer in self.layers)
        found = [f"{counted(steps, 'layer')} of {format_bytes(self.weight_bytes)}"]
        if self.is_backward:
            found.append(self.direction_words)
        if self.passes > 1:
            found.append(f"{self.passes} passes")
        return ", ".join(found)

    def __repr__(self) -> str:
        return short(f"Layers({self.name}: {self.words})" if self.name else f"Layers({self.words})")


def _launch(kernel: WorkloadKernel) -> Kernel:
    """Return one launch of a kernel that runs whole: no chunk has a share of it."""
    kernel.check_alone()
    duration_s, fill, threads = kernel.launch_s(0), kernel.fill, kernel.threads
    return Kernel(1, kernel.name, 0, kernel.parameter, duration_s, fill, threads=threads)


# Files of layers: TOML with ``[[layers]]``, or CSV with one layer in each line under the column names.
#
# ``streamsim init --schema layers`` prints the exact form. Sizes and times may be text with a unit, ``"400MB"``, and a
# kernel may be what ``--kernel`` takes. Semicolons separate several kernels in a cell of a CSV file.


def read_layers(path: str | os.PathLike[str]) -> Layers:
    """Return the layers in a TOML file, or in a CSV file named .csv. Raises InputError naming the place."""
    data, where = read_bytes(path, LARGEST_TOML_BYTES), one_line(str(path))
    return parse_layers_csv(data, where) if Path(path).suffix.lower() == ".csv" else parse_layers(data, where)


def write_layers(layers: Layers, path: str | os.PathLike[str]) -> None:
    """Save ``layers`` as TOML. Raises InputError if the file cannot be written."""
    write_text(dump_toml(layers), path)


def parse_layers(text: str | bytes, where: str = "layers") -> Layers:
    """Return the layers in the TOML ``text``. Raises InputError that begins with ``where``."""
    return parse_toml(text.encode() if isinstance(text, str) else text, Layers, "layers", where, OF_KERNELS)


def parse_layers_csv(text: str | bytes, where: str = "layers") -> Layers:
    """Return the layers in CSV ``text``, as spreadsheets write it. Raises InputError that begins with ``where``."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return Layers(tuple(_layers(decoded.removeprefix("\ufeff"))))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 text (byte {error.start})") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _layers(text: str) -> Iterator[Layer]:
    """Yield the layer in each line below the column names."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        columns = [name.strip() for name in rows.fieldnames or ()]
        if len(set(columns)) < len(columns):
            raise InputError(f"columns {', '.join(columns)}: one stands twice; keep one")
        for row in rows:
            if any(row.pop(None, ())):  # the cells without a column
                raise InputError("has more cells than columns; write a cell that holds a comma in quotes")
            cells = {name.strip(): cell.strip() for name, cell in row.items() if cell and cell.strip()}
            several = {name: cells[name].split(";") for name in ("kernels", "backward") if name in cells}
            if cells:
                lists = {name: list(filter(None, map(str.strip, texts))) for name, texts in several.items()}
                yield of_table({**cells, **lists}, Layer, OF_KERNELS)
    except (csv.Error, InputError) as error:
        raise InputError(f"line {rows.line_num}: {error}") from None
