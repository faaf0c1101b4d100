"""The published formulas that people use instead of a model, to be shown beside every prediction.

They take whole stage times and a number of chunks.
"""

from collections import Counter

import msgspec

from streamsim.device import Device
from streamsim.lowering import Lowered, lower
from streamsim.program import Copy, Direction, Schedule
from streamsim.rules import D2H, H2D, KERNEL, NOTHING, TICKS_PER_S


def napkin(h2d_s: float, kernel_s: float, d2h_s: float, chunks: int) -> float:
    """(h + k + d) (n + 2) / (3 n): n equal chunks, three equal stages, two copy engines.

    Half of the serial time at n = 4. Source: the schematic of M. Harris, "How to Overlap Data Transfers in
    CUDA C/C++", NVIDIA, 2012, written out for n chunks.
    """
    return (h2d_s + kernel_s + d2h_s) * (chunks + 2) / (3 * chunks)


def best_practices(transfer_s: float, kernel_s: float, chunks: int) -> float:
    """Add an n-th of the shorter to the longer of the two: max(k + tT/n, tT + k/n).

    Source: NVIDIA, "CUDA C++ Best Practices Guide", Asynchronous and Overlapping Transfers with Computation.
    Its tT is the time of the transfers; here both directions together.
    """
    longer, shorter = max(transfer_s, kernel_s), min(transfer_s, kernel_s)
    return longer + shorter / chunks


def simple_multi_copy(h2d_s: float, kernel_s: float, d2h_s: float, copy_engines: int) -> float:
    """No overlap h + k + d; one copy engine max(h + d, k); two max(h, k, d).

    Source: the theoretical limits that the CUDA sample simpleMultiCopy prints,
    https://github.com/NVIDIA/cuda-samples.
    """
    if copy_engines == 0:
        return h2d_s + kernel_s + d2h_s
    return max(h2d_s + d2h_s, kernel_s) if copy_engines == 1 else max(h2d_s, kernel_s, d2h_s)


def van_werkhoven_transfer(
    latency_s: float, bytes_per_stream: float, s_per_byte: float, gap_s: float, streams: int
) -> float:
    """(L + o) + w G n + g (n - 1): n transfers of w bytes in one direction, in the LogGP model.

    Source: B. van Werkhoven, J. Maassen, F. J. Seinstra, H. E. Bal, "Performance models for CPU-GPU data
    transfers", CCGrid 2014.
    """
    return latency_s + bytes_per_stream * s_per_byte * streams + gap_s * (streams - 1)


def van_werkhoven(h2d_s: float, kernel_s: float, d2h_s: float, chunks: int, copy_engines: int) -> float:
    """Add an n-th of the other stages to the slowest, with both transfer times from the LogGP model.

    One copy engine: the transfers are one stage; none: nothing overlaps. Source: the transfer times as
    :func:`van_werkhoven_transfer`; their overlap with the kernel in the form of the same paper.
    """
    stages = [h2d_s, kernel_s, d2h_s] if copy_engines == 2 else [h2d_s + d2h_s, kernel_s]
    return sum(stages) if copy_engines == 0 else max(stages) + (sum(stages) - max(stages)) / chunks


def gomez_luna(h2d_s: float, kernel_s: float, d2h_s: float, streams: int, per_stream_s: float) -> float:
    """Dominant stage + other / n + n times the cost of a stream; stages: transfers, kernel.

    Source: in the form of J. Gomez-Luna, J. M. Gonzalez-Linares, J. I. Benavides, N. Guil, "Performance models
    for asynchronous data transfers on consumer graphics processing units", JPDC 72(9), 2012.
    """
    transfer_s = h2d_s + d2h_s
    return max(transfer_s, kernel_s) + min(transfer_s, kernel_s) / streams + streams * per_stream_s


class StageTimes(msgspec.Struct, frozen=True):
    """A pipeline as the published formulas see it.

    Seconds of each whole stage alone and in one go; ``*_chunks_s``: the transfers cut into ``chunks`` by the
    LogGP formula; ``issue_s``: the host's calls for one more chunk.
    """

    h2d_s: float
    kernel_s: float
    d2h_s: float
    h2d_chunks_s: float
    d2h_chunks_s: float
    chunks: int
    streams: int
    copy_engines: int
    issue_s: float


def stage_times(schedule: Schedule, device: Device, lowered: Lowered | None = None) -> StageTimes:
    """Add up the copies and the kernels of a schedule.

    The number of chunks is that of the rarest kind of op, since a chunk may have several copies or kernels.
    Raises InputError as :func:`lower_bound`.
    """
    lowered = lower(schedule, device) if lowered is None else lowered
    counts = [lowered.kind.count(kind) for kind in (H2D, KERNEL, D2H)]
    chunks = min((count for count in counts if count), default=1)
    spent = [(lowered.costs[index], count) for index, count in Counter(lowered.cost).items()]
    spent = [(cost, count) for cost, count in spent if cost.kind != NOTHING]

    def transfers_s(direction: Direction, pieces: int) -> float:
        n_bytes = sum(op.bytes for op in schedule.ops if isinstance(op, Copy) and op.direction == direction)
        latency_s, per_byte = getattr(device, direction).latency_s, 1 / getattr(device, direction).bandwidth_bytes_per_s
        return van_werkhoven_transfer(latency_s, n_bytes / pieces, per_byte, latency_s, pieces) if n_bytes else 0.0

    return StageTimes(
        h2d_s=transfers_s("h2d", 1),
        kernel_s=sum(cost.duration * count / TICKS_PER_S for cost, count in spent if cost.kind == KERNEL),
        d2h_s=transfers_s("d2h", 1),
        h2d_chunks_s=transfers_s("h2d", chunks),
        d2h_chunks_s=transfers_s("d2h", chunks),
        chunks=chunks,
        streams=len({op.stream for op, kind in zip(schedule.ops, lowered.kind, strict=True) if kind != NOTHING}),
        copy_engines=device.copy_engines.count,
        issue_s=sum(cost.call * count / TICKS_PER_S for cost, count in spent) / chunks,
    )


# What each formula takes for granted, for people.
FORMULA_WORDS = {
    "napkin": "equal chunks of three equal stages, two copy engines",
    "CUDA best practices guide": "the longer of transfers and kernels, and one chunk of the shorter",
    "simpleMultiCopy": "the longest stage alone, as if everything else were beside it",
    "van Werkhoven 2014": "the slowest stage, and one chunk of the others; transfers by LogGP",
    "Gomez-Luna 2012": "the dominant stage, one chunk of the other, and the host's calls for each stream",
}


def published_of(stages: StageTimes) -> dict[str, float]:
    """Seconds that each published formula predicts, by its name."""
    whole = (stages.h2d_s, stages.kernel_s, stages.d2h_s)
    cut = (stages.h2d_chunks_s, stages.kernel_s, stages.d2h_chunks_s)
    return {
        "napkin": napkin(*whole, stages.chunks),
        "CUDA best practices guide": best_practices(stages.h2d_s + stages.d2h_s, stages.kernel_s, stages.chunks),
        "simpleMultiCopy": simple_multi_copy(*whole, stages.copy_engines),
        "van Werkhoven 2014": van_werkhoven(*cut, stages.chunks, stages.copy_engines),
        "Gomez-Luna 2012": gomez_luna(*whole, stages.chunks, stages.issue_s),
    }
