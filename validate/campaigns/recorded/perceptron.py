"""A layer and its readout in PyTorch, chunk by chunk of one tensor: two matrix products between the copies.

The ``small`` variants are of chunks of few rows, whose calls take the host longer than the card.
"""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch.profiler import record_function

from campaigns.recorded.rounds import Work, main

CHUNKS, FEATURES, ROWS, SMALL_ROWS = 16, 1024, 1024, 64


def in_chunks(x: Any, y: Any, weights: tuple[Any, Any], streams: list[Any], non_blocking: bool) -> None:
    layer, readout = weights
    for given, found, stream in zip(x, y, cycle(streams), strict=False):
        with torch.cuda.stream(stream):
            hidden = torch.relu(given.to("cuda", non_blocking=non_blocking) @ layer)
            found.copy_(hidden @ readout, non_blocking=non_blocking)
    torch.cuda.synchronize()


def is_right(x: Any, y: Any, weights: tuple[Any, Any]) -> bool:
    layer, readout = weights
    wanted = (torch.relu(given.to("cuda") @ layer) @ readout for given in x)
    return all(torch.allclose(one.cpu(), found, rtol=1e-3, atol=1e-2) for one, found in zip(wanted, y, strict=True))


def work(rows: int, pinned: bool = True, non_blocking: bool = True, streams: int = 1) -> Work:
    torch.manual_seed(3)
    x, y = torch.randn(CHUNKS, rows, FEATURES), torch.zeros(CHUNKS, rows, FEATURES)
    if pinned:
        x, y = x.pin_memory(), y.pin_memory()
    weights = torch.randn(FEATURES, FEATURES, device="cuda"), torch.randn(FEATURES, FEATURES, device="cuda")
    over = [torch.cuda.Stream() for _ in range(streams)]
    return Work(partial(in_chunks, x, y, weights, over, non_blocking), partial(is_right, x, y, weights))


HOW: dict[str, dict[str, Any]] = {
    "pageable": {"pinned": False, "non_blocking": False},
    "pinned": {"non_blocking": False},
    "async": {},
    "streams-2": {"streams": 2},
    "streams-4": {"streams": 4},
}
VARIANTS = {name: partial(work, ROWS, **how) for name, how in HOW.items()} | {
    f"small-{name}": partial(work, SMALL_ROWS, **how) for name, how in HOW.items()
}

if __name__ == "__main__":
    main(VARIANTS, record_function)
