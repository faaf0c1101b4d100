"""What measures the programs of a workload for tuning: replays of schedules, or programs in a language.

The programs in a language are those that ``streamsim code`` writes. The stand-in for the user's kernels computes so
many rounds, and how long a round takes only the card says: before the first candidate, as many rounds are found as take
the time that the workload gives its kernels. What they take then, or what kernels of the user's own take, is what the
model predicts with.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from streamsim.errors import InputError
from streamsim.program.workload import WorkloadKernel
from streamsim_validate.gpu import LostGpuError
from streamsim_validate.records import Entry, median_and_spread, recipe_of
from streamsim_validate.run.campaign import entry
from streamsim_validate.run.measure import Measured, measure
from streamsim_validate.run.planned import Planned
from streamsim_validate.run.programs import run_on

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload
    from streamsim_validate.gpu import Gpu
    from streamsim_validate.progress import OnStep
    from streamsim_validate.run.programs import Result, Runner

TITLE = EFFECT = "tune"
ROUNDS = 3  # in which programs are run in turns
MORE = 8  # launches of each kernel more: by so much longer a program takes, as many kernels take
FEW, MANY, MOST = 1, 64, 1_000_000  # rounds of the stand-in
TRIES = 8
NEAR = 0.02
FLAT, STEEPER = 0.2, 16  # where time rises by less than this share, so many times as many rounds are tried next

OnEntry = Callable[[Entry], None]
Measures = Callable[[Sequence[Planned]], list[Entry]]


class Meter(Protocol):
    """What measures programs of a workload. ``title``: what a record says was done."""

    title: str

    def planned(self, config: Config, key: str) -> Planned:
        """The program that is cut and issued so."""

    def predicted(self, configs: Sequence[Config], device: Device, measured: Measures, on_step: OnStep) -> Workload:
        """What the programs do, which is what is predicted; it may have to measure that first."""

    def measure(self, items: Sequence[Planned], repeats: int, seed: int, group: int, on_entry: OnEntry) -> None:
        """Measure each so many times, their repeats interleaved; ``on_entry`` is called with what came of each.

        ``group``: their number. One that fails has the reason in its ``status``. Raises InputError where nothing more
        can be measured, and KeyboardInterrupt.
        """


class Replays:
    """Measures schedules as the validator replays them: bare calls, output verified."""

    title = TITLE

    def __init__(self, workload: Workload, gpu: Gpu) -> None:
        self._workload, self._gpu = workload, gpu

    def planned(self, config: Config, key: str) -> Planned:
        """Its schedule."""
        recipe = recipe_of(config, self._workload, EFFECT)
        return Planned(key, recipe.schedule(), recipe)

    def predicted(self, configs: Sequence[Config], device: Device, measured: Measures, on_step: OnStep) -> Workload:  # noqa: ARG002
        """What it is said to do: a kernel that is given by its time takes it."""
        return self._workload

    def measure(self, items: Sequence[Planned], repeats: int, seed: int, group: int, on_entry: OnEntry) -> None:
        """Each schedule on the card."""
        by_key = {item.key: item for item in items}

        def settled(found: Measured) -> None:
            on_entry(entry(by_key[found.job.key], found))

        measure([item.job for item in items], self._gpu, repeats, seed, on_result=settled, first_group=group)


class Written(Planned, frozen=True):
    """A program to run. ``work``: rounds of its stand-in; ``times``: how often each launch is made."""

    config: Config | None = None
    work: int = MANY
    times: int = 1


class Kernels(NamedTuple):
    """All kernels over all the work, in seconds: as said and as measured. ``work``: rounds; 0: the user's own."""

    work: int
    said_s: float
    measured_s: float


class Programs:
    """Measures programs in a language: wall times as they say them, output verified by themselves.

    ``kernels``: what those of the workload take, once that is known.
    """

    def __init__(self, workload: Workload, runner: Runner, gpu: Gpu) -> None:
        self.title = f"{TITLE} as {runner.language}"
        self.kernels: Kernels | None = None
        self._workload, self._runner, self._gpu = workload, runner, gpu
        self._work = FEW

    def planned(self, config: Config, key: str) -> Planned:
        """The program, whose stand-in takes the kernels' time."""
        return self._written(config, key, self._work)

    def _written(self, config: Config, key: str, work: int, times: int = 1) -> Written:
        recipe = recipe_of(config, self._workload, EFFECT)
        return Written(key, recipe.schedule(), recipe, config, work, times)

    def predicted(self, configs: Sequence[Config], device: Device, measured: Measures, on_step: OnStep) -> Workload:
        """The workload with the time that its kernels take in these programs."""
        if not self._workload.kernels:
            return self._workload
        said = said_s(self._workload, device)
        simplest = next((config for config in configs if config.streams == 1), configs[0])

        def time_of(work: int) -> float:
            on_step("timing the kernels", 0, 1)
            what = "kernels" if self._runner.has_own else f"stand-in of {work} rounds"
            once, more = measured(
                [
                    self._written(simplest, what, work),
                    self._written(simplest, f"{what}, {1 + MORE} times", work, 1 + MORE),
                ]
            )
            for one in (once, more):
                if one.status != "ok":
                    raise InputError(f"{one.key}: {one.status}")
            return max(1e-9, (median_and_spread(more.wall_s)[0] - median_and_spread(once.wall_s)[0]) / MORE)

        if self._runner.has_own:
            self.kernels = Kernels(0, sum(said), time_of(FEW))
        else:
            self._work, found_s = rounds_for(sum(said), time_of)
            self.kernels = Kernels(self._work, sum(said), found_s)
        ratio = self.kernels.measured_s / sum(said)
        kernels = (_taking(kernel, one, ratio) for kernel, one in zip(self._workload.kernels, said, strict=True))
        return replace(self._workload, kernels=tuple(kernels))

    def measure(self, items: Sequence[Planned], repeats: int, seed: int, group: int, on_entry: OnEntry) -> None:
        """Each program by itself, in turns where there are several."""
        walls: dict[str, list[float]] = {item.key: [] for item in items}
        failed: dict[str, str] = {}
        order = list(items)
        turns = ROUNDS if len(items) > 1 else 1
        rng = random.Random(f"{seed} {group}")
        for _ in range(turns):
            rng.shuffle(order)
            for item in order:
                if item.key in failed:
                    continue
                try:
                    walls[item.key] += self._run(item, -(-repeats // turns)).wall_s
                except InputError as error:
                    failed[item.key] = f"{'lost' if isinstance(error, LostGpuError) else 'failed'}: {error}"
                    if isinstance(error, LostGpuError):
                        on_entry(item.ran(failed[item.key], group=group))
                        raise
        for item in items:
            if item.key in failed:
                on_entry(item.ran(failed[item.key], group=group))
            else:
                on_entry(item.ran(walls=walls[item.key], group=group))

    def _run(self, item: Planned, repeats: int) -> Result:
        """Raises InputError, of which LostGpuError means that nothing more can be measured."""
        assert isinstance(item, Written)
        assert item.config is not None
        config, work, times = item.config, item.work, item.times
        run = self._runner.run
        return run_on(self._gpu, item.key, lambda: run(self._workload, config, repeats, work, times)).checked()


# The time of kernels


def said_s(workload: Workload, device: Device) -> list[float]:
    """Seconds of each kernel over all the work. Raises InputError where nothing says them."""
    (whole,) = workload.cut(1)
    alone = (replace(workload, kernels=(kernel,)) for kernel in workload.kernels)
    return [sum(device.kernel_time(launch)[0] for launch in one.launches(whole)) for one in alone]


def _taking(kernel: WorkloadKernel, said: float, ratio: float) -> WorkloadKernel:
    """The kernel, which takes so many times what is said."""
    if kernel.is_timed:
        return kernel.scaled(ratio)
    return WorkloadKernel(kernel.name, said * ratio, fill=kernel.fill, launches=kernel.launches)


def rounds_for(wanted_s: float, time_of: Callable[[int], float]) -> tuple[int, float]:
    """How many rounds take nearest to ``wanted_s``, and what they take; ``time_of`` measures some.

    Time grows by rounds, above what memory takes: so what is measured beyond the time that is wanted says how.
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
    """By a line: through two that take longer, from none to one that does, or else beyond the two longest."""
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
