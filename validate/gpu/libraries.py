"""Array libraries as programs call them: calls by themselves, for probes of their cost.

Slices are small, so that the card is done long before the host, but larger than 24 KiB: the host writes a smaller copy
on an empty stream into the command, in a call that takes longer. A library is imported when its calls are made ready.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

SLICES, SLICE = 64, 8192  # of an array of floats
PARTS = [slice(first, first + SLICE) for first in range(0, SLICES * SLICE, SLICE)]  # made beforehand, as in programs
STREAMS = 4
FEATURES = 32  # of a linear layer, and rows
S_PER_MS = 1e-3
SPIN_CYCLES = 20_000_000  # some 10 ms, in which the host makes all calls of a chain
SPIN = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'


class Calls:
    """The calls of a library. ``turn``, below ``SLICES``, chooses the slices, the stream and the event."""

    name: str  # of the front end
    version: str  # of the library, in words
    synchronize: Callable[[], object]  # waits for the whole device
    _streams: list[Any]
    _events: list[Any]

    def copy_in(self, turn: int) -> None:
        """Copy a slice of pinned memory to the card, and take the slice that kernels read."""

    def copy_out(self, turn: int) -> None:
        """Copy a slice back, and take the slice that kernels write."""

    def kernel(self, turn: int) -> None:
        """Run an operation on the latest slices, element by element."""

    def other(self, turn: int) -> None:
        """Run another operation, which nothing else calls: the code of rare calls is cold."""

    def linear(self, turn: int) -> None:
        """Run a linear layer, whose output is new memory. Raises NotImplementedError if the library has none."""
        raise NotImplementedError

    def record(self, turn: int) -> None:
        """Record an event."""
        self._events[turn].record(self._streams[turn % STREAMS])

    def wait(self, turn: int) -> None:
        """Wait in a stream for a recorded event."""
        self._streams[turn % STREAMS].wait_event(self._events[turn])

    def entered(self, turn: int) -> Any:
        """Return a context in which a stream is the current one."""
        return self._streams[turn % STREAMS]


class CupyCalls(Calls):
    """CuPy's arrays: ``set``, ``get`` and an ElementwiseKernel."""

    name = "cupy"

    def __init__(self, device: int) -> None:
        import cupy
        import cupyx

        cupy.cuda.Device(device).use()
        self.version = f"CuPy {cupy.__version__}"
        self._library = cupy
        self._host = cupyx.zeros_pinned(SLICES * SLICE, np.float32)
        self._x, self._y = cupy.zeros(SLICES * SLICE, np.float32), cupy.zeros(SLICES * SLICE, np.float32)
        self._kernel = cupy.ElementwiseKernel("float32 x, int32 n", "float32 y", "y = x * n", "streamsim_probe")
        self._other = cupy.ElementwiseKernel("float32 x, int32 n", "float32 y", "y = x + n", "streamsim_other_probe")
        self._streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]
        self._events = [cupy.cuda.Event(disable_timing=True) for _ in range(SLICES)]
        self._read, self._written = self._x[PARTS[0]], self._y[PARTS[0]]
        self.synchronize = cupy.cuda.Device().synchronize

    def copy_in(self, turn: int) -> None:
        self._x[PARTS[turn]].set(self._host[PARTS[turn]])
        self._read = self._x[PARTS[turn]]

    def copy_out(self, turn: int) -> None:
        self._y[PARTS[turn]].get(out=self._host[PARTS[turn]], blocking=False)
        self._written = self._y[PARTS[turn]]

    def kernel(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._kernel(self._read, 2, self._written)

    def other(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._other(self._read, 2, self._written)

    def chain_s(self, launch: Callable[[Any, Any], object], floats: int, length: int) -> float:
        """Return the card's seconds for ``length`` calls of ``launch(x, y)``, all issued before the first one runs.

        ``x`` and ``y`` have ``floats`` floats. ``x`` is random, from 0 to 1, like the programs' inputs: some kernels
        take twice as long over zeros.
        """
        cupy = self._library
        x, y = cupy.asarray(np.random.default_rng(0).random(floats, np.float32)), cupy.empty(floats, np.float32)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.RawKernel(SPIN, "spin")((1,), (1,), (SPIN_CYCLES,))
        begin.record()
        for _ in range(length):
            launch(x, y)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end)) * S_PER_MS


class PytorchCalls(Calls):
    """PyTorch's tensors: ``copy_(..., non_blocking=True)`` and an eager operation."""

    name = "pytorch"

    def __init__(self, device: int) -> None:
        import torch

        torch.cuda.set_device(device)
        self.version = f"PyTorch {torch.__version__}"
        self._library = torch
        self._host = torch.zeros(SLICES * SLICE).pin_memory()
        self._x, self._y = (torch.zeros(SLICES * SLICE, device="cuda") for _ in range(2))
        self._operation, self._entering = torch.sin, torch.cuda.stream
        self._linear = torch.nn.functional.linear
        self._rows, self._weights = (torch.zeros(FEATURES, FEATURES, device="cuda") for _ in range(2))
        self._bias = torch.zeros(FEATURES, device="cuda")
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self._events = [torch.cuda.Event() for _ in range(SLICES)]
        self._read, self._written = self._x[PARTS[0]], self._y[PARTS[0]]
        self.synchronize = torch.cuda.synchronize

    def copy_in(self, turn: int) -> None:
        self._x[PARTS[turn]].copy_(self._host[PARTS[turn]], non_blocking=True)
        self._read = self._x[PARTS[turn]]

    def copy_out(self, turn: int) -> None:
        self._host[PARTS[turn]].copy_(self._y[PARTS[turn]], non_blocking=True)
        self._written = self._y[PARTS[turn]]

    def kernel(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._operation(self._read, out=self._written)

    def other(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._library.mul(self._read, 2.0, out=self._written)

    def linear(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._linear(self._rows, self._weights, self._bias)

    def entered(self, turn: int) -> Any:
        return self._entering(self._streams[turn % STREAMS])

    def chain_s(self, launch: Callable[[Any, Any], object], floats: int, length: int) -> float:
        """Return what :meth:`CupyCalls.chain_s` does."""
        torch = self._library
        x, y = torch.rand(floats, device="cuda"), torch.empty(floats, device="cuda")
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        begin.record()
        for _ in range(length):
            launch(x, y)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * S_PER_MS


class PytorchEagerCalls(PytorchCalls):
    """PyTorch as one writes without thinking of memory: ``to(..., non_blocking=True)``, operations that allocate."""

    name = "pytorch_eager"

    def copy_in(self, turn: int) -> None:
        self._read = self._host[PARTS[turn]].to("cuda", non_blocking=True)

    def copy_out(self, turn: int) -> None:
        self._host[PARTS[turn]].copy_(self._written, non_blocking=True)

    def kernel(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._written = self._operation(self._read)

    def other(self, turn: int) -> None:  # noqa: ARG002 - whichever the turn
        self._written = self._library.mul(self._read, 2.0)


class LinearLayers:
    """PyTorch's linear layers over rows of ``features``, and a ReLU that writes into a given array.

    The results depend on the rows alone.
    """

    def __init__(self, features: int, layers: int) -> None:
        import torch

        self._torch, self._features = torch, features
        generator = torch.Generator("cuda").manual_seed(0)
        random = partial(torch.randn, features, features, device="cuda", generator=generator)
        self._weights = [(features**-0.5 * random(), torch.zeros(features, device="cuda")) for _ in range(layers)]

    def __call__(self, x: Any, y: Any) -> None:
        """Run all layers."""
        rows = x.view(-1, self._features)
        for weights, bias in self._weights:
            rows = self._torch.nn.functional.linear(rows, weights, bias)
        self._torch.clamp_min(rows, 0.0, out=y.view(-1, self._features))

    def layer(self, x: Any, _y: Any) -> None:
        """Run the first layer, whose output is new memory."""
        self._torch.nn.functional.linear(x.view(-1, self._features), *self._weights[0])

    def last(self, x: Any, y: Any) -> None:
        """Run the operation behind the layers."""
        self._torch.clamp_min(x, 0.0, out=y)


Library = CupyCalls | PytorchCalls


def installed_libraries(device: int) -> Iterator[Library]:
    """Yield the installed libraries that see the card of that number, in each way of writing programs."""
    for library in (CupyCalls, PytorchCalls, PytorchEagerCalls):
        try:
            yield library(device)
        except (ImportError, RuntimeError, AssertionError):  # PyTorch built without CUDA asserts that it has it
            continue
