"""Programs in Python, with the calls of CuPy or PyTorch."""

from abc import abstractmethod
from collections.abc import Sequence
from textwrap import indent, wrap
from typing import ClassVar

from streamsim.code.fitted import python_lines
from streamsim.code.plans import Array, ChunkKernels, CodePlan
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
from streamsim.program import Direction

MOST_TORCH_STREAMS = 32  # the size of PyTorch's pool: beyond it, streams are used again
MOST_TORCH_SOURCES = 3  # the most that one element-wise operation reads: addcmul


class Python(Writer):
    """A writer of plans in Python. The classes of the libraries write what differs between them."""

    template, comment = PYTHON, "#"
    let, part = "{name} = {value}", "{name}[{start}:{stop}]"
    constant = "{name} = {value}"
    record, wait = "{event}.record({stream})", "{stream}.wait_event({event})"
    synchronise_stream = synchronise_event = "{name}.synchronize()"
    host_work = "host_work({seconds})"
    kernels, rounds = "kernels({pieces}, work)", "max(1, round({weight} * work))"
    for_each = "for d in {name}"
    cut, heads = "cut({size}, {unit}, chunks)", "[slice(p.stop - p.start) for p in {name}]"
    lines_of = staticmethod(python_lines)
    imports: tuple[str, ...]
    settled: tuple[str, ...] = ()  # before outputs are compared
    in_stream: str  # the head of a block of calls in {stream}
    replayed: str  # the program, as a graph
    equal: str
    after: str  # the {stream} waits for all that is in the {other}

    @abstractmethod
    def stand_in(self, kernels: ChunkKernels) -> list[str]:
        """Return the stand-in for the user's kernels."""

    @abstractmethod
    def captured(self, body: list[str]) -> list[str]:
        """Return the lines that capture the body as ``graph``."""

    def block(self, head: str, body: list[str]) -> list[str]:
        return [f"{head}:", *indent("\n".join(body), "    ").splitlines()]

    def within(self, stream: str, body: list[str]) -> list[str]:
        return self.block(self.in_stream.format(stream=stream), body)

    def loop(self, name: str, first: str, end: str, body: list[str]) -> list[str]:
        return self.block(f"for {name} in range({end if first == '0' else f'{first}, {end}'})", body)

    def when(self, conditions: Sequence[str], body: list[str]) -> list[str]:
        return self.block(f"if {' and '.join(conditions)}", body)

    def new_array(self, array: Array, new: str) -> list[str]:
        made = new.format(size=array.size)
        value = f"[{made} for _ in range(buffers)]" if array.has_slots else made
        return [self.let.format(name=array.name, value=value)]

    def parts(self) -> Parts:
        plan, defaults, kernels = self.plan, self.defaults("None"), self.plan.kernels
        fewer = [f"{name} = min({name}, chunks)" for name in ("streams", "buffers") if name in plan.defaults]
        output = [(array, text.format(name="d" if array.has_slots else array.name)) for array, text in self.results()]
        found = {"streams": self.number} if plan.is_pattern and "streams" not in plan.defaults else {}
        found |= {"work": "work"} if self.timed else {}
        functions = [PYTHON_HOST_WORK] * plan.has_host_work + [PYTHON_CUT] * bool(plan.cuts)
        functions += [CUPY_COPY] * (plan.is_graph and self.name == "cupy")
        return {
            "imports": list(self.imports),
            "defaults": ", ".join(f'"{name}": {value}' for name, value in defaults.items()),
            "arguments": ", ".join(defaults),
            "kernels": PYTHON_KERNELS if kernels else "",
            "stand_in": self.stand_in(kernels) if kernels else [],
            "function": PYTHON_FUNCTION if plan.is_pattern else "",
            "names": ", ".join(kernels.names) if kernels else "",
            "functions": "".join(functions),
            "fewer": fewer,
            "streams": self._streams(plan.kinds or ("non-blocking",)),
            "output": ", ".join(f"*({one} for d in {array.name})" if array.has_slots else one for array, one in output),
            "rounds": PYTHON_ROUNDS if self.timed else "",
            "settled": list(self.settled),
            "captured": self._captured() if plan.is_graph else [],
            "program": self.replayed if plan.is_graph else "pipeline, pool",
            "equal": self.equal,
            "found": "".join(f'"{name}": {value}, ' for name, value in found.items()),
            "too_many": f' or given["chunks"] > {plan.most_chunks}' if plan.is_pattern else "",
            "hint": f", and at most {plan.most_chunks} chunks" if plan.is_pattern else "",
        }

    def _streams(self, kinds: Sequence[str]) -> list[str]:
        new = [self.streams[kind] for kind in kinds]
        value = f"{new[0]} for _ in range({self.number})" if len({*new}) == 1 else ", ".join(new)
        return [f"pool = [{value}]"]

    def _captured(self) -> list[str]:
        """Return the lines that capture the pipeline as a graph, which begins and ends in the first stream."""
        fork, join = (self.after.format(stream=a, other=b) for a, b in (("s", "pool[0]"), ("pool[0]", "s")))
        others = "for s in pool[1:]"
        return self.captured([*self.block(others, [fork]), "pipeline(pool)", *self.block(others, [join])])


class CuPy(Python):
    """Programs with CuPy's arrays, whose kernels are ElementwiseKernels."""

    name = "cupy"
    in_stream, launch = "with {stream}", "stand_in({source}, {rounds}, {target})"
    synchronise = "cp.cuda.Device().synchronize()"
    event = "cp.cuda.Event(disable_timing=True)"
    events = f"[{event} for _ in range({{number}})]"
    streams: ClassVar = {
        "non-blocking": "cp.cuda.Stream(non_blocking=True)",
        "blocking": "cp.cuda.Stream(non_blocking=False)",
        "legacy": "cp.cuda.Stream.null",
    }
    after = "{stream}.wait_event({other}.record())"
    replayed, equal = "graph.launch, pool[0]", "np.array_equal"
    new: ClassVar = {
        "pinned": "cupyx.empty_pinned({size}, np.float32)",
        "pageable": "np.empty({size}, np.float32)",
        "device": "cp.empty({size}, np.float32)",
        "resident": "cp.asarray(RNG.random({size}, np.float32))",
    }
    random = "RNG.random(out={name}, dtype=np.float32)"
    saved, fetched = "{name}.copy()", "{name}.get()"
    cleared, spoilt, not_a_number = "{name}.fill(0)", "{name}.fill({value})", "np.nan"
    restored = "{name}[:] = start_{name}"

    def __init__(self, plan: CodePlan) -> None:
        super().__init__(plan)
        is_pinned = any(memory.place == "pinned" for memory in plan.memory)
        imports = "import cupy as cp", *(["import cupyx"] if is_pinned else []), "import numpy as np"
        self.imports = (*imports, "", "RNG = np.random.default_rng(0)")

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
        return f"stand_in({', '.join([*read, self.rounds_of(kernels.calls[k].weight), *kernels.targets, *size])})"

    def copy(self, direction: Direction, card: str, host: str, stream: str, is_blocking: bool) -> list[str]:
        if self.plan.is_graph:  # set, get and similar methods cannot be captured
            return [f"copy({card}, {host})" if direction == "h2d" else f"copy({host}, {card})"]
        if direction == "d2h":
            return [f"{card}.get(out={host}{'' if is_blocking else ', blocking=False'})"]
        wait = [self.synchronise_stream.format(name=stream)] if is_blocking else []
        return [f"{card}.set({host})", *wait]

    def captured(self, body: list[str]) -> list[str]:
        return ["pool[0].begin_capture()", *body, "graph = pool[0].end_capture()"]


def _string(text: str) -> list[str]:
    """Return the lines of an argument that is a string."""
    *lines, last = wrap(text, 80, break_on_hyphens=False)
    return [*(f'    "{line} "' for line in lines), f'    "{last}",']


class PyTorch(Python):
    """Programs with PyTorch's tensors, whose kernels are eager operations with an ``out`` tensor."""

    name, imports = "pytorch", ("import torch",)
    # PyTorch's threads that compare arrays look for more work for some 5 ms. Beside 16 such threads, the host's calls
    # take 1.4 times as long.
    settled = ("torch.set_num_threads(1)  # those that compare outputs spin on beside the calls",)
    in_stream, launch = "with torch.cuda.stream({stream})", "stand_in({source}, {rounds}, out={target})"
    synchronise = "torch.cuda.synchronize()"
    event, events = "torch.cuda.Event()", "[torch.cuda.Event() for _ in range({number})]"
    streams: ClassVar = {"non-blocking": "torch.cuda.Stream()", "legacy": "torch.cuda.default_stream()"}
    after = "{stream}.wait_stream({other})"
    replayed, equal = "graph.replay", "torch.equal"
    new: ClassVar = {
        "pinned": "torch.empty({size}, pin_memory=True)",
        "pageable": "torch.empty({size})",
        "device": 'torch.empty({size}, device="cuda")',
        "resident": 'torch.rand({size}, device="cuda")',
    }
    random = "{name}.uniform_()"
    saved, fetched = "{name}.clone()", "{name}.cpu()"
    cleared, spoilt, not_a_number = "{name}.zero_()", "{name}.fill_({value})", 'float("nan")'
    restored = "{name}.copy_(start_{name})"

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
        super().__init__(plan._replace(most_chunks=min(plan.most_chunks, least)))
        kernels = plan.kernels
        read = len(kernels.sources + kernels.tables) if kernels else 0
        if plan.is_pattern and read > MOST_TORCH_SOURCES:
            raise InputError(
                f"{read} input arrays: no element-wise operation of PyTorch reads more than {MOST_TORCH_SOURCES}; write"
                " it --as cupy"
            )
        if kernels and read > 1 and sum(call.launches for call in kernels.calls) == 1:
            self.timed = None  # its only operation has no rounds

    def stand_in(self, kernels: ChunkKernels) -> list[str]:  # noqa: ARG002 - it is one and the same
        return ["stand_in = torch.special.legendre_polynomial_p"]

    def _launches(self, kernels: ChunkKernels) -> list[str]:
        sizes = ", ".join(f"{name}.numel()" for name in dict.fromkeys((*kernels.sources, *kernels.targets)))
        return [*([] if kernels.is_even else [f"n = min({sizes})"]), *super()._launches(kernels)]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        cut, rounds = "" if kernels.is_even else "[:n]", self.rounds_of(kernels.calls[k].weight)
        target = f"{kernels.targets[k % len(kernels.targets)]}{cut}"
        if not is_first:
            source = f"{kernels.targets[0]}{cut}" if k < len(kernels.targets) else target
            return f"stand_in({source}, {rounds}, out={target})"
        sources = [*(f"{name}{cut}" for name in kernels.sources), *(f"{name}[:1]" for name in kernels.tables)]
        operation, more = {1: ("stand_in", rounds), 2: ("torch.lerp", "0.5"), 3: ("torch.addcmul", "value=-0.5")}[
            len(sources)
        ]
        return f"{operation}({', '.join([*sources, more, f'out={target}'])})"

    def copy(self, direction: Direction, card: str, host: str, stream: str, is_blocking: bool) -> list[str]:  # noqa: ARG002 - a copy that blocks waits by itself
        to, source = (card, host) if direction == "h2d" else (host, card)
        return [f"{to}.copy_({source}{'' if is_blocking else ', non_blocking=True'})"]

    def captured(self, body: list[str]) -> list[str]:
        head = "with torch.cuda.graph(graph, stream=pool[0])"
        return ["graph = torch.cuda.CUDAGraph()", *self.block(head, body)]
