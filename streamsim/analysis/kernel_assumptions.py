"""What is taken for granted of kernels, where more about them would change what they are predicted to take."""

from msgspec.structs import replace

from streamsim.device import Device
from streamsim.program import Launch, Workload, WorkloadKernel
from streamsim.text import format_seconds

DECIDES = 0.25  # of a kernel's time: what is less is not worth a line
MOST = 0.5  # of what all launches take


def kernel_assumptions(workload: Workload, chunks: int, device: Device, launch: Launch = "live") -> list[str]:
    """A line for each of them that decides a quarter of a kernel's time.

    A time of the whole that lies beyond those given, launches shorter than the device's least, parts that take less
    than their share or, by the latency given, than in so few threads, and a number of threads not told, of which more
    would take less in so many chunks. And of several launches, whose they are.
    """
    found = []
    for kernel in (kernel for kernel in workload.kernels if kernel.is_timed):
        alone, whole_s = replace(workload, kernels=(kernel,)).in_chunks(chunks), kernel.whole_s(workload.work)
        name = f"kernel {kernel.name!r}"
        if kernel.launches > 1 and chunks > 1:
            found.append(_whose_launches(kernel, alone, chunks, device, launch))
        said = f"{name}: {format_seconds(whole_s)} over everything"
        if kernel.is_extrapolated(workload.work):
            found.append(f"{said}, on the line through the times given; say what the whole takes where you know it")
        least_s = _least_s(kernel.launches, device, launch)
        if least_s > (1 + DECIDES) * whole_s:
            several = f"{kernel.launches} launches take" if kernel.launches > 1 else "a launch takes"
            found.append(f"{said} is less than {several} on this device: {format_seconds(least_s)} are taken")
        elif kernel.points:
            cut_s = _cut_s(alone, chunks, device)
            if cut_s < (1 - DECIDES) * whole_s:
                parts = f"cut into {chunks} {format_seconds(cut_s)} in all, by the times of parts that are given"
                found.append(f"{said}, and {parts}")
        elif kernel.per == "chunk" and (kernel.latency_s or not kernel.threads):
            found += _by_threads(alone, name, chunks, device)
    return found


def _whose_launches(kernel: WorkloadKernel, alone: Workload, chunks: int, device: Device, launch: Launch) -> str:
    """How many launches a chunk makes, what all take, and whether the least times of launches are most of that."""
    each, all_s = alone.launches_of_chunk, _cut_s(alone, chunks, device)
    if kernel.per == "chunk":
        taken = f"all {each:,} launches (per=chunk)"
        other = "; if each launch belongs to an item, say per=item"
    else:
        taken = f"{each:,} of the {kernel.launches:,} launches (per=item)"
        other = "; if each chunk goes through all of them, say per=chunk"
    least_s = chunks * _least_s(each, device, launch)
    least = f", of which {format_seconds(least_s)} are the least times of launches" if least_s > MOST * all_s else ""
    return (
        f"kernel {kernel.name!r}: each of {chunks} chunks makes {taken}, {format_seconds(all_s)} in all{least}{other}"
    )


def _least_s(launches: int, device: Device, launch: Launch) -> float:
    """Least seconds of so many launches behind each other; in a graph only the first has the card's least time."""
    behind_s = device.compute.floor_s if launch == "live" else device.compute.graph_gap_s
    return device.compute.floor_s + (launches - 1) * behind_s


def _by_threads(alone: Workload, name: str, chunks: int, device: Device) -> list[str]:
    """Return a line if as few threads as given or assumed take longer than many, or than the latency says."""
    (kernel,) = alone.kernels
    few_s = _cut_s(replace(alone, kernels=(replace(kernel, latency_s=0.0),)), chunks, device)
    many = {} if kernel.latency_s else {"elements": 0, "threads": 0}  # without threads as many as one likes
    many_s = _cut_s(alone, chunks, device, **many)
    if few_s <= (1 + DECIDES) * many_s:
        return []
    threads, by_few, by_many = f"{alone.threads(kernel):,}", format_seconds(few_s), format_seconds(many_s)
    if kernel.latency_s:
        what = f"{by_many} in all by its latency, and {by_few} by its {threads} threads: the latency is taken"
    else:
        what = f"{by_few} in all, with more threads {by_many}: it is taken to have {threads} of them"
    return [
        f"{name}: launched in parts it takes {what}; where you know it, say threads=N or a part's time, as 9us@1/64"
    ]


def _cut_s(alone: Workload, chunks: int, device: Device, **change: int) -> float:
    """Seconds of all launches of the workload's only kernel in so many chunks, one after another; or changed ones."""
    launches = ((part.many, replace(alone.launches(part)[0], **change)) for part in alone.cut(chunks))
    return alone.kernels[0].launches * sum(many * device.kernel_time(launch)[0] for many, launch in launches)
