"""The runners of programs that ``streamsim code`` writes: they time themselves and verify their own output.

Programs in CuPy and PyTorch run in this process. A program in C++ is compiled once for each pattern, and each run is a
process of its own. Programs that are known beforehand are compiled side by side.

Hosts and shared links change speed. So a probed program gets its own measurements:

- kernels: seconds of each kernel alone on the card;
- host: seconds of a round of calls, such as copy in, kernel, copy out;
- link: seconds of an H2D and a D2H copy at the same time.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from statistics import fmean, median
from typing import Any, NamedTuple

from msgspec.structs import replace

from streamsim.code import FLOAT_BYTES, LANGUAGES, Language, code_of
from streamsim.collector import collector_off
from streamsim.device import LINEAR
from streamsim.errors import InputError, install, one_line
from streamsim.program import Config, Workload
from streamsim_validate.calibrate import TURNS, time_round
from streamsim_validate.gpu import (
    Bench,
    Compiled,
    Gpu,
    Library,
    LinearLayers,
    Replayer,
    has_nvcc,
    installed_libraries,
    one_line_errors,
    paced,
    prepare,
    probes,
    run_file,
)
from streamsim_validate.progress import OnStep
from streamsim_validate.records import CHUNK_ROUND, LINEAR_ROUND, LINK_PAIR, PACE_ROUND, ProgramTimes, to_times
from streamsim_validate.run.measuring import Planned, Ready, Runner, Seconds, SkippedError

CUDA: Language = "cuda-c++"
MODULES: dict[Language, str] = {"cupy": "cupy", "pytorch": "torch"}
INSTALL: dict[Language, str] = {"cupy": install("cuda13"), "pytorch": "pip install torch"}
SAID = ("verified", "issue_s", "wall_s")  # what a program prints about itself
FUNCTION = "kernels"  # the name of the function in a program, and in a file with the user's own kernels
PROBE_RUNS = 3  # of each probe beside a program, after one that warms up
SIDE_BY_SIDE_TURNS = 3  # in which several programs are run

CHAIN_LENGTH = 20  # launches


Pace = tuple[float, float]  # seconds of a round of calls, and of a copy each way at once


class ProgramRun(NamedTuple):
    """The times that a program printed, in seconds for each of its runs.

    - ``issue_s``: until all was issued. ``wall_s``: until all was done.
    - ``paces_s``: a round of calls of the kind ``pace``, the mean of just before the run and just after.
    - ``links_s``: a copy each way at once, the mean of just before the run and just after.

    Both are empty for a run without probes. ``verified``: the output is that of the serial program.
    """

    verified: bool
    issue_s: Sequence[float]
    wall_s: Sequence[float]
    paces_s: Sequence[float] = ()
    links_s: Sequence[float] = ()
    pace: str = PACE_ROUND


# What cannot be run here


def why_not(language: Language) -> str:
    """Return why no program in this language can be run here, with the remedy; "" if one can."""
    if language == CUDA:
        return "" if has_nvcc() else "no nvcc to compile it with; install the CUDA toolkit"
    is_here = MODULES[language] in sys.modules or find_spec(MODULES[language])
    return "" if is_here else f"is not installed; {INSTALL[language]}"


def check_language(language: Language, kernels: Sequence[str] = ()) -> None:
    """Raise InputError if programs in this language, with these files of kernels, cannot be measured here."""
    if language == CUDA and (reason := why_not(language)):
        raise InputError(f"--as {language}: {reason}, or take --as cupy")
    if language == CUDA and kernels:
        raise InputError(
            "--kernels: programs in C++ are measured with their stand-in; tune the kernels with --as cupy, or"
            " without --as"
        )
    if len(kernels) > 1:
        raise InputError(f"--kernels: {len(kernels)} files; give the one that has the function {FUNCTION}")


def function_of(path: str) -> Callable[..., object]:
    """Return the function ``kernels`` of a user's file, which takes a chunk's part of each array. Raises InputError."""
    if not path.endswith(".py"):
        raise InputError(f"{path}: expected a .py file with a function {FUNCTION}")
    if not os.path.isfile(path):
        raise InputError(f"{path}: cannot read it: no such file")
    found = run_file(path).get(FUNCTION)
    if not callable(found):
        raise InputError(f"{path}: has no function {FUNCTION}; define {FUNCTION}(x, y) of a chunk's part of each array")
    function: Callable[..., object] = found
    return function


# In a language


class PythonRunner:
    """A runner of programs in CuPy or PyTorch. ``function``: the user's kernels in place of the stand-in.

    ``both_s``: measures a copy each way at once, for programs with probes. Raises InputError if the library cannot be
    imported, and SkippedError if programs with probes cannot be run.
    """

    def __init__(
        self,
        language: Language,
        card: int = 0,
        function: Callable[..., object] | None = None,
        both_s: Callable[[], float] | None = None,
    ) -> None:
        self._language, self._function, self.has_own = language, function, function is not None
        try:
            module = import_module(MODULES[language])
        except ImportError as error:
            raise InputError(f"--as {language}: {error}; {INSTALL[language]}") from None
        if card and language == "pytorch":  # CuPy's is the one that was opened
            module.cuda.set_device(card)
        self._both_s = both_s
        self._library: Library | None = None
        if both_s:
            self._library = next((one for one in installed_libraries(card) if one.name == language), None)
            if self._library is None:
                raise SkippedError(f"{language} is not installed, or sees no card; {INSTALL[language]}")
        self._layers, self._alone_s = cache(LinearLayers), cache(self._measure_alone_s)

    def prepare(self, items: Sequence[Planned], on_step: OnStep) -> None:
        """Do nothing: nothing is compiled beforehand."""

    def _loaded(self, workload: Workload, config: Config) -> dict[str, Any]:
        """Return the global names of the program."""
        names: dict[str, Any] = {"__name__": "pipeline"}
        text = code_of(workload, config, self._language)
        exec(compile(text, f"the program in {self._language}", "exec"), names)  # what streamsim wrote itself
        return names

    def run(self, item: Planned, repeats: int) -> ProgramRun:
        """Write and load a program, and run it ``repeats`` times. Raises InputError if it cannot be written."""
        workload, kind = item.workload, PACE_ROUND
        names = self._loaded(workload, item.config)
        if item.is_probed:
            kind = LINEAR_ROUND if _is_linear(workload) else CHUNK_ROUND  # which enters a stream as the loop does
            names["time"] = _PacedClock(lambda: self._pace(kind))
        if workload.kernels:
            names[FUNCTION] = self._kernels(workload, names[FUNCTION], item.times)
        given = names["DEFAULTS"] | {"repeat": repeats} | ({"work": item.work} if workload.kernels else {})
        with collector_off():
            found = names["measure"](**given)
        result = ProgramRun(bool(found["verified"]), found["issue_s"], found["wall_s"])
        if item.is_probed:
            paces_s, links_s = zip(*names["time"].paces[-repeats:], strict=True)
            result = result._replace(paces_s=paces_s, links_s=links_s, pace=kind)
        return result

    def _pace(self, kind: str) -> Pace:
        assert self._library is not None
        assert self._both_s is not None
        link_s = self._both_s()
        return time_round(self._library, kind, time.perf_counter, in_one_stream=True), link_s

    def _kernels(self, workload: Workload, stand_in: Callable[..., object], times: int) -> Callable[..., None]:
        """Return the function that the program calls on a chunk's part of each array, and the rounds."""
        own: Callable[..., object] | None = self._function
        if _is_linear(workload):
            own = self._layers(*_shape(workload))

        def kernels(*arrays_and_work: object) -> None:
            for _ in range(times):
                if own is None:
                    stand_in(*arrays_and_work)
                else:
                    own(*arrays_and_work[:-1])

        return kernels

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Return the seconds of each kernel over ``elements`` elements, alone on the card."""
        return self._alone_s(replace(workload, elements=1), elements * workload.inputs[0] // FLOAT_BYTES)

    def _measure_alone_s(self, workload: Workload, floats: int) -> tuple[float, ...]:
        count = len(workload.kernels)
        if _is_linear(workload):
            layers = self._layers(*_shape(workload))
            return (*(self._each_s(layers.layer, floats),) * (count - 1), self._each_s(layers.last, floats))
        kernels, work = self._loaded(workload, Config())[FUNCTION], workload.kernels[0].parameter
        return (self._each_s(lambda x, y: kernels(x, y, work), floats) / count,) * count

    def _each_s(self, launch: Callable[[Any, Any], object], floats: int) -> float:
        """Return the seconds that one more ``launch`` adds to a warm chain of launches."""
        assert self._library is not None
        chain_s = self._library.chain_s
        with collector_off():
            chain_s(launch, floats, 1)
            short, long = (median(chain_s(launch, floats, n) for _ in range(PROBE_RUNS)) for n in (1, 1 + CHAIN_LENGTH))
        return max(0.0, (long - short) / CHAIN_LENGTH)

    def close(self) -> None:
        """Do nothing: the memory is the library's."""


def _is_linear(workload: Workload) -> bool:
    return bool(workload.kernels) and workload.kernels[0].name == LINEAR


def _shape(workload: Workload) -> tuple[int, int]:
    """Return the features and the number of linear layers."""
    return workload.kernels[0].parameter, len(workload.kernels) - 1


class _PacedClock:
    """A stand-in for a program's module ``time``, which it asks thrice a run: at its begin, when issued, when done.

    ``paces``: for each run, the mean of the paces just before it and just after.
    """

    def __init__(self, pace: Callable[[], Pace]) -> None:
        self._pace, self._moments, self._before = pace, cycle(("begins", "is issued", "is done")), (0.0, 0.0)
        self.paces: list[Pace] = []

    def perf_counter(self) -> float:
        """Return the time: after the pace when a run begins, and before the pace when a run is done."""
        moment = next(self._moments)
        if moment == "begins":
            self._before = self._pace()
        now_s = time.perf_counter()
        if moment == "is done":
            (before_s, link_before_s), (after_s, link_after_s) = self._before, self._pace()
            self.paces.append((fmean((before_s, after_s)), fmean((link_before_s, link_after_s))))
        return now_s


class CudaRunner:
    """A runner of programs in C++, like :class:`PythonRunner`: compiled with nvcc in a folder of its own."""

    has_own = False

    def __init__(self, card: int = 0) -> None:
        self._compiled = Compiled(card)
        self._each_s = cache(self._measure_each_s)

    def prepare(self, items: Sequence[Planned], on_step: OnStep) -> None:
        """Compile what these run if they are probed."""
        texts = [probes()]
        for item in items:
            with suppress(InputError):  # the error is raised again when the program is to run
                texts.append(paced(self._text(item), TURNS))
        self._compiled.prepare(texts, on_step)

    def run(self, item: Planned, repeats: int) -> ProgramRun:
        """Compile and run one program, as :meth:`PythonRunner.run` does. Its arguments give the numbers."""
        text, config = self._text(item), item.config
        numbers = {"chunks": config.chunks, "repeat": repeats}
        numbers |= {} if config.own_streams else {"streams": config.streams}
        numbers |= {} if config.buffers is None else {"buffers": config.buffers}
        numbers |= {"work": item.work} if item.workload.kernels else {}
        words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
        names = [*SAID, *(("paces_s", "links_s") if item.is_probed else ())]
        return ProgramRun(*self._compiled.said(paced(text, TURNS) if item.is_probed else text, words, names))

    def _text(self, item: Planned) -> str:
        """Return the program of the pattern. Raises InputError for numbers that it refuses."""
        workload, config = item.workload, item.config
        code_of(workload, config, CUDA)
        pattern = replace(config, chunks=1, streams=1, buffers=config.buffers and 1)
        kernels = tuple(replace(kernel, launches=kernel.launches * item.times) for kernel in workload.kernels)
        return code_of(replace(workload, kernels=kernels), pattern, CUDA)

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Return the seconds of each kernel over ``elements`` elements, alone on the card."""
        return (self._each_s(elements, workload.kernels[0].parameter),) * len(workload.kernels)

    def _measure_each_s(self, elements: int, work: int) -> float:
        words = ["chain", str(elements), str(work), str(CHAIN_LENGTH)]
        ((seconds,),) = self._compiled.said(probes(), words, ["each_s"])
        return max(0.0, float(seconds))

    def close(self) -> None:
        """Remove the folder."""
        self._compiled.close()


LanguageRunner = PythonRunner | CudaRunner


class LinkMeter:
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


# In any


class Programs(Runner):
    """A runner of programs in languages, each by its own runner, or by none for the reason given."""

    def __init__(
        self, gpu: Gpu, runners: Mapping[Language, LanguageRunner | SkippedError], link: LinkMeter | None = None
    ) -> None:
        self._gpu, self._runners, self._link = gpu, runners, link

    @classmethod
    def of(cls, gpu: Gpu, language: Language, kernels: Sequence[str] = ()) -> "Programs":
        """Return the runner of programs in one language, with the user's file of kernels.

        Raises InputError if the language's library cannot be imported, or the file has no function.
        """
        if language == CUDA:
            return cls(gpu, {CUDA: CudaRunner(gpu.number)})
        return cls(gpu, {language: PythonRunner(language, gpu.number, function_of(kernels[0]) if kernels else None)})

    @classmethod
    def probed(cls, gpu: Gpu, languages: Sequence[Language] = LANGUAGES) -> "Programs":
        """Return the runner of programs with probes. Those of a language that is not here are skipped."""
        link = LinkMeter(gpu)
        runners: dict[Language, LanguageRunner | SkippedError] = {}
        for language in languages:
            try:
                if reason := why_not(language):
                    raise SkippedError(reason if language == CUDA else f"{language} {reason}")
                made = (
                    CudaRunner(gpu.number)
                    if language == CUDA
                    else PythonRunner(language, gpu.number, None, link.both_s)
                )
                runners[language] = made
            except InputError as error:
                runners[language] = SkippedError(one_line(str(error).removeprefix(f"--as {language}: ")))
        return cls(gpu, runners, link)

    @property
    def own(self) -> LanguageRunner:
        """The only runner."""
        (runner,) = self._runners.values()
        assert not isinstance(runner, SkippedError)
        return runner

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        """Compile programs with probes; they are measured one by one, others side by side."""
        probed = [item for item in items if item.is_probed]
        for language, runner in self._runners.items():
            if probed and not isinstance(runner, SkippedError):
                runner.prepare([item for item in probed if item.language == language], on_step)
        return [[item] for item in items] if probed else [items]

    def turns(self, group: Sequence[Planned], repeats: int) -> int:
        """Return a few turns for programs side by side."""
        return min(repeats, SIDE_BY_SIDE_TURNS) if len(group) > 1 else 1

    def ready(self, item: Planned) -> Ready:
        """Return the program, with the times of its kernels if it is probed."""
        assert item.language is not None
        runner = self._runners[item.language]
        if isinstance(runner, SkippedError):
            raise runner
        return _Program(self._gpu, item, runner)

    def close(self) -> None:
        """Leave nothing behind."""
        for runner in self._runners.values():
            if not isinstance(runner, SkippedError):
                runner.close()
        if self._link:
            self._link.close()


class _Program(Ready):
    """A program that is ready."""

    def __init__(self, gpu: Gpu, item: Planned, runner: LanguageRunner) -> None:
        self._gpu, self._item, self._runner = gpu, item, runner
        if item.is_probed:
            elements = item.workload.elements or 1
            with one_line_errors(gpu, item.key, Exception):  # the library's own, the user's kernels'
                whole, part = (
                    runner.kernels_s(item.workload, size) for size in (elements, -(-elements // item.config.chunks))
                )
            self.program = ProgramTimes(str(item.language), to_times(whole), to_times(part))

    def run(self, repeats: int) -> Seconds:
        item = self._item
        with one_line_errors(self._gpu, item.key, Exception):
            found = self._runner.run(item, repeats)
        if not found.verified:
            raise InputError("its output is not that of the serial program; its time does not count")
        if self.program is None:
            return {"wall_s": found.wall_s}
        self.program = replace(self.program, pace=found.pace, run_links_s=to_times(found.links_s))
        return {"wall_s": found.wall_s, "issue_s": found.issue_s, "paces_s": found.paces_s}
