"""Programs in Python, with the calls of CuPy or PyTorch in a common frame. The text is formatted as ruff formats it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from textwrap import indent

from streamsim.code.steps import (
    FIRST_ROUNDS,
    ROUNDS_UNTIMED,
    TRIALS,
    VERIFIED,
    Copy,
    HostWork,
    If,
    Kernels,
    Launch,
    Loop,
    Memory,
    Piece,
    Plan,
    Record,
    Run,
    Step,
    Synchronise,
    Turn,
    Wait,
    Within,
)

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


def rounds(weight: float) -> str:
    """Return the rounds of a launch of the stand-in with this weight."""
    return "work" if weight == 1 else f"max(1, round({weight:.4g} * work))"


def _indented(lines: Iterable[str], by: int = 1) -> list[str]:
    return [indent(line, INDENT * by) if line else "" for line in lines]


class Writer(ABC):
    """A writer of plans in Python. The classes of the libraries write what differs between them."""

    name: str
    imports: tuple[str, ...]
    settled: tuple[str, ...] = ()  # before outputs are compared
    synchronise: str
    event: str

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.streams = "streams" if "streams" in plan.defaults else str(plan.streams)
        self.sizes = {floats: name.upper() for floats, name in plan.sizes.items()}
        self.timed_kernels = plan.timed_kernels
        self.arguments = [*plan.defaults, "repeat", *["work"] * (plan.kernels is not None)]

    # What a library says in its own way

    def functions(self) -> list[list[str]]:
        """Return the functions that only this library needs."""
        return []

    @abstractmethod
    def stand_in(self, kernels: Kernels) -> list[str]:
        """Return the stand-in for the user's kernels, which stands before their function."""

    @abstractmethod
    def launches(self, kernels: Kernels) -> list[str]:
        """Return the body of the function of the kernels."""

    @abstractmethod
    def launch(self, source: str, to: str, work: str, depth: int) -> list[str]:
        """Return one launch of the stand-in with ``work`` rounds, in a block of this depth."""

    @abstractmethod
    def stream(self, kind: str) -> str:
        """Return the expression of a new stream."""

    @abstractmethod
    def within(self, stream: str) -> str:
        """Return the head of a block of calls in a stream."""

    @abstractmethod
    def copy(self, step: Copy, stream: str, depth: int) -> list[str]:
        """Return a copy in the current stream, called ``stream``, in a block of this depth."""

    @abstractmethod
    def host(self, memory: Memory, size: str) -> str:
        """Return the expression of a new array on the host."""

    def begun(self, memory: Memory) -> list[str]:  # noqa: ARG002 - most libraries make an array and its numbers at once
        """Return the lines that fill a new array."""
        return []

    @abstractmethod
    def card(self, memory: Memory, size: str) -> str:
        """Return the expression of a new array on the card."""

    @abstractmethod
    def fresh(self, memory: Sequence[Memory]) -> list[str]:
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
        """Return the program."""
        plan = self.plan
        parts = [[*self._head(), *([] if plan.kernels is None else ["", *self._kernels(plan.kernels)])]]
        parts += [_HOST_WORK.splitlines()] if plan.has_host_work else []
        if len(plan.cuts) > 1:
            parts.append(_CUT.splitlines())
        parts += self.functions()
        parts += [self._measure(), self._main()]
        return "\n\n\n".join("\n".join(part) for part in parts) + "\n"

    def _head(self) -> list[str]:
        plan = self.plan
        title = f'"""{plan.summary}"""'
        lines = [
            *([title] if len(title) <= WIDTH else [title[:-3], '"""']),
            "",
            "import argparse",
            "import json",
            "import time",
            "",
            *self.imports,
        ]
        sizes = [f"{', '.join(self.sizes.values())} = {', '.join(map(str, self.sizes))}  # floats"]
        if len(self.sizes) < 1 or len(sizes[0]) > WIDTH:
            sizes = [f"{name} = {floats}  # floats" for floats, name in self.sizes.items()]
        rounds = None if self.timed_kernels else ROUNDS_UNTIMED
        defaults = {**plan.defaults, "repeat": 10} | ({} if plan.kernels is None else {"work": rounds})
        items = [f'"{name}": {value}' for name, value in defaults.items()]
        line = f"DEFAULTS = {{{', '.join(items)}}}"
        given = [line] if len(line) <= WIDTH else ["DEFAULTS = {", *(f"    {item}," for item in items), "}"]
        seconds = [f"KERNELS_S = {timed.seconds:.6g}  # of {timed.words}"] if (timed := self.timed_kernels) else []
        return [*lines, "", *sizes, *seconds, *given]

    def _kernels(self, kernels: Kernels) -> list[str]:
        lines = ["# ---- YOUR KERNELS GO HERE: replace the stand-in, of --work rounds, and its calls ----"]
        if self.timed_kernels:
            lines.append("# The program measures it at its start: without --work it takes about KERNELS_S.")
        lines += self.stand_in(kernels)
        if self.plan.is_pattern:
            head = f"def kernels({', '.join([*kernels.names, 'work'])}):"
            beside = f"{head}  # of a chunk, in the current stream"
            lines += ["", "", beside if len(beside) <= WIDTH else head, *_indented(self.launches(kernels))]
        return lines

    def _measure(self) -> list[str]:
        """Return the function that does everything, section by section."""
        plan = self.plan
        kinds = plan.kinds or ("non-blocking",)
        if len(set(kinds)) == 1:
            pool = [f"pool = [{self.stream(kinds[0])} for _ in range({self.streams})]"]
        else:
            pool = ["pool = [", *(f"    {self.stream(kind)}," for kind in kinds), "]"]
        pipeline = [f"def pipeline({', '.join(plan.roles) or 'stream'}):", *_indented(self._steps(plan.issue))]
        streams = "The streams, and the events by which one waits for another." if plan.events else "The streams."
        sections = {
            "How the arrays are cut into chunks.": self._numbers(),
            "The memory: h_ on the host, d_ on the card.": self._memory(),
            streams: [*pool, *self._events()],
            "The program: all copies and kernels, in the order in which they are issued.": pipeline,
            "What runs a program, and takes its times or its output.": self._runs(),
            "As many rounds of the stand-in as take KERNELS_S on this card.": self._rounds_found(),
            "Its output must be that of the serial program, which has one stream.": self._compared(),
            "Its times, without the first run, which warms up.": self._times(),
        }
        lines = [line for title, some in sections.items() if some for line in ("", f"# {title}", *some)]
        head = f"def measure({', '.join(self.arguments)}):  # its times, and whether it is right"
        return [head if len(head) <= WIDTH else head.partition("  #")[0], *_indented(lines[1:])]

    def _rounds_found(self) -> list[str]:
        """Return the lines that set ``work`` if it is not given."""
        if not self.timed_kernels:
            return []
        return [
            "def kernels_alone():",
            *_indented(self._steps(self.timed_kernels.steps)),
            "",
            "if work is None:",
            f"    work = {FIRST_ROUNDS}",
            f"    for _ in range({TRIALS}):",
            f"        timed(pipeline, {self._streams('pool')})  # warms up, with data",
            "        work = max(1, round(work * KERNELS_S / timed(kernels_alone)[1]))",
        ]

    def _numbers(self) -> list[str]:
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
        return lines

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
        alike: dict[str, list[Memory]] = {}
        for memory in plan.memory:
            alike.setdefault(self._made(memory), []).append(memory)
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

    def _made(self, memory: Memory) -> str:
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
                f"{name} = [{self.event} for _ in range({count})]" if count else f"{name} = {self.event}"
                for name, count in events
            ]
        parts = ", ".join(f"events[{k}::{len(events)}]" for k in range(len(events)))
        return [
            f"events = [{self.event} for _ in range({len(events)} * chunks)]",
            f"{', '.join(name for name, _ in events)} = {parts}",
        ]

    def _captured(self) -> list[str]:
        """Return the lines that capture the pipeline as a graph, which begins and ends in the first stream."""
        fork, join = (self.after.format(*some) for some in (("s", "pool[0]"), ("pool[0]", "s")))
        others = "for s in pool[1:]:"
        return self.capture([others, INDENT + fork, self._called("pool"), others, INDENT + join])

    def _called(self, streams: str) -> str:
        return f"pipeline({self._streams(streams)})"

    def _streams(self, streams: str) -> str:
        """Return the streams as arguments of the pipeline."""
        return f"*{streams}" if self.plan.roles else streams

    def _runs(self) -> list[str]:
        """Return the functions that run a program: the first takes its time, the second its output.

        Only the second one clears and compares arrays, which spoils the host's caches.
        """
        plan = self.plan
        cards = [m for m in plan.memory if m.place == "device" and m.start != "resident"]
        hosts = [
            m
            for m in plan.memory
            if m.place != "device" and (m.start in ("nothing", "blank") or m.name in plan.results)
        ]
        names = [f"*{m.name}" if m.slots else m.name for m in cards]
        timed = [
            *["start = time.perf_counter()", "program(*streams)", "issued = time.perf_counter()", self.synchronise],
            "return issued - start, time.perf_counter() - start",
        ]
        fresh = [*_each("array", names), INDENT + self.cleared] if names else []
        for start in dict.fromkeys(memory.start for memory in hosts):
            fresh += self.fresh([memory for memory in hosts if memory.start == start])
        fresh += [self.synchronise, "timed(program, *streams)", *self._output()]
        return [
            *["def timed(program, *streams):  # until all is issued, and until it is done", *_indented(timed), ""],
            *["def output_of(program, *streams):  # with nothing left of earlier runs", *_indented(fresh)],
        ]

    def _output(self) -> list[str]:
        by_name = {memory.name: memory for memory in self.plan.memory}
        output = []
        for name in self.plan.results:
            if by_name[name].slots:
                output.append(f"*({self.fetched.format('d')} for d in {name})")
            else:
                output.append((self.fetched if by_name[name].place == "device" else self.saved).format(name))
        line = f"return [{', '.join(output)}]"
        return [line] if len(line) <= WIDTH - 8 else ["return [", *(f"    {one}," for one in output), "]"]

    @property
    def _program(self) -> str:
        """Return the program, and its streams as arguments."""
        return self.replay if self.plan.is_graph else f"pipeline, {self._streams('pool')}"

    def _compared(self) -> list[str]:
        return [
            *self.settled,
            f"wanted = output_of(pipeline, {self._streams(f'pool[:1] * {self.streams}')})",
            *(self._captured() if self.plan.is_graph else ()),
            f"outputs = (output_of({self._program}) for _ in range({VERIFIED}))",
            f"right = [{self.equal} for output in outputs]",
        ]

    def _times(self) -> list[str]:
        plan = self.plan
        found = {"streams": self.streams} if plan.is_pattern and "streams" not in plan.defaults else {}
        found |= {"work": "work"} if self.timed_kernels else {}
        found |= {"issue_s": "issue_s", "wall_s": "wall_s", "verified": "all(right)"}
        items = [f'"{name}": {value}' for name, value in found.items()]
        line = f"return {{{', '.join(items)}}}"
        return [
            f"runs = [timed({self._program}) for _ in range(1 + repeat)]",
            "issue_s, wall_s = zip(*runs[1:], strict=True)",
            *([line] if len(line) <= WIDTH - 4 else ["return {", *(f"    {item}," for item in items), "}"]),
        ]

    def _main(self) -> list[str]:
        plan = self.plan
        numbers = "numbers" if self.timed_kernels else "given.values()"
        wrong, hint = f"min({numbers}) < 1", "give whole numbers from 1"
        if plan.is_pattern:
            wrong += f' or given["chunks"] > {plan.most_chunks}'
            hint += f", and at most {plan.most_chunks} chunks"
        lines = [
            "parser = argparse.ArgumentParser(description=__doc__)",
            "for name, value in DEFAULTS.items():",
            '    parser.add_argument(f"--{name}", type=int, default=value)',
            "given = vars(parser.parse_args())",
            *(["numbers = [number for number in given.values() if number is not None]"] if self.timed_kernels else []),
            f"if {wrong}:",
            f'    parser.error("{hint}")',
            f'result = {{"program": "{plan.pattern} in {self.name}", **given, **measure(**given)}}',
            "print(json.dumps(result))",
            'raise SystemExit(0 if result["verified"] else 1)',
        ]
        return ['if __name__ == "__main__":', *_indented(lines)]

    # Steps

    def piece(self, piece: Piece) -> str:
        """Return the expression of a piece's floats."""
        if piece.has_slots:
            head = "n" if len(self.plan.cuts) == 1 else f"{_head_of(piece.part)}[{piece.chunk}]"
            return f"{piece.name}[slot][{head}]"
        if piece.part:
            return f"{piece.name}[{piece.part}[{piece.chunk}]]"
        return f"{piece.name}[{piece.first}:{piece.first + piece.floats}]" if piece.floats else piece.name

    def _steps(self, steps: Sequence[Step], depth: int = 2, stream: str = "") -> list[str]:
        """Return the lines of ``steps`` in a block of this depth; ``stream``: the current stream."""
        return [line for step in steps for line in self._step(step, depth, stream)]

    def _step(self, step: Step, depth: int, stream: str) -> list[str]:
        match step:
            case Copy():
                return self.copy(step, stream, depth)
            case Run(pieces):
                return call("kernels", [*map(self.piece, pieces), "work"], WIDTH - 4 * depth)
            case Launch(source, to, weight):
                return self.launch(self.piece(source), self.piece(to), rounds(weight), depth)
            case Record(event, its_stream):
                return [f"{event}.record({its_stream})"]
            case Wait(event, its_stream):
                return [f"{its_stream}.wait_event({event})"]
            case Synchronise(its_stream, event):
                return [f"{its_stream or event}.synchronize()" if its_stream or event else self.synchronise]
            case HostWork(seconds):
                return [f"host_work({seconds})"]
            case Turn(chunk):
                return [
                    f"slot, n = {chunk} % buffers, head[{chunk}]"
                    if len(self.plan.cuts) == 1
                    else f"slot = {chunk} % buffers"
                ]
        return self._block(step, depth, stream)

    def _block(self, step: Within | If | Loop, depth: int, stream: str) -> list[str]:
        match step:
            case Within(its_stream, body):
                return [self.within(its_stream), *_indented(self._steps(body, depth + 1, its_stream))]
            case If(condition, body, let):
                if let is not None:
                    condition = condition.replace(let.name, f"({let.name} := {let.value})", 1)
                return [f"if {condition}:", *_indented(self._steps(body, depth + 1, stream))]
            case Loop(name, first, end, body, let):
                numbers = end if first == "0" else f"{first}, {end}"
                before = [] if let is None else [f"{let.name} = {let.value}"]
                return [*before, f"for {name} in range({numbers}):", *_indented(self._steps(body, depth + 1, stream))]


def _head_of(part: str) -> str:
    """Return the name of the buffers' heads, each of which holds one chunk of a ``part``."""
    return "head" + part.removeprefix("part")


def _each(name: str, items: list[str]) -> list[str]:
    if len(items) == 1:
        return [f"for {name} in {items[0][1:]}:" if items[0].startswith("*") else f"for {name} in ({items[0]},):"]
    line = f"for {name} in ({', '.join(items)}):"
    return [line] if len(line) <= WIDTH - 8 else [f"for {name} in (", *(f"    {item}," for item in items), "):"]


_HOST_WORK = """# ---- YOUR HOST WORK GOES HERE: replace the stand-in, and its calls ----
def host_work(seconds):  # keeps the host busy, as loading a chunk would
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass"""
_CUT = """def cut(size, unit, chunks):  # slices of whole units, equal or the last one smaller
    even, over = divmod(-(-size // unit), chunks)
    if over and chunks - over <= even:
        even, over = even + 1, 0
    at = [min((even * i + min(i, over)) * unit, size) for i in range(chunks + 1)]
    return list(map(slice, at, at[1:]))"""
