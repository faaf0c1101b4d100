"""What the tests of explanations share."""

from collections.abc import Iterator

from strategies import make_device

from streamsim.advice import Explanation, Trial, advise
from streamsim.device import Device
from streamsim.program import Schedule, Workload, WorkloadKernel
from streamsim.transform import Origin, Work

PLAIN = make_device()
WORKLOAD = Workload(1 << 24, (4,), (4,), (WorkloadKernel("kernel", 0.57e-3),))


def lost(explanation: Explanation) -> dict[str, int]:
    """Ticks by cause, above the bound."""
    return {loss.cause: loss.ticks for loss in explanation.losses if loss.ticks}


def tried(work: Work, source: Origin | None = None) -> Iterator[tuple[str, Trial, tuple[Schedule, Device]]]:
    """Every single change that is tried: against which cause, its trial, and the changed program."""
    for trial in advise(*work[:2], source, budget_ops=0).alone:
        assert trial.against is not None
        yield trial.against, trial, trial.work[:2]
