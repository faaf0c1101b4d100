"""Streamed layers in PyTorch, as ``streamsim code`` writes them, measured on a card and beside their predictions.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before:

    cd validate; python -m campaigns.layers --seed 7 profile.toml

makes uneven linear layers, times each alone, places them in three shares of their memory with ``best_offload``, runs
the programs of what it says to use, and beside them that of all layers in pageable memory, and prints what was
predicted and what was measured.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streamsim import Layer, Layers, WorkloadKernel, best_offload, load_device, simulate
from streamsim.code import code_of_layers
from streamsim.device import Device, with_front_end
from streamsim.program import Offload
from streamsim.text import format_bytes, format_seconds

Runner = Callable[[str], dict[str, Any]]  # the text of a program -> the JSON that it prints

FLOAT_BYTES = 4
SMALLEST, LARGEST = 1 << 23, 1 << 26  # floats of a layer: copies of 0.6 to 5 ms
SHARES = (0.25, 0.5, 0.75)  # of the weights: the card's memory for them
RESERVE_BYTES = 2 << 30  # what layers compute on
REPEAT = 20


class Row(NamedTuple):
    """A way to place the layers, what was predicted of it, and what its program took and held; times in seconds.

    ``limit_bytes``: for weights; None: of the program in pageable memory.
    """

    config: Offload
    limit_bytes: int | None
    predicted_s: float
    measured_s: float
    card_bytes: int

    @property
    def error(self) -> float:
        """The error of the prediction, as a share of the measured time."""
        return self.predicted_s / self.measured_s - 1

    def __str__(self) -> str:
        limit = "pageable" if self.limit_bytes is None else format_bytes(self.limit_bytes)
        times = f"predicted {format_seconds(self.predicted_s)}  measured {format_seconds(self.measured_s)}"
        held = f"{len(self.config.resident):2} stay, {format_bytes(self.card_bytes)} on the card"
        return f"{limit:>10}  depth {self.config.depth}, {held}  {times}  {self.error:+.1%}"


def drawn(seed: int, count: int) -> Layers:
    """Return uneven layers whose times are not known yet."""
    rng = random.Random(seed)
    sizes = [int(SMALLEST * (LARGEST / SMALLEST) ** rng.random()) for _ in range(count)]
    return Layers(tuple(Layer(FLOAT_BYTES * n, (WorkloadKernel(duration_s=1e-3),)) for n in sizes))


def run(text: str) -> dict[str, Any]:
    """Return what a program prints, in a process of its own. Raises RuntimeError when it fails or is not verified."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "offload.py"
        path.write_text(text)
        call = [sys.executable, str(path), "--repeat", str(REPEAT)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def timed(layers: Layers, runner: Runner) -> Layers:
    """Return the layers with the time that each takes alone on the card."""
    stay = tuple(step.name for step in layers.steps)
    seconds = runner(code_of_layers(layers, Offload(1, stay)))["layer_s"]
    known = [
        msgspec.structs.replace(layer, kernels=(WorkloadKernel(duration_s=taken),))
        for layer, taken in zip(layers.layers, seconds, strict=True)
    ]
    return msgspec.structs.replace(layers, layers=tuple(known))


def experiment(layers: Layers, device: Device, runner: Runner = run) -> tuple[Layers, list[Row]]:
    """Return the layers timed, and a row for each limit; last, one for pageable memory.

    ``device``: as calibrated just before.
    """
    layers = timed(layers, runner)
    card = with_front_end(device, "pytorch")
    ways: list[tuple[Offload, int | None, float]] = []
    for share in SHARES:
        limit = max(int(share * layers.weight_bytes), max(step.weight_bytes for step in layers.steps))
        found = best_offload(layers, card, limit + RESERVE_BYTES, RESERVE_BYTES).simplest
        ways.append((found.config, limit, found.makespan_s))
    pageable = Offload(1, (), "pageable")
    ways.append((pageable, None, simulate(pageable.schedule(layers), card).makespan_s))
    rows = []
    for config, limit_bytes, predicted_s in ways:
        said = runner(code_of_layers(layers, config))
        rows.append(Row(config, limit_bytes, predicted_s, statistics.median(said["wall_s"]), said["card_bytes"]))
    return layers, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    _, rows = experiment(drawn(given.seed, 24), load_device(given.profile))
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
