"""What ten measurements find of some 200 programs, where the card is not as the profile says; and of measured ones.

Seeds are hypothesis': nobody chose them.
"""

import math
import random
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from campaigns.tables import GOOD_TUNING, read_tunings
from streamsim import Device, Workload, WorkloadKernel, load_device
from streamsim.compiled import available
from streamsim.device import multiplied, number_names, parse_device, with_values
from streamsim.search import candidates, default_grid, evaluate, proposals
from streamsim_validate.run import BUDGET

compiled = pytest.mark.skipif(not available(), reason="numba is not installed")
LEAST, MOST = 1 << 18, 1 << 26  # elements
WORK = (2, 10, 40, 176)  # of sincos, those whose cost a calibration measures


# Cards that are not as the profile says

NOISE = 0.01


def _host(device: Device, factor: float) -> Device:
    return multiplied(device, {name: factor for name in number_names(device) if name.startswith("host.")})


def _all(device: Device) -> Device:
    return with_values(multiplied(_host(device, 2.0), {"compute.kernels": 1.3}), {"copy_engines.count": 1})


TRUTHS: dict[str, Callable[[Device], Device]] = {
    "as the profile says": lambda device: device,
    "the host twice as slow": lambda device: _host(device, 2.0),
    "kernels 1.3 times as long": lambda device: multiplied(device, {"compute.kernels": 1.3}),
    "one copy engine, not two": lambda device: with_values(device, {"copy_engines.count": 1}),
    "all three": _all,
    "one hardware queue": lambda device: device.with_connections(1),
    "latencies five times as long": lambda device: multiplied(
        device, {name: 5.0 for name in number_names(device) if "latency" in name or name.startswith("hand_over.")}
    ),
}


@compiled
@examples(4)
@given(st.integers(0, 1 << 32), st.sampled_from(["h100", "h200"]))
def test_ten_measurements_come_near_the_best_whatever_the_card_is_like(seed: int, name: str) -> None:
    """A second or two each: 200 programs on 64 drawn devices. Of 560 such cases seven were above 2 %, 3.2 at worst."""
    rng = random.Random(seed)
    elements = int(math.exp(rng.uniform(math.log(LEAST), math.log(MOST)))) | 1
    workload = Workload(elements, (4,), (4,), (WorkloadKernel("sincos", parameter=rng.choice(WORK)),))
    device = load_device(name)
    configs = candidates(workload, device, default_grid())
    assert len(configs) > 200
    offers = proposals(workload, configs, device)
    found = []
    for truth in TRUTHS.values():
        true_s = np.array(evaluate(workload, configs, truth(device)))
        seen_s = true_s * np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(configs)))
        measured: dict[int, float] = {}
        while len(measured) < BUDGET and (k := offers.next(measured)) is not None:
            measured[k] = float(seen_s[k])
        at_random = [min(rng.sample(range(len(configs)), BUDGET), key=lambda k: seen_s[k]) for _ in range(50)]
        regret = true_s[min(measured, key=measured.__getitem__)] / true_s.min() - 1
        assert regret <= max(GOOD_TUNING, true_s[at_random].mean() / true_s.min() - 1)
        found.append(regret)
    assert sum(regret <= GOOD_TUNING for regret in found) >= len(TRUTHS) - 2
    assert max(found) <= 4 * GOOD_TUNING


@compiled
@pytest.mark.measured
@pytest.mark.parametrize("card", ["h100", "h200"])
@pytest.mark.parametrize("host", [1.0, 1.7, 1 / 1.7])
def test_ten_of_the_measured_times_hold_the_best_of_eight_workloads(card: str, host: float) -> None:
    """Also where the host's calls are 1.7 times as long, or as short, as the profile says.

    Ten measurements on the H200 itself found programs within 2 % of the best, or within the noise of both.
    """
    found = read_tunings(card)
    assert (len(found.tunings), min(len(one.configs) for one in found.tunings) >= 200) == (8, True)
    assert card == "h100" or all(one.is_good for one in found.tunings)
    with warnings.catch_warnings(action="ignore"):  # fields that profiles no longer have
        device = _host(parse_device(found.profile), host)
    for one in found.tunings:
        pick, tuned, at_random = one.regrets(device)
        assert 0 <= tuned <= pick
        assert tuned < min(0.001, at_random)
