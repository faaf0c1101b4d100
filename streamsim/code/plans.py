"""Plans of programs, without a language: memory, loops, and the calls in them.

Conditions, numbers of streams and events are text that is the same in Python and C++, such as ``i - buffers``; only
``and`` is spelt differently. Sizes are in floats, because all arrays of these programs hold floats.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from streamsim.device import CALLS, COMPILED
from streamsim.program import MemoryKind as Place

FLOAT_BYTES = 4
VERIFIED = 3  # runs whose output is compared, before the timed ones
# If the kernels' time is known, the program measures its stand-in and sets its rounds, TRIALS times. With FIRST_ROUNDS,
# the time depends on the rounds, not on the memory's bandwidth.
FIRST_ROUNDS, TRIALS = 256, 4
ROUNDS_UNTIMED = 16  # of a stand-in for kernels without a known time
ONCE = "r"  # first letter of arrays that are copied back once; a chunk may have none of them

Language = Literal["cupy", "pytorch", "cuda-c++"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FRONT_END_OF: dict[Language, str] = {"cupy": "cupy", "pytorch": "pytorch", "cuda-c++": COMPILED}


def language_of(front_end: str) -> Language | None:
    """Return the language of programs in a front end; None if there is none."""
    wanted = COMPILED if front_end == CALLS else front_end
    return next((language for language, name in FRONT_END_OF.items() if name == wanted), None)


class Array(NamedTuple):
    """An array of the program.

    - ``start``: its content before each run. "random": random numbers; "nothing": a value that cannot be a result;
      "blank": such a value, but the program may leave a part unwritten; "resident": random numbers that are on the card
      before the first run and stay there.
    - ``slots``: the number of buffers in its place, each for the largest chunk of ``part``; ``floats`` then has no
      meaning.
    """

    name: str
    place: Place
    floats: int
    start: Literal["random", "nothing", "blank", "resident"]
    slots: str = ""
    part: str = ""


class Cut(NamedTuple):
    """The cut of arrays with ``floats`` floats into chunks of whole units; ``name``: the name of the chunks."""

    name: str
    floats: int
    unit: int


class Piece(NamedTuple):
    """Floats of an array: all of them; the floats of a ``chunk`` in ``part``; or ``floats`` floats from ``first`` on.

    ``has_slots``: the array is a ring of buffers, and the chunk has the head of one buffer.
    """

    name: str
    part: str = ""
    has_slots: bool = False
    chunk: str = "i"
    first: int = 0
    floats: int = 0


class CopyStep(NamedTuple):
    """A copy between host and card in the current stream."""

    direction: Literal["h2d", "d2h"]
    card: Piece
    host: Piece
    is_blocking: bool = False


class LaunchStep(NamedTuple):
    """One launch of the stand-in in the current stream: it reads ``source`` and writes ``to``.

    ``weight``: its rounds, as a share (0..1] of the most rounds of any launch in the program.
    """

    source: Piece
    to: Piece
    weight: float = 1.0


class RunStep(NamedTuple):
    """The kernels of a chunk in the current stream, with these pieces as arguments."""

    pieces: tuple[Piece, ...]


class RecordStep(NamedTuple):
    """A record of the event in the stream."""

    event: str
    stream: str


class WaitStep(NamedTuple):
    """A wait of the stream for the event."""

    event: str
    stream: str


class SynchroniseStep(NamedTuple):
    """A wait of the host for a stream, an event, or (without both) the card."""

    stream: str = ""
    event: str = ""


class WorkStep(NamedTuple):
    """Host work; ``seconds`` is an expression."""

    seconds: str


class WithinStep(NamedTuple):
    """Calls in this stream."""

    stream: str
    body: tuple[Step, ...]


class Let(NamedTuple):
    """A variable of the program, and its value."""

    name: str
    value: str


class IfStep(NamedTuple):
    """The body, if the condition holds; ``let``: a variable that condition and body use."""

    condition: str
    body: tuple[Step, ...]
    let: Let | None = None


class LoopStep(NamedTuple):
    """The body for ``name`` from ``first`` to ``end - 1``; ``let``: a variable that ``end`` and the body use."""

    name: str
    first: str
    end: str
    body: tuple[Step, ...]
    let: Let | None = None


class TurnStep(NamedTuple):
    """The chunk whose buffers the next steps use."""

    chunk: str


Call = CopyStep | LaunchStep | RunStep | RecordStep | WaitStep | SynchroniseStep | WorkStep | TurnStep
Step = Call | WithinStep | IfStep | LoopStep


class Events(NamedTuple):
    """The events of one name: ``number`` of them, or one if it is ""."""

    name: str
    number: str = ""


class KernelCall(NamedTuple):
    """A kernel of the workload: the number of its launches over each chunk, and a comment.

    ``weight``: the rounds of a launch, as a share (0..1] of the most rounds of any kernel.
    """

    launches: int
    words: str
    weight: float = 1.0


class ChunkKernels(NamedTuple):
    """The kernels of each chunk: ``calls`` in a row, which read ``sources`` and ``tables`` and write ``targets``.

    The names are those of a chunk's pieces. ``is_even``: sources and targets are equally long.
    """

    calls: tuple[KernelCall, ...]
    sources: tuple[str, ...]
    tables: tuple[str, ...]
    targets: tuple[str, ...]
    is_even: bool

    @property
    def launches(self) -> int:
        """The number of launches of a chunk."""
        return sum(call.launches for call in self.calls)

    @property
    def again(self) -> tuple[str, ...]:
        """The arrays that later launches read: the first one's targets, or its sources if a chunk may lack these."""
        written = [name for name in self.targets if not name.startswith(ONCE)] or self.sources
        return tuple(written[k % len(written)] for k in range(len(self.sources)))

    @property
    def new_targets(self) -> tuple[str, ...]:
        """The names of the targets in the text of the stand-in."""
        return tuple(f"new_{name}" if name in self.sources else name for name in self.targets)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arrays, each once: the arguments of the user's kernels."""
        return tuple(dict.fromkeys((*self.sources, *self.tables, *self.targets)))


class TimedKernels(NamedTuple):
    """Kernels whose time is known: what ``steps`` launch takes ``seconds`` alone on the card, in the first stream.

    ``words``: a description of these launches.
    """

    steps: tuple[Step, ...]
    seconds: float
    words: str


class CodePlan(NamedTuple):
    """The plan of a whole program.

    - ``title``: a description. ``defaults``: the arguments of the program, and their default values.
    - ``issue``: its calls, without the last synchronisation of the card.
    - ``results``: the arrays that are compared. ``most_chunks``: the most chunks into which each array can be cut.
    - ``streams``: the number of streams, if the user cannot choose it, else 0. ``kinds``: the kinds of a schedule's
      streams, "legacy" for the legacy default stream; empty: all are non-blocking.
    - ``roles``: the purpose of each stream, "_" for none; empty: chunks take turns over the streams.
    - ``timed_kernels``: launches from which the program finds the rounds of its stand-in; None: no time is known.
    """

    title: str
    is_graph: bool
    defaults: dict[str, int]
    memory: tuple[Array, ...]
    cuts: tuple[Cut, ...]
    kernels: ChunkKernels | None
    events: tuple[Events, ...]
    issue: tuple[Step, ...]
    results: tuple[str, ...]
    most_chunks: int = 0
    streams: int = 0
    kinds: tuple[str, ...] = ()
    has_host_work: bool = False
    roles: tuple[str, ...] = ()
    timed_kernels: TimedKernels | None = None

    @property
    def is_pattern(self) -> bool:
        """True if it has chunks; otherwise it is a schedule written call by call."""
        return "chunks" in self.defaults

    @property
    def pattern(self) -> str:
        """The kind of program."""
        return self.title if self.is_pattern else "schedule"

    @property
    def has_slots(self) -> bool:
        """True if chunks use buffers in turn."""
        return "buffers" in self.defaults

    @property
    def summary(self) -> str:
        """A description in one line."""
        what = "Copies in, kernels and copies out, {}" if self.is_pattern else "Copies and kernels, call by call: {}"
        return f"{what.format(self.title)}; prints its times as JSON."

    @property
    def sizes(self) -> dict[int, str]:
        """The names of the sizes of arrays, by floats; empty if no arrays are cut."""
        if not self.is_pattern:
            return {}
        first: dict[int, str] = {}
        for memory in self.memory:
            first.setdefault(memory.floats, memory.name)
        return {floats: f"size_{name[2:]}" if len(first) > 1 else "size" for floats, name in first.items()}
