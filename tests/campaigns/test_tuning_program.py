"""What ten measurements find of some 200 programs, where the card is not as the profile says; and beside other ways.

Seeds are hypothesis': nobody chose them.
"""

import gzip
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from documents import ROOT
from effort import examples
from fake_cuda import CARD, fake_gpu
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import pipeline_of

from campaigns import tuning
from campaigns.tuning import (
    GOOD,
    LEAST,
    MOST,
    WORK,
    Regret,
    Seen,
    Tuning,
    Tunings,
    by_the_model,
    drawn,
    is_good,
    read_record,
    regret_of,
    regrets,
    seen_of,
)
from streamsim import Config, Device, Workload, evaluate, load_device
from streamsim.compiled import available
from streamsim.device import dump_device, multiplied, number_names, parse_device, with_values
from streamsim.files import write_bytes
from streamsim.search import Grid, Proposals, candidates, default_grid, proposals
from streamsim_validate.gpu import Gpu

compiled = pytest.mark.skipif(not available(), reason="numba is not installed")
SEEDS = st.integers(0, 1 << 32)
CONFIGS = Grid((2, 4, 8, 16), (1, 2, 4)).configs(pipeline_of(64))


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


def made_up(workload: Workload, device: Device, truth: str, offers: Proposals, seed: int = 0) -> Regret:
    """What is found where a card is as ``truth`` says and ``device`` is what is known of it; medians scatter by 1 %."""
    configs = candidates(workload, device, default_grid())
    true_s = np.array(evaluate(workload, configs, TRUTHS[truth](device)))
    noise = np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(configs)))
    seen = Seen(configs, true_s * noise)
    return regret_of(seen, offers, true_s, seed)


@compiled
@examples(4)
@given(SEEDS, st.sampled_from(["h100", "h200"]))
def test_ten_measurements_come_near_the_best_whatever_the_card_is_like(seed: int, name: str) -> None:
    """A second or two each: 200 programs on 64 drawn devices. Of 560 such cases seven were above 2 %, 3.2 at worst."""
    device, workload = load_device(name), next(drawn(seed, 1))
    configs = candidates(workload, device, default_grid())
    assert len(configs) > 200
    offers = proposals(workload, configs, device)
    found = {truth: made_up(workload, device, truth, offers, seed) for truth in TRUTHS}
    assert sum(regret.tuned <= GOOD for regret in found.values()) >= len(TRUTHS) - 2
    assert max(regret.tuned for regret in found.values()) <= 4 * GOOD
    for regret in found.values():
        assert regret.tuned <= max(regret.random, GOOD)


def test_workloads_are_those_of_the_seed_and_their_kernels_have_costs() -> None:
    some = list(drawn(5, 20))
    assert some == list(drawn(5, 20))
    assert some[:3] == list(drawn(5, 3))
    assert some != list(drawn(6, 20))
    for workload in some:
        assert workload.elements is not None
        assert LEAST <= workload.elements <= MOST
        assert workload.elements % 2 == 1
        assert workload.kernels[0].parameter in WORK
        for name in ("h100", "h200"):
            assert evaluate(workload, [Config()], load_device(name), fast=False)[0] > 0


def test_by_the_model_is_what_tune_proposes() -> None:
    """Of measurements as predicted, the model's pick and then the fastest other."""
    offers = Proposals(np.array([3.0, 1.0, 2.0]), np.eye(3))
    seen = Seen(CONFIGS[:3], np.array([3.0, 1.0, 2.0]))
    assert by_the_model(seen, offers, 2) == [1, 2]
    assert by_the_model(seen, offers, 5) == [1, 2, 0]


# A record


def a_record() -> Tunings:
    """Two small workloads on a made-up card whose times are known: what is predicted, but for one far faster."""
    device = load_device("h200")
    tunings = []
    for workload in drawn(9, 2):
        configs = tuple(candidates(workload, device, default_grid(8, 2)))
        times = np.array(evaluate(workload, configs, device))
        times[-1] = times.min() / 2
        walls = tuple((t * 0.99, t, t * 1.01) for t in times.tolist())
        best = len(configs) - 1
        tunings.append(Tuning(workload, configs, walls, best, best, walls[best], walls[best]))
    return Tunings("Emulated", 9, "2026-11-23", dump_device(device), tuple(tunings))


@compiled
def test_a_record_is_read_and_its_regrets_are_those_by_hand(tmp_path: Path) -> None:
    found = a_record()
    path = tmp_path / "tuning.json.gz"
    write_bytes(gzip.compress(msgspec.json.encode(found), mtime=0), path)
    assert read_record(path) == found
    by_row = regrets(found)
    assert all(regret.pick == pytest.approx(1.0, abs=0.15) for regret in by_row)  # half as long as the fastest other
    assert [regret.tuned for regret in by_row] == [regret_by_hand(one) for one in found.tunings]


@compiled
def test_a_record_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the emulated card: every candidate of two small workloads, and what is found beside the best."""

    @contextmanager
    def opened(_number: int = 0) -> Iterator[Gpu]:
        yield fake_gpu()[0]

    small = [replace(workload, elements=501) for workload in drawn(3, 2)]
    monkeypatch.setattr(tuning, "drawn", lambda *_: iter(small))
    monkeypatch.setattr(tuning, "default_grid", lambda: default_grid(3, 2))
    monkeypatch.setattr("streamsim_validate.gpu.open_gpu", opened)
    profile, output = tmp_path / "profile.toml", tmp_path / "tuning.json.gz"
    profile.write_text(dump_device(load_device("h200")))
    tuning.record(3, profile, output, "2026-11-23")
    found = read_record(output)
    assert (found.card, found.seed) == (CARD.name, 3)
    assert [one.workload for one in found.tunings] == small
    for one in found.tunings:
        assert len(one.configs) == 1 + 2 * 2 * 2  # of one chunk, and 2 or 3 on one or two streams in two orders
        assert {len(walls) for walls in one.wall_s} == {tuning.REPEATS}
        assert len(one.found_s) == len(one.best_s) == tuning.REPEATS_SIDE_BY_SIDE
        medians = [statistics.median(walls) for walls in one.wall_s]
        assert medians[one.best] == min(medians)
        assert one.found == one.best  # ten measurements are more than there are programs


def regret_by_hand(one: Tuning) -> float:
    """Of the best of ten that the model proposes."""
    seen = seen_of(one.configs, one.wall_s)
    order = by_the_model(seen, proposals(one.workload, one.configs, load_device("h200")))
    medians = [sorted(one.wall_s[k])[1] for k in order]
    return min(medians) / min(sorted(walls)[1] for walls in one.wall_s) - 1


@pytest.mark.parametrize(
    ("found_s", "good"),
    [((1.00, 1.01, 1.02), True), ((1.03, 1.04, 1.05), False), ((0.97, 1.05, 1.10), True)],
    ids=("within 2 %", "beyond", "within the noise"),
)
def test_what_is_found_is_good_within_two_per_cent_or_the_noise(found_s: tuple[float, ...], good: bool) -> None:
    workload = next(drawn(1, 1))
    one = Tuning(workload, (Config(), Config(chunks=2)), ((1.0,), (1.0,)), 1, 0, found_s, (0.995, 1.0, 1.005))
    assert is_good(one) is good
    assert is_good(msgspec.structs.replace(one, found=0))


@pytest.mark.measured
def test_ten_measurements_found_the_best_of_eight_workloads_on_a_card() -> None:
    """Of 215 programs each, on an H200: all within 2 % of the best, or within the noise of both side by side."""
    found = read_record(ROOT / "validate/campaigns/records/tuning-h200.json.gz")
    assert len(found.tunings) == 8
    assert min(len(one.configs) for one in found.tunings) >= 200
    assert all(is_good(one) for one in found.tunings)


@compiled
@pytest.mark.measured
@pytest.mark.parametrize("card", ["h100", "h200"])
@pytest.mark.parametrize("host", [1.0, 1.7, 1 / 1.7])
def test_ten_of_the_measured_times_hold_the_best_of_eight_workloads(card: str, host: float) -> None:
    """Also where the host's calls are 1.7 times as long, or as short, as the profile says."""
    found = read_record(ROOT / f"validate/campaigns/records/tuning-{card}.json.gz")
    with warnings.catch_warnings(action="ignore"):  # fields that profiles no longer have
        profile = dump_device(_host(parse_device(found.profile), host))
    assert max(regret.tuned for regret in regrets(replace(found, profile=profile))) < 0.001
