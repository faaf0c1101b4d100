"""Writers of plans in CuPy, PyTorch and CUDA C++: what they share, and what each language writes in its own way."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from streamsim import transform
from streamsim.code import templates
from streamsim.code.loops import LoopPlan
from streamsim.code.plans import LANGUAGES, ROUNDS_UNTIMED, VERIFIED, Array, ChunkKernels, Language, Plan
from streamsim.code.steps import CUDA, CUPY, CUPY_GRAPH, PYTORCH, Phrases, StepWriter
from streamsim.code.templates import Parts
from streamsim.code.written_out import SchedulePlan
from streamsim.errors import InputError, check_choice
from streamsim.program import Config, Schedule, Workload

MOST_TORCH_STREAMS = 32  # the size of PyTorch's pool: beyond it, streams are used again
MOST_TORCH_SOURCES = 3  # the most that one element-wise operation reads: addcmul


class Writer(StepWriter, ABC):
    """A writer of a plan in a language."""

    name: str  # of the language
    template: str

    def __init__(self, plan: Plan, phrases: Phrases) -> None:
        super().__init__(phrases)
        self.plan = plan
        self.number = "streams" if "streams" in plan.defaults else str(plan.streams)
        has_fixed_streams = plan.is_pattern and "streams" not in plan.defaults
        self.found = self.say("fixed streams", number=self.number) if has_fixed_streams else ""
        rounds = self.say("unknown rounds") if plan.kernels_s else str(ROUNDS_UNTIMED)
        self.defaults: dict[str, object] = {**plan.defaults, "repeat": 10} | ({"work": rounds} if plan.kernels else {})

    def text(self) -> str:
        """Return the program."""
        return templates.written(self.template, {**self.phrases, **self._common_parts(), **self.parts()})

    @abstractmethod
    def parts(self) -> Parts:
        """Return the parts of the template that the language writes in its own way."""

    @abstractmethod
    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        """Return a launch of kernel k of a chunk; ``is_first``: of the chunk's first kernel, the first one."""

    def said(self, line: str) -> str:
        """Return the line as a comment."""
        return f"{self.say('comment')} {line}"

    def _common_parts(self) -> Parts:
        plan, say = self.plan, self.say
        what = "Copies in, kernels and copies out, {}" if plan.is_pattern else "Copies and kernels, call by call: {}"
        measures = "The program measures it at its start: without --work it takes about KERNELS_S."
        return {
            "summary": what.format(plan.title),
            "constants": self._constants(),
            "measured": [self.said(measures)] if plan.kernels_s else [],
            "launches": self.launches(plan.kernels) if plan.kernels else [],
            "cuts": self._cuts(),
            "memory": [line for array in plan.memory for line in self._made(array)],
            "events": [
                say("let", name=name, value=say("events" if number else "event", number=number))
                for name, number in plan.events.items()
            ],
            "issue": plan.steps(self),
            "fresh": [line for array in plan.memory for line in self._fresh(array)],
            "kernels_alone": plan.kernels_alone(self) if plan.kernels_s else [],
            "number": self.number,
            "verified": str(VERIFIED),
            "found": self.found,
            "too_many": say("too many", most=plan.most_chunks) if plan.is_pattern else "",
            "hint": say("hint", most=plan.most_chunks) if plan.is_pattern else "",
            "name": f"{plan.title if plan.is_pattern else 'schedule'} in {self.name}",
        }

    def _constants(self) -> list[str]:
        sizes = [self.say("constant", name=name, value=floats) for name, floats in self.plan.sizes.items()]
        lines = [self.said("Floats of arrays."), *sizes] if sizes else []
        if self.plan.kernels_s:
            seconds = self.say("constant", name="KERNELS_S", value=f"{self.plan.kernels_s:.6g}")
            lines += [self.said(f"Seconds of {self.plan.kernels_words}."), seconds]
        return lines

    def launches(self, kernels: ChunkKernels) -> list[str]:
        """Return the launches of a chunk, with comments."""
        lines: list[str] = []
        for k, kernel in enumerate(kernels.calls):
            first = [self.launched(kernels, 0, is_first=True)] if k == 0 else []
            later, again = [self.launched(kernels, k, is_first=False)], kernel.launches - len(first)
            lines += [self.said(kernel.words), *first]
            lines += later * again if again < 2 else self.loop("_", str(again), later)
        return lines

    def _cuts(self) -> list[str]:
        plan, say = self.plan, self.say
        values = {cut.name: say("cut", size=cut.size, unit=cut.unit) for cut in plan.cuts}
        if "buffers" in plan.defaults:
            rings = dict.fromkeys(array.size.partition("[")[0] for array in plan.memory if array.is_ring)
            values |= {part.replace("part", "head", 1): say("heads", name=part) for part in rings}
            if "streams" in plan.defaults:
                values["hands_over"] = "buffers % streams != 0"
        lines = [say("fewer", name=name) for name in ("streams", "buffers") if name in plan.defaults]
        lines += [say("let", name=name, value=value) for name, value in values.items()]
        return [self.said("How the arrays are cut into chunks."), *lines, ""] if lines else []

    def _is_both(self, array: Array) -> bool:
        """Return whether the program reads the array on the host and writes its results there."""
        return array.start == "random" and array.name in self.plan.results

    def _made(self, array: Array) -> list[str]:
        """Return the lines that make an array."""
        say, name = self.say, array.name
        kind = "resident" if array.start == "resident" else array.place
        new = say(f"new {kind}", name="d" if array.is_ring else name, size=array.size)
        lines = say("ring" if array.is_ring else "array", name=name, size=array.size, new=new).splitlines()
        lines += [say("random", name=name)] if array.start == "random" else []
        saved = say("let", name=f"start_{name}", value=say("saved", name=name))
        return [*lines, *([saved] if self._is_both(array) else [])]

    def each(self, array: Array, phrase: str) -> list[str]:
        """Return the phrase for an array, or for each of its buffers."""
        if not array.is_ring:
            return [self.say(phrase, name=array.name)]
        return self.block(self.say("each", name=array.name), [self.say(phrase, name="d")])

    def _fresh(self, array: Array) -> list[str]:
        """Return the lines that reset an array before a run."""
        if array.start == "resident" or (array.start == "random" and not self._is_both(array)):
            return []
        if array.place == "device" or array.start == "random":
            return self.each(array, "cleared" if array.place == "device" else "restored")
        value = self.say("not a number") if array.start == "nothing" else "-1"
        return [self.say("spoilt", name=array.name, value=value)]

    def results(self) -> list[str]:
        """Return the texts that add the results to the output."""
        texts, at = [], {array.name: array for array in self.plan.memory}
        for array in map(at.__getitem__, self.plan.results):
            phrase, one = ("result ring", "d") if array.is_ring else ("result", array.name)
            content = self.say("fetched" if array.place == "device" else "saved", name=one)
            texts.append(self.say(phrase, name=array.name, content=content))
        return texts


class PythonWriter(Writer):
    """A writer of plans in Python. The classes of the libraries write what differs between them."""

    template = templates.PYTHON_PROGRAM

    def parts(self) -> Parts:
        plan, kernels, say = self.plan, self.plan.kernels, self.say
        functions = [templates.PYTHON_HOST_WORK] * plan.has_host_work + [templates.PYTHON_CUT] * bool(plan.cuts)
        functions += [templates.CUPY_COPY] * (plan.is_graph and self.name == "cupy")
        new = [say(f"stream {kind}") for kind in plan.kinds]
        pool = f"{new[0]} for _ in range({self.number})" if len({*new}) == 1 else ", ".join(new)
        # A graph begins and ends in the first stream.
        fork, join = (say("after", stream=a, other=b) for a, b in (("s", "pool[0]"), ("pool[0]", "s")))
        others = "for s in pool[1:]"
        captured = [*self.block(others, [fork]), "pipeline(pool)", *self.block(others, [join])]
        return {
            "defaults": ", ".join(f'"{name}": {value}' for name, value in self.defaults.items()),
            "arguments": ", ".join(self.defaults),
            "output": ", ".join(self.results()),
            "kernels": templates.PYTHON_KERNELS if kernels else "",
            "function": templates.PYTHON_FUNCTION if plan.is_pattern else "",
            "names": ", ".join(kernels.names) if kernels else "",
            "functions": "".join(functions),
            "streams": [f"pool = [{pool}]"],
            "rounds": templates.PYTHON_ROUNDS if self.plan.kernels_s else "",
            "found": [*filter(None, (self.found, '"work": work,' * bool(plan.kernels_s)))],
            "captured": self.captured(captured) if plan.is_graph else [],
            "program": say("replay") if plan.is_graph else "pipeline, pool",
        }

    @abstractmethod
    def captured(self, body: list[str]) -> list[str]:
        """Return the lines that capture the body as ``graph``."""


class CuPyWriter(PythonWriter):
    """Programs with CuPy's arrays, whose kernels are ElementwiseKernels."""

    name = "cupy"

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, CUPY_GRAPH if plan.is_graph else CUPY)

    def parts(self) -> Parts:
        is_pinned = any(array.place == "pinned" for array in self.plan.memory)
        names = ["import cupy as cp", *["import cupyx"] * is_pinned, "import numpy as np"]
        stand_in = self._stand_in(self.plan.kernels) if self.plan.kernels else []
        return super().parts() | {"imports": [*names, "", "RNG = np.random.default_rng(0)"], "stand_in": stand_in}

    def _stand_in(self, kernels: ChunkKernels) -> list[str]:
        raw = "" if kernels.is_even else "raw "
        read = [f"{raw}float32 {name}" for name in kernels.sources]
        read += [f"raw float32 {name}" for name in kernels.tables]
        written = [f"{raw}float32 {name}" for name in kernels.new_targets]
        values = [f"(i < {name}.size() ? {name}[i] : 0)" if raw else name for name in kernels.sources]
        values += [f"{name}[i % {name}.size()]" for name in kernels.tables]
        mean = values[0] if len(values) == 1 else f"({' + '.join(values)}) / {len(values)}"
        stores = [f"if (i < {name}.size()) {name}[i] = t;" if raw else f"{name} = t;" for name in kernels.new_targets]
        code = [f"float t = {mean};", "for (int k = 0; k < rounds; ++k) t = 3.7f * t * (1 - t);", *stores]
        texts = ", ".join([*read, "int32 rounds"]), ", ".join(written), " ".join(code)
        return ["stand_in = cp.ElementwiseKernel(", *(f'    "{text}",' for text in texts), ")"]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        sizes = ", ".join(f"{name}.size" for name in dict.fromkeys((*kernels.sources, *kernels.targets)))
        size = [] if kernels.is_even else [f"size=max({sizes})"]
        read = [*(kernels.sources if is_first else kernels.again), *kernels.tables]
        return f"stand_in({', '.join([*read, self.rounds(kernels.calls[k].weight), *kernels.targets, *size])})"

    def captured(self, body: list[str]) -> list[str]:
        return ["pool[0].begin_capture()", *body, "graph = pool[0].end_capture()"]


class PyTorchWriter(PythonWriter):
    """Programs with PyTorch's tensors, whose kernels are eager operations with an ``out`` tensor."""

    name = "pytorch"

    def __init__(self, plan: Plan) -> None:
        streams, chunks = plan.defaults.get("streams", len(plan.kinds)), plan.defaults.get("chunks", 1)
        least = min((-(-plan.sizes[cut.size] // cut.unit) for cut in plan.cuts), default=chunks)
        kernels = plan.kernels
        read = len(kernels.sources + kernels.tables) if kernels else 0
        refused = {
            f"streams = {streams}: PyTorch has {MOST_TORCH_STREAMS} and then gives the same ones again": (
                streams > MOST_TORCH_STREAMS
            ),
            "streams = 'blocking': the streams of PyTorch are non-blocking": "blocking" in plan.kinds,
            f"chunks = {chunks}: an operation of PyTorch writes a piece of every array, and one of them has pieces for"
            f" {least} only": chunks > least,
            f"{read} input arrays: no element-wise operation of PyTorch reads more than {MOST_TORCH_SOURCES}": (
                plan.is_pattern and read > MOST_TORCH_SOURCES
            ),
        }
        for words in (words for words, is_so in refused.items() if is_so):
            raise InputError(f"{words}; write it --as cupy")
        if kernels and read > 1 and sum(call.launches for call in kernels.calls) == 1:
            plan.kernels_s = 0.0  # its only operation has no rounds
        plan.most_chunks = min(plan.most_chunks, least)
        super().__init__(plan, PYTORCH)

    def parts(self) -> Parts:
        stand_in = ["stand_in = torch.special.legendre_polynomial_p"]
        return super().parts() | {"imports": ["import torch"], "stand_in": stand_in}

    def launches(self, kernels: ChunkKernels) -> list[str]:
        sizes = ", ".join(f"{name}.numel()" for name in dict.fromkeys((*kernels.sources, *kernels.targets)))
        return [*([] if kernels.is_even else [f"n = min({sizes})"]), *super().launches(kernels)]

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        cut, rounds = "" if kernels.is_even else "[:n]", self.rounds(kernels.calls[k].weight)
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
        return ["graph = torch.cuda.CUDAGraph()", *self.block(head, body)]


class CudaWriter(Writer):
    """Programs in CUDA C++."""

    name = "cuda-c++"
    template = templates.CUDA_PROGRAM

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, CUDA)

    def launched(self, kernels: ChunkKernels, k: int, is_first: bool) -> str:
        arrays = [*(kernels.sources if is_first else kernels.again), *kernels.tables, *kernels.targets]
        words = ", ".join([*arrays, self.rounds(kernels.calls[k].weight)])
        return f"StandIn<<<(n + 255) / 256, 256, 0, stream>>>({words});"

    def parts(self) -> Parts:
        plan = self.plan
        constants = self._constants()
        return {
            "constants": [*constants, ""] if constants else [],
            "options": "".join(f" --{name} {value}" for name, value in plan.defaults.items()),
            "cut": templates.CUDA_CUT if plan.cuts else "",
            "kernels": templates.CUDA_KERNELS if plan.kernels else "",
            **(self._of_kernels(plan.kernels) if plan.kernels else {}),
            "host_work": templates.CUDA_HOST_WORK if plan.has_host_work else "",
            "defaults": [f'given["--{name}"] = {value};' for name, value in self.defaults.items()],
            "output": [line for text in self.results() for line in text.splitlines()],
            "known": str(len(self.defaults)),
            "arguments": [f'int {name} = given["--{name}"];' for name in self.defaults],
            "streams": self._streams(plan.kinds),
            "rounds": templates.CUDA_ROUNDS if self.plan.kernels_s else "",
            "captured": templates.CUDA_GRAPH if plan.is_graph else "",
            "program": "Check(cudaGraphLaunch(run, pool[0]))" if plan.is_graph else "pipeline(pool)",
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
            return [declared, *self.block("for (auto& s : pool)", [self.say(f"stream {kinds[0]}", name="s")])]
        return [declared, *(self.say(f"stream {kind}", name=f"pool[{k}]") for k, kind in enumerate(kinds))]


# The door


WRITERS: dict[Language, Callable[[Plan], Writer]] = {
    "cupy": CuPyWriter,
    "pytorch": PyTorchWriter,
    "cuda-c++": CudaWriter,
}


def _written(plan: Plan, language: Language) -> str:
    check_choice("language", language, LANGUAGES)
    return WRITERS[language](plan).text()


def code_of(workload: Workload, config: Config, language: Language) -> str:
    """Return the source of a program that runs ``workload``, cut and issued as ``config`` says, in a loop.

    The program takes other numbers of chunks, streams and buffers as arguments, and prints its wall times as JSON.
    Raises InputError for a workload or a configuration that the language cannot express.
    """
    return _written(LoopPlan(workload, config), language)


def code_of_schedule(schedule: Schedule, language: Language) -> str:
    """Return the source of a program that makes the calls of ``schedule`` one by one. Raises InputError if none can."""
    return _written(SchedulePlan(schedule), language)


def code_of_steps(schedule: Schedule, language: Language, depth: int = 0) -> str:
    """Return the source of a loop that makes the calls of a ``schedule`` with equal steps, each step as a chunk.

    ``depth``: the number of next steps whose copies to the card run beside a step's work. Raises InputError with the
    reason if there is no such loop.
    """
    try:
        workload, config = transform.repeated_step(schedule)
    except InputError as error:
        raise InputError(f"no pipeline can be written: {error}") from None
    if not depth:
        return code_of(workload, config, language)
    if config.streams > 1:
        raise InputError(
            f"--prefetch {depth}: a pipeline prefetches, or has its steps in {config.streams} streams; leave one out"
        )
    prefetch = Config("prefetch", config.chunks, 1, depth + 1, config.memory, config.launch)
    return code_of(workload, prefetch, language)
