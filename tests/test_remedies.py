"""Remedies keep their promise: they are the same work, free of races, and take what is said of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import devices, h2d, kernel, link, make_device, program, schedules
from test_check import races

from streamsim.check import check_schedule, repaired
from streamsim.cli import main
from streamsim.counterfactual import Case, Rework
from streamsim.devices import load_device
from streamsim.explain import KEYS, Explanation, explain_schedule
from streamsim.files import read_schedule, write_schedule
from streamsim.grid import Config
from streamsim.model import simulate
from streamsim.patterns import Workload, WorkloadKernel, breadth_first, build, depth_first, prefetch, ring, serial
from streamsim.recut import Recut
from streamsim.remedies import FACTORS, Remedies, Source
from streamsim.schedule import Buffer, Copy, Kernel, Op, RecordEvent, Region, Schedule, Synchronize, WaitEvent

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.device import Device

WORKLOAD = Workload(1 << 24, (4,), (4,), (WorkloadKernel("kernel", 0.57e-3),))
README = ["--h2d", "64MiB", "--kernel", "0.57ms", "--d2h", "64MiB", "--chunks", "16", "--streams", "4"]


def ticks(seconds: float) -> int:
    return round(seconds * 1e9)


# What a program computes: an oracle that knows nothing of streams


Terms = dict[Any, int]  # equal terms of bytes are one number, in all programs that share the table


def output(schedule: Schedule, terms: Terms, whole: tuple[str, ...] = ()) -> dict[tuple[str, int], int]:
    """The host's bytes that are not what they were, as terms of what was there, with the ops run in the order of issue.

    Without races every order that is allowed gives the same. A kernel computes each byte that it writes from the bytes
    at the same place of the ranges that it reads, in proportion to their sizes; of the buffers ``whole`` from all bytes.
    """
    memory: dict[tuple[str, int], int] = {}

    def term(value: Any) -> int:
        return terms.setdefault(value, len(terms))

    def load(buffer: str, at: int) -> int:
        return memory.get((buffer, at), term((buffer, at)))

    def needed(region: Region, x: int, size: int) -> list[int]:
        places = range(x * region.bytes // size, -(-(x + 1) * region.bytes // size))
        return [load(region.buffer, region.offset + y) for y in (range(region.bytes) if region.buffer in whole else places)]

    for op in schedule.ops:
        found = {}
        if isinstance(op, Copy) and op.host is not None and op.device is not None:
            source, target = (op.host, op.device) if op.direction == "h2d" else (op.device, op.host)
            found = {(target.buffer, target.offset + x): load(source.buffer, source.offset + x) for x in range(op.bytes)}
        elif isinstance(op, Kernel):
            for k, w in enumerate(op.writes):
                for x in range(w.bytes):
                    read = (tuple(needed(r, x, w.bytes)) for r in op.reads)
                    found[w.buffer, w.offset + x] = term((op.name, k, *read))
        memory |= found
    host = {buffer.name for buffer in schedule.buffers if buffer.memory != "device"}
    return {place: value for place, value in memory.items() if place[0] in host and value != term(place)}


def amounts(schedule: Schedule) -> Counter[Any]:
    """Bytes by direction and memory; kernels' elements and picoseconds on a full card, by what they are."""
    found: Counter[Any] = Counter()
    for op in schedule.ops:
        if isinstance(op, Copy):
            found[op.direction, op.host and op.host.buffer] += op.bytes
        elif isinstance(op, Kernel):
            what = op.name, op.parameter, op.fill
            found[(*what, "elements")] += op.elements
            found[(*what, "time")] += round((op.duration_s or 0) * 1e12)
    return found


ON_HOST, ON_CARD = Buffer("host", 128, "pinned"), Buffer("card", 128, "device")
PAGEABLE = Buffer("pageable", 128, "pageable")


@st.composite
def pipelines(draw: st.DrawFn) -> Schedule:
    """Any program whose ops name their memory: ranges that can be halved three times, often the same ones."""
    kinds = tuple(draw(st.lists(st.sampled_from(("non-blocking", "blocking")), min_size=1, max_size=3)))
    stream, event = st.integers(0, len(kinds)), st.integers(0, 1)
    size, offset = st.sampled_from((8, 8, 16)), st.sampled_from((0, 8, 16, 32, 64))

    def region(buffer: Buffer) -> Any:
        return st.builds(Region, st.just(buffer.name), offset, size)

    @st.composite
    def copies(draw: st.DrawFn) -> Copy:
        card = draw(region(ON_CARD))
        host = Region(draw(st.sampled_from((ON_HOST, ON_HOST, PAGEABLE))).name, draw(offset), card.bytes)
        blocking = draw(st.sampled_from((False, False, False, True)))
        return Copy(draw(st.sampled_from(("h2d", "d2h"))), card.bytes, draw(stream), host, card, blocking)

    regions = st.lists(region(ON_CARD), max_size=2).map(tuple)
    name = st.sampled_from(("first", "second"))
    time = st.sampled_from((8e-9, 16e-9))
    kernels = st.builds(Kernel, stream, name, st.just(8), st.just(0), time, st.just(1.0), regions, regions)
    waits = st.one_of(
        st.builds(RecordEvent, event, stream), st.builds(WaitEvent, event, stream), st.builds(Synchronize, stream=stream)
    )
    ops = draw(st.lists(st.one_of(copies(), copies(), kernels, kernels, waits), min_size=2, max_size=12))
    return Schedule((*ops, Synchronize()), kinds, (ON_HOST, ON_CARD, PAGEABLE), 2)


def all_remedies(case: Case, source: Source | None = None) -> list[tuple[str, Any]]:
    """Every change of which the best is taken."""
    remedies = Remedies(case, Rework(case.schedule), source)
    return [(key, remedy) for key in KEYS for remedy in remedies.of(key)]


@settings(deadline=None, max_examples=60)
@given(pipelines())
def test_a_remedy_computes_and_copies_the_same_and_has_no_race(schedule: Schedule) -> None:
    """Of a program with races, what it means is what it computes with the waits that it lacks."""
    sound = repaired(schedule, check_schedule(schedule))
    terms: Terms = {}
    meant = output(sound, terms)
    tabled = bool(Rework(sound).shared)  # then what a part of a kernel needs is not what it is taken to need here
    for key, (text, (changed, _)) in all_remedies(Case(schedule, load_device("h200"))):
        if key == "connections" and changed is schedule:
            continue
        assert not races(changed), text
        assert amounts(changed) == amounts(schedule), text
        if not (tabled and key in ("few-chunks", "small-chunks")):
            assert output(changed, terms) == meant, text


@settings(deadline=None, max_examples=60)
@given(st.one_of(schedules(), pipelines()), devices())
def test_doing_what_stands_first_gains_what_is_promised_and_most(schedule: Schedule, device: Device) -> None:
    found = explain_schedule(schedule, device)
    for loss in found.losses:
        if loss.remedied is not None:
            assert ticks(loss.gain_alone_s) == ticks(found.makespan_s) - ticks(simulate(*loss.remedied).makespan_s)
    tried = [ticks(simulate(*remedy.case).makespan_s) for _, remedy in all_remedies(Case(schedule, device))]
    shortest = min(tried, default=ticks(found.makespan_s))
    if found.first is None:
        assert shortest >= ticks(found.makespan_s)
    else:
        assert found.first is found.losses[0]
        assert found.first.remedied is not None
        assert ticks(simulate(*found.first.remedied).makespan_s) == shortest < ticks(found.makespan_s)
