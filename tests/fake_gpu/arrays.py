"""CuPy and PyTorch on the card, so that programs written for them run where there is neither.

They know the calls that such programs make and no others. Each call of a pipeline is logged, and its bytes move when
the card is synchronised. So a missing wait shows as output that is not verified. Calls and rounds take time on the
card's clock.
"""

# ruff: noqa: ARG001, ARG005 - the libraries' arguments, whether emulated or not

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from fake_gpu.card import CALL_NS, LEGACY, Call, Card

ROUND_NS = 1  # of a float
CALL_S, ROUND_S = CALL_NS * 1e-9, ROUND_NS * 1e-9
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


def rounds(card: Card, compute: Callable[..., np.ndarray], values: np.ndarray, count: int) -> np.ndarray:
    """What a kernel of so many rounds computes, which takes time."""
    card.clock.take(ROUND_NS * count * values.size)
    return compute(values, count)


def issue(card: Card, call: Call, work: Callable[[], None]) -> None:
    """A call in the current stream."""
    card.called(*call, card.number(card.current))
    card.add(card.current, work)


def copy(card: Card, direction: str, on_card: np.ndarray, host: np.ndarray) -> None:
    assert on_card.shape == host.shape, (on_card.shape, host.shape)
    to, source = (on_card, host) if direction == "h2d" else (host, on_card)
    issue(card, (direction, host.nbytes, _offset(host), _offset(on_card)), lambda: np.copyto(to, source))


def _offset(array: np.ndarray) -> int:
    """Of a view, in bytes, in the array that it is of."""
    return array.ctypes.data - array.base.ctypes.data if isinstance(array.base, np.ndarray) else 0


def fill(card: Card, array: np.ndarray, value: float) -> None:
    """Not of a pipeline, so not logged; of the legacy stream, as both libraries have it."""
    card.add(LEGACY, lambda: array.fill(value))


def fetched(card: Card, array: np.ndarray) -> np.ndarray:
    """A copy for the host, which waits for the card."""
    card.synchronise()
    return array.copy()


class Time:
    """A program's module ``time``: that it reads the clock is logged."""

    def __init__(self, card: Card) -> None:
        self._card = card

    def perf_counter(self) -> float:
        self._card.called("clock")
        return self._card.clock.seconds()


class Stream:
    """``cupy.cuda.Stream`` and ``torch.cuda.Stream``."""

    def __init__(self, card: Card, address: int | None = None) -> None:
        self.card, self.ptr = card, card.stream("non-blocking") if address is None else address
        self._before: list[int] = []

    def __enter__(self) -> Stream:
        self._before.append(self.card.current)
        self.card.current = self.ptr
        return self

    def __exit__(self, *_: object) -> None:
        self.card.current = self._before.pop()

    def record(self) -> Event:
        event = Event(self.card)
        event.record(self)
        return event

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record())

    def wait_event(self, event: Event) -> None:
        self.card.called("wait", event.address, self.card.number(self.ptr))
        self.card.wait(self.ptr, event.address)

    def synchronize(self) -> None:
        self.card.called("synchronise", "stream", self.card.number(self.ptr))
        self.card.synchronise(self.ptr)

    def begin_capture(self) -> None:
        self.card.called("capture")
        self.card.begin_capture(self.ptr)

    def end_capture(self) -> Graph:
        self.card.called("captured")
        return Graph(self.card, self.card.end_capture(self.ptr))


class Graph(NamedTuple):
    """``cupy.cuda.Graph``."""

    card: Card
    address: int

    def launch(self, stream: Stream) -> None:
        self.card.called("graph")
        self.card.launch_graph(self.address, stream.ptr)


class Event:
    """``cupy.cuda.Event`` and ``torch.cuda.Event``."""

    def __init__(self, card: Card) -> None:
        self.card, self.address = card, card.event()

    def record(self, stream: Stream) -> None:
        self.card.called("record", self.address, self.card.number(stream.ptr))
        self.card.record(self.address, stream.ptr)

    def synchronize(self) -> None:
        self.card.called("synchronise", "event", self.address)
        self.card.synchronise(event=self.address)


def synchronise(card: Card) -> None:
    card.called("synchronise")
    card.synchronise()


class CuPyArray:
    """``cupy.ndarray``, whose floats are ``values``."""

    def __init__(self, card: Card, values: np.ndarray) -> None:
        self.card, self.values, self.size, self.nbytes = card, values, values.size, values.nbytes
        self.data = SimpleNamespace(ptr=Address.of(values))

    def __getitem__(self, part: slice) -> CuPyArray:
        return CuPyArray(self.card, self.values[part])

    def fill(self, value: float) -> None:
        fill(self.card, self.values, value)

    def set(self, host: np.ndarray) -> None:
        self.card.refuse_capture()
        copy(self.card, "h2d", self.values, host)

    def get(self, out: np.ndarray | None = None, blocking: bool = True) -> np.ndarray:
        self.card.refuse_capture()
        if out is None:
            return fetched(self.card, self.values)
        copy(self.card, "d2h", self.values, out)
        if blocking:
            Stream(self.card, self.card.current).synchronize()
        return out


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

    def __init__(self, card: Card, pinned: list[np.ndarray]) -> None:
        self.card, self.pinned = card, pinned

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        assert kind == 4, "cudaMemcpyDefault"
        part, address = (to, source) if isinstance(to, Address) else (source, to)
        assert isinstance(part, Address)
        if size == 0:
            return
        whole = next(a for a in self.pinned if a.ctypes.data <= address < a.ctypes.data + a.nbytes)
        first, floats = (address - whole.ctypes.data) // whole.itemsize, size // whole.itemsize
        with Stream(self.card, stream):
            copy(self.card, "h2d" if part is to else "d2h", part.values[:floats], whole[first : first + floats])


def logistic(value: np.ndarray, rounds: int) -> np.ndarray:
    """What the stand-in of the programs computes."""
    for _ in range(rounds):
        value = np.float32(3.7) * value * (1 - value)
    return value


def fake_cupy(card: Card) -> dict[str, Any]:
    """The modules ``cupy`` and ``cupyx``."""
    pinned: list[np.ndarray] = []

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
                found = rounds(card, logistic, mean, arguments[len(self.read)])
                for to in written:
                    to[:] = found[: to.size]

            issue(card, ("kernel",), work)

    cuda = SimpleNamespace(
        Stream=lambda non_blocking: Stream(card),
        Event=lambda disable_timing: Event(card),
        Device=lambda: SimpleNamespace(synchronize=partial(synchronise, card)),
        runtime=Runtime(card, pinned),
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
        pinned.append(np.full(n, 77, dtype))
        return pinned[-1]

    return {"cupy": cupy, "cupyx": SimpleNamespace(empty_pinned=empty_pinned)}


class Tensor:
    """``torch.Tensor``, on the host or on the card."""

    def __init__(self, card: Card, data: np.ndarray, on_card: bool) -> None:
        self.card, self.data, self.on_card = card, data, on_card

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(self.card, self.data[part], self.on_card)

    def numel(self) -> int:
        return self.data.size

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        if not self.on_card and not source.on_card:
            np.copyto(self.data, source.data)
            return
        assert self.on_card is not source.on_card
        if self.on_card:
            copy(self.card, "h2d", self.data, source.data)
        else:
            copy(self.card, "d2h", source.data, self.data)
        if not non_blocking:
            Stream(self.card, self.card.current).synchronize()

    def uniform_(self) -> None:
        assert not self.on_card
        self.data[:] = np.random.default_rng(0).random(self.data.size, np.float32)

    def zero_(self) -> None:
        self.fill_(0)

    def fill_(self, value: float) -> None:
        if self.on_card:
            fill(self.card, self.data, value)
        else:
            self.data.fill(value)

    def clone(self) -> Tensor:
        return Tensor(self.card, self.data.copy(), False)

    def cpu(self) -> Tensor:
        return Tensor(self.card, fetched(self.card, self.data), False)


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
            issue(card, ("kernel",), lambda: np.copyto(out.data, compute(*read, **more)))

        return call

    def empty(n: int, device: str = "cpu", pin_memory: bool = False) -> Tensor:
        return Tensor(card, np.full(n, 77, np.float32), device == "cuda")

    def rand(n: int, device: str = "cpu", pin_memory: bool = False) -> Tensor:
        return Tensor(card, rng.random(n, np.float32), device == "cuda")

    class CUDAGraph:
        captured: Graph

        def replay(self) -> None:
            self.captured.launch(Stream(card, card.current))

    @contextmanager
    def graph(made: CUDAGraph, stream: Stream) -> Iterator[None]:
        card.synchronise()
        stream.begin_capture()
        with stream:
            yield
        made.captured = stream.end_capture()

    cuda = SimpleNamespace(
        Stream=partial(Stream, card),
        Event=partial(Event, card),
        stream=lambda stream: stream,
        default_stream=lambda: Stream(card, LEGACY),
        synchronize=partial(synchronise, card),
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
        special=SimpleNamespace(legendre_polynomial_p=operation(partial(rounds, card, legendre))),
    )
    return {"torch": torch}


def installed(patch: pytest.MonkeyPatch) -> Card:
    """A card on which both libraries are there to import, and whose clock is the program's."""
    card = Card()
    for name, module in (fake_cupy(card) | fake_torch(card)).items():
        patch.setitem(sys.modules, name, module)
    patch.setattr(time, "perf_counter", card.clock.seconds)
    return card
