"""Options that name a model's layers in place of a workload, and say how to place them."""

from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from streamsim.cli.given import check_no_part
from streamsim.cli.notes import noting_compilation, progress_bar
from streamsim.cli.options import COUNT, FILE, SIZE, Quantity, all_of, one_of
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import (
    DIRECTIONS,
    Layers,
    Offload,
    PassDirection,
    Schedule,
    read_layers,  # here and below: most commands are not given any
)
from streamsim.search import BUDGET_OPS, MOST_DEPTH, Best, best_offload
from streamsim.text import parse_bytes

# Options that describe a workload and how it is cut; layers are not cut.
OF_WORKLOADS = (
    *("workload", "h2d", "kernel", "d2h", "h2d_once", "d2h_once", "elements"),
    *("host_work", "host_load"),
    *("chunks", "streams", "order", "buffers", "launch", "max_chunks", "max_streams"),
)

which_layers = all_of(
    click.option("--layers", type=FILE, help="A model's layers, a .toml or .csv file, in place of a workload."),
    click.option(
        "--passes",
        type=COUNT,
        help="With --layers: number of passes over all layers. Default: the number in the layers file.",
    ),
    click.option(
        "--direction",
        type=one_of(DIRECTIONS),
        help="With --layers: forward passes, from the first layer to the last; backward passes, from the last to the"
        " first; or both in each pass, as a training step. Default: the direction in the layers file.",
    ),
    click.option(
        "--reserve",
        type=Quantity("size", partial(parse_bytes, least=0)),
        help="With --layers: memory on the card for the CUDA context and activations, such as 2GiB. Default of best: a"
        " tenth of the memory.",
    ),
)
place_layers = all_of(
    which_layers,
    click.option("--depth", type=COUNT, help="With --layers: buffers that streamed layers take in turn. Default: 2."),
    click.option("--resident", help="With --layers: names of the layers that stay on the card, separated by commas."),
)
bound_layers = all_of(
    which_layers,
    click.option("--max-depth", type=COUNT, help="With --layers: search up to this many buffers. Default: 8."),
    click.option("--host-memory-limit", type=SIZE, help="With --layers: most memory that may be pinned on the host."),
)


class LayerOptions(msgspec.Struct, frozen=True):
    """The options that name layers and say how to run them; sizes in bytes."""

    layers: Path | None
    passes: int | None
    direction: PassDirection | None
    reserve: int | None
    depth: int | None
    resident: str | None

    def load(self) -> Layers:
        """Return the layers in the file, with ``passes`` and ``direction`` if given. Raises InputError."""
        return _read(self.layers, self.passes, self.direction)

    def config(self, memory: str) -> Offload:
        """Return how to place the layers. Raises InputError."""
        names = [name for name in map(str.strip, (self.resident or "").split(",")) if name]
        depth = Offload().depth if self.depth is None else self.depth
        return Offload(depth, tuple(names), memory, self.reserve or 0)  # type: ignore[arg-type]


class BoundOptions(msgspec.Struct, frozen=True):
    """The options that name layers and limit how to place them; sizes in bytes."""

    layers: Path | None
    passes: int | None
    direction: PassDirection | None
    reserve: int | None
    max_depth: int | None
    host_memory_limit: int | None

    def load(self) -> Layers:
        """Return the layers in the file, with ``passes`` and ``direction`` if given. Raises InputError."""
        return _read(self.layers, self.passes, self.direction)

    def best(self, layers: Layers, device: Device, memory_limit: int | None, exact: bool) -> Best[Offload]:
        """Search for the best way to place the layers."""
        depth, budget = self.max_depth or MOST_DEPTH, None if exact else BUDGET_OPS
        with progress_bar("searching") as progress, noting_compilation():
            return best_offload(
                layers, device, memory_limit, self.reserve, self.host_memory_limit, depth, progress, budget
            )

    def inputs(self, layers: Layers) -> dict[str, Any]:
        """Return the options as plain numbers and strings."""
        limits = {"reserve_bytes": self.reserve, "host_memory_limit_bytes": self.host_memory_limit}
        return {"layers": msgspec.to_builtins(layers), "max_depth": self.max_depth, **limits}


def inputs_of(layers: Layers, config: Offload) -> dict[str, Any]:
    """Return the options as plain numbers and strings."""
    return {"layers": msgspec.to_builtins(layers), **msgspec.to_builtins(config)}


def _read(path: Path | None, passes: int | None, direction: PassDirection | None) -> Layers:

    assert path is not None
    layers = read_layers(path)
    given = {"passes": passes or layers.passes, "direction": direction or layers.direction}
    return msgspec.structs.replace(layers, **given)


def layers_given(context: click.Context, options: LayerOptions, memory: str) -> tuple[Layers, Offload] | None:
    """Return the layers in place of a workload, and how to run them; None without layers. Raises InputError."""
    check_beside_layers(context, options.layers is not None, LayerOptions)
    return None if options.layers is None else (options.load(), options.config(memory))


def schedule_of_layers(layers: Layers, config: Offload, device: Device) -> Schedule:
    """Return the program. Raises NoRoomError with a remedy if the program does not fit on the card."""
    schedule = config.schedule(layers)
    device.check_room(
        schedule.device_bytes, "give a smaller --depth, fewer layers that are --resident, or less --reserve"
    )
    return schedule


def check_beside_layers(context: click.Context, has_layers: bool, own: type[msgspec.Struct]) -> None:
    """Raise InputError for options of a workload beside layers, and for those of layers (``own``) without them."""
    streamed = OF_WORKLOADS if own is LayerOptions else (*OF_WORKLOADS, "memory")  # the best is pinned
    if has_layers:
        check_no_part()
    wrong = streamed if has_layers else [name for name in own.__struct_fields__ if name != "layers"]
    for name in wrong:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            if has_layers:
                what = "a workload" if name == "workload" else option
                raise InputError(f"{what}: does not go with --layers, which are streamed, not cut; leave it out")
            raise InputError(f"{option}: needs layers; add --layers FILE")
