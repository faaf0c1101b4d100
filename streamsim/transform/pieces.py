"""Copies and kernels cut into pieces, each with its part of the memory, work and threads; and joined again.

Nothing in a schedule says how a kernel may be cut. It is taken to work element by element: a piece of it reads and
writes that piece of its ranges, and all of a range that is shared (a table, weights).
"""

from collections.abc import Sequence
from math import fsum, gcd
from typing import Any

from msgspec.structs import replace

from streamsim.program import ALIGN_BYTES, Copy, Kernel, Op, Region
from streamsim.transform.ops import Work

ROUNDING = 1e-9  # relative, of sums of shares


def cut(ops: Sequence[Op], shared: Sequence[set[Region]], pieces: int) -> list[list[Op]] | None:
    """Return the copies and kernels of a chunk, each in ``pieces`` pieces; None if one of them is too small.

    ``shared``: the ranges of each op that every piece reads whole.
    """
    wholes = [(op, all_read) for op, all_read in zip(ops, shared, strict=True) if isinstance(op, Copy | Kernel)]
    found = [size for op, all_read in wholes for size in _sizes(op, all_read)]
    if min(found, default=pieces) < pieces:
        return None
    items = _items(found, [size for op, all_read in wholes for size in _ranges(op, all_read)], pieces)
    return [[_piece(op, k, pieces, items, all_read) for k in range(pieces)] for op, all_read in wholes]


def _sizes(op: Work, shared: set[Region]) -> list[int]:
    """The sizes of what is cut with an op: its ranges in bytes, and its elements."""
    return _ranges(op, shared) + ([op.elements] if isinstance(op, Kernel) and op.elements else [])


def _ranges(op: Work, shared: set[Region]) -> list[int]:
    if isinstance(op, Copy):
        return [op.bytes]
    return [region.bytes for region in op.reads + op.writes if region not in shared]


def _items(found: Sequence[int], ranges: Sequence[int], pieces: int) -> int:
    """Of how many items each size has a whole number, of aligned bytes if it can be; 0: of fewer than the pieces."""
    items = gcd(*found)
    if items < pieces:
        return 0
    together = ALIGN_BYTES // gcd(ALIGN_BYTES, *(size // items for size in ranges))  # items that are aligned
    return items // together if items % together == 0 and items // together >= pieces else items


def _piece(op: Work, piece: int, pieces: int, items: int, shared: set[Region]) -> Op:
    """One of the pieces of a copy or kernel of so many items, which are cut as evenly as they can be; 0: by bytes."""

    def ends(size: int) -> tuple[int, int]:
        each = size // items if items and size else 1
        whole = size // each
        return whole * piece // pieces * each, whole * (piece + 1) // pieces * each

    def part(region: Region | None) -> Region | None:
        if region is None or region in shared:
            return region
        start, end = ends(region.bytes)
        return Region(region.buffer, region.offset + start, end - start)

    if isinstance(op, Copy):
        start, end = ends(op.bytes)
        return replace(op, bytes=end - start, host=part(op.host), device=part(op.device))
    start, end = ends(op.elements)
    share = (end - start) / op.elements if op.elements else 1 / pieces
    return replace(
        op,
        elements=end - start,
        duration_s=None if op.duration_s is None else op.duration_s * share,
        reads=tuple(map(part, op.reads)),
        writes=tuple(map(part, op.writes)),
        share=op.share if op.duration_s is None else op.share * share,
        threads=max(1, round(op.threads * share)) if op.threads else 0,
    )


def form_of(op: Op) -> Any:
    """Return what ops that can be joined have in common: all except where their data is, and how much of it."""
    if isinstance(op, Copy):
        return replace(op, bytes=1, stream=0, host=None, device=None)
    assert isinstance(op, Kernel)
    elements, duration_s = min(1, op.elements), op.duration_s and 1.0
    own = {"elements": elements, "duration_s": duration_s, "share": 1.0, "threads": min(1, op.threads)}
    return replace(op, stream=0, reads=(), writes=(), **own)


def joined(ops: Sequence[Op]) -> Op | None:
    """Return ops of one form as one op; None if their ranges do not, or not surely, lie side by side."""
    if len(ops) == 1:
        return ops[0]
    if copies := [op for op in ops if isinstance(op, Copy)]:
        host, device = _side_by_side([op.host for op in copies]), _side_by_side([op.device for op in copies])
        if host is None or device is None:
            return None
        return replace(copies[0], bytes=sum(op.bytes for op in copies), host=host, device=device)
    return _one_kernel([op for op in ops if isinstance(op, Kernel)])


def _one_kernel(kernels: list[Kernel]) -> Kernel | None:
    first = kernels[0]
    timed = [kernel.duration_s for kernel in kernels if kernel.duration_s is not None]
    share = 1.0 if all(kernel.share == 1 for kernel in kernels) else fsum(kernel.share for kernel in kernels)
    touching = [[kernel.reads + kernel.writes for kernel in kernels], [kernel.reads for kernel in kernels]]
    if share > 1 + ROUNDING or any(len({len(regions) for regions in some}) > 1 for some in touching):
        return None
    if timed and not _are_of_one_launch(kernels):
        return None
    alike = set[Region].intersection(*(set(kernel.reads) for kernel in kernels))  # the merged one reads them too
    if not _are_in_proportion([_sizes(kernel, alike) for kernel in kernels]):
        return None
    regions = [some[0] if len(set(some)) == 1 else _side_by_side(some) for some in zip(*touching[0], strict=True)]
    if None in regions or not regions:
        return None
    reads = len(first.reads)
    return replace(
        first,
        elements=sum(kernel.elements for kernel in kernels),
        duration_s=fsum(timed) if timed else None,
        reads=tuple(regions[:reads]),
        writes=tuple(regions[reads:]),
        share=min(1.0, share),
        threads=sum(kernel.threads for kernel in kernels),
    )


def _are_of_one_launch(kernels: Sequence[Kernel]) -> bool:
    """Return True if they are parts of launches of one time; or whole ones, of whatever time."""
    whole_s = [kernel.duration_s / kernel.share for kernel in kernels if kernel.duration_s]
    return all(kernel.share == 1 for kernel in kernels) or max(whole_s) <= min(whole_s) * (1 + ROUNDING)


def _are_in_proportion(rows: Sequence[Sequence[int]]) -> bool:
    """Return True if every row is a multiple of the first one: then parts of the whole are the parts that they were."""
    first = rows[0]
    return all([a * row[0] for a in first] == [b * first[0] for b in row] for row in rows if row)


def _side_by_side(regions: Sequence[Region | None]) -> Region | None:
    """Ranges that lie side by side, in this order, as one; None where they do not."""
    first = regions[0]
    if first is None:
        return None
    end = first.offset
    for region in regions:
        if region is None or (region.buffer, region.offset) != (first.buffer, end):
            return None
        end += region.bytes
    return Region(first.buffer, first.offset, end - first.offset)
