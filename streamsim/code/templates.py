"""Templates of whole programs: the text that does not depend on the plan, and where the plan's lines go.

A line that is a name alone, such as ``$memory``, stands for lines, perhaps none, indented as the name is.
"""

import re
from string import Template

_NAME_ALONE = re.compile(r"( *)\$(\w+)")


Parts = dict[str, str | list[str]]


def written(template: str, parts: Parts) -> str:
    """Return the text of a template. A part that is a text has names of ``parts`` too; a list is lines as they are."""
    found: list[str] = []
    for line in template.splitlines():
        alone = _NAME_ALONE.fullmatch(line)
        if not alone:
            found.append(Template(line).substitute(parts))
            continue
        part = parts[alone[2]]
        lines = part if isinstance(part, list) else written(part, parts).splitlines()
        found += [alone[1] + one if one else "" for one in lines]
    return "".join(f"{line}\n" for line in found)


# Programs

PYTHON_PROGRAM = '''\
"""$summary.

It prints its times as JSON.
"""

import argparse
import json
import time

$imports

$constants
DEFAULTS = {$defaults}
$kernels
$functions


# Its times, and whether it is right.
def measure($arguments):
    $cuts
    # The memory of the host (h_) and of the card (d_).
    $memory

    # The streams and the events.
    $streams
    $events

    # The program: all copies and kernels, in the order in which they are issued.
    def pipeline(stream):
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
        return [$output]

    $rounds
    # Its output must be that of the serial program, which has one stream.
    $settled
    wanted = output_of(pipeline, pool[:1] * $number)
    $captured
    outputs = (output_of($program) for _ in range($verified))
    right = [all(map($equal, output, wanted)) for output in outputs]

    # Its times, without the first run, which warms up.
    runs = [timed($program) for _ in range(1 + repeat)]
    issue_s, wall_s = zip(*runs[1:], strict=True)
    return {
        $found
        "issue_s": issue_s,
        "wall_s": wall_s,
        "verified": all(right),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in DEFAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = vars(parser.parse_args())
    least = min(value for value in given.values() if value is not None)
    if least < 1$too_many:
        parser.error("give whole numbers from 1$hint")
    result = {"program": "$name", **given, **measure(**given)}
    print(json.dumps(result))
    raise SystemExit(0 if result["verified"] else 1)
'''
PYTHON_KERNELS = """

# ---- YOUR KERNELS GO HERE: replace the stand-in, of --work rounds, and its calls ----
$measured
$stand_in
$function
"""
PYTHON_FUNCTION = """

# The kernels of a chunk, in the current stream.
def kernels($names, work):
    $launches
"""
PYTHON_ROUNDS = """\
# As many rounds of the stand-in as take KERNELS_S on this card.
def kernels_alone():
    $kernels_alone

if work is None:
    work = 256
    for _ in range(4):
        timed(pipeline, pool)  # warms up, with data
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
CUPY_COPY = """

def copy(to, src):  # as set and get, which cannot be captured
    ends = (x.data.ptr if type(x) is cp.ndarray else x.ctypes.data for x in (to, src))
    cp.cuda.runtime.memcpyAsync(*ends, src.nbytes, 4, cp.cuda.get_current_stream().ptr)
"""

CUDA_PROGRAM = r"""// $summary.
// It prints its times as JSON. To compile and run it:
// nvcc -O3 -o pipeline pipeline.cu && ./pipeline$options
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

$constants
void Check(cudaError_t error, int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(error));
  exit(1);
}

struct Slice {
  size_t start, stop;
};

struct Floats {  // an array, or a slice of one
  float* data;
  size_t size;
  Floats operator[](Slice s) const { return {data + s.start, s.stop - s.start}; }
};

void Put(Floats to, Floats from, cudaStream_t stream) {
  Check(cudaMemcpyAsync(to.data, from.data, 4 * from.size, cudaMemcpyDefault, stream));
}

std::vector<float> Values(Floats array) {
  std::vector<float> values(array.size);
  Check(cudaMemcpy(values.data(), array.data, 4 * array.size, cudaMemcpyDefault));
  return values;
}

float Random() { return rand() % 1000 / 1e3f; }

std::vector<cudaEvent_t> Events(size_t number) {
  std::vector<cudaEvent_t> events(number);
  for (auto& event : events) Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return events;
}
$cut
$kernels
$host_work

int main(int argc, char** argv) {
  // The arguments: whole numbers from 1.
  std::map<std::string, int> given;
  $defaults
  for (int i = 1; i < argc; i += 2)
    if (int value = given[argv[i]] = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        value < 1 || given.size() > $known$too_many)
      return fprintf(stderr, "%s: unknown or below 1$hint\n", argv[i]), 2;
  $arguments

  $cuts
  // The memory of the host (h_) and of the card (d_).
  $memory

  // The streams and the events.
  $streams
  $events

  // The program: all copies and kernels, in the order in which they are issued.
  auto pipeline = [&](const std::vector<cudaStream_t>& stream) {
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
    std::vector<std::vector<float>> output;
    $output
    return output;
  };

  $rounds
  // Its output must be that of the serial program, which has one stream.
  auto wanted = output_of([&] { pipeline(std::vector<cudaStream_t>($number, pool[0])); });
  $captured
  auto all = [&] { $program; };
  bool verified = true;
  for (int i = 0; i < $verified; ++i) verified = output_of(all) == wanted && verified;

  // Its times; the first run warms up.
  for (int i = 0; i <= repeat; ++i) timed(all, i);

  // What it prints: one line of JSON.
  printf("{\"program\": \"$name\"$found");
  for (auto& [name, value] : given) printf(", \"%s\": %d", name.c_str() + 2, value);
  for (int i = 1; i <= repeat; ++i) printf("%s%.9f", i > 1 ? ", " : ", \"issue_s\": [", issue_s[i]);
  for (int i = 1; i <= repeat; ++i) printf("%s%.9f", i > 1 ? ", " : "], \"wall_s\": [", wall_s[i]);
  printf("], \"verified\": %s}\n", verified ? "true" : "false");
  return verified ? 0 : 1;
}
"""
CUDA_KERNELS = """
// ---- YOUR KERNELS GO HERE: replace the stand-in, of --work rounds, and its calls ----
$measured
__global__ void StandIn($stand_in, int rounds) {
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  float t = 0;
  $loads
  for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);
  $stores
}

void Kernels($names, int work, cudaStream_t stream) {
  size_t n = std::max({$lengths});
  $launches
  Check(cudaGetLastError());
}
"""
CUDA_ROUNDS = """\
// As many rounds of the stand-in as take KERNELS_S on this card.
auto kernels_alone = [&] {
  $kernels_alone
};
if (!work) {
  work = 256;
  for (int i = 0; i < 4; ++i) {
    timed(kernels_alone);  // warms up
    timed(kernels_alone);
    work = std::max(1.0, std::round(work * KERNELS_S / wall_s[0]));
  }
}
given["--work"] = work;

"""
CUDA_GRAPH = """\
cudaGraph_t graph;
cudaGraphExec_t run;
auto edge = Events($number);
Check(cudaStreamBeginCapture(pool[0], cudaStreamCaptureModeGlobal));
Check(cudaEventRecord(edge[0], pool[0]));
for (int k = 1; k < $number; ++k) Check(cudaStreamWaitEvent(pool[k], edge[0]));
pipeline(pool);
for (int k = 1; k < $number; ++k) Check(cudaEventRecord(edge[k], pool[k]));
for (int k = 1; k < $number; ++k) Check(cudaStreamWaitEvent(pool[0], edge[k]));
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
std::vector<Slice> Cut(size_t size, size_t unit, size_t chunks) {  // into whole units
  size_t units = (size + unit - 1) / unit, even = units / chunks, over = units % chunks;
  if (over && chunks - over <= even) ++even, over = 0;  // then all are equal but the last one
  auto at = [=](size_t i) { return std::min((even * i + std::min(i, over)) * unit, size); };
  std::vector<Slice> parts;
  for (size_t i = 0; i < chunks; ++i) parts.push_back({at(i), at(i + 1)});
  return parts;
}

std::vector<Slice> Heads(std::vector<Slice> parts) {  // of the buffers that hold these parts
  for (auto& part : parts) part = {0, part.stop - part.start};
  return parts;
}
"""
