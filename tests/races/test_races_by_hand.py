"""Races, and events and waits that do nothing, each worked out by hand."""

from typing import Any

import msgspec
import pytest
import strategies as card
from msgspec.structs import replace
from race_oracle import HOST, ON_CARD, OTHER, into, of_rule, plan, work

from streamsim.program import (
    Copy,
    Op,
    RecordEvent,
    Region,
    Synchronize,
    WaitEvent,
    WaitThread,
)
from streamsim.races import Finding, Hazard, MissingWait, check, repaired


def out(stream: int, host: Region = OTHER, device: Region = ON_CARD, **more: Any) -> Copy:
    return card.d2h(stream, device.bytes, host=host, device=device, **more)


def found_in(*ops: Op, **more: Any) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.rule, finding.ops) for finding in check(plan(*ops, Synchronize(), **more))]


RACE = [("race", (0, 1))]


@pytest.mark.parametrize(
    ("first", "second", "hazards"),
    [
        (into(1), work(2, reads=(ON_CARD,)), [("read-after-write", "d")]),
        (work(1, reads=(ON_CARD,)), into(2), [("write-after-read", "d")]),
        (into(1), into(2, OTHER), [("write-after-write", "d")]),
        (work(1, writes=(ON_CARD,)), out(2), [("read-after-write", "d")]),
        (work(1, reads=(ON_CARD,)), work(2, reads=(ON_CARD,)), []),
        # in place: it reads what the copy may not have brought yet, and the copy may undo what it wrote
        (into(1), work(2, (ON_CARD,), (ON_CARD,)), [("read-after-write", "d"), ("write-after-write", "d")]),
        # host memory: copied out and at once in again; copied in and at once overwritten; copied out twice
        (out(1, HOST), into(2, HOST, Region("d", 32, 16)), [("read-after-write", "h")]),
        (into(1), out(2, HOST, Region("d", 32, 16)), [("write-after-read", "h")]),
        (out(1), out(2), [("write-after-write", "o")]),
        (into(1), into(2, HOST, Region("d", 32, 16)), []),
        # pageable memory is staged before the call returns
        (into(1, Region("p", 0, 16)), out(2, Region("p", 0, 16), Region("d", 32, 16)), []),
    ],
)
def test_each_hazard(first: Op, second: Op, hazards: list[tuple[str, str]]) -> None:
    findings = check(plan(first, second, Synchronize()))
    assert [(h.kind, h.buffer) for finding in findings for h in finding.hazards] == hazards
    assert [finding.ops for finding in findings] == [(0, 1)] * bool(hazards)
    assert check(plan(first, msgspec.structs.replace(second, stream=1), Synchronize())) == ()


@pytest.mark.parametrize(
    ("between", "is_ordered"),
    [
        ((RecordEvent(0, 1), WaitEvent(0, 2)), True),
        ((RecordEvent(0, 1), WaitEvent(0, 3)), False),  # another stream waits
        ((RecordEvent(0, 3), WaitEvent(0, 2)), False),  # another stream's event
        ((RecordEvent(0, 1), RecordEvent(0, 3), WaitEvent(0, 2)), False),  # the latest record counts
        ((RecordEvent(0, 1), WaitEvent(0, 3), RecordEvent(1, 3), WaitEvent(1, 2)), True),  # by way of a third stream
        ((Synchronize(),), True),
        ((Synchronize(stream=1),), True),
        ((Synchronize(stream=2),), False),
        ((RecordEvent(0, 1), Synchronize(event=0)), True),
        ((card.h2d(1, 8, blocking=True),), True),  # behind it in its stream, and waited for
        ((card.h2d(3, 8, blocking=True),), False),
        ((out(1, Region("p", 0, 16), Region("d", 48, 16)),), True),  # returns when done
        ((into(1, Region("p", 0, 16), Region("d", 48, 16)),), False),  # returns once staged
        ((into(1, Region("p", 0, 16), Region("d", 48, 16), blocking=True),), True),
        ((card.kernel(0, 8),), False),  # non-blocking streams do not mind the legacy one
    ],
)
def test_what_gives_two_ops_an_order(between: tuple[Op, ...], is_ordered: bool) -> None:
    ops = (into(1), *between, work(2, reads=(ON_CARD,)))
    found = of_rule(check(plan(*ops)), "race")
    assert [finding.ops for finding in found] == ([] if is_ordered else [(0, len(ops) - 1)])


def test_a_race_is_named_with_its_bytes_and_the_smallest_fix() -> None:
    (found,) = check(plan(into(1), work(2, reads=(Region("d", 8, 16),)), Synchronize()))
    assert found == Finding(
        "race",
        (0, 1),
        "ops[1] (kernel 'kernel' in stream 2) and ops[0] (h2d copy in stream 1) have no order:"
        " read-after-write of bytes 8..16 of 'd'",
        "record an event in stream 1 after ops[0] and wait for it in stream 2 before ops[1]",
        (Hazard("read-after-write", "d", 8, 8),),
        MissingWait(0, 1),
    )
    assert found.severity == "error"


def test_a_wait_for_an_earlier_op_forgets_no_later_one() -> None:
    """The host has waited for both copies, so the kernel comes after the second as well."""
    there = Region("d", 32, 16)
    copies = (into(1), RecordEvent(0, 1), into(1, device=there), Synchronize(stream=1))
    assert found_in(*copies, WaitEvent(0, 2), work(2, reads=(there,))) == [("redundant-wait", (4,))]


def test_what_one_thread_knows_another_does_not() -> None:
    """Thread 0 has waited for the copy, and looks at stream 2 by a kernel in it; thread 1 has not waited."""
    there = Region("d", 32, 16)
    ops = (into(1), out(2, HOST, there, thread=1), Synchronize(stream=1), work(3, reads=(ON_CARD,)))
    assert found_in(*ops, out(4, thread=1)) == [("race", (0, 1)), ("race", (0, 4))]
    assert found_in(*ops[:1], *ops[2:], out(4, thread=1)) == [("race", (0, 3))]
    assert found_in(*ops[:1], *ops[2:], WaitThread(0, 1), out(4, thread=1)) == []


PAGEABLE, ELSEWHERE = Region("p", 0, 16), Region("d", 32, 16)


def test_a_stream_does_not_hold_back_the_read_of_pageable_memory() -> None:
    """The copy to the card reads ``p`` when it is called, though the copy back stands before it in the stream."""
    back, there = out(1, PAGEABLE, ELSEWHERE, thread=1), into(1, PAGEABLE)
    assert found_in(back, there) == RACE
    assert found_in(back, Synchronize(stream=1), there) == []
    assert found_in(there, back) == []  # the copy ends after it has read, and what is behind it starts then
    assert found_in(back, replace(there, stream=0, blocking=True)) == RACE  # cudaMemcpy promises no more


def test_the_fix_of_a_read_at_the_call_is_a_wait_of_the_thread() -> None:
    back, there = out(1, PAGEABLE, ELSEWHERE, thread=1), into(1, PAGEABLE)
    schedule = plan(back, there, Synchronize())
    (found,) = check(schedule)
    assert found.wait == MissingWait(0, 1, host=True)
    assert found.hazards == (Hazard("read-after-write", "p", 0, 16),)
    assert found.remedy == (
        "record an event in stream 1 after ops[0] and wait for it in thread 0 of the host before ops[1]"
    )
    fixed = repaired(schedule, [found])
    assert fixed.ops == (back, RecordEvent(0, 1, thread=1), Synchronize(event=0), there, Synchronize())
    assert check(fixed) == ()


def test_a_record_or_a_wait_hands_on_what_its_thread_has_waited_for() -> None:
    """Thread 1 copies ``d`` back and waits, and then records in stream 1; thread 0 overwrites ``d`` behind that."""
    back, waits = out(2, thread=1), Synchronize(stream=2, thread=1)
    record, over = RecordEvent(0, 1, thread=1), into(1)
    assert found_in(back, waits, record, over) == []
    assert found_in(back, record, waits, over) == [("race", (0, 3))]
    assert found_in(back, waits, record, WaitEvent(0, 3), into(3)) == []  # by the event
    assert found_in(back, waits, record, Synchronize(event=0), into(3)) == []  # by the host
    assert found_in(back, waits, record, Synchronize(stream=1), into(3)) == []
    assert found_in(back, waits, record, into(3)) == [("race", (0, 3))]
    earlier = RecordEvent(0, 4)
    assert found_in(back, earlier, waits, WaitEvent(0, 1, thread=1), over) == []  # a wait hands it on just so
    assert found_in(back, waits, RecordEvent(0, 0, thread=1), over, kind="blocking") == []  # in the legacy stream


def test_races_of_one_op_come_in_the_order_of_the_earlier_ones() -> None:
    """Of stream 1 the second op races, but its first one comes before that of stream 2."""
    regions = tuple(Region("d", start, 16) for start in (0, 16, 32))
    ops = [into(stream, device=region) for stream, region in zip((1, 2, 1), regions, strict=True)]
    assert found_in(*ops, work(3, reads=regions)) == [("race", (1, 3)), ("race", (2, 3))]
