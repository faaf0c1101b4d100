"""What the tests of explanations share."""

from strategies import make_device

from streamsim.analysis import Explanation
from streamsim.program import Workload, WorkloadKernel

pass


PLAIN = make_device()
WORKLOAD = Workload(1 << 24, (4,), (4,), (WorkloadKernel("kernel", 0.57e-3),))


def lost(explanation: Explanation) -> dict[str, int]:
    """Ticks by cause, above the bound."""
    return {loss.cause: loss.ticks for loss in explanation.losses if loss.ticks}
