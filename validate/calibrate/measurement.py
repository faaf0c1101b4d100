"""The probes measured on a card."""

import random
from contextlib import closing
from datetime import date
from typing import NamedTuple

from streamsim.collector import collector_off
from streamsim_validate.calibrate.all_probes import probes
from streamsim_validate.calibrate.program_calls import PROGRAM_KINDS
from streamsim_validate.calibrate.queues import QUEUES
from streamsim_validate.calibrate.samples import COPY_KINDS, Samples
from streamsim_validate.gpu import Bench, Gpu, Replayer, prepare
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import MIXES, PACE_CHAIN, Chain, Timing, mix_kind

WARM_UP_RUNS, REPEATS = 1, 7  # rounds
OVER_MANY_STREAMS = {*QUEUES.values(), *(mix_kind(letters) for letters, _ in MIXES)}  # mixes: run by run
FIRST, OVER_MANY, OF_PROGRAMS = PARTS = (
    "calibrating",
    "calibrating over many streams",
    "calibrating the calls of programs",
)
SWEPT = bytearray(8 << 20)  # more than a core's own caches hold; without it programs are issued 2 % faster (H200)
RUNS = dict.fromkeys(COPY_KINDS, 2) | dict.fromkeys(PROGRAM_KINDS, 4)  # in each round, of what scatters most


def measure_probes(gpu: Gpu, on_step: OnStep = quietly) -> Samples:
    """Measure every probe, repeats interleaved in shuffled order and some more often. Return the raw samples.

    The probes that need a stream for each of many queues come late: once the driver has made its queues, everything
    else is a little slower. Last come the programs. Each stands between two runs of the pace and behind a sweep of the
    host's caches, which stands for the other programs between two runs of one in a record.
    """
    found = dict(probes(gpu.card.resident_threads))
    timings: dict[Chain, list[Timing]] = {chain: [] for chain in found}
    paces_s: dict[Chain, list[float]] = {chain: [] for chain in found if chain.kind in PROGRAM_KINDS}
    bench, rng = Bench(gpu, in_order=False), random.Random(0)  # which queue a stream has matters to no probe
    try:
        prepare(bench, found.values())
        with closing(Replayer(found[PACE_CHAIN], bench)) as pace:
            for what in PARTS:
                part = [chain for chain in found if _part_of(chain) == what]
                beside = pace if what == OF_PROGRAMS else None
                ready = [(c, _Ready(Replayer(found[c], bench), timings[c], beside, paces_s.get(c, []))) for c in part]
                _measure([one for chain, one in ready for _ in range(RUNS.get(chain.kind, 1))], rng, what, on_step)
    finally:
        bench.close()
    return Samples(gpu.card, date.today().isoformat(), timings, paces_s=paces_s)


def _part_of(chain: Chain) -> str:
    if chain.kind in PROGRAM_KINDS:
        return OF_PROGRAMS
    return OVER_MANY if chain.kind in OVER_MANY_STREAMS else FIRST


class _Ready(NamedTuple):
    """A probe that is ready, the lists for its samples, and the pace to issue beside it, if any."""

    replayer: Replayer
    timings: list[Timing]
    pace: Replayer | None
    paces_s: list[float]

    def run(self, counts: bool) -> None:
        """Measure the probe. The sample is kept if it ``counts``."""
        if self.pace:
            bytes(SWEPT)
        sample, paces_s = self.replayer.run_beside([self.pace.issue] if self.pace else [])
        if counts:
            self.timings.append(Timing(sample.device_s, sample.wall_s, sample.issue_s))
            self.paces_s.extend(paces_s)


def _measure(ready: list[_Ready], rng: random.Random, what: str, on_step: OnStep) -> None:
    with collector_off():
        for turn, one in shuffled_rounds(ready, WARM_UP_RUNS + REPEATS, rng, what, on_step):
            one.run(counts=turn >= WARM_UP_RUNS)
    for one in ready:
        one.replayer.close()
