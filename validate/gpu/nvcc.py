"""Programs in C++, compiled with nvcc in a folder that is removed with them, and the rounds of their calls.

Programs that are known beforehand are compiled side by side, before anything is measured.

The rounds run in processes of their own, or in the process of a program just before and just after it. Other work on a
host slows one of its processors, and another process may run on another processor.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from streamsim.code import FLOAT_BYTES, code_of
from streamsim.errors import InputError
from streamsim.program import Config, Workload, WorkloadKernel
from streamsim_validate.gpu.card import first_error_line
from streamsim_validate.gpu.libraries import SLICE, SLICES, STREAMS
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import LINK_BYTES, PACE_ROUND

NVCC = "nvcc"
VISIBLE = "CUDA_VISIBLE_DEVICES"


def has_nvcc() -> bool:
    """Return whether there is a compiler."""
    return shutil.which(NVCC) is not None


class Compiled:
    """A compiler of programs, each once, which runs them on the card of that number, in processes of their own."""

    name, version = "cuda-c++", "C++"  # of the front end, whose rounds are measured in a process that does nothing else

    def __init__(self, card: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="streamsim-")
        self._programs: dict[str, Path | InputError] = {}  # by text; or why there is none
        seen = [name for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
        self._environment = os.environ | {VISIBLE: seen[card] if card < len(seen) else str(card)}

    def said(self, text: str, words: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
        """Return the values that a program, run with ``words``, prints under ``names`` in its lines of JSON.

        Raises InputError if it does not compile, or does not print them.
        """
        self.prepare([text])
        program = self._programs[text]
        if isinstance(program, InputError):
            raise program
        done = subprocess.run([program, *words], capture_output=True, text=True, env=self._environment, check=False)
        try:
            found: dict[str, Any] = {}
            for line in done.stdout.splitlines():
                found |= json.loads(line)
            return {name: found[name] for name in names} | found
        except (ValueError, KeyError, TypeError):
            reason = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            raise InputError(f"exit code {done.returncode}: {reason[0]}") from None

    def prepare(self, texts: Iterable[str], on_step: OnStep = quietly) -> None:
        """Compile these side by side. An error is raised when its program is to run."""
        new = [text for text in dict.fromkeys(texts) if text not in self._programs]
        numbers = range(len(self._programs), len(self._programs) + len(new))
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            for done, found in enumerate(pool.map(self._built, new, numbers)):
                on_step("compiling programs", done, len(new))
                self._programs[new[done]] = found
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C waits for those that have begun

    def _built(self, text: str, number: int) -> Path | InputError:
        program = Path(self._folder.name) / f"pipeline{number}"
        source = program.with_suffix(".cu")
        source.write_text(text, encoding="utf-8")
        call = [NVCC, "-O3", "-o", str(program), str(source)]
        done = subprocess.run(call, capture_output=True, text=True, env=self._environment, check=False)
        if done.returncode:
            return InputError(f"it does not compile: {first_error_line(done.stderr or done.stdout)}")
        return program

    def rounds_s(self, kinds: Sequence[str], turns: int) -> list[float]:
        """Return the seconds of a round of each kind, in this order, from runs of ``turns`` rounds.

        Raises InputError if the program does not compile or run.
        """
        return list(map(float, self.said(probes(), ["rounds", str(turns), *kinds], ["rounds_s"])["rounds_s"]))

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


MAIN = "int main("
MEASURES = "  for (int i = 0; i <= repeat; ++i) timed(all, i);"  # a program, itself
PACED_RUNS = "  for (int i = 0; i <= repeat; ++i) Paced([&] { timed(all, i); });"
SIZES = (
    f"constexpr size_t kSlice = {SLICE}, kSlices = {SLICES}, kStreams = {STREAMS}, kLinkBytes = {LINK_BYTES};\n"
    f'constexpr const char* kPace = "{PACE_ROUND}";\n'
)
PROBES = """
template <typename Run>
double Took(Run run) {  // seconds until the calls have returned
  Check(cudaDeviceSynchronize());
  auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Print(const char* name, const std::vector<double>& seconds) {
  printf("{\\"%s\\": [", name);
  for (size_t i = 0; i < seconds.size(); ++i) printf("%s%.9f", i ? ", " : "", seconds[i]);
  printf("]}\\n");
}

class Rounds {  // of calls that the letters of a kind stand for
  float *h_, *x_, *y_;
  std::vector<cudaStream_t> streams_ = std::vector<cudaStream_t>(kStreams);
  std::vector<cudaEvent_t> events_ = std::vector<cudaEvent_t>(kSlices);

  static void Kernel(float* x, float* y, cudaStream_t stream) {
    StandIn<<<(kSlice + 255) / 256, 256, 0, stream>>>(Floats{x, kSlice}, Floats{y, kSlice}, 1);
  }

 public:
  Rounds() {
    Check(cudaMallocHost(&h_, 4 * kSlice * kSlices));
    for (float** d : {&x_, &y_}) Check(cudaMalloc(d, 4 * kSlice * kSlices));
    for (auto& s : streams_) Check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (auto& e : events_) Check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  }

  double Each(const std::string& kind, int turns) {  // seconds a round
    bool goes_round = kind.find('|') != std::string::npos;
    for (auto& e : events_) Check(cudaEventRecord(e, streams_[0]));
    double seconds = Took([&] {
      for (int turn = 0; turn < turns; ++turn) {
        auto stream = streams_[goes_round ? turn % kStreams : 0];
        size_t at = turn % kSlices * kSlice;
        for (char call : kind) {
          if (call == 'i') Check(cudaMemcpyAsync(x_ + at, h_ + at, 4 * kSlice, cudaMemcpyDefault, stream));
          if (call == 'o') Check(cudaMemcpyAsync(h_ + at, y_ + at, 4 * kSlice, cudaMemcpyDefault, stream));
          if (call == 'k') Kernel(x_ + at, y_ + at, stream);
          if (call == 'r') Check(cudaEventRecord(events_[turn % kSlices], streams_[turn % kStreams]));
          if (call == 'w') Check(cudaStreamWaitEvent(streams_[turn % kStreams], events_[turn % kSlices]));
          if (call == 's') Check(cudaDeviceSynchronize());
        }
      }
    });
    Check(cudaDeviceSynchronize());
    return seconds / turns;
  }
};
"""
# Modes: ``rounds TURNS KIND...`` and ``chain FLOATS ROUNDS LENGTH``. The first launch of a chain, over one float, holds
# the card for about 20 ms. Meanwhile the host makes the other calls.
ALONE = """
double Launch(size_t n, int work, int more) {  // seconds that a launch adds to a chain of them
  float *x, *y;
  Check(cudaMalloc(&x, n * 4));
  Check(cudaMalloc(&y, n * 4));
  Check(cudaMemset(x, 0, n * 4));
  cudaStream_t stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaEvent_t begin, end;
  for (auto* event : {&begin, &end}) Check(cudaEventCreateWithFlags(event, cudaEventDefault));
  std::vector<float> medians_ms;
  for (int length : {1, 1 + more}) {
    std::vector<float> chain_ms(4);  // the first one warms up
    for (float& ms : chain_ms) {
      Check(cudaDeviceSynchronize());
      Kernels({x, 1}, {y, 1}, 4000000, stream);
      Check(cudaEventRecord(begin, stream));
      for (int k = 0; k < length; ++k) Kernels({x, n}, {y, n}, work, stream);
      Check(cudaEventRecord(end, stream));
      Check(cudaDeviceSynchronize());
      Check(cudaEventElapsedTime(&ms, begin, end));
    }
    std::sort(chain_ms.begin() + 1, chain_ms.end());
    medians_ms.push_back(chain_ms[2]);
  }
  return (medians_ms[1] - medians_ms[0]) / 1e3 / more;
}

int main(int argc, char** argv) {
  std::vector<double> seconds;
  if (std::string(argv[1]) == "chain") {
    Print("each_s", {Launch(atol(argv[2]), atoi(argv[3]), atoi(argv[4]))});
    return 0;
  }
  Rounds rounds;
  rounds.Each(argv[3], atoi(argv[2]));  // the first calls of all
  for (int i = 3; i < argc; ++i) seconds.push_back(rounds.Each(argv[i], atoi(argv[2])));
  Print("rounds_s", seconds);
  return 0;
}
"""
PACED = """
class Link {
  char *from_, *to_, *x_, *y_;
  cudaStream_t there_;

 public:
  Link() {
    for (char** h : {&from_, &to_}) Check(cudaMallocHost(h, kLinkBytes));
    for (char** d : {&x_, &y_}) Check(cudaMalloc(d, kLinkBytes));
    Check(cudaStreamCreateWithFlags(&there_, cudaStreamNonBlocking));
    Both();  // the first one warms up
  }

  double Both() {  // seconds of a copy each way at once; back in the legacy stream, which has its queue already
    return Took([&] {
      Check(cudaMemcpyAsync(x_, from_, kLinkBytes, cudaMemcpyDefault, there_));
      Check(cudaMemcpyAsync(to_, y_, kLinkBytes, cudaMemcpyDefault, 0));
      Check(cudaDeviceSynchronize());
    });
  }
};

std::vector<double> paces_s, links_s;  // of each run that counts

template <typename Run>
void Paced(Run run) {  // between two rounds of calls; of one stream, so that they hardly disturb whose queue is whose
  static Rounds& rounds = *new Rounds;
  static Link& link = *new Link;
  static bool is_first = true;
  double link_before = link.Both(), before = rounds.Each(kPace, kTurns);
  run();
  double link_after = link.Both(), after = rounds.Each(kPace, kTurns);
  if (!is_first) paces_s.push_back((before + after) / 2), links_s.push_back((link_before + link_after) / 2);
  is_first = false;
}
"""
BESIDE = """
int main(int argc, char** argv) {
  int code = Program(argc, argv);
  Print("paces_s", paces_s);
  Print("links_s", links_s);
  return code;
}
"""


def probes() -> str:
    """Return the program that measures rounds of calls, or a chain of launches."""
    plain = code_of(Workload(1, (FLOAT_BYTES,), (FLOAT_BYTES,), (WorkloadKernel(),)), Config(), "cuda-c++")
    return plain.partition(MAIN)[0] + SIZES + PROBES + ALONE


def compiled_rounds(card: int = 0) -> AbstractContextManager[Compiled | None]:
    """Return a context with the calls of compiled programs to be probed; with None if there is no compiler."""
    return closing(Compiled(card)) if has_nvcc() else nullcontext()


def paced(text: str, turns: int) -> str:
    """Return a program that also measures the conditions of each of its runs.

    For each run it prints the mean of just before and just after of a round of ``turns`` turns of the kind
    ``PACE_ROUND`` (``paces_s``), and of a copy each way at once (``links_s``).
    """
    head, _, tail = text.partition(MAIN)
    body = tail.replace(MEASURES, PACED_RUNS, 1)
    return f"{head}{SIZES}constexpr int kTurns = {turns};{PROBES}{PACED}\nint Program({body}{BESIDE}"
