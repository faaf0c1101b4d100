"""What is measured beside a program: its kernels alone, how fast its host makes such calls, and the link."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from streamsim.collector import collector_off
from streamsim.device.front_ends import LINEAR
from streamsim.program.config import Config
from streamsim_validate.calibrate import ALONE_KINDS, KINDS, kinds_of, time_round
from streamsim_validate.gpu import Bench, LinearLayers, Replayer, prepare
from streamsim_validate.records import CHUNK_ROUND, LINEAR_ROUND, LINK_PAIR
from streamsim_validate.run.programs import CHAIN_LENGTH, FUNCTION, Cuda, Pace, Python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamsim.code.steps import Language
    from streamsim.program.workload import Workload
    from streamsim_validate.calibrate import Rounds
    from streamsim_validate.gpu import Gpu, Library
    from streamsim_validate.progress import OnStep
    from streamsim_validate.run.programs import Result

ROUNDS = 3  # behind one that warms up


class Beside(Protocol):
    """Runs the programs of a language, and measures beside them."""

    def run(
        self, workload: Workload, config: Config, repeats: int, work: int, kinds: Sequence[str]
    ) -> tuple[Result, Rounds]:
        """A program, so many times; and by kind seconds of a round of calls just before it and just after.

        Those are made by the very process that runs the program.
        """

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the rounds that can be made."""

    def prepare(self, asked: Iterable[tuple[Workload, Config]], on_step: OnStep) -> None:
        """Do what can be done before these programs are run."""

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Seconds of each kernel of the workload over so many of its elements, alone."""

    def close(self) -> None:
        """Leave nothing behind."""


class Link:
    """What others leave of the link: a copy each way at once."""

    def __init__(self, gpu: Gpu) -> None:
        self._bench = Bench(gpu, in_order=False)
        prepare(self._bench, [LINK_PAIR])
        self._both = Replayer(LINK_PAIR, self._bench)
        self.both_s()  # the first one warms up

    def both_s(self) -> float:
        """Seconds that they take."""
        return self._both.run().wall_s

    def close(self) -> None:
        """Give the memory back."""
        self._both.close()
        self._bench.close()


class BesideLibrary:
    """Beside programs in CuPy or PyTorch."""

    def __init__(self, language: Language, library: Library, both_s: Callable[[], float], card: int = 0) -> None:
        """``both_s``: what a copy each way at once takes. Raises InputError where the library cannot be imported."""
        self._both_s = both_s
        self._language, self._library, self._card = language, library, card
        self._stand_in = Python(language, card=card)
        self._linear: dict[tuple[int, int], tuple[LinearLayers, Python]] = {}
        self._known: dict[tuple[Workload, int], tuple[float, ...]] = {}
        self.kinds = kinds_of(library)

    def prepare(self, asked: Iterable[tuple[Workload, Config]], on_step: OnStep) -> None:
        """Nothing: they are loaded as they are run."""

    def run(
        self, workload: Workload, config: Config, repeats: int, work: int, kinds: Sequence[str]
    ) -> tuple[Result, Rounds]:
        runner = self._layers(workload)[1] if _is_linear(workload) else self._stand_in
        before_s = [self._round_s(kind) for kind in kinds]
        kind = LINEAR_ROUND if _is_linear(workload) else CHUNK_ROUND  # which enters a stream as the loop does

        def pace() -> Pace:
            link_s = self._both_s()
            return Pace(time_round(self._library, kind, time.perf_counter, in_one_stream=True), link_s)

        result = runner.run(workload, config, repeats, work, pace=pace)._replace(pace=kind)
        after_s = [self._round_s(kind) for kind in kinds]
        return result, dict(zip(kinds, zip(before_s, after_s, strict=True), strict=True))

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

    def _round_s(self, kind: str) -> float:
        """Seconds of a round: once warm, but for a turn alone, which is there to be cold."""
        with collector_off():
            if kind in ALONE_KINDS:
                return time_round(self._library, kind, time.perf_counter)
            rounds_s = [time_round(self._library, kind, time.perf_counter) for _ in range(1 + ROUNDS)]
        return median(rounds_s[1:])

    def close(self) -> None:
        """Its memory is the library's."""


class BesideCuda:
    """Beside programs in C++."""

    kinds = KINDS

    def __init__(self, card: int = 0) -> None:
        self._cuda = Cuda(card)
        self._known: dict[tuple[int, int], float] = {}

    def prepare(self, asked: Iterable[tuple[Workload, Config]], on_step: OnStep) -> None:
        """Compile them."""
        self._cuda.prepare(asked, ROUNDS, on_step)

    def run(
        self, workload: Workload, config: Config, repeats: int, work: int, kinds: Sequence[str]
    ) -> tuple[Result, Rounds]:
        return self._cuda.run_beside(workload, config, repeats, work, kinds, ROUNDS)

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        asked = elements, workload.kernels[0].parameter
        if asked not in self._known:
            self._known[asked] = max(0.0, self._cuda.each_s(*asked))
        return (self._known[asked],) * len(workload.kernels)

    def close(self) -> None:
        """Remove what was compiled."""
        self._cuda.close()


def _is_linear(workload: Workload) -> bool:
    return workload.kernels[0].name == LINEAR
