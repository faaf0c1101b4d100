"""The suite ``programs``: each program is measured by itself, with the conditions of its run beside it.

Hosts and shared links change speed, so each program gets its own measurements:

- kernels: seconds of each kernel alone on the card;
- host: seconds of a round of calls, such as copy in, kernel, copy out;
- link: seconds of an H2D and a D2H copy at the same time.

The languages take turns, so that a host that changes its speed changes it for all languages alike.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import Any

from msgspec.structs import replace

from streamsim.code import LANGUAGES, Language
from streamsim.collector import collector_off
from streamsim.device import LINEAR
from streamsim.errors import InputError
from streamsim.program import Config, Workload
from streamsim.text import one_line
from streamsim_validate.calibrate import time_round
from streamsim_validate.gpu import (
    Bench,
    Gpu,
    Library,
    LinearLayers,
    LostGpuError,
    Replayer,
    installed_libraries,
    prepare,
)
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import (
    CHUNK_ROUND,
    LINEAR_ROUND,
    LINK_PAIR,
    STAND_IN,
    Entry,
    Program,
    key_of,
    to_times,
)
from streamsim_validate.run.replays import CUDA, WrittenProgram, failure
from streamsim_validate.run.runners import (
    CHAIN_LENGTH,
    FUNCTION,
    INSTALL,
    MODULES,
    PROBE_RUNS,
    Cuda,
    Pace,
    Python,
    Result,
    check_language,
    run_on,
)
from streamsim_validate.suites import drawn_programs


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

    def run_probed(self, workload: Workload, config: Config, repeats: int, work: int) -> Result:
        is_linear = _is_linear(workload)
        runner = self._layers(*_shape(workload))[1] if is_linear else self._stand_in
        kind = LINEAR_ROUND if is_linear else CHUNK_ROUND  # which enters a stream as the loop does

        def pace() -> Pace:
            link_s = self._both_s()
            return Pace(time_round(self._library, kind, time.perf_counter, in_one_stream=True), link_s)

        return runner.run(workload, config, repeats, work, pace=pace)._replace(pace=kind)

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


def _is_linear(workload: Workload) -> bool:
    return workload.kernels[0].name == LINEAR


def _shape(workload: Workload) -> tuple[int, int]:
    """Return the features and the number of linear layers."""
    return workload.kernels[0].parameter, len(workload.kernels) - 1


ProbedRunner = ProbedPython | Cuda


def planned_programs(seed: int, count: int, languages: Sequence[Language] = ()) -> list[WrittenProgram]:
    """Return the programs of the suite, each in every language in turn. ``languages``: () for all."""
    return [
        WrittenProgram(key_of(language, recipe), recipe.schedule(), recipe, language=language)
        for drawn in drawn_programs(seed, count)
        for language in (languages or LANGUAGES)
        for recipe in [drawn.of(language)]
    ]


def check_installed(languages: Sequence[Language]) -> None:
    """Raise InputError if programs in one of these languages, which the user asked for, cannot be run here."""
    for language in languages:
        try:
            check_language(language, ())
        except InputError as error:
            raise InputError(_without_option(error, language, f"--front-end {language}: ")) from None
        if language != CUDA and find_spec(MODULES[language]) is None:
            raise InputError(f"--front-end {language}: is not installed; {INSTALL[language]}, or leave it out")


def measure_programs(
    items: Sequence[WrittenProgram],
    gpu: Gpu,
    card: int,
    repeats: int,
    on_entry: Callable[[Entry], None],
    on_step: OnStep = quietly,
) -> None:
    """Measure each program ``repeats`` times on the card of that number; ``on_entry`` is called with each result.

    If a program fails, or its language is not installed, the entry's ``status`` gives the reason. Raises LostGpuError
    if a program has broken the card's context, and KeyboardInterrupt.
    """
    with closing(_Suite(gpu, card, repeats)) as suite:
        suite.prepare(items, on_step)
        for i, item in enumerate(items):
            on_step("measuring programs", i, len(items))
            try:
                on_entry(suite.entry(item))
            except InputError as error:
                on_entry(_not_measured(item, failure(error)))
                if isinstance(error, LostGpuError):
                    raise


def _not_measured(item: WrittenProgram, status: str) -> Entry:
    return item.entry(status, program=Program(item.language))


class _Suite:
    """Measures programs of several languages."""

    def __init__(self, gpu: Gpu, card: int, repeats: int) -> None:
        self._gpu, self._card, self._repeats = gpu, card, repeats
        self._link = Link(gpu)
        self._runners: dict[Language, ProbedRunner | str] = {}

    def prepare(self, items: Sequence[WrittenProgram], on_step: OnStep) -> None:
        """Do all that needs no quiet host."""
        for language in dict.fromkeys(item.language for item in items):
            self._runners[language] = runner = _runner_of(language, self._link, self._card)
            if isinstance(runner, Cuda):
                runner.prepare([(item.workload, item.config) for item in items if item.language == language], on_step)

    def entry(self, item: WrittenProgram) -> Entry:
        """Measure a program. Raises InputError."""
        runner = self._runners[item.language]
        if isinstance(runner, str):
            return _not_measured(item, f"skipped: {runner}")
        result, program = run_on(self._gpu, item.key, lambda: self._measured(item, runner))
        return item.entry(wall_s=result.wall_s, issue_s=result.issue_s, paces_s=result.paces_s, program=program)

    def _measured(self, item: WrittenProgram, runner: ProbedRunner) -> tuple[Result, Program]:
        workload, elements = item.workload, item.workload.elements or 1
        part = -(-elements // item.config.chunks)
        first = workload.kernels[0]
        work = first.parameter if first.name == STAND_IN else 1
        kernels_s, chunks_s = runner.kernels_s(workload, elements), runner.kernels_s(workload, part)
        result = runner.run_probed(workload, item.config, self._repeats, work)
        program = Program(
            item.language,
            to_times(kernels_s),
            to_times(chunks_s),
            pace=result.pace,
            run_links_s=to_times(result.links_s),
        )
        return result.checked(), program

    def close(self) -> None:
        """Leave nothing behind."""
        for runner in self._runners.values():
            if isinstance(runner, Cuda):
                runner.close()
        self._link.close()


def _runner_of(language: Language, link: Link, card: int) -> ProbedRunner | str:
    """Return what runs and probes a language's programs, or the reason why nothing can."""
    try:
        check_language(language, ())
        if language == CUDA:
            return Cuda(card)
        library = next((library for library in installed_libraries(card) if library.name == language), None)
        if library is None:
            return f"{language} is not installed, or sees no card; {INSTALL[language]}"
        return ProbedPython(language, library, link.both_s, card)
    except InputError as error:
        return one_line(_without_option(error, language))


def _without_option(error: InputError, language: Language, instead: str = "") -> str:
    """Return what is wrong with a language, in words for somebody who did not give ``--as``."""
    return instead + str(error).removeprefix(f"--as {language}: ").replace("take --as cupy", "leave it out")
