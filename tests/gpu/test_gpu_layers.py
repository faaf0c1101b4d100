"""On a real card: layers that do not fit take what is predicted of them, and far less than from pageable memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.layers import RESERVE_BYTES, drawn, experiment
from streamsim import load_device

pytestmark = pytest.mark.gpu


def test_uneven_layers_in_three_memories_take_what_is_predicted(tmp_path: Path) -> None:
    """24 linear layers of 32 to 256 MiB in a quarter, a half and three quarters of their memory: within 5 %."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    profile = tmp_path / "my.toml"
    call = [sys.executable, "-m", "streamsim_validate", "calibrate", "-o", str(profile)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _, rows = experiment(drawn(7, 24), load_device(profile))
    said = "\n".join(map(str, rows))
    *placed, pageable = rows
    for row in placed:
        assert row.limit_bytes is not None
        assert row.card_bytes <= row.limit_bytes + RESERVE_BYTES, said
        assert abs(row.error) < 0.05, said
        assert row.measured_s < pageable.measured_s, said
