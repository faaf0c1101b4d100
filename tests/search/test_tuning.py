"""What to measure next: the fastest, if the model errs as it did for the most similar measured program."""

import math
import statistics

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_device, pipeline_of

from streamsim.device import with_memory_limit
from streamsim.search import Proposals, candidates, default_grid

SEEDS = st.integers(0, 1 << 32)


def any_proposals(seed: int, n: int = 7) -> Proposals:
    """Of n candidates, some of them predicted equal, some as far apart as nothing."""
    rng = np.random.default_rng(seed)
    predicted = rng.choice([1e-3, 1e-3, *rng.uniform(5e-4, 5e-3, n)], n)
    return Proposals(predicted, rng.integers(0, 4, (n, 3)).astype(float))


def any_measured(offers: Proposals, seed: int, count: int, wide: float) -> dict[int, float]:
    """Seconds of so many candidates, that scatter this widely around the predictions."""
    rng = np.random.default_rng(seed + 1)
    known = rng.permutation(len(offers.predicted_s))[:count].tolist()
    return {k: float(offers.predicted_s[k] * rng.lognormal(0, wide)) for k in known}


@examples(30)
@given(SEEDS, st.sets(st.integers(0, 6)))
def test_the_first_is_the_models_pick_and_each_is_proposed_once(seed: int, without: set[int]) -> None:
    offers = any_proposals(seed)
    rng = np.random.default_rng(seed + 2)
    allowed = [k for k in range(7) if k not in without]
    measured: dict[int, float] = {}
    while (k := offers.next(measured, frozenset(without))) is not None:
        assert k not in measured
        measured[k] = float(offers.predicted_s[k] * rng.lognormal(0, 0.2))
    order = list(measured)
    assert sorted(order) == allowed
    if allowed:
        least = min(offers.predicted_s[k] for k in allowed)
        assert order[0] == min(k for k in allowed if offers.predicted_s[k] == least)
    assert offers.promise(measured, frozenset(without)) == 0.0


def expected_by_hand(offers: Proposals, measured: dict[int, float]) -> dict[int, float]:
    """Candidate by candidate, from the words."""
    found = {}
    for k, predicted in enumerate(offers.predicted_s):
        nearest = min(measured, key=lambda other: math.dist(offers.places[k], offers.places[other]))
        found[k] = float(predicted * measured[nearest] / offers.predicted_s[nearest])
    return found


@examples(30)
@given(SEEDS, st.integers(1, 5), st.floats(0.01, 0.5))
def test_the_next_is_the_fastest_if_the_model_errs_as_for_the_most_similar(seed: int, count: int, wide: float) -> None:
    """Where it errs by more than a tenth, every second is the least similar of those within 30 % of that."""
    offers = any_proposals(seed)
    measured = any_measured(offers, seed, count, wide)
    expected = expected_by_hand(offers, measured)
    assert offers.expected_s(measured) == pytest.approx([*expected.values()])
    left = [k for k in expected if k not in measured]
    fastest = min(expected[k] for k in left)
    chosen = offers.next(measured)
    assert chosen in left
    misses = [abs(math.log(seconds / offers.predicted_s[k])) for k, seconds in measured.items()]
    if statistics.median(misses) > 0.1 and count % 2:
        apart = {k: min(math.dist(offers.places[k], offers.places[other]) for other in measured) for k in left}
        assert expected[chosen] <= 1.3 * fastest * (1 + 1e-9)
        assert apart[chosen] == max(apart[k] for k in left if expected[k] <= 1.3 * fastest)
    else:
        assert expected[chosen] == pytest.approx(fastest)
    assert offers.promise(measured) == pytest.approx(max(0.0, 1 - fastest / min(measured.values())))


# What the model says of programs


def test_candidates_are_distinct_programs_that_fit() -> None:
    workload = pipeline_of(1 << 20)
    device = with_memory_limit(make_device(), 4 << 20)
    found = candidates(workload, device, default_grid(8, 4, buffers=(None, 2)))
    assert found == sorted(found, key=lambda config: config.simplicity)
    assert all(config.device_bytes(workload) <= 4 << 20 for config in found)
    assert {config.buffers for config in found} == {2}  # 8 MiB whole; of two chunks the ring is as large
    assert {config.chunks for config in found} == {4, 6, 8}
    everything = candidates(workload, make_device(), default_grid(4, 2, order=("depth-first", "serial")))
    assert len(set(everything)) == len(everything)
