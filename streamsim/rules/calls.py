"""Surcharges: the ticks that a call takes beyond its own, because of the calls that its thread made before.

One surcharge is for entering a stream. Programs with array libraries set the current stream with a block,
``with stream:``, around the ops of a chunk or of one of its stages. Such a program enters a stream in three cases: the
op goes to another stream than the op before it; a chunk's stages begin anew in the same stream; or the op belongs to
the next chunk. It belongs to the next chunk if it copies an array that was copied since the host entered the stream, or
if it works on another piece of an array than the latest op on that array.
"""

from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import NamedTuple

from streamsim.rules.card import KERNEL, KINDS, NEVER, NOTHING

# A thread's latest call: the kind of a copy or kernel, or one of these.
OWN_WORK, RECORD, WAIT, SYNCHRONIZE, WAIT_THREAD = NOTHING, 4, 5, 6, 7

LEGACY = 0  # the default stream, which is current where none has been entered
NO_STREAM = -1  # before anything has been issued
STAGES = (0, 2, 1, NEVER)  # of a chunk, by kind of op: copies in, copies back, kernels; what goes to no engine


class Surcharges(NamedTuple):
    """The ticks that each surcharge adds to a call, named as in a profile's host times.

    - ``enter``: for a call that enters a stream.
    - ``after_wait``: for a thread's first copy and first kernel, and for the first ones after a call that may hold it.
    - ``first_on_stream``: for the first op of each kind in each stream.
    - ``first_launch``: for the first launch of each kernel.
    - ``turn``: for a call whose predecessor in the thread was of another kind.
    """

    enter: int = 0
    after_wait: int = 0
    first_on_stream: int = 0
    first_launch: int = 0
    turn: int = 0


@dataclass(slots=True)
class Caller:
    """The calls that a thread of the host has made, as whole numbers; the compiled model keeps them in a record.

    - ``stream``, ``kind``: those of the latest copy or kernel. ``entered``: 1 if that call entered a stream. If
      entering takes no time, these three never change.
    - ``called``: the latest call.
    - ``copied``, ``launched``: 1 if the thread has issued a copy, or a kernel, since it waited.
    """

    stream: int = NO_STREAM
    kind: int = NOTHING
    entered: int = 0
    called: int = OWN_WORK
    copied: int = 0
    launched: int = 0


def work_surcharge(
    costs: Surcharges,
    caller: Caller,
    known: MutableSequence[bool],
    launched: MutableSequence[bool],
    stream: int,
    kind: int,
    kernel: int,
    is_next: bool,
) -> int:
    """Return the surcharge of a call for a copy or kernel in ticks, and make it the caller's latest call.

    - ``known``: True at ``stream * KINDS + kind`` if the stream has had an op of this kind.
    - ``launched``: True at the number of a kernel that has been launched, and at 0, the number of a copy.
    - ``is_next``: see :func:`enters`.
    """
    more = turn_surcharge(costs, caller, kind)
    if costs.enter:
        caller.entered = enters(stream, kind, caller.stream, caller.kind, is_next)
        caller.stream, caller.kind = stream, kind
        if caller.entered:
            more += costs.enter
    if kind == KERNEL:
        if not caller.launched:
            more += costs.after_wait
        caller.launched = 1
    else:
        if not caller.copied:
            more += costs.after_wait
        caller.copied = 1
    if not known[stream * KINDS + kind]:
        known[stream * KINDS + kind] = True
        more += costs.first_on_stream
    if not launched[kernel]:
        launched[kernel] = True
        more += costs.first_launch
    return more


def turn_surcharge(costs: Surcharges, caller: Caller, called: int) -> int:
    """Return the surcharge in ticks after a call of another kind, and make ``called`` the caller's latest call."""
    more = costs.turn if called != caller.called else 0
    caller.called = called
    return more


def reset_after_wait(caller: Caller) -> None:
    """Note that the latest call may have held the caller: its next copy and next kernel cost more again."""
    caller.copied = caller.launched = 0


def enters(stream: int, kind: int, stream_before: int, kind_before: int, is_next: bool) -> bool:
    """Tell whether the host enters ``stream`` for a copy or kernel, given the copy or kernel that it issued before.

    ``is_next``: the arrays show that the op belongs to the next chunk.
    """
    return stream != LEGACY and (stream != stream_before or is_next or STAGES[kind] < STAGES[kind_before])
