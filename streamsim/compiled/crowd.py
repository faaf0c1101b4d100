"""Kernels that wait for copies, on records: how many there are on the card.

As in ``streamsim.model.crowd``.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

import numpy as np

from streamsim.compiled.numba_code import inlined, uintp
from streamsim.lowering.costs import KERNEL
from streamsim.rules.crowding import CROWD


@inlined
def count_copies(ops, also):
    """Note for how many copies every kernel waits; returns in how many queues such kernels are, CROWD at most."""
    for k in range(len(ops)):
        copy = ops[uintp(k)]
        if copy.kind < KERNEL:
            if copy.after >= 0 and ops[uintp(copy.after)].kind == KERNEL:
                ops[uintp(copy.after)].copies += 1
            for j in range(copy.also_from, copy.also_to):
                other = ops[uintp(also[uintp(j)].op)]
                other.copies += other.kind == KERNEL
    queues = np.int64(0)
    for k in range(len(ops)):
        if ops[uintp(k)].copies > 0:
            queues |= 1 << np.int64(ops[uintp(k)].queue)
    most = 0
    while queues and most < CROWD:
        queues &= queues - 1
        most += 1
    return most


@inlined
def come(ops, waiting, coming, issued, now):
    """Count the kernels that wait among those that have come by ``now``; returns that and the op that comes next."""
    while coming < issued and ops[uintp(coming)].comes <= now:
        waiting += ops[uintp(coming)].copies > 0
        coming += 1
    return waiting, coming


@inlined
def copy_ended(ops, kernel, coming):
    """One of the copies that a kernel waits for has ended; returns how many kernels on the card wait no longer."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == 0 and kernel < coming
