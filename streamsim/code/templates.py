"""Templates of whole programs: the text that does not depend on the plan, and where the plan's lines go.

A line that is a name alone, such as ``$memory``, stands for lines, perhaps none, indented as the name is.
"""

import re
from collections.abc import Callable, Sequence
from string import Template

_NAME_ALONE = re.compile(r"( *)\$(\w+)")


def written(template: str, lines_of: Callable[[str], Sequence[str]], **words: object) -> str:
    """Return a program: the template with ``words``, and ``lines_of`` each other name that stands alone in a line."""
    found: list[str] = []
    for line in template.splitlines():
        alone = _NAME_ALONE.fullmatch(line)
        if alone and alone[2] not in words:
            found += [alone[1] + one if one else "" for one in lines_of(alone[2])]
        else:
            found.append(Template(line).substitute(words))
    return "\n".join(found) + "\n"


PYTHON = """\
$title

import argparse
import json
import time

$imports

$numbers
$functions


$measure
    $cuts
    # The memory: h_ on the host, d_ on the card.
    $memory

    # $streams_title
    $streams

    # The program: all copies and kernels, in the order in which they are issued.
    def pipeline($roles):
        $issue

    # What runs a program, and takes its times or its output.
    def timed(program, *streams):  # until all is issued, and until it is done
        start = time.perf_counter()
        program(*streams)
        issued = time.perf_counter()
        $synchronise
        return issued - start, time.perf_counter() - start

    def output_of(program, *streams):  # with nothing left of earlier runs
        $fresh
        $synchronise
        timed(program, *streams)
        $output

    $rounds
    # Its output must be that of the serial program, which has one stream.
    $settled
    wanted = output_of(pipeline, $serial)
    $captured
    outputs = (output_of($program) for _ in range($verified))
    right = [$equal for output in outputs]

    # Its times, without the first run, which warms up.
    runs = [timed($program) for _ in range(1 + repeat)]
    issue_s, wall_s = zip(*runs[1:], strict=True)
    $result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = vars(parser.parse_args())
    $known
    if $wrong:
        parser.error("$hint")
    result = {"program": "$name", **given, **measure(**given)}
    print(json.dumps(result))
    raise SystemExit(0 if result["verified"] else 1)
"""
PYTHON_ROUNDS = """\
# As many rounds of the stand-in as take KERNELS_S on this card.
def kernels_alone():
    $kernels_alone

if work is None:
    work = $first
    for _ in range($trials):
        timed(pipeline, $pool)  # warms up, with data
        work = max(1, round(work * KERNELS_S / timed(kernels_alone)[1]))

"""
PYTHON_HOST_WORK = """

# ---- YOUR HOST WORK GOES HERE: replace the stand-in, and its calls ----
def host_work(seconds):  # keeps the host busy, as loading a chunk would
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""
PYTHON_CUT = """

def cut(size, unit, chunks):  # slices of whole units, equal or the last one smaller
    even, over = divmod(-(-size // unit), chunks)
    if over and chunks - over <= even:
        even, over = even + 1, 0
    at = [min((even * i + min(i, over)) * unit, size) for i in range(chunks + 1)]
    return list(map(slice, at, at[1:]))
"""

CUDA = r"""// $summary
// nvcc -O3 -o pipeline pipeline.cu && ./pipeline$options
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
$seconds

void Check(cudaError_t error, int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(error));
  exit(1);
}

void Put(float* to, const float* from, size_t n, cudaStream_t stream) {
  Check(cudaMemcpyAsync(to, from, 4 * n, cudaMemcpyDefault, stream));
}
$functions

int main(int argc, char** argv) {
  // The arguments: whole numbers from 1.
  $given
  for (int i = 1; i < argc; i += 2)
    if (int value = given[argv[i]] = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        $wrong)
      return fprintf(stderr, "%s: $says\n", argv[i]), 2;
  $arguments

  $cuts
  // The memory: h_ on the host, d_ on the card.
  $memory

  // $streams_title
  $streams

  // The program: all copies and kernels, in the order in which they are issued.
  auto pipeline = [&]($roles) {
    $issue
  };

  // What runs a program, and takes its times or its output.
  std::vector<double> issue_s(1 + repeat), wall_s(1 + repeat);  // until all is issued, and done
  auto timed = [&](auto program, int i = 0) {
    auto start = std::chrono::steady_clock::now();
    program();
    issue_s[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Check(cudaDeviceSynchronize());
    wall_s[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto output_of = [&](auto program) {  // with nothing left of earlier runs
    $fresh
    Check(cudaDeviceSynchronize());
    timed(program);
    $output
  };

  $rounds
  // Its output must be that of the serial program, which has one stream.
  auto serial = output_of([&] { pipeline($serial); });
  $captured
  auto all = [&] { $program };
  bool verified = $verified;

  // Its times; the first run warms up.
  for (int i = 0; i <= repeat; ++i) timed(all, i);

  // What it prints: one line of JSON.
  printf("{\"program\": \"$name\"$fixed");
  for (auto& [name, value] : given) printf(", \"%s\": %d", name.c_str() + 2, value);
  for (int i = 1; i <= repeat; ++i) printf("%s%.9f", i > 1 ? ", " : ", \"issue_s\": [", issue_s[i]);
  for (int i = 1; i <= repeat; ++i) printf("%s%.9f", i > 1 ? ", " : "], \"wall_s\": [", wall_s[i]);
  printf("], \"verified\": %s}\n", verified ? "true" : "false");

  // The memory is freed.
  $freed
  return verified ? 0 : 1;
}
"""
CUDA_ROUNDS = """\
// As many rounds of the stand-in as take kKernelsSeconds on this card.
auto kernels_alone = [&] {
  $kernels_alone
};
if (!work) {
  work = $first;
  for (int i = 0; i < $trials; ++i) {
    timed(kernels_alone);  // warms up
    timed(kernels_alone);
    work = std::max(1.0, std::round(work * kKernelsSeconds / wall_s[0]));
  }
}
given["--work"] = work;

"""
CUDA_GRAPH = """\
cudaGraph_t graph;
cudaGraphExec_t run;
Check(cudaStreamBeginCapture(pool[0], cudaStreamCaptureModeGlobal));
Check(cudaEventRecord(edge[0], pool[0]));
for (int k = 1; k < $streams; ++k) Check(cudaStreamWaitEvent(pool[k], edge[0]));
$pipeline
for (int k = 1; k < $streams; ++k) Check(cudaEventRecord(edge[k], pool[k]));
for (int k = 1; k < $streams; ++k) Check(cudaStreamWaitEvent(pool[0], edge[k]));
Check(cudaStreamEndCapture(pool[0], &graph));
Check(cudaGraphInstantiate(&run, graph, 0));
"""
CUDA_HOST_WORK = """
// ---- YOUR HOST WORK GOES HERE: replace the stand-in, which keeps the host busy so long ----
void HostWork(double seconds) {
  auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds)) {
  }
}
"""
CUDA_CUT = """
std::vector<size_t> Cut(size_t size, size_t unit, size_t parts) {  // where chunks begin, in floats
  size_t units = (size + unit - 1) / unit, even = units / parts, over = units % parts;
  if (over && parts - over <= even) ++even, over = 0;  // then all are equal but the last one
  std::vector<size_t> at(parts + 1);
  for (size_t i = 0; i <= parts; ++i) at[i] = std::min((even * i + std::min(i, over)) * unit, size);
  return at;
}
"""
