"""What calls of programs are longer by: found again in made-up times, and walked through on an emulated card."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_cuda import fake_gpu

from campaigns import stamped_calls
from campaigns.stamped_calls import FEATURES, calls_of, longer_us, measure, programs
from streamsim.program.patterns import depth_first
from streamsim.program.schedule import Kernel, RecordEvent, Schedule
from streamsim.program.workload import Workload, WorkloadKernel

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 20261125


def test_a_programs_calls_have_what_is_theirs() -> None:
    """Two chunks of 1 MiB in one stream, an event behind: copy, kernel, copy; both kinds turn with every call."""
    workload = Workload(1 << 19, (4,), (4,), (WorkloadKernel("sincos", parameter=2),))
    two = depth_first(workload, 2, 1)
    schedule = Schedule((*two.ops[:-1], RecordEvent(0, 1), two.ops[-1]), two.streams, two.buffers, events=1)
    assert [(call.kind, call.has) for call in calls_of(schedule)] == [
        ("copy", (1, 1, 0, 1)),
        ("kernel", (1, 1, 1, 1)),
        ("copy", (1, 1, 1, 1)),
        ("copy", (1, 0, 0, 1)),
        ("kernel", (1, 0, 1, 0)),
        ("copy", (1, 0, 1, 1)),
        ("event", (1, 1)),
    ]


@pytest.mark.parametrize("kind", FEATURES)
def test_what_calls_are_longer_by_is_found_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamped_calls, "CLIPPED", 1.0)
    calls = [call for schedule in programs(SEED) for call in calls_of(schedule)]
    costs: Sequence[float] = (3000.0, 600.0, 200.0, 400.0)
    took = [sum(a * b for a, b in zip(call.has, costs, strict=False)) for call in calls]
    assert longer_us(calls, took, kind) == pytest.approx(np.array(costs[: len(FEATURES[kind])]) * 1e-3)


def test_programs_are_live_and_issued_without_a_wait() -> None:
    drawn = programs(SEED)
    assert len(drawn) == stamped_calls.PROGRAMS
    assert {schedule.launch for schedule in drawn} == {"live"}
    assert any(isinstance(op, Kernel) and op.duration_s for schedule in drawn for op in schedule.ops)


def test_every_call_is_stamped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamped_calls, "open_gpu", lambda _: contextlib.nullcontext(fake_gpu()[0]))
    monkeypatch.setattr(stamped_calls, "REPEATS", 2)
    workload = Workload(1 << 12, (4,), (4,), (WorkloadKernel("sincos", parameter=2),))
    schedules = [depth_first(workload, chunks, 2) for chunks in (2, 5)]
    found = measure(schedules)
    assert [len(each) for each in found] == [len(list(calls_of(schedule))) for schedule in schedules]
    assert all(each.min() > 0 for each in found)
