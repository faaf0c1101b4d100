"""Calibrate: replay the probes on a card and fit them -> its Device profile."""

from __future__ import annotations

import gzip
import random
import zlib
from datetime import date
from typing import TYPE_CHECKING

import msgspec

from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.text.recognise import mistaken_for
from streamsim.text.shown import one_line
from streamsim_validate.calibrate import fits
from streamsim_validate.calibrate.fits import Samples, Timing
from streamsim_validate.calibrate.probes import COPY_KINDS, MIXES, QUEUES, Chain, mix_kind, probes
from streamsim_validate.gpu.replay import Bench, Replayer, prepare
from streamsim_validate.run.measure import OnStep, quietly

if TYPE_CHECKING:
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim_validate.gpu.card import Gpu

WARM_UP_RUNS, REPEATS = 1, 7  # rounds
OVER_MANY_STREAMS = {*QUEUES.values(), *(mix_kind(letters) for letters, _ in MIXES)}  # mixes: run by run


def calibrate(gpu: Gpu) -> Device:
    """The profile of the card, measured now. Raises InputError when a probe fails."""
    return fits.fit(take(gpu))


def take(gpu: Gpu, seed: int = 0, on_step: OnStep = quietly) -> Samples:
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


def write_samples(samples: Samples, path: Path) -> None:
    """Keep the raw samples (gzip'd JSON), from which ``fits.fit`` makes the profile again."""
    from streamsim.files.atomic_files import write_bytes

    write_bytes(gzip.compress(msgspec.json.encode(samples.plain()), mtime=0), path)


def read_samples(path: Path) -> Samples:
    """The raw samples of a calibration.

    Raises InputError naming the file when it holds none, a damaged archive, or samples that cannot be fitted.
    """
    data = b""
    try:
        data = path.read_bytes()
        plain = msgspec.json.decode(gzip.decompress(data), type=fits.PlainSamples)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError
        remedy = "measure them with `streamsim-validate calibrate`"
        reason = mistaken_for("samples", data) or f"no calibration samples ({error}); {remedy}"
        raise InputError(one_line(f"{path}: {reason}")) from error
    try:
        return Samples.from_plain(plain)
    except InputError as error:
        raise InputError(one_line(f"{path}: {error}")) from None
