"""Diagnosis of a measured time: a mistake that was made is found, and what is said of it is true of its program."""

import pytest
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from streamsim import diagnosis
from streamsim.compiled import simulate_one_of_many
from streamsim.device import load_device
from streamsim.program import (
    Config,
    Copy,
    Kernel,
    Schedule,
    Workload,
    WorkloadKernel,
    workload_of_sizes,
)
from streamsim.transform import Source, Work

MIB = 1 << 20
WORK = workload_of_sizes(["64MiB"], ["2ms"], ["64MiB"])
MEANT = Config("depth-first", 8, 4)

workloads = st.builds(
    lambda h2d, kernel, d2h: Workload(
        inputs=(h2d * MIB,), kernels=(WorkloadKernel(duration_s=kernel * 1e-4),), outputs=(d2h * MIB,)
    ),
    st.integers(1, 200),
    st.integers(1, 100),
    st.integers(1, 200),
)
configs = st.builds(Config, st.just("depth-first"), st.integers(2, 16), st.integers(2, 4))


def meant(workload: Workload, config: Config, device: str = "rtx4090") -> Work:
    return Work(config.schedule(workload), load_device(device), Source(workload, config))


def seconds(program: Work) -> float:
    return simulate_one_of_many(program.schedule, program.device).makespan_s


def work_of(schedule: Schedule) -> tuple[int, int, float]:
    """Bytes to the card, bytes back, and the part of the kernel's work that the program does."""
    copies = [op for op in schedule.ops if isinstance(op, Copy)]
    bytes_of = [sum(copy.bytes for copy in copies if copy.direction == direction) for direction in ("h2d", "d2h")]
    done = sum(op.share for op in schedule.ops if isinstance(op, Kernel) and op.name == "kernel")
    return bytes_of[0], bytes_of[1], round(done, 9)


# A law: who makes a mistake, measures its time and asks, is told of that mistake as one of those that fit.


@examples(60)
@given(workloads, configs, st.sampled_from(diagnosis.MISTAKES), st.floats(0, 1))
def test_the_mistake_that_was_made_is_found(
    workload: Workload, config: Config, mistake: diagnosis.Mistake, level: float
) -> None:
    """What explains any time gives way to it; what is to be measured next tells two of the explanations apart."""
    wrong = diagnosis.made([mistake], meant(workload, config), level)
    found = diagnosis.diagnose(workload, "rtx4090", seconds(wrong), config)
    as_meant = seconds(meant(workload, config))
    if abs(seconds(wrong) / as_meant - 1) > 0.01:
        assert (mistake.title,) in [one.titles for one in found.fitting]
    else:
        assert found.fitting[0].title == diagnosis.AS_MEANT
    if not mistake.is_open_ended:
        assert not any(one.is_open_ended for one in found.simplest)
    if found.next is not None:
        times = sorted(found.next[1].values())
        assert any(one.high_s * diagnosis.APART <= two.low_s for one in times for two in times)
    assert_in_order(found, seconds(wrong))


def assert_in_order(found: diagnosis.Diagnosis, measured: float) -> None:
    """What fits comes first, and the rest by how near it is."""
    assert [one.fits for one in found.explanations] == sorted((one.fits for one in found.explanations), reverse=True)
    rest = [abs(one.off) for one in found.explanations if not one.fits]
    assert rest == sorted(rest)
    for one in found.explanations:
        low, high = one.times_s[0]
        assert low <= high
        assert one.off == pytest.approx(min(max(measured, low), high) / measured - 1)


@examples(60)
@given(workloads, configs, st.sampled_from([(mistake,) for mistake in diagnosis.MISTAKES] + list(diagnosis.pairs())))
def test_a_mistake_changes_no_work(workload: Workload, config: Config, mistakes: tuple[diagnosis.Mistake, ...]) -> None:
    program = meant(workload, config)
    wrong = diagnosis.made(mistakes, program)
    assert work_of(wrong.schedule) == work_of(program.schedule)


# By hand: on the ideal device copies run at 64 GB/s both ways, so that 64 MB take 1 ms; the kernel takes 1 ms. Four
# chunks over four streams take (4 + 2) / 4 ms = 1.5 ms; serial, in one stream, or with a wait behind each chunk 3 ms.

FOUR = Config("depth-first", 4, 4)


def test_equal_stages_by_hand() -> None:
    ideal = load_device("ideal")
    h2d_s = 64e6 / ideal.h2d.bandwidth_bytes_per_s
    work = workload_of_sizes(["64MB"], [h2d_s], ["64MB"])
    found = {one.title: one.times_s[0].low_s for one in diagnosis.diagnose(work, ideal, 3 * h2d_s, FOUR).explanations}
    assert found[diagnosis.AS_MEANT] == pytest.approx(1.5 * h2d_s, rel=1e-4)
    for title in ("copies block the host", "one stream for all chunks"):
        assert found[title] == pytest.approx(3 * h2d_s, rel=1e-4)
    # One engine copies 8 quarters of both directions; depth-first nothing overlaps on it: N s.
    assert found["one copy engine for both directions"] == pytest.approx(3 * h2d_s, rel=1e-4)


def test_a_clock_that_stops_early_is_recognised() -> None:
    program = meant(WORK, MEANT)
    returned_s = next(
        one.times_s[0].low_s
        for one in diagnosis.diagnose(WORK, "rtx4090", 1e-3, MEANT).explanations
        if one.mistakes == (diagnosis.STOPPED_EARLY,)
    )
    assert returned_s < seconds(program) / 10
    assert diagnosis.diagnose(WORK, "rtx4090", returned_s, MEANT).simplest[0].mistakes == (diagnosis.STOPPED_EARLY,)


def test_what_nothing_explains_is_said() -> None:
    found = diagnosis.diagnose(WORK, "rtx4090", 1e3, MEANT)
    assert not found.fitting
    assert "no usual mistake takes just so long" in found.verdict
    found = diagnosis.diagnose(WORK, "rtx4090", 0.8 * seconds(meant(WORK, MEANT)), MEANT)
    assert not found.fitting
    assert "it takes less time than it should" in found.verdict


@pytest.mark.parametrize("work", [WORK, workload_of_sizes(kernels=["1ms"]), workload_of_sizes(d2h=["3kB"])])
def test_what_is_far_too_long_is_the_clocks_fault(work: Workload) -> None:
    """A program with nothing but kernels, or nothing but a copy, too."""
    found = diagnosis.diagnose(work, "rtx4090", 2.0)
    assert "was the clock right?" in found.verdict
    assert all(one.is_open_ended for one in found.simplest[:2])
    assert found.next is not None


@examples(15)
@given(st.integers(MIB, 1 << 30), st.floats(0, 1))
def test_a_second_measurement_is_told_from_the_first(size: int, level: float) -> None:
    """A pageable copy holds the host: from how cold its memory was follows when its call returns."""
    copy = workload_of_sizes(d2h=[size])
    wrong = diagnosis.made([diagnosis.MISTAKES[0]], meant(copy, Config()), level)
    found = diagnosis.diagnose(copy, "rtx4090", seconds(wrong))
    assume(found.next is not None)
    assert found.next is not None
    assert found.next[1][diagnosis.MISTAKES[0].title].low_s == pytest.approx(seconds(wrong), rel=1e-2, abs=2e-6)
