"""The schedule language: what it refuses, with which words, and that its values are values."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import strategies as card
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsim import Axis, Grid, Sweep, Workload, WorkloadKernel, check, explain, load_device, predict, simulate
from streamsim.checks import LARGEST_BYTES
from streamsim.errors import InputError
from streamsim.program.files import dump_schedule, parse_schedule
from streamsim.program.schedule import Buffer, Copy, Kernel, RecordEvent, Region, Schedule, Synchronize, WaitEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.program.schedule import Op

HOST, PAGE, CARD = Buffer("host", 100, "pinned"), Buffer("page", 100, "pageable"), Buffer("card", 100, "device")
K = Kernel(1, duration_s=1e-3)


def schedule(*ops: object, **more: object) -> Schedule:
    """A schedule with two streams, two events and three buffers."""
    fields = {"streams": ("non-blocking", "blocking"), "buffers": (HOST, PAGE, CARD), "events": 2} | more
    return Schedule(ops, **fields)  # type: ignore[arg-type]


# (what to make, the field that the message must name, the value that it must show)
REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (lambda: Copy("both", 4, 1), "direction", "'both'"),  # type: ignore[arg-type]
    (lambda: Copy("h2d", 0, 1), "bytes", "0"),
    (lambda: Copy("h2d", -4, 1), "bytes", "-4"),
    (lambda: Copy("h2d", 4.0, 1), "bytes", "4.0"),  # type: ignore[arg-type]
    (lambda: Copy("h2d", True, 1), "bytes", "True"),
    (lambda: Copy("h2d", LARGEST_BYTES + 1, 1), "bytes", str(LARGEST_BYTES + 1)),
    (lambda: Copy("h2d", 4, -1), "stream", "-1"),
    (lambda: Copy("h2d", 4, 1, Region("host", 0, 5)), "host.bytes", "5"),
    (lambda: Copy("h2d", 4, 1, None, Region("card", 0, 3)), "device.bytes", "3"),
    (lambda: Kernel(1), "duration_s", "None"),
    (lambda: Kernel(1, duration_s=-1.0), "duration_s", "-1.0"),
    (lambda: Kernel(1, duration_s=math.nan), "duration_s", "nan"),
    (lambda: Kernel(1, duration_s=math.inf), "duration_s", "inf"),
    (lambda: Kernel(1, duration_s=1e-3, fill=0.0), "fill", "0.0"),
    (lambda: Kernel(1, duration_s=1e-3, fill=1.5), "fill", "1.5"),
    (lambda: Kernel(1, duration_s=1e-3, elements=-1), "elements", "-1"),
    (lambda: Kernel(1, duration_s=1e-3, parameter=-1), "parameter", "-1"),
    (lambda: Kernel(-1, duration_s=1e-3), "stream", "-1"),
    (lambda: RecordEvent(-1, 1), "event", "-1"),
    (lambda: WaitEvent(0, -2), "stream", "-2"),
    (lambda: Synchronize(stream=-1), "stream", "-1"),
    (lambda: Synchronize(event=-1), "event", "-1"),
    (lambda: Synchronize(stream=1, event=1), "event", "1"),
    (lambda: Buffer("", 4, "pinned"), "name", "''"),
    (lambda: Buffer("a", 0, "pinned"), "bytes", "0"),
    (lambda: Buffer("a", 4, "managed"), "memory", "'managed'"),  # type: ignore[arg-type]
    (lambda: Region("a", -1, 4), "offset", "-1"),
    (lambda: Region("a", 0, 0), "bytes", "0"),
    (lambda: schedule(), "ops", "[]"),
    (lambda: Schedule([K], ("non-blocking",)), "ops", "list"),  # type: ignore[arg-type]
    (lambda: schedule(K, streams=["blocking"]), "streams", "list"),
    (lambda: schedule(K, streams=("loud",)), "streams[0]", "'loud'"),
    (lambda: schedule(K, launch="later"), "launch", "'later'"),
    (lambda: schedule(K, events=-1), "events", "-1"),
    (lambda: schedule(K, schema_version=9), "schema_version", "9"),
    (lambda: schedule(K, buffers=(HOST, HOST)), "buffers", "'host'"),
    (lambda: schedule(K, "kernel"), "ops[1]", "'kernel'"),
    (lambda: schedule(K, Copy("h2d", 4, 3)), "ops[1].stream", "3"),
    (lambda: schedule(K, Synchronize(stream=7)), "ops[1].stream", "7"),
    (lambda: schedule(RecordEvent(2, 1)), "ops[0].event", "2"),
    (lambda: schedule(K, WaitEvent(5, 1)), "ops[1].event", "5"),
    (lambda: schedule(Synchronize(event=2)), "ops[0].event", "2"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("nope", 0, 4))), "ops[0].host.buffer", "'nope'"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("card", 0, 4))), "ops[0].host.buffer", "'card'"),
    (lambda: schedule(Copy("h2d", 4, 1, None, Region("host", 0, 4))), "ops[0].device.buffer", "'host'"),
    (lambda: schedule(Copy("h2d", 60, 1, Region("host", 50, 60))), "ops[0].host", "50..110"),
    (lambda: schedule(Kernel(1, duration_s=1e-3, reads=(Region("host", 0, 4),))), "ops[0].reads", "'host'"),
    (lambda: schedule(Kernel(1, duration_s=1e-3, writes=(Region("card", 99, 2),))), "ops[0].writes", "99..101"),
    (lambda: schedule(Synchronize(), K, launch="graph"), "ops[0]", "graph"),
    (lambda: schedule(Kernel(0, duration_s=1e-3), launch="graph"), "ops[0].stream", "0"),
    (lambda: schedule(Copy("h2d", 4, 1, blocking=True), launch="graph"), "ops[0]", "graph"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("page", 0, 4)), launch="graph"), "ops[0]", "graph"),
]


@pytest.mark.parametrize(("make", "field", "value"), REFUSED, ids=[f"{f}={v}" for _, f, v in REFUSED])
def test_bad_input_is_refused_in_one_line_that_names_field_and_value(
    make: Callable[[], object], field: str, value: str
) -> None:
    with pytest.raises(InputError) as caught:
        make()
    message = str(caught.value)
    assert message.startswith(field)
    assert value in message
    assert "\n" not in message


def test_what_is_just_within_the_limits_is_accepted() -> None:
    assert schedule(Copy("h2d", 100, 2, Region("host", 0, 100), Region("card", 0, 100)), RecordEvent(1, 0))
    assert schedule(Kernel(0, duration_s=0.0, reads=(Region("card", 99, 1),)), Synchronize(event=1))
    assert schedule(K, Synchronize(), Synchronize(stream=1), launch="graph")


@settings(deadline=None)
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


@settings(deadline=None)
@given(card.schedules())
def test_json_keeps_a_schedule_exactly(made: Schedule) -> None:
    assert msgspec.json.decode(msgspec.json.encode(made), type=Schedule) == made


@settings(deadline=None)
@given(card.schedules(), st.data())
def test_a_part_of_a_schedule_is_a_schedule(made: Schedule, data: st.DataObject) -> None:
    """No op needs a later one: every prefix is accepted (of a graph, as far as its last piece of work)."""
    n = data.draw(st.integers(1, len(made)))
    assert msgspec.structs.replace(made, ops=made.ops[:n]).ops == made.ops[:n]


def test_the_pageable_buffers_are_known_by_name() -> None:
    assert schedule(K).pageable_names == {"page"}


@pytest.mark.parametrize("field", ["reads", "writes"])
def test_a_kernel_refuses_a_list_of_regions(field: str) -> None:
    """A list would make it mutable, and a set of schedules impossible."""
    with pytest.raises(InputError, match=field):
        Kernel(1, duration_s=1e-3, **{field: [Region("card", 0, 4)]})  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", [simulate, predict, explain, lambda schedule, _: check(schedule)])
def test_a_workload_is_not_yet_a_schedule(ask: Callable[[Any, str], object]) -> None:
    workload = Workload(16, (4,), (4,))
    with pytest.raises(
        InputError, match=r"^schedule = Workload\(64 B in.*\): expected a Schedule, such as depth_first"
    ):
        ask(workload, "ideal")
    with pytest.raises(InputError, match=r"^unchunked = 5: expected a Schedule"):
        Schedule((K,), ("non-blocking",), unchunked=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^name = 5: expected text"):
        Schedule((K,), ("non-blocking",), name=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Workload(16, [4]), "inputs"),  # type: ignore[arg-type]
        (lambda: Workload(16, (4,), kernels=[]), "kernels"),  # type: ignore[arg-type]
        (lambda: WorkloadKernel(points=[]), "points"),  # type: ignore[arg-type]
        (lambda: Grid(chunks=[1, 2]), "chunks"),  # type: ignore[arg-type]
        (lambda: Axis("streams", [1, 2]), "streams"),  # type: ignore[arg-type]
        (lambda: Sweep([], ()), "axes"),  # type: ignore[arg-type]
    ],
)
def test_no_frozen_value_takes_a_list(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InputError, match=f"^{field} = list: expected a tuple"):
        make()


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


def test_one_card_and_one_thread_need_not_be_named() -> None:
    plain = Schedule((Copy("h2d", 4, 1),), ("non-blocking",))
    assert b"card" not in dump_schedule(plain)
    assert b"thread" not in dump_schedule(plain)
    named = dump_schedule(plain).replace(b'"bytes":4', b'"bytes":4,"card":0,"thread":0')
    assert parse_schedule(named) == plain
