"""Plans of programs without a language.

Expressions, such as ``i - buffers``, and pieces of arrays, such as ``d_x[part[i]]``, are the same text in every
language. Sizes are in floats, because all arrays of these programs hold floats.
"""

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, get_args

from streamsim.code.steps import StepWriter
from streamsim.device import CALLS, COMPILED
from streamsim.program import MemoryKind as Place

FLOAT_BYTES = 4
VERIFIED = 3  # runs whose output is compared, before the timed ones
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
    """An array of the program, of ``size`` floats.

    - ``start``: its content before each run. "random": random numbers; "nothing": a value that cannot be a result;
      "blank": such a value, but the program may leave a part unwritten; "resident": random numbers that are on the card
      before the first run and stay there.
    - ``is_ring``: it is a ring of buffers of this size.
    """

    name: str
    place: Place
    size: str
    start: Literal["random", "nothing", "blank", "resident"]
    is_ring: bool = False


class Cut(NamedTuple):
    """The cut of arrays with ``size`` floats into chunks of whole units; ``name``: the name of the chunks."""

    name: str
    size: str
    unit: int


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


class Plan(ABC):
    """The plan of a whole program.

    - ``title``: a description. ``defaults``: the arguments of the program, and their default values.
    - ``sizes``: names of numbers of floats. ``cuts``: of arrays, if the program has chunks; otherwise it is a schedule.
    - ``events``: their names, and the number of each ("" for one).
    - ``results``: the arrays that are compared. ``most_chunks``: the most chunks into which each array can be cut.
    - ``streams``: the number of streams, if the user cannot choose it, else 0. ``kinds``: the kinds of a schedule's
      streams, "legacy" for the legacy default stream.
    - ``kernels_s``: the seconds of :meth:`kernels_alone`, in ``kernels_words``, alone on the card. From it the program
      finds the rounds of its stand-in. 0: no time is known.
    """

    title: str
    is_graph: bool
    defaults: dict[str, int]
    sizes: dict[str, int]
    memory: tuple[Array, ...]
    kernels: ChunkKernels | None
    events: dict[str, str]
    results: tuple[str, ...]
    has_host_work: bool
    streams: int
    kinds: tuple[str, ...] = ("non-blocking",)
    cuts: tuple[Cut, ...] = ()
    most_chunks = 0
    kernels_s = 0.0
    kernels_words = "the kernels of all chunks"

    @abstractmethod
    def steps(self, to: StepWriter) -> list[str]:
        """Return all calls in a language, in order, without the last synchronisation of the card."""

    @abstractmethod
    def kernels_alone(self, to: StepWriter) -> list[str]:
        """Return launches of kernels in the first stream."""

    @property
    def is_pattern(self) -> bool:
        """True if it has chunks; otherwise it is a schedule written call by call."""
        return "chunks" in self.defaults
