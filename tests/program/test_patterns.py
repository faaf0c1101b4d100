"""The patterns: every byte copied once, no two conflicting accesses unordered, and the right data in every output.

The order is the oracle's (CUDA's rules, and the calls that hold the host), not the model's.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import oracle
import strategies as card
from hypothesis import given
from hypothesis import strategies as st
from race_oracle import Graph, end, races, start
from whole_workloads import built

from streamsim import program
from streamsim.device import Device
from streamsim.model import simulate


def chunk_bounds(elements: int, chunks: int) -> list[tuple[int, int]]:
    """First element and count of each chunk."""
    counts = [part.elements for part in program.Workload(elements, (1,)).cut(chunks) for _ in range(part.many)]
    return [(sum(counts[:i]), count) for i, count in enumerate(counts)]


def copied(schedule: program.Schedule, direction: str) -> Iterator[tuple[str, int]]:
    """Every (host buffer, byte) that the copies of one direction touch, once for each time."""
    for op in schedule:
        if isinstance(op, program.Copy) and op.direction == direction:
            assert op.host is not None
            for byte in range(op.host.offset, op.host.offset + op.host.bytes):
                yield op.host.buffer, byte


# -- laws of every pattern --------------------------------------------------------------------------------------------


@given(built())
def test_every_byte_is_copied_exactly_once(made: tuple[program.Workload, program.Schedule, int]) -> None:
    workload, schedule, _ = made
    for prefix, direction, sizes in (("in", "h2d", workload.inputs), ("out", "d2h", workload.outputs)):
        expected = {(f"h_{prefix}{k}", byte) for k, n in enumerate(sizes) for byte in range(n * workload.work)}
        counted = Counter(copied(schedule, direction))
        assert counted.keys() == expected
        assert set(counted.values()) <= {1}


@given(built())
def test_no_two_conflicting_accesses_are_unordered(made: tuple[program.Workload, program.Schedule, int]) -> None:
    assert races(made[1]) == {}


@given(built())
def test_every_kernel_and_every_output_gets_the_data_of_its_chunk(
    made: tuple[program.Workload, program.Schedule, int],
) -> None:
    """Without races every order that CUDA allows gives what the issue order gives, so one symbolic run is enough.

    Whatever the pattern, the kernels of a chunk are issued together and chunk after chunk.
    """
    workload, schedule, chunks = made
    bounds = chunk_bounds(workload.work, chunks)
    on_card: dict[str, tuple[int, int, int]] = {}  # device bytes -> chunk first, count, kernels that have run on them
    kernels_run: Counter[tuple[int, int]] = Counter()
    for op in schedule:
        if isinstance(op, program.Copy):
            assert op.host is not None
            assert op.device is not None
            sizes = workload.inputs if op.direction == "h2d" else workload.outputs
            n = sizes[int(op.host.buffer.removeprefix("h_in").removeprefix("h_out"))]
            part = (op.host.offset // n, op.host.bytes // n)
            assert part in bounds
            if op.direction == "h2d":
                on_card[f"{op.device.buffer}@{op.device.offset}"] = (*part, 0)
            elif workload.kernels:
                assert on_card[f"{op.device.buffer}@{op.device.offset}"] == (*part, len(workload.kernels))
        elif isinstance(op, program.Kernel):
            part = bounds[sum(kernels_run.values()) // len(workload.kernels)]
            assert {on_card[f"{r.buffer}@{r.offset}"][:2] for r in op.reads} <= {part}
            assert len(op.reads) == len(workload.inputs)
            assert op.elements == (part[1] if workload.inputs or workload.outputs else 0)  # else they say nothing
            kernels_run[part] += 1
            for w in op.writes:
                on_card[f"{w.buffer}@{w.offset}"] = (*part, kernels_run[part])
    assert set(kernels_run.values()) <= {len(workload.kernels)}
    assert len(kernels_run) == (chunks if workload.kernels else 0)


@given(built(), card.devices())
def test_every_pattern_runs_and_ends_with_the_host_waiting_for_all(
    made: tuple[program.Workload, program.Schedule, int], device: Device
) -> None:
    timeline = simulate(made[1], device)
    assert made[1].ops[-1] == program.Synchronize()
    on_card = [end for end, engine in zip(timeline.end, timeline.engine, strict=True) if engine >= 0]
    assert timeline.returned[-1] >= max(on_card, default=0)


@given(built())
def test_every_wait_is_for_an_event_recorded_before(made: tuple[program.Workload, program.Schedule, int]) -> None:
    recorded = set()
    for op in made[1]:
        if isinstance(op, program.RecordEvent):
            assert op.event not in recorded
            recorded.add(op.event)
        elif isinstance(op, program.WaitEvent):
            assert op.event in recorded


# -- chunks -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.data())
def test_chunks_cover_the_elements_and_the_last_is_the_smallest(elements: int, data: st.DataObject) -> None:
    chunks = data.draw(st.integers(1, min(elements, 300)))
    bounds = chunk_bounds(elements, chunks)
    counts = [count for _, count in bounds]
    assert len(bounds) == chunks
    assert [first for first, _ in bounds] == [sum(counts[:i]) for i in range(chunks)]
    assert sum(counts) == elements
    assert min(counts) == counts[-1] >= 1
    assert max(counts) == counts[0] == -(-elements // chunks)
    if elements % chunks == 0:
        assert len(set(counts)) == 1
    elif -(-elements // chunks) * (chunks - 1) < elements:  # equal chunks of the rounded-up size leave one for the last
        assert len(set(counts[:-1])) == 1
    else:
        assert max(counts) - min(counts) == 1


# -- the shape of each pattern ----------------------------------------------------------------------------------------


def shape(schedule: program.Schedule) -> str:
    """Directions, kernels and streams in issue order: "h1 k1 d1"; ! where the call blocks."""
    words = []
    for op in schedule:
        if isinstance(op, program.Copy):
            words.append(f"{op.direction[0]}{op.stream}" + "!" * op.blocking)
        elif isinstance(op, program.Kernel):
            words.append(f"k{op.stream}")
        elif isinstance(op, program.RecordEvent | program.WaitEvent):
            words.append(f"{'r' if isinstance(op, program.RecordEvent) else 'w'}{op.event}:{op.stream}")
    return " ".join(words)


def test_depth_first_goes_chunk_by_chunk_and_breadth_first_stage_by_stage() -> None:
    workload = program.Workload(3, (4, 4), (4,), (card.MS_KERNEL,))
    assert shape(program.depth_first(workload, 3, 2)) == "h1 h1 k1 d1 h2 h2 k2 d2 h1 h1 k1 d1"
    assert shape(program.breadth_first(workload, 3, 2)) == "h1 h1 h2 h2 h1 h1 k1 k2 k1 d1 d2 d1"
    assert shape(program.depth_first(workload, 2, 1)) == "h1 h1 k1 d1 h1 h1 k1 d1"
    assert shape(program.serial(workload)) == "h1! h1! k1 d1!"


def test_a_ring_waits_for_the_chunk_that_had_its_buffer() -> None:
    # 2 buffers, 3 streams: chunk 2 (stream 3) after chunk 0 (stream 1), chunk 3 (stream 1) after chunk 1 (stream 2).
    workload = program.Workload(4, (4,), (), (card.MS_KERNEL,))
    made = program.ring(workload, 4, buffers=2, streams=3)
    assert shape(made) == "h1 k1 r0:1 h2 k2 r1:2 w0:3 h3 k3 w1:1 h1 k1"
    # In one stream a buffer, the stream's own order is enough.
    assert shape(program.ring(workload, 4, buffers=2)) == "h1 k1 h2 k2 h1 k1 h2 k2"


@given(card.small_workloads(), st.integers(1, 9), st.integers(1, 9), st.data())
def test_a_ring_uses_as_many_chunk_sized_buffers_as_it_says(
    workload: program.Workload, buffers: int, streams: int, data: st.DataObject
) -> None:
    chunks = data.draw(st.integers(1, min(workload.work, 12)))
    made = program.ring(workload, chunks, buffers, streams)
    largest = max(count for _, count in chunk_bounds(workload.work, chunks))
    on_card = [b for b in made.buffers if b.memory == "device"]
    sizes = workload.inputs + workload.outputs
    assert Counter(b.bytes for b in on_card) == Counter(
        {n * largest: sizes.count(n) * min(buffers, chunks) for n in sizes}
    )
    uses: dict[str, list[int]] = {}
    for op in made:
        if isinstance(op, program.Copy) and op.direction == "h2d":
            assert op.host is not None
            assert op.device is not None
            uses.setdefault(op.device.buffer, []).append(op.host.offset)
    assert all(
        len(offsets) in (chunks // min(buffers, chunks), -(-chunks // min(buffers, chunks)))
        for offsets in uses.values()
    )


def test_in_a_relay_kernels_take_turns_over_the_streams_and_copies_do_not_wait_for_them() -> None:
    schedule = program.build(
        program.Workload(8, (1,), (1,), (program.WorkloadKernel(duration_s=1e-6, launches=2),)), "relay", 3, 2
    )
    behind = Graph(schedule).behind
    kernels = [i for i, op in enumerate(schedule) if isinstance(op, program.Kernel)]
    assert all(behind[start(second)] >> end(first) & 1 for first, second in pairwise(kernels))
    assert [schedule.ops[i].stream for i in kernels] == [1, 1, 2, 2, 1, 1]
    copies_in = [i for i, op in enumerate(schedule) if isinstance(op, program.Copy) and op.direction == "h2d"]
    assert not any(behind[start(copies_in[1])] >> end(op) & 1 for op in kernels)


@given(built(), card.plain_devices())
def test_serialised_runs_the_same_work_one_at_a_time(
    made: tuple[program.Workload, program.Schedule, int], device: Device
) -> None:
    _, schedule, _ = made
    alone = program.serialized(schedule)
    work = [op for op in schedule if isinstance(op, program.Copy | program.Kernel)]
    assert [oracle.kind_of(op) for op in alone if oracle.is_work(op)] == [oracle.kind_of(op) for op in work]
    timeline = simulate(alone, device)
    spans = [(s, e) for s, e, k in zip(timeline.start, timeline.end, timeline.engine, strict=True) if k >= 0]
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert timeline.overlap_s == 0
