"""Meters of tuning's candidates: replays of schedules, or programs in a language.

The programs in a language are those that ``streamsim code`` writes. Their stand-in for the user's kernels computes in
rounds, and only the card shows how long a round takes. So before the first candidate, :class:`Programs` finds the
number of rounds that takes the time that the workload gives its kernels. The model predicts with the measured time of
these rounds, or of the user's own kernels.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import Config, Workload, WorkloadKernel
from streamsim_validate.gpu import Gpu, LostGpuError
from streamsim_validate.progress import OnStep, quietly, shuffled_rounds
from streamsim_validate.records import Entry, median_and_spread, recipe_of
from streamsim_validate.run.replays import Planned, WrittenProgram, failure, measure
from streamsim_validate.run.runners import Cuda, Python, run_on

TITLE = EFFECT = "tune"
TURNS = 3  # in which several programs are run
MORE = 8  # more launches of each kernel: the program takes longer by the time of that many kernels
FEW, MANY, MOST = 1, 64, 1_000_000  # rounds of the stand-in
TRIES = 8
NEAR = 0.02
FLAT, STEEPER = 0.2, 16  # if the time rises by less than this share, STEEPER times as many rounds are tried next

OnEntry = Callable[[Entry], None]
Measures = Callable[[Sequence[Planned]], list[Entry]]


class Replays:
    """A meter of schedules as the validator replays them: bare calls, output verified.

    ``title``: what the record says was measured.
    """

    title = TITLE

    def __init__(self, workload: Workload, gpu: Gpu) -> None:
        self._workload, self._gpu = workload, gpu

    def planned(self, config: Config, key: str) -> Planned:
        """Return the candidate with this configuration."""
        recipe = recipe_of(config, self._workload, EFFECT)
        return Planned(key, recipe.schedule(), recipe)

    def predicted(self, configs: Sequence[Config], device: Device, measured: Measures, on_step: OnStep) -> Workload:  # noqa: ARG002
        """Return the workload to predict: a kernel that is given by its time takes that time."""
        return self._workload

    def measure(self, items: Sequence[Planned], repeats: int, seed: int, group: int, on_entry: OnEntry) -> None:
        """Measure each ``repeats`` times, repeats interleaved; ``on_entry`` is called with the result of each.

        If one fails, its ``status`` has the reason. Raises InputError if nothing more can be measured, and
        KeyboardInterrupt. ``group``: the number of these candidates.
        """
        measure(items, self._gpu, repeats, seed, on_result=lambda found: on_entry(found.entry), first_group=group)


class Kernels(NamedTuple):
    """Seconds of all kernels over all the work, said and measured. ``work``: rounds of the stand-in; 0: no stand-in."""

    work: int
    said_s: float
    measured_s: float


class Programs:
    """A meter, as :class:`Replays`, of programs in a language, which time themselves and verify their own output.

    ``kernels``: the time of the workload's kernels, once it is known.
    """

    def __init__(self, workload: Workload, runner: Python | Cuda, gpu: Gpu) -> None:
        self.title = f"{TITLE} as {runner.language}"
        self.kernels: Kernels | None = None
        self._workload, self._runner, self._gpu = workload, runner, gpu
        self._work = FEW

    def planned(self, config: Config, key: str) -> Planned:
        """Return the program, whose stand-in takes the kernels' time."""
        return self._written(config, key, self._work)

    def _written(self, config: Config, key: str, work: int, times: int = 1) -> WrittenProgram:
        recipe = recipe_of(config, self._workload, EFFECT)
        return WrittenProgram(key, recipe.schedule(), recipe, self._runner.language, work, times)

    def predicted(self, configs: Sequence[Config], device: Device, measured: Measures, on_step: OnStep) -> Workload:
        """Return the workload with the time that its kernels take in these programs."""
        if not self._workload.kernels:
            return self._workload
        said = said_s(self._workload, device)
        simplest = next((config for config in configs if config.streams == 1), configs[0])

        def time_of(work: int) -> float:
            on_step("timing the kernels", 0, 1)
            what = "kernels" if self._runner.has_own else f"stand-in of {work} rounds"
            once = self._written(simplest, what, work)
            entries = measured([once, self._written(simplest, f"{what}, {1 + MORE} times", work, 1 + MORE)])
            for entry in entries:
                if entry.status != "ok":
                    raise InputError(f"{entry.key}: {entry.status}")
            once_s, more_s = (median_and_spread(entry.wall_s)[0] for entry in entries)
            return max(1e-9, (more_s - once_s) / MORE)

        if self._runner.has_own:
            self.kernels = Kernels(0, sum(said), time_of(FEW))
        else:
            self._work, found_s = rounds_for(sum(said), time_of)
            self.kernels = Kernels(self._work, sum(said), found_s)
        ratio = self.kernels.measured_s / sum(said)
        kernels = (_taking(kernel, one, ratio) for kernel, one in zip(self._workload.kernels, said, strict=True))
        return replace(self._workload, kernels=tuple(kernels))

    def measure(self, items: Sequence[Planned], repeats: int, seed: int, group: int, on_entry: OnEntry) -> None:
        """Run each program by itself, in turns if there are several."""
        walls: dict[str, list[float]] = {item.key: [] for item in items}
        failed: dict[str, str] = {}
        turns = TURNS if len(items) > 1 else 1
        rng = random.Random(f"{seed} {group}")
        for _, item in shuffled_rounds(items, turns, rng, "", quietly):
            if item.key in failed:
                continue
            try:
                walls[item.key] += self._run(item, -(-repeats // turns))
            except InputError as error:
                failed[item.key] = failure(error)
                if isinstance(error, LostGpuError):
                    on_entry(item.entry(failed[item.key], group=group))
                    raise
        for item in items:
            status = failed.get(item.key, "ok")
            on_entry(item.entry(status, wall_s=walls[item.key] if status == "ok" else (), group=group))

    def _run(self, item: Planned, repeats: int) -> tuple[float, ...]:
        """Return the wall times of a program. Raises InputError, or LostGpuError if nothing more can be measured."""
        assert isinstance(item, WrittenProgram)
        made = item.config, repeats, item.work, item.times
        return run_on(self._gpu, item.key, lambda: self._runner.run(self._workload, *made)).checked().wall_s


Meter = Replays | Programs


# The time of kernels


def said_s(workload: Workload, device: Device) -> list[float]:
    """Return the seconds of each kernel over all the work. Raises InputError for an unknown kernel."""
    (whole,) = workload.cut(1)
    alone = (replace(workload, kernels=(kernel,)) for kernel in workload.kernels)
    return [sum(device.kernel_time(launch)[0] for launch in one.launches(whole)) for one in alone]


def _taking(kernel: WorkloadKernel, said: float, ratio: float) -> WorkloadKernel:
    """Return the kernel with ``ratio`` times the time ``said``."""
    if kernel.is_timed:
        return kernel.scaled(ratio)
    return WorkloadKernel(kernel.name, said * ratio, fill=kernel.fill, launches=kernel.launches)


def rounds_for(wanted_s: float, time_of: Callable[[int], float]) -> tuple[int, float]:
    """Return how many rounds take nearest to ``wanted_s``, and their seconds. ``time_of`` measures some rounds.

    The time grows with the rounds once it exceeds the time of the memory. So times above ``wanted_s`` show the growth.
    """
    known = {FEW: time_of(FEW)}
    while known[FEW] < wanted_s * (1 - NEAR) and len(known) < TRIES:
        work = round(min(max(_guess(known, wanted_s), FEW), MOST))
        if work in known:
            break
        known[work] = time_of(work)
        if abs(known[work] / wanted_s - 1) <= NEAR:
            break
    found = _nearest(known, wanted_s)
    return found, known[found]


def _guess(known: dict[int, float], wanted_s: float) -> float:
    """Return the rounds to try next, by a line.

    The line goes through two known times above ``wanted_s``, else from 0 to the only one above, else through the two
    longest.
    """
    longer = sorted(work for work, seconds in known.items() if seconds > wanted_s)[:2]
    if len(longer) == 1:
        return longer[0] * wanted_s / known[longer[0]]
    if len(known) == 1:
        return MANY
    below, above = longer or sorted(known)[-2:]
    rise_s = known[above] - known[below]
    if not longer and rise_s < FLAT * known[above]:
        return STEEPER * above
    return below + (wanted_s - known[below]) * (above - below) / rise_s if rise_s > 0 else FEW


def _nearest(known: dict[int, float], wanted_s: float) -> int:
    return min(known, key=lambda work: abs(known[work] - wanted_s))
