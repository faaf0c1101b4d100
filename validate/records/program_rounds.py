"""Programs in a language, as records hold them, and the rounds of calls beside them.

A program's recipe names its kernels by what they compute. Their times are measured beside the program.
"""

from collections import Counter
from typing import Any

import msgspec

from streamsim.device import LINEAR, Host
from streamsim.errors import InputError
from streamsim.program import Config, Copy, Schedule, Synchronize, Workload, WorkloadKernel, ring_config
from streamsim_validate.records.recipe import ORDER_OF, Recipe

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


def stand_ins(elements: int, kernels: int, work: int) -> Workload:
    """Return a workload of a float in and out of each element, with ``kernels`` stand-ins of ``work`` rounds."""
    kernel = WorkloadKernel(STAND_IN, parameter=work)
    return Workload(elements, (ELEMENT_BYTES,), (ELEMENT_BYTES,), (kernel,) * kernels)


def linear_layers(rows: int, features: int, layers: int) -> Workload:
    """Return a workload of rows of floats through linear layers of ``features``, and one operation more."""
    kernels = (WorkloadKernel(LINEAR, parameter=features),) * layers
    size = (ELEMENT_BYTES * features,)
    return Workload(rows, size, size, (*kernels, WorkloadKernel(LAST)))


def costs_in(kind: str) -> Counter[str]:
    """Return how often a round of that kind, one of many in a row, pays each cost of a host.

    Raises InputError for an unknown call.
    """
    if not set(kind) <= CALLS.keys():
        raise InputError(f"pace = {kind!r}: expected letters of {''.join(CALLS)}; measure it again")
    called = ["kernel" if letter in KERNELS else letter for letter in kind if letter != ENTERS]
    turns = sum(one != other for one, other in zip(called, called[-1:] + called, strict=False))
    return Counter(CALLS[letter] for letter in kind) + Counter({TURN: turns})


def round_s(host: Host, kind: str) -> float:
    """Return the seconds of a round of that kind. Raises InputError as :func:`costs_in` does."""
    known = host if host.linear_s else msgspec.structs.replace(host, linear_s=host.kernel_s)
    return sum(float(getattr(known, name)) * times for name, times in costs_in(kind).items())


def key_of(language: str, recipe: Recipe) -> str:
    """Return one line that names the program and no other."""
    return f"{language}: {recipe.key}"


def config_of(recipe: Recipe) -> Config:
    """Return how the program is cut and issued."""
    numbers: dict[str, Any] = dict(recipe.arguments)
    if recipe.pattern == "ring":
        return ring_config(**numbers)
    return Config(ORDER_OF.get(recipe.pattern, "prefetch"), **numbers)
