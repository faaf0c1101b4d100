"""Layers streamed to the card: every kernel sees its own layer's weights, no races, and the memory that was said."""

from collections import Counter
from typing import Any

import race_oracle
import strategies as card
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from layered import Times, directions, layers_of, models, names_of, recurrence
from msgspec.structs import replace

from streamsim import program
from streamsim.device import Device
from streamsim.model import simulate
from streamsim.races import check

IDEAL = card.make_device()
Model = tuple[list[Times], frozenset[int], int, int]


def made(model: Model, direction: Any = "forward", **more: Any) -> tuple[program.Layers, program.Offload]:
    times, resident, depth, passes = model
    return layers_of(*times, passes=passes, direction=direction), program.Offload(depth, names_of(resident), **more)


def ticks(schedule: program.Schedule, device: Device = IDEAL) -> int:
    return round(simulate(schedule, device).makespan_s * 1e9)


# How long it takes on a card with no overheads


def test_two_layers_by_hand() -> None:
    # Copies of 4 and 6 ticks, kernels of 5 and 3. Two buffers: copies end at 4 and 10, kernels at 9 and 13. One: the
    # second copy waits for the first kernel, 9 + 6, and its kernel ends at 18. With the first on the card: 6 + 3 or
    # 5 + 3, whichever is later. With the second: 4 + 5 + 3.
    layers = layers_of((4, 5), (6, 3))
    assert ticks(program.Offload(2).schedule(layers)) == 13
    assert ticks(program.Offload(1).schedule(layers)) == 18
    assert ticks(program.Offload(1, ("layer0",)).schedule(layers)) == 9
    assert ticks(program.Offload(1, ("layer1",)).schedule(layers)) == 12
    assert ticks(program.Offload(1, ("layer0", "layer1")).schedule(layers)) == 8
    assert ticks(program.one_by_one(layers, "pinned")) == 18


def test_a_pass_forward_and_backward_by_hand() -> None:
    # Three layers of 4 ticks to copy, 5 forward and 8 backward. In two buffers, forward: copies end at 4, 8 and 13,
    # kernels at 9, 14 and 19. Backward, the last two layers are still there: they end at 27 and 35; the first one is
    # copied from 27 to 31, and ends at 43. In one buffer only the last one is there: 27 + 27 + 8 + 12 + 12. Backward
    # alone, copies from the last layer on: 4 + 3 x 8; of uneven ones, the copy that nothing hides is another one.
    layers = layers_of(*[(4, 5)] * 3, direction="both")
    assert [ticks(program.Offload(depth).schedule(layers)) for depth in (1, 2, 3, 9)] == [27 + 8 + 2 * 12, 43, 43, 43]
    assert ticks(program.Offload(3).schedule(replace(layers, passes=2))) == 43 + 39  # all are still there
    assert ticks(program.Offload(2).schedule(replace(layers, direction="backward"))) == 28
    uneven = layers_of((4, 5), (6, 3), direction="backward")
    assert ticks(program.Offload(2).schedule(uneven)) == 6 + 6 + 8  # 13 forward, with the short copy first
    name = program.Offload(1, ("layer0",)).schedule(layers).name
    assert name == "offload K=1, 1 of 3 layers stay, forward and backward"


@examples(50)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(2, 8), st.integers(2, 5))
def test_kernels_issued_first_run_beside_pageable_copies(c: int, k: int, layers: int, depth: int) -> None:
    # A pageable copy holds the host: what it has not issued by then does not run. Each kernel issued before the next
    # copy hides it, as if the copy were pinned.
    model = layers_of(*[(c, k)] * layers)
    first = program.Offload(depth, memory="pageable")
    assert ticks(first.schedule(model)) == c + (layers - 1) * max(c, k) + k


@examples(200)
@given(models(), directions)
def test_without_overheads_it_takes_what_the_recurrence_says(model: Model, direction: Any) -> None:
    times, resident, depth, passes = model
    layers, config = made(model, direction)
    slots = min(depth, len(times) - len(resident))
    assert ticks(config.schedule(layers)) == recurrence(times, resident, max(slots, 1), passes, direction)


# What it does


@examples(100)
@given(models(), directions, st.sampled_from(("pinned", "pageable")), st.sampled_from((0, 64)))
def test_no_two_conflicting_accesses_are_unordered(model: Model, direction: Any, memory: str, reserve: int) -> None:
    layers, config = made(model, direction, memory=memory, reserve_bytes=reserve)
    for schedule in (config.schedule(layers), program.one_by_one(layers, config.memory)):
        assert check(schedule) == ()
        assert race_oracle.races(schedule) == {}


def test_without_the_wait_for_its_buffer_a_copy_would_race() -> None:
    schedule = program.Offload(2).schedule(layers_of((4, 5), (6, 3), (2, 2)))
    waits = [i for i, op in enumerate(schedule.ops) if isinstance(op, program.WaitEvent)]
    assert len(waits) == 4  # each of three layers for its copy, the third copy for its buffer
    for i in waits:
        bare = replace(schedule, ops=(*schedule.ops[:i], *schedule.ops[i + 1 :]))
        assert race_oracle.races(bare)
        assert check(bare)


@examples(100)
@given(models(), directions, st.integers(0, 2))
def test_every_kernel_reads_the_weights_of_its_layer_and_every_pass_copies_what_is_streamed(
    model: Model, direction: Any, launches: int
) -> None:
    # Without races the order of issue is as good as any: one symbolic run shows what each buffer holds.
    times, resident, depth, passes = model
    layers, config = made(model, direction)
    kernels = (program.WorkloadKernel(duration_s=1e-6, launches=launches + 1), program.WorkloadKernel("last", 2e-6))
    layers = replace(layers, layers=tuple(replace(layer, kernels=kernels, backward=()) for layer in layers.layers))
    held = {f"d_layer{n}": (f"h_layer{n}", times[n][0]) for n in resident}
    ran: list[str] = []
    copied: Counter[str] = Counter()
    for op in config.schedule(layers).ops:
        if isinstance(op, program.Copy):
            assert op.host
            assert op.device
            assert (op.direction, op.host.offset, op.device.offset, op.blocking) == ("h2d", 0, 0, False)
            held[op.device.buffer] = op.host.buffer, op.bytes
            copied[op.host.buffer] += 1
        elif isinstance(op, program.Kernel):
            (weights,) = op.reads
            assert held[weights.buffer][1] == weights.bytes
            ran.append(held[weights.buffer][0])
    once = [f"h_layer{n}" for n in range(len(times)) for _ in range(launches + 2)]
    assert ran == {"forward": once, "backward": once[::-1], "both": once + once[::-1]}[direction] * passes
    streamed = [f"h_layer{n}" for n in range(len(times)) if n not in resident]
    if direction == "both":  # as many as there are buffers stay at each change of the direction
        assert sum(copied.values()) == 2 * passes * len(streamed) - (2 * passes - 1) * min(depth, len(streamed))
    else:
        assert copied == dict.fromkeys(streamed, passes)


@examples(100)
@given(models(), st.sampled_from(("pinned", "pageable")), st.sampled_from((0, 64)))
def test_the_memory_of_both_sides_is_what_the_schedule_has(model: Model, memory: str, reserve: int) -> None:
    times, resident, depth, _ = model
    layers, config = made(model, memory=memory, reserve_bytes=reserve)
    schedule = config.schedule(layers)
    streamed = [copy for n, (copy, _) in enumerate(times) if n not in resident]
    stays = sum(times[n][0] for n in resident)
    assert config.device_bytes(layers) == stays + min(depth, len(streamed)) * max(streamed, default=0) + reserve
    assert schedule.device_bytes == config.device_bytes(layers)
    host = {place: sum(b.bytes for b in schedule.buffers if b.memory == place) for place in ("pinned", "pageable")}
    assert host == {"pinned": 0, "pageable": 0} | {memory: sum(streamed)}
    assert config.pinned_bytes(layers) == host["pinned"]


@examples(50)
@given(models())
def test_what_stays_is_loaded_once_and_fits_where_the_program_has_it(model: Model) -> None:
    layers, config = made(model)
    schedule, load = config.schedule(layers), program.loading(layers, config)
    places = {buffer.name: buffer.bytes for buffer in schedule.buffers}
    copies = [] if load is None else [op for op in load.ops if isinstance(op, program.Copy)]
    assert [op.device and (op.device.buffer, op.bytes) for op in copies] == [
        (name, places[name]) for name in (f"d_layer{n}" for n in sorted(model[1]))
    ]


# What its options say


def test_a_name_stands_for_all_repeats_and_one_of_them_for_itself() -> None:
    kernel = (program.WorkloadKernel(duration_s=1e-6),)
    layers = program.Layers(
        (program.Layer(8, kernel, "block", 3), program.Layer(4, kernel), program.Layer(6, kernel, "head"))
    )
    assert program.Offload(resident=("block",)).numbers(layers) == {0, 1, 2}
    assert program.Offload(resident=("block.1", "layer3", "head")).numbers(layers) == {1, 3, 4}
    assert program.Offload(resident=("block", "block.1")).device_bytes(layers) == 3 * 8 + 2 * 6
