"""What ``streamsim-validate capture`` wrote: read as the other formats are, whatever is wrong with it in one line."""

import json
from typing import Any

import msgspec
import pytest
import strategies as card
from effort import examples
from fake_gpu import cupti
from fake_gpu.cupti import ActivityKind, record
from hypothesis import given
from made_captures import captured, records_of
from perfect_profiler import assert_is_that_program, profiled
from strategies import NS, d2h, h2d, kernel, make_device, plan

from streamsim import recorded
from streamsim.device import Device, with_values
from streamsim.model import simulate
from streamsim.program import HostWork, Schedule, Synchronize

CALLS = ("copy", "kernel", "record", "wait", "synchronize")
PLACED = {"context_id": 1, "stream_id": 7}


def read(*records: Any, **more: Any) -> recorded.Recording:
    return recorded.read_captured("capture.json", iter([captured(records, **more)]))


def call(name: str, start: int, end: int, correlation: int, kind: ActivityKind = ActivityKind.RUNTIME) -> Any:
    domain = cupti.CallbackDomain.DRIVER_API if kind == ActivityKind.DRIVER else 2
    number = cupti.number_of(name, domain)
    return record(kind, cbid=number, start=start, end=end, correlation_id=correlation, process_id=420, thread_id=421)


def copy(start: int, end: int, correlation: int, kind: int, source: int, target: int, **more: Any) -> Any:
    times = {"start": start, "end": end, "correlation_id": correlation}
    sides = {"copy_kind": kind, "src_kind": source, "dst_kind": target}
    return record(ActivityKind.MEMCPY, bytes=1 << 20, **times, **sides, **PLACED | more)


def launched(start: int, end: int, correlation: int, **more: Any) -> Any:
    shape = {"grid_x": 8, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    times = {"start": start, "end": end, "correlation_id": correlation}
    return record(ActivityKind.CONCURRENT_KERNEL, **{"name": "k", **times, **shape, **PLACED, **more})


@examples(60)
@given(card.schedules(launch="live"), card.devices(concurrent_kernels=1, resident_threads=0, kernel_signal="each"))
def test_a_program_that_was_captured_is_that_program(schedule: Schedule, device: Device) -> None:
    """As for a perfect recording of it (``test_program.py``), through CUPTI's records, the runner and the file."""
    ops = [msgspec.structs.replace(op, call_s=None) if "call_s" in op.__struct_fields__ else op for op in schedule.ops]
    costs = {f"host.{call}_s": getattr(device.host, f"{call}_s") + NS for call in CALLS}
    schedule, device = msgspec.structs.replace(schedule, ops=tuple(ops)), with_values(device, costs)
    assert_is_that_program(schedule, device, lambda was: read(*records_of(profiled(was))))


@pytest.mark.parametrize(
    ("kind", "source", "target", "direction", "memory"),
    [
        (1, 1, 3, recorded.CopyDirection.H2D, recorded.CopyMemory.PAGEABLE),
        (2, 3, 1, recorded.CopyDirection.D2H, recorded.CopyMemory.PAGEABLE),
        (2, 3, 0, recorded.CopyDirection.D2H, recorded.CopyMemory.UNKNOWN),
        (8, 3, 3, recorded.CopyDirection.D2D, recorded.CopyMemory.NONE),
        (1, 5, 3, recorded.CopyDirection.UNIFIED, recorded.CopyMemory.NONE),
        (77, 1, 3, recorded.CopyDirection.OTHER, recorded.CopyMemory.NONE),
    ],
)
def test_what_a_copy_is_cuptis_numbers_say(
    kind: int, source: int, target: int, direction: recorded.CopyDirection, memory: recorded.CopyMemory
) -> None:
    work = read(copy(10, 20, 1, kind, source, target)).work
    assert (work.direction[0], work.memory[0]) == (direction, memory)


def test_memsets_graphs_and_ranges_are_read_without_the_profilers_own() -> None:
    found = read(
        call("cudaGraphLaunch", 10, 20, 1),
        launched(30, 40, 1, graph_id=3, graph_node_id=1),
        record(
            ActivityKind.MEMSET, start=50, end=60, correlation_id=1, bytes=64, graph_id=3, graph_node_id=2, **PLACED
        ),
        record(ActivityKind.OVERHEAD, start=70, end=80, overhead_kind=1 << 16),
        ranges=[("step", 5, 65), ("ProfilerStep#1", 6, 64)],
    )
    assert found.work.kind.tolist() == [recorded.WorkKind.KERNEL, recorded.WorkKind.MEMSET]
    names = [found.names[name] for name in found.annotations.name]
    assert names == ["step", "ProfilerStep#1"]
    assert found.annotations.kind.tolist() == [recorded.AnnotationKind.RANGE, recorded.AnnotationKind.STEP]
    assert not found.unread


# Files that are not as they should be


def test_what_refers_to_nothing_and_what_is_of_a_later_version_is_counted() -> None:
    columns = {"start": [1], "end": [2], "thread": [1], "correlation": [9], "name": [999]}
    later = {"table": "something new", "columns": {"a": [1]}}
    more = [json.dumps({"table": "calls", "columns": columns}).encode(), json.dumps(later).encode()]
    lines = captured(records_of(stepping())).splitlines()[:-1]
    found = recorded.read_captured("t.json", iter([b"\n".join([*lines, *more, b'{"end":true,"dropped":3}'])]))
    assert "a name that is missing" in [found.names[name] for name in found.calls.name]
    counted = {row.what: row.count for row in found.unread}
    assert counted == {"records of table 'something new'": 1, "records that CUPTI lost": 3}


# What a window takes when nothing records it


def stepping() -> recorded.Recording:
    """Two steps of host work 20, a copy in, a kernel, a copy back and a wait; each call costs 5 more than untraced."""
    device = make_device(copy=6, kernel=6, synchronize=6)
    step = (HostWork(20 * NS), h2d(1, 40), kernel(1, 30), d2h(1, 40), Synchronize())
    return profiled(simulate(plan(*step, *step), device))


@pytest.mark.parametrize(
    ("window", "untraced_ns", "expected_ns"),
    [("step", [100], 75), ("step[2]", [90, 140, 100], 75), ("step", [20], None), ("other", [9], None)],
)
def test_a_window_takes_its_untraced_time_without_what_lies_around_its_program(
    window: str, untraced_ns: list[int], expected_ns: int | None
) -> None:
    """The host's 20 before the first call and 5 behind the last end are not the program's."""
    was = stepping()
    half = len(was.calls) // 2
    starts = [int(was.calls.start_ns[0]), int(was.calls.start_ns[half])]
    ends = [int(was.calls.end_ns[half - 1]), int(was.calls.end_ns[-1])]
    ranges = [("step", start - 20, end + 5) for start, end in zip(starts, ends, strict=True)]
    untraced = [(run, "step", k * 1000, k * 1000 + ns) for run, ns in enumerate(untraced_ns) for k in range(2)]
    found = recorded.untraced_time_s(read(*records_of(was), ranges=ranges, untraced=untraced), window)
    assert found == (None if expected_ns is None else pytest.approx(expected_ns * 1e-9))
