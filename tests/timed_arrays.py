"""Stand-ins of CuPy and PyTorch on a clock of their own."""

import sys
import time
from collections.abc import Callable
from typing import Any

import fake_arrays
import pytest
from fake_arrays import Card, fake_cupy, fake_torch

CALL_S = 1e-6
ROUND_S = 1e-9  # of a float
MINE = {  # by language: kernels of one's own, of seven rounds
    "cupy": """
import cupy
code = "for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);"
mine = cupy.ElementwiseKernel("float32 x, int32 rounds", "float32 y", code)

def kernels(x, y):
    mine(x, 7, y)
""",
    "pytorch": """
import torch

def kernels(x, y):
    torch.special.legendre_polynomial_p(x, 7, out=y)
""",
}


class Library:
    """Stand-ins for CuPy and PyTorch on an emulated card, and a clock on which calls and rounds take time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.card = Card()
        self.computed_s = 0.0
        for name in ("logistic", "legendre"):
            patch.setattr(fake_arrays, name, self._counted(getattr(fake_arrays, name)))
        for name, module in (fake_cupy(self.card) | fake_torch(self.card)).items():
            patch.setitem(sys.modules, name, module)
        patch.setattr(time, "perf_counter", self.now_s)

    def now_s(self) -> float:
        return CALL_S * len(self.card.log) + self.computed_s

    def _counted(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def counted(values: Any, rounds: int) -> Any:
            self.computed_s += ROUND_S * rounds * values.size
            return compute(values, rounds)

        return counted
