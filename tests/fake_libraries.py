"""PyTorch and CuPy as far as ``campaigns.recorded`` calls them, on the card that is not there (``fake_cupti``).

``install`` shows them to a Python process. No values are computed; what is asked of the card is recorded, and takes as
long as that card takes. Backward passes are asked for by a thread of their own, as PyTorch's are.
"""

# ruff: noqa: ARG001, ARG005 - the libraries' names and arguments, whether used here or not

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_cupti as card
import numpy as np
from fake_cupti import NULL_STREAM

CALL_OF_TORCH_NS = 5000  # before each call: what a front end does
PAGEABLE, PINNED = 1, 2
FILES = {
    "torch/__init__.py": "import sys, fake_libraries\nfake_libraries.fill_torch(sys.modules[__name__])\n",
    "torch/autograd/__init__.py": "",
    "torch/autograd/profiler.py": "from fake_libraries import record_function\n",
    "torch/profiler.py": "from torch.autograd.profiler import record_function\n",
    "cupy_backends/__init__.py": "",
    "cupy_backends/cuda/__init__.py": "",
    "cupy_backends/cuda/libs/__init__.py": "",
    "cupy_backends/cuda/libs/nvtx.py": "def RangePush(message, id_color=-1): pass\n"
    "def RangePushC(message, color): pass\ndef RangePop(): pass\n",
    "cupy/__init__.py": "import sys, fake_libraries\nfake_libraries.fill_cupy(sys.modules[__name__])\n",
    "cupyx/__init__.py": "from fake_libraries import zeros_pinned\n",
    "cupyx/profiler.py": "from contextlib import contextmanager\nfrom cupy_backends.cuda.libs import nvtx\n\n"
    "@contextmanager\ndef time_range(message):\n    nvtx.RangePush(message)\n    yield\n    nvtx.RangePop()\n",
}


def install(folder: Path) -> None:
    """Into a folder that ``fake_cupti.install`` has made; the clock of programs is the card's."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with (folder / "sitecustomize.py").open("a") as file:
        file.write("import time\ntime.perf_counter = lambda: 1e-9 * fake_cupti.now[0]\n")


# The card's streams


class Stream:
    """Of either library."""

    def __init__(self, number: int | None = None, **_: object) -> None:
        self.ptr = card.stream() if number is None else number
        self._before: list[int] = []

    def __enter__(self) -> Stream:
        self._before.append(current[0])
        current[0] = self.ptr
        return self

    def __exit__(self, *_: object) -> None:
        current[0] = self._before.pop()

    def record(self) -> None: ...

    def wait_event(self, _: object) -> None: ...

    def wait_stream(self, _: object) -> None: ...

    def synchronize(self) -> None:
        wait(self.ptr)

    def begin_capture(self) -> None:
        captured.append([])

    def end_capture(self) -> Graph:
        return Graph(captured.pop())


class Graph:
    """Work that is launched with one call."""

    def __init__(self, work: list[Callable[[int], None]] | None = None) -> None:
        self.work = work or []

    def launch(self, _: object = None) -> None:
        correlation = card._call("cudaGraphLaunch_v10000")
        for one in self.work:
            one(correlation)

    replay = launch


current = [NULL_STREAM]
captured: list[list[Callable[[int], None]]] = []


def copy(size: int, direction: int, memory: int, stream: int | None = None) -> None:
    """To the card (1) or from it (2), in the current stream or the graph that is captured."""
    to = current[0] if stream is None else stream
    card.sleep_ns(CALL_OF_TORCH_NS)
    if not captured:
        return card.copy(size, to, direction, memory)
    kinds = {"src_kind": memory, "dst_kind": 3} if direction == 1 else {"src_kind": 3, "dst_kind": memory}
    fields = {"bytes": size, "copy_kind": direction, "graph_id": 1, **kinds}
    captured[-1].append(lambda call: card._work(card.ActivityKind.MEMCPY, to, call, **fields))
    return None


def launch(name: str) -> None:
    """A kernel."""
    to = current[0]
    card.sleep_ns(CALL_OF_TORCH_NS)
    if not captured:
        return card.launch(name, to)
    fields = {"name": name, "graph_id": 1, "grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1}
    captured[-1].append(
        lambda call: card._work(card.ActivityKind.CONCURRENT_KERNEL, to, call, **{**fields, "block_z": 1})
    )
    return None


def wait(stream: int | None = None) -> None:
    """The host, for a stream, if not for the current one."""
    own = current[0] if stream is None else stream
    start = card.now[0]
    correlation = card._call("cudaStreamSynchronize_v3020", card.CALL_NS + max(card.ends[own] - start, 0))
    where = {"context_id": card.CONTEXT, "stream_id": own, "correlation_id": correlation}
    nothing = {"cuda_event_id": card.NONE_32, "cuda_event_sync_id": card.NONE_64, "type": 3}
    card.emit(card.record(card.ActivityKind.SYNCHRONIZATION, start=start, end=card.now[0], **where, **nothing))


# PyTorch


class record_function:  # noqa: N801 - its name
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *_: object) -> None: ...


class Tensor:
    """A shape, and where it is: on the card (0), in pageable or in pinned memory."""

    def __init__(self, shape: tuple[int, ...], memory: int = PAGEABLE) -> None:
        self.shape, self.memory = shape, memory

    @property
    def nbytes(self) -> int:
        return 4 * math.prod(self.shape)

    def __iter__(self) -> Iterator[Tensor]:
        return (Tensor(self.shape[1:], self.memory) for _ in range(self.shape[0]))

    def to(self, _: str, non_blocking: bool = False) -> Tensor:
        found = Tensor(self.shape, 0)
        return self if self.memory == 0 else found.copy_(self, non_blocking)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        assert self.shape == source.shape, (self.shape, source.shape)
        copy(self.nbytes, 2 if source.memory == 0 else 1, source.memory or self.memory)
        if not non_blocking:
            wait()
        return self

    def cpu(self) -> Tensor:
        return Tensor(self.shape)

    def pin_memory(self) -> Tensor:
        return Tensor(self.shape, PINNED)

    def view(self, shape: tuple[int, ...]) -> Tensor:
        assert math.prod(shape) == math.prod(self.shape)
        return Tensor(shape, self.memory)

    def record_stream(self, _: Stream) -> None: ...

    def detach(self) -> Tensor:
        return self

    def __float__(self) -> float:
        copy(4, 2, PAGEABLE)
        wait()
        return 1e6 / card.now[0]  # falls

    def item(self) -> float:
        return float(self)

    def backward(self) -> None:
        def launches() -> None:
            for name in ("gemm_backward", "relu_backward", "gemm_backward"):
                launch(name)

        thread = threading.Thread(target=launches)
        thread.start()
        thread.join()

    def __iadd__(self, other: Tensor) -> Tensor:
        return self._computed("add", self.shape, other)

    def __mul__(self, _: float) -> Tensor:
        return self

    def __matmul__(self, other: Tensor) -> Tensor:
        assert self.shape[-1] == other.shape[0]
        return self._computed("gemm", (*self.shape[:-1], other.shape[1]), other)

    def _computed(self, name: str, shape: tuple[int, ...], *others: Tensor) -> Tensor:
        assert not self.memory
        assert not any(other.memory for other in others)
        launch(name)
        return Tensor(shape, 0)


class Module:
    def __init__(self, *layers: Any) -> None:
        self.layers = layers

    def to(self, _: str) -> Module:
        return self

    def parameters(self) -> list[Tensor]:
        return []

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def _linear(features: int, outputs: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x @ Tensor((features, outputs), 0)


def _made(*shape: Any, device: str = "") -> Tensor:
    shape = shape[0] if isinstance(shape[0], tuple) else shape
    return Tensor(shape, 0 if device == "cuda" else PAGEABLE)


class _Optimizer:
    def __init__(self, _: object, lr: float) -> None: ...

    def zero_grad(self, set_to_none: bool) -> None: ...

    def step(self) -> None:
        launch("sgd")


@contextmanager
def _captured(graph: Graph) -> Iterator[None]:
    captured.append([])
    yield
    graph.work = captured.pop()


def fill_torch(torch: Any) -> None:
    """The names of the module."""
    torch.manual_seed = lambda _: None
    torch.randn = torch.zeros = torch.empty = _made
    torch.randint = lambda _, size: Tensor(size)
    torch.allclose = lambda a, b, rtol, atol: a.shape == b.shape
    torch.relu = lambda x: x._computed("relu", x.shape)
    torch.inference_mode = nullcontext
    functional = SimpleNamespace(cross_entropy=lambda x, labels: x._computed("loss", (), labels))
    relu = lambda: torch.relu  # noqa: E731 - a class there
    torch.nn = SimpleNamespace(Linear=_linear, ReLU=relu, Sequential=Module, functional=functional)
    torch.optim = SimpleNamespace(SGD=_Optimizer)
    torch.cuda = SimpleNamespace(
        Stream=Stream,
        Event=lambda: SimpleNamespace(record=lambda _: None),
        synchronize=card.synchronize,
        stream=lambda stream: stream,
        current_stream=lambda: Stream(current[0]),
        CUDAGraph=Graph,
        graph=_captured,
    )


# CuPy


class Array:
    """``cupy.ndarray``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.data = shape, SimpleNamespace(ptr=0)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, k: int) -> Array:
        if k >= self.shape[0]:
            raise IndexError(k)
        return Array(self.shape[1:])

    def reshape(self, rows: int, _: int) -> Array:
        assert math.prod(self.shape) % rows == 0
        return Array((rows, math.prod(self.shape) // rows))

    def set(self, values: Any) -> None:
        assert not captured
        assert values.shape == self.shape
        copy(values.nbytes, 1, _memory(values))

    def get(self, out: Any = None, blocking: bool = True) -> Any:
        if out is None:
            return np.zeros(self.shape, "float32")
        assert not captured
        copy(out.nbytes, 2, _memory(out))
        if blocking:
            wait()
        return out


pinned: list[Any] = []


def zeros_pinned(shape: tuple[int, ...], dtype: str) -> Any:
    pinned.append(np.zeros(shape, dtype))
    return pinned[-1]


def _memory(values: Any) -> int:
    return PINNED if any(np.shares_memory(values, one) for one in pinned) else PAGEABLE


def _memcpy(to: int, source: int, size: int, kind: int, stream: int) -> None:
    assert kind == 4
    copy(size, 2 if source == 0 else 1, PINNED, stream)


def fill_cupy(cupy: Any) -> None:
    """The names of the module."""
    cupy.empty = lambda shape, dtype: Array(shape)
    cupy.asarray = lambda values: Array(values.shape)
    cupy.sin = lambda x, out: launch("sin")
    cupy.add = lambda x, y, out: launch("add")
    cupy.cuda = SimpleNamespace(
        Stream=Stream,
        Device=lambda: SimpleNamespace(synchronize=card.synchronize),
        runtime=SimpleNamespace(memcpyAsync=_memcpy),
    )
