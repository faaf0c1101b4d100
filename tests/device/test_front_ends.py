"""Front ends: the same program issued by a library, whose calls cost the host more, and which enters streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from strategies import make_device

from streamsim.device.files import dump_device, parse_device, write_device
from streamsim.device.front_ends import TIMES, FrontEnd, front_end_names, shipped_front_ends, with_front_end
from streamsim.device.library import device_names, load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.config import Config, Order
from streamsim.program.schedule import Copy, Kernel, Schedule, Synchronize
from streamsim.program.workload import Workload, WorkloadKernel

if TYPE_CHECKING:
    from pathlib import Path

NS = 1e-9
WORKLOAD = Workload(8, (4,), (4,), (WorkloadKernel(duration_s=1e-6),))
CARD = make_device(copy=1, kernel=1)
LIBRARY = FrontEnd(2 * NS, 3 * NS, 0.0, 0.0, 0.0, 5 * NS, "measured: by hand")
WITH_LIBRARY = msgspec.structs.replace(CARD, front_ends={"mine": LIBRARY})


def calls_of(schedule: Schedule, front_end: str = "mine") -> list[int]:
    """Ticks that the host spends on each copy and kernel."""
    timeline = simulate(schedule, with_front_end(WITH_LIBRARY, front_end))
    spent = zip(schedule.ops, timeline.issued, timeline.returned, strict=True)
    return [after - before for op, before, after in spent if not isinstance(op, Synchronize)]


# A copy takes 2, a launch 3, entering a stream 5. Chunk by chunk the program enters once a chunk, whether that goes to
# another stream or begins a chunk in the same one; stage by stage every op goes to another stream.
@pytest.mark.parametrize(
    ("order", "streams", "expected"),
    [
        ("depth-first", 2, [7, 3, 2, 7, 3, 2]),
        ("depth-first", 1, [7, 3, 2, 7, 3, 2]),
        ("breadth-first", 2, [7, 7, 8, 8, 7, 7]),
        ("breadth-first", 1, [7, 2, 3, 3, 2, 2]),
    ],
)
def test_a_program_enters_a_stream_where_it_turns_to_it(order: Order, streams: int, expected: list[int]) -> None:
    assert calls_of(Config(order, 2, streams).schedule(WORKLOAD)) == expected


def test_the_legacy_stream_is_never_entered() -> None:
    """It is the current one where no other has been entered; 5 to enter stream 1, nothing to leave it."""
    ops = (Copy("h2d", 8, 0), Copy("h2d", 8, 1), Kernel(0, duration_s=1e-9), Copy("h2d", 8, 1))
    assert calls_of(Schedule(ops, ("non-blocking",))) == [2, 7, 3, 7]


def test_the_launch_of_a_graph_enters_no_stream() -> None:
    graph = Config("depth-first", 2, 2, launch="graph").schedule(WORKLOAD)
    assert calls_of(graph) == calls_of(graph, "calls")


def test_bare_calls_are_the_profile_as_it_is() -> None:
    assert with_front_end(WITH_LIBRARY, "calls") is WITH_LIBRARY
    assert calls_of(Config("depth-first", 1, 1).schedule(WORKLOAD), "calls") == [1, 1, 1]


@pytest.mark.parametrize("name", device_names())
@pytest.mark.parametrize("front_end", ["cupy", "pytorch"])
def test_a_device_and_a_front_end_by_one_name(name: str, front_end: str) -> None:
    device = load_device(f"{name}:{front_end}")
    assert device == with_front_end(load_device(name), front_end)
    assert device.name == f"{name}:{front_end}"
    calls = load_device(name).front_ends.get(front_end) or shipped_front_ends()[front_end]
    assert [getattr(device.host, field) for field in TIMES] == [getattr(calls, field) for field in TIMES]
    assert all(device.source(f"host.{field}")[1] in calls.source for field in TIMES)


def test_a_front_end_of_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    write_device(WITH_LIBRARY, path)
    assert load_device(f"{path}:mine").host.enter_s == 5 * NS
    assert parse_device(dump_device(WITH_LIBRARY)) == WITH_LIBRARY
    assert front_end_names(WITH_LIBRARY) == ["calls", "cupy", "mine", "pytorch"]


def test_calls_may_be_written_with_units() -> None:
    text = dump_device(WITH_LIBRARY).replace("enter_s = 5e-09", 'enter_s = "7us"')
    assert parse_device(text).front_ends["mine"].enter_s == 7e-6


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('enter_s = "7 parsecs"', "front_ends.mine.enter_s"),
        ("enter_s = -1.0", "front_ends.mine.enter_s"),
        ("enter_s = 5e-09\nexit_s = 1.0", "front_ends.mine.exit_s"),
    ],
)
def test_what_is_wrong_with_a_front_end_is_named(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        parse_device(dump_device(WITH_LIBRARY).replace("enter_s = 5e-09", text))


def test_a_front_end_says_where_its_numbers_come_from() -> None:
    with pytest.raises(InputError, match=r"front_ends.mine.source = 'a friend'.*measured"):
        msgspec.structs.replace(CARD, front_ends={"mine": msgspec.structs.replace(LIBRARY, source="a friend")})


def test_an_unknown_front_end_is_named_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="front end = 'jax': expected one of calls, cupy, pytorch"):
        load_device("h200:jax")
