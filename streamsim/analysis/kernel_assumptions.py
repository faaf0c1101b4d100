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
    """A line for each of them that decides a quarter of a kernel's time.

    A time of the whole that lies beyond those given, launches shorter than the device's least, parts that take less
    than their share, and a number of threads not told, of which more would take less in so many chunks.
    """
    found = []
    for kernel in (kernel for kernel in workload.kernels if kernel.is_timed):
        alone, whole_s = replace(workload, kernels=(kernel,)), kernel.whole_s(workload.work)
        said = f"kernel {kernel.name!r}: {format_seconds(whole_s)} over everything"
        if kernel.is_extrapolated(workload.work):
            found.append(f"{said}, on the line through the times given; say what the whole takes where you know it")
        least_s = kernel.launches * device.compute.floor_s
        if least_s > (1 + DECIDES) * whole_s:
            several = f"{kernel.launches} launches take" if kernel.launches > 1 else "a launch takes"
            found.append(f"{said} is less than {several} on this device, {format_seconds(least_s)}: that is taken")
        elif kernel.points or kernel.latency_s or kernel.threads:
            found += _by_parts(alone, kernel, chunks, device, said)
        else:
            found += _by_threads(alone, kernel, chunks, device)
    return found


def _cut_s(alone: Workload, kernel: WorkloadKernel, chunks: int, device: Device, **change: int) -> float:
    """Seconds of all launches of the workload's only kernel in so many chunks, one after another; or changed ones."""
    parts = alone.cut(chunks)
    launches = (replace(alone.launches(part)[0], **change) for part in parts)
    each = (part.many * device.kernel_time(launch)[0] for part, launch in zip(parts, launches, strict=True))
    return kernel.launches * sum(each)


def _by_parts(alone: Workload, kernel: WorkloadKernel, chunks: int, device: Device, said: str) -> list[str]:
    cut_s = _cut_s(alone, kernel, chunks, device)
    if cut_s >= (1 - DECIDES) * kernel.whole_s(alone.work):
        return []
    return [f"{said}, and cut into {chunks} {format_seconds(cut_s)} in all, by the times of parts that are given"]


def _by_threads(alone: Workload, kernel: WorkloadKernel, chunks: int, device: Device) -> list[str]:
    took_s = _cut_s(alone, kernel, chunks, device)
    many_s = _cut_s(alone, kernel, chunks, device, elements=0, threads=0)  # without threads as many as one likes
    if took_s <= (1 + DECIDES) * many_s:
        return []
    return [
        f"kernel {kernel.name!r}: launched in parts it takes {format_seconds(took_s)} in all, with more threads"
        f" {format_seconds(many_s)}: it is taken to have {alone.threads(kernel):,} of them; where you know it, say"
        " threads=N or what a part takes, such as 9us@1/64"
    ]
