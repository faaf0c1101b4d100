"""Array libraries as programs call them: the calls of a chunk's loop, each by itself, for probes of what they cost.

Small slices, so that the card is done long before the host. A library is imported when its calls are made ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

SLICES, SLICE = 64, 1024  # of an array of floats
STREAMS = 4


class Calls(Protocol):
    """The calls of a library; ``turn`` counts, and chooses the slices, the stream and the event."""

    name: str  # of the front end
    version: str  # of the library, in words

    def copy_in(self, turn: int) -> None:
        """A slice of pinned memory to one on the card, and the slice that kernels read."""

    def copy_out(self, turn: int) -> None:
        """And back, and the slice that kernels write."""

    def kernel(self, turn: int) -> None:
        """An operation on the latest slices, element by element."""

    def record(self, turn: int) -> None:
        """An event."""

    def wait(self, turn: int) -> None:
        """For an event that was recorded."""

    def entered(self, turn: int) -> AbstractContextManager[Any]:
        """The block that makes a stream the current one."""

    def synchronize(self) -> None:
        """With the whole device."""


def _slice(turn: int) -> slice:
    first = turn % SLICES * SLICE
    return slice(first, first + SLICE)


class CupyCalls:
    """CuPy's arrays: ``set``, ``get`` and an ElementwiseKernel."""

    name = "cupy"

    def __init__(self, device: int) -> None:
        import cupy
        import cupyx

        cupy.cuda.Device(device).use()
        self.version = f"CuPy {cupy.__version__}"
        self._host = cupyx.zeros_pinned(SLICES * SLICE, np.float32)
        self._x, self._y = cupy.zeros(SLICES * SLICE, np.float32), cupy.zeros(SLICES * SLICE, np.float32)
        self._kernel = cupy.ElementwiseKernel("float32 x, int32 n", "float32 y", "y = x * n", "streamsim_probe")
        self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
        self._events = [cupy.cuda.Event(disable_timing=True) for _ in range(SLICES)]
        self._read, self._written = self._x[_slice(0)], self._y[_slice(0)]
        self.synchronize = cupy.cuda.Device().synchronize

    def copy_in(self, turn: int) -> None:
        self._x[_slice(turn)].set(self._host[_slice(turn)])
        self._read = self._x[_slice(turn)]

    def copy_out(self, turn: int) -> None:
        self._y[_slice(turn)].get(out=self._host[_slice(turn)], blocking=False)
        self._written = self._y[_slice(turn)]

    def kernel(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._kernel(self._read, 2, self._written)

    def record(self, turn: int) -> None:
        self._events[turn % SLICES].record(self._streams[turn % STREAMS])

    def wait(self, turn: int) -> None:
        self._streams[turn % STREAMS].wait_event(self._events[turn % SLICES])

    def entered(self, turn: int) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._streams[turn % STREAMS]
        return stream


class PytorchCalls:
    """PyTorch's tensors: ``copy_(..., non_blocking=True)`` and an eager operation."""

    name = "pytorch"

    def __init__(self, device: int) -> None:
        import torch

        torch.cuda.set_device(device)
        self.version = f"PyTorch {torch.__version__}"
        self._host = torch.zeros(SLICES * SLICE).pin_memory()
        self._x, self._y = (torch.zeros(SLICES * SLICE, device="cuda") for _ in range(2))
        self._operation, self._entering = torch.sin, torch.cuda.stream
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self._events = [torch.cuda.Event() for _ in range(SLICES)]
        self._read, self._written = self._x[_slice(0)], self._y[_slice(0)]
        self.synchronize = torch.cuda.synchronize

    def copy_in(self, turn: int) -> None:
        self._x[_slice(turn)].copy_(self._host[_slice(turn)], non_blocking=True)
        self._read = self._x[_slice(turn)]

    def copy_out(self, turn: int) -> None:
        self._host[_slice(turn)].copy_(self._y[_slice(turn)], non_blocking=True)
        self._written = self._y[_slice(turn)]

    def kernel(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._operation(self._read, out=self._written)

    def record(self, turn: int) -> None:
        self._events[turn % SLICES].record(self._streams[turn % STREAMS])

    def wait(self, turn: int) -> None:
        self._streams[turn % STREAMS].wait_event(self._events[turn % SLICES])

    def entered(self, turn: int) -> AbstractContextManager[Any]:
        block: AbstractContextManager[Any] = self._entering(self._streams[turn % STREAMS])
        return block


def installed_libraries(device: int) -> Iterator[Calls]:
    """The libraries that can be imported and that see the card of that number."""
    for library in (CupyCalls, PytorchCalls):
        try:
            yield library(device)
        except (ImportError, RuntimeError, AssertionError):  # PyTorch built without CUDA asserts that it has it
            continue
