"""On a real card: layers that do not fit take what is predicted of them, and far less than from pageable memory."""

import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamsim import Layer, Layers, WorkloadKernel, load_device
from streamsim.code import code_of_layers
from streamsim.device import with_front_end
from streamsim.program import Offload
from streamsim.search import best_offload

pytestmark = pytest.mark.gpu

SMALLEST, LARGEST = 1 << 25, 1 << 28  # bytes of a layer: copies of 0.6 to 5 ms
RESERVE_BYTES = 2 << 30  # what layers compute on


def run(path: Path, layers: Layers, config: Offload) -> dict[str, Any]:
    """What the program of these layers prints, in a process of its own."""
    path.write_text(code_of_layers(layers, config))
    done = subprocess.run([sys.executable, path, "--repeat", "20"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_uneven_layers_in_three_memories_take_what_is_predicted(tmp_path: Path) -> None:
    """24 linear layers of 32 to 256 MiB in a quarter, a half and three quarters of their memory: within 5 %."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    profile, program = tmp_path / "my.toml", tmp_path / "offload.py"
    call = [sys.executable, "-m", "streamsim_validate", "calibrate", "-o", str(profile)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    card, rng = with_front_end(load_device(profile), "pytorch"), random.Random(7)
    sizes = [4 * int(SMALLEST / 4 * (LARGEST / SMALLEST) ** rng.random()) for _ in range(24)]
    layers = Layers(tuple(Layer(size, (WorkloadKernel(duration_s=1e-3),)) for size in sizes))
    alone_s = run(program, layers, Offload(1, tuple(step.name for step in layers.steps)))["layer_s"]
    timed = (
        msgspec.structs.replace(layer, kernels=(WorkloadKernel(duration_s=seconds),))
        for layer, seconds in zip(layers.layers, alone_s, strict=True)
    )
    layers = msgspec.structs.replace(layers, layers=tuple(timed))
    pageable = Offload(1, (), "pageable")
    pageable_s = statistics.median(run(program, layers, pageable)["wall_s"])
    for share in (0.25, 0.5, 0.75):
        limit = max(int(share * layers.weight_bytes), max(sizes))
        found = best_offload(layers, card, limit + RESERVE_BYTES, RESERVE_BYTES).simplest
        said = run(program, layers, found.config)
        measured_s = statistics.median(said["wall_s"])
        print(f"{share:.0%}: {found.config}: predicted {found.makespan_s:.4g} s, measured {measured_s:.4g} s")
        assert said["card_bytes"] <= limit + RESERVE_BYTES
        assert abs(found.makespan_s / measured_s - 1) < 0.05
        assert measured_s < pageable_s
