"""Kernels that wait for copies, on records: how many of them the card has.

The rules are those of ``streamsim.model.crowd``.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False
# numba infers the types of what is compiled.

import numpy as np

from streamsim.compiled.numba_code import inlined, uintp
from streamsim.compiled.tables import COME, QUEUES
from streamsim.lowering import KERNEL
from streamsim.rules import CROWD


@inlined
def _waits_for_copy(op):
    """Note that ``op``, if it is a kernel, waits for one more copy; return the bit of its queue, 0 for other ops."""
    bit = np.int64(0)
    if op.kind == KERNEL:
        op.copies += 1
        bit = 1 << (np.int64(op.place) % QUEUES)
    return bit


@inlined
def count_copies(ops, also):
    """Note for how many copies each kernel waits; return the number of queues with such kernels, at most CROWD."""
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
    """Note that the card will have ``kernel``, which waits for copies, at ``tick``; return the number issued so far.

    ``arriving`` is in the order of ticks, which is the issue order if one thread issues.
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
    """Count the waiting kernels that have come by ``now``; return their number, and the next kernel to come.

    ``arriving``: kernels that wait for copies, of which ``issued`` are issued so far.
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
    """Note the end of a copy that a kernel waits for; return True if the card has it and it waits for no other."""
    left = ops[uintp(kernel)].copies - 1
    ops[uintp(kernel)].copies = left
    return left == COME
