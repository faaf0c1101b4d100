"""What a program does, in no language: its memory, its loops, and the calls in them.

Conditions, numbers of streams and events are text that Python and C++ read alike, ``i - buffers``; ``and`` alone is
spelt differently. Sizes are in floats, which all arrays of these programs hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from streamsim.device.front_ends import CALLS, COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamsim.program.schedule import Memory as Place

FLOAT_BYTES = 4
VERIFIED = 3  # runs of a program, before those that are timed
# A program whose kernels' time is known measures its stand-in at its start, and sets its rounds by that, so many times.
# The first rounds are many enough that they, not the memory's bandwidth, say what it takes.
FIRST_ROUNDS, TRIALS = 256, 4
ROUNDS_UNTIMED = 16  # of a stand-in for kernels of which no time is known
ONCE = "r"  # begins the names of arrays that are copied back once, of which a chunk may have nothing

Language = Literal["cupy", "pytorch", "cuda-c++"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
FRONT_END_OF: dict[Language, str] = {"cupy": "cupy", "pytorch": "pytorch", "cuda-c++": COMPILED}


def language_of(front_end: str) -> Language | None:
    """The language of programs in a front end; None where there is none."""
    wanted = COMPILED if front_end == CALLS else front_end
    return next((language for language, name in FRONT_END_OF.items() if name == wanted), None)


class Memory(NamedTuple):
    """An array of the program.

    ``start``: what the host puts there before each run: ``random`` numbers; ``nothing`` that could be taken for a
    result; ``blank`` the same where the program may leave a part of it so; ``resident``: random numbers that are on the
    card before the first run and stay. ``slots``: it is that many buffers, each for the largest chunk that ``part``
    has; ``floats`` then says nothing.
    """

    name: str
    place: Place
    floats: int
    start: Literal["random", "nothing", "blank", "resident"]
    slots: str = ""
    part: str = ""


class Cut(NamedTuple):
    """How an array of so many floats is cut into chunks of whole units; ``name``: of the chunks."""

    name: str
    floats: int
    unit: int


class Piece(NamedTuple):
    """Floats of an array: all of it; those of a ``chunk``, by the name of its ``part``; or ``floats`` from ``first``.

    ``has_slots``: the array is buffers used in turn, of which the chunk has the head of one.
    """

    name: str
    part: str = ""
    has_slots: bool = False
    chunk: str = "i"
    first: int = 0
    floats: int = 0


class Copy(NamedTuple):
    """A copy between host and card in the current stream."""

    direction: Literal["h2d", "d2h"]
    card: Piece
    host: Piece
    is_blocking: bool = False


class Launch(NamedTuple):
    """One launch of the stand-in in the current stream, from ``source`` to ``to``: floats of one array each.

    ``weight``: its rounds over those of the launch of the program that has most (0..1].
    """

    source: Piece
    to: Piece
    weight: float = 1.0


class Run(NamedTuple):
    """The kernels of a chunk in the current stream, on these pieces."""

    pieces: tuple[Piece, ...]


class Record(NamedTuple):
    """The event is recorded in the stream."""

    event: str
    stream: str


class Wait(NamedTuple):
    """The stream waits for the event."""

    event: str
    stream: str


class Synchronise(NamedTuple):
    """The host waits for a stream, an event, or (neither given) the card."""

    stream: str = ""
    event: str = ""


class HostWork(NamedTuple):
    """The host works for so many seconds, which are an expression."""

    seconds: str


class Within(NamedTuple):
    """The calls of the body are in this stream."""

    stream: str
    body: tuple[Step, ...]


class Let(NamedTuple):
    """A number of the program."""

    name: str
    value: str


class If(NamedTuple):
    """The body where the condition holds, which may be of a number of its own."""

    condition: str
    body: tuple[Step, ...]
    let: Let | None = None


class Loop(NamedTuple):
    """The body for ``name`` from ``first`` up to, and without, ``end``, which may be of a number of its own."""

    name: str
    first: str
    end: str
    body: tuple[Step, ...]
    let: Let | None = None


class Turn(NamedTuple):
    """What follows is of this chunk and its buffers, which are used in turn."""

    chunk: str


Step = Copy | Launch | Run | Record | Wait | Synchronise | HostWork | Within | If | Loop | Turn


def copies_in(steps: Iterable[Step]) -> Iterator[Copy]:
    """Every copy among the steps and in their bodies, in their order."""
    for step in steps:
        match step:
            case Copy():
                yield step
            case Within(_, body) | If(_, body, _) | Loop(_, _, _, body, _):
                yield from copies_in(body)


class Events(NamedTuple):
    """So many events of one name, or (no number) one."""

    name: str
    number: str = ""


class KernelCall(NamedTuple):
    """A kernel of the workload: so many launches over each chunk, and what is known of it.

    ``weight``: the rounds of a launch over those of the kernel that has most (0..1].
    """

    launches: int
    words: str
    weight: float = 1.0


class Kernels(NamedTuple):
    """What runs on each chunk: ``calls`` one after another, from arrays ``sources`` and ``tables`` to ``targets``.

    The names are those of the pieces of a chunk. ``is_even``: those of sources and targets are equally long.
    """

    calls: tuple[KernelCall, ...]
    sources: tuple[str, ...]
    tables: tuple[str, ...]
    targets: tuple[str, ...]
    is_even: bool

    @property
    def launches(self) -> int:
        """How many launches a chunk has."""
        return sum(call.launches for call in self.calls)

    @property
    def again(self) -> tuple[str, ...]:
        """What later launches read: what the first one has written, or where a chunk may have none of that the same."""
        written = [name for name in self.targets if not name.startswith(ONCE)] or self.sources
        return tuple(written[k % len(written)] for k in range(len(self.sources)))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all arrays, each once: the arguments of the place where the user's kernels go."""
        return tuple(dict.fromkeys((*self.sources, *self.tables, *self.targets)))


class TimedKernels(NamedTuple):
    """Kernels whose time is known: what ``steps`` launch takes ``seconds``, alone on the card in the first stream.

    ``words``: what that is the time of.
    """

    steps: tuple[Step, ...]
    seconds: float
    words: str


class Plan(NamedTuple):
    """A whole program.

    ``title``: what it is, in words. ``streams``: their number where the user cannot choose it, else 0. ``kinds``: of
    the streams of a schedule, the legacy default stream's being ``legacy``; empty: all non-blocking. ``defaults``: the
    arguments of the program and what they are unless given. ``issue``: its calls, but for the last synchronisation of
    the card. ``results``: the arrays that are compared. ``most_chunks``: into how many each array can be cut.
    ``roles``: what each of the streams is for, ``_``: nothing; empty: chunks take turns over them. ``timed_kernels``:
    by which the program finds how many rounds its stand-in computes; None where no time is known.
    """

    title: str
    is_graph: bool
    defaults: dict[str, int]
    memory: tuple[Memory, ...]
    cuts: tuple[Cut, ...]
    kernels: Kernels | None
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
        """Whether it has chunks; otherwise it is a schedule written out."""
        return "chunks" in self.defaults

    @property
    def pattern(self) -> str:
        """What kind of program it is."""
        return self.title if self.is_pattern else "schedule"

    @property
    def has_slots(self) -> bool:
        """Whether buffers are used in turn."""
        return "buffers" in self.defaults

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        what = "Copies in, kernels and copies out, {}" if self.is_pattern else "Copies and kernels, call by call: {}"
        return f"{what.format(self.title)}; prints its times as JSON."

    @property
    def sizes(self) -> dict[int, str]:
        """The names of the sizes of arrays, where it cuts them."""
        if not self.is_pattern:
            return {}
        first: dict[int, str] = {}
        for memory in self.memory:
            first.setdefault(memory.floats, memory.name)
        return {floats: f"size_{name[2:]}" if len(first) > 1 else "size" for floats, name in first.items()}
