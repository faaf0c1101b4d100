"""The schedule language: what it refuses, with which words, and that its values are values."""

import copy
import pickle

import msgspec
import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st

from streamsim import check, load_device, simulate
from streamsim.errors import InputError
from streamsim.program import (
    Copy,
    Kernel,
    Op,
    RecordEvent,
    Schedule,
    Synchronize,
    WaitEvent,
    dump_schedule,
    parse_schedule,
)


@given(card.schedules())
def test_a_schedule_is_an_immutable_value(made: Schedule) -> None:
    assert hash(made) == hash(copy.deepcopy(made)) == hash(pickle.loads(pickle.dumps(made)))
    assert made == copy.deepcopy(made)
    assert len({made, copy.copy(made)}) == 1
    for value in (made, *made.ops, *made.buffers):
        for field in value.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(value, field, None)
    assert len(made) == len(made.ops)
    assert list(made) == list(made.ops)


@given(card.schedules(), st.data())
def test_a_part_of_a_schedule_is_a_schedule(made: Schedule, data: st.DataObject) -> None:
    """No op needs a later one: every prefix is accepted (of a graph, as far as its last piece of work)."""
    n = data.draw(st.integers(1, len(made)))
    assert msgspec.structs.replace(made, ops=made.ops[:n]).ops == made.ops[:n]


# Several cards: they can be written down, and what they do is not known yet.


@pytest.mark.parametrize(
    "op", [Copy("h2d", 4, 1), Kernel(1, duration_s=1e-6), RecordEvent(0, 1), WaitEvent(0, 1), Synchronize(1)]
)
def test_an_op_of_another_card_is_kept_and_refused_by_what_would_order_it(op: Op) -> None:
    there = msgspec.structs.replace(op, card=1)
    program = Schedule((Copy("d2h", 4, 1), there), ("non-blocking",), events=1)
    assert parse_schedule(dump_schedule(program)) == program
    for ask in (lambda: simulate(program, load_device("ideal")), lambda: check(program)):
        with pytest.raises(InputError, match=r"^ops\[1\]\.card = 1: "):
            ask()
    for field in ("card", "thread"):
        with pytest.raises(InputError, match=f"^{field} = -1: expected a whole number from 0"):
            msgspec.structs.replace(op, **{field: -1})
