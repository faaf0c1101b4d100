"""Workloads: kernels by their times, and how arrays and work are cut into chunks."""

import math
import re
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from streamsim import program
from streamsim.analysis import check_room
from streamsim.device import device_names, load_device, part_s, with_memory_limit
from streamsim.errors import MOST_CHUNKS, NoRoomError
from streamsim.files import dump_toml
from streamsim.model import simulate

REAL = [name for name in device_names() if not name.startswith("ideal")]
SIZES = st.integers(1, 1 << 20)
MIB = 1 << 20


def seconds_of_kernels(workload: program.Workload, chunks: int) -> list[float]:
    """What each launch of a schedule takes on a card of which nothing is known, in issue order."""
    card = load_device("ideal")
    return [
        card.occupancy(op).alone_s for op in program.depth_first(workload, chunks, 1) if isinstance(op, program.Kernel)
    ]


def column(parts: tuple[program.EqualChunks, ...], array: int) -> list[int]:
    """What each chunk has of an input array."""
    return [part.inputs[array] for part in parts for _ in range(part.many)]


# -- cutting ----------------------------------------------------------------------------------------------------------


@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(1, 300))
def test_arrays_without_elements_are_cut_each_by_itself_at_multiples_of_sixteen_bytes(
    sizes: list[int], chunks: int
) -> None:
    """All of it, in order; equal pieces, but for the last that has any; the work as the largest array."""
    parts = program.Workload(inputs=tuple(sizes), kernels=(program.WorkloadKernel(duration_s=1.0),)).cut(chunks)
    assert sum(part.many for part in parts) == chunks
    assert math.isclose(sum(part.many * part.share for part in parts), 1.0)
    for array, n_bytes in enumerate(sizes):
        pieces = column(parts, array)
        held = [piece for piece in pieces if piece]
        units = -(-n_bytes // program.ALIGN_BYTES)
        assert sum(pieces) == n_bytes
        assert len(held) == min(units, chunks)
        assert pieces[: len(held)] == held  # the last chunks go without
        assert all(piece % program.ALIGN_BYTES == 0 for piece in held[:-1])
        assert held[-1] == min(held)
        assert max(held[:-1], default=held[0]) - min(held[:-1], default=held[0]) <= program.ALIGN_BYTES
    largest = sizes.index(max(sizes))
    if -(-max(sizes) // program.ALIGN_BYTES) >= chunks:
        assert [part.share for part in parts] == [part.inputs[largest] / max(sizes) for part in parts]


def test_by_hand() -> None:
    # 100 bytes are 7 units, the last of 4 bytes: over 3 chunks 3, 3 and 1 of them. 20 bytes are 2.
    parts = program.Workload(inputs=(100, 20), kernels=(program.WorkloadKernel(duration_s=1.0),)).cut(3)
    assert [(part.many, part.inputs, part.share) for part in parts] == [
        (1, (48, 16), 0.48),
        (1, (48, 4), 0.48),
        (1, (4, 0), 0.04),
    ]
    # Elements are whole: 10 of 3 and 5 bytes over 4 chunks are 3, 3, 3 and 1.
    parts = program.Workload(10, (3,), (5,)).cut(4)
    assert [(p.many, p.elements, p.inputs, p.outputs) for p in parts] == [(3, 3, (9,), (15,)), (1, 1, (3,), (5,))]


def test_what_is_copied_once_goes_before_the_first_chunk_and_behind_the_last() -> None:
    """In stream 1; before it every other stream waits, and behind it has waited for every other."""
    workload = program.workload_of_sizes(["1MiB"], ["1ms"], ["1MiB"], None, ["3MiB"], ["64B"])
    for schedule in (
        program.depth_first(workload, 4, 3),
        program.breadth_first(workload, 4, 3),
        program.ring(workload, 4, 2, 3),
    ):
        work = [op for op in schedule if isinstance(op, program.Copy | program.Kernel)]
        assert (work[0].bytes, work[-1].bytes) == (3 * MIB, 64)  # type: ignore[union-attr]
        assert work[0].stream == work[-1].stream == 1
        timeline = simulate(schedule, load_device("h200"))
        ends = {op: timeline.end[i] for i, op in enumerate(schedule.ops)}
        starts = {op: timeline.start[i] for i, op in enumerate(schedule.ops)}
        assert all(starts[op] >= ends[work[0]] for op in work[1:])
        assert all(ends[op] <= starts[work[-1]] for op in work[:-1])
        kernels = [op for op in work if isinstance(op, program.Kernel)]
        assert all(any(region.bytes == 3 * MIB for region in op.reads) for op in kernels)


# -- kernels by their times -------------------------------------------------------------------------------------------


@given(st.sampled_from(REAL), st.floats(1e-6, 0.1), st.integers(1, 1 << 14), st.integers(0, 9))
def test_a_part_of_a_launch_takes_no_less_than_its_share_and_no_more_than_the_whole(
    name: str, whole_s: float, least_threads: int, halvings: int
) -> None:
    """And a smaller part takes no longer."""
    card, share = load_device(name), 0.5**halvings

    def took_s(part: float) -> float:
        threads = round(least_threads * 1024 * part)
        return card.occupancy(program.Kernel(1, duration_s=whole_s * part, share=part, threads=threads)).alone_s

    floor_s = card.compute.floor_s
    assert took_s(share) >= max(floor_s, whole_s * share) * (1 - 1e-9)
    assert took_s(share) <= max(floor_s, whole_s) * (1 + 1e-9)
    assert took_s(share / 2) <= took_s(share) * (1 + 1e-9)


# 1 ms over 8 waves of threads: of 998 us beyond the floor of 2 a wave takes 124.75, a quarter of it 31.1875. An eighth
# of a wave is 1/64 of the launch; from there on a line, 966.8125 us over the other 63/64. If a 250th was seen to take
# 40 us, so does all up to an eighth of a wave. Of a quarter of a wave an eighth is half the launch: if a part of 1/100
# takes 50 us, 5 % of it, so do all up to 5 %, and larger ones take their share.
@pytest.mark.parametrize(
    ("floor_us", "waves", "parts", "took_us"),
    [
        (2, 8, (), {1.0: 1000, 1 / 64: 33.1875, 1 / 1000: 33.1875, 0.5: 33.1875 + 966.8125 * 31 / 63}),
        (0, 8, ((1 / 250, 40e-6),), {1 / 500: 40, 1 / 125: 40, 0.5: 40 + 960 * 31 / 63}),
        (0, 0.25, ((1 / 100, 50e-6),), {1 / 50: 50, 1 / 20: 50, 0.25: 250, 0.5: 500}),
    ],
)
def test_a_part_of_a_launch_by_hand(
    floor_us: int, waves: float, parts: tuple[tuple[float, float], ...], took_us: dict[float, float]
) -> None:
    for share, us in took_us.items():
        assert part_s(1e-3, share, waves, floor_us * 1e-6, parts) * 1e6 == pytest.approx(us)


@given(st.floats(1 / 64, 1.0), st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.floats(0.0, 1e-4))
def test_a_part_of_a_part_of_a_wave_is_a_part_of_the_wave(
    waves: float, one: float, other: float, floor_s: float
) -> None:
    """However it is described: the part as a launch of its own, or by its share of the larger launch."""
    part = part_s(1e-3, one, waves, floor_s)
    assert part_s(part, other, waves * one, floor_s) == pytest.approx(part_s(1e-3, one * other, waves, floor_s))


@given(
    times=st.dictionaries(st.integers(1, 999), st.integers(1, 1000), max_size=5),
    waves=st.sampled_from([0.0, 0.01, 0.5, 1.0, 20.0]),
    floor_us=st.integers(0, 900),
)
@examples(100)
def test_a_measured_part_takes_what_was_measured(times: dict[int, int], waves: float, floor_us: int) -> None:
    """Of how many waves the launch may be, and however many points lie below an eighth of one; no less than any."""
    parts = [(share / 1000, us * 1e-6) for share, us in zip(sorted(times), sorted(times.values()), strict=True)]
    for share, seconds in [*parts, (1.0, 1e-3)]:
        found = part_s(1e-3, share, waves, floor_us * 1e-6, parts)
        assert found == pytest.approx(max(seconds, floor_us * 1e-6))


WAVES = st.sampled_from([0.0, 0.01, 0.3, 1.0, 20.0])


@given(st.floats(1e-3, 0.5), st.floats(0.05, 1.0), st.floats(1.01, 100.0), st.floats(0.0, 1.0), WAVES)
def test_a_part_that_takes_what_is_predicted_of_it_changes_no_other(
    least: float, times: float, more: float, between: float, waves: float
) -> None:
    """Of a launch of 1 ms and one known part, from its share of that to all of it, another between the two."""
    took_s = 1e-3 * least * (times / least) ** between
    parts = ((least, min(took_s, 1e-3)),)
    other = min(0.999, least * more)
    more_parts = (*parts, (other, part_s(1e-3, other, waves, 0.0, parts)))
    for share in np.geomspace(least, 1.0, 20):
        known = part_s(1e-3, share, waves, 0.0, parts)
        assert part_s(1e-3, share, waves, 0.0, more_parts) == pytest.approx(known, rel=1e-6)


@given(st.floats(1e-3, 0.3), st.floats(1.1, 3.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), WAVES)
def test_a_little_more_of_a_part_is_a_little_more_of_all(
    least: float, more: float, first: float, second: float, waves: float
) -> None:
    """Wherever an eighth of a wave is: a thousandth more of one of two parts changes nothing by a hundredth.

    Of 1 ms, where parts take their share or more, and the larger one no more of its share than the smaller.
    """
    one_s = 1e-3 * least ** (1 - first)
    other_s = max(1e-3 * least * more, min(1e-3, one_s * more**second))
    one, other = (least, one_s), (least * more, other_s)
    for share in np.geomspace(least, 1.0, 20):
        known, *changed = (
            part_s(1e-3, share, waves, 0.0, parts)
            for parts in ((one, other), (one, (other[0] * 1.001, other[1])), (one, (other[0], other[1] * 1.001)))
        )
        assert changed == pytest.approx([known] * 2, rel=1e-2)


def test_launches_share_the_time_and_each_has_its_latency() -> None:
    # With a latency of 20 us there is a line from there to the whole's 41.7: a quarter takes 20 + 21.7 / 4.
    latency = program.workload_of_sizes(["64MiB"], ["25ms/600,latency=20us"])
    assert seconds_of_kernels(latency, 1) == pytest.approx([25e-3 / 600] * 600)
    assert seconds_of_kernels(latency, 4) == pytest.approx([20e-6 + (25e-3 / 600 - 20e-6) / 4] * 2400)
    assert min(seconds_of_kernels(latency, 64)) >= 20e-6


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("0.57ms", program.WorkloadKernel(duration_s=0.57e-3)),
        ("4ms,threads=64Ki,latency=3us,fill=0.5", program.WorkloadKernel("kernel", 4e-3, 0, 0.5, (), 65536, 3e-6)),
        ("87.7ms/10200,per=item", program.WorkloadKernel(duration_s=0.0877, launches=10_200, per="item")),
        (
            "9us@64Ki, 0.57ms, name=scale",
            program.WorkloadKernel("scale", 0.57e-3, points=(program.Point(65536, 9e-6),)),
        ),
    ],
)
def test_a_kernel_as_text(text: str, kernel: program.WorkloadKernel) -> None:
    assert program.parse_kernel(text) == kernel


def test_a_workload_file_takes_what_the_command_line_takes() -> None:
    text = """
    inputs = ["200MB", 64]
    host_work_s = "3ms"
    outputs = ["64MiB"]
    h2d_once = ["1GiB"]
    kernels = [
        "0.57ms,9us@1/256",
        { name = "scale", duration_s = "4ms", fill = "50%", points = [{ at = "50%", duration_s = "9us" }] },
        0.004
    ]
    """
    workload = program.parse_workload(text)
    assert workload.inputs == (200_000_000, 64)
    assert (workload.h2d_once, workload.host_work_s) == ((1 << 30,), 3e-3)
    assert workload.kernels[0].points == (program.Point(1 / 256, 9e-6),)
    assert workload.kernels[1] == program.WorkloadKernel("scale", 4e-3, fill=0.5, points=(program.Point(0.5, 9e-6),))
    assert workload.kernels[2] == program.WorkloadKernel(duration_s=0.004)
    assert program.parse_workload(dump_toml(workload)) == workload


# -- laws of predictions ----------------------------------------------------------------------------------------------


@given(
    st.sampled_from(REAL),
    st.lists(st.integers(1 << 14, 1 << 26), min_size=2, max_size=3),
    st.floats(2e-5, 5e-3),
    st.integers(1, 16),
    st.integers(1, 6),
    st.sampled_from(("depth-first", "breadth-first")),
)
@example("h200", [200_000_000, 64 << 20], 4e-3, 4, 3, "depth-first")
@example("a100", [154_140_672, 1024], 25e-3, 8, 4, "depth-first")
def test_one_byte_more_changes_next_to_nothing(
    name: str, sizes: list[int], kernel_s: float, chunks: int, streams: int, order: str
) -> None:
    """A thousandth, and what one aligned unit takes in each chunk."""
    card = load_device(name)
    config = program.Config(order, chunks, streams)  # type: ignore[arg-type]
    times = []
    for more in (0, 1):
        workload = program.workload_of_sizes([sizes[0] + more, *sizes[2:]], [kernel_s], [sizes[1]])
        times.append(simulate(config.schedule(workload), card).makespan_s)
    unit_s = (
        chunks * program.ALIGN_BYTES / min(card.h2d.duplex_bandwidth_bytes_per_s, card.d2h.duplex_bandwidth_bytes_per_s)
    )
    assert abs(times[1] - times[0]) <= 1e-3 * times[0] + unit_s + 1e-9 * chunks


@given(
    st.sampled_from(REAL),
    st.integers(0, 12),
    st.integers(-1, 1),
    st.floats(2e-5, 5e-3),
    st.integers(1, 64),
    st.integers(1, 6),
)
@example("h200", 2, -1, 4e-3, 64, 1)
def test_one_byte_more_of_a_tiny_array_changes_next_to_nothing(
    name: str, power: int, beside: int, kernel_s: float, chunks: int, streams: int
) -> None:
    """A tenth, as a byte is a share of the work; what one aligned unit is of the kernel; and two copies more."""
    card = load_device(name)
    times = []
    for n_bytes in (2**power + beside, 2**power + beside + 1):
        workload = program.workload_of_sizes([max(1, n_bytes)], [kernel_s], ["1B"])
        times.append(simulate(program.depth_first(workload, chunks, streams), card).makespan_s)
    copy_s = simulate(program.depth_first(program.workload_of_sizes(["16B"]), 1, 1), card).makespan_s
    unit_s = kernel_s * min(1.0, program.ALIGN_BYTES / 2**power)
    assert abs(times[1] - times[0]) <= 0.1 * times[0] + unit_s + 2 * copy_s


def test_what_works_long_on_little_data_has_many_threads() -> None:
    """4 ms are a thread for each of a million times 4 ns; of 64 MiB each of the floats has one; told, so many."""
    for sizes, text, threads in (
        (["4B"], "4ms", 1_000_000),
        (["4B"], "25ms/600", 10_417),
        (["1B"], "20us", 5_000),
        (["64MiB"], "4ms", 16 << 20),
        (["4B"], "4ms,threads=64", 64),
        ([], "4ms", 0),  # nothing tells, as little as the elements do
    ):
        workload = program.workload_of_sizes(sizes, [text], elements=None if sizes else 64)
        assert workload.threads(workload.kernels[0]) == threads
        whole, _ = next(workload.kernels_of(workload.cut(1)[0]))
        assert (whole.threads or whole.elements) == threads


@given(
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(1, 64),
    st.booleans(),
    st.none() | st.sampled_from((4, 8)),
    st.integers(1, 4),
    st.booleans(),
)
@example(32, 0, 8, False, 4, 1, False)
@example(40, 39, 40, True, None, 3, False)
@example(32, 0, 8, False, None, 4, True)
def test_what_is_said_to_fit_fits(
    cut_kib: int, once_kib: int, limit_kib: int, is_prefetch: bool, elements: int | None, chunks: int, in_order: bool
) -> None:
    """And where no number of chunks is named none fits, over two buffers or one."""
    workload = program.workload_of_sizes([cut_kib << 10], [1e-3], (), elements, [once_kib << 10] * bool(once_kib))
    workload = replace(workload, in_order=in_order)
    order: Any = "prefetch" if is_prefetch else "depth-first"
    card = with_memory_limit(load_device("ideal"), limit_kib << 10)
    config = program.Config(order, chunks)
    if config.device_bytes(workload) <= limit_kib << 10:
        check_room(workload, config, card)
        return
    with pytest.raises(NoRoomError) as raised:
        check_room(workload, config, card)
    found = re.search(
        r"use buffers = (\d+), chunks = (\d+), ([a-z-]+)(?: over (\d+) streams)?: that holds", str(raised.value)
    )
    if found:
        assert found[3] == order
        assert int(found[2]) >= chunks
        said = program.Config(order, int(found[2]), int(found[4] or 1), int(found[1]))
        said.check(workload)
        check_room(workload, said, card)
    else:
        many = range(1, elements + 1) if elements else (1, 2, 3, MOST_CHUNKS)
        rings = (program.Config(order, chunks, 1, buffers) for chunks in many for buffers in (1, 2))
        assert all(one.device_bytes(workload) > limit_kib << 10 for one in rings)
