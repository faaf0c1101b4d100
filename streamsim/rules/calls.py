"""What the host's calls take longer than their own ticks, by what its thread has called before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from streamsim.rules.entering import NO_STREAM, enters
from streamsim.rules.kinds import KERNEL, KINDS, NOTHING

if TYPE_CHECKING:
    from collections.abc import MutableSequence

# What a thread has called last: a copy or kernel by its kind, else one of these.
OWN_WORK, RECORD, WAIT, SYNCHRONIZE, WAIT_THREAD = NOTHING, 4, 5, 6, 7


class Surcharges(NamedTuple):
    """Ticks that calls take longer, by the names of a profile's host times.

    ``enter``: what the thread enters a stream for. ``after_wait``: the first copy and the first kernel of a thread, and
    those behind each call that may hold it. ``first_on_stream``: the first of each kind in every stream.
    ``first_launch``: of each kernel. ``turn``: what is not behind a call of its kind.
    """

    enter: int = 0
    after_wait: int = 0
    first_on_stream: int = 0
    first_launch: int = 0
    turn: int = 0


@dataclass(slots=True)
class Caller:
    """What a thread of the host has issued, whole numbers all; the compiled model has it in a record.

    ``stream``, ``kind``: of its latest copy or kernel. ``entered``: whether it entered a stream for that. If it
    takes no time to enter a stream, none of the three changes. ``called``: its latest call. ``copied``, ``launched``:
    whether it has issued a copy, or a kernel, since it waited.
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
    """Ticks that the call for a copy or kernel takes longer; it is the caller's latest then.

    ``known``: whether each stream has had an op of each kind. ``launched``: whether each kernel of the program has been
    launched, by its number; that of a copy, 0, has. ``is_next``: see :func:`~streamsim.rules.entering.enters`.
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
    """Ticks that a call takes longer if the caller's latest one was none of its kind; it is the latest then."""
    more = costs.turn if called != caller.called else 0
    caller.called = called
    return more


def held(caller: Caller) -> None:
    """The caller's latest call may have held it: it comes to the next copy and the next kernel cold."""
    caller.copied = caller.launched = 0
