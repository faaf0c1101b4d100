"""Kernels that wait for copies, on records: how many there are on the card.

As in ``streamsim.model.copies``.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

from __future__ import annotations

import numpy as np

from streamsim.compiled.numba_code import inlined, uintp
from streamsim.compiled.tables import COME, QUEUES
from streamsim.lowering.costs import KERNEL
from streamsim.rules.link import CROWD


@inlined
def _waits_for_copy(op):
    """Note that ``op`` waits for one more copy if it is a kernel; the bit of its queue, 0 if it is none."""
    bit = np.int64(0)
    if op.kind == KERNEL:
        op.copies += 1
        bit = 1 << (np.int64(op.place) % QUEUES)
    return bit


@inlined
def count_copies(ops, also):
    """Note for how many copies every kernel waits; returns in how many queues such kernels are, CROWD at most."""
    queues = np.int64(0)
    for k in range(len(ops)):
        copy = ops[uintp(k)]
        if copy.kind < KERNEL:
            if copy.after >= 0:
                queues |= _waits_for_copy(ops[uintp(copy.after)])
            j = copy.also
            while j >= 0:
                queues |= _waits_for_copy(ops[uintp(also[uintp(j)].op)])
                j = also[uintp(j)].next
    most = 0
    while queues and most < CROWD:
        queues &= queues - 1
        most += 1
    return most


@inlined
def arrive(arriving, issued, coming, kernel, tick):
    """The card will have ``kernel``, which waits for copies, at ``tick``; returns how many have been issued now.

    ``arriving`` is in the order of ticks, which is that of issue where one thread issues.
    """
    at = issued
    while at > coming and arriving[uintp(at - 1)].tick > tick:
        before, new = arriving[uintp(at - 1)], arriving[uintp(at)]
        new.op, new.tick = before.op, before.tick
        at -= 1
    arriving[uintp(at)].op, arriving[uintp(at)].tick = kernel, tick
    return issued + 1


@inlined
def come(ops, arriving, issued, waiting, coming, now):
    """Count the kernels that wait among those that have come by ``now``; returns that and which comes next.

    ``arriving``: kernels that wait for copies, ``issued`` of them so far.
    """
    while coming < issued and arriving[uintp(coming)].tick <= now:
        kernel = ops[uintp(arriving[uintp(coming)].op)]
        if kernel.copies > 0:
            kernel.copies += COME
            waiting += 1
        coming += 1
    return waiting, coming


@inlined
def copy_ended(ops, kernel):
    """One of the copies that a kernel waits for has ended; returns how many kernels on the card wait no longer."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == COME
