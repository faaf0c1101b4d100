"""What a schedule loses, and to what: minimal schedules worked by hand, laws of the split, and published programs."""

from fractions import Fraction
from importlib import import_module
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from effort import examples
from explained import PLAIN, WORKLOAD, lost
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from msgspec.structs import replace
from strategies import (
    BUFFERS,
    ON_CARD,
    PAGEABLE,
    copies,
    d2h,
    devices,
    draining,
    h2d,
    kernel,
    kernels,
    link,
    make_device,
    plan,
    schedules,
)

from streamsim import program
from streamsim.advice import Explanation, explain
from streamsim.analysis.losses import BEHIND, CAUSES, Removals, mean_gains
from streamsim.device import Device, load_device
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.races import check
from streamsim.report import plot_remedied
from streamsim.transform import Dependences, Work

LIMITS = {"same-direction", "full-kernels", "unbalanced"}


def card(offset: int, n_bytes: int) -> program.Region:
    return program.Region(ON_CARD.name, offset, n_bytes)


def ticks(seconds: float) -> int:
    return round(seconds * 1e9)


def limits(explanation: Explanation) -> dict[str, int]:
    """Ticks by cause, within the bound."""
    return {loss.cause: loss.ticks for loss in explanation.limits}


# The ten causes of streams that do not overlap, most frequent in people's questions first, each alone. One byte a
# tick; times in ticks. Every case: the schedule, its device, the makespan, the bound of the work, the cause, what
# the cause has lost. What is not said is free.

TEN: dict[str, tuple[program.Schedule, Device, int, int, str, int]] = {
    # Half the rate: the copy takes 20 and holds the host, so the kernel is issued at 20 and ends at 40.
    # Pinned: copy 0..10, kernel 0..20.
    "pageable host memory": (
        plan(h2d(1, 10, host=program.Region(PAGEABLE.name, 0, 10)), kernel(2, 20), buffers=BUFFERS),
        make_device(h2d=link(pageable_rate=0.5)),
        40, 20, "pageable-memory", 20,
    ),
    # The kernel in stream 0 waits for the blocking stream's copy, 0..10, and reads none of it. Else both run 0..10.
    "the default stream": (
        plan(
            h2d(1, 10, device=card(0, 10)), kernel(0, 10, reads=(card(100, 10),)), kind="blocking", buffers=BUFFERS,
        ),
        PLAIN, 20, 10, "legacy-stream", 10,
    ),
    # One engine for the direction: 0..10, 10..20. That is the bound; an engine for each stream would take 10.
    "same-direction copies": (plan(h2d(1, 10), h2d(2, 10)), PLAIN, 20, 20, "same-direction", 10),
    # Room for 16 kernels, but each fills the card: 0..16, 16..32. That is the bound; side by side 16.
    "the kernel fills the card": (
        plan(kernel(1, 16), kernel(2, 16)), make_device(concurrent_kernels=16), 32, 32, "full-kernels", 16,
    ),
    # One queue in front of the one copy engine: D2H waits for the kernel until 10, and H2D behind it until 20, to 30.
    # H2D issued first: 0..10 beside the kernel, D2H 10..20.
    "issue order on in-order queues": (
        plan(kernel(1, 10), d2h(1, 10), h2d(2, 10)),
        make_device(copy_engines=1, connections=1),
        30, 20, "issue-order", 10,
    ),
    # Stream 3 takes stream 1's queue: D2H of 3 (9 ticks) stands behind D2H of 1 (1 tick), which waits for the kernel
    # until 10: 11..20. That of 2 runs 0..1. With a queue of its own that of 3 runs 1..10, and then that of 1, 10..11.
    "more streams than connections": (
        plan(kernel(1, 10), d2h(1, 1), d2h(2, 1), d2h(3, 9)), make_device(connections=2, concurrent_kernels=16),
        20, 11, "connections", 9,
    ),
    # The device is synchronised between the copy, 0..10, and the kernel, 10..20.
    "an allocation or free that synchronises": (
        plan(h2d(1, 10), program.Synchronize(), kernel(2, 10)), PLAIN, 20, 10, "host-waits", 10,
    ),
    # Four copies of 1 byte with 9 ticks of latency each: 40 for 4 ticks' worth of bytes.
    "chunks too small": (
        plan(*[h2d(1, 1)] * 4), make_device(h2d=link(latency=9)), 40, 4, "small-chunks", 36,
    ),
    # Both directions move 10 bytes at half the rate for 20 ticks.
    "duplex contention": (
        plan(h2d(1, 10), d2h(2, 10)), make_device(h2d=link(shared=0.5), d2h=link(shared=0.5)), 20, 10, "duplex", 10,
    ),
    # A copy that the host waits for, 0..10, then the other stream's kernel, 10..20.
    "a hidden synchronisation": (
        plan(h2d(1, 10, blocking=True), kernel(2, 10)), PLAIN, 20, 10, "host-waits", 10,
    ),
}  # fmt: skip

# The causes that are not among the ten.
OTHERS: dict[str, tuple[program.Schedule, Device, int, int, str, int]] = {
    # Calls of 10 ticks: copies of 1 byte start at 10, 20, 30. The last ends at 31; the engine has 3 to do.
    "host issue": (plan(*[h2d(1, 1)] * 3), make_device(copy=10), 31, 3, "host-issue", 28),
    # One chunk: the kernel waits for its copy. Cut into many, the two would run side by side.
    "too few chunks": (plan(h2d(1, 10), kernel(1, 10)), PLAIN, 20, 10, "few-chunks", 10),
    # One block of four that would fill the card: all of the work on all of the card takes 10.
    "too few blocks": (plan(kernel(1, 40, fill=0.25)), make_device(concurrent_kernels=16), 40, 10, "few-blocks", 30),
    # 18 ticks of copy beside 2 of kernel: the bound is 18, and an even load is 10.
    "unbalanced pipeline": (plan(h2d(1, 18), kernel(2, 2)), PLAIN, 18, 18, "unbalanced", 8),
    # The kernel waits for an event after a copy of bytes that it does not read.
    "a wait that serialises": (
        plan(
            h2d(1, 10, device=card(0, 10)), program.RecordEvent(0, 1),
            program.WaitEvent(0, 2), kernel(2, 10, reads=(card(100, 10),)), buffers=BUFFERS,
        ),
        PLAIN, 20, 10, "needless-order", 10,
    ),
    # The same in one stream: its order is the wait.
    "one stream for independent work": (
        plan(h2d(1, 10, device=card(0, 10)), kernel(1, 10, reads=(card(100, 10),)), buffers=BUFFERS),
        PLAIN, 20, 10, "needless-order", 10,
    ),
    # Two kernels, one after another, read a table that is copied before them: 0..10, 10..20, 20..30. If it stood in
    # nobody's way it would be copied beside the first.
    "a table copied once": (
        plan(
            h2d(1, 10, device=card(0, 10)), kernel(1, 10, reads=(card(0, 10), card(20, 1))),
            kernel(1, 10, reads=(card(0, 10), card(21, 1))), buffers=BUFFERS,
        ),
        PLAIN, 30, 20, "copied-once", 10,
    ),
    # Two kernels write halves of what is copied back behind both: again 30 in place of 20.
    "a sum copied back once": (
        plan(
            kernel(1, 10, writes=(card(0, 5),)), kernel(1, 10, writes=(card(5, 5),)),
            d2h(1, 10, device=card(0, 10)), buffers=BUFFERS,
        ),
        PLAIN, 30, 20, "copied-once", 10,
    ),
    # Kernels of 1 tick, which take the floor of 10 each; so does one in a graph, with the gap behind it.
    "kernel floor": (
        plan(*[kernel(1, 1, elements=1)] * 4), make_device(floor=10, graph_gap=9), 40, 4, "small-chunks", 36,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*TEN, *OTHERS])
def test_each_cause_alone_is_named_and_no_other_loses_anything(name: str) -> None:
    schedule, device, makespan, bound, cause, loss = (TEN | OTHERS)[name]
    found = explain(schedule, device)
    assert (ticks(found.makespan_s), ticks(found.bound_s)) == (makespan, bound)
    assert lost(found) == ({} if cause in LIMITS else {cause: loss})
    if cause in LIMITS:
        assert limits(found) == {cause: loss}
    assert found.largest is not None
    assert (found.largest.cause, found.largest.ticks) == (cause, loss)


# Interactions


def test_what_two_causes_lose_only_together_is_shared_evenly() -> None:
    # Pinned or not, the copy's blocking call holds the host until 16; pageable (at the same rate), so does the copy
    # without it. Either remedy alone gains nothing, both gain 16.
    schedule = plan(
        h2d(1, 16, host=program.Region(PAGEABLE.name, 0, 16), blocking=True), kernel(2, 16), buffers=BUFFERS
    )
    found = explain(schedule, PLAIN)
    assert lost(found) == {"pageable-memory": 8, "host-waits": 8}
    assert [loss.gain_alone_s for loss in found.losses] == [0, 0]
    assert found.losses[0].remedy.endswith("does not help alone")
    assert found.first is not None
    assert (found.first.options, ticks(found.first.saved_s())) == (("--pin", "--async"), 16)


def test_the_order_of_issue_is_to_blame_before_the_streams_are() -> None:
    # Breadth-first, 4 chunks in 2 streams, 10 ticks a stage: a stream's first kernel stands behind its second copy.
    # H2D 0..10, 10..20, 20..30, 30..40; K1 from 30 (stream 1 copies chunk 3 until then) to 40, K2 40..50, K3 50..60,
    # K4 60..70; D1 from 60 (stream 1 works on chunk 3 until then) to 70, D2 70..80, D3 80..90, D4 90..100.
    # Depth-first (J + 1) s + (N - 1 - J S) m = 2 * 30 + 10 = 70. A stream for each chunk s + (N - 1) m = 60.
    workload = program.Workload(40, (1,), (1,), (program.WorkloadKernel(duration_s=40e-9),))
    found = explain(program.breadth_first(workload, 4, 2), PLAIN)
    assert (ticks(found.makespan_s), ticks(found.bound_s)) == (100, 40)
    assert lost(found) == {"issue-order": 30, "needless-order": 10, "few-chunks": 20}
    # A stream for each chunk gains 40, of which 30 are what the order has lost.
    own = next(trial for trial in found.tried.alone if trial.options == ("--streams", "4"))
    assert ticks(own.saved_s()) == 40


def test_a_remedy_that_hurts_is_not_applied() -> None:
    # One queue: stream 2's D2H (10) stands behind stream 1's (2), which waits for the kernel (1): kernel 0..1, D2H 1..3
    # and 3..13, the other kernel 3..23. With queues of their own stream 2's goes first, 0..10, and it all ends at 32.
    found = explain(plan(kernel(1, 1), d2h(1, 2), d2h(2, 10), kernel(1, 20)), make_device(connections=1))
    assert (ticks(found.makespan_s), ticks(found.bound_s)) == (23, 21)
    assert lost(found) == {"few-chunks": 2}


def test_a_synchronisation_that_the_data_needs_is_not_to_blame() -> None:
    # The kernel reads what the copy of the other stream brings: without the call it would need an event. One chunk.
    reads = card(0, 10)
    schedule = plan(h2d(1, 10, device=reads), program.Synchronize(), kernel(2, 10, reads=(reads,)), buffers=BUFFERS)
    assert lost(explain(schedule, PLAIN)) == {"few-chunks": 10}


def test_what_lies_in_the_bound_is_shared_among_the_engines() -> None:
    # H2D 10 + 10 in two streams beside a kernel of 20: all even; with an engine for each stream's copies they are 10,
    # and (10 + 20) / 2 is 5 below (20 + 20) / 2.
    found = explain(plan(h2d(1, 10), h2d(2, 10), kernel(3, 20)), PLAIN)
    assert (lost(found), limits(found)) == ({}, {"same-direction": 5})
    assert ticks(found.even_s) == 15


# Laws


@examples(20)
@given(st.data(), devices(enter=0))
def test_all_in_the_default_stream_loses_what_it_does_in_another(data: st.DataObject, device: Device) -> None:
    """Nothing else waits for the default stream, so it is one stream like another, but that nobody enters it."""
    op = st.one_of(copies(st.just(1), capturable=False), kernels(st.just(1)))
    ops = data.draw(st.lists(op, min_size=1, max_size=12))
    own = plan(*ops, buffers=BUFFERS)
    default = plan(*(replace(op, stream=0) for op in ops), buffers=BUFFERS)
    found, expected = explain(default, device), explain(own, device)
    assert (found.makespan_s, found.bound_s) == (expected.makespan_s, expected.bound_s)
    assert (lost(found), limits(found)) == (lost(expected), limits(expected))


@examples(40)
@given(schedules(), devices())
def test_the_parts_add_up_exactly_and_none_is_negative(schedule: program.Schedule, device: Device) -> None:
    found = explain(schedule, device)
    assert found.is_exact
    check_sums(found)


@examples(40)
@given(draining())
def test_the_parts_add_up_with_kernels_that_leave_the_card(case: tuple[program.Schedule, Device]) -> None:
    check_sums(explain(*case))


@examples(50)
@given(schedules(), devices())
def test_the_parts_add_up_over_two_orders_too(schedule: program.Schedule, device: Device) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsim.analysis.losses.BUDGET", -1)
        found = explain(schedule, device)
    assert not found.is_exact
    assert found.simulations < 6 * 11  # 11 causes, each in two orders and alone; over all orders 2,048
    check_sums(found)


def check_sums(found: Explanation) -> None:
    losses, inside = lost(found), limits(found)
    assert all(
        loss.ticks > 0 or (loss.best and loss.best.gain > 1) or loss.assuming for loss in (*found.losses, *found.limits)
    )
    assert ticks(found.makespan_s) == ticks(found.bound_s) + sum(losses.values())
    assert ticks(found.bound_s) == ticks(found.even_s) + sum(inside.values())
    assert all(loss > 0 for loss in (*losses.values(), *inside.values()))
    assert found.even_s >= -1e-9
    assert found.own_bound_s >= found.bound_s - 1e-9  # no profile of these has pageable memory above pinned
    for rows in (found.losses, found.limits):
        assert [loss.ticks for loss in rows] == sorted((loss.ticks for loss in rows), reverse=True)
    assert set(losses) <= set(CAUSES) - LIMITS
    assert set(inside) <= LIMITS


@given(st.integers(1, 4), st.data())
def test_the_split_is_the_mean_over_all_orders_that_make_sense(count: int, data: st.DataObject) -> None:
    """Against the definition: every order, one after another."""
    some: list[Any] = ["host-waits", "issue-order", "needless-order", "duplex"]
    keys = data.draw(st.permutations(some))[:count]
    orders = [
        order
        for order in permutations(keys)
        if all(order.index(BEHIND[key]) < order.index(key) for key in order if BEHIND.get(key) in order)
    ]
    subsets = {frozenset(order[:k]) for order in orders for k in range(count + 1)}
    v = {subset: data.draw(st.integers(0, 100)) for subset in sorted(subsets, key=sorted)}
    expected = dict.fromkeys(keys, Fraction(0))
    for order in orders:
        for k, key in enumerate(order):
            gain = v[frozenset(order[:k])] - v[frozenset(order[: k + 1])]
            expected[key] += Fraction(gain, len(orders))
    assert mean_gains(dict(sorted(v.items(), key=lambda item: len(item[0])))) == expected


def amounts(schedule: program.Schedule, device: Device) -> list[tuple[Any, ...]]:
    """What there is to do, whatever the order and the streams."""
    copies = [(op.direction, op.bytes) for op in schedule.ops if isinstance(op, program.Copy)]
    kernels = [
        ("kernel", round(np.prod(device.occupancy(op)[:2]), 15))
        for op in schedule.ops
        if isinstance(op, program.Kernel)
    ]
    return sorted(copies + kernels)


@given(schedules(), devices())
def test_no_remedy_changes_the_work(schedule: program.Schedule, device: Device) -> None:
    probe = Removals(Work(schedule, device))
    work = amounts(*probe.scenario(frozenset(probe.present) & {"small-chunks"})[:2])
    for keys in combinations(probe.present, 2):
        changed = probe.scenario(frozenset((*keys, "small-chunks")) & {*probe.present})
        assert amounts(*changed[:2]) == work


@pytest.mark.parametrize("device", ["c1060", "c2050", "ideal-one-copy-engine", "h200"])
@pytest.mark.parametrize("streams", [2, 3])
def test_without_its_issue_order_a_schedule_is_in_the_best_of_the_others(device: str, streams: int) -> None:
    """Of seven chunks, issued all ways round, whichever the others are called."""
    several = 0
    for order in (program.depth_first, program.breadth_first):
        schedule = order(WORKLOAD, 7, streams)
        needs = Dependences(schedule)
        orders = [needs.reordered(schedule, name, holds=True) for name in needs.orders]
        several += len(orders) > 1
        probe = Removals(Work(schedule, load_device(device)))
        times = [ticks(simulate(reordered, load_device(device)).makespan_s) for reordered in orders]
        assert probe.time(frozenset(("issue-order",))) == min(times)
    assert several


PATTERNS = [
    lambda n, s: program.depth_first(WORKLOAD, n, s),
    lambda n, s: program.breadth_first(WORKLOAD, n, s),
    lambda n, s: program.ring(WORKLOAD, n, 2, s),
    lambda n, _: program.prefetch(WORKLOAD, n),
    lambda n, _: program.serial(WORKLOAD, n),
]


@examples(25)
@given(st.sampled_from(PATTERNS), st.integers(1, 9), st.integers(1, 4))
def test_remedies_of_the_program_keep_what_the_data_needs(pattern: Any, chunks: int, streams: int) -> None:
    """No race appears: the orders of issue, the calls that no longer wait, and single ops over as many streams."""
    schedule = pattern(chunks, streams)
    needs = Dependences(schedule)
    probe = Removals(Work(schedule, load_device("h200")))
    changed = [needs.reordered(schedule, order, holds=True) for order in needs.orders]
    changed += [
        probe.scenario(frozenset((key,))).schedule for key in ("host-waits", "issue-order") if key in probe.present
    ]
    for other in changed:
        assert not [f for f in check(other) if f.rule == "race"]
    if needs.has_needless_order:  # each kernel still waits for its inputs, each copy back for its kernel
        for order in (None, *needs.orders):
            other = needs.unordered(schedule, order, True, 32)
            assert not [f for f in check(other) for h in f.hazards if h.kind == "read-after-write"]


@pytest.mark.parametrize("streams", [1, 2])
def test_tasks_that_share_a_buffer_overlap_only_as_a_race(streams: int) -> None:
    """10 in and 20 of work twice, in the same bytes: 60 in one stream; in two, where nothing keeps them apart, 50."""
    shared = card(0, 10)
    tasks = ((h2d(k, 10, device=shared), kernel(k, 20, reads=(shared,))) for k in (1, streams))
    found = explain(plan(*(op for task in tasks for op in task), buffers=BUFFERS), PLAIN)
    assert (ticks(found.makespan_s), found.is_racy) == (60, False) if streams == 1 else (50, True)


def test_a_schedule_of_too_many_ops_is_refused_before_it_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("streamsim.advice.explanation"), "MOST_OPS", 13)
    explain(program.depth_first(WORKLOAD, 4, 2), PLAIN)  # twelve, and the synchronisation
    monkeypatch.setattr(import_module("streamsim.advice.explanation"), "Removals", None)
    with pytest.raises(InputError, match=r"^the schedule has 16 ops: .* takes 13 ops at most; give fewer chunks"):
        explain(program.depth_first(WORKLOAD, 5, 2), PLAIN)


def test_what_a_crowd_costs_each_copy_goes_with_the_latencies() -> None:
    """Otherwise it would show as too few chunks, though finer ones make it worse."""
    side = link(latency=2, duplex_latency=5, crowded_latency=4, crowded_rate=0.5)
    costly = make_device(h2d=side, d2h=side, concurrent_kernels=4, h2d_to_kernel=3)
    plain = make_device(concurrent_kernels=4)
    ops = [op for stream in range(1, 7) for op in (h2d(stream, 20), kernel(stream, 8, fill=0.5), d2h(stream, 20))]
    schedule = plan(*ops, streams=6)
    costs, without = (lost(explain(schedule, device)) for device in (costly, plain))
    assert costs.keys() - without.keys() == {"small-chunks", "duplex"}
    assert all(costs[cause] == without[cause] for cause in without)


def test_the_picture_shows_bound_and_losses() -> None:
    # Copy 0..10, synchronised, kernel 10..20: bound 10, then 10 lost to the call.
    schedule = plan(h2d(1, 10), program.Synchronize(), kernel(2, 10))
    ax, *_ = panels = plot_remedied(explain(schedule, PLAIN))
    bars = {
        str(c.get_gid()): (c.get_paths()[0].get_extents().x0, c.get_paths()[0].get_extents().x1)
        for c in ax.collections
        if isinstance(c, PolyCollection) and str(c.get_gid()).startswith("where it goes")
    }
    title = CAUSES["host-waits"].title
    assert bars == {
        "where it goes: busiest engine alone": (0, 10),
        f"where it goes: 1 {title}: 10 ns": (10, 20),
    }
    legend = panels[-1].get_legend()
    assert legend is not None
    assert f"1 {title}: 10 ns" in [text.get_text() for text in legend.get_texts()]
