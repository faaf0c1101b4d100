"""The runners of programs that ``streamsim code`` writes: they time themselves and verify their own output.

Programs in CuPy and PyTorch run in this process. A program in C++ is compiled once for each pattern, and each run is a
process of its own. Programs that are known beforehand are compiled side by side.

Hosts and shared links change speed. So a probed program gets its own measurements:

- kernels: seconds of each kernel alone on the card;
- host: seconds of a round of calls, such as copy in, kernel, copy out;
- link: seconds of an H2D and a D2H copy at the same time.
"""

import runpy
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from streamsim.code import FLOAT_BYTES, Language, code_of
from streamsim.collector import collector_off
from streamsim.device import LINEAR
from streamsim.errors import InputError, install, one_line
from streamsim.program import Config, Workload
from streamsim_validate import gpu as hardware
from streamsim_validate.calibrate import TURNS, time_round
from streamsim_validate.progress import OnStep
from streamsim_validate.records import LINK_PAIR, PACE_ROUND, ProgramTimes, config_of, to_times
from streamsim_validate.run.measuring import Job, Planned, Runner, SkippedError

CUDA: Language = "cuda-c++"
MODULES: dict[Language, str] = {"cupy": "cupy", "pytorch": "torch"}
INSTALL: dict[Language, str] = {"cupy": install("cuda13"), "pytorch": "pip install torch"}
# Beside each run: rounds of calls as the front ends are calibrated with, with a kernel or a linear layer.
CHUNK_ROUND, LINEAR_ROUND = "|iko", "|ilo"
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
        return "" if hardware.has_nvcc() else "no nvcc to compile it with; install the CUDA toolkit"
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
    if language == CUDA and (reason := why_not(language)):  # the libraries need a card, which is looked for first
        raise InputError(f"--as {language}: {reason}, or take another language")


def function_of(path: str) -> Callable[..., object]:
    """Return the function ``kernels`` of a user's file, which takes a chunk's part of each array. Raises InputError."""
    try:
        found = runpy.run_path(path).get(FUNCTION)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: cannot be run: {reason}; give a .py file with a function {FUNCTION}") from error
    if not callable(found):
        raise InputError(f"{path}: has no function {FUNCTION}; define {FUNCTION}(x, y) of a chunk's part of each array")
    function: Callable[..., object] = found
    return function


def _paced_times(pace: Callable[[], Pace], paces: list[Pace]) -> Iterator[float]:
    """Yield the times for which a program asks thrice a run: at its begin, when issued, when done.

    ``paces``: gets, for each run, the mean of the paces just before it and just after.
    """
    while True:
        before_s, link_before_s = pace()
        yield time.perf_counter()
        yield time.perf_counter()
        done_s = time.perf_counter()
        after_s, link_after_s = pace()
        paces.append((fmean((before_s, after_s)), fmean((link_before_s, link_after_s))))
        yield done_s


def _is_linear(workload: Workload) -> bool:
    return bool(workload.kernels) and workload.kernels[0].name == LINEAR


class ProgramJob(Job):
    """A program. ``pace``: the kind of the rounds of calls beside it."""

    pace = PACE_ROUND

    def __init__(self, item: Planned, programs: "Programs") -> None:
        super().__init__(item)
        assert item.language is not None
        assert item.recipe is not None
        self._language, self._programs = item.language, programs
        self._workload, self._config = item.recipe.workload, config_of(item.recipe)

    @abstractmethod
    def said(self, repeats: int) -> Said:
        """Run the program, and return what it says of itself. Raises InputError if it cannot be written."""

    @abstractmethod
    def alone_s(self, elements: int) -> tuple[float, ...]:
        """Return the seconds of each kernel over ``elements`` elements, alone on the card."""

    def _kernels_s(self, elements: int) -> tuple[float, ...]:
        known, key = self._programs.known_s, (self._language, replace(self._workload, elements=1), elements)
        if key not in known:
            with collector_off():
                known[key] = self.alone_s(elements)
        return known[key]

    def make_ready(self) -> None:
        """Measure the kernels of a program with probes."""
        if reason := why_not(self._language):
            raise SkippedError(reason)
        if self.program:
            elements = self._workload.elements or 1
            with hardware.one_line_errors(
                self._programs.gpu, self.item.key, Exception
            ):  # the library's own, the user's kernels'
                whole, part = map(self._kernels_s, (elements, -(-elements // self._config.chunks)))
            self.program = ProgramTimes(self._language, to_times(whole), to_times(part), self.pace)

    def run(self, repeats: int) -> None:
        """Run the program."""
        with hardware.one_line_errors(self._programs.gpu, self.item.key, Exception):
            said = self.said(repeats)
        if not said["verified"]:
            raise InputError("its output is not that of the serial program; its time does not count")
        self.seconds["wall_s"] += said["wall_s"]
        if self.program:
            self.seconds["issue_s"] += said["issue_s"]
            self.seconds["paces_s"] += said["paces_s"]
            self.program = replace(self.program, run_links_s=to_times(said["links_s"]))


class PythonJob(ProgramJob):
    """A program in CuPy or PyTorch, run in this process."""

    def __init__(self, item: Planned, programs: "Programs") -> None:
        super().__init__(item, programs)
        self.pace = LINEAR_ROUND if _is_linear(self._workload) else CHUNK_ROUND  # they enter a stream as the loop does

    def make_ready(self) -> None:
        """Import the library, too. Raises SkippedError if that fails."""
        try:
            module = import_module(MODULES[self._language])
        except ImportError as error:
            raise SkippedError(f"{one_line(str(error))}; {INSTALL[self._language]}") from None
        if self._programs.gpu.number and self._language == "pytorch":  # CuPy's card is the one that was opened
            module.cuda.set_device(self._programs.gpu.number)
        super().make_ready()

    def _loaded(self, workload: Workload, config: Config) -> dict[str, Any]:
        """Return the global names of the program."""
        names: dict[str, Any] = {"__name__": "pipeline"}
        text = code_of(workload, config, self._language)
        exec(compile(text, f"the program in {self._language}", "exec"), names)  # what streamsim wrote itself
        return names

    def said(self, repeats: int) -> Said:
        """Write and load the program, and run it."""
        item, workload = self.item, self._workload
        names, paces = self._loaded(workload, self._config), list[Pace]()
        if item.is_probed:
            names["time"] = SimpleNamespace(perf_counter=partial(next, _paced_times(self._pace, paces)))
        if workload.kernels:
            names[FUNCTION] = self._kernels(names[FUNCTION])
        given = names["DEFAULTS"] | {"repeat": repeats}
        if workload.kernels and item.work:
            given["work"] = item.work
        with collector_off():
            said: Said = names["measure"](**given)
        paces_s, links_s = zip(*paces[-repeats:], strict=True) if item.is_probed else ((), ())
        return said | {"paces_s": paces_s, "links_s": links_s}

    def _pace(self) -> Pace:
        link_s, library = self._programs.both_s(), self._programs.library(self._language)
        return time_round(library, self.pace, time.perf_counter, in_one_stream=True), link_s

    @property
    def _layers(self) -> hardware.LinearLayers:
        kernels = self._workload.kernels
        return self._programs.layers(kernels[0].parameter, len(kernels) - 1)

    def _kernels(self, stand_in: Callable[..., object]) -> Callable[..., None]:
        """Return the function that the program calls on a chunk's part of each array, and the rounds."""
        own = self._layers if _is_linear(self._workload) else self._programs.function

        def kernels(*arrays_and_work: object) -> None:
            for _ in range(self.item.times):
                if own is None:
                    stand_in(*arrays_and_work)
                else:
                    own(*arrays_and_work[:-1])

        return kernels

    def alone_s(self, elements: int) -> tuple[float, ...]:
        """Return what one more launch adds to a warm chain of them."""
        workload = self._workload
        count, floats = len(workload.kernels), elements * workload.inputs[0] // FLOAT_BYTES
        if _is_linear(workload):
            layer_s, last_s = (self._each_s(launch, floats) for launch in (self._layers.layer, self._layers.last))
            return (*(layer_s,) * (count - 1), last_s)
        kernels, work = self._loaded(replace(workload, elements=1), Config())[FUNCTION], workload.kernels[0].parameter
        return (self._each_s(lambda x, y: kernels(x, y, work), floats) / count,) * count

    def _each_s(self, launch: Callable[[Any, Any], object], floats: int) -> float:
        chain_s = partial(self._programs.library(self._language).chain_s, launch, floats)
        chain_s(1)
        short, long = (median(chain_s(n) for _ in range(PROBE_RUNS)) for n in (1, 1 + CHAIN_LENGTH))
        return max(0.0, (long - short) / CHAIN_LENGTH)


class CudaJob(ProgramJob):
    """A program in C++, compiled with nvcc, in a process of its own."""

    def said(self, repeats: int) -> Said:
        """Compile and run the program. Its arguments give the numbers."""
        work, config = self.item.work, self._config
        numbers = {"chunks": config.chunks, "repeat": repeats}
        numbers |= {} if config.issued.own_streams else {"streams": config.streams}
        numbers |= {} if config.buffers is None else {"buffers": config.buffers}
        numbers |= {"work": work} if self._workload.kernels and work else {}
        words = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
        return self._programs.compiled.said(self.text(), words, SAID + PROBED * self.item.is_probed)

    def text(self) -> str:
        """Return the program of the pattern. Raises InputError for numbers that it refuses."""
        workload, config = self._workload, self._config
        code_of(workload, config, CUDA)
        pattern = replace(config, chunks=1, streams=1, buffers=config.buffers and 1)
        kernels = tuple(replace(kernel, launches=kernel.launches * self.item.times) for kernel in workload.kernels)
        text = code_of(replace(workload, kernels=kernels), pattern, CUDA)
        return hardware.paced(text, TURNS) if self.item.is_probed else text

    def alone_s(self, elements: int) -> tuple[float, ...]:
        """Return what one more launch adds to a chain of them."""
        kernels = self._workload.kernels
        words = ["chain", str(elements), str(kernels[0].parameter), str(CHAIN_LENGTH)]
        (seconds,) = self._programs.compiled.said(hardware.probes(), words, ("each_s",))["each_s"]
        return (max(0.0, float(seconds)),) * len(kernels)


class Programs(Runner):
    """A runner of programs. Those with probes are measured one by one, others side by side.

    ``function``: the user's kernels in place of the stand-in. ``known_s``: the seconds of kernels that were measured.
    """

    most_turns = 3

    def __init__(self, gpu: hardware.Gpu, function: Callable[..., object] | None = None) -> None:
        self.gpu, self.function, self.compiled = gpu, function, hardware.Compiled(gpu.number)
        self.known_s: dict[tuple[Language, Workload, int], tuple[float, ...]] = {}
        self._libraries = cache(self._installed)
        self.layers = cache(hardware.LinearLayers)
        self._link: hardware.Replayer | None = None
        self._bench = hardware.Bench(gpu, in_order=False)

    def _installed(self, language: Language) -> hardware.Library | None:
        return next((one for one in hardware.installed_libraries(self.gpu.number) if one.name == language), None)

    def library(self, language: Language) -> hardware.Library:
        """Return the calls of a language's library. Raises SkippedError if it sees no card."""
        found = self._libraries(language)
        if found is None:
            raise SkippedError(f"{language} is not installed, or sees no card; {INSTALL[language]}")
        return found

    def both_s(self) -> float:
        """Return the seconds of a copy each way at once, which show what other users of the host leave of the link."""
        if self._link is None:
            hardware.prepare(self._bench, [LINK_PAIR])
            self._link = hardware.Replayer(LINK_PAIR, self._bench)
            self._link.run()  # the first one warms up
        return self._link.run().wall_s

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:
        """Compile programs with probes, side by side."""
        probed = [item for item in items if item.is_probed]
        if any(item.language == CUDA for item in probed) and not why_not(CUDA):
            texts = [hardware.probes()]
            for job in map(self.job, probed):
                with suppress(InputError):  # the error is raised again when the program is to run
                    texts += [job.text()] if isinstance(job, CudaJob) else []
            self.compiled.prepare(texts, on_step)
        return [[item] for item in items] if probed else [items]

    def job(self, item: Planned) -> ProgramJob:
        """Return a program to run."""
        return (CudaJob if item.language == CUDA else PythonJob)(item, self)

    def rounds(self, item: Planned) -> int:
        """Return how many rounds of its stand-in a program finds to take its kernels' time. Raises InputError."""
        job = self.job(replace(item, work=None))
        job.make_ready()
        with hardware.one_line_errors(self.gpu, item.key, Exception):
            return int(job.said(1)["work"])

    def close(self) -> None:
        """Leave nothing behind."""
        self.compiled.close()
        if self._link:
            self._link.close()
        self._bench.close()
