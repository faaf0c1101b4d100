"""Programs in a language, as records hold them: what was measured beside each, and records of before there was a suite.

A program's recipe names its kernels by what they compute; how long they take is measured beside it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from streamsim.device.files import parse_device
from streamsim.device.front_ends import LINEAR
from streamsim.errors import InputError
from streamsim.program.config import Config, ring_config
from streamsim.program.schedule import Copy, Schedule, Synchronize
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim_validate.records.card import CALIBRATED_ON, Card
from streamsim_validate.records.recipe import Recipe
from streamsim_validate.records.record import Entry, Machine, Program, Record, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamsim.device.profile import Host

STAND_IN, LAST = "stand_in", "relu"  # kernels beside LINEAR; rounds and features are their parameters
PROGRAMS = "programs"  # the suite
# Calls by their letters in a round, and what each costs: i, o copies in and out, k a kernel, l a linear layer, n a
# kernel that no other round has, r and w record and wait for an event, s synchronises, | enters a stream.
CALLS = {"i": "copy_s", "o": "copy_s", "k": "kernel_s", "r": "record_s", "w": "wait_s", "s": "synchronize_s"}
CALLS |= {"|": "enter_s", "l": "linear_s", "n": "kernel_s"}
KERNELS = "kln"
ENTERS, TURN = "|", "turn_s"  # and what each that is not behind one of its kind costs more
CHUNK_ROUND = "|iko"  # of calls, as the front ends are calibrated with: what says how fast the host is
LINEAR_ROUND = "|ilo"  # the same with a linear layer
# Beside each run as well: a copy each way at once, as long as a program's, since what others leave of the link changes
# within milliseconds.
LINK_BYTES = 32 << 20
LINK_PAIR = Schedule(
    (Copy("h2d", LINK_BYTES, 1), Copy("d2h", LINK_BYTES, 2), Synchronize()), streams=("non-blocking",) * 2
)
ELEMENT_BYTES = 4
MOST_KERNELS = 1000  # of a program in an earlier record
EARLIER_BEGINS = b'{"seed":'


def stand_ins(elements: int, kernels: int, work: int) -> Workload:
    """A float in and a float out of each element, through so many stand-ins of ``work`` rounds."""
    kernel = WorkloadKernel(STAND_IN, parameter=work)
    return Workload(elements, (ELEMENT_BYTES,), (ELEMENT_BYTES,), (kernel,) * kernels)


def linear_layers(rows: int, features: int, layers: int) -> Workload:
    """So many rows of floats through linear layers of as many features each, and one operation more."""
    kernels = (WorkloadKernel(LINEAR, parameter=features),) * layers
    size = (ELEMENT_BYTES * features,)
    return Workload(rows, size, size, (*kernels, WorkloadKernel(LAST)))


def costs_in(kind: str) -> Counter[str]:
    """How often each cost of a host is paid in a round of that kind, one of many in a row.

    Raises InputError for a call that is none.
    """
    if not set(kind) <= CALLS.keys():
        raise InputError(f"pace = {kind!r}: expected letters of {''.join(CALLS)}; measure it again")
    called = ["kernel" if letter in KERNELS else letter for letter in kind if letter != ENTERS]
    turns = sum(one != other for one, other in zip(called, called[-1:] + called, strict=False))
    return Counter(CALLS[letter] for letter in kind) + Counter({TURN: turns})


def round_s(host: Host, kind: str) -> float:
    """Seconds of a round of that kind, by what its calls cost. Raises InputError as :func:`costs_in`."""
    known = host if host.linear_s else msgspec.structs.replace(host, linear_s=host.kernel_s)
    return sum(float(getattr(known, name)) * times for name, times in costs_in(kind).items())


def key_of(language: str, recipe: Recipe) -> str:
    """One line that names the program and no other."""
    return f"{language}: {recipe.key}"


def config_of(recipe: Recipe) -> Config:
    """How the program is cut and issued."""
    numbers: dict[str, Any] = dict(recipe.arguments)
    if recipe.pattern == "ring":
        return ring_config(**numbers)
    return Config(recipe.pattern, **numbers)  # type: ignore[arg-type]


# Records of before there was a suite


class _EarlierProgram(msgspec.Struct, frozen=True):
    front_end: str
    order: str
    elements: int
    kernels: Annotated[int, msgspec.Meta(ge=1, le=MOST_KERNELS)]
    work: int
    chunks: int
    streams: int
    kernel_s: float
    chunk_s: float
    round_s: float
    wall_s: tuple[float, ...]

    def entry(self) -> Entry:
        arguments: dict[str, int | str] = {"chunks": self.chunks, "streams": self.streams}
        recipe = Recipe(self.order, arguments, stand_ins(self.elements, self.kernels, self.work), STAND_IN)
        took, part = (self.kernel_s,) * self.kernels, (self.chunk_s,) * self.kernels
        return Entry(
            key=key_of(self.front_end, recipe),
            digest="",
            verified=True,
            recipe=recipe,
            wall_s=self.wall_s,
            program=Program(self.front_end, took, part, (self.round_s,)),
        )


class _Earlier(msgspec.Struct, frozen=True):
    """``profile``: that of the card, calibrated just before, as TOML."""

    seed: int
    date: str
    profile: str
    programs: tuple[_EarlierProgram, ...]


def is_earlier(plain: bytes) -> bool:
    """Whether that is a record of programs of before there was a suite."""
    return plain.lstrip().startswith(EARLIER_BEGINS)


def read_earlier(plain: bytes) -> Record:
    """The same as a record of today; what it does not say of the card and its host is empty.

    Raises InputError for its profile, and what msgspec raises for all else.
    """
    found = msgspec.json.decode(plain, type=_Earlier)
    device = parse_device(found.profile)
    name, _, rest = device.description.partition(CALIBRATED_ON)[2].partition(", driver ")
    driver = rest.partition(",")[0]
    card = Card(name, "", device.memory_bytes or 0, 0, 0, device.copy_engines.count, "", driver, "", "", "")
    profile = msgspec.json.decode(msgspec.json.encode(device))
    entries = tuple(_each_with_a_key(program.entry() for program in found.programs))
    repeats = max((len(program.wall_s) for program in found.programs), default=0)
    run = Run(
        device.connections, found.date, found.seed, repeats, before=profile, entries=entries, count=len(found.programs)
    )
    return Record(card, Machine("", "", 0, ""), PROGRAMS, (run,))


def _each_with_a_key(entries: Iterable[Entry]) -> Iterator[Entry]:
    """A configuration that was drawn twice was measured twice."""
    seen: Counter[str] = Counter()
    for entry in entries:
        seen[entry.key] += 1
        key = entry.key if seen[entry.key] == 1 else f"{entry.key} ({seen[entry.key]})"
        yield msgspec.structs.replace(entry, key=key)
