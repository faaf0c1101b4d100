"""Cutting copies and kernels into pieces, each with its own part of the memory, of the work and of the threads.

Nothing in a schedule says how a kernel may be cut. It is taken to work element by element: a piece of it reads and
writes that piece of its ranges, and all of a range that is shared (a table, weights).
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.program.schedule import Copy, Kernel, Op, Region, Schedule
from streamsim.program.workload import ALIGN_BYTES
from streamsim.races.touched_bytes import earlier_ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    Work = Copy | Kernel


def in_pieces(ops: Sequence[Op], shared: Sequence[set[Region]], pieces: int) -> list[list[Op]] | None:
    """The copies and kernels of a chunk, each in so many pieces; None where one of them is too small.

    ``shared``: of each op the ranges that every piece reads whole.
    """
    wholes = [(op, all_read) for op, all_read in zip(ops, shared, strict=True) if isinstance(op, Copy | Kernel)]
    found = [size for op, all_read in wholes for size in sizes(op, all_read)]
    if min(found, default=pieces) < pieces:
        return None
    items = _items(found, [size for op, all_read in wholes for size in _ranges(op, all_read)], pieces)
    return [[_piece(op, k, pieces, items, all_read) for k in range(pieces)] for op, all_read in wholes]


def sizes(op: Work, shared: set[Region]) -> list[int]:
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


def bytes_shared(schedule: Schedule, ops: Sequence[Op], numbers: Sequence[int]) -> list[set[int]] | None:
    """Return the places of the earlier ``ops`` with which each of them shares bytes that one of the two writes.

    ``numbers``: of which op of ``schedule`` each of them is, or is a piece. None if two that share bytes came into
    another order than theirs there.
    """
    found: list[set[int]] = []
    for k, touches in enumerate(earlier_ops(ops, schedule.buffers)):
        edges = {i for _, _, earlier in touches for i in earlier if i != k}
        if any(numbers[i] >= numbers[k] for i in edges):
            return None
        found.append(edges)
    return found
