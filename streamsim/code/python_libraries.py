"""The writers for CuPy and PyTorch."""

from collections.abc import Callable, Sequence
from textwrap import wrap

from streamsim.code import plans
from streamsim.code.python import INDENT, WIDTH, Python, call
from streamsim.errors import InputError

MOST_TORCH_STREAMS = 32  # the size of PyTorch's pool: beyond it, streams are used again
MOST_TORCH_SOURCES = 3  # the most that one element-wise operation reads: addcmul


def _called(kernels: plans.ChunkKernels, first: list[str], later: Callable[[int], list[str]]) -> list[str]:
    """Return the launches of a chunk, with comments: the ``first`` launch, then those of kernel k, ``later(k)``."""
    lines: list[str] = []
    for k, kernel in enumerate(kernels.calls):
        count = kernel.launches - (k == 0)
        calls = first if k == 0 else []
        if count > 1:
            calls = [*calls, f"for _ in range({count}):", *(INDENT + line for line in later(k))]
        elif count:
            calls = [*calls, *later(k)]
        beside = f"{calls[0]}  # {kernel.words}"
        is_short = len(calls) == 1 and len(beside) <= WIDTH - 4
        lines += [beside] if is_short else [f"# {kernel.words}", *calls]
    return lines


class CuPy(Python):
    """Programs with CuPy's arrays, whose kernels are ElementwiseKernels."""

    name = "cupy"
    synchronise = "cp.cuda.Device().synchronize()"
    new_event = "cp.cuda.Event(disable_timing=True)"
    after = "{0}.wait_event({1}.record())"
    cleared = "array.fill(0)"
    in_stream, launched = "with {0}", ("{0}", "{2}", "{1}")
    replay = "graph.launch, pool[0]"
    equal = "all(map(np.array_equal, output, wanted))"
    saved = "{}.copy()"
    fetched = "{}.get()"
    generator = ("rng = np.random.default_rng(0)",)

    def __init__(self, plan: plans.CodePlan) -> None:
        super().__init__(plan)
        is_pinned = any(memory.place == "pinned" for memory in plan.memory)
        self.imports = ("import cupy as cp", *(["import cupyx"] if is_pinned else []), "import numpy as np")

    def stand_in(self, kernels: plans.ChunkKernels) -> list[str]:
        raw = "" if kernels.is_even else "raw "
        read = [f"{raw}float32 {name}" for name in kernels.sources]
        read += [f"raw float32 {name}" for name in kernels.tables]
        targets = kernels.new_targets
        values = [f"(i < {name}.size() ? {name}[i] : 0)" if raw else name for name in kernels.sources]
        values += [f"{name}[i % {name}.size()]" for name in kernels.tables]
        mean = values[0] if len(values) == 1 else f"({' + '.join(values)}) / {len(values)}"
        stores = [" = ".join([*targets, "t;"])]
        if raw:
            stores = [f"if (i < {name}.size()) {name}[i] = t;" for name in targets]
        loop = "for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);"
        code = _string([f"float t = {mean};", loop, *stores])
        names = [
            *_string(_listed([*read, "int32 rounds"])),
            *_string(_listed([f"{raw}float32 {name}" for name in targets])),
        ]
        return ["stand_in = cp.ElementwiseKernel(", *names, *code, ")"]

    def launches(self, kernels: plans.ChunkKernels) -> list[str]:
        targets, tables = list(kernels.targets), list(kernels.tables)
        sizes = ", ".join(f"{name}.size" for name in dict.fromkeys((*kernels.sources, *targets)))
        size = [] if kernels.is_even else [f"size=max({sizes})"]

        def launch(sources: Sequence[str], k: int) -> list[str]:
            words = [*sources, *tables, self.rounds(kernels.calls[k].weight), *targets, *size]
            return call("stand_in", words, WIDTH - 8)

        return _called(kernels, launch(kernels.sources, 0), lambda k: launch(kernels.again, k))

    def stream(self, kind: str) -> str:
        if kind == "legacy":
            return "cp.cuda.Stream.null"
        return f"cp.cuda.Stream(non_blocking={kind == 'non-blocking'})"

    def copy(self, step: plans.CopyStep, stream: str, depth: int) -> list[str]:
        card, host = self.piece(step.card), self.piece(step.host)
        if self.plan.is_graph:  # set, get and similar methods cannot be captured
            return call("copy", [host, card] if step.direction == "d2h" else [card, host], WIDTH - 4 * depth)
        if step.direction == "d2h":
            more = [] if step.is_blocking else ["blocking=False"]
            return call(f"{card}.get", [f"out={host}", *more], WIDTH - 4 * depth)
        wait = [f"{stream}.synchronize()"] if step.is_blocking else []
        return [*call(f"{card}.set", [host], WIDTH - 4 * depth), *wait]

    def functions(self) -> list[str]:
        if not self.plan.is_graph:
            return []
        return [
            "",
            "",
            "def copy(to, src):  # as set and get, which cannot be captured",
            "    ends = (x.data.ptr if type(x) is cp.ndarray else x.ctypes.data for x in (to, src))",
            "    cp.cuda.runtime.memcpyAsync(*ends, src.nbytes, 4, cp.cuda.get_current_stream().ptr)",
        ]

    def host(self, memory: plans.Array, size: str) -> str:
        return f"{'cupyx.empty_pinned' if memory.place == 'pinned' else 'np.empty'}({size}, np.float32)"

    def begun(self, memory: plans.Array) -> list[str]:
        return [f"rng.random(out={memory.name}, dtype=np.float32)"] if memory.start == "random" else []

    def card(self, memory: plans.Array, size: str) -> str:
        if memory.start == "resident":
            return f"cp.asarray(rng.random({size}, np.float32))"
        return f"cp.empty({size}, np.float32)"

    def fresh(self, memory: Sequence[plans.Array]) -> list[str]:
        value = {"nothing": "np.nan", "blank": "-1"}.get(memory[0].start)
        together = " = ".join([*(f"{m.name}[:]" for m in memory), str(value)])
        if value and len(together) <= WIDTH - 8:
            return [together]
        return [f"{m.name}[:] = {value or f'start_{m.name}'}" for m in memory]

    def capture(self, body: list[str]) -> list[str]:
        return ["pool[0].begin_capture()", *body, "graph = pool[0].end_capture()"]


def _listed(words: list[str]) -> list[str]:
    return [*(f"{word}," for word in words[:-1]), words[-1]]


def _string(words: list[str]) -> list[str]:
    """Return the lines of an argument that is a string of these words, with as many in each line as fit."""
    lines: list[str] = []
    for part in (part for word in words for part in wrap(word, WIDTH - 8, break_on_hyphens=False)):
        longer = f"{lines[-1]} {part}" if lines else part
        lines[-1:] = [longer] if len(longer) <= WIDTH - 8 or not lines else [lines[-1], part]
    return [*(f'    "{line} "' for line in lines[:-1]), f'    "{lines[-1]}",']


# PyTorch's threads that compare arrays look for more work for some 5 ms. Beside 16 such threads, the host's calls take
# 1.4 times as long.
SINGLE = "torch.set_num_threads(1)  # those that compare outputs spin on beside the calls"


class PyTorch(Python):
    """Programs with PyTorch's tensors, whose kernels are eager operations with an ``out`` tensor."""

    name = "pytorch"
    imports = ("import torch",)
    settled = (SINGLE,)
    synchronise = "torch.cuda.synchronize()"
    new_event = "torch.cuda.Event()"
    after = "{0}.wait_stream({1})"
    cleared = "array.zero_()"
    in_stream, launched = "with torch.cuda.stream({0})", ("{0}", "{2}", "out={1}")
    replay = "graph.replay"
    equal = "all(map(torch.equal, output, wanted))"
    saved = "{}.clone()"
    fetched = "{}.cpu()"

    def __init__(self, plan: plans.CodePlan) -> None:
        super().__init__(plan)
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
        least = min((-(-cut.floats // cut.unit) for cut in plan.cuts), default=chunks)
        if chunks > least:
            raise InputError(
                f"chunks = {chunks}: an operation of PyTorch writes a piece of every array, and one of them has pieces"
                f" for {least} only; use fewer, or --as cupy"
            )
        self.plan = plan._replace(most_chunks=min(plan.most_chunks, least))
        kernels = plan.kernels
        if kernels and plan.is_pattern and len(kernels.sources + kernels.tables) > MOST_TORCH_SOURCES:
            raise InputError(
                f"{len(kernels.sources + kernels.tables)} input arrays: no element-wise operation of PyTorch reads"
                f" more than {MOST_TORCH_SOURCES}; write it --as cupy"
            )
        if kernels and kernels.launches == 1 and len(kernels.sources + kernels.tables) > 1:
            self.timed_kernels = None  # its only operation has no rounds

    def stand_in(self, kernels: plans.ChunkKernels) -> list[str]:  # noqa: ARG002 - it is one and the same
        return ["stand_in = torch.special.legendre_polynomial_p"]

    def launches(self, kernels: plans.ChunkKernels) -> list[str]:
        cut = "" if kernels.is_even else "[:n]"
        arrays = tuple(dict.fromkeys((*kernels.sources, *kernels.targets)))
        sources = [*(f"{name}{cut}" for name in kernels.sources), *(f"{name}[:1]" for name in kernels.tables)]
        targets = [f"{name}{cut}" for name in kernels.targets]

        def later(k: int) -> list[str]:
            target = targets[k % len(targets)]
            source = targets[0] if k < len(targets) else target
            return call("stand_in", [source, self.rounds(kernels.calls[k].weight), f"out={target}"], WIDTH - 8)

        operation, more = {1: ("stand_in", [self.rounds(kernels.calls[0].weight)]), 2: ("torch.lerp", ["0.5"])}.get(
            len(sources), ("torch.addcmul", ["value=-0.5"])
        )
        first = call(operation, [*sources, *more, f"out={targets[0]}"], WIDTH - 4)
        smallest = call("n = min", [f"{name}.numel()" for name in arrays], WIDTH - 4) if cut else []
        return [*smallest, *_called(kernels, first, later)]

    def stream(self, kind: str) -> str:
        return "torch.cuda.default_stream()" if kind == "legacy" else "torch.cuda.Stream()"

    def copy(self, step: plans.CopyStep, stream: str, depth: int) -> list[str]:  # noqa: ARG002 - a copy that blocks waits by itself
        card, host = self.piece(step.card), self.piece(step.host)
        to, source = (card, host) if step.direction == "h2d" else (host, card)
        more = [] if step.is_blocking else ["non_blocking=True"]
        return call(f"{to}.copy_", [source, *more], WIDTH - 4 * depth)

    def host(self, memory: plans.Array, size: str) -> str:
        made = "torch.rand" if memory.start == "random" else "torch.empty"
        pinned = ", pin_memory=True" if memory.place == "pinned" else ""
        return f"{made}({size}{pinned})"

    def card(self, memory: plans.Array, size: str) -> str:
        return f'torch.{"rand" if memory.start == "resident" else "empty"}({size}, device="cuda")'

    def fresh(self, memory: Sequence[plans.Array]) -> list[str]:
        if memory[0].start == "random":
            return [f"{m.name}.copy_(start_{m.name})" for m in memory]
        value = 'float("nan")' if memory[0].start == "nothing" else "-1"
        return [f"{m.name}.fill_({value})" for m in memory]

    def capture(self, body: list[str]) -> list[str]:
        return [
            "graph = torch.cuda.CUDAGraph()",
            "with torch.cuda.graph(graph, stream=pool[0]):",
            *(INDENT + line for line in body),
        ]
