"""The schedule language: what it refuses, with which words, and that its values are values."""

import copy
import pickle

import msgspec
import pytest
import strategies as card
from hypothesis import given
from hypothesis import strategies as st

from streamsim.program import (
    Schedule,
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
