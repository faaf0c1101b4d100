"""What is taken for granted of kernels, where more about them would change what they are predicted to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.text.quantities import format_seconds

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.workload import Workload, WorkloadKernel

DECIDES = 0.25  # of a kernel's time: what is less is not worth a line


def kernel_assumptions(workload: Workload, chunks: int, device: Device) -> list[str]:
    """A line for each of them: a time of the whole that lies beyond those given, and a number of threads not told.

    The latter where the launches of so many chunks, each taken to be of few threads, take a quarter longer in all than
    such of many would.
    """
    found = []
    for kernel in workload.kernels:
        if kernel.is_timed and kernel.is_extrapolated(workload.work):
            found.append(
                f"kernel {kernel.name!r}: {format_seconds(kernel.whole_s(workload.work))} over everything, on the line"
                " through the times given; say what the whole takes where you know it"
            )
        if kernel.is_timed and not (kernel.threads or kernel.points or kernel.latency_s):
            found += _by_threads(replace(workload, kernels=(kernel,)), kernel, chunks, device)
    return found


def _by_threads(alone: Workload, kernel: WorkloadKernel, chunks: int, device: Device) -> list[str]:
    """The same of a workload whose only kernel tells no threads."""
    took_s = many_s = 0.0
    for part in alone.cut(chunks):
        launch = alone.launches(part)[0]
        ways = launch, replace(launch, elements=0, threads=0)  # without threads as many as one likes
        few, many = (part.many * kernel.launches * device.kernel_time(way)[0] for way in ways)
        took_s, many_s = took_s + few, many_s + many
    if took_s <= (1 + DECIDES) * many_s:
        return []
    return [
        f"kernel {kernel.name!r}: launched in parts it takes {format_seconds(took_s)} in all, with more threads"
        f" {format_seconds(many_s)}: it is taken to have {alone.threads(kernel):,} of them; where you know it, say"
        " threads=N or what a part takes, such as 9us@1/64"
    ]
