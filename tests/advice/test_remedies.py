"""Remedies keep their promise: they are the same work, free of races, and take what is said of them."""

import re
from collections import Counter
from typing import Any

import pytest
from effort import examples
from explained import tried
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from same_work import ON_CARD, ON_HOST, amounts, pipelines
from strategies import devices, h2d, kernel, schedules
from whole_workloads import whole_programs

from streamsim import program, transform
from streamsim.advice import Values, advise, explain
from streamsim.device import Device, load_device, with_memory_limit
from streamsim.errors import InputError
from streamsim.model import simulate

FACTORS, STREAMS = Values().factors, Values().streams
WORKLOAD = program.Workload(1 << 24, (4,), (4,), (program.WorkloadKernel("kernel", 0.57e-3),))


def ticks(seconds: float) -> int:
    return round(seconds * 1e9)


@examples(40)
@given(st.one_of(schedules(), pipelines()), devices())
def test_each_change_gains_what_is_promised_and_none_is_faster_than_the_fastest(
    schedule: program.Schedule, device: Device
) -> None:
    before, found = simulate(schedule, device).makespan_s, advise(schedule, device)
    for trial in found.trials:
        assert trial.takes_s == simulate(*trial.work[:2]).makespan_s
        assert trial.saved_s() == pytest.approx(before - trial.takes_s, abs=1e-12)
        assert trial.condition or found.fastest is None or trial.takes_s >= found.fastest.takes_s
    fastest = found.fastest.takes_s if found.fastest else before
    assert fastest == min([before, *(trial.takes_s for trial in found.trials if not trial.condition)])


@examples(20)
@given(whole_programs(), devices())
def test_a_loop_whose_host_works_is_put_right_and_works_as_much_for_each_chunk(
    asked: tuple[program.Workload, program.Config], device: Device
) -> None:
    """So long before each of those that it then has, and over all what goes with the data."""
    (workload, config), source = asked, transform.Source(*asked)
    schedule = config.schedule(workload)
    for _, trial, (changed, _) in tried(transform.Work(schedule, device), source):
        cut = re.search(r"cut into (\d+)", trial.text)
        chunks = int(cut[1]) if cut else config.chunks
        works = round((workload.host_load_s + chunks * workload.host_work_s) * 1e12)
        assert abs(amounts(changed)["host"] - works) <= len(changed), trial.text  # rounded one by one
    found = explain(schedule, device, source)
    if best := found.tried.fastest:
        took = ticks(simulate(*best.work[:2]).makespan_s)
        assert took == ticks(found.makespan_s) - ticks(best.saved_s()) < ticks(found.makespan_s)


@examples(40)
@given(pipelines(), st.integers(0, 1 << 20))
def test_no_remedy_needs_more_room_than_there_is(schedule: program.Schedule, spare: int) -> None:
    """Whatever is to blame; and those that have room are the ones that there are without a limit."""
    limit = schedule.device_bytes + spare
    of_any, of_those_that_fit = (
        [(trial.text, changed.device_bytes) for _, trial, (changed, _) in tried(transform.Work(schedule, device))]
        for device in (load_device("h200"), with_memory_limit(load_device("h200"), limit))
    )
    assert of_those_that_fit == [(text, n_bytes) for text, n_bytes in of_any if n_bytes <= limit]


# Patterns cut anew are the patterns


SUMMED: list[Any] = [
    lambda workload: program.depth_first(workload, 8, 4),
    lambda workload: program.breadth_first(workload, 8, 2),
    lambda workload: program.ring(workload, 8, 2, 3),
    lambda workload: program.prefetch(workload, 8),
    lambda workload: program.serial(workload, 8),
    lambda workload: program.breadth_first(workload, 8, 1),
]


def unnamed(schedule: program.Schedule) -> program.Schedule:
    return replace(schedule, name="", unchunked=None)


@pytest.mark.parametrize("pattern", [program.depth_first, program.breadth_first])
@pytest.mark.parametrize("memory", ["pinned", "pageable"])
@pytest.mark.parametrize("streams", [1, 2, 4])
def test_a_pattern_that_is_cut_is_the_pattern_with_other_chunks(pattern: Any, memory: Any, streams: int) -> None:
    schedule = pattern(WORKLOAD, 8, streams, memory=memory)
    for chunks in (8 * pieces for pieces in FACTORS):
        made, _ = transform.in_chunks(schedule, chunks)
        assert unnamed(made) == unnamed(pattern(WORKLOAD, chunks, min(streams, chunks), memory=memory))
    for other in STREAMS:
        assert unnamed(transform.in_streams(schedule, other)) == unnamed(pattern(WORKLOAD, 8, other, memory=memory))


@pytest.mark.parametrize("pattern", [program.depth_first, program.breadth_first])
@pytest.mark.parametrize(
    "once", [{"h2d_once": (1 << 20,)}, {"d2h_once": (1 << 20, 32)}, {"outputs": (), "d2h_once": (64,)}]
)
@pytest.mark.parametrize("streams", [1, 2, 4])
def test_arrays_that_are_copied_once_stay_so_however_a_pattern_is_cut(pattern: Any, once: Any, streams: int) -> None:
    """The pattern with other chunks or streams, with as many waits: some stand elsewhere, where they cost the same."""
    workload = replace(WORKLOAD, **once)
    schedule = pattern(workload, 8, streams)
    several = [(transform.in_chunks(schedule, chunks)[0], chunks, streams) for chunks in (16, 32)]
    for made, chunks, over in (*several, (transform.in_streams(schedule, 3), 8, 3)):
        meant, ideal = pattern(workload, chunks, over), load_device("ideal")
        assert Counter(map(type, made.ops)) == Counter(map(type, meant.ops))
        assert amounts(made) == amounts(meant)
        assert abs(makespan(made, ideal) - makespan(meant, ideal)) <= 1  # ends of kernels are rounded


@pytest.mark.parametrize("order", SUMMED)
@pytest.mark.parametrize("once", [(8,), (8, 4), (64,), (1 << 20, 8)])
def test_a_sum_is_copied_back_behind_all_kernels_whatever_is_changed(order: Any, once: Any) -> None:
    """Of 8 bytes only the first chunk's kernel is said to write any; where they are copied says that it is a sum."""
    schedule = order(replace(WORKLOAD, outputs=(), d2h_once=once))
    count = 0
    for _, trial, (changed, device) in tried(transform.Work(schedule, load_device("h200").with_connections(1))):
        count += 1
        spans = simulate(changed, device).spans
        last = max(span.end_s for span in spans if span.engine == "compute")
        assert all(span.start_s >= last for span in spans if span.engine == "d2h"), trial.text
    assert count


def in_turn(kernels: list[int], barrier: bool = False, each: int = 1 << 20) -> program.Schedule:
    """In one stream chunks of so many kernels, each on so many bytes (``each``) of its own, copied back at once.

    ``barrier``: all copies back in another stream, behind one event.
    """
    ops: list[program.Op] = []
    back: list[program.Op] = []
    done = 0
    for many in kernels:
        for at in range(done, done + many):
            there, here, made = (program.Region(name, at * each, each) for name in ("h_in", "d_in", "d_out"))
            ops += [
                program.Copy("h2d", each, 1, there, here),
                program.Kernel(1, duration_s=2e-5, reads=(here,), writes=(made,)),
            ]
        host, card = (program.Region(name, done * each, many * each) for name in ("h_out", "d_out"))
        (back if barrier else ops).append(program.Copy("d2h", many * each, 1 + barrier, host, card))
        done += many
    buffers = tuple(
        program.Buffer(name, done * each, "device" if name[0] == "d" else "pinned") for name in BUFFERS_IN_TURN
    )
    events: list[program.Op] = [program.RecordEvent(0, 1), program.WaitEvent(0, 2)] if barrier else []
    return program.Schedule(
        (*ops, *events, *back, program.Synchronize()), transform.NON_BLOCKING * (1 + barrier), buffers, int(barrier)
    )


BUFFERS_IN_TURN = ("h_in", "h_out", "d_in", "d_out")


@pytest.mark.parametrize(
    ("schedule", "chunks"),
    [
        (in_turn([1] * 16, barrier=True), 16),  # what waits for all kernels, but reads one, is of that one's chunk
        (in_turn([1] * 16, barrier=True, each=64), 16),  # however small
        (in_turn([2, 2, 3]), 3),  # and what reads several, of others than the next one does, makes them one chunk
    ],
)
def test_a_copy_back_is_of_the_chunk_whose_data_it_copies(schedule: program.Schedule, chunks: int) -> None:
    needs = transform.Dependences(schedule)
    assert not needs.common
    assert transform.chunk_count(schedule) == chunks


@pytest.mark.parametrize("name", ["ideal", "rtx3090", "h200"])
def test_a_ring_with_more_buffers_is_a_larger_ring(name: str) -> None:
    device = load_device(name)
    larger = transform.with_buffers(program.ring(WORKLOAD, 8, 2, 2), 2)
    assert [b.bytes for b in larger.buffers if b.memory == "device"] == [1 << 23] * 8
    assert simulate(larger, device).makespan_s == simulate(program.ring(WORKLOAD, 8, 4, 2), device).makespan_s
    freed = transform.in_streams(transform.with_buffers(program.ring(WORKLOAD, 8, 2, 2), 0), 8)
    assert simulate(freed, device).makespan_s == simulate(program.depth_first(WORKLOAD, 8, 8), device).makespan_s
    with pytest.raises(InputError, match="no buffer is used twice"):
        transform.with_buffers(program.depth_first(WORKLOAD, 8, 2), 0)


def named(at: int, after: int = 0) -> list[program.Op]:
    """A copy, and a kernel that writes ``after`` bytes behind what was copied."""
    return [
        program.Copy("h2d", 8, 1, program.Region("host", at, 8), program.Region("card", at, 8)),
        program.Kernel(
            1,
            "k",
            8,
            duration_s=8e-9,
            reads=(program.Region("card", at, 8),),
            writes=(program.Region("card", at + after, 8),),
        ),
    ]


@pytest.mark.parametrize(
    ("ops", "chunks"),
    [
        (named(0, 4)[1:], 2),  # it writes 4..12 from 0..8: of two halves the second would read what the first wrote
        ([h2d(1, 7), kernel(1, 8)], 8),  # 7 bytes in 8 pieces
        ([h2d(1, 8), kernel(1, 8), h2d(2, 8), kernel(2, 8)], 1),  # two chunks are not made one
        ([*named(0), *named(8)], 3),  # nor three
    ],
)
def test_what_the_data_forbids_is_not_cut_and_nothing_is_merged(ops: list[program.Op], chunks: int) -> None:
    schedule = program.Schedule(tuple(ops), ("non-blocking",) * 2, (ON_HOST, ON_CARD))
    with pytest.raises(InputError):
        transform.in_chunks(schedule, chunks)


# What comes first


def makespan(schedule: program.Schedule, device: Device) -> int:
    return ticks(simulate(schedule, device).makespan_s)


# What people write: its device, its first cause, and a program that does what stands first.
SEEDS: dict[str, tuple[program.Schedule, Device, str, list[program.Schedule]]] = {
    "one stream": (
        program.depth_first(WORKLOAD, 16, 1), load_device("h200"),
        "needless-order", [program.depth_first(WORKLOAD, 16, n) for n in STREAMS],
    ),
    "one chunk": (
        program.serial(WORKLOAD, 1), load_device("h200"),
        "few-chunks", [program.depth_first(WORKLOAD, n, s) for n in FACTORS for s in (2, 4)],
    ),
    "pageable memory": (
        program.depth_first(WORKLOAD, 16, 4, memory="pageable"), load_device("h200"),
        "pageable-memory", [program.depth_first(WORKLOAD, 16, 4)],
    ),
    "breadth-first through one connection": (
        program.breadth_first(WORKLOAD, 16, 4), load_device("h200").with_connections(1),
        "issue-order", [program.depth_first(WORKLOAD, 16, 4)],
    ),
    # NVIDIA's blog of 2012: on the C2050 depth-first is the right order, on the C1060 breadth-first.
    "breadth-first on a c2050": (
        program.breadth_first(WORKLOAD, 4, 4), load_device("c2050"), "issue-order",
        [program.depth_first(WORKLOAD, 4, 4)],
    ),
    "depth-first on a c1060": (
        program.depth_first(WORKLOAD, 4, 4), load_device("c1060"), "issue-order",
        [program.breadth_first(WORKLOAD, 4, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDS)
def test_what_people_write_is_told_what_helps_most(name: str) -> None:
    schedule, device, cause, done = SEEDS[name]
    found = explain(schedule, device)
    best = max((loss for loss in found.losses if loss.made), key=lambda loss: loss.gain_alone_s)
    assert best.cause == cause
    expected = makespan(schedule, device) - min(makespan(other, device) for other in done)
    assert ticks(best.gain_alone_s) == expected > 0
    assert found.first is not None or expected < 0.03 * makespan(schedule, device)


def test_more_connections_are_advised_only_where_the_card_can_have_them() -> None:
    """CUDA_DEVICE_MAX_CONNECTIONS does nothing on cards of one hardware queue: those before compute capability 3.5."""
    schedule = program.breadth_first(WORKLOAD, 4, 4)

    def advised(device: Device) -> bool:
        texts = [trial.text for key, trial, _ in tried(transform.Work(schedule, device)) if key == "connections"]
        assert texts
        return any(text.startswith("set CUDA_DEVICE_MAX_CONNECTIONS=") for text in texts)

    assert advised(load_device("h200").with_connections(1))
    assert not advised(load_device("c2050"))
    assert not advised(load_device("c1060"))
