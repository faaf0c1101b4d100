"""What to measure next: the textbook's Gaussian process and expected improvement, and what they find.

The second opinions: conditioning a joint normal by its precision matrix, closed forms of two candidates, integrals
summed numerically, the optimum that ``best`` proves.
"""

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import make_device, pipeline_of

from streamsim import Config, Workload, WorkloadKernel, best, load_device, simulate
from streamsim.device import number_names, with_memory_limit
from streamsim.search import (
    COMMON_SPREAD,
    LARGER_IS_RARER,
    LEAST_SCATTER,
    Beliefs,
    Grid,
    Hypothesis,
    beliefs,
    candidates,
    default_grid,
    expected_improvement,
)

Measured = dict[int, tuple[float, float]]
PLAIN = Hypothesis(0.03, 1.0)
RNG_SEEDS = st.integers(0, 1 << 32)


def any_beliefs(seed: int, n: int = 7) -> Beliefs:
    """Of n candidates, some of them predicted equal, some as far apart as nothing."""
    rng = np.random.default_rng(seed)
    predicted = rng.choice([1e-3, 1e-3, *rng.uniform(5e-4, 5e-3, n)], n)
    drawn = rng.normal(0, 0.1, (rng.integers(1, 2 * n), n)) + rng.normal(0, 0.2, (1, n))
    return Beliefs(predicted, drawn, rng.integers(0, 4, (n, 3)).astype(float), float(rng.choice([0.03, 0.1])))


def any_measured(thought: Beliefs, seed: int, count: int) -> Measured:
    """Seconds of so many candidates that are off by some tens of per cent."""
    rng = np.random.default_rng(seed + 1)
    known = rng.permutation(len(thought.predicted_s))[:count].tolist()
    return {k: (float(thought.predicted_s[k] * rng.lognormal(0, 0.3)), float(rng.choice([0, 0.02]))) for k in known}


def covariance_by_loops(thought: Beliefs, how: Hypothesis) -> np.ndarray:
    """Entry by entry, from the words: the mean product of the draws, what all share, and what those nearby do."""
    n = len(thought.predicted_s)
    found = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            draws = [float(row[i] * row[j]) for row in thought.drawn]
            apart = math.dist(thought.places[i], thought.places[j])
            near = how.miss**2 * math.exp(-0.5 * (apart / how.reach) ** 2)
            found[i, j] = math.fsum(draws) / len(draws) + COMMON_SPREAD**2 + near
    return found


def posterior_by_precision(thought: Beliefs, measured: Measured, how: Hypothesis) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of log(seconds): the joint normal of candidates and measurements, read off its precision.

    With P the inverse of the joint covariance, the candidates given the measurements have precision P_ff and mean
    -P_ff^-1 P_fy y (C. M. Bishop, Pattern Recognition and Machine Learning, 2006, 2.3.1).
    """
    own, known = covariance_by_loops(thought, how), list(measured)
    n, m = len(own), len(known)
    noise = np.diag([max(measured[k][1], LEAST_SCATTER) ** 2 for k in known])
    observe = np.zeros((m, n))
    observe[range(m), known] = 1
    joint = np.block([[own, own @ observe.T], [observe @ own, observe @ own @ observe.T + noise]])
    precision = np.linalg.inv(joint + 1e-13 * np.eye(n + m))
    missed = np.array([math.log(measured[k][0] / thought.predicted_s[k]) for k in known])
    spread = np.linalg.inv(precision[:n, :n])
    mean = np.log(thought.predicted_s) - spread @ precision[:n, n:] @ missed
    return mean, np.sqrt(np.diag(spread))


# The Gaussian process


@examples(30)
@given(RNG_SEEDS, st.sampled_from([PLAIN, Hypothesis(0.24, 2.0)]))
def test_the_covariance_is_what_the_words_say_and_a_covariance(seed: int, how: Hypothesis) -> None:
    thought = any_beliefs(seed)
    everyone = range(len(thought.predicted_s))
    found = thought.covariance(everyone, everyone, how)
    assert found == pytest.approx(covariance_by_loops(thought, how), rel=1e-12)
    assert found == pytest.approx(found.T, rel=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-12


@examples(30)
@given(RNG_SEEDS, st.integers(1, 5))
def test_what_is_expected_is_the_textbooks_posterior(seed: int, count: int) -> None:
    thought = any_beliefs(seed)
    measured = any_measured(thought, seed, count)
    measured = {k: (seconds, max(scatter, 0.005)) for k, (seconds, scatter) in measured.items()}
    for how in thought.hypotheses:
        seconds, deviation = thought.expected(measured, how)
        mean, spread = posterior_by_precision(thought, measured, how)
        assert np.log(seconds) == pytest.approx(mean, abs=1e-6)
        assert deviation == pytest.approx(spread, abs=1e-5)
    seconds, deviation = thought.expected(measured)
    of_likeliest = thought.expected(measured, thought.likeliest(measured))
    assert (seconds == of_likeliest[0]).all()
    assert (deviation == of_likeliest[1]).all()


def test_of_two_candidates_the_other_follows_by_their_covariance() -> None:
    """Closed form, with s the noise: mean c12 / (c11 + s^2) y, variance c22 - c12^2 / (c11 + s^2).

    Draws +-0.1 of both and +-0.2 of the second: 0.01, 0.01 and 0.05. All share 0.01. They are one doubling apart.
    """
    drawn = np.array([[0.1, 0.1], [-0.1, -0.1], [0.1, 0.3], [-0.1, -0.3]])
    thought = Beliefs(np.array([2e-3, 5e-3]), drawn, np.array([[0.0], [1.0]]), miss=0.06)
    c11, c12, c22 = 0.01 + 0.01 + 0.0036, 0.02 + 0.01 + 0.0036 * math.exp(-0.5), 0.05 + 0.01 + 0.0036
    y, s = math.log(1.5), 0.05
    seconds, deviation = thought.expected({0: (3e-3, s)}, thought.hypotheses[0])
    assert seconds[1] == pytest.approx(5e-3 * math.exp(c12 / (c11 + s**2) * y))
    assert deviation[1] == pytest.approx(math.sqrt(c22 - c12**2 / (c11 + s**2)))
    assert seconds[0] == pytest.approx(2e-3 * math.exp(c11 / (c11 + s**2) * y))
    assert deviation[0] == pytest.approx(math.sqrt(c11 - c11**2 / (c11 + s**2)))


@examples(30)
@given(RNG_SEEDS, st.integers(1, 6))
def test_measurements_as_predicted_narrow_every_deviation_and_move_nothing(seed: int, count: int) -> None:
    thought = any_beliefs(seed)
    before = thought.expected({})
    assert (before[0] == np.exp(np.log(thought.predicted_s))).all()
    agreeing: Measured = {}
    for k in any_measured(thought, seed, count):
        agreeing[k] = (float(thought.predicted_s[k]), 0.01)
        seconds, deviation = thought.expected(agreeing)
        assert seconds == pytest.approx(thought.predicted_s)
        assert (deviation <= before[1] + 1e-12).all()
        assert deviation[k] < before[1][k]
        assert thought.likeliest(agreeing).miss == thought.miss


@examples(30)
@given(RNG_SEEDS, st.integers(2, 6))
def test_whatever_is_measured_no_deviation_widens_under_one_hypothesis(seed: int, count: int) -> None:
    thought = any_beliefs(seed)
    measured: Measured = {}
    for how in (PLAIN, Hypothesis(0.24, 2.0)):
        before = thought.expected({}, how)[1]
        for k, seen in any_measured(thought, seed, count).items():
            measured = {**measured, k: seen}
            after = thought.expected(measured, how)[1]
            assert (after <= before + 1e-9).all()
            before = after
        measured = {}


@examples(30)
@given(RNG_SEEDS, st.integers(1, 6))
def test_the_likeliest_hypothesis_has_the_largest_density(seed: int, count: int) -> None:
    """The density of a normal from its eigenvalues: the sum over independent directions."""
    thought = any_beliefs(seed)
    measured = any_measured(thought, seed, count)
    known = list(measured)
    missed = np.array([math.log(measured[k][0] / thought.predicted_s[k]) for k in known])

    def log_density(how: Hypothesis) -> float:
        noise = [max(measured[k][1], LEAST_SCATTER) ** 2 for k in known]
        values, vectors = np.linalg.eigh(covariance_by_loops(thought, how)[np.ix_(known, known)] + np.diag(noise))
        along = vectors.T @ missed
        directions = [-0.5 * (z * z / v + math.log(2 * math.pi * v)) for z, v in zip(along, values, strict=True)]
        return math.fsum(directions) - LARGER_IS_RARER * math.log(how.miss)

    most = max(map(log_density, thought.hypotheses))
    assert log_density(thought.likeliest(measured)) == pytest.approx(most, rel=1e-6, abs=1e-6)


def test_a_model_that_misses_far_is_thought_to_miss_far() -> None:
    """Candidates of which nothing else is known: one a quarter longer, its neighbour a quarter shorter."""
    thought = Beliefs(np.full(8, 1e-3), np.zeros((1, 8)), np.arange(8.0)[:, None])
    near = {k: (1e-3 * (1 + 0.01 * (-1) ** k), 0.005) for k in range(6)}
    far = {k: (1e-3 * (1 + 0.25 * (-1) ** k), 0.005) for k in range(6)}
    assert thought.likeliest({}) == thought.likeliest(near) == thought.hypotheses[0]
    assert thought.likeliest(far).miss > 2 * thought.miss


# What to measure next


@examples(50)
@given(st.floats(-0.5, 0.5), st.floats(1e-3, 0.5))
def test_the_expected_improvement_is_its_integral(gain: float, deviation: float) -> None:
    """Of max(0, -x) for x normal about -gain: the midpoint rule over ten deviations either way."""
    steps = 200_000
    edges = np.linspace(-10, 10, steps + 1)
    z = (edges[1:] + edges[:-1]) / 2
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    integral = float(np.sum(np.maximum(0.0, gain - deviation * z) * density) * (edges[1] - edges[0]))
    assert expected_improvement(gain, deviation) == pytest.approx(integral, rel=1e-5, abs=1e-9)


def test_of_what_is_certain_the_improvement_is_its_gain() -> None:
    assert expected_improvement(0.2, 0.0) == 0.2
    assert expected_improvement(-0.2, 0.0) == 0.0


@examples(30)
@given(RNG_SEEDS, st.sets(st.integers(0, 6)))
def test_the_first_is_the_models_pick_and_each_is_proposed_once(seed: int, without: set[int]) -> None:
    thought = any_beliefs(seed)
    rng = np.random.default_rng(seed + 2)
    allowed = [k for k in range(7) if k not in without]
    measured: Measured = {}
    order = []
    while (k := thought.next(measured, frozenset(without))) is not None:
        order.append(k)
        measured[k] = (float(thought.predicted_s[k] * rng.lognormal(0, 0.2)), 0.01)
    assert sorted(order) == allowed
    if allowed:
        least = min(thought.predicted_s[k] for k in allowed)
        assert order[0] == min(k for k in allowed if thought.predicted_s[k] == least)
    assert thought.promise(measured, frozenset(without)) == 0.0


@examples(30)
@given(RNG_SEEDS, st.integers(1, 5))
def test_the_next_promises_most(seed: int, count: int) -> None:
    """By integrals over each candidate's posterior from the precision matrix."""
    thought = any_beliefs(seed)
    measured = {k: (s, 0.01) for k, (s, _) in any_measured(thought, seed, count).items()}
    mean, spread = posterior_by_precision(thought, measured, thought.likeliest(measured))
    least = min(mean[k] for k in measured)
    z = np.linspace(-8, 8, 16_001)
    weight = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    gains = {
        k: float((np.maximum(0.0, least - mean[k] - spread[k] * z) * weight).sum())
        for k in range(len(mean))
        if k not in measured
    }
    chosen = thought.next(measured)
    assert chosen is not None
    assert gains[chosen] == pytest.approx(max(gains.values()), abs=1e-6)
    assert thought.promise(measured) == pytest.approx(1 - math.exp(-max(gains.values())), abs=1e-6)


# What the model says of programs


SMALL = Grid(chunks=(1, 2, 4), streams=(1, 2), buffers=(None, 2), launch=("live", "graph"))


@pytest.mark.parametrize("wake", [0, 5000])
def test_what_is_predicted_is_the_models_time_until_the_host_knows(wake: int) -> None:
    device = make_device(copy=300, kernel=200, h2d_to_kernel=700, wake=wake)
    workload = pipeline_of(40_000)
    configs = candidates(workload, device, SMALL)
    found = beliefs(workload, configs, device).predicted_s
    for config, seconds in zip(configs, found, strict=True):
        returned = simulate(config.schedule(workload), device).makespan_s + device.host.wake_s
        assert seconds == pytest.approx(returned, rel=1e-12)


@pytest.mark.parametrize("name", ["h200", "v100"])
def test_the_models_pick_is_the_best_of_the_grid(name: str) -> None:
    device, workload = load_device(name), Workload(1 << 20, (4,), (4,), (WorkloadKernel(duration_s=60e-6),))
    grid = default_grid(16, 4)
    configs = candidates(workload, device, grid)
    first = beliefs(workload, configs, device).next({})
    assert first is not None
    assert configs[first] == best(workload, device, grid).best.config


def test_a_seed_draws_the_same_beliefs() -> None:
    device, workload = load_device("h200"), pipeline_of(1 << 20)
    configs = candidates(workload, device, default_grid(4, 2))
    one, again, other = (beliefs(workload, configs, device, seed) for seed in (1, 1, 2))
    assert (one.drawn == again.drawn).all()
    assert (one.drawn != other.drawn).any()
    assert (one.predicted_s == other.predicted_s).all()


def test_programs_that_calls_bound_are_unsure_with_the_host_alone() -> None:
    """All else is known for certain; the makespan of many tiny chunks is the host's calls."""
    device = make_device(copy=2000, kernel=2000)
    device = replace(device, spread=dict.fromkeys(number_names(device), 0.0))
    workload = Workload(1 << 22, (1,), (1,), (WorkloadKernel(duration_s=4e-3),))
    configs = [Config(chunks=1), Config(chunks=256, streams=4)]
    host_bound = Workload(1 << 10, (1,), (1,), (WorkloadKernel(duration_s=1e-6),))
    of_card, of_host = (beliefs(some, configs, device).drawn.std(axis=0) for some in (workload, host_bound))
    assert of_card[0] < 0.001
    assert of_host[1] > 0.15


def test_candidates_are_distinct_programs_that_fit() -> None:
    workload = pipeline_of(1 << 20)
    device = with_memory_limit(make_device(), 4 << 20)
    found = candidates(workload, device, default_grid(8, 4, buffers=(None, 2)))
    assert found == sorted(found, key=lambda config: config.simplicity)
    assert all(config.device_bytes(workload) <= 4 << 20 for config in found)
    assert {config.buffers for config in found} == {2}  # 8 MiB whole; of two chunks the ring is as large
    assert {config.chunks for config in found} == {4, 6, 8}
    everything = candidates(
        workload, make_device(), default_grid(4, 2, order=("depth-first", "breadth-first", "serial"))
    )
    assert [config.order for config in everything if config.chunks == 1] == ["depth-first", "serial"]
    assert len(set(everything)) == len(everything)
    assert {config.order for config in candidates(workload, make_device(), Grid((1,), (1,), ("breadth-first",)))} == {
        "breadth-first"
    }
