"""How often a program enters a stream: the model's count of it against the blocks that a program goes through."""

from typing import Any

import pytest
from code_calls import measured, runs_of
from fake_gpu import arrays
from fake_gpu.arrays import Time, fake_cupy
from fake_gpu.card import Card
from strategies import make_device

from streamsim import Config, Workload, WorkloadKernel
from streamsim.code import code_of
from streamsim.lowering import lower
from streamsim.program import Schedule
from streamsim.rules import ticks

ENTER_TICKS = 1000
DEVICE = make_device(enter=ENTER_TICKS)
SHAPES = [(2, 1), (3, 1), (3, 2), (5, 2), (4, 3), (6, 3)]  # chunks, streams; of 3 and 2 the last is in the first one
WORKLOADS = [
    Workload(24, (4,) * n_in, (4,) * n_out, (WorkloadKernel(duration_s=1e-6),) * kernels)
    for n_in, n_out in ((1, 1), (2, 1), (1, 2), (1, 0), (0, 1))
    for kernels in (1, 2)
]


def entered_by(text: str, patch: pytest.MonkeyPatch) -> int:
    """Blocks that the last run of the program goes through."""
    card, enter = Card(), arrays.Stream.__enter__

    def logged(stream: Any) -> Any:
        card.called("enter")
        return enter(stream)

    with patch.context() as logging:
        logging.setattr(arrays.Stream, "__enter__", logged)
        assert measured(text, fake_cupy(card), {"repeat": 1, "work": 1}, time=Time(card))["verified"]
    runs, _ = runs_of(card.log, is_graph=False, repeat=1)
    return runs[-1].count(("enter",))


def entered_in(schedule: Schedule) -> int:
    """As the model has it, whose other calls cost nothing but what the profile says."""
    free = lower(schedule, make_device(enter=0)).call
    return (sum(lower(schedule, DEVICE).call) - sum(free)) // ticks(ENTER_TICKS * 1e-9)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("chunks", "streams"), SHAPES)
def test_the_model_enters_as_often_as_the_program(
    workload: Workload, chunks: int, streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for order, buffers in (("depth-first", None), ("breadth-first", None), ("depth-first", 2)):
        config = Config(order, chunks, streams, buffers)  # type: ignore[arg-type]
        text = code_of(workload, config, "cupy")
        assert entered_by(text, monkeypatch) == entered_in(config.schedule(workload)), config
