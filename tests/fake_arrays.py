"""Stand-ins for CuPy and PyTorch on the emulated card, so that programs written for them run where there is neither.

They know the calls that such programs make and no others. Each call of a pipeline is logged, and its bytes move: when
the card is synchronised, in a random order that keeps to CUDA's rules (``fake_cuda``), so that a wait that is missing
shows as output that is not verified.
"""

# ruff: noqa: ARG001, ARG005 - the libraries' arguments, whether emulated or not

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_cuda import LEGACY, FakeCuda

Call = tuple[Any, ...]


class Card:
    """The emulated card, the calls so far, and the stream that is current."""

    def __init__(self, seed: int = 0) -> None:
        self.cuda = FakeCuda(seed)
        self.log: list[Call] = []
        self.current = LEGACY
        self.numbers = {LEGACY: 0}  # of streams, in the order in which they were made
        self.pinned: list[np.ndarray] = []

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
                for to in written:
                    to[:] = logistic(mean, arguments[len(self.read)])[: to.size]

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
        assert not self.on_card
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

    def empty(n: int, device: str = "cpu", pin_memory: bool = False) -> Tensor:
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
        special=SimpleNamespace(legendre_polynomial_p=operation(legendre)),
    )
    return {"torch": torch}
