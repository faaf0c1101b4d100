"""PyTorch and its profiler, for probes of the cost of recording: calls of training and inference."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from streamsim.device import PYTORCH, SHAPES, STACK

FEATURES, ROWS, LAYERS = 64, 32, 4  # so small that the card is done long before the host
OPTIONS = {PYTORCH: {}, SHAPES: {"record_shapes": True}, STACK: {"with_stack": True}}


class PytorchRecorded:
    """A small net, its optimizer and copies, recorded by ``torch.profiler`` with some options."""

    def __init__(self, name: str, device: int) -> None:
        import torch

        torch.cuda.set_device(device)
        self.name, self._torch = name, torch
        self.version = f"PyTorch {torch.__version__}, its profiler"
        self.synchronize = torch.cuda.synchronize
        layers = [torch.nn.Linear(FEATURES, FEATURES) for _ in range(LAYERS)]
        self._net = torch.nn.Sequential(*layers).cuda()
        self._x = torch.randn(ROWS, FEATURES, device="cuda")
        self._host = torch.zeros(ROWS, FEATURES).pin_memory()
        self._optimizer = torch.optim.AdamW(self._net.parameters())
        self._backward()
        self.kinds: Mapping[str, Callable[[], object]] = {
            "forward": self._forward,
            "forward and backward": self._backward,
            "optimizer": self._optimizer.step,
            "autocast": self._autocast,
            "zero gradients": lambda: self._optimizer.zero_grad(set_to_none=False),
            "copy in": lambda: self._x.copy_(self._host, non_blocking=True),
            "new copy in": lambda: self._host.to("cuda", non_blocking=True),
            "copy out": lambda: self._host.copy_(self._x, non_blocking=True),
            "operation": lambda: self._x.add(1.0),
        }

    def recording(self) -> AbstractContextManager[Any]:
        profiler = self._torch.profiler
        activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        found: AbstractContextManager[Any] = profiler.profile(activities=activities, **OPTIONS[self.name])
        return found

    def _forward(self) -> None:
        with self._torch.no_grad():
            self._net(self._x)

    def _backward(self) -> None:
        self._net(self._x).sum().backward()

    def _autocast(self) -> None:
        with self._torch.no_grad(), self._torch.autocast("cuda"):
            self._net(self._x)


def recorded_works(device: int) -> Iterator[PytorchRecorded]:
    """Yield PyTorch's profiler in each way that a profile knows, if PyTorch is installed and sees the card."""
    try:
        import torch

        if not torch.cuda.is_available():
            return
    except ImportError:
        return
    for name in OPTIONS:
        yield PytorchRecorded(name, device)
