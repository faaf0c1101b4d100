"""Programs in CUDA C++."""

from streamsim.code import steps
from streamsim.code.fitted import cuda_lines
from streamsim.code.plans import ChunkKernels
from streamsim.code.templates import CUDA, CUDA_CUT, CUDA_GRAPH, CUDA_HOST_WORK, CUDA_KERNELS, CUDA_ROUNDS, Parts
from streamsim.code.writer import Writer


class Cuda(Writer):
    """A writer of plans in CUDA C++."""

    name, phrases = "cuda-c++", steps.CUDA
    template, lines_of = CUDA, staticmethod(cuda_lines)

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        arrays = [*(kernels.sources if is_first else kernels.again), *kernels.tables, *kernels.targets]
        words = ", ".join([*arrays, self.to.rounds(kernels.calls[k].weight)])
        return f"StandIn<<<(n + 255) / 256, 256, 0, stream>>>({words});"

    def parts(self) -> Parts:
        plan = self.plan
        return {
            "options": "".join(f" --{name} {value}" for name, value in plan.defaults.items()),
            "cut": CUDA_CUT if plan.cuts else "",
            "kernels": CUDA_KERNELS if plan.kernels else "",
            **(self._of_kernels(plan.kernels) if plan.kernels else {}),
            "host_work": CUDA_HOST_WORK if plan.has_host_work else "",
            "defaults": [f'given["--{name}"] = {value};' for name, value in self.defaults.items()],
            "output": [line for text in self.results() for line in text.splitlines()],
            "known": str(len(self.defaults)),
            "arguments": [f'int {name} = given["--{name}"];' for name in self.defaults],
            "streams": self._streams(plan.kinds),
            "rounds": CUDA_ROUNDS if self.timed else "",
            "captured": CUDA_GRAPH if plan.is_graph else "",
            "program": "Check(cudaGraphLaunch(run, pool[0]))" if plan.is_graph else "pipeline(pool)",
            "freed": [line for array in plan.memory for line in self.each(array, f"freed {array.place}")],
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

    def _streams(self, kinds: tuple[str, ...]) -> list[str]:
        declared = f"std::vector<cudaStream_t> pool({self.number});"
        if len({*kinds}) == 1:
            return [declared, *self.to.block("for (auto& s : pool)", [self.to.say(f"stream {kinds[0]}", name="s")])]
        return [declared, *(self.to.say(f"stream {kind}", name=f"pool[{k}]") for k, kind in enumerate(kinds))]
