"""Stand-ins of the libraries in which programs of the suite are written, on the clock of ``timed_arrays``."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from fake_arrays import CuPyArray, Tensor
from timed_arrays import Library

from streamsim_validate.run import beside, program_runs
from streamsim_validate.suites import program_suite

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Emulated:
    """A library on the clock of the stand-ins: each of its calls, and each launch of a chain, is one of theirs."""

    version = "a library of nobody"

    def __init__(self, name: str, library: Library) -> None:
        self.name, self._library = name, library

    def _call(self, *_: object) -> None:
        self._library.card.log.append(("call",))

    copy_in = copy_out = kernel = linear = record = wait = synchronize = _call

    def entered(self, _turn: int) -> Any:
        self._call()
        return nullcontext()

    def chain_s(self, launch: Callable[[Any, Any], object], floats: int, length: int) -> float:
        zeros = np.zeros(floats, np.float32)
        card = self._library.card
        x, y = (
            CuPyArray(card, zeros.copy()) if self.name == "cupy" else Tensor(card, zeros.copy(), True) for _ in "xy"
        )
        begin_s = time.perf_counter()
        for _ in range(length):
            launch(x, y)
        card.cuda.deviceSynchronize()
        return time.perf_counter() - begin_s


class FakeLayers:
    """In place of linear layers: one operation for each, as the stand-ins count them."""

    def __init__(self, _features: int, layers: int) -> None:
        self._layers = layers

    def __call__(self, x: Any, y: Any) -> None:
        for _ in range(1 + self._layers):
            self.layer(x, y)

    def layer(self, x: Any, y: Any) -> None:
        sys.modules["torch"].special.legendre_polynomial_p(x, 3, out=y)

    last = layer


def emulate(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Both libraries in place of those that are here, small programs, and no nvcc."""
    found = Library(monkeypatch)
    monkeypatch.setattr(program_suite, "ELEMENTS", (2048,))
    monkeypatch.setattr(program_suite, "FEATURES", (32,))
    monkeypatch.setattr(program_suite, "WORK", (2, 3))
    monkeypatch.setattr(
        program_runs, "installed_libraries", lambda _: [Emulated(n, found) for n in ("cupy", "pytorch")]
    )
    monkeypatch.setattr(beside, "LinearLayers", FakeLayers)
    monkeypatch.setenv("PATH", "")  # no nvcc
    return found
