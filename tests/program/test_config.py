"""How to cut and issue: what goes together, said by one value to whoever asks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import pipeline_of

from streamsim import program
from streamsim.errors import InputError

WORKLOAD = pipeline_of(64)


@st.composite
def configs(draw: st.DrawFn) -> program.Config:
    """Any configuration of a few chunks; more streams or buffers than chunks are likely."""
    order = draw(st.sampled_from(program.ORDERS))
    return program.Config(
        order,
        draw(st.integers(1, 12)),
        1 if order in ("serial", "prefetch") else draw(st.integers(1, 14)),
        draw(st.none() | st.integers(1, 14)) if order in ("depth-first", "prefetch") else None,
        launch="live" if order == "serial" else draw(st.sampled_from(program.LAUNCHES)),
    )


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ({"streams": 1_000_001}, "streams = 1000001: "),  # though no more than chunks are used, all are made
        ({"order": "breadth-first", "chunks": 2, "streams": 2, "buffers": 2}, "buffers = 2: "),
        ({"order": "serial", "chunks": 2, "streams": 2}, "streams = 2: the order serial has 1 stream of its own"),
        ({"order": "prefetch", "chunks": 4, "streams": 3}, "streams = 3: the order prefetch has 3 streams of its own"),
        ({"order": "sideways"}, "order = 'sideways': "),
        ({"order": "serial", "launch": "graph"}, "launch = 'graph': "),
        ({"memory": "pageable", "launch": "graph"}, "launch = 'graph': "),
    ],
)
def test_what_does_not_go_together_is_refused(way: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as found:
        program.build(WORKLOAD, **way)
    assert str(found.value).startswith(said)


@given(configs())
def test_fitted_is_the_same_program_by_its_least_numbers(config: program.Config) -> None:
    fitted = config.fitted()
    assert fitted.schedule(WORKLOAD).ops == config.schedule(WORKLOAD).ops
    assert fitted.fitted() == fitted
    assert fitted.streams <= config.chunks
    assert (fitted.buffers or 1) <= config.chunks
    assert fitted.device_bytes(WORKLOAD) == config.device_bytes(WORKLOAD) == config.schedule(WORKLOAD).device_bytes


@given(configs())
def test_it_says_of_the_program_what_the_program_is(config: program.Config) -> None:
    schedule = config.schedule(WORKLOAD)
    copies = [op for op in schedule if isinstance(op, program.Copy)]
    assert {op.blocking for op in copies} == {config.issued.is_blocking}
    assert len({op.device.buffer for op in copies if op.direction == "h2d" and op.device}) == (config.slots or 1)
    more = replace(config, chunks=config.chunks + 14) if config.buffers is not None else config  # each comes again
    events = any(isinstance(op, program.RecordEvent) for op in more.schedule(WORKLOAD))
    hands_over = more.slots is not None and more.slots % more.streams != 0  # a buffer, from stream to stream
    assert events == (hands_over or more.order in ("prefetch", "relay"))
