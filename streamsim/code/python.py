"""Programs in Python, with the calls of CuPy or PyTorch."""

from abc import abstractmethod
from textwrap import wrap

from streamsim.code.fitted import python_lines
from streamsim.code.plans import ChunkKernels, CodePlan
from streamsim.code.steps import CUPY, CUPY_GRAPH, PYTORCH, Steps
from streamsim.code.templates import (
    CUPY_COPY,
    PYTHON,
    PYTHON_CUT,
    PYTHON_FUNCTION,
    PYTHON_HOST_WORK,
    PYTHON_KERNELS,
    PYTHON_ROUNDS,
    Parts,
)
from streamsim.code.writer import Writer
from streamsim.errors import InputError

MOST_TORCH_STREAMS = 32  # the size of PyTorch's pool: beyond it, streams are used again
MOST_TORCH_SOURCES = 3  # the most that one element-wise operation reads: addcmul


class Python(Writer):
    """A writer of plans in Python. The classes of the libraries write what differs between them."""

    template, lines_of = PYTHON, staticmethod(python_lines)

    @abstractmethod
    def imports(self) -> list[str]:
        """Return the imports of the library."""

    @abstractmethod
    def stand_in(self, kernels: ChunkKernels) -> list[str]:
        """Return the stand-in for the user's kernels."""

    @abstractmethod
    def captured(self, body: list[str]) -> list[str]:
        """Return the lines that capture the body as ``graph``."""

    def parts(self) -> Parts:
        plan, kernels, say = self.plan, self.plan.kernels, self.to.say
        functions = [PYTHON_HOST_WORK] * plan.has_host_work + [PYTHON_CUT] * bool(plan.cuts)
        functions += [CUPY_COPY] * (plan.is_graph and self.name == "cupy")
        new = [say(f"stream {kind}") for kind in plan.kinds]
        pool = f"{new[0]} for _ in range({self.number})" if len({*new}) == 1 else ", ".join(new)
        return {
            "imports": self.imports(),
            "defaults": ", ".join(f'"{name}": {value}' for name, value in self.defaults.items()),
            "arguments": ", ".join(self.defaults),
            "output": ", ".join(self.results()),
            "kernels": PYTHON_KERNELS if kernels else "",
            "stand_in": self.stand_in(kernels) if kernels else [],
            "function": PYTHON_FUNCTION if plan.is_pattern else "",
            "names": ", ".join(kernels.names) if kernels else "",
            "functions": "".join(functions),
            "streams": [f"pool = [{pool}]"],
            "rounds": PYTHON_ROUNDS if self.timed else "",
            "work": '"work": work, ' if self.timed else "",
            "captured": self._captured() if plan.is_graph else [],
            "program": say("replay") if plan.is_graph else "pipeline, pool",
        }

    def _captured(self) -> list[str]:
        """Return the lines that capture the pipeline as a graph, which begins and ends in the first stream."""
        fork, join = (self.to.say("after", stream=a, other=b) for a, b in (("s", "pool[0]"), ("pool[0]", "s")))
        others = "for s in pool[1:]"
        return self.captured([*self.to.block(others, [fork]), "pipeline(pool)", *self.to.block(others, [join])])


class CuPy(Python):
    """Programs with CuPy's arrays, whose kernels are ElementwiseKernels."""

    name, phrases = "cupy", CUPY

    def __init__(self, plan: CodePlan) -> None:
        super().__init__(plan)
        self.to = Steps(CUPY_GRAPH if plan.is_graph else CUPY)

    def imports(self) -> list[str]:
        is_pinned = any(memory.place == "pinned" for memory in self.plan.memory)
        names = ["cupy as cp", *(["cupyx"] if is_pinned else []), "numpy as np"]
        return [*(f"import {name}" for name in names), "", "RNG = np.random.default_rng(0)"]

    def stand_in(self, kernels: ChunkKernels) -> list[str]:
        raw = "" if kernels.is_even else "raw "
        read = [f"{raw}float32 {name}" for name in kernels.sources]
        read += [f"raw float32 {name}" for name in kernels.tables]
        written = [f"{raw}float32 {name}" for name in kernels.new_targets]
        values = [f"(i < {name}.size() ? {name}[i] : 0)" if raw else name for name in kernels.sources]
        values += [f"{name}[i % {name}.size()]" for name in kernels.tables]
        mean = values[0] if len(values) == 1 else f"({' + '.join(values)}) / {len(values)}"
        stores = [f"if (i < {name}.size()) {name}[i] = t;" if raw else f"{name} = t;" for name in kernels.new_targets]
        code = [f"float t = {mean};", "for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);", *stores]
        strings = [*_string(", ".join([*read, "int32 rounds"])), *_string(", ".join(written)), *_string(" ".join(code))]
        return ["stand_in = cp.ElementwiseKernel(", *strings, ")"]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        sizes = ", ".join(f"{name}.size" for name in dict.fromkeys((*kernels.sources, *kernels.targets)))
        size = [] if kernels.is_even else [f"size=max({sizes})"]
        read = [*(kernels.sources if is_first else kernels.again), *kernels.tables]
        return f"stand_in({', '.join([*read, self.to.rounds(kernels.calls[k].weight), *kernels.targets, *size])})"

    def captured(self, body: list[str]) -> list[str]:
        return ["pool[0].begin_capture()", *body, "graph = pool[0].end_capture()"]


def _string(text: str) -> list[str]:
    """Return the lines of an argument that is a string."""
    *lines, last = wrap(text, 80, break_on_hyphens=False)
    return [*(f'    "{line} "' for line in lines), f'    "{last}",']


class PyTorch(Python):
    """Programs with PyTorch's tensors, whose kernels are eager operations with an ``out`` tensor."""

    name, phrases = "pytorch", PYTORCH

    def __init__(self, plan: CodePlan) -> None:
        streams = plan.defaults.get("streams", len(plan.kinds))
        if streams > MOST_TORCH_STREAMS:
            raise InputError(
                f"streams = {streams}: PyTorch has {MOST_TORCH_STREAMS} and then gives the same ones again; use fewer,"
                " or --as cupy"
            )
        if "blocking" in plan.kinds:
            raise InputError(
                f"streams[{plan.kinds.index('blocking')}] = 'blocking': the streams of PyTorch are non-blocking; write"
                " it --as cupy"
            )
        chunks = plan.defaults.get("chunks", 1)
        least = min((-(-plan.sizes[cut.size] // cut.unit) for cut in plan.cuts), default=chunks)
        if chunks > least:
            raise InputError(
                f"chunks = {chunks}: an operation of PyTorch writes a piece of every array, and one of them has pieces"
                f" for {least} only; use fewer, or --as cupy"
            )
        kernels = plan.kernels
        read = len(kernels.sources + kernels.tables) if kernels else 0
        if plan.is_pattern and read > MOST_TORCH_SOURCES:
            raise InputError(
                f"{read} input arrays: no element-wise operation of PyTorch reads more than {MOST_TORCH_SOURCES}; write"
                " it --as cupy"
            )
        if kernels and read > 1 and sum(call.launches for call in kernels.calls) == 1:
            plan = plan._replace(timed_kernels=None)  # its only operation has no rounds
        super().__init__(plan._replace(most_chunks=min(plan.most_chunks, least)))

    def imports(self) -> list[str]:
        return ["import torch"]

    def stand_in(self, kernels: ChunkKernels) -> list[str]:  # noqa: ARG002 - it is one and the same
        return ["stand_in = torch.special.legendre_polynomial_p"]

    def launches(self, kernels: ChunkKernels) -> list[str]:
        sizes = ", ".join(f"{name}.numel()" for name in dict.fromkeys((*kernels.sources, *kernels.targets)))
        return [*([] if kernels.is_even else [f"n = min({sizes})"]), *super().launches(kernels)]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        cut, rounds = "" if kernels.is_even else "[:n]", self.to.rounds(kernels.calls[k].weight)
        target = f"{kernels.targets[k % len(kernels.targets)]}{cut}"
        if not is_first:
            source = f"{kernels.targets[0]}{cut}" if k < len(kernels.targets) else target
            return f"stand_in({source}, {rounds}, out={target})"
        sources = [*(f"{name}{cut}" for name in kernels.sources), *(f"{name}[:1]" for name in kernels.tables)]
        known = {1: ("stand_in", rounds), 2: ("torch.lerp", "0.5"), 3: ("torch.addcmul", "value=-0.5")}
        operation, more = known[len(sources)]
        return f"{operation}({', '.join([*sources, more, f'out={target}'])})"

    def captured(self, body: list[str]) -> list[str]:
        head = "with torch.cuda.graph(graph, stream=pool[0])"
        return ["graph = torch.cuda.CUDAGraph()", *self.to.block(head, body)]
