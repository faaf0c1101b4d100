"""Programs as ``streamsim code`` writes them, run: those in CuPy and PyTorch in this process.

One in C++ is compiled once for each pattern, side by side where they are known beforehand, and runs in a process of its
own each time.
"""

from __future__ import annotations

import gc
import os
import runpy
import time
from contextlib import suppress
from importlib import import_module
from itertools import cycle
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from streamsim.code.programs import code_of
from streamsim.code.steps import FLOAT_BYTES
from streamsim.collector import collector_off
from streamsim.errors import InputError
from streamsim.program.config import Config
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.text.shown import one_line
from streamsim_validate.calibrate import TURNS
from streamsim_validate.gpu import MAIN, Compiled, LostGpuError, has_nvcc, with_rounds
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import PACE_ROUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from streamsim.code.steps import Language
    from streamsim_validate.calibrate import Rounds
    from streamsim_validate.gpu import Gpu

T = TypeVar("T")
CUDA: Language = "cuda-c++"
MODULES: dict[Language, str] = {"cupy": "cupy", "pytorch": "torch"}
INSTALL: dict[Language, str] = {"cupy": "pip install 'streamsim[cuda13]'", "pytorch": "pip install torch"}
SAID = ("verified", "issue_s", "wall_s")  # by a program, of itself
FUNCTION = "kernels"  # of a program, and of a file with the user's own

# In place of the main function of a program: the time of a chain of its launches. The first one, over one float, holds
# the card for some 20 ms, in which the host makes the other calls.
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
    """The program that times chains of launches."""
    plain = code_of(Workload(1, (FLOAT_BYTES,), (FLOAT_BYTES,), (WorkloadKernel(),)), Config(), CUDA)
    return plain.partition(MAIN)[0] + CHAIN


class Pace(NamedTuple):
    """Seconds of a round of calls, and of a copy each way at once."""

    round_s: float
    link_s: float


class Result(NamedTuple):
    """What a program said of itself: of each run the seconds until all was issued, and until it was done.

    ``paces_s``: of a round of calls, of the kind ``pace``, just before each run and just after, the mean of both;
    ``links_s``: of a copy each way at once, likewise. None where nobody asked for them.
    """

    verified: bool
    issue_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    paces_s: tuple[float, ...] = ()
    links_s: tuple[float, ...] = ()
    pace: str = PACE_ROUND

    def checked(self) -> Result:
        """Itself. Raises InputError where its output is wrong."""
        if not self.verified:
            raise InputError("its output is not that of the serial program; its time does not count")
        return self


class Runner(Protocol):
    """Writes programs in a language and runs them. ``has_own``: the kernels are the user's own."""

    language: Language
    has_own: bool

    def run(self, workload: Workload, config: Config, repeats: int, work: int = 1, times: int = 1) -> Result:
        """One program, so many times. ``work``: rounds of the stand-in; ``times``: how often each launch is made.

        Raises InputError where it cannot be written, and whatever else goes wrong in it.
        """

    def close(self) -> None:
        """Leave nothing behind."""


def runner_of(language: Language, kernels: Sequence[str] = (), card: int = 0) -> Runner:
    """What runs programs in a language on the card of that number.

    ``kernels``: a file of the user's own. Raises InputError as :func:`check_language` and :func:`function_of`, and
    where the language's library cannot be imported.
    """
    check_language(language, kernels)
    if language == CUDA:
        return Cuda(card)
    return Python(language, function_of(kernels[0]) if kernels else None, card)


def check_language(language: Language, kernels: Sequence[str]) -> None:
    """Raise InputError where programs in a language, with such files of kernels, cannot be measured here."""
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
    """The function ``kernels`` of a user's file, called with a chunk's part of each array. Raises InputError."""
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
    """Programs in CuPy or PyTorch, in this process. ``function``: the user's kernels in place of the stand-in."""

    def __init__(self, language: Language, function: Callable[..., object] | None = None, card: int = 0) -> None:
        """Raises InputError where the library cannot be imported."""
        self.language, self._function, self.has_own = language, function, function is not None
        try:
            library = import_module(MODULES[language])
        except ImportError as error:
            raise InputError(one_line(f"--as {language}: {error}; {INSTALL[language]}")) from None
        if card and language == "pytorch":  # CuPy's is the one that was opened
            library.cuda.set_device(card)

    def loaded(self, workload: Workload, config: Config) -> dict[str, Any]:
        """The names of the program."""
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
        """Written, loaded and measured. ``pace``: is to stand just before each run and just after."""
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
        """Its memory is the library's."""


class _PacedClock:
    """In place of the module ``time`` of a program, which asks it thrice a run: when it begins, is issued, is done.

    ``paces``: of each run the mean of those just before it and just after.
    """

    def __init__(self, pace: Callable[[], Pace]) -> None:
        self._pace, self._moments, self._before = pace, cycle(("begins", "is issued", "is done")), Pace(0.0, 0.0)
        self.paces: list[Pace] = []

    def perf_counter(self) -> float:
        """The time, behind the pace where a run begins and before it where one is done."""
        moment = next(self._moments)
        if moment == "begins":
            self._before = self._pace()
        now_s = time.perf_counter()
        if moment == "is done":
            self.paces.append(Pace(*map(fmean, zip(self._before, self._pace(), strict=True))))
        return now_s


class Cuda:
    """Programs in C++, compiled with nvcc in a folder of their own that goes with them."""

    language, has_own = CUDA, False

    def __init__(self, card: int = 0) -> None:
        self._compiled = Compiled(card)

    def run(self, workload: Workload, config: Config, repeats: int, work: int = 1, times: int = 1) -> Result:
        """Compiled, if no other one had the same pattern, and run."""
        text, words = self._program(workload, config, repeats, work, times)
        verified, issue_s, wall_s = self._compiled.said(text, words, SAID)
        return Result(bool(verified), tuple(issue_s), tuple(wall_s))

    def prepare(self, asked: Iterable[tuple[Workload, Config]], runs: int, on_step: OnStep = quietly) -> None:
        """Compile what :meth:`run_beside` of these and :meth:`each_s` run."""
        texts = [chains()]
        for workload, config in asked:
            with suppress(InputError):  # it is told when it is to run
                texts.append(self._with_rounds(workload, config, runs)[0])
        self._compiled.prepare(texts, on_step)

    def run_beside(
        self, workload: Workload, config: Config, repeats: int, work: int, kinds: Sequence[str], runs: int
    ) -> tuple[Result, Rounds]:
        """The same, and by kind seconds of a round of calls just before it and just after, medians of so many."""
        text, words = self._with_rounds(workload, config, runs, repeats, work)
        asked = [*SAID, "rounds_s", "paces_s", "links_s"]
        said = self._compiled.said(text, [",".join(kinds), *words], asked)
        verified, issue_s, wall_s, rounds_s, paces_s, links_s = said
        result = Result(bool(verified), tuple(issue_s), tuple(wall_s), tuple(paces_s), tuple(links_s))
        return result, dict(zip(kinds, map(tuple, rounds_s), strict=True))

    def _with_rounds(
        self, workload: Workload, config: Config, runs: int, repeats: int = 1, work: int = 1
    ) -> tuple[str, list[str]]:
        """The program of the pattern with rounds of calls beside it, and the words that say which one of it."""
        text, words = self._program(workload, config, repeats, work)
        return with_rounds(text, TURNS, runs), words

    def _program(
        self, workload: Workload, config: Config, repeats: int, work: int, times: int = 1
    ) -> tuple[str, list[str]]:
        """The program of the pattern, and the words that say which one of it."""
        code_of(workload, config, CUDA)  # what it refuses of these numbers
        pattern = msgspec.structs.replace(config, chunks=1, streams=1, buffers=config.buffers and 1)
        kernels = tuple(msgspec.structs.replace(k, launches=k.launches * times) for k in workload.kernels)
        text = code_of(msgspec.structs.replace(workload, kernels=kernels), pattern, CUDA)
        numbers = {"chunks": config.chunks, "repeat": repeats}
        numbers |= {} if config.is_blocking or config.is_prefetch else {"streams": config.streams}
        numbers |= {} if config.buffers is None else {"buffers": config.buffers}
        numbers |= {"work": work} if workload.kernels else {}
        return text, [word for name, value in numbers.items() for word in (f"--{name}", str(value))]

    def each_s(self, elements: int, work: int) -> float:
        """Seconds on the card of a launch of the stand-in over so many floats, in a chain of them."""
        words = [str(elements), str(work), str(CHAIN_LENGTH)]
        return float(self._compiled.said(chains(), words, ["each_s"])[0])

    def close(self) -> None:
        """Remove the folder."""
        self._compiled.close()


def run_on(gpu: Gpu, what: str, run: Callable[[], T]) -> T:
    """What ``run`` finds. Raises InputError for whatever else, of which LostGpuError means that nothing more runs."""
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
