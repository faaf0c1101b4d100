"""A stand-in for what programs of streamed layers call of PyTorch besides, on the emulated card (``fake_arrays``).

Modules, their parameters and linear layers, whose floats move when the card is synchronised, in a random order that
keeps to CUDA's rules: weights that a copy has not brought yet, or that those of another layer have taken the place of,
show as output that is not verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_arrays import Card, Tensor, fake_torch

DTYPE = "float32"


class Floats(Tensor):
    """``torch.Tensor``, as layers' programs use it: in two dimensions, on the host pinned or not, moved to the card."""

    is_pinned = False
    dtype = DTYPE
    made_by: tuple[np.ndarray, Floats] | None = None  # the weights and the input of the linear layer

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: Any) -> Floats:
        found = self._like(self.data[part])
        found.made_by = self.made_by
        return found

    def detach(self) -> Floats:
        return self._like(self.data)

    def requires_grad_(self) -> Floats:
        return self

    def _like(self, data: np.ndarray) -> Floats:
        found = Floats(self.card, data, self.on_card)
        found.is_pinned = self.is_pinned
        return found

    def to(self, device: str = "", dtype: str = DTYPE) -> Floats:
        assert (device, dtype) == ("cuda", DTYPE)
        return Floats(self.card, self.data.copy(), True)

    def pin_memory(self) -> Floats:
        assert not self.on_card
        found = Floats(self.card, self.data.copy(), False)
        found.is_pinned = True
        return found

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        assert isinstance(source, Floats)
        assert isinstance(self.card, LayersCard)
        self.card.places.append("pinned" if source.is_pinned else "pageable")
        super().copy_(source, non_blocking)

    def fill_(self, value: float) -> None:
        assert self.on_card
        self.card.fill(self.data, value)

    def cpu(self) -> Floats:
        return Floats(self.card, self.card.fetched(self.data), False)


class LayersCard(Card):
    """An emulated card that knows from what memory of the host it was copied."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.places: list[str] = []


class Parameter:
    """``torch.nn.Parameter``: its ``data`` may become other floats, of the host or the card, of as many elements."""

    def __init__(self, values: Floats) -> None:
        self._data, self.shape = values, values.data.shape

    @property
    def data(self) -> Floats:
        return self._data

    @data.setter
    def data(self, values: Floats) -> None:
        assert values.data.shape == self.shape
        self._data = values

    @property
    def dtype(self) -> str:
        return self._data.dtype


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

    def __call__(self, x: Floats) -> Floats:
        found: Floats = self.forward(x)  # type: ignore[attr-defined]
        return found


def parameters_to_vector(parameters: Iterable[Parameter]) -> Floats:
    several = [parameter.data for parameter in parameters]
    assert not any(one.on_card for one in several)
    return Floats(several[0].card, np.concatenate([one.data.ravel() for one in several]), False)


def vector_to_parameters(vector: Floats, parameters: Iterable[Parameter]) -> None:
    first = 0
    for parameter in parameters:
        count = int(np.prod(parameter.shape))
        parameter.data = vector._like(vector.data[first : first + count].reshape(parameter.shape))
        first += count


class Linear(Module):
    """``torch.nn.Linear`` without a bias; ``normal_`` gives it its weights."""

    def __init__(self, card: LayersCard, features: int, outputs: int, bias: bool) -> None:
        assert not bias
        assert outputs >= 1
        self.weight = Parameter(Floats(card, np.full((outputs, features), np.nan, np.float32), False))

    def forward(self, x: Floats) -> Floats:
        weight = self.weight.data
        assert weight.on_card
        assert x.on_card
        found = Floats(x.card, np.full((len(x.data), len(weight.data)), np.nan, np.float32), True)
        taken, weights = x.data, weight.data  # where they are now: what is there may change until it runs
        x.card.add(("kernel",), lambda: np.copyto(found.data, taken @ weights.T))
        found.made_by = weights, x
        return found


def grad(y: Floats, x: Floats, gradient: Floats) -> tuple[Floats]:
    """``torch.autograd.grad`` through linear layers and the first of their outputs, a kernel for each layer."""
    while y is not x:
        assert y.made_by
        assert gradient.on_card
        weights, source = y.made_by
        found = Floats(x.card, np.full(source.data.shape, np.nan, np.float32), True)
        _add_gradient(found, gradient.data, weights[: gradient.data.shape[1]])
        y, gradient = source, found
    return (gradient,)


def _add_gradient(found: Floats, taken: np.ndarray, weights: np.ndarray) -> None:
    found.card.add(("kernel",), lambda: np.copyto(found.data, taken @ weights))


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


def fake_torch_with_layers(card: LayersCard) -> dict[str, Any]:
    """The modules ``torch``, ``torch.nn``, ``torch.nn.utils`` and ``torch.utils.benchmark``."""
    rng = np.random.default_rng(0)

    def on_host(values: np.ndarray) -> Floats:
        return Floats(card, values.astype(np.float32), False)

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
    torch.set_grad_enabled, torch.enable_grad = _no_gradients, nullcontext
    torch.autograd = SimpleNamespace(grad=grad)
    torch.zeros = lambda n: on_host(np.zeros(n))
    torch.randn = lambda *shape: on_host(np.asarray(rng.normal(size=shape)))
    torch.empty = partial(_empty, card)
    torch.cuda.max_memory_allocated = lambda: 4096
    benchmark = SimpleNamespace(Timer=_Timer)
    return {"torch": torch, "torch.nn": nn, "torch.nn.utils": utils, "torch.utils.benchmark": benchmark}


def _no_gradients(mode: bool) -> None:
    assert not mode


def _empty(card: LayersCard, n: int, device: str, dtype: str) -> Floats:
    assert (device, dtype) == ("cuda", DTYPE)
    return Floats(card, np.full(n, 77, np.float32), True)


class _Timer:
    """``torch.utils.benchmark.Timer``: a millisecond goes by for all runs together."""

    def __init__(self, stmt: str, globals: dict[str, Any]) -> None:
        self._statement, self._globals = stmt, globals

    def timeit(self, number: int) -> SimpleNamespace:
        for _ in range(number):
            exec(self._statement, dict(self._globals))
        return SimpleNamespace(mean=1e-3 / number)
