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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from statistics import fmean, median
from typing import Any

from msgspec.structs import replace

from streamsim.code import FLOAT_BYTES, Language, code_of
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
from streamsim_validate.run.measuring import Job, Planned, Runner, SkippedError

CUDA: Language = "cuda-c++"
MODULES: dict[Language, str] = {"cupy": "cupy", "pytorch": "torch"}
INSTALL: dict[Language, str] = {"cupy": install("cuda13"), "pytorch": "pip install torch"}
SAID, PROBED = ("verified", "issue_s", "wall_s"), ("paces_s", "links_s")  # what a program prints about itself
FUNCTION = "kernels"  # the name of the function in a program, and in a file with the user's own kernels
PROBE_RUNS = 3  # of each probe beside a program, after one that warms up
CHAIN_LENGTH = 20  # launches


Pace = tuple[float, float]  # seconds of a round of calls, and of a copy each way at once
Said = dict[str, Any]  # what a program prints or returns: whether its output is right, and the seconds of its runs


# What cannot be run here


def why_not(language: Language) -> str:
    """Return why no program in this language can be run here, with the remedy; "" if one can."""
    if language == CUDA:
        return "" if has_nvcc() else "no nvcc to compile it with; install the CUDA toolkit"
    is_here = MODULES[language] in sys.modules or find_spec(MODULES[language])
    return "" if is_here else f"{language} is not installed; {INSTALL[language]}"


def check_language(language: Language, kernels: Sequence[str] = ()) -> None:
    """Raise InputError if programs in this language, with these files of kernels, cannot be measured here."""
    if language == CUDA and kernels:
        raise InputError(
            "--kernels: programs in C++ are measured with their stand-in; tune the kernels with --as cupy, or"
            " without --as"
        )
    if len(kernels) > 1:
        raise InputError(f"--kernels: {len(kernels)} files; give the one that has the function {FUNCTION}")
    if reason := why_not(language):
        raise InputError(f"--as {language}: {reason}, or take another language")


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

    ``both_s``: measures a copy each way at once, for programs with probes. Raises SkippedError if the library cannot be
    imported, or programs with probes cannot be run.
    """

    def __init__(
        self,
        language: Language,
        card: int = 0,
        function: Callable[..., object] | None = None,
        both_s: Callable[[], float] | None = None,
    ) -> None:
        self._language, self._function, self._both_s = language, function, both_s
        try:
            module = import_module(MODULES[language])
        except ImportError as error:
            raise SkippedError(f"{language}: {one_line(str(error))}; {INSTALL[language]}") from None
        if card and language == "pytorch":  # CuPy's is the one that was opened
            module.cuda.set_device(card)
        self._library: Library | None = None
        if both_s:
            self._library = next((one for one in installed_libraries(card) if one.name == language), None)
            if self._library is None:
                raise SkippedError(f"{language} is not installed, or sees no card; {INSTALL[language]}")
        self._layers, self._alone_s = cache(LinearLayers), cache(self._measure_alone_s)

    def _loaded(self, workload: Workload, config: Config) -> dict[str, Any]:
        """Return the global names of the program."""
        names: dict[str, Any] = {"__name__": "pipeline"}
        text = code_of(workload, config, self._language)
        exec(compile(text, f"the program in {self._language}", "exec"), names)  # what streamsim wrote itself
        return names

    def run(self, item: Planned, repeats: int) -> Said:
        """Write and load a program, and run it ``repeats`` times. Raises InputError if it cannot be written."""
        workload = item.workload
        names = self._loaded(workload, item.config)
        clock = _PacedClock(partial(self._pace, pace_of(item)))
        if item.is_probed:
            names["time"] = clock
        if workload.kernels:
            names[FUNCTION] = self._kernels(workload, names[FUNCTION], item.times)
        given = (
            names["DEFAULTS"] | {"repeat": repeats} | ({"work": item.work} if workload.kernels and item.work else {})
        )
        with collector_off():
            said: Said = names["measure"](**given)
        paces_s, links_s = zip(*clock.paces[-repeats:], strict=True) if item.is_probed else ((), ())
        return said | {"paces_s": paces_s, "links_s": links_s}

    def _pace(self, kind: str) -> Pace:
        assert self._library is not None
        assert self._both_s is not None
        link_s = self._both_s()
        return time_round(self._library, kind, time.perf_counter, in_one_stream=True), link_s

    def _kernels(self, workload: Workload, stand_in: Callable[..., object], times: int) -> Callable[..., None]:
        """Return the function that the program calls on a chunk's part of each array, and the rounds."""
        own = self._layers(*_shape(workload)) if _is_linear(workload) else self._function

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


def pace_of(item: Planned) -> str:
    """Return the kind of the rounds of calls beside a program: in Python they enter a stream as the loop does."""
    if item.language == CUDA:
        return PACE_ROUND
    return LINEAR_ROUND if _is_linear(item.workload) else CHUNK_ROUND


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

    def __init__(self, card: int = 0) -> None:
        self._compiled = Compiled(card)
        self._each_s = cache(self._measure_each_s)

    def prepare(self, items: Iterable[Planned], on_step: OnStep) -> None:
        """Compile what these programs with probes run."""
        texts = [probes()]
        for item in items:
            with suppress(InputError):  # the error is raised again when the program is to run
                texts.append(self._text(item))
        self._compiled.prepare(texts, on_step)

    def run(self, item: Planned, repeats: int) -> Said:
        """Compile and run one program, as :meth:`PythonRunner.run` does. Its arguments give the numbers."""
        config = item.config
        numbers = {"chunks": config.chunks, "repeat": repeats}
        numbers |= {} if config.own_streams else {"streams": config.streams}
        numbers |= {} if config.buffers is None else {"buffers": config.buffers}
        numbers |= {"work": item.work} if item.workload.kernels and item.work else {}
        words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
        return self._compiled.said(self._text(item), words, SAID + PROBED * item.is_probed)

    def _text(self, item: Planned) -> str:
        """Return the program of the pattern. Raises InputError for numbers that it refuses."""
        workload, config = item.workload, item.config
        code_of(workload, config, CUDA)
        pattern = replace(config, chunks=1, streams=1, buffers=config.buffers and 1)
        kernels = tuple(replace(kernel, launches=kernel.launches * item.times) for kernel in workload.kernels)
        text = code_of(replace(workload, kernels=kernels), pattern, CUDA)
        return paced(text, TURNS) if item.is_probed else text

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Return the seconds of each kernel over ``elements`` elements, alone on the card."""
        return (self._each_s(elements, workload.kernels[0].parameter),) * len(workload.kernels)

    def _measure_each_s(self, elements: int, work: int) -> float:
        words = ["chain", str(elements), str(work), str(CHAIN_LENGTH)]
        (seconds,) = self._compiled.said(probes(), words, ("each_s",))["each_s"]
        return max(0.0, float(seconds))

    def close(self) -> None:
        """Remove the folder."""
        self._compiled.close()


LanguageRunner = PythonRunner | CudaRunner


# In any


class Programs(Runner):
    """A runner of programs, each by the runner of its language, which is made when it is first needed.

    ``function``: the user's kernels in place of the stand-in. ``made``: runners that there are.
    """

    most_turns = 3

    def __init__(
        self,
        gpu: Gpu,
        function: Callable[..., object] | None = None,
        made: Mapping[Language, LanguageRunner] | None = None,
    ) -> None:
        self.gpu, self._function = gpu, function
        self._made: dict[Language, LanguageRunner] = dict(made or {})
        self._link: Replayer | None = None
        self._bench = Bench(gpu, in_order=False)

    def of(self, language: Language, is_probed: bool) -> LanguageRunner:
        """Return the runner of a language. Raises SkippedError if there is none here."""
        if language not in self._made:
            if reason := why_not(language):
                raise SkippedError(reason)
            number, both_s = self.gpu.number, self._both_s if is_probed else None
            self._made[language] = (
                CudaRunner(number) if language == CUDA else PythonRunner(language, number, self._function, both_s)
            )
        return self._made[language]

    def _both_s(self) -> float:
        """Return the seconds of a copy each way at once, which show what other users of the host leave of the link."""
        if self._link is None:
            prepare(self._bench, [LINK_PAIR])
            self._link = Replayer(LINK_PAIR, self._bench)
            self._link.run()  # the first one warms up
        return self._link.run().wall_s

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        """Compile programs with probes; they are measured one by one, others side by side."""
        probed = [item for item in items if item.is_probed]
        if compiled := [item for item in probed if item.language == CUDA]:
            with suppress(SkippedError):
                runner = self.of(CUDA, is_probed=True)
                assert isinstance(runner, CudaRunner)
                runner.prepare(compiled, on_step)
        return [[item] for item in items] if probed else [items]

    def rounds(self, item: Planned) -> int:
        """Return how many rounds of its stand-in a program finds to take its kernels' time. Raises InputError."""
        assert item.language is not None
        with one_line_errors(self.gpu, item.key, Exception):
            return int(self.of(item.language, item.is_probed).run(replace(item, work=None), 1)["work"])

    def job(self, item: Planned) -> Job:
        """Return a program to run."""
        return _Program(item, self)

    def close(self) -> None:
        """Leave nothing behind."""
        for runner in self._made.values():
            runner.close()
        if self._link:
            self._link.close()
        self._bench.close()


class _Program(Job):
    """A program."""

    def __init__(self, item: Planned, programs: Programs) -> None:
        super().__init__(item)
        self._programs = programs

    @property
    def _runner(self) -> LanguageRunner:
        assert self.item.language is not None
        return self._programs.of(self.item.language, self.item.is_probed)

    def make_ready(self) -> None:
        item, runner = self.item, self._runner
        if item.is_probed:
            elements = item.workload.elements or 1
            with one_line_errors(self._programs.gpu, item.key, Exception):  # the library's own, the user's kernels'
                whole, part = (
                    runner.kernels_s(item.workload, size) for size in (elements, -(-elements // item.config.chunks))
                )
            self.program = ProgramTimes(str(item.language), to_times(whole), to_times(part), pace_of(item))

    def run(self, repeats: int) -> None:
        item, runner = self.item, self._runner
        with one_line_errors(self._programs.gpu, item.key, Exception):
            said = runner.run(item, repeats)
        if not said["verified"]:
            raise InputError("its output is not that of the serial program; its time does not count")
        self.seconds["wall_s"] += said["wall_s"]
        if self.program:
            self.seconds["issue_s"] += said["issue_s"]
            self.seconds["paces_s"] += said["paces_s"]
            self.program = replace(self.program, run_links_s=to_times(said["links_s"]))
