"""Programs in CUDA C++, formatted as clang-format does in Google's style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.code.steps import (
    FLOAT_BYTES,
    ONCE,
    Copy,
    HostWork,
    If,
    Launch,
    Let,
    Loop,
    Record,
    Roles,
    Run,
    Synchronise,
    Wait,
    Within,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamsim.code.steps import Kernels, Memory, Piece, Plan, Step

NAME = "cuda-c++"
WIDTH = 80
INDENT = "  "
_STREAMS = {"non-blocking": "cudaStreamNonBlocking", "blocking": "cudaStreamDefault"}


def _indented(lines: Iterable[str], by: int = 1) -> list[str]:
    return [f"{INDENT * by}{line}" if line else "" for line in lines]


def _filled(head: str, words: Sequence[str], tail: str, depth: int, between: str = ",") -> list[str]:
    """``head`` and words up to ``tail``, in a block of this depth: as many in a line as have room, the rest below."""
    room = WIDTH - len(INDENT) * depth
    lines = [head]
    for k, word in enumerate(words):
        end = between if k < len(words) - 1 else tail
        space = " " if k else ""
        if len(lines[-1]) + len(space + word + end) > room:
            lines.append(" " * len(head) + word + end)
        else:
            lines[-1] += space + word + end
    return lines


def _block(head: str, body: list[str], depth: int) -> list[str]:
    """A loop or condition; of a single call without braces, in one line where it has room."""
    if len(body) > 1 or not body[0].endswith(";"):
        return [f"{head} {{", *_indented(body), "}"]
    line = f"{head} {body[0]}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, INDENT + body[0]]


class Cuda:
    """Writes a plan in CUDA C++."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.streams = "streams" if "streams" in plan.defaults else str(plan.streams)
        self.defaults = {**plan.defaults, "repeat": 10} | ({} if plan.kernels is None else {"work": 16})
        self.at = {memory.name: memory for memory in plan.memory}

    def text(self) -> str:
        """The program."""
        plan = self.plan
        parts = [self._head(), _TOOLS.splitlines()]
        parts += [_CUT.splitlines()] if plan.cuts else []
        parts += [self._kernels(plan.kernels)] if plan.kernels is not None else []
        parts += [_HOST_WORK.splitlines()] if plan.has_host_work else []
        return "\n\n".join("\n".join(part) for part in [*parts, self._main()]) + "\n"

    def _head(self) -> list[str]:
        words = "".join(f" --{name} {value}" for name, value in self.plan.defaults.items())
        title = "Copies in, kernels and copies out" if self.plan.is_pattern else "Copies and kernels, call by call"
        names = ("algorithm", "chrono", "cmath", "cstdio", "cstdlib", "map", "stdexcept", "string", "vector")
        return [
            f"// {title}; prints its times as JSON.",
            f"// {self.plan.title}",
            "// nvcc -O3 -o pipeline pipeline.cu",
            f"// ./pipeline{words}",
            "#include <cuda_runtime.h>",
            "",
            *(f"#include <{name}>" for name in names),
        ]

    # The kernels

    def _kernels(self, kernels: Kernels) -> list[str]:
        lines = ["// ---- YOUR KERNELS GO HERE: replace the stand-in, and its calls ----"]
        lines += ["// It makes of every float what --work says; its time is not your kernels'."]
        read, sizes = [*kernels.sources, *kernels.tables], self._sizes(kernels)
        words = [f"const float* {name}" for name in read]
        words += [f"float* {name}" for name in self._written(kernels)]
        words += [f"size_t {name}" for name in sizes]
        lines += _filled("__global__ void StandIn(", [*words, "int rounds"], ") {", 0)
        lines += [*_indented(self._stand_in(kernels)), "}"]
        words = [f"float* {name}" for name in kernels.names] + [f"size_t {name}" for name in sizes]
        lines += ["", *_filled("void Kernels(", [*words, "int work", "cudaStream_t stream"], ") {", 0)]
        return [*lines, *_indented(self._launches(kernels)), "}"]

    @staticmethod
    def _written(kernels: Kernels) -> list[str]:
        return [f"new_{name}" if name in kernels.sources else name for name in kernels.targets]

    def _sizes(self, kernels: Kernels) -> list[str]:
        """The names of the sizes that kernels are told: ``n``, and that of each array of which a chunk may be less."""
        return ["n", *(f"n_{name}" for name in kernels.targets if name.startswith(ONCE))]

    def _stand_in(self, kernels: Kernels) -> list[str]:
        values = [*(f"{name}[i]" for name in kernels.sources), *(f"{name}[0]" for name in kernels.tables)]
        lines = ["size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;", "if (i >= n) return;"]
        lines += [f"float t = {values[0]};", *(f"t += {value};" for value in values[1:])]
        lines += [f"t /= {len(values)};"] if len(values) > 1 else []
        lines.append("for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);")
        guards = ((f"if (i < n_{name}) " * name.startswith(ONCE), name) for name in self._written(kernels))
        return [*lines, *(f"{guard}{name}[i] = t;" for guard, name in guards)]

    def _launches(self, kernels: Kernels) -> list[str]:
        targets, sizes = list(kernels.targets), self._sizes(kernels)
        lines = []
        for k, kernel in enumerate(kernels.calls):
            count = kernel.launches - (k == 0)
            lines.append(f"// {kernel.words}")
            if k == 0:
                lines += self._launch([*kernels.sources, *kernels.tables, *targets, *sizes], "n", "stream", 1)
            words = [*kernels.again, *kernels.tables, *targets, *sizes]
            if count == 1:
                lines += self._launch(words, "n", "stream", 1)
            elif count:
                lines += _block(f"for (int k = 0; k < {count}; ++k)", self._launch(words, "n", "stream", 2), 1)
        return lines

    @staticmethod
    def _launch(words: list[str], size: str, stream: str, depth: int) -> list[str]:
        return _filled(f"StandIn<<<({size} + 255) / 256, 256, 0, {stream}>>>(", [*words, "work"], ");", depth)

    # The program

    def _main(self) -> list[str]:
        plan = self.plan
        lines = ["std::map<std::string, int> given;"]
        lines += [f'int& {name} = given["--{name}"] = {value};' for name, value in self.defaults.items()]
        lines += ["for (int i = 1; i + 1 < argc; i += 2) given.at(argv[i]) = atoi(argv[i + 1]);"]
        wrong = [f"std::min({{{', '.join(self.defaults)}}}) < 1"]
        wrong += [f"chunks > {plan.most_chunks}"] * plan.is_pattern
        *begun, last = _filled("if (", wrong, ")", 1, " ||")
        throw = 'throw std::out_of_range("arguments");'
        lines += [*begun, last, INDENT + throw] if begun else _block(last, [throw], 1)
        lines.append("auto asked = given;")
        lines += [*self._numbers(), *self._memory(), *self._streams(), *self._found(), ""]
        head = "auto pipeline = [&](const std::vector<cudaStream_t>& stream) {"
        lines += [head, *_indented(self._steps(plan.issue)), "};"]
        lines += [*self._runs(), *self._compared(), *self._said()]
        return ["int main(int argc, char** argv) {", *_indented(lines), "}"]

    def _numbers(self) -> list[str]:
        plan = self.plan
        lines = ["streams = std::min(streams, chunks);"] if "streams" in plan.defaults else []
        lines += [f"auto {_at(cut.name)} = Cut({cut.floats}, {cut.unit}, chunks);" for cut in plan.cuts]
        if plan.has_slots:
            lines.append("buffers = std::min(buffers, chunks);")
            if "streams" in plan.defaults:
                lines.append("bool hands_over = buffers % streams != 0;  // to another stream")
        return lines

    def _memory(self) -> list[str]:
        lines = []
        for memory in self.plan.memory:
            name, n_bytes = memory.name, memory.floats * FLOAT_BYTES
            if memory.slots:
                lines.append(f"std::vector<float*> {name}({memory.slots});")
                lines += _block(f"for (float*& d : {name})", [f"Check(cudaMalloc(&d, {_bytes(memory)}));"], 1)
            elif memory.place == "pageable":
                lines.append(f"float* {name} = new float[{memory.floats}];")
            else:
                allocate = "cudaMalloc" if memory.place == "device" else "cudaMallocHost"
                lines += [f"float* {name};", f"Check({allocate}(&{name}, {n_bytes}));"]
            if memory.start == "resident":
                lines += [f"std::vector<float> values_{name}({memory.floats});"]
                lines += [f"for (float& value : values_{name}) value = rand() % 1000 / 1e3f;"]
                lines += _filled(
                    "Check(cudaMemcpy(", [name, f"values_{name}.data()", f"{n_bytes}", "cudaMemcpyDefault"], "));", 1
                )
            elif memory.start == "random":
                body = [f"{name}[i] = rand() % 1000 / 1e3f;"]
                lines += _block(f"for (size_t i = 0; i < {memory.floats}; ++i)", body, 1)
                if name in self.plan.results:
                    lines.append(f"std::vector<float> start_{name}({name}, {name} + {memory.floats});")
        return lines

    def _streams(self) -> list[str]:
        plan = self.plan
        lines = [f"std::vector<cudaStream_t> pool({self.streams});"]
        kinds = plan.kinds or ("non-blocking",)
        if len(set(kinds)) == 1 and kinds[0] != "legacy":
            body = f"Check(cudaStreamCreateWithFlags(&s, {_STREAMS[kinds[0]]}));"
            lines += _block("for (auto& s : pool)", [body], 1)
        else:
            for k, kind in enumerate(kinds):
                made = f"Check(cudaStreamCreateWithFlags(&pool[{k}], {_STREAMS.get(kind, '')}));"
                lines.append(f"pool[{k}] = cudaStreamLegacy;" if kind == "legacy" else made)
        events = [(name, number or "1") for name, number in plan.events]
        events += [("edge", self.streams)] if plan.is_graph else []
        if events:
            named = [f"{name}({number})" for name, number in events]
            together = f"std::vector<cudaEvent_t> {', '.join(named)};"
            apart = [f"std::vector<cudaEvent_t> {one};" for one in named]
            lines += [together] if len(together) <= WIDTH - 2 else apart
            each = ["for (auto& event : *some)", "  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));"]
            some = ", ".join(f"&{name}" for name, _ in events)
            lines += [f"for (auto* some : {{{some}}})", *_indented(each)]
        return lines

    def _runs(self) -> list[str]:
        """What runs a program; clearing arrays, which spoils the caches of the host, is in the second alone."""
        synchronise = "Check(cudaDeviceSynchronize());"
        timed = [
            "auto start = std::chrono::steady_clock::now();",
            "program();",
            synchronise,
            "auto end = std::chrono::steady_clock::now();",
            "return std::chrono::duration<double>(end - start).count();",
        ]
        fresh = [line for memory in self.plan.memory for line in self._fresh(memory)]
        fresh += [synchronise, "timed(program);", *self._fetched()]
        return [
            *["auto timed = [&](auto program) {", *_indented(timed), "};"],
            "// Leaves nothing of earlier runs.",
            *["auto run_fresh = [&](auto program) {", *_indented(fresh), "};"],
        ]

    def _fresh(self, memory: Memory) -> list[str]:
        """What makes an array as it is before a run."""
        name = memory.name
        if memory.slots:
            return _block(f"for (float* d : {name})", [f"Check(cudaMemset(d, 0, {_bytes(memory)}));"], 2)
        if memory.place == "device":
            return [] if memory.start == "resident" else [f"Check(cudaMemset({name}, 0, {_bytes(memory)}));"]
        if memory.start == "random":
            again = f"std::copy_n(start_{name}.data(), {memory.floats}, {name});"
            return [again] if name in self.plan.results else []
        return [f"std::fill_n({name}, {memory.floats}, {'NAN' if memory.start == 'nothing' else '-1'});"]

    def _compared(self) -> list[str]:
        program = "pipeline(pool);"
        lines = ["// In one stream nothing overlaps: the serial program."]
        serial = f"[&] {{ pipeline(std::vector<cudaStream_t>({self.streams}, pool[0])); }}"
        lines.append(f"run_fresh({serial});")
        wanted, same = [], []
        for memory in self._results():
            name = memory.name
            if memory.place == "device":
                wanted.append(f"std::vector<float> wanted_{name} = found_{name};")
                same.append(f"verified &= found_{name} == wanted_{name};")
            else:
                ends = f"{name}, {name} + {memory.floats}"
                wanted.append(f"std::vector<float> wanted_{name}({ends});")
                same.append(f"verified &= std::equal({ends}, wanted_{name}.data());")
        if self.plan.is_graph:
            wanted += self._captured()
            program = "Check(cudaGraphLaunch(run, pool[0]));"
        return [
            *lines,
            *wanted,
            "bool verified = true;",
            f"auto all = [&] {{ {program} }};",
            "for (int i = 0; i <= repeat; ++i) {",
            "  run_fresh(all);",
            *_indented(same),
            "}",
            "std::vector<double> wall_s(1 + repeat);  // the first run warms up",
            "for (double& seconds : wall_s) seconds = timed(all);",
        ]

    def _results(self, *places: str) -> list[Memory]:
        """The arrays that are compared; those in these places alone, if any are given."""
        return [self.at[name] for name in self.plan.results if not places or self.at[name].place in places]

    def _found(self) -> list[str]:
        """Memory on the host for results that the program leaves on the card."""
        cards = self._results("device")
        sizes = [f"buffers * {_at(m.part)}[1]" if m.slots else str(m.floats) for m in cards]
        return [f"std::vector<float> found_{m.name}({size});" for m, size in zip(cards, sizes, strict=True)]

    def _fetched(self) -> list[str]:
        """The copies of those results."""
        lines = []
        for memory in self._results("device"):
            to, source = f"found_{memory.name}.data()", memory.name
            if memory.slots:
                to, source = f"{to} + i * {_at(memory.part)}[1]", f"{source}[i]"
            copy = _filled("Check(cudaMemcpy(", [to, source, _bytes(memory), "cudaMemcpyDefault"], "));", 2)
            if memory.slots:
                copy = _filled("Check(cudaMemcpy(", [to, source, _bytes(memory), "cudaMemcpyDefault"], "));", 3)
                copy = ["for (int i = 0; i < buffers; ++i) {", *_indented(copy), "}"]
            lines += copy
        return lines

    def _captured(self) -> list[str]:
        fork = (Record("edge[0]", "pool[0]"), Loop("k", "1", self.streams, (Wait("edge[0]", "pool[k]"),)))
        join = (Loop("k", "1", self.streams, (Record("edge[k]", "pool[k]"), Wait("edge[k]", "pool[0]"))),)
        return [
            "cudaGraph_t graph;",
            "cudaGraphExec_t run;",
            "Check(cudaStreamBeginCapture(pool[0], cudaStreamCaptureModeGlobal));",
            *self._steps(fork, 1),
            "pipeline(pool);",
            *self._steps(join, 1),
            "Check(cudaStreamEndCapture(pool[0], &graph));",
            "Check(cudaGraphInstantiate(&run, graph, 0));",
        ]

    def _said(self) -> list[str]:
        plan = self.plan
        fixed = f'\\"streams\\": {self.streams}, ' if plan.is_pattern and "streams" not in plan.defaults else ""
        return [
            f'printf("{{\\"program\\": \\"{plan.pattern} in {NAME}\\", {fixed}");',
            "for (auto& [name, value] : asked)",
            '  printf("\\"%s\\": %d, ", name.c_str() + 2, value);',
            'printf("\\"verified\\": %s, \\"wall_s\\": [", verified ? "true" : "false");',
            "for (int i = 1; i <= repeat; ++i)",
            '  printf(i > 1 ? ", %.9f" : "%.9f", wall_s[i]);',
            'printf("]}\\n");',
            "return verified ? 0 : 1;",
        ]

    # Steps

    def piece(self, piece: Piece) -> str:
        """Where its floats begin."""
        if piece.has_slots:
            return f"{piece.name}[{piece.chunk} % buffers]"
        if piece.part:
            return f"{piece.name} + {_at(piece.part)}[{piece.chunk}]"
        return f"{piece.name} + {piece.first}" if piece.first else piece.name

    def size(self, piece: Piece) -> str:
        """How many they are."""
        if piece.part:
            at, chunk = _at(piece.part), piece.chunk
            return f"{at}[{chunk} + 1] - {at}[{chunk}]"
        return str(piece.floats or self.at[piece.name].floats)

    def _run(self, pieces: tuple[Piece, ...], stream: str, depth: int) -> list[str]:
        """The call of the user's kernels."""
        once = [piece for piece in pieces if piece.part and piece.name.startswith(f"d_{ONCE}")]
        cut = [piece for piece in pieces if piece.part and piece not in once]
        sizes = list(dict.fromkeys(map(self.size, cut)))
        least = _filled("size_t n = std::min({", sizes, "});", depth) if len(sizes) > 1 else []
        words = [*map(self.piece, pieces), "n" if least else sizes[0], *map(self.size, once), "work", stream]
        return [*least, *_filled("Kernels(", words, ");", depth)]

    def _steps(self, steps: Sequence[Step], depth: int = 2, stream: str = "") -> list[str]:
        """Lines for ``steps`` in a block of this depth, where ``stream`` is the one of copies and kernels."""
        return [line for step in steps for line in self._step(step, depth, stream)]

    def _step(self, step: Step, depth: int, stream: str) -> list[str]:
        match step:
            case Copy(direction, card, host, is_blocking):
                to, source = (card, host) if direction == "h2d" else (host, card)
                words = [self.piece(to), self.piece(source), self.size(host), stream]
                lines = _filled("Put(", words, ");", depth)
                return [*lines, *([f"Check(cudaStreamSynchronize({stream}));"] if is_blocking else [])]
            case Run(pieces):
                return self._run(pieces, stream, depth)
            case Launch(source, to):
                words = [self.piece(source), self.piece(to), self.size(to), "work", stream]
                return _filled("Kernels(", words, ");", depth)
            case Record(event, its_stream):
                return _filled("Check(cudaEventRecord(", [self._event(event), its_stream], "));", depth)
            case Wait(event, its_stream):
                return _filled("Check(cudaStreamWaitEvent(", [its_stream, self._event(event)], "));", depth)
            case Synchronise(its_stream, event):
                return [self._synchronised(its_stream, event)]
            case HostWork(seconds):
                return [f"HostWork({seconds});"]
            case Let(name, value):
                return [f"int {name} = {value.replace('min(', 'std::min(')};"]
            case Roles(names):
                roles = (f"{name} = stream[{k}]" for k, name in enumerate(names) if name != "_")
                return [f"auto {', '.join(roles)};"]
        return self._group(step, depth, stream)

    def _group(self, step: Within | If | Loop, depth: int, stream: str) -> list[str]:
        match step:
            case Within(its_stream, body):
                return self._steps(body, depth, its_stream)
            case If(condition, body):
                condition = condition.replace(" and ", " && ")
                return _block(f"if ({condition})", self._steps(body, depth + 1, stream), depth)
            case Loop(name, first, end, body):
                head = f"for (int {name} = {first}; {name} < {end}; ++{name})"
                return _block(head, self._steps(body, depth + 1, stream), depth)

    def _synchronised(self, stream: str, event: str) -> str:
        if not stream and not event:
            return "Check(cudaDeviceSynchronize());"
        kind, what = ("Stream", stream) if stream else ("Event", self._event(event))
        return f"Check(cuda{kind}Synchronize({what}));"

    def _event(self, event: str) -> str:
        return event if event.endswith("]") else f"{event}[0]"


def _at(part: str) -> str:
    """The name of where chunks begin."""
    return "at" + part.removeprefix("part")


def _bytes(memory: Memory) -> str:
    return f"{FLOAT_BYTES} * {_at(memory.part)}[1]" if memory.slots else str(FLOAT_BYTES * memory.floats)


_TOOLS = """void Check(cudaError_t error) {
  if (error) throw std::runtime_error(cudaGetErrorString(error));
}

void Put(float* to, const float* from, size_t n, cudaStream_t stream) {
  Check(cudaMemcpyAsync(to, from, 4 * n, cudaMemcpyDefault, stream));
}"""
_HOST_WORK = """// ---- YOUR HOST WORK GOES HERE: replace the stand-in, and its calls ----
// It keeps the host busy for so long, as loading a chunk would.
void HostWork(double seconds) {
  auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin <
         std::chrono::duration<double>(seconds)) {
  }
}"""
_CUT = """// Where chunks of an array begin: whole units, equal or the last one smaller.
std::vector<size_t> Cut(size_t size, size_t unit, size_t chunks) {
  size_t units = (size + unit - 1) / unit;
  size_t even = units / chunks, over = units % chunks;
  if (over && (even + 1) * (chunks - 1) < units) ++even, over = 0;
  std::vector<size_t> at(chunks + 1, size);
  for (size_t i = 0; i < chunks; ++i)
    at[i] = std::min((even * i + std::min(i, over)) * unit, size);
  return at;
}"""
