"""A network whose weights are on the host: every pass copies each layer's to the card before the layer runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.profiler import record_function

from campaigns.recorded.rounds import Work, main

Pass = Callable[[list[Any], Any, Any], object]

LAYERS, ROWS, WIDE, NARROW = 12, 2048, 4096, 2048


# A pass, as one writes it


def blocking(weights: list[Any], x: Any, result: Any) -> None:
    for weight in weights:
        x = torch.relu(x @ weight.to("cuda"))
    result.copy_(x)


def non_blocking(weights: list[Any], x: Any, result: Any) -> None:
    for weight in weights:
        x = torch.relu(x @ weight.to("cuda", non_blocking=True))
    result.copy_(x)


def prefetching(weights: list[Any]) -> Pass:
    """Return two buffers in turn, filled in a stream of their own."""
    side = torch.cuda.Stream()
    buffers = [torch.empty(WIDE * NARROW, device="cuda") for _ in range(2)]
    loaded, free = [torch.cuda.Event() for _ in weights], [torch.cuda.Event() for _ in weights]

    def load(k: int, weight: Any) -> Any:
        with torch.cuda.stream(side):
            if k >= len(buffers):
                side.wait_event(free[k - len(buffers)])
            there = buffers[k % len(buffers)].view(weight.shape)
            there.copy_(weight, non_blocking=True)
            loaded[k].record(side)
        return there

    def loop(weights: list[Any], x: Any, result: Any) -> None:
        main_stream = torch.cuda.current_stream()
        following = load(0, weights[0])
        for k in range(len(weights)):
            weight = following
            if k + 1 < len(weights):
                following = load(k + 1, weights[k + 1])
            main_stream.wait_event(loaded[k])
            x = torch.relu(x @ weight)
            free[k].record(main_stream)
        result.copy_(x)

    return loop


def passes(make: Callable[[list[Any]], Pass], pinned: bool = True) -> Work:
    torch.manual_seed(4)
    shapes = [(NARROW, WIDE) if k % 2 == 0 else (WIDE, NARROW) for k in range(LAYERS)]
    weights = [torch.randn(shape) * (2 / shape[0]) ** 0.5 for shape in shapes]
    result = torch.zeros(ROWS, NARROW)
    if pinned:
        weights, result = [weight.pin_memory() for weight in weights], result.pin_memory()
    x = torch.randn(ROWS, NARROW, device="cuda")

    def is_right() -> bool:
        expected = x
        for weight in weights:
            expected = torch.relu(expected @ weight.to("cuda"))
        return bool(torch.allclose(expected.cpu(), result, rtol=1e-2, atol=1e-3))

    return Work(partial(make(weights), weights, x, result), is_right)


VARIANTS = {
    "pageable": lambda: passes(lambda _: blocking, pinned=False),
    "pinned": lambda: passes(lambda _: blocking),
    "async": lambda: passes(lambda _: non_blocking),
    "prefetched": lambda: passes(prefetching),
}

if __name__ == "__main__":
    main(VARIANTS, record_function, torch.inference_mode())
