"""Runners of the programs that ``streamsim code`` writes.

Programs in CuPy and PyTorch run in this process. A program in C++ is compiled once for each pattern, and each run is a
process of its own. Programs that are known beforehand are compiled side by side.
"""

from __future__ import annotations

import gc
import os
import runpy
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import cycle
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import msgspec

from streamsim.code import FLOAT_BYTES, Language, code_of
from streamsim.collector import collector_off
from streamsim.errors import InputError, install
from streamsim.program import Config, Workload, WorkloadKernel
from streamsim.text import one_line
from streamsim_validate.calibrate import TURNS
from streamsim_validate.gpu import MAIN, Compiled, Gpu, LostGpuError, has_nvcc, paced
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import PACE_ROUND
from streamsim_validate.run.replays import CUDA

T = TypeVar("T")
MODULES: dict[Language, str] = {"cupy": "cupy", "pytorch": "torch"}
INSTALL: dict[Language, str] = {"cupy": install("cuda13"), "pytorch": "pip install torch"}
SAID = ("verified", "issue_s", "wall_s")  # what a program prints about itself
FUNCTION = "kernels"  # the name of the function in a program, and in a file with the user's own kernels
PROBE_RUNS = 3  # of each probe beside a program, after one that warms up

# The main function that times a chain of a program's launches. The first launch, over one float, holds the card for
# about 20 ms. Meanwhile the host makes the other calls.
CHAIN_LENGTH = 20  # launches
CHAIN = """int main(int argc, char** argv) {
  size_t n = atol(argv[1]);
  int work = atoi(argv[2]), more = atoi(argv[3]);
  float *x, *y;
  Check(cudaMalloc(&x, n * 4));
  Check(cudaMalloc(&y, n * 4));
  Check(cudaMemset(x, 0, n * 4));
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t begin, end;
  Check(cudaEventCreateWithFlags(&begin, cudaEventDefault));
  Check(cudaEventCreateWithFlags(&end, cudaEventDefault));
  std::vector<float> medians_ms;
  for (int length : {1, 1 + more}) {
    std::vector<float> chain_ms(4);  // the first one warms up
    for (float& ms : chain_ms) {
      Check(cudaDeviceSynchronize());
      Kernels(x, y, 1, 4000000, stream);
      Check(cudaEventRecord(begin, stream));
      for (int k = 0; k < length; ++k) Kernels(x, y, n, work, stream);
      Check(cudaEventRecord(end, stream));
      Check(cudaDeviceSynchronize());
      Check(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(chain_ms.begin() + 1, chain_ms.end());
    medians_ms.push_back(chain_ms[2]);
  }
  printf("{\\"each_s\\": %.9f}\\n", (medians_ms[1] - medians_ms[0]) / 1e3 / more);
  return 0;
}
"""


def chains() -> str:
    """Return the program that times chains of launches."""
    plain = code_of(Workload(1, (FLOAT_BYTES,), (FLOAT_BYTES,), (WorkloadKernel(),)), Config(), CUDA)
    return plain.partition(MAIN)[0] + CHAIN


class Pace(NamedTuple):
    """Seconds of a round of calls, and of a copy each way at once."""

    round_s: float
    link_s: float


class Result(NamedTuple):
    """The times that a program printed, in seconds for each of its runs.

    - ``issue_s``: until all was issued. ``wall_s``: until all was done.
    - ``paces_s``: a round of calls of the kind ``pace``, the mean of just before the run and just after.
    - ``links_s``: a copy each way at once, the mean of just before the run and just after.

    Both are empty for a run without probes. ``verified``: the output is that of the serial program.
    """

    verified: bool
    issue_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    paces_s: tuple[float, ...] = ()
    links_s: tuple[float, ...] = ()
    pace: str = PACE_ROUND

    def checked(self) -> Result:
        """Return this result. Raises InputError if the output is wrong."""
        if not self.verified:
            raise InputError("its output is not that of the serial program; its time does not count")
        return self


def runner_of(language: Language, kernels: Sequence[str] = (), card: int = 0) -> Python | Cuda:
    """Return what runs programs in a language on the card of that number.

    ``kernels``: a file of the user's own. Raises InputError as :func:`check_language` and :func:`function_of`, and
    if the language's library cannot be imported.
    """
    check_language(language, kernels)
    if language == CUDA:
        return Cuda(card)
    return Python(language, function_of(kernels[0]) if kernels else None, card)


def check_language(language: Language, kernels: Sequence[str]) -> None:
    """Raise InputError if programs in this language, with these files of kernels, cannot be measured here."""
    if language == CUDA:
        if not has_nvcc():
            raise InputError("--as cuda-c++: no nvcc to compile it with; install the CUDA toolkit, or take --as cupy")
        if kernels:
            raise InputError(
                "--kernels: programs in C++ are measured with their stand-in; tune the kernels with --as cupy, or"
                " without --as"
            )
    if len(kernels) > 1:
        raise InputError(f"--kernels: {len(kernels)} files; give the one that has the function {FUNCTION}")


def function_of(path: str) -> Callable[..., object]:
    """Return the function ``kernels`` of a user's file, which takes a chunk's part of each array. Raises InputError."""
    if not path.endswith(".py"):
        raise InputError(one_line(f"{path}: expected a .py file with a function {FUNCTION}"))
    if not os.path.isfile(path):
        raise InputError(one_line(f"{path}: cannot read it: no such file"))
    try:
        found = runpy.run_path(path).get(FUNCTION)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise InputError(one_line(f"{path}: cannot be run: {type(error).__name__}: {error}")) from error
    if not callable(found):
        raise InputError(
            one_line(f"{path}: has no function {FUNCTION}; define {FUNCTION}(x, y) of a chunk's part of each array")
        )
    function: Callable[..., object] = found
    return function


class Python:
    """A runner of programs in CuPy or PyTorch. ``function``: the user's kernels in place of the stand-in."""

    def __init__(self, language: Language, function: Callable[..., object] | None = None, card: int = 0) -> None:
        """Raises InputError if the library cannot be imported."""
        self.language, self._function, self.has_own = language, function, function is not None
        try:
            library = import_module(MODULES[language])
        except ImportError as error:
            raise InputError(one_line(f"--as {language}: {error}; {INSTALL[language]}")) from None
        if card and language == "pytorch":  # CuPy's is the one that was opened
            library.cuda.set_device(card)

    def loaded(self, workload: Workload, config: Config) -> dict[str, Any]:
        """Return the global names of the program."""
        names: dict[str, Any] = {"__name__": "pipeline"}
        text = code_of(workload, config, self.language)
        exec(compile(text, f"the program in {self.language}", "exec"), names)  # what streamsim wrote itself
        return names

    def run(
        self,
        workload: Workload,
        config: Config,
        repeats: int,
        work: int = 1,
        times: int = 1,
        pace: Callable[[], Pace] | None = None,
    ) -> Result:
        """Write and load a program, and run it ``repeats`` times. Raises InputError if it cannot be written.

        ``work``: rounds of the stand-in. ``times``: how often it makes each launch. ``pace``: is called just before
        and just after each run.
        """
        names = self.loaded(workload, config)
        clock = names["time"] = _PacedClock(pace) if pace else names["time"]
        if workload.kernels:
            names[FUNCTION] = self._kernels(names[FUNCTION], times)
        given = names["DEFAULTS"] | {"repeat": repeats} | ({"work": work} if workload.kernels else {})
        gc.collect()
        with collector_off():
            result = names["measure"](**given)
        paces_s, links_s = zip(*clock.paces[-repeats:], strict=True) if pace else ((), ())
        return Result(bool(result["verified"]), tuple(result["issue_s"]), tuple(result["wall_s"]), paces_s, links_s)

    def _kernels(self, stand_in: Callable[..., object], times: int) -> Callable[..., None]:
        own = self._function

        def kernels(*arrays_and_work: object) -> None:
            for _ in range(times):
                if own is None:
                    stand_in(*arrays_and_work)
                else:
                    own(*arrays_and_work[:-1])

        return kernels

    def close(self) -> None:
        """Do nothing: the memory is the library's."""


class _PacedClock:
    """A stand-in for a program's module ``time``, which it asks thrice a run: at its begin, when issued, when done.

    ``paces``: for each run, the mean of the paces just before it and just after.
    """

    def __init__(self, pace: Callable[[], Pace]) -> None:
        self._pace, self._moments, self._before = pace, cycle(("begins", "is issued", "is done")), Pace(0.0, 0.0)
        self.paces: list[Pace] = []

    def perf_counter(self) -> float:
        """Return the time: after the pace when a run begins, and before the pace when a run is done."""
        moment = next(self._moments)
        if moment == "begins":
            self._before = self._pace()
        now_s = time.perf_counter()
        if moment == "is done":
            self.paces.append(Pace(*map(fmean, zip(self._before, self._pace(), strict=True))))
        return now_s


class Cuda:
    """A runner, also with probes, of programs in C++: compiled with nvcc in a folder that :meth:`close` removes."""

    language, has_own = CUDA, False

    def __init__(self, card: int = 0) -> None:
        self._compiled = Compiled(card)
        self._each_s = cache(self._measure_each_s)

    def run(self, workload: Workload, config: Config, repeats: int, work: int = 1, times: int = 1) -> Result:
        """Compile and run one program, as :meth:`Python.run` does."""
        text, words = self._program(workload, config, repeats, work, times)
        verified, issue_s, wall_s = self._compiled.said(text, words, SAID)
        return Result(bool(verified), tuple(issue_s), tuple(wall_s))

    def prepare(self, asked: Iterable[tuple[Workload, Config]], on_step: OnStep = quietly) -> None:
        """Compile what :meth:`run_probed` and :meth:`kernels_s` of these run."""
        texts = [chains()]
        for workload, config in asked:
            with suppress(InputError):  # the error is raised again when the program is to run
                texts.append(self._paced(workload, config)[0])
        self._compiled.prepare(texts, on_step)

    def run_probed(self, workload: Workload, config: Config, repeats: int, work: int) -> Result:
        """Run one program, with a round of calls and a copy each way at once around each of its runs."""
        text, words = self._paced(workload, config, repeats, work)
        verified, *times = self._compiled.said(text, words, [*SAID, "paces_s", "links_s"])
        issue_s, wall_s, paces_s, links_s = map(tuple, times)
        return Result(bool(verified), issue_s, wall_s, paces_s, links_s)

    def _paced(self, workload: Workload, config: Config, repeats: int = 1, work: int = 1) -> tuple[str, list[str]]:
        text, words = self._program(workload, config, repeats, work)
        return paced(text, TURNS), words

    def _program(
        self, workload: Workload, config: Config, repeats: int, work: int, times: int = 1
    ) -> tuple[str, list[str]]:
        """Return the program of the pattern, and its arguments, which give the numbers."""
        code_of(workload, config, CUDA)  # raises for numbers that it refuses
        pattern = msgspec.structs.replace(config, chunks=1, streams=1, buffers=config.buffers and 1)
        kernels = tuple(msgspec.structs.replace(k, launches=k.launches * times) for k in workload.kernels)
        text = code_of(msgspec.structs.replace(workload, kernels=kernels), pattern, CUDA)
        numbers = {"chunks": config.chunks, "repeat": repeats}
        numbers |= {} if config.own_streams else {"streams": config.streams}
        numbers |= {} if config.buffers is None else {"buffers": config.buffers}
        numbers |= {"work": work} if workload.kernels else {}
        return text, [word for name, value in numbers.items() for word in (f"--{name}", str(value))]

    def kernels_s(self, workload: Workload, elements: int) -> tuple[float, ...]:
        """Return the seconds of each kernel over ``elements`` elements, alone on the card."""
        return (self._each_s(elements, workload.kernels[0].parameter),) * len(workload.kernels)

    def _measure_each_s(self, elements: int, work: int) -> float:
        """Return the seconds on the card of a launch of the stand-in over ``elements`` floats, in a chain of them."""
        words = [str(elements), str(work), str(CHAIN_LENGTH)]
        return max(0.0, float(self._compiled.said(chains(), words, ["each_s"])[0]))

    def close(self) -> None:
        """Remove the folder."""
        self._compiled.close()


def run_on(gpu: Gpu, what: str, run: Callable[[], T]) -> T:
    """Return what ``run`` returns. Raises InputError for any error, or LostGpuError if nothing more can run."""
    try:
        return run()
    except InputError:
        raise
    except Exception as error:  # the library's own, the user's kernels'
        reason = one_line(f"{type(error).__name__}: {error}")
        try:
            gpu.cuda.deviceSynchronize()
        except Exception as lost:
            raise LostGpuError(f"{what}: {reason}; the GPU's context is lost ({lost}); start again") from error
        raise InputError(reason) from error
