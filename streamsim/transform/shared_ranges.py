"""The ranges of memory that the kernels of several chunks read, such as a table or weights.

Nothing in a schedule says which ranges these are. Two rules find them: kernels share one of the ranges that they read
and differ in others, or kernels read the same ranges and write different parts of the same arrays.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from streamsim.program import Copy, Kernel, Op, Region
from streamsim.races import touched

Versions = dict[Region, frozenset[int]]  # of what a kernel reads: the range, and the ops that wrote it


def shared_ranges(ops: Sequence[Op], versions: Sequence[Versions], known: Collection[Region]) -> dict[int, set[Region]]:
    """Return by kernel the ranges that kernels of other chunks read as well.

    ``versions``: what each op reads, if it is a kernel. ``known``: ranges that are shared whatever the rules say.
    """
    readers: dict[tuple[Region, frozenset[int]], list[int]] = {}
    for i, own in enumerate(versions):
        for version in own.items():
            readers.setdefault(version, []).append(i)
    found: dict[int, set[Region]] = {}
    for version, kernels in readers.items():
        others = [versions[i].items() - {version} for i in kernels]
        if version[0] in known or any(a - b and b - a for a, b in pairwise(others)):
            for i in kernels:
                found.setdefault(i, set()).add(version[0])
    return found or _of_kernels_that_read_nothing_else(ops, versions)


def _of_kernels_that_read_nothing_else(ops: Sequence[Op], versions: Sequence[Versions]) -> dict[int, set[Region]]:
    """Return the ranges of the only group of kernels that read the same, and write other parts of the same arrays.

    They may also write one part again and again, copied back in between.
    """
    groups: dict[frozenset[tuple[Region, frozenset[int]]], list[int]] = {}
    for i, own in enumerate(versions):
        groups.setdefault(frozenset(own.items()), []).append(i)
    several = [(read, kernels) for read, kernels in groups.items() if read and len(kernels) > 1]
    if len(several) != 1:
        return {}
    ((read, kernels),) = several
    outputs, buffers = _outputs(ops, set(kernels)), dict[tuple[str, int], list[set[str]]]()
    for name, turn, regions in outputs:
        if regions:
            buffers.setdefault((name, turn), []).append({region.buffer for region in regions})
    names = {name for name, _, _ in outputs}
    if names != {name for name, _ in buffers} or not all(set.intersection(*some) for some in buffers.values()):
        return {}  # a kernel that writes nothing, or elsewhere, may be of the same chunk
    written = {frozenset((turn, region) for region in regions) for _, turn, regions in outputs}
    if len(outputs) == len(names) or not are_disjoint(written):
        return {}
    return {i: {region for region, _ in read} for i in kernels}


def _outputs(ops: Sequence[Op], kernels: Collection[int]) -> set[tuple[str, int, frozenset[Region]]]:
    """Return the name, the turn and the written ranges of kernels; a copy back of what any of them writes ends a turn.

    Kernels of one chunk write the same ranges. Those of another one write others, or the same in another turn.
    """
    turn, found = 0, set[tuple[str, int, frozenset[Region]]]()
    buffers = {region.buffer for i in kernels for region, writes in touched(ops[i]) if writes}
    for i, op in enumerate(ops):
        if isinstance(op, Kernel) and i in kernels:
            found.add((op.name, turn, frozenset(op.writes)))
        elif isinstance(op, Copy) and op.direction == "d2h" and op.device is not None:
            turn += op.device.buffer in buffers
    return found


def are_disjoint(sets: Collection[Collection[Any]]) -> bool:
    """Return True if no two of the sets share a member."""
    return sum(map(len, sets)) == len(set().union(*sets))
