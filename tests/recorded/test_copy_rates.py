"""The rates that a recording's own copies show, and the copies that took longer."""

from typing import Any

import msgspec
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from made_recordings import PINNED_IN, PINNED_OUT, call, copy, kernel, recording_of
from perfect_profiler import profiled
from strategies import d2h, h2d, link, make_device, plan

from streamsim.device import load_device
from streamsim.model import simulate
from streamsim.program import FIRST_TOUCH, Buffer, HostWork, Region
from streamsim.recorded import Recording, costs, profile_of, replay, warnings_of

PAGEABLE_IN, PAGEABLE_OUT = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
sizes = st.lists(st.integers(costs.LEAST_BYTES, 40 * costs.LEAST_BYTES), min_size=1, max_size=8)


@examples(40)
@given(sizes, st.integers(1, 50))
def test_pinned_copies_alone_tell_the_rate_from_one_on(copies: list[int], rate: int) -> None:
    """Bytes a nanosecond, whatever their sizes; small ones between them say nothing."""
    device = make_device(h2d=link(rate=rate))
    ops = [op for size in copies for op in (h2d(1, size), h2d(1, 8))]
    found = costs.copy_rates(profiled(simulate(plan(*ops), device)), make_device())
    assert found["h2d.bandwidth_bytes_per_s"] == pytest.approx(rate * 1e9, rel=1e-4)
    assert not any(name.startswith("d2h") for name in found)


@examples(40)
@given(st.integers(2, 6), st.integers(2, 5), st.floats(0.4, 0.95))
def test_copies_partly_beside_the_other_direction_tell_both_rates(chunks: int, rate: int, share: float) -> None:
    """Copies in of 32 pieces, and fewer bytes back beside some of them: alone at one rate, beside at the other."""
    device = make_device(h2d=link(rate=rate, shared=rate * share), d2h=link(rate=rate, shared=rate * share))
    ops = [op for k in range(chunks) for op in (h2d(1, 32 * costs.LEAST_BYTES), *[d2h(2, (4 + k) * costs.LEAST_BYTES)])]
    found = costs.copy_rates(profiled(simulate(plan(*ops, h2d(1, 32 * costs.LEAST_BYTES)), device)), make_device())
    assert found["h2d.bandwidth_bytes_per_s"] == pytest.approx(rate * 1e9, rel=0.02)
    assert found["h2d.duplex_bandwidth_bytes_per_s"] == pytest.approx(rate * share * 1e9, rel=0.02)


def test_no_rate_comes_from_small_copies_or_passes_the_cards_link() -> None:
    """Of copies of 4 KiB the latency is told at most; 60 bytes a nanosecond are more than PCIe gen 3 carries."""
    t4, device = load_device("t4"), make_device(h2d=link(rate=60), d2h=link(rate=60))
    small = costs.copy_rates(profiled(simulate(plan(*[h2d(1, 4096)] * 9), device)), t4)
    assert set(small) == {"h2d.latency_s"}
    large = costs.copy_rates(profiled(simulate(plan(h2d(1, 1 << 24)), device)), t4)
    assert large["h2d.bandwidth_bytes_per_s"] == pytest.approx(16 * 0.985e9)


def of(*events: dict[str, Any], card: str = "Tesla T4") -> Recording:
    return recording_of(*events, deviceProperties=[{"id": 0, "name": card, "numSms": 40}])


def rounds(*took_back_us: int, size: int = 8_000_000) -> list[dict[str, Any]]:
    """Rounds: a pageable copy in at 4 GB/s, a kernel of 100 us, and a copy back that takes so long."""
    events, now, number = list[dict[str, Any]](), 0, 0
    for took in took_back_us:
        number += 3
        events += [call("cudaMemcpy", now, 2010, number), copy(PAGEABLE_IN, now + 10, 2000, number, size=size)]
        events += [call("cudaLaunchKernel", now + 2011, 5, number + 1), kernel(now + 2020, 100, number + 1)]
        events += [call("cudaMemcpy", now + 2018, took + 112, number + 2)]
        events += [copy(PAGEABLE_OUT, now + 2128, took, number + 2, size=size)]
        now += 2018 + took + 120
    return events


def test_a_copy_back_into_memory_that_was_never_touched_is_replayed_as_it_was() -> None:
    """Of three copies back the first takes 8 ms, 1 GB/s, and the others 1.6 ms: 6.4 ms are page faults of the host."""
    was = of(*rounds(8000, 1600, 1600))
    found = replay(was)
    assert found.device.d2h.pageable_bandwidth_bytes_per_s == pytest.approx(5e9, rel=0.01)
    faults = [op.duration_s for op in found.program.schedule.ops if isinstance(op, HostWork) and op.name == FIRST_TOUCH]
    assert faults == pytest.approx([6.4e-3], rel=0.01)
    assert abs(found.error) < 0.01
    assert not warnings_of(found)
    (assumed,) = (unread for unread in found.program.assumed if "slow copies back" in unread.what)
    assert assumed.count == 1


def test_where_all_copies_back_are_page_faults_the_profile_says_the_rate() -> None:
    was, t4 = of(*rounds(8000)), load_device("t4")
    assert profile_of(was).d2h.pageable_bandwidth_bytes_per_s == t4.d2h.pageable_bandwidth_bytes_per_s
    assert abs(replay(was).error) < 0.01


@examples(30)
@given(st.integers(50, 80_000))
def test_a_call_that_holds_the_host_before_its_copy_is_the_hosts_time(held_us: int) -> None:
    """A small copy to a symbol, whose call takes so long before the copy begins: the copy after it is not slower."""
    events = [call("cudaMemcpyToSymbol", 0, held_us + 6, 1), copy(PAGEABLE_IN, held_us, 2, 1, size=72)]
    later = rounds(1600, 1600)
    for event in later:
        event["ts"] += held_us + 20
        event["args"]["correlation"] += 10
    found = replay(of(*events, *later))
    assert abs(found.error) < 0.02
    assert found.device.h2d.pageable_bandwidth_bytes_per_s == pytest.approx(4e9, rel=0.02)
    (engine,) = (engine for engine in found.engines if engine.name == "h2d")
    assert engine.recorded_s == pytest.approx(engine.predicted_s, rel=0.05)


def test_a_small_copy_back_that_holds_the_host_keeps_its_engine_for_its_bytes_alone() -> None:
    """64 KiB whose call returns 60 us after the copy has ended on the card: the excess is the host's time."""
    was = of(call("cudaMemcpy", 0, 100, 1), copy(PAGEABLE_OUT, 30, 7, 1, size=1 << 16))
    found = replay(was)
    (engine,) = (engine for engine in found.engines if engine.name == "d2h")
    assert engine.recorded_s == pytest.approx(engine.predicted_s, rel=0.01)


def test_the_number_of_copy_engines_is_the_recordings() -> None:
    """With one engine, as under WSL2, a copy back waits for a copy in of another stream."""
    was = of(
        *(call("cudaMemcpyAsync", 5 * k, 3, k + 1) for k in range(2)),
        copy(PINNED_IN, 20, 100, 1, stream=13, size=1_300_000),
        copy(PINNED_OUT, 125, 100, 2, stream=14, size=1_300_000),
        card="NVIDIA GeForce RTX 4060 Ti",
    )
    cards = (msgspec.structs.replace(was.cards[0], copy_engines=1),)
    one = replay(msgspec.structs.replace(was, cards=cards))
    assert one.device.copy_engines.count == 1
    assert abs(one.error) < 0.1
    assert replay(was).error < -0.25  # with two they run at once


@examples(30)
@given(sizes)
def test_copies_at_their_rate_hold_nobody_longer(copies: list[int]) -> None:
    """None of the copies of a program on pageable memory is slow, which the model itself has simulated."""
    device, n_bytes = make_device(copy=2000), max(copies)
    ops = [make(1, size, host=Region("pageable", 0, size)) for size in copies for make in (h2d, d2h)]
    schedule = plan(*ops, buffers=(Buffer("pageable", n_bytes, "pageable"),))
    assert costs.held_ns(profiled(simulate(schedule, device)), device) == {}
