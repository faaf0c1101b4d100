"""What the launch of a graph spends on an op beside handing it over.

The host writes a command for each copy, and kernels come with it. Kernels and the copies of each direction have engines
of their own: what waits for an op on another one needs a signal, which the host writes as well. Kernels one behind the
other are free, and depth-first graphs are dearer to launch than breadth-first ones of the same ops. Measured: see
docs/evidence.md, what launching a graph costs.
"""


def edge(before: int, op: int, signal: int) -> int:
    """Ticks that a launch spends on an op of one kind that waits for one of the kind ``before``, in its stream or not.

    ``signal``: ticks for one between engines.
    """
    return 0 if before == op else signal
