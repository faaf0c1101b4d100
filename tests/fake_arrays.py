"""Stand-ins for CuPy and PyTorch on the emulated card, so that programs written for them run where there is neither.

They know the calls that such programs make and no others, those of streamed layers among them. Each call of a pipeline
is logged, and its bytes move: when the card is synchronised, in a random order that keeps to CUDA's rules
(``fake_cuda``). So a wait that is missing, and weights that a copy has not brought yet or that those of another layer
have taken the place of, show as output that is not verified. On the card's clock calls and rounds take time.
"""

# ruff: noqa: ARG001, ARG005 - the libraries' arguments, whether emulated or not

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cuda import LEGACY, FakeCuda

Call = tuple[Any, ...]
CALL_S = 1e-6
ROUND_S = 1e-9  # of a float
DTYPE = "float32"
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


class Card:
    """The emulated card, the calls so far, the stream that is current, and a clock on which calls and rounds take time.

    ``places``: from what memory of the host it was copied.
    """

    def __init__(self, seed: int = 0) -> None:
        self.cuda = FakeCuda(seed)
        self.log: list[Call] = []
        self.current = LEGACY
        self.numbers = {LEGACY: 0}  # of streams, in the order in which they were made
        self.pinned: list[np.ndarray] = []
        self.places: list[str] = []
        self.computed_s = 0.0

    def now_s(self) -> float:
        return CALL_S * len(self.log) + self.computed_s

    def rounds(self, compute: Callable[..., np.ndarray], values: np.ndarray, rounds: int) -> np.ndarray:
        self.computed_s += ROUND_S * rounds * values.size
        return compute(values, rounds)

    def add(self, call: Call, work: Callable[[], None]) -> None:
        """A call in the current stream."""
        self.log.append((*call, self.numbers[self.current]))
        self.cuda._add(self.current, work)

    def fill(self, array: np.ndarray, value: float) -> None:
        """Not of a pipeline, so not logged; of the legacy stream, as both libraries have it."""
        self.cuda._add(LEGACY, lambda: array.fill(value))

    def copy(self, direction: str, card: np.ndarray, host: np.ndarray) -> None:
        assert card.shape == host.shape, (card.shape, host.shape)
        to, source = (card, host) if direction == "h2d" else (host, card)
        self.add((direction, host.nbytes, _offset(host), _offset(card)), lambda: np.copyto(to, source))

    def perf_counter(self) -> float:
        """The clock of a program."""
        self.log.append(("clock",))
        return float(len(self.log))

    def synchronise(self) -> None:
        self.log.append(("synchronise",))
        self.cuda.deviceSynchronize()

    def fetched(self, array: np.ndarray) -> np.ndarray:
        """A copy for the host, which waits for the card."""
        self.cuda.deviceSynchronize()
        return array.copy()

    @contextmanager
    def within(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream.address
        yield
        self.current = before

    def begin_capture(self, stream: Stream) -> None:
        self.log.append(("capture",))
        self.cuda.streamBeginCapture(stream.address, 0)

    def end_capture(self, stream: Stream) -> int:
        self.log.append(("captured",))
        return self.cuda.graphInstantiate(self.cuda.streamEndCapture(stream.address))

    def launch(self, graph: int, stream: Stream) -> None:
        self.log.append(("graph",))
        self.cuda.graphLaunch(graph, stream.address)


def _offset(array: np.ndarray) -> int:
    """Of a view, in bytes, in the array that it is of."""
    return array.ctypes.data - array.base.ctypes.data if isinstance(array.base, np.ndarray) else 0


class Stream:
    """``cupy.cuda.Stream`` and ``torch.cuda.Stream``."""

    def __init__(self, card: Card, address: int) -> None:
        self.card, self.address = card, address

    @classmethod
    def made(cls, card: Card, is_non_blocking: bool) -> Stream:
        address = card.cuda.streamCreateWithFlags(int(is_non_blocking))
        card.numbers[address] = len(card.numbers)
        return cls(card, address)

    def __enter__(self) -> Stream:
        self._before = [*getattr(self, "_before", []), self.card.current]
        self.card.current = self.address
        return self

    def __exit__(self, *_: object) -> None:
        self.card.current = self._before.pop()

    @property
    def ptr(self) -> int:
        return self.address

    def record(self) -> Event:
        event = Event(self.card)
        event.record(self)
        return event

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record())

    def wait_event(self, event: Event) -> None:
        self.card.log.append(("wait", event.address, self.card.numbers[self.address]))
        self.card.cuda.streamWaitEvent(self.address, event.address)

    def synchronize(self) -> None:
        self.card.log.append(("synchronise", "stream", self.card.numbers[self.address]))
        self.card.cuda.streamSynchronize(self.address)

    def begin_capture(self) -> None:
        self.card.begin_capture(self)

    def end_capture(self) -> SimpleNamespace:
        graph = self.card.end_capture(self)
        return SimpleNamespace(launch=lambda stream: self.card.launch(graph, stream))


class Event:
    """``cupy.cuda.Event`` and ``torch.cuda.Event``."""

    def __init__(self, card: Card) -> None:
        self.card, self.address = card, card.cuda.eventCreateWithFlags(2)

    def record(self, stream: Stream) -> None:
        self.card.log.append(("record", self.address, self.card.numbers[stream.address]))
        self.card.cuda.eventRecord(self.address, stream.address)

    def synchronize(self) -> None:
        self.card.log.append(("synchronise", "event", self.address))
        self.card.cuda.eventSynchronize(self.address)


class CuPyArray:
    """``cupy.ndarray``, whose floats are ``values``."""

    def __init__(self, card: Card, values: np.ndarray) -> None:
        self.card, self.values, self.size, self.nbytes = card, values, values.size, values.nbytes
        self.data = SimpleNamespace(ptr=Address.of(values))

    def __getitem__(self, part: slice) -> CuPyArray:
        return CuPyArray(self.card, self.values[part])

    def fill(self, value: float) -> None:
        self.card.fill(self.values, value)

    def set(self, host: np.ndarray) -> None:
        self._refuse_capture()
        self.card.copy("h2d", self.values, host)

    def get(self, out: np.ndarray | None = None, blocking: bool = True) -> np.ndarray:
        self._refuse_capture()
        if out is None:
            return self.card.fetched(self.values)
        self.card.copy("d2h", self.values, out)
        if blocking:
            Stream(self.card, self.card.current).synchronize()
        return out

    def _refuse_capture(self) -> None:
        if self.card.cuda._capturing:
            raise RuntimeError("the current stream is capturing, so transfers are disallowed")


class Address(int):
    """Where ``values`` are on the card."""

    values: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Address:
        found = cls(values.ctypes.data)
        found.values = values
        return found


class Runtime:
    """``cupy.cuda.runtime``: a copy, which may be captured, from an address to another; one of them is the card's."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        assert kind == 4, "cudaMemcpyDefault"
        card, address = (to, source) if isinstance(to, Address) else (source, to)
        assert isinstance(card, Address)
        if size == 0:
            return
        whole = next(a for a in self.card.pinned if a.ctypes.data <= address < a.ctypes.data + a.nbytes)
        first, floats = (address - whole.ctypes.data) // whole.itemsize, size // whole.itemsize
        with self.card.within(Stream(self.card, stream)):
            self.card.copy("h2d" if card is to else "d2h", card.values[:floats], whole[first : first + floats])


def logistic(value: np.ndarray, rounds: int) -> np.ndarray:
    """What the stand-in of the programs computes."""
    for _ in range(rounds):
        value = np.float32(3.7) * value * (1 - value)
    return value


def fake_cupy(card: Card) -> dict[str, Any]:
    """The modules ``cupy`` and ``cupyx``."""

    class ElementwiseKernel:
        """The mean of all that it reads, through the logistic map, to all that it writes."""

        def __init__(self, read: str, written: str, code: str) -> None:
            *self.read, last = read.split(", ")
            self.written = written.split(", ")
            assert last == "int32 rounds"
            assert re.search(r"for \(int k = 0; k < rounds; \+\+k\) t = 3\.7f \* t \* \(1 - t\);", code)

        def __call__(self, *arguments: Any, size: int | None = None) -> None:
            assert len(arguments) == len(self.read) + 1 + len(self.written)
            arrays = [argument.values for argument in arguments if isinstance(argument, CuPyArray)]
            read, written = arrays[: len(self.read)], arrays[len(self.read) :]
            plain = [a for a, kind in zip(arrays, self.read + self.written, strict=True) if not kind.startswith("raw ")]
            assert (size is None) is bool(plain), "a size is for kernels of raw arrays alone"
            count = plain[0].size if size is None else size
            assert all(array.size == count for array in plain)

            def work() -> None:
                index = np.arange(count)
                mean = np.asarray(sum(a[index % a.size] for a in read)) / np.float32(len(read))
                found = card.rounds(logistic, mean, arguments[len(self.read)])
                for to in written:
                    to[:] = found[: to.size]

            card.add(("kernel",), work)

    cuda = SimpleNamespace(
        Stream=lambda non_blocking: Stream.made(card, non_blocking),
        Event=lambda disable_timing: Event(card),
        Device=lambda: SimpleNamespace(synchronize=card.synchronise),
        runtime=Runtime(card),
        get_current_stream=lambda: Stream(card, card.current),
    )
    cuda.Stream.null = Stream(card, LEGACY)
    cupy = SimpleNamespace(
        cuda=cuda,
        ElementwiseKernel=ElementwiseKernel,
        ndarray=CuPyArray,
        empty=lambda n, dtype: CuPyArray(card, np.full(n, 77, dtype)),
        asarray=lambda values: CuPyArray(card, values.copy()),
    )

    def empty_pinned(n: int, dtype: type) -> np.ndarray:
        card.pinned.append(np.full(n, 77, dtype))
        return card.pinned[-1]

    return {"cupy": cupy, "cupyx": SimpleNamespace(empty_pinned=empty_pinned)}


class Tensor:
    """``torch.Tensor``, on the host, pinned or not, or on the card."""

    is_pinned = False
    dtype = DTYPE
    made_by: tuple[np.ndarray, Tensor] | None = None  # the weights and the input of the linear layer

    def __init__(self, card: Card, data: np.ndarray, on_card: bool) -> None:
        self.card, self.data, self.on_card = card, data, on_card

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: Any) -> Tensor:
        found = self.like(self.data[part])
        found.made_by = self.made_by
        return found

    def like(self, data: np.ndarray) -> Tensor:
        found = Tensor(self.card, data, self.on_card)
        found.is_pinned = self.is_pinned
        return found

    def numel(self) -> int:
        return self.data.size

    def detach(self) -> Tensor:
        return self.like(self.data)

    def requires_grad_(self) -> Tensor:
        return self

    def to(self, device: str = "", dtype: str = DTYPE) -> Tensor:
        assert (device, dtype) == ("cuda", DTYPE)
        return Tensor(self.card, self.data.copy(), True)

    def pin_memory(self) -> Tensor:
        assert not self.on_card
        found = self.clone()
        found.is_pinned = True
        return found

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        if not self.on_card and not source.on_card:
            np.copyto(self.data, source.data)
            return
        assert self.on_card is not source.on_card
        self.card.places.append("pinned" if source.is_pinned else "pageable")
        if self.on_card:
            self.card.copy("h2d", self.data, source.data)
        else:
            self.card.copy("d2h", source.data, self.data)
        if not non_blocking:
            Stream(self.card, self.card.current).synchronize()

    def uniform_(self) -> None:
        assert not self.on_card
        self.data[:] = np.random.default_rng(0).random(self.data.size, np.float32)

    def zero_(self) -> None:
        self.card.fill(self.data, 0)

    def fill_(self, value: float) -> None:
        if self.on_card:
            self.card.fill(self.data, value)
        else:
            self.data.fill(value)

    def clone(self) -> Tensor:
        return Tensor(self.card, self.data.copy(), False)

    def cpu(self) -> Tensor:
        return Tensor(self.card, self.card.fetched(self.data), False)


def legendre(x: np.ndarray, degree: int) -> np.ndarray:
    """By its recurrence."""
    before, value = np.ones_like(x), x.copy()
    for k in range(1, degree):
        before, value = value, ((2 * k + 1) * x * value - k * before) / np.float32(k + 1)
    return value


def fake_torch(card: Card) -> dict[str, Any]:
    """The module ``torch``."""
    rng = np.random.default_rng(0)

    def operation(compute: Callable[..., np.ndarray]) -> Callable[..., None]:
        def call(*arguments: Any, out: Tensor, **more: float) -> None:
            read = [a.data if isinstance(a, Tensor) else a for a in arguments]
            assert out.on_card
            assert all(a.on_card for a in arguments if isinstance(a, Tensor))
            assert np.broadcast_shapes(*(a.shape for a in read if isinstance(a, np.ndarray))) == out.data.shape
            card.add(("kernel",), lambda: np.copyto(out.data, compute(*read, **more)))

        return call

    def empty(n: int, device: str = "cpu", pin_memory: bool = False, dtype: str = DTYPE) -> Tensor:
        return Tensor(card, np.full(n, 77, np.float32), device == "cuda")

    def rand(n: int, device: str = "cpu", pin_memory: bool = False) -> Tensor:
        return Tensor(card, rng.random(n, np.float32), device == "cuda")

    class CUDAGraph:
        executable = 0

        def replay(self) -> None:
            card.launch(self.executable, Stream(card, card.current))

    @contextmanager
    def graph(captured: CUDAGraph, stream: Stream) -> Iterator[None]:
        card.cuda.deviceSynchronize()
        card.begin_capture(stream)
        yield
        captured.executable = card.end_capture(stream)

    cuda = SimpleNamespace(
        Stream=lambda: Stream.made(card, True),
        Event=lambda: Event(card),
        stream=card.within,
        default_stream=lambda: Stream(card, LEGACY),
        synchronize=card.synchronise,
        CUDAGraph=CUDAGraph,
        graph=graph,
    )
    torch = SimpleNamespace(
        cuda=cuda,
        empty=empty,
        rand=rand,
        set_num_threads=lambda count: None,
        equal=lambda a, b: bool(np.array_equal(a.data, b.data)),
        lerp=operation(lambda a, b, weight: a + np.float32(weight) * (b - a)),
        addcmul=operation(lambda a, b, c, value: a + np.float32(value) * b * c),
        special=SimpleNamespace(legendre_polynomial_p=operation(partial(card.rounds, legendre))),
    )
    return {"torch": torch}


# Streamed layers


class Parameter:
    """``torch.nn.Parameter``: its ``data`` may become other floats, of the host or the card, of as many elements."""

    def __init__(self, values: Tensor) -> None:
        self.data, self.shape, self.dtype = values, values.data.shape, values.dtype


class Module:
    """``torch.nn.Module``: parameters and modules are found among its attributes, in their order."""

    def parameters(self) -> Iterator[Parameter]:
        for value in vars(self).values():
            if isinstance(value, Parameter):
                yield value
            elif isinstance(value, Module):
                yield from value.parameters()

    def to(self, device: str) -> None:
        for parameter in self.parameters():
            parameter.data = parameter.data.to(device)

    def __call__(self, x: Tensor) -> Tensor:
        found: Tensor = self.forward(x)  # type: ignore[attr-defined]
        return found


def parameters_to_vector(parameters: Iterable[Parameter]) -> Tensor:
    several = [parameter.data for parameter in parameters]
    assert not any(one.on_card for one in several)
    return Tensor(several[0].card, np.concatenate([one.data.ravel() for one in several]), False)


def vector_to_parameters(vector: Tensor, parameters: Iterable[Parameter]) -> None:
    first = 0
    for parameter in parameters:
        count = int(np.prod(parameter.shape))
        parameter.data = vector.like(vector.data[first : first + count].reshape(parameter.shape))
        first += count


class Linear(Module):
    """``torch.nn.Linear`` without a bias; ``normal_`` gives it its weights."""

    def __init__(self, card: Card, features: int, outputs: int, bias: bool) -> None:
        assert not bias
        assert outputs >= 1
        self.weight = Parameter(Tensor(card, np.full((outputs, features), np.nan, np.float32), False))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.data
        assert weight.on_card
        assert x.on_card
        found = Tensor(x.card, np.full((len(x.data), len(weight.data)), np.nan, np.float32), True)
        taken, weights = x.data, weight.data  # where they are now: what is there may change until it runs
        x.card.add(("kernel",), lambda: np.copyto(found.data, taken @ weights.T))
        found.made_by = weights, x
        return found


def grad(y: Tensor, x: Tensor, gradient: Tensor) -> tuple[Tensor]:
    """``torch.autograd.grad`` through linear layers and the first of their outputs, a kernel for each layer."""
    while y is not x:
        assert y.made_by
        assert gradient.on_card
        weights, source = y.made_by
        found = Tensor(x.card, np.full(source.data.shape, np.nan, np.float32), True)
        compute = partial(np.matmul, gradient.data, weights[: gradient.data.shape[1]], out=found.data)
        x.card.add(("kernel",), compute)
        y, gradient = source, found
    return (gradient,)


class Sequential(Module):
    """``torch.nn.Sequential``."""

    def __init__(self, *layers: Module) -> None:
        self.layers = layers

    def parameters(self) -> Iterator[Parameter]:
        for layer in self.layers:
            yield from layer.parameters()

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    def __getitem__(self, k: int) -> Module:
        return self.layers[k]


def fake_torch_with_layers(card: Card) -> dict[str, Any]:
    """The modules ``torch``, ``torch.nn``, ``torch.nn.utils`` and ``torch.utils.benchmark``."""
    rng = np.random.default_rng(0)

    def on_host(values: np.ndarray) -> Tensor:
        return Tensor(card, values.astype(np.float32), False)

    def normal_(parameter: Parameter, std: float) -> None:
        parameter.data = on_host(np.asarray(std * rng.normal(size=parameter.shape)))

    utils = SimpleNamespace(parameters_to_vector=parameters_to_vector, vector_to_parameters=vector_to_parameters)
    nn = SimpleNamespace(
        Module=Module,
        Parameter=Parameter,
        Linear=partial(Linear, card),
        Sequential=Sequential,
        init=SimpleNamespace(normal_=normal_),
        utils=utils,
    )
    torch = fake_torch(card)["torch"]
    torch.nn = nn
    torch.set_grad_enabled, torch.enable_grad = lambda mode: None, nullcontext
    torch.autograd = SimpleNamespace(grad=grad)
    torch.zeros = lambda n: on_host(np.zeros(n))
    torch.randn = lambda *shape: on_host(np.asarray(rng.normal(size=shape)))
    torch.cuda.max_memory_allocated = lambda: 4096
    benchmark = SimpleNamespace(Timer=_Timer)
    return {"torch": torch, "torch.nn": nn, "torch.nn.utils": utils, "torch.utils.benchmark": benchmark}


class _Timer:
    """``torch.utils.benchmark.Timer``: a millisecond goes by for all runs together."""

    def __init__(self, stmt: str, globals: dict[str, Any]) -> None:
        self._statement, self._globals = stmt, globals

    def timeit(self, number: int) -> SimpleNamespace:
        for _ in range(number):
            exec(self._statement, dict(self._globals))
        return SimpleNamespace(mean=1e-3 / number)


def installed(patch: pytest.MonkeyPatch) -> Card:
    """A card on which both libraries are there to import, and whose clock is the program's."""
    card = Card()
    for name, module in (fake_cupy(card) | fake_torch(card)).items():
        patch.setitem(sys.modules, name, module)
    patch.setattr(time, "perf_counter", card.now_s)
    return card
