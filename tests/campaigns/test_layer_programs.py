"""How streamed layers are measured beside their predictions: on the emulated card, and with times that are given."""

import sys
from typing import Any

import pytest
from fake_layers import LayersCard, fake_torch_with_layers

from campaigns.layers import RESERVE_BYTES, SHARES, drawn, experiment
from streamsim import Layer, Layers, WorkloadKernel, load_device, simulate
from streamsim.device import with_front_end
from streamsim.program import Offload

DEVICE = load_device("h200")
SMALL = Layers(tuple(Layer(4 * (40 + 7 * n), (WorkloadKernel(duration_s=1.0),)) for n in range(6)))


def emulated(text: str) -> dict[str, Any]:
    """What a program gives on an emulated card; it must be verified."""
    names: dict[str, Any] = {"__name__": "generated"}
    card = LayersCard()
    with pytest.MonkeyPatch.context() as patch:
        for name, module in fake_torch_with_layers(card).items():
            patch.setitem(sys.modules, name, module)
        exec(compile(text, "the program", "exec"), names)
        names["time"] = card
        result: dict[str, Any] = names["measure"](**names["DEFAULTS"] | {"repeat": 3, "rows": 2})
    assert result["verified"]
    return result


def test_the_layers_are_uneven_and_those_of_the_seed() -> None:
    layers = drawn(7, 24)
    assert layers == drawn(7, 24) != drawn(8, 24)
    sizes = [layer.weight_bytes for layer in layers.layers]
    assert len(sizes) == len(set(sizes)) == 24
    assert 4 * (1 << 23) <= min(sizes) < 2 * min(sizes) < max(sizes) <= 4 * (1 << 26)


def test_layers_are_timed_placed_and_run() -> None:
    texts: list[str] = []

    def runner(text: str) -> dict[str, Any]:
        texts.append(text)
        return emulated(text) | {"layer_s": [1e-6 * (k + 1) for k in range(6)], "wall_s": [3e-5, 2e-5, 9e-5]}

    layers, rows = experiment(SMALL, DEVICE, runner)
    assert [layer.kernels[0].duration_s for layer in layers.layers] == [1e-6 * (k + 1) for k in range(6)]
    assert [layer.weight_bytes for layer in layers.layers] == [layer.weight_bytes for layer in SMALL.layers]
    assert len(rows) == len(SHARES) + 1
    card = with_front_end(DEVICE, "pytorch")
    for row in rows:
        assert row.predicted_s == pytest.approx(simulate(row.config.schedule(layers), card).makespan_s)
        assert row.measured_s == 3e-5
        assert row.error == pytest.approx(row.predicted_s / 3e-5 - 1)
        limit = row.limit_bytes
        assert limit is None or row.config.device_bytes(layers) <= limit + RESERVE_BYTES
        assert "measured 30 us" in str(row)
    assert rows[-1].config == Offload(1, (), "pageable")
    assert "RESIDENT = {0, 1, 2, 3, 4, 5}" in texts[0]
    assert [".pin_memory()" in text for text in texts] == [True, True, True, True, False]
