"""The published formulas that people use instead of a model, to be shown beside every prediction.

They take whole stage times and a number of chunks.
"""

from streamsim.lowering import Lowered
from streamsim.program import Copy
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


# What each formula takes for granted, for people.
FORMULA_WORDS = {
    "napkin": "equal chunks of three equal stages, two copy engines",
    "CUDA best practices guide": "the longer of transfers and kernels, and one chunk of the shorter",
    "simpleMultiCopy": "the longest stage alone, as if everything else were beside it",
    "van Werkhoven 2014": "the slowest stage, and one chunk of the others; transfers by LogGP",
    "Gomez-Luna 2012": "the dominant stage, one chunk of the other, and the host's calls for each stream",
}


def published(lowered: Lowered, kernel_s: float | None = None, overlaps: bool = True) -> dict[str, float]:
    """Return the seconds that each published formula predicts for a schedule, by its name.

    The stages are those of the whole work alone and in one go. ``kernel_s``: the time of the kernels, if more is known
    than the sum of the schedule's. The number of chunks is that of the rarest kind of op, since a chunk may have
    several copies or kernels. If a program does not overlap anything, it counts as one chunk, without copy engines.
    Pageable copies go at the pageable rate.
    """
    spent = [lowered.costs[index] for index in lowered.cost if lowered.costs[index].kind != NOTHING]
    counts = [lowered.kind.count(kind) for kind in (H2D, KERNEL, D2H)]
    chunks = min((count for count in counts if count), default=1)
    issue_s = sum(cost.call for cost in spent) / chunks / TICKS_PER_S
    if kernel_s is None:
        kernel_s = sum(cost.duration for cost in spent if cost.kind == KERNEL) / TICKS_PER_S
    chunks, engines = (chunks, lowered.device.copy_engines.count) if overlaps else (1, 0)
    h2d_s, d2h_s = (_transfers_s(lowered, kind, 1) for kind in (H2D, D2H))
    h2d_chunks_s, d2h_chunks_s = (_transfers_s(lowered, kind, chunks) for kind in (H2D, D2H))
    return {
        "napkin": napkin(h2d_s, kernel_s, d2h_s, chunks),
        "CUDA best practices guide": best_practices(h2d_s + d2h_s, kernel_s, chunks),
        "simpleMultiCopy": simple_multi_copy(h2d_s, kernel_s, d2h_s, engines),
        "van Werkhoven 2014": van_werkhoven(h2d_chunks_s, kernel_s, d2h_chunks_s, chunks, engines),
        "Gomez-Luna 2012": gomez_luna(h2d_s, kernel_s, d2h_s, chunks, issue_s),
    }


def _transfers_s(lowered: Lowered, kind: int, pieces: int) -> float:
    """Return the time of all copies in one direction, cut into ``pieces``."""
    direction, link = ("h2d", lowered.device.h2d) if kind == H2D else ("d2h", lowered.device.d2h)
    n_bytes = sum(op.bytes for op in lowered.schedule.ops if isinstance(op, Copy) and op.direction == direction)
    latency_s, per_byte = link.latency_s, 1 / link.bandwidth_bytes_per_s
    if lowered.schedule.pageable_names:
        latency_s, per_byte = link.pageable_latency_s, 1 / link.pageable_bandwidth_bytes_per_s
    return van_werkhoven_transfer(latency_s, n_bytes / pieces, per_byte, latency_s, pieces) if n_bytes else 0.0
