"""A runner of programs in CuPy or PyTorch that measures the conditions of each run.

Hosts and shared links change speed, so each program gets its own measurements:

- kernels: seconds of each kernel alone on the card;
- host: seconds of a round of calls, such as copy in, kernel, copy out;
- link: seconds of an H2D and a D2H copy at the same time.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import Any

from msgspec.structs import replace

from streamsim.code import Language
from streamsim.collector import collector_off
from streamsim.device import LINEAR
from streamsim.program import Config, Workload
from streamsim_validate.calibrate import ALONE_KINDS, Rounds, kinds_of, time_round
from streamsim_validate.gpu import Bench, Gpu, Library, LinearLayers, Replayer, prepare
from streamsim_validate.records import CHUNK_ROUND, LINEAR_ROUND, LINK_PAIR
from streamsim_validate.run.runners import CHAIN_LENGTH, FUNCTION, PROBE_RUNS, Pace, Python, Result


class Link:
    """A copy each way at once, which shows what other users of the host leave of the link."""

    def __init__(self, gpu: Gpu) -> None:
        self._bench = Bench(gpu, in_order=False)
        prepare(self._bench, [LINK_PAIR])
        self._both = Replayer(LINK_PAIR, self._bench)
        self.both_s()  # the first one warms up

    def both_s(self) -> float:
        """Return the seconds that both copies take."""
        return self._both.run().wall_s

    def close(self) -> None:
        """Free the memory."""
        self._both.close()
        self._bench.close()


class ProbedPython:
    """A runner of programs in CuPy or PyTorch, and of their probes, with the methods of :class:`Cuda`."""

    def __init__(self, language: Language, library: Library, both_s: Callable[[], float], card: int = 0) -> None:
        """``both_s``: measures a copy each way at once. Raises InputError if the library cannot be imported."""
        self._language, self._library, self._card, self._both_s = language, library, card, both_s
        self._stand_in = Python(language, card=card)
        self._layers = cache(self._make_layers)
        self._alone_s = cache(self._measure_alone_s)
        self.kinds = kinds_of(library)

    def run_probed(
        self, workload: Workload, config: Config, repeats: int, work: int, kinds: Sequence[str]
    ) -> tuple[Result, Rounds]:
        is_linear = _is_linear(workload)
        runner = self._layers(*_shape(workload))[1] if is_linear else self._stand_in
        kind = LINEAR_ROUND if is_linear else CHUNK_ROUND  # which enters a stream as the loop does

        def pace() -> Pace:
            link_s = self._both_s()
            return Pace(time_round(self._library, kind, time.perf_counter, in_one_stream=True), link_s)

        before_s = [self._round_s(kind) for kind in kinds]
        result = runner.run(workload, config, repeats, work, pace=pace)._replace(pace=kind)
        after_s = [self._round_s(kind) for kind in kinds]
        return result, dict(zip(kinds, zip(before_s, after_s, strict=True), strict=True))

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        return self._alone_s(replace(workload, elements=1), elements * workload.inputs[0] // 4)

    def _make_layers(self, features: int, layers: int) -> tuple[LinearLayers, Python]:
        made = LinearLayers(features, layers)
        return made, Python(self._language, made, self._card)

    def _measure_alone_s(self, workload: Workload, floats: int) -> tuple[float, ...]:
        if _is_linear(workload):
            layers, count = self._layers(*_shape(workload))[0], len(workload.kernels) - 1
            return (*(self._each_s(layers.layer, floats),) * count, self._each_s(layers.last, floats))
        kernels, work = self._stand_in.loaded(workload, Config())[FUNCTION], workload.kernels[0].parameter

        def launch(x: Any, y: Any) -> None:
            kernels(x, y, work)

        count = len(workload.kernels)
        return (self._each_s(launch, floats) / count,) * count

    def _each_s(self, launch: Callable[[Any, Any], object], floats: int) -> float:
        """Return the seconds that one more ``launch`` adds to a warm chain of launches."""
        chain_s = self._library.chain_s
        with collector_off():
            chain_s(launch, floats, 1)
            short, long = (median(chain_s(launch, floats, n) for _ in range(PROBE_RUNS)) for n in (1, 1 + CHAIN_LENGTH))
        return max(0.0, (long - short) / CHAIN_LENGTH)

    def _round_s(self, kind: str) -> float:
        """Return the seconds of a round: a warm one, except of a turn alone, whose purpose is to be cold."""
        with collector_off():
            if kind in ALONE_KINDS:
                return time_round(self._library, kind, time.perf_counter)
            rounds_s = [time_round(self._library, kind, time.perf_counter) for _ in range(1 + PROBE_RUNS)]
        return median(rounds_s[1:])


def _is_linear(workload: Workload) -> bool:
    return workload.kernels[0].name == LINEAR


def _shape(workload: Workload) -> tuple[int, int]:
    """Return the features and the number of linear layers."""
    return workload.kernels[0].parameter, len(workload.kernels) - 1
