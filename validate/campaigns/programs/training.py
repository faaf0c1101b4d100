"""Training in PyTorch: each step copies a batch and its labels to the card, runs forward and backward, and updates."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.profiler import record_function

from campaigns.programs.rounds import Work, main

Batch = tuple[Any, Any]
Loop = Callable[["Trainer", list[Batch]], float]

STEPS, ROWS, FEATURES, HIDDEN, CLASSES = 8, 1024, 4096, 2048, 1000
RATE = 1e-2


class Trainer:
    """The model and what a step does with a batch that is on the card."""

    def __init__(self) -> None:
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)).to("cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)

    def step(self, x: Any, labels: Any) -> Any:
        self.optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(self.model(x), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


# The loops, as one writes them; each gives the mean loss


def one_by_one(trainer: Trainer, batches: list[Batch], non_blocking: bool = True, each_loss: bool = False) -> float:
    total = 0.0 if each_loss else torch.zeros((), device="cuda")
    for x, labels in batches:
        loss = trainer.step(x.to("cuda", non_blocking=non_blocking), labels.to("cuda", non_blocking=non_blocking))
        total += loss.item() if each_loss else loss
    return float(total) / len(batches)


def prefetching() -> Loop:
    side = torch.cuda.Stream()

    def ahead(batches: list[Batch]) -> Iterator[Batch]:
        """Batches on the card, each copied while the one before it is worked on."""
        following: Batch | None = None
        for batch in [*batches, None]:
            torch.cuda.current_stream().wait_stream(side)
            here, following = following, None
            for part in here or ():
                part.record_stream(torch.cuda.current_stream())
            if batch is not None:
                with torch.cuda.stream(side):
                    following = (batch[0].to("cuda", non_blocking=True), batch[1].to("cuda", non_blocking=True))
            if here is not None:
                yield here

    def loop(trainer: Trainer, batches: list[Batch]) -> float:
        total = torch.zeros((), device="cuda")
        for x, labels in ahead(batches):
            total += trainer.step(x, labels)
        return float(total) / len(batches)

    return loop


def training(loop: Callable[[], Loop], pinned: bool = True) -> Work:
    torch.manual_seed(3)
    trainer = Trainer()
    batches = [(torch.randn(ROWS, FEATURES), torch.randint(CLASSES, (ROWS,))) for _ in range(STEPS)]
    if pinned:
        batches = [(x.pin_memory(), labels.pin_memory()) for x, labels in batches]
    losses: list[float] = []
    run = partial(loop(), trainer, batches)
    return Work(lambda: losses.append(run()), lambda: math.isfinite(losses[-1]) and losses[-1] < losses[0])


VARIANTS = {
    "pageable": lambda: training(lambda: partial(one_by_one, non_blocking=False), pinned=False),
    "pinned": lambda: training(lambda: partial(one_by_one, non_blocking=False)),
    "async": lambda: training(lambda: one_by_one),
    "each-loss": lambda: training(lambda: partial(one_by_one, each_loss=True)),
    "prefetched": lambda: training(prefetching),
}

if __name__ == "__main__":
    main(VARIANTS, record_function)
