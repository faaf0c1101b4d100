"""The part of a writer of plans that the languages have in common: the steps of a program."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from streamsim.code import plans
from streamsim.code.plans import ROUNDS_UNTIMED


class Writer(ABC):
    """A writer of a plan in a language. ``streams``, ``defaults``: what the program has as numbers and arguments."""

    name: str  # of the language
    indent: str
    unknown_rounds: str  # of a stand-in that the program measures
    rounds_of: str  # of a launch of weight ``{0}``
    record: str  # the event ``{0}`` in the stream ``{1}``
    wait: str  # of the stream ``{1}`` for the event ``{0}``
    synchronise: str  # a wait of the host for the card, a stream or an event
    synchronise_stream: str
    synchronise_event: str
    host_work: str

    def __init__(self, plan: plans.CodePlan) -> None:
        self.plan = plan
        self.streams = "streams" if "streams" in plan.defaults else str(plan.streams)
        self.timed_kernels = plan.timed_kernels
        self.at = {memory.name: memory for memory in plan.memory}

    @abstractmethod
    def text(self) -> str:
        """Return the program."""

    @property
    def defaults(self) -> dict[str, int | str]:
        """The arguments of the program, and their default values."""
        rounds = self.unknown_rounds if self.timed_kernels else ROUNDS_UNTIMED
        return {**self.plan.defaults, "repeat": 10} | ({} if self.plan.kernels is None else {"work": rounds})

    @property
    def streams_title(self) -> str:
        """The title of the section with the streams and events."""
        return "The streams, and the events by which one waits for another." if self.plan.events else "The streams."

    def lines(self, name: str) -> list[str]:
        """Return the lines that a template calls ``name``: the method ``_name`` writes them."""
        found: list[str] = getattr(self, f"_{name}")()
        return found

    def _issue(self) -> list[str]:
        return self.steps(self.plan.issue)

    def _kernels_alone(self) -> list[str]:
        return self.steps(self.timed_kernels.steps) if self.timed_kernels else []

    def indented(self, lines: Iterable[str], by: int = 1) -> list[str]:
        """Return the lines ``by`` blocks deeper."""
        return [self.indent * by + line if line else "" for line in lines]

    def rounds(self, weight: float) -> str:
        """Return the rounds of a launch of the stand-in with this weight."""
        return "work" if weight == 1 else self.rounds_of.format(f"{weight:.4g}")

    # What a language writes in its own way

    @abstractmethod
    def copy(self, step: plans.CopyStep, stream: str, depth: int) -> list[str]:
        """Return a copy in the current stream, called ``stream``, in a block of this depth."""

    @abstractmethod
    def run(self, pieces: Sequence[plans.Piece], stream: str, depth: int) -> list[str]:
        """Return the call of the user's kernels."""

    @abstractmethod
    def launch(self, step: plans.LaunchStep, stream: str, depth: int) -> list[str]:
        """Return one launch of the stand-in."""

    @abstractmethod
    def within(self, stream: str, body: Sequence[plans.Step], depth: int) -> list[str]:
        """Return calls in a stream."""

    @abstractmethod
    def condition(self, step: plans.IfStep) -> str:
        """Return the head of a condition."""

    @abstractmethod
    def loop(self, step: plans.LoopStep) -> list[str]:
        """Return what comes before a loop, and the loop's head."""

    @abstractmethod
    def block(self, head: str, body: list[str], depth: int) -> list[str]:
        """Return the body of a loop or a condition behind its head."""

    def turn(self, chunk: str) -> list[str]:  # noqa: ARG002 - C++ needs none
        """Return the lines that choose the buffers of a chunk."""
        return []

    def event_of(self, event: str) -> str:
        """Return the expression of an event."""
        return event

    # Steps

    def steps(self, steps: Sequence[plans.Step], depth: int = 2, stream: str = "") -> list[str]:
        """Return the lines of ``steps`` in a block of this depth; ``stream``: the current stream."""
        return [line for step in steps for line in self._step(step, depth, stream)]

    def _step(self, step: plans.Step, depth: int, stream: str) -> list[str]:
        match step:
            case plans.WithinStep(its_stream, body):
                return self.within(its_stream, body, depth)
            case plans.IfStep(body=body):
                return self.block(self.condition(step), self.steps(body, depth + 1, stream), depth)
            case plans.LoopStep(body=body):
                *before, head = self.loop(step)
                return [*before, *self.block(head, self.steps(body, depth + 1, stream), depth)]
        return self._call(step, depth, stream)

    def _call(self, step: plans.Call, depth: int, stream: str) -> list[str]:
        match step:
            case plans.CopyStep():
                return self.copy(step, stream, depth)
            case plans.RunStep(pieces):
                return self.run(pieces, stream, depth)
            case plans.LaunchStep():
                return self.launch(step, stream, depth)
            case plans.TurnStep(chunk):
                return self.turn(chunk)
            case plans.RecordStep(event, its_stream):
                return [self.record.format(self.event_of(event), its_stream)]
            case plans.WaitStep(event, its_stream):
                return [self.wait.format(self.event_of(event), its_stream)]
            case plans.SynchroniseStep(its_stream, event) if its_stream or event:
                said = self.synchronise_stream if its_stream else self.synchronise_event
                return [said.format(its_stream or self.event_of(event))]
            case plans.SynchroniseStep():
                return [self.synchronise]
            case plans.WorkStep(seconds):
                return [self.host_work.format(seconds)]
