"""The sizes and kernels of the suites' workloads."""

from streamsim.program import Workload, WorkloadKernel

KI, MI = 1 << 10, 1 << 20
# Iterations of sincos for kernels of about a tenth, a third, one and four times a copy of the same elements
# (on an H200 over PCIe gen 5; elsewhere the shares differ and the suite is as good).
LIGHT, SMALL, EVEN, HEAVY = 2, 10, 40, 176
SLEEP_CYCLES = 100_000


def sincos(elements: int, iterations: int, inputs: tuple[int, ...] = (4,), outputs: tuple[int, ...] = (4,)) -> Workload:
    """Return a workload of one sincos kernel."""
    return Workload(elements, inputs, outputs, (WorkloadKernel("sincos", parameter=iterations),))
