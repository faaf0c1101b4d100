"""The compiled twin: the same ticks as the SimPy model, on everything that can be said."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import strategies
from effort import THOROUGH, examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from refusals import refusal
from twins import DEVICES, assert_same, by_simpy, compiled, simulate
from whole_workloads import LONG_TICKS, MANY_BYTES, ways, whole_programs

import streamsim.compiled
from streamsim import model
from streamsim.compiled import available, makespans, simulate_one_of_many, telling
from streamsim.device import Device, load_device
from streamsim.errors import LARGEST_BYTES, LONGEST_S, InputError
from streamsim.program import LAUNCHES, Config, Kernel, Order, Schedule, Workload, WorkloadKernel, build
from streamsim_validate.records import read_record

RECORDS = Path(__file__).parents[2] / "validate" / "campaigns" / "records"
TRIED = set("0123456789abcdef" if THOROUGH else "4c")  # first digits of digests


# Time lines


@compiled
@examples(600)
@given(strategies.CASES | st.tuples(strategies.schedules(most=60, streams=12), strategies.devices()))
def test_equals_the_model_on_any_schedule_and_device(case: tuple[Schedule, Device]) -> None:
    assert_same(*case)


@compiled
@pytest.mark.parametrize("name", DEVICES)
@examples(25)
@given(schedule=strategies.schedules(most=40, streams=12))
def test_equals_the_model_on_every_shipped_device(name: str, schedule: Schedule) -> None:
    ops = tuple(op for op in schedule.ops if not isinstance(op, Kernel) or op.duration_s is not None)
    if ops:
        known = Schedule(ops, schedule.streams, schedule.buffers, schedule.events, schedule.launch)
        assert_same(known, load_device(name))


@compiled
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECORDS.glob("*.json.gz")) if not path.name.startswith(("programs-", "tuning-"))],
    ids=lambda path: path.name,
)
def test_equals_the_model_on_the_committed_schedules(path: Path) -> None:
    """Of ordinary runs one in eight, by the first digit of their digest; of thorough ones all."""
    seen: set[tuple[int, str]] = set()
    shipped = load_device("h200")
    for run in read_record(path).runs:
        device = run.profile() or shipped
        for entry in run.entries:
            if entry.digest[:1] in TRIED and (run.connections, entry.digest) not in seen:
                seen.add((run.connections, entry.digest))
                assert_same(entry.build(), device)
    assert seen


@compiled
@pytest.mark.parametrize("rate", [0.002, 1.0, 1e6])
@pytest.mark.parametrize("latency", [0, 10**9, 60 * 10**9])
def test_the_largest_copies_at_the_slowest_and_fastest_rates(rate: float, latency: int) -> None:
    """8 TiB in fixed point fill an int64: no sum or product of theirs may overflow it."""
    most = LARGEST_BYTES
    direction = strategies.link(
        latency,
        rate,
        rate / 2,
        duplex_latency=2 * latency,
        crowded_latency=3 * latency,
        crowded_duplex_latency=4 * latency,
        in_flight=most,
    )
    device = strategies.make_device(h2d=direction, d2h=direction)
    first = [op for stream in (1, 2, 3, 4) for op in (strategies.h2d(stream, most), strategies.kernel(stream, 5))]
    found = assert_same(
        strategies.plan(
            *first, strategies.d2h(2, most - 1), strategies.h2d(3, 1), strategies.d2h(1, most), strategies.h2d(2, most)
        ),
        device,
    )
    quiet = assert_same(strategies.plan(first[0]), device)
    assert found.end[0] - quiet.end[0] == 3 * latency - latency  # four kernels wait for what it begins


THREE_THAT_WAIT = strategies.make_device(h2d=strategies.link(crowded_latency=3), d2h=strategies.link(crowded_latency=3))


# Makespans of patterns


@compiled
def test_a_slot_that_is_handed_over_stands_behind_what_was_copied_once() -> None:
    # Two arrays of 10 bytes are copied once, then two kernels of 4 ticks follow each other over the one slot of a ring.
    # While the second array is copied one kernel waits for it. The other, of stream 2, waits for the kernel of stream
    # 1, which implies the copy; so it crowds nobody, and the copy takes 10, not a tick more.
    workload = Workload(None, (), (), (WorkloadKernel(duration_s=8 * strategies.NS),), h2d_once=(10, 10))
    way = Config(chunks=2, streams=2, buffers=1)
    assert list(makespans(workload, [way], THREE_THAT_WAIT)) == [by_simpy(workload, way, THREE_THAT_WAIT)] == [28]


@compiled
@examples(200)
@given(whole_programs(), strategies.devices())
def test_makespans_are_those_of_the_schedules_that_build_makes(work: tuple[Workload, Config], device: Device) -> None:
    workload, way = work
    assert list(makespans(workload, [way], device)) == [by_simpy(workload, way, device)]


@compiled
@pytest.mark.parametrize("name", DEVICES)
@examples(20)
@given(work=whole_programs(sizes=MANY_BYTES, ticks=LONG_TICKS, costed=False))
def test_a_shipped_device_has_one_answer(name: str, work: tuple[Workload, Config]) -> None:
    workload, way = work
    device = load_device(name)
    assert list(makespans(workload, [way], device)) == [by_simpy(workload, way, device)]
    assert_same(way.schedule(workload), device)


@compiled
@examples(150)
@given(st.data(), st.integers(1, 200), st.lists(st.sampled_from((2, 4, 8)), max_size=2), st.integers(1, 3))
def test_makespans_of_kernels_that_leave_the_card(data: Any, elements: int, sizes: list[int], kernels: int) -> None:
    costed = (WorkloadKernel(strategies.COST.name, None, strategies.COST.parameter),) * kernels
    workload = Workload(elements, tuple(sizes), tuple(data.draw(st.permutations(sizes))), costed)
    _, device = data.draw(strategies.draining())
    way = data.draw(ways(workload.work))
    assert list(makespans(workload, [way], device)) == [by_simpy(workload, way, device)]


@compiled
@pytest.mark.parametrize("parameter", [2, 40, 176])
def test_many_streams_and_named_kernels_side_by_side(parameter: int) -> None:
    """Small kernels share the pace of the card, and calls cost more: rules that random devices seldom bring to bear."""
    shipped = load_device("h200")
    device = replace(shipped, host=replace(shipped.host, first_on_stream_s=0.7e-6))
    workload = Workload(1 << 20, (4,), (4,), (WorkloadKernel("sincos", parameter=parameter),))
    ways = [Config(order, 64, s, launch=how) for order in ORDERS for s in (3, 8, 16, 31, 32) for how in LAUNCHES]
    assert list(makespans(workload, ways, device)) == [by_simpy(workload, way, device) for way in ways]
    for order in ORDERS:
        schedule = build(workload, order, 24, 12)
        assert simulate(schedule, device).end == model.simulate(schedule, device).end


ORDERS: tuple[Order, ...] = ("depth-first", "breadth-first")


@compiled
def test_threads_change_nothing() -> None:
    workload, device = strategies.pipeline_of(1 << 22), load_device("h200")
    ways = [Config("depth-first", n, s) for n in range(1, 200, 2) for s in (1, 5, 9)]
    ways += [Config("serial", n) for n in range(1, 200, 2)]
    ways += [Config(chunks=n, streams=5, buffers=3) for n in range(1, 100)]
    ways.insert(7, Config("prefetch", 300))  # of a workload without copies in, SimPy runs it
    workload = replace(workload, inputs=())
    one = makespans(workload, ways, device, threads=1)
    assert one[7] == by_simpy(workload, ways[7], device)
    assert one.dtype == "int64"
    assert list(makespans(workload, ways, device, threads=3)) == list(one)
    assert [makespans(workload, [way], device)[0] for way in ways[::37]] == list(one[::37])


@compiled
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_first_configuration_that_cannot_be_cut_is_named_whatever_the_threads(threads: int) -> None:
    workload, device = strategies.pipeline_of(4096), load_device("h200")
    ways = [Config(chunks=n, streams=4) for n in (*range(2000, 4000, 8), 4097, *range(2000, 4000, 8), 5000)]
    with pytest.raises(InputError, match="chunks = 4097: more chunks than elements"):
        makespans(workload, ways, device, threads)


@compiled
def test_configurations_beyond_an_int64_go_to_simpy() -> None:
    # Ticks of a day times the width of three tenths of a card is more than 2**61, so only SimPy can count it.
    day = Workload(1000, (1,), (1,), (WorkloadKernel(duration_s=LONGEST_S, fill=0.3),))
    device = strategies.make_device(concurrent_kernels=4)
    ways = [Config(chunks=n, streams=3) for n in (1, 1000, 2)]
    assert list(makespans(day, ways, device)) == [by_simpy(day, way, device) for way in ways]


# Without numba


WHY_NOT: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "numba...pip install '.[fast]'": lambda patch: patch.setattr("streamsim.compiled.find_spec", lambda _: None),
    "numba is installed but cannot be imported (...: pip install --upgrade": (
        lambda patch: patch.setitem(sys.modules, "numba", None)  # importing it raises ImportError
    ),
    "NUMBA_DISABLE_JIT = ...: switches numba's compiler off; unset it": (
        lambda patch: patch.setenv("NUMBA_DISABLE_JIT", " 1")
    ),
}


@pytest.mark.parametrize("said", WHY_NOT)
def test_what_keeps_numba_from_compiling_is_one_line(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setattr("streamsim.compiled.find_spec", lambda _: "found")
    WHY_NOT[said](monkeypatch)
    assert not available() or "cannot be imported" in said
    refusal(lambda: makespans(strategies.pipeline_of(8), [Config()], strategies.make_device()), said)


def test_without_a_folder_to_write_to_it_compiles_without_a_cache_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container whose package and home are read-only: numba finds no place, and refuses to decorate."""
    from streamsim.compiled import loop

    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    monkeypatch.setattr(loop, "_cache", True)
    with pytest.warns(RuntimeWarning, match="every run compiles it anew: set NUMBA_CACHE_DIR to a folder") as said:
        found = [loop.compiled(make) for make in (lambda sources: lambda: sources, lambda sources: lambda: -sources)]
    assert len(said) == 1
    assert found[0]() == -found[1]() == loop.sources()


@pytest.mark.parametrize("is_installed", [True, False])
def test_which_simulator_runs_hangs_on_the_size_of_the_job_and_on_what_is_installed(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    """So many schedules of so many ops; whatever ran before."""
    ran: list[str] = []
    stand_in = SimpleNamespace(run=lambda _: ran.append("compiled"))  # of what needs numba
    monkeypatch.setitem(sys.modules, "streamsim.compiled.loop", stand_in)
    monkeypatch.setattr(model, "run", lambda _: ran.append("simpy"))
    monkeypatch.setattr(streamsim.compiled, "available", lambda: is_installed)
    monkeypatch.setattr(streamsim.compiled, "_check_available", lambda: None)
    monkeypatch.setattr(streamsim.compiled, "LOADING_OPS", 5)
    two_ops, device = strategies.plan(strategies.h2d(1, 8), strategies.d2h(1, 8)), strategies.make_device()
    for many in (1, 2, 3, 2, 1):
        simulate_one_of_many(two_ops, device, many)
    assert ran == ["simpy", "simpy", "compiled" if is_installed else "simpy", "simpy", "simpy"]


@compiled
def test_it_is_told_that_the_model_is_compiled() -> None:
    """Numba broadcasts the event when it compiles, not when it finds a function in its cache or in memory."""
    from numba.core.event import trigger_event

    told: list[str] = []
    makespans(Workload(1, (1,)), [Config()], load_device("ideal"))  # now it is in memory
    with telling(lambda: told.append("compiling")):
        makespans(Workload(1, (1,)), [Config()], load_device("ideal"))
        assert told == []
        for _ in range(2):
            with trigger_event("numba:compile", data={}):
                pass
    with trigger_event("numba:compile", data={}):
        pass
    assert told == ["compiling"]
