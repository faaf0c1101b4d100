"""The host's costs of a front end's calls.

A call that is repeated alone has warm caches. So most rounds of calls are mixtures, as a chunk's loop makes them. The
fitted costs explain all rounds best, relative to each. A call includes the slices that it takes.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from statistics import median

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from streamsim.collector import collector_off
from streamsim.device import IN_LOOPS, FrontEnd
from streamsim.errors import InputError, install
from streamsim_validate.gpu import Calls, Compiled
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import ENTERS, costs_in, relative_deviation


def non_negative(rows: ArrayLike, sums: ArrayLike) -> np.ndarray:
    """Return the ``x`` of numbers that are not negative with which ``rows @ x`` comes nearest to ``sums``.

    An unknown that is in no row is 0. The method: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
    Raises InputError without SciPy.
    """
    try:
        from scipy.optimize import nnls
    except ImportError:
        raise InputError(f"calibration needs SciPy; {install('calibrate')}") from None
    matrix = np.asarray(rows, float)
    lengths = np.linalg.norm(matrix, axis=0)  # columns in other units have other lengths: all are made alike
    told = lengths > 0
    found = np.zeros(len(lengths))
    if told.any():
        found[told] = nnls(matrix[:, told] / lengths[told], np.asarray(sums, float))[0] / lengths[told]
    return found


# Of the letters of CALLS; | is a block that enters a stream and holds what follows, and s has nothing to wait for.
KINDS = (
    *("i", "o", "k", "r", "w", "s", "|i", "|k"),
    *("iko", "iiko", "ikoo", "ikkkko", "irwko"),
    *("|iko", "|iiko", "|ikko", "|i|k|o", "|ik|rwo"),
)
ALONE = "1"  # in front of a kind: a single turn, behind a wait
FIRST, NEW = f"{ALONE}|iko", f"{ALONE}|ino"  # of libraries, whose first calls are dear, those of an operation more so
ALONE_KINDS = (FIRST, NEW)
LINEAR_KINDS = ("l", "|l", "ilo", "|ilo", "|ilklo")  # of libraries that have such layers
REPEATS, WARM_UP = 25, 3
QUIET = 0.25  # the share of the runs, fastest first, that ends with what a round takes where nothing disturbs the host
TURNS = 40  # rounds in a run: their work is far from filling the driver's queue

Rounds = dict[str, tuple[float, ...]]  # by round the seconds that each took, one figure a run


class LibrarySamples(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rounds of a library, and its name and version in words."""

    version: str
    rounds: Rounds


def measure_front_ends(
    libraries: Iterable[Calls], compiled: Compiled | None = None, on_step: OnStep = quietly
) -> dict[str, LibrarySamples]:
    """Return the rounds of every library and of compiled programs, by the name of the front end.

    If the compiler does not work, compiled programs are left out, and ``on_step`` gets the reason.
    """
    found = {
        calls.name: LibrarySamples(calls.version, measure_front_end(calls, on_step=on_step)) for calls in libraries
    }
    if compiled is not None:
        on_step(f"calibrating {compiled.name}", 0, 1)
        try:
            rounds = _by_kind(KINDS, partial(compiled.rounds_s, turns=TURNS))
            found[compiled.name] = LibrarySamples(compiled.version, rounds)
        except InputError as error:
            on_step(f"leaving {compiled.name} out: {error}", 0, 1)
    return found


def _by_kind(kinds: Iterable[str], time_runs: Callable[[Sequence[str]], Iterable[float]]) -> Rounds:
    """Return the seconds of all runs by kind. The kinds are interleaved in an order that is always the same."""
    runs = [kind for kind in kinds for _ in range(REPEATS)]
    random.Random(0).shuffle(runs)
    found: dict[str, list[float]] = {}
    for kind, took_s in zip(runs, time_runs(runs), strict=True):
        found.setdefault(kind, []).append(took_s)
    return {kind: tuple(each) for kind, each in found.items()}


def measure_front_end(
    calls: Calls, clock: Callable[[], float] = time.perf_counter, on_step: OnStep = quietly
) -> Rounds:
    """Return the seconds of a round of a library, by kind. The kinds are interleaved in shuffled order."""
    kinds: tuple[str, ...] = (*KINDS, *ALONE_KINDS)
    with suppress(NotImplementedError):
        calls.linear(0)
        kinds += LINEAR_KINDS

    def time_runs(runs: Sequence[str]) -> Iterator[float]:
        for i, kind in enumerate(runs):
            on_step(f"calibrating {calls.name}", i, len(runs))
            yield time_round(calls, kind, clock)

    with collector_off():
        for kind in kinds[:: len(kinds) // WARM_UP]:
            time_round(calls, kind, clock)
        return _by_kind(kinds, time_runs)


def time_round(calls: Calls, kind: str, clock: Callable[[], float], in_one_stream: bool = False) -> float:
    """Return the seconds of a round of that kind. ``in_one_stream``: all turns enter the same stream."""
    made: dict[str, Callable[[int], object]] = {
        "i": calls.copy_in,
        "o": calls.copy_out,
        "k": calls.kernel,
        "l": calls.linear,
        "n": calls.other,
        "r": calls.record,
        "w": calls.wait,
        "s": lambda _: calls.synchronize(),
    }
    outside = nullcontext() if ENTERS in kind else calls.entered(0)
    turns = 1 if kind.startswith(ALONE) else TURNS
    kind = kind.removeprefix(ALONE)
    blocks = [[made[letter] for letter in block] for block in kind.removeprefix(ENTERS).split(ENTERS)]
    calls.record(0)
    calls.synchronize()
    with outside:
        begin = clock()
        if ENTERS in kind:
            for turn in range(turns):
                for block in blocks:
                    with calls.entered(0 if in_one_stream else turn):
                        for call in block:
                            call(turn)
        else:
            for turn in range(turns):
                for call in blocks[0]:
                    call(turn)
        seconds = (clock() - begin) / turns
    calls.synchronize()
    return seconds


def fit_front_end(rounds: Mapping[str, Sequence[float]], source: str, is_library: bool = True) -> FrontEnd:
    """Return the costs that explain the fast quarter of the rounds best, in relative terms; none is below zero.

    Other work on a host slows it for a while, by half at times, and never speeds it up.

    - ``spread``: the scatter of the rounds and the misfit of the costs, in quadrature.
    - ``after_wait_s``: the extra time of the first calls of a single turn behind a wait. ``first_launch_s``: the extra
      time beyond that with an operation that was not called recently. Both are 0 without such rounds.
    - ``is_library``: whether the front end makes a call to enter a stream and costs more if the kind of call changes.
      The rounds of compiled programs have only the other costs.

    Raises InputError if rounds are missing or took no time.
    """
    in_loops = {kind: seconds for kind, seconds in rounds.items() if kind not in ALONE_KINDS}
    complete = set(in_loops) in (set(KINDS), {*KINDS, *LINEAR_KINDS})
    if not complete or not all(seconds and min(seconds) > 0 for seconds in rounds.values()):
        raise InputError("calibration: the rounds of a front end are of another version or cut short; calibrate again")
    quiet_s = np.array([_quiet_s(seconds) for seconds in in_loops.values()])
    are_paid = [is_library or name not in ("enter_s", "turn_s") for name in IN_LOOPS]
    relative = np.array([_costs_in(kind) for kind in in_loops]) * are_paid / quiet_s[:, None]
    costs = non_negative(relative, np.ones(len(relative)))
    misfit = float(np.sqrt(np.mean((relative @ costs - 1) ** 2)))
    scatter = median(map(relative_deviation, map(tuple, in_loops.values())))
    known = dict(zip(IN_LOOPS, map(float, costs), strict=True))
    longer_s = _quiet_s(rounds[FIRST]) - float(_costs_in(FIRST) @ costs) if FIRST in rounds else 0.0
    known["after_wait_s"] = max(0.0, longer_s / 2)  # of the first copy and the first operation
    known["first_launch_s"] = max(0.0, _quiet_s(rounds[NEW]) - _quiet_s(rounds[FIRST])) if NEW in rounds else 0.0
    return FrontEnd(**known, source=source, spread=float(np.hypot(misfit, scatter)))


def _quiet_s(seconds: Sequence[float]) -> float:
    return float(np.quantile(seconds, QUIET))


def _costs_in(kind: str) -> np.ndarray:
    """Return how often a round pays each cost, in the order of ``IN_LOOPS``."""
    found = costs_in(kind.removeprefix(ALONE))
    return np.array([found[name] for name in IN_LOOPS])
