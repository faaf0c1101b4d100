"""Inference in PyTorch: batches to the card, a small network, scores back.

The ``small`` variants are of a deep network with few features, whose calls take the host longer than the card.
"""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch.profiler import record_function

from campaigns.programs.rounds import Work, main

Loop = Callable[[Any, list[Any], list[Any]], object]

BATCHES, ROWS, FEATURES, CLASSES = 16, 768, 2048, 512
SMALL_BATCHES, SMALL_ROWS, SMALL_FEATURES, SMALL_LAYERS = 8, 64, 256, 16


# The loops, as one writes them


def one_by_one(
    model: Any, batches: list[Any], scores: list[Any], non_blocking: bool = True, synchronised: bool = False
) -> None:
    for batch, score in zip(batches, scores, strict=True):
        score.copy_(model(batch.to("cuda", non_blocking=non_blocking)), non_blocking=non_blocking)
        if synchronised:
            torch.cuda.synchronize()
    if non_blocking and not synchronised:
        torch.cuda.synchronize()


def over_streams(count: int) -> Loop:
    streams = [torch.cuda.Stream() for _ in range(count)]

    def loop(model: Any, batches: list[Any], scores: list[Any]) -> None:
        for batch, score, stream in zip(batches, scores, cycle(streams), strict=False):
            with torch.cuda.stream(stream):
                score.copy_(model(batch.to("cuda", non_blocking=True)), non_blocking=True)
        torch.cuda.synchronize()

    return loop


def as_graph(model: Any, batches: list[Any], scores: list[Any]) -> Callable[[], None]:
    """Of all batches; what a graph needs to be there is made by a run outside it, in a stream of its own."""
    apart = torch.cuda.Stream()
    with torch.cuda.stream(apart):
        model(batches[0].to("cuda", non_blocking=True))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for batch, score in zip(batches, scores, strict=True):
            score.copy_(model(batch.to("cuda", non_blocking=True)), non_blocking=True)

    def run() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return run


# What they work on


def is_right(model: Any, batches: list[Any], scores: list[Any]) -> bool:
    return all(
        torch.allclose(model(batch.to("cuda")).cpu(), score, rtol=1e-3, atol=1e-4)
        for batch, score in zip(batches, scores, strict=True)
    )


def large(loop: Callable[[], Loop], pinned: bool = True) -> Work:
    torch.manual_seed(1)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, CLASSES)).to("cuda")
    batches = [torch.randn(ROWS, FEATURES) for _ in range(BATCHES)]
    scores = [torch.zeros(ROWS, CLASSES) for _ in range(BATCHES)]
    if pinned:
        batches, scores = [one.pin_memory() for one in batches], [one.pin_memory() for one in scores]
    return Work(partial(loop(), model, batches, scores), partial(is_right, model, batches, scores))


def small(loop: Loop | None) -> Work:
    """Return it as a graph if there is no loop."""
    torch.manual_seed(2)
    nn, size = torch.nn, (SMALL_ROWS, SMALL_FEATURES)
    layers = [nn.Sequential(nn.Linear(SMALL_FEATURES, SMALL_FEATURES), nn.ReLU()) for _ in range(SMALL_LAYERS)]
    model = nn.Sequential(*layers).to("cuda")
    batches = [torch.randn(size).pin_memory() for _ in range(SMALL_BATCHES)]
    scores = [torch.zeros(size).pin_memory() for _ in range(SMALL_BATCHES)]
    run = as_graph(model, batches, scores) if loop is None else partial(loop, model, batches, scores)
    return Work(run, partial(is_right, model, batches, scores))


VARIANTS = {
    "pageable": lambda: large(lambda: partial(one_by_one, non_blocking=False), pinned=False),
    "pinned": lambda: large(lambda: partial(one_by_one, non_blocking=False)),
    "async": lambda: large(lambda: one_by_one),
    "synchronised": lambda: large(lambda: partial(one_by_one, synchronised=True)),
    "streams-2": lambda: large(lambda: over_streams(2)),
    "streams-4": lambda: large(lambda: over_streams(4)),
    "small": lambda: small(one_by_one),
    "small-synchronised": lambda: small(partial(one_by_one, synchronised=True)),
    "small-graph": lambda: small(None),
}

if __name__ == "__main__":
    with torch.inference_mode():
        main(VARIANTS, record_function)
