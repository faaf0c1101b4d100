"""When a host enters a stream: array libraries issue to the current stream, which a program sets with a block.

``with stream:`` around the ops of a chunk, or around those of one of its stages, is how such programs are written; so
the host enters where an op goes to another stream than the one before it, where a round of a chunk's stages begins
anew in the same one, and where what follows in it is of another chunk: a copy of an array that has been copied since
the host entered, or an op that works on another piece of an array than the latest op on it since then.
"""

from streamsim.rules.link import NEVER

LEGACY = 0  # the default stream, which is current where none has been entered
NO_STREAM = -1  # before anything has been issued
STAGES = (0, 2, 1, NEVER)  # of a chunk, by kind of op: copies in, copies back, kernels; what goes to no engine


def enters(stream: int, kind: int, stream_before: int, kind_before: int, is_next: bool) -> bool:
    """Whether the host enters ``stream`` for a copy or kernel, by the copy or kernel that it issued before it.

    ``is_next``: the arrays show that it is for another chunk than what was issued since the host entered a stream.
    """
    return stream != LEGACY and (stream != stream_before or is_next or STAGES[kind] < STAGES[kind_before])
