"""Programs in CUDA C++."""

from collections.abc import Callable, Iterable, Sequence

from streamsim.code import plans
from streamsim.code.plans import FIRST_ROUNDS, FLOAT_BYTES, TRIALS, VERIFIED
from streamsim.code.templates import CUDA, CUDA_CUT, CUDA_GRAPH, CUDA_HOST_WORK, CUDA_ROUNDS, written
from streamsim.code.writer import Writer

_Call = Callable[[str, str, str], str]  # of an array: its name or address, its floats, its bytes

_STREAMS = {"non-blocking": "cudaStreamNonBlocking", "blocking": "cudaStreamDefault"}


class Cuda(Writer):
    """A writer of plans in CUDA C++."""

    name, indent = "cuda-c++", "  "
    unknown_rounds, rounds_of = "0", "std::max(1, int({0} * work))"
    record = "Check(cudaEventRecord({0}, {1}));"
    wait = "Check(cudaStreamWaitEvent({1}, {0}));"
    synchronise = "Check(cudaDeviceSynchronize());"
    synchronise_stream, synchronise_event = "Check(cudaStreamSynchronize({0}));", "Check(cudaEventSynchronize({0}));"
    host_work = "HostWork({0});"

    def __init__(self, plan: plans.CodePlan) -> None:
        super().__init__(plan)
        self.sizes = plan.sizes

    def text(self) -> str:
        plan = self.plan
        roles = [name for name in plan.roles if name != "_"]
        wrong, says = f"value < 1 || given.size() > {len(self.defaults)}", "unknown, or below 1"
        if plan.is_pattern:
            wrong += f' || given["--chunks"] > {plan.most_chunks}'
            says = f"unknown, below 1, or over {plan.most_chunks} chunks"
        return written(
            CUDA,
            self.lines,
            summary=plan.summary,
            options="".join(f" --{name} {value}" for name, value in plan.defaults.items()),
            wrong=wrong,
            says=says,
            streams_title=self.streams_title,
            roles=", ".join(f"cudaStream_t {name}" for name in roles) or "const std::vector<cudaStream_t>& stream",
            serial=", ".join(["pool[0]"] * len(roles)) or f"std::vector<cudaStream_t>({self.streams}, pool[0])",
            program="Check(cudaGraphLaunch(run, pool[0]));" if plan.is_graph else self._pipeline(),
            verified=" && ".join(["output_of(all) == serial"] * VERIFIED),
            name=f"{plan.pattern} in {self.name}",
            fixed=f', \\"streams\\": {self.streams}' if plan.is_pattern and "streams" not in plan.defaults else "",
        )

    def _seconds(self) -> list[str]:
        if not (timed := self.timed_kernels):
            return []
        return ["", f"constexpr double kKernelsSeconds = {timed.seconds:.6g};  // of {timed.words}"]

    def _functions(self) -> list[str]:
        plan = self.plan
        lines = CUDA_CUT.splitlines() if len(plan.cuts) > 1 else []
        lines += [] if plan.kernels is None else ["", *self._kernels(plan.kernels)]
        return lines + (CUDA_HOST_WORK.splitlines() if plan.has_host_work else [])

    def _given(self) -> list[str]:
        given = ", ".join(f'{{"--{name}", {value}}}' for name, value in self.defaults.items())
        return opened("std::map<std::string, int> given{", given, "};", 1)

    def _pipeline(self) -> str:
        """Return the call of the pipeline over all streams."""
        roles = sum(name != "_" for name in self.plan.roles)
        return f"pipeline({', '.join(f'pool[{k}]' for k in range(roles)) or 'pool'});"

    # The kernels

    def _kernels(self, kernels: plans.ChunkKernels) -> list[str]:
        lines = ["// ---- YOUR KERNELS GO HERE: replace the stand-in, of --work rounds, and its calls ----"]
        if self.plan.timed_kernels:
            lines.append("// The program measures it at its start: without --work it takes about kKernelsSeconds.")
        read = [f"const float* {name}" for name in (*kernels.sources, *kernels.tables)]
        targets = [f"float* {name}" for name in kernels.new_targets]
        words = self._with_sizes([*read, *targets], kernels, "size_t ")
        lines += filled("__global__ void StandIn(", [*words, "int rounds"], ") {", 0)
        lines += [*indented(self._stand_in(kernels)), "}"]
        words = self._with_sizes([f"float* {name}" for name in kernels.names], kernels, "size_t ")
        lines += ["", *filled("void Kernels(", [*words, "int work", "cudaStream_t stream"], ") {", 0)]
        return [*lines, *indented([*self._launches(kernels), "Check(cudaGetLastError());"]), "}"]

    @staticmethod
    def _with_sizes(arrays: Sequence[str], kernels: plans.ChunkKernels, kind: str = "") -> list[str]:
        """Return the arrays, each followed by its size; if all are equally long, followed by one size."""
        if kernels.is_even:
            return [*arrays, f"{kind}n"]
        words: list[str] = []
        for array in arrays:
            name = array.rpartition(" ")[2].removeprefix("*")
            words += [array] if name in kernels.tables else [array, f"{kind}n_{name}"]
        return words

    def _stand_in(self, kernels: plans.ChunkKernels) -> list[str]:
        """Return the body of the stand-in: one thread for each element. Shorter arrays end before the last thread."""
        values = [name + "[i]" if kernels.is_even else f"(i < n_{name} ? {name}[i] : 0)" for name in kernels.sources]
        values += [f"{name}[0]" for name in kernels.tables]
        mean = [f"float t = {values[0].removeprefix('(').removesuffix(')')};"]
        if len(values) > 1:
            mean = filled("float t = (", values, f") / {len(values)};", 1, " +")
        stores = [f"{' = '.join(f'{name}[i]' for name in kernels.new_targets)} = t;"]
        return [
            "size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;",
            *(["if (i >= n) return;"] if kernels.is_even else []),
            *mean,
            "for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);",
            *(stores if kernels.is_even else [f"if (i < n_{name}) {name}[i] = t;" for name in kernels.new_targets]),
        ]

    def _launches(self, kernels: plans.ChunkKernels) -> list[str]:
        """Return the launches of each kernel with comments, beside the launches if all have room."""
        said = []
        for k, kernel in enumerate(kernels.calls):
            count = kernel.launches - (k == 0)
            lines: list[str] = []
            if k == 0:
                lines += self._launch(kernels.sources, kernels, kernel.weight, 1)
            if count == 1:
                lines += self._launch(kernels.again, kernels, kernel.weight, 1)
            elif count:
                body = self._launch(kernels.again, kernels, kernel.weight, 2)
                lines += block(f"for (int k = 0; k < {count}; ++k)", body, 1)
            said.append((lines, f"// {kernel.words}"))
        longest = max(len(lines[0]) for lines, _ in said)
        beside = [f"{lines[0]:{longest}}  {comment}" for lines, comment in said]
        if not kernels.is_even:
            sizes = [f"n_{name}" for name in dict.fromkeys((*kernels.sources, *kernels.targets))]
            return [*assigned("size_t n =", "std::max({", sizes, "});", 1), *_alternating(said, beside)]
        return _alternating(said, beside)

    def _launch(self, sources: Sequence[str], kernels: plans.ChunkKernels, weight: float, depth: int) -> list[str]:
        """Return a launch of the stand-in, in a block of this depth."""
        words = self._with_sizes([*sources, *kernels.tables, *kernels.targets], kernels)
        return filled("StandIn<<<(n + 255) / 256, 256, 0, stream>>>(", [*words, self.rounds(weight)], ");", depth)

    # The program

    def _rounds(self) -> list[str]:
        """Return the lines that set ``work`` if it is not given."""
        if self.timed_kernels is None:
            return []
        return written(CUDA_ROUNDS, self.lines, first=FIRST_ROUNDS, trials=TRIALS).splitlines()

    def _arguments(self) -> list[str]:
        """Return the lines that declare the arguments as numbers; more than chunks would have nothing to do."""
        least = {name: f'given["--{name}"]' for name in self.defaults}
        least |= {name: f"std::min({least[name]}, chunks)" for name in ("streams", "buffers") if name in least}
        return declared("int", [f"{name} = {value}" for name, value in least.items()])

    def _cuts(self) -> list[str]:
        plan = self.plan
        lines = declared("constexpr size_t", [f"{name} = {floats}" for floats, name in self.sizes.items()])
        if len(plan.cuts) == 1:
            lines += self._cut(*plan.cuts[0])
        else:
            cuts = [f"{_at(cut.name)} = Cut({self.sizes[cut.floats]}, {cut.unit}, chunks)" for cut in plan.cuts]
            lines += declared("auto", cuts)
        if plan.has_slots and "streams" in plan.defaults:
            lines.append("bool hands_over = buffers % streams != 0;  // to another stream")
        return ["// The arrays, and where chunks begin.", *lines, ""] if lines else []

    def _cut(self, name: str, floats: int, unit: int) -> list[str]:
        """Return the lines that cut arrays of ``floats`` floats into chunks."""
        at, size = _at(name), self.sizes[floats]
        begin = f"{at}[i] = std::min((even * i + std::min(i, over)) * {unit}, {size});"
        return [
            f"size_t units = {-(-floats // unit)}, even = units / chunks, over = units % chunks;  // of {unit} floats",
            "if (over && chunks - over <= even) ++even, over = 0;",
            f"std::vector<size_t> {at}(chunks + 1);  // where chunks begin: equal, or the last one smaller",
            *block(f"for (size_t i = 0; i < {at}.size(); ++i)", [begin], 1),
        ]

    # Its memory

    def _floats(self, memory: plans.Array) -> str:
        """Return the number of floats of an array, or of each of its buffers."""
        return f"{_at(memory.part)}[1]" if memory.slots else self.sizes.get(memory.floats, str(memory.floats))

    def _bytes(self, memory: plans.Array) -> str:
        floats = self._floats(memory)
        return str(FLOAT_BYTES * int(floats)) if floats.isdecimal() else f"{FLOAT_BYTES} * {floats}"

    def _each(self, arrays: Iterable[plans.Array], call: _Call, of: str = "", depth: int = 1) -> list[str]:
        """Return a call for each array and each buffer; ``of``: "&" if the call needs addresses."""
        lines: list[str] = []
        for memory in arrays:
            if memory.slots:
                body = [call(f"{of}d", self._floats(memory), self._bytes(memory))]
                lines += block(f"for (float*{of} d : {memory.name})", body, depth)
            else:
                lines.append(call(of + memory.name, self._floats(memory), self._bytes(memory)))
        return lines

    def _memory(self) -> list[str]:
        memory = self.plan.memory
        plain, slots = [m.name for m in memory if not m.slots], [f"{m.name}({m.slots})" for m in memory if m.slots]
        lines = [
            line if "," in line else line.replace("float *", "float* ")
            for line in declared("float", [f"*{name}" for name in plain])
        ]
        lines += declared("std::vector<float*>", slots)
        for place in _ALLOCATED:
            lines += self._each([m for m in memory if m.place == place], _ALLOCATED[place], "&")
        lines += self._each([m for m in memory if m.start == "random"], _randomised)
        for m in memory:
            if m.start == "resident":
                floats = self._floats(m)
                lines += [f"std::vector<float> values_{m.name}({floats});"]
                lines += [_randomised(f"values_{m.name}.data()", floats, "")]
                words = [m.name, f"values_{m.name}.data()", self._bytes(m), "cudaMemcpyDefault"]
                lines += filled("Check(cudaMemcpy(", words, "));", 1)
            elif m.start == "random" and m.name in self.plan.results:
                lines.append(f"std::vector<float> start_{m.name}({m.name}, {m.name} + {self._floats(m)});")
        cards = self._results("device")  # memory on the host for results that the program leaves on the card
        sizes = [f"buffers * {self._floats(m)}" if m.slots else self._floats(m) for m in cards]
        found = [f"found_{m.name}({n})" for m, n in zip(cards, sizes, strict=True)]
        return [*lines, *declared("std::vector<float>", found)]

    def _freed(self) -> list[str]:
        """Return the lines that free the memory of the host and of the card."""
        lines: list[str] = []
        for place, call in _FREED.items():
            lines += self._each([m for m in self.plan.memory if m.place == place], call)
        return lines

    def _streams(self) -> list[str]:
        plan = self.plan
        lines = [f"std::vector<cudaStream_t> pool({self.streams});"]
        kinds = plan.kinds or ("non-blocking",)
        if len(set(kinds)) == 1 and kinds[0] != "legacy":
            body = f"Check(cudaStreamCreateWithFlags(&s, {_STREAMS[kinds[0]]}));"
            lines += block("for (auto& s : pool)", [body], 1)
        else:
            for k, kind in enumerate(kinds):
                made = f"Check(cudaStreamCreateWithFlags(&pool[{k}], {_STREAMS.get(kind, '')}));"
                lines.append(f"pool[{k}] = cudaStreamLegacy;" if kind == "legacy" else made)
        events = {name: number or "1" for name, number in plan.events}
        events |= {"edge": self.streams} if plan.is_graph else {}
        lines += declared("std::vector<cudaEvent_t>", [f"{name}({number})" for name, number in events.items()])
        create = ["Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));"]
        return lines + [line for name in events for line in block(f"for (auto& event : {name})", create, 1)]

    # Its runs

    def _fresh(self) -> list[str]:
        """Return the lines that reset all arrays before a run."""
        memory = self.plan.memory
        cards = [m for m in memory if m.place == "device" and m.start != "resident"]
        lines = self._each(cards, lambda it, _, n_bytes: f"Check(cudaMemset({it}, 0, {n_bytes}));", depth=2)
        for start, value in (("nothing", "NAN"), ("blank", "-1")):
            hosts = [m for m in memory if m.place != "device" and m.start == start]
            lines += self._each(hosts, _filling(value), depth=2)
        again = [m for m in self._results() if m.place != "device" and m.start == "random"]
        return [*lines, *(f"std::copy_n(start_{m.name}.data(), {self._floats(m)}, {m.name});" for m in again)]

    def _results(self, *places: str) -> list[plans.Array]:
        """Return the arrays that are compared, or only those in ``places``."""
        return [self.at[name] for name in self.plan.results if not places or self.at[name].place in places]

    def _output(self) -> list[str]:
        """Return the lines that copy the arrays that are compared."""
        lines: list[str] = []
        copies: list[tuple[str, ...]] = []
        for m in self._results():
            if m.place != "device":
                copies.append((m.name, f"{m.name} + {self._floats(m)}"))
                continue
            copies.append((f"found_{m.name}",))
            to, source, depth = f"found_{m.name}.data()", m.name, 2
            if m.slots:
                to, source, depth = f"{to} + i * {self._floats(m)}", f"{source}[i]", 3
            copy = filled("Check(cudaMemcpy(", [to, source, self._bytes(m), "cudaMemcpyDefault"], "));", depth)
            lines += block(f"for (int i = 0; i < {m.slots}; ++i)", copy, 2) if m.slots else copy
        if len(copies) == 1:
            ends = ", ".join(copies[0])
            return [*lines, f"return std::vector<float>({ends});" if len(copies[0]) > 1 else f"return {ends};"]
        together = [f"{{{', '.join(ends)}}}" if len(ends) > 1 else ends[0] for ends in copies]
        line = f"return std::vector<std::vector<float>>{{{', '.join(together)}}};"
        if len(line) + 2 * len(INDENT) <= WIDTH:
            return [*lines, line]
        added = [f"output.emplace_back({', '.join(ends)});" for ends in copies]
        return [*lines, "std::vector<std::vector<float>> output;", *added, "return output;"]

    def _captured(self) -> list[str]:
        """Return the lines that capture the pipeline as a graph, which begins and ends in the first stream."""
        if not self.plan.is_graph:
            return []
        return written(CUDA_GRAPH, self.lines, streams=self.streams, pipeline=self._pipeline()).splitlines()

    # Steps

    def piece(self, piece: plans.Piece) -> str:
        """Return the address of the piece's first float."""
        if piece.has_slots:
            return f"{piece.name}[{piece.chunk} % buffers]"
        if piece.part:
            return f"{piece.name} + {_at(piece.part)}[{piece.chunk}]"
        return f"{piece.name} + {piece.first}" if piece.first else piece.name

    def size(self, piece: plans.Piece) -> str:
        """Return the number of the piece's floats."""
        if piece.part:
            at, chunk = _at(piece.part), piece.chunk
            return f"{at}[{chunk} + 1] - {at}[{chunk}]"
        return str(piece.floats) if piece.floats else self._floats(self.at[piece.name])

    def copy(self, step: plans.CopyStep, stream: str, depth: int) -> list[str]:
        to, source = (step.card, step.host) if step.direction == "h2d" else (step.host, step.card)
        lines = filled("Put(", [self.piece(to), self.piece(source), self.size(step.host), stream], ");", depth)
        return [*lines, *([self.synchronise_stream.format(stream)] if step.is_blocking else [])]

    def run(self, pieces: Sequence[plans.Piece], stream: str, depth: int) -> list[str]:
        words: list[str] = []
        is_even = self.plan.kernels is None or self.plan.kernels.is_even
        for piece in pieces:
            words += [self.piece(piece)] if is_even or not piece.part else [self.piece(piece), self.size(piece)]
        sizes = [self.size(next(piece for piece in pieces if piece.part))] if is_even else []
        return filled("Kernels(", [*words, *sizes, "work", stream], ");", depth)

    def launch(self, step: plans.LaunchStep, stream: str, depth: int) -> list[str]:
        words = [self.piece(step.source), self.piece(step.to), self.size(step.to), self.rounds(step.weight), stream]
        return filled("Kernels(", words, ");", depth)

    def within(self, stream: str, body: Sequence[plans.Step], depth: int) -> list[str]:
        return self.steps(body, depth, stream)

    def condition(self, step: plans.IfStep) -> str:
        let = "" if step.let is None else f"{_let(*step.let)}; "
        return f"if ({let}{step.condition.replace(' and ', ' && ')})"

    def loop(self, step: plans.LoopStep) -> list[str]:
        name, more = step.name, "" if step.let is None else _let(*step.let).replace("int", ",", 1)
        return [f"for (int {name} = {step.first}{more}; {name} < {step.end}; ++{name})"]

    def block(self, head: str, body: list[str], depth: int) -> list[str]:
        return block(head, body, depth)

    def event_of(self, event: str) -> str:
        return event if event.endswith("]") else f"{event}[0]"


def _at(part: str) -> str:
    """Return the name of the array that holds the first float of each chunk."""
    return "at" + part.removeprefix("part")


def _alternating(said: Sequence[tuple[list[str], str]], beside: list[str]) -> list[str]:
    """Return launches and comments: side by side if all have room, else each comment above its launch."""
    if all(len(lines) == 1 for lines, _ in said) and max(map(len, beside)) + len(INDENT) <= WIDTH:
        return beside
    return [line for lines, comment in said for line in (comment, *lines)]


def _let(name: str, value: str) -> str:
    return f"int {name} = {value.replace('min(', 'std::min(')}"


def _randomised(it: str, floats: str, _n_bytes: str) -> str:
    return f"std::generate_n({it}, {floats}, [] {{ return rand() % 1000 / 1e3f; }});"


def _filling(value: str) -> _Call:
    return lambda it, floats, _: f"std::fill_n({it}, {floats}, {value});"


_ALLOCATED: dict[str, _Call] = {
    "pinned": lambda it, _, n_bytes: f"Check(cudaMallocHost({it}, {n_bytes}));",
    "pageable": lambda it, floats, _: f"{it.removeprefix('&')} = new float[{floats}];",
    "device": lambda it, _, n_bytes: f"Check(cudaMalloc({it}, {n_bytes}));",
}
_FREED: dict[str, _Call] = {
    "pinned": lambda it, _, __: f"Check(cudaFreeHost({it}));",
    "pageable": lambda it, _, __: f"delete[] {it};",
    "device": lambda it, _, __: f"Check(cudaFree({it}));",
}


WIDTH = 100
INDENT = "  "


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines ``by`` blocks deeper."""
    return [f"{INDENT * by}{line}" if line else "" for line in lines]


def filled(head: str, words: Sequence[str], tail: str, depth: int, between: str = ",") -> list[str]:
    """Return ``head``, the words and ``tail`` in a block of this depth, with as many words in each line as fit."""
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


def assigned(name: str, head: str, words: Sequence[str], tail: str, depth: int) -> list[str]:
    """Return the same as :func:`filled`, after ``name =``; the value in a line of its own if it fits there only."""
    value = f"{head}{', '.join(words)}{tail}"
    room = WIDTH - len(INDENT) * depth
    if len(name) + 1 + len(value) > room >= len(value) + 4:
        return [name, f"    {value}"]
    return filled(f"{name} {head}", words, tail, depth)


def opened(head: str, items: str, tail: str, depth: int) -> list[str]:
    """Return a list in braces, in a line of its own if it does not fit behind ``head``."""
    line = f"{head}{items}{tail}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, f"    {items}{tail}"]


def packed(head: str, words: Iterable[str], tail: str, room: int) -> list[str]:
    """Return lines of ``head``, words and ``tail``, with as many words in each line as fit."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1].removesuffix(tail)}, {word}{tail}" if lines else ""
        if lines and len(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(f"{head}{word}{tail}")
    return lines


def declared(kind: str, words: Iterable[str]) -> list[str]:
    """Return the declarations of variables of a kind, in the block of a function."""
    return packed(f"{kind} ", words, ";", WIDTH - len(INDENT))


def block(head: str, body: list[str], depth: int) -> list[str]:
    """Return a loop or condition; a single call needs no braces, and stands in the same line if it fits."""
    if len(body) > 1 or not body[0].endswith(";"):
        return [f"{head} {{", *indented(body), "}"]
    line = f"{head} {body[0]}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, INDENT + body[0]]
