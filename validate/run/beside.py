"""What is measured beside a program: how long its kernels take alone, and how fast the host makes such calls."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec.structs import replace

from streamsim.collector import collector_off
from streamsim.program.config import Config
from streamsim_validate.calibrate import QUIET, host_calls, time_round
from streamsim_validate.gpu import Bench, LinearLayers, Replayer, prepare
from streamsim_validate.records import (
    CHUNK,
    CHUNK_ROUND,
    LINEAR,
    MIX_LENGTH,
    MIXES,
    mix_kind,
)
from streamsim_validate.run.programs import CHAIN_LENGTH, FUNCTION, Cuda, Python

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamsim.code.steps import Language
    from streamsim.program.workload import Workload
    from streamsim_validate.gpu import Gpu, Library
    from streamsim_validate.run.programs import Runner

ROUNDS = 3  # behind one that warms up
DISTURBED = 1.2  # times what a round takes where nothing disturbs the host


class Beside(Protocol):
    """Measures beside the programs of a language, and has what runs them."""

    def runner(self, workload: Workload) -> Runner:
        """What runs the programs of this workload."""

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Seconds of each kernel of the workload over so many of its elements, alone."""

    def round_s(self) -> float:
        """Seconds in which the host makes the calls of a chunk."""

    def close(self) -> None:
        """Leave nothing behind."""


class Quiet:
    """How fast the host makes the calls of a language where nothing disturbs it: what ends the fast quarter so far."""

    def __init__(self) -> None:
        self._rounds_s: list[float] = []

    def was_disturbed(self, rounds_s: Sequence[float]) -> bool:
        """Whether the host was slower for any of these rounds; they count from now on."""
        self._rounds_s.extend(rounds_s)
        return max(rounds_s) > DISTURBED * float(np.quantile(self._rounds_s, QUIET))


class BesideLibrary:
    """Beside programs in CuPy or PyTorch."""

    def __init__(self, language: Language, library: Library, card: int = 0) -> None:
        """Raises InputError where the library cannot be imported."""
        self._language, self._library, self._card = language, library, card
        self._stand_in = Python(language, card=card)
        self._linear: dict[tuple[int, int], tuple[LinearLayers, Python]] = {}
        self._known: dict[tuple[Workload, int], tuple[float, ...]] = {}

    def runner(self, workload: Workload) -> Runner:
        return self._layers(workload)[1] if _is_linear(workload) else self._stand_in

    def _layers(self, workload: Workload) -> tuple[LinearLayers, Python]:
        shape = workload.kernels[0].parameter, len(workload.kernels) - 1
        if shape not in self._linear:
            layers = LinearLayers(*shape)
            self._linear[shape] = layers, Python(self._language, layers, self._card)
        return self._linear[shape]

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        asked = replace(workload, elements=1), elements
        if asked not in self._known:
            self._known[asked] = self._measured_s(workload, elements)
        return self._known[asked]

    def _measured_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        floats = elements * workload.inputs[0] // 4
        if _is_linear(workload):
            layers, count = self._layers(workload)[0], len(workload.kernels) - 1
            return (*(self._each_s(layers.layer, floats),) * count, self._each_s(layers.last, floats))
        kernels, work = self._stand_in.loaded(workload, Config())[FUNCTION], workload.kernels[0].parameter

        def launch(x: Any, y: Any) -> None:
            kernels(x, y, work)

        count = len(workload.kernels)
        return (self._each_s(launch, floats) / count,) * count

    def _each_s(self, launch: Callable[[Any, Any], object], floats: int) -> float:
        """One more in a chain of them, once warm."""
        chain_s = self._library.chain_s
        with collector_off():
            chain_s(launch, floats, 1)
            short, long = (median(chain_s(launch, floats, n) for _ in range(ROUNDS)) for n in (1, 1 + CHAIN_LENGTH))
        return max(0.0, (long - short) / CHAIN_LENGTH)

    def round_s(self) -> float:
        with collector_off():
            rounds_s = [time_round(self._library, CHUNK_ROUND, time.perf_counter) for _ in range(1 + ROUNDS)]
        return median(rounds_s[1:])

    def close(self) -> None:
        """Its memory is the library's."""


class BesideCuda:
    """Beside programs in C++; the host's calls are the bare ones that replays make."""

    def __init__(self, gpu: Gpu, card: int = 0) -> None:
        self._cuda, self._bench = Cuda(card), Bench(gpu, in_order=False)
        few = min(streams for letters, streams in MIXES if letters == CHUNK)
        mix = next(schedule for chain, schedule in host_calls() if (chain.kind, chain.size) == (mix_kind(CHUNK), few))
        prepare(self._bench, [mix])
        self._mix = Replayer(mix, self._bench)
        self._known: dict[tuple[int, int], float] = {}

    def runner(self, workload: Workload) -> Runner:  # noqa: ARG002 - one and the same
        return self._cuda

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        asked = elements, workload.kernels[0].parameter
        if asked not in self._known:
            self._known[asked] = max(0.0, self._cuda.each_s(*asked))
        return (self._known[asked],) * len(workload.kernels)

    def round_s(self) -> float:
        with collector_off():
            return median([self._mix.run().issue_s for _ in range(1 + ROUNDS)][1:]) / MIX_LENGTH

    def close(self) -> None:
        """Give the memory back, and remove what was compiled."""
        self._mix.close()
        self._bench.close()
        self._cuda.close()


def _is_linear(workload: Workload) -> bool:
    return workload.kernels[0].name == LINEAR
