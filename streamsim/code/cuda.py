"""Programs in CUDA C++."""

from collections.abc import Sequence
from textwrap import indent
from typing import ClassVar

from streamsim.code.fitted import cuda_lines
from streamsim.code.plans import Array, ChunkKernels
from streamsim.code.templates import CUDA, CUDA_CUT, CUDA_GRAPH, CUDA_HOST_WORK, CUDA_KERNELS, CUDA_ROUNDS, Parts
from streamsim.code.writer import Writer
from streamsim.program import Direction


class Cuda(Writer):
    """A writer of plans in CUDA C++."""

    name, template, comment = "cuda-c++", CUDA, "//"
    let, part = "auto {name} = {value};", "{name}[{{{start}, {stop}}}]"
    constant = "constexpr auto {name} = {value};"
    record, wait = "Check(cudaEventRecord({event}, {stream}));", "Check(cudaStreamWaitEvent({stream}, {event}));"
    synchronise = "Check(cudaDeviceSynchronize());"
    synchronise_stream, synchronise_event = (
        "Check(cudaStreamSynchronize({name}));",
        "Check(cudaEventSynchronize({name}));",
    )
    host_work = "HostWork({seconds});"
    kernels, rounds = "Kernels({pieces}, work, {stream});", "std::max(1, int({weight} * work))"
    launch = "Kernels({source}, {target}, {rounds}, {stream});"
    for_each = "for (auto& d : {name})"
    cut, heads = "Cut({size}, {unit}, chunks)", "Heads({name})"
    event, events = "Events(1)[0]", "Events({number})"
    new: ClassVar = {
        "pinned": "Check(cudaMallocHost(&{name}.data, 4 * {name}.size));",
        "pageable": "{name}.data = new float[{name}.size];",
        "device": "Check(cudaMalloc(&{name}.data, 4 * {name}.size));",
        "resident": "Check(cudaMalloc(&{name}.data, 4 * {name}.size));\n"
        "std::vector<float> start_{name}({name}.size);\n"
        "std::generate(start_{name}.begin(), start_{name}.end(), Random);\n"
        "Check(cudaMemcpy({name}.data, start_{name}.data(), 4 * {name}.size, cudaMemcpyDefault));",
    }
    random = "std::generate_n({name}.data, {name}.size, Random);"
    saved = fetched = "Values({name})"
    cleared = "Check(cudaMemset({name}.data, 0, 4 * {name}.size));"
    spoilt, not_a_number = "std::fill_n({name}.data, {name}.size, {value});", "NAN"
    restored = "std::copy(start_{name}.begin(), start_{name}.end(), {name}.data);"
    freed: ClassVar = {
        "pinned": "Check(cudaFreeHost({name}.data));",
        "pageable": "delete[] {name}.data;",
        "device": "Check(cudaFree({name}.data));",
    }
    streams: ClassVar = {
        "non-blocking": "Check(cudaStreamCreateWithFlags(&{name}, cudaStreamNonBlocking));",
        "blocking": "Check(cudaStreamCreateWithFlags(&{name}, cudaStreamDefault));",
        "legacy": "{name} = cudaStreamLegacy;",
    }
    lines_of = staticmethod(cuda_lines)

    def block(self, head: str, body: list[str]) -> list[str]:
        return [f"{head} {{", *indent("\n".join(body), "  ").splitlines(), "}"]

    def within(self, stream: str, body: list[str]) -> list[str]:  # noqa: ARG002 - each call names its own
        return body

    def loop(self, name: str, first: str, end: str, body: list[str]) -> list[str]:
        return self.block(f"for (int {name} = {first}; {name} < {end}; ++{name})", body)

    def when(self, conditions: Sequence[str], body: list[str]) -> list[str]:
        return self.block(f"if ({' && '.join(conditions)})", body)

    def copy(self, direction: Direction, card: str, host: str, stream: str, is_blocking: bool) -> list[str]:
        to, source = (card, host) if direction == "h2d" else (host, card)
        wait = [self.synchronise_stream.format(name=stream)] if is_blocking else []
        return [f"Put({to}, {source}, {stream});", *wait]

    def new_array(self, array: Array, new: str) -> list[str]:
        size = f"{{nullptr, {array.size}}}"
        declared = (
            f"std::vector<Floats> {array.name}(buffers, {size});" if array.has_slots else f"Floats {array.name}{size};"
        )
        return [declared, *(line for call in new.splitlines() for line in self.each(array, call))]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        arrays = [*(kernels.sources if is_first else kernels.again), *kernels.tables, *kernels.targets]
        words = ", ".join([*arrays, self.rounds_of(kernels.calls[k].weight)])
        return f"StandIn<<<(n + 255) / 256, 256, 0, stream>>>({words});"

    def parts(self) -> Parts:
        plan, defaults = self.plan, self.defaults("0")
        values = {name: f'given["--{name}"]' for name in defaults}
        values |= {name: f"std::min({values[name]}, chunks)" for name in ("streams", "buffers") if name in values}
        fixed = plan.is_pattern and "streams" not in plan.defaults
        most = f"over {plan.most_chunks} chunks"
        constants = self.common_parts()["constants"]
        return {
            "options": "".join(f" --{name} {value}" for name, value in plan.defaults.items()),
            "constants": ["", *constants] if constants else [],
            "cut": CUDA_CUT if plan.cuts else "",
            "kernels": CUDA_KERNELS if plan.kernels else "",
            **(self._of_kernels(plan.kernels) if plan.kernels else {}),
            "host_work": CUDA_HOST_WORK if plan.has_host_work else "",
            "defaults": [f'given["--{name}"] = {value};' for name, value in defaults.items()],
            "known": str(len(defaults)),
            "too_many": f' || given["--chunks"] > {plan.most_chunks}' if plan.is_pattern else "",
            "says": f"unknown, below 1, or {most}" if plan.is_pattern else "unknown, or below 1",
            "arguments": [f"int {name} = {value};" for name, value in values.items()],
            "streams": self._streams(plan.kinds or ("non-blocking",)),
            "output": [
                line for array, text in self.results() for line in self.each(array, f"output.push_back({text});")
            ],
            "rounds": CUDA_ROUNDS if self.timed else "",
            "captured": CUDA_GRAPH if plan.is_graph else "",
            "program": "Check(cudaGraphLaunch(run, pool[0]))" if plan.is_graph else "pipeline(pool)",
            "found": f', \\"streams\\": {self.number}' if fixed else "",
            "freed": [line for array in plan.memory for line in self.each(array, self.freed[array.place])],
        }

    def _of_kernels(self, kernels: ChunkKernels) -> Parts:
        read, targets = [*kernels.sources, *kernels.tables], kernels.new_targets
        loads = [f"if (i < {name}.size) t += {name}.data[i];" for name in kernels.sources]
        loads += [f"t += {name}.data[0];" for name in kernels.tables]
        return {
            "stand_in": ", ".join(f"Floats {name}" for name in (*read, *targets)),
            "loads": [*loads, *([f"t /= {len(read)};"] if len(read) > 1 else [])],
            "stores": [f"if (i < {name}.size) {name}.data[i] = t;" for name in targets],
            "names": ", ".join(f"Floats {name}" for name in kernels.names),
            "lengths": ", ".join(f"{name}.size" for name in kernels.names if name not in kernels.tables),
        }

    def _streams(self, kinds: Sequence[str]) -> list[str]:
        declared = f"std::vector<cudaStream_t> pool({self.number});"
        if len({*kinds}) == 1:
            return [declared, *self.block("for (auto& s : pool)", [self.streams[kinds[0]].format(name="s")])]
        return [declared, *(self.streams[kind].format(name=f"pool[{k}]") for k, kind in enumerate(kinds))]
