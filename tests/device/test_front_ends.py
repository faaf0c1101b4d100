"""Front ends: the same program issued by a library, whose calls cost the host more, and which enters streams."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from strategies import d2h, h2d, kernel, make_device, plan

from streamsim import best, device, program
from streamsim.files import dump_toml, write_toml
from streamsim.model import simulate
from streamsim.search import Grid, evaluate

NS = 1e-9
WORKLOAD = program.Workload(8, (4,), (4,), (program.WorkloadKernel(duration_s=1e-6),))
CARD = make_device(copy=1, kernel=1)
LIBRARY = device.FrontEnd(2 * NS, 3 * NS, 0.0, 0.0, 0.0, 5 * NS, "measured: by hand")
WITH_LIBRARY = replace(CARD, front_ends={"mine": LIBRARY})


def with_library(card: device.Device = CARD, name: str = "mine", **calls: float) -> device.Device:
    """The card with the calls of a library."""
    return device.with_front_end(replace(card, front_ends={name: replace(LIBRARY, **calls)}), name)


def calls_of(schedule: program.Schedule, profile: device.Device | None = None) -> list[int]:
    """Ticks that the host spends on each copy and kernel."""
    timeline = simulate(schedule, profile or with_library())
    spent = zip(schedule.ops, timeline.issued, timeline.returned, strict=True)
    return [after - before for op, before, after in spent if not isinstance(op, program.Synchronize)]


# A copy takes 2, a launch 3, entering a stream 5. Chunk by chunk the program enters once a chunk, whether that goes to
# another stream or begins a chunk in the same one; stage by stage every op goes to another stream, or is for another
# chunk in the same one.
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize(
    ("order", "expected"), [("depth-first", [7, 3, 2, 7, 3, 2]), ("breadth-first", [7, 7, 8, 8, 7, 7])]
)
def test_a_program_enters_a_stream_where_it_turns_to_it(
    order: program.Order, streams: int, expected: list[int]
) -> None:
    assert calls_of(program.Config(order, 2, streams).schedule(WORKLOAD)) == expected


def test_the_legacy_stream_is_never_entered() -> None:
    """It is the current one where no other has been entered; 5 to enter stream 1, nothing to leave it."""
    ops = (
        program.Copy("h2d", 8, 0),
        program.Copy("h2d", 8, 1),
        program.Kernel(0, duration_s=1e-9),
        program.Copy("h2d", 8, 1),
    )
    assert calls_of(program.Schedule(ops, ("non-blocking",))) == [2, 7, 3, 7]


LAYERS = (program.WorkloadKernel("linear", duration_s=1e-6), program.WorkloadKernel("relu", duration_s=1e-6))
NETWORK = program.Workload(8, (4,), (4,), LAYERS)


@pytest.mark.parametrize(("linear_s", "expected"), [(9 * NS, [7, 9, 3, 2] * 2), (0.0, [7, 3, 3, 2] * 2)])
def test_a_linear_layer_is_called_at_its_own_cost_or_as_any_operation(linear_s: float, expected: list[int]) -> None:
    """A copy takes 2 and entering 5, another operation 3; where nobody has measured the layer, 3 as well."""
    profile = with_library(linear_s=linear_s)
    assert calls_of(program.Config("depth-first", 2, 2).schedule(NETWORK), profile) == expected
    graph = program.Config("depth-first", 2, 2, launch="graph").schedule(NETWORK)
    assert simulate(graph, profile).makespan_s == simulate(graph, CARD).makespan_s


@pytest.mark.parametrize("name", device.device_names())
@pytest.mark.parametrize("front_end", ["cupy", "pytorch", "pytorch_eager"])
def test_a_device_and_a_front_end_by_one_name(name: str, front_end: str) -> None:
    profile = device.load_device(f"{name}:{front_end}")
    assert profile == device.with_front_end(device.load_device(name), front_end)
    assert profile.name == f"{name}:{front_end}"
    calls = device.load_device(name).front_ends.get(front_end) or device.shipped_front_ends()[front_end]
    known = [field for field in device.TIMES if field in device.IN_LOOPS or getattr(calls, field)]
    assert [getattr(profile.host, field) for field in known] == [getattr(calls, field) for field in known]
    assert all(profile.source(f"host.{field}")[1] in calls.source for field in known)


def test_the_first_call_on_a_stream_is_dear_in_compiled_programs_as_in_bare_ones() -> None:
    """A copy of 2 on each of two streams, the first on each 9 longer; a library's are a mean with the first ones."""
    card = replace(CARD, host=replace(CARD.host, first_on_stream_s=9 * NS))
    for name, expected in (("cuda-c++", [11, 2, 11]), ("mine", [2, 2, 2])):
        profile = with_library(card, name, enter_s=0.0)
        assert calls_of(plan(h2d(1, 1), h2d(1, 1), h2d(2, 1)), profile) == expected


def test_what_first_calls_take_longer_is_that_of_bare_calls_unless_measured() -> None:
    """A copy, a kernel and a copy back: the first two take longer by what the card's profile says, or its library's."""
    card = replace(CARD, host=replace(CARD.host, after_wait_s=7 * NS))
    for longer, expected in ((0.0, [107, 107, 100]), (9 * NS, [109, 109, 100])):
        profile = with_library(card, copy_s=100 * NS, kernel_s=100 * NS, enter_s=0.0, after_wait_s=longer)
        assert calls_of(plan(h2d(1, 1), kernel(1, 1), d2h(1, 1)), profile) == expected


def test_a_front_end_of_a_file_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    write_toml(WITH_LIBRARY, path)
    assert device.load_device(f"{path}:mine").host.enter_s == 5 * NS
    assert device.parse_device(dump_toml(WITH_LIBRARY)) == WITH_LIBRARY


def written(front_end: str) -> program.Workload:
    return program.Workload(1 << 18, (4,), (4,), (program.WorkloadKernel(duration_s=20e-6),), front_end=front_end)


def test_a_workloads_front_end_is_that_of_a_device_of_that_name() -> None:
    """Four copies of 10 us and two kernels of 7 are more than the card needs for 2 MiB: the host bounds two chunks."""
    configs = [program.Config(chunks=2, streams=2), program.Config(chunks=8, streams=2)]
    for front_end in ("cupy", "pytorch"):
        found = evaluate(written(front_end), configs, "h200")
        assert found == evaluate(written(""), configs, f"h200:{front_end}")
        assert found != evaluate(written(""), configs, "h200")


def test_a_device_that_has_a_front_end_keeps_it() -> None:
    grid = Grid((1, 2, 4, 8), (1, 2))
    configs = grid.configs(WORKLOAD)
    assert evaluate(written("pytorch"), configs, "h200:cupy") == evaluate(written(""), configs, "h200:cupy")
    assert best(written("pytorch"), "h200:cupy", grid) == best(written(""), "h200:cupy", grid)
    assert evaluate(written("calls"), configs, "h200") == evaluate(written(""), configs, "h200")
    assert device.written_in(WITH_LIBRARY, "") is WITH_LIBRARY
    assert device.front_end_of(WITH_LIBRARY) == "calls"
    assert device.front_end_of(device.written_in(WITH_LIBRARY, "Mine")) == "mine"
    assert device.front_end_of(replace(CARD, name="slot 3: left")) == "calls"
