"""Programs in Python, with the calls of CuPy or PyTorch in a common frame. The text is formatted as ruff formats it."""

from abc import abstractmethod
from collections.abc import Sequence

from streamsim.code import plans
from streamsim.code.plans import FIRST_ROUNDS, TRIALS, VERIFIED
from streamsim.code.templates import PYTHON, PYTHON_CUT, PYTHON_HOST_WORK, PYTHON_ROUNDS, written
from streamsim.code.writer import Writer

WIDTH = 88  # of ruff and black, unless told otherwise
INDENT = "    "
MANY_EVENTS = 3  # lists of them, from which on one that all take their parts of is shorter


def call(head: str, arguments: Sequence[str], room: int) -> list[str]:
    """Return ``head(arguments)``; if one line is too short, the arguments in a line of their own, or a line each."""
    said = ", ".join(arguments)
    if len(f"{head}({said})") <= room:
        return [f"{head}({said})"]
    if len(INDENT + said) <= room:
        return [f"{head}(", INDENT + said, ")"]
    return [f"{head}(", *(f"{INDENT}{argument}," for argument in arguments), ")"]


def spread(head: str, items: Sequence[str], tail: str, room: int) -> list[str]:
    """Return ``head``, the items and ``tail``; if one line is too short, with an item a line."""
    line = f"{head}{', '.join(items)}{tail}"
    return [line] if len(line) <= room else [head, *(f"{INDENT}{item}," for item in items), tail]


class Python(Writer):
    """A writer of plans in Python. The classes of the libraries write what differs between them."""

    indent = INDENT
    unknown_rounds, rounds_of = "None", "max(1, round({0} * work))"
    record, wait = "{0}.record({1})", "{1}.wait_event({0})"
    synchronise_stream = synchronise_event = "{0}.synchronize()"
    host_work = "host_work({0})"
    imports: tuple[str, ...]
    settled: tuple[str, ...] = ()  # before outputs are compared
    new_event: str

    def __init__(self, plan: plans.CodePlan) -> None:
        super().__init__(plan)
        self.sizes = {floats: name.upper() for floats, name in plan.sizes.items()}

    # What a library says in its own way

    def functions(self) -> list[str]:
        """Return the functions that only this library needs."""
        return []

    @abstractmethod
    def stand_in(self, kernels: plans.ChunkKernels) -> list[str]:
        """Return the stand-in for the user's kernels, which stands before their function."""

    @abstractmethod
    def launches(self, kernels: plans.ChunkKernels) -> list[str]:
        """Return the body of the function of the kernels."""

    @abstractmethod
    def stream(self, kind: str) -> str:
        """Return the expression of a new stream."""

    in_stream: str  # the head of a block of calls in the stream ``{0}``
    launched: tuple[str, str, str]  # the arguments of the stand-in: ``{0}``, ``{1}`` and ``{2}`` rounds

    @abstractmethod
    def host(self, memory: plans.Array, size: str) -> str:
        """Return the expression of a new array on the host."""

    def begun(self, memory: plans.Array) -> list[str]:  # noqa: ARG002 - most libraries make an array and its numbers at once
        """Return the lines that fill a new array."""
        return []

    @abstractmethod
    def card(self, memory: plans.Array, size: str) -> str:
        """Return the expression of a new array on the card."""

    @abstractmethod
    def fresh(self, memory: Sequence[plans.Array]) -> list[str]:
        """Return the lines that reset host arrays before a run; all of ``memory`` begin alike."""

    @abstractmethod
    def capture(self, body: list[str]) -> list[str]:
        """Return the lines that capture the body as ``graph``."""

    after: str  # the stream ``{0}`` waits for all that is in ``{1}``
    cleared: str  # an array of the card without what an earlier run left there
    generator: tuple[str, ...] = ()  # of random numbers
    replay: str
    equal: str
    saved: str  # a copy of ``{0}``, on the host
    fetched: str  # a copy of ``{0}``, from the card

    # What all have in common

    def text(self) -> str:
        plan, timed = self.plan, self.timed_kernels
        wrong, hint = f"min({'numbers' if timed else 'given.values()'}) < 1", "give whole numbers from 1"
        if plan.is_pattern:
            wrong += f' or given["chunks"] > {plan.most_chunks}'
            hint += f", and at most {plan.most_chunks} chunks"
        return written(
            PYTHON,
            self.lines,
            streams_title=self.streams_title,
            roles=", ".join(plan.roles) or "stream",
            synchronise=self.synchronise,
            serial=self._arguments(f"pool[:1] * {self.streams}"),
            program=self.replay if plan.is_graph else f"pipeline, {self._arguments('pool')}",
            verified=VERIFIED,
            equal=self.equal,
            wrong=wrong,
            hint=hint,
            name=f"{plan.pattern} in {self.name}",
        )

    def _imports(self) -> list[str]:
        return [*self.imports]

    def _settled(self) -> list[str]:
        return [*self.settled]

    def _known(self) -> list[str]:
        known = "numbers = [number for number in given.values() if number is not None]"
        return [known] if self.timed_kernels else []

    def _title(self) -> list[str]:
        title = f'"""{self.plan.summary}"""'
        return [title] if len(title) <= WIDTH else [title[:-3], '"""']

    def _functions(self) -> list[str]:
        """Return the functions before the program's own: the kernels, the host's work, the cut of arrays."""
        plan = self.plan
        lines = [] if plan.kernels is None else ["", *self._kernels(plan.kernels)]
        lines += PYTHON_HOST_WORK.splitlines() if plan.has_host_work else []
        lines += PYTHON_CUT.splitlines() if len(plan.cuts) > 1 else []
        return [*lines, *self.functions()]

    def _numbers(self) -> list[str]:
        """Return the lines that set the sizes of arrays, the kernels' time, and the default arguments."""
        lines = [f"{', '.join(self.sizes.values())} = {', '.join(map(str, self.sizes))}  # floats"]
        if not self.sizes or len(lines[0]) > WIDTH:
            lines = [f"{name} = {floats}  # floats" for floats, name in self.sizes.items()]
        if timed := self.timed_kernels:
            lines.append(f"KERNELS_S = {timed.seconds:.6g}  # of {timed.words}")
        items = [f'"{name}": {value}' for name, value in self.defaults.items()]
        return [*lines, *spread("DEFAULTS = {", items, "}", WIDTH)]

    def _measure(self) -> list[str]:
        head = f"def measure({', '.join(self.defaults)}):"
        said = f"{head}  # its times, and whether it is right"
        return [said if len(said) <= WIDTH else head]

    def _kernels(self, kernels: plans.ChunkKernels) -> list[str]:
        lines = ["# ---- YOUR KERNELS GO HERE: replace the stand-in, of --work rounds, and its calls ----"]
        if self.timed_kernels:
            lines.append("# The program measures it at its start: without --work it takes about KERNELS_S.")
        lines += self.stand_in(kernels)
        if self.plan.is_pattern:
            head = f"def kernels({', '.join([*kernels.names, 'work'])}):"
            beside = f"{head}  # of a chunk, in the current stream"
            lines += ["", "", beside if len(beside) <= WIDTH else head, *self.indented(self.launches(kernels))]
        return lines

    def _streams(self) -> list[str]:
        """Return the lines that make the streams, and the events."""
        kinds = self.plan.kinds or ("non-blocking",)
        if len(set(kinds)) == 1:
            return [f"pool = [{self.stream(kinds[0])} for _ in range({self.streams})]", *self._events()]
        return ["pool = [", *(f"    {self.stream(kind)}," for kind in kinds), "]", *self._events()]

    def _rounds(self) -> list[str]:
        """Return the lines that set ``work`` if it is not given."""
        if not self.timed_kernels:
            return []
        pool = self._arguments("pool")
        return written(PYTHON_ROUNDS, self.lines, first=FIRST_ROUNDS, trials=TRIALS, pool=pool).splitlines()

    def _cuts(self) -> list[str]:
        """Return the lines that cut arrays into chunks."""
        plan = self.plan
        if len(plan.cuts) == 1:
            lines = self._cut(*plan.cuts[0])
        else:
            lines = [f"{cut.name} = cut({self.sizes[cut.floats]}, {cut.unit}, chunks)" for cut in plan.cuts]
        if "streams" in plan.defaults:
            lines.insert(0, "streams = min(streams, chunks)  # more would have nothing to do")
        if plan.has_slots:
            lines.append("buffers = min(buffers, chunks)")
            sliced = dict.fromkeys(memory.part for memory in plan.memory if memory.slots)
            lines += [f"{_head_of(name)} = [slice(p.stop - p.start) for p in {name}]" for name in sliced]
            if "streams" in plan.defaults:
                lines.append("hands_over = buffers % streams != 0  # a buffer, to another stream")
        return ["# How the arrays are cut into chunks.", *lines, ""] if lines else []

    def _cut(self, name: str, floats: int, unit: int) -> list[str]:
        """Return the lines that cut arrays of ``floats`` floats into chunks."""
        size = self.sizes[floats]
        return [
            f"even, over = divmod({-(-floats // unit)}, chunks)  # units of {unit} floats",
            "if over and chunks - over <= even:  # then all are equal but the last one",
            "    even, over = even + 1, 0",
            f"at = [min((even * i + min(i, over)) * {unit}, {size}) for i in range(chunks + 1)]",
            f"{name} = list(map(slice, at, at[1:]))",
        ]

    def _memory(self) -> list[str]:
        plan = self.plan
        lines = [*self.generator] if any(memory.start != "nothing" for memory in plan.memory) else []
        alike: dict[str, list[plans.Array]] = {}
        for memory in plan.memory:
            alike.setdefault(self._new(memory), []).append(memory)
        for made, some in alike.items():
            together = f"{', '.join(m.name for m in some)} = ({made} for _ in range({len(some)}))"
            if len(some) > 1 and len(together) + len(INDENT) <= WIDTH:
                lines.append(together)
            else:
                lines += [f"{memory.name} = {made}" for memory in some]
            lines += [line for memory in some for line in self.begun(memory)]
            again = [m.name for m in some if m.place != "device" and m.start == "random" and m.name in plan.results]
            lines += [f"start_{name} = {self.saved.format(name)}" for name in again]
        return lines

    def _new(self, memory: plans.Array) -> str:
        """Return the expression of a new array, or of new buffers."""
        if memory.slots:
            return f"[{self.card(memory, f'{_head_of(memory.part)}[0].stop')} for _ in range({memory.slots})]"
        size = self.sizes.get(memory.floats, str(memory.floats))
        return self.card(memory, size) if memory.place == "device" else self.host(memory, size)

    def _events(self) -> list[str]:
        """Return the lines that make the events: a list for each name, or a part of one long list."""
        events = self.plan.events
        if len(events) < MANY_EVENTS or {count for _, count in events} != {"chunks"}:
            return [
                f"{name} = [{self.new_event} for _ in range({count})]" if count else f"{name} = {self.new_event}"
                for name, count in events
            ]
        parts = ", ".join(f"events[{k}::{len(events)}]" for k in range(len(events)))
        return [
            f"events = [{self.new_event} for _ in range({len(events)} * chunks)]",
            f"{', '.join(name for name, _ in events)} = {parts}",
        ]

    def _captured(self) -> list[str]:
        """Return the lines that capture the pipeline as a graph, which begins and ends in the first stream."""
        if not self.plan.is_graph:
            return []
        fork, join = (self.after.format(*some) for some in (("s", "pool[0]"), ("pool[0]", "s")))
        others = "for s in pool[1:]:"
        return self.capture([others, INDENT + fork, f"pipeline({self._arguments('pool')})", others, INDENT + join])

    def _arguments(self, streams: str) -> str:
        """Return the streams as arguments of the pipeline."""
        return f"*{streams}" if self.plan.roles else streams

    def _fresh(self) -> list[str]:
        """Return the lines that reset all arrays before a run."""
        cards = [m for m in self.plan.memory if m.place == "device" and m.start != "resident"]
        hosts = [m for m in self.plan.memory if m.place != "device"]
        hosts = [m for m in hosts if m.start in ("nothing", "blank") or m.name in self.plan.results]
        names = [f"*{m.name}" if m.slots else m.name for m in cards]
        lines = [*_each("array", names), INDENT + self.cleared] if names else []
        for start in dict.fromkeys(memory.start for memory in hosts):
            lines += self.fresh([memory for memory in hosts if memory.start == start])
        return lines

    def _output(self) -> list[str]:
        output = []
        for name in self.plan.results:
            if self.at[name].slots:
                output.append(f"*({self.fetched.format('d')} for d in {name})")
            else:
                output.append((self.fetched if self.at[name].place == "device" else self.saved).format(name))
        return spread("return [", output, "]", WIDTH - 8)

    def _result(self) -> list[str]:
        plan = self.plan
        found = {"streams": self.streams} if plan.is_pattern and "streams" not in plan.defaults else {}
        found |= {"work": "work"} if self.timed_kernels else {}
        found |= {"issue_s": "issue_s", "wall_s": "wall_s", "verified": "all(right)"}
        return spread("return {", [f'"{name}": {value}' for name, value in found.items()], "}", WIDTH - 4)

    # Steps

    def piece(self, piece: plans.Piece) -> str:
        """Return the expression of a piece's floats."""
        if piece.has_slots:
            head = "n" if len(self.plan.cuts) == 1 else f"{_head_of(piece.part)}[{piece.chunk}]"
            return f"{piece.name}[slot][{head}]"
        if piece.part:
            return f"{piece.name}[{piece.part}[{piece.chunk}]]"
        return f"{piece.name}[{piece.first}:{piece.first + piece.floats}]" if piece.floats else piece.name

    def run(self, pieces: Sequence[plans.Piece], stream: str, depth: int) -> list[str]:  # noqa: ARG002 - the current one
        return call("kernels", [*map(self.piece, pieces), "work"], WIDTH - 4 * depth)

    def launch(self, step: plans.LaunchStep, stream: str, depth: int) -> list[str]:  # noqa: ARG002 - the current one
        words = (self.piece(step.source), self.piece(step.to), self.rounds(step.weight))
        return call("stand_in", [argument.format(*words) for argument in self.launched], WIDTH - 4 * depth)

    def turn(self, chunk: str) -> list[str]:
        with_head = len(self.plan.cuts) == 1
        return [f"slot, n = {chunk} % buffers, head[{chunk}]" if with_head else f"slot = {chunk} % buffers"]

    def within(self, stream: str, body: Sequence[plans.Step], depth: int) -> list[str]:
        return self.block(self.in_stream.format(stream), self.steps(body, depth + 1, stream), depth)

    def condition(self, step: plans.IfStep) -> str:
        if step.let is None:
            return f"if {step.condition}"
        return f"if {step.condition.replace(step.let.name, f'({step.let.name} := {step.let.value})', 1)}"

    def loop(self, step: plans.LoopStep) -> list[str]:
        numbers = step.end if step.first == "0" else f"{step.first}, {step.end}"
        before = [] if step.let is None else [f"{step.let.name} = {step.let.value}"]
        return [*before, f"for {step.name} in range({numbers})"]

    def block(self, head: str, body: list[str], depth: int) -> list[str]:  # noqa: ARG002 - no line is joined
        return [f"{head}:", *self.indented(body)]


def _head_of(part: str) -> str:
    """Return the name of the buffers' heads, each of which holds one chunk of a ``part``."""
    return "head" + part.removeprefix("part")


def _each(name: str, items: list[str]) -> list[str]:
    if len(items) == 1:
        return [f"for {name} in {items[0][1:]}:" if items[0].startswith("*") else f"for {name} in ({items[0]},):"]
    return spread(f"for {name} in (", items, "):", WIDTH - 8)
