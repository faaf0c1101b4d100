"""The probes measured on a card."""

from __future__ import annotations

import random
from datetime import date
from typing import TYPE_CHECKING

from streamsim.collector import collector_off
from streamsim_validate.calibrate.all_probes import probes
from streamsim_validate.calibrate.queues import QUEUES
from streamsim_validate.calibrate.samples import COPY_KINDS, Samples
from streamsim_validate.gpu import Bench, Replayer, prepare
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import MIXES, Chain, Timing, mix_kind

if TYPE_CHECKING:
    from streamsim_validate.gpu import Gpu

WARM_UP_RUNS, REPEATS = 1, 7  # rounds
OVER_MANY_STREAMS = {*QUEUES.values(), *(mix_kind(letters) for letters, _ in MIXES)}  # mixes: run by run


def measure_probes(gpu: Gpu, seed: int = 0, on_step: OnStep = quietly) -> Samples:
    """Measure every probe, repeats interleaved in shuffled order and copies twice as often, and keep the raw samples.

    The probes that need a stream for each of many queues come last: the driver's queues, once made, make
    everything else a little slower. ``on_step`` is told how far it is.
    """
    found = list(probes(gpu.card.resident_threads))
    timings: dict[Chain, list[Timing]] = {chain: [] for chain, _ in found}
    bench, rng = Bench(gpu, in_order=False), random.Random(seed)  # which queue a stream has matters to no probe
    try:
        prepare(bench, (schedule for _, schedule in found))
        for many in (False, True):
            part = [probe for probe in found if (probe[0].kind in OVER_MANY_STREAMS) == many]
            twice = [probe for probe in part if probe[0].kind in COPY_KINDS]  # in each round: they scatter most
            ready = [(timings[chain], Replayer(schedule, bench)) for chain, schedule in part + twice]
            _measure(ready, rng, "calibrating over many streams" if many else "calibrating", on_step)
    finally:
        bench.close()
    return Samples(gpu.card, date.today().isoformat(), timings)


def _measure(ready: list[tuple[list[Timing], Replayer]], rng: random.Random, what: str, on_step: OnStep) -> None:
    turns = WARM_UP_RUNS + REPEATS
    with collector_off():
        for turn in range(turns):
            rng.shuffle(ready)
            for i, (timings, replayer) in enumerate(ready, turn * len(ready)):
                on_step(what, i, turns * len(ready))
                sample = replayer.run()
                if turn >= WARM_UP_RUNS:
                    timings.append(Timing(sample.device_s, sample.wall_s, sample.issue_s))
    for _, replayer in ready:
        replayer.close()
