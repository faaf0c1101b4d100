"""The runner of schedules: they are replayed on a card by bare calls."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from streamsim.errors import InputError
from streamsim.program import Schedule
from streamsim_validate.gpu import Bench, Gpu, Key, Replayer, buffers_of, check_fits, free_host_bytes, prepare, union
from streamsim_validate.progress import OnStep
from streamsim_validate.run.measuring import Planned, Ready, Runner, Seconds

WARM_UP_RUNS = 2
GROUP_SIZE = 64  # schedules whose repeats are interleaved


class SampleProbes(NamedTuple):
    """Two schedules that are timed just before each sample and just after.

    - ``pace``: what counts is how long the host takes to issue it. It may use no more streams than there are hardware
      queues.
    - ``link``: what counts is how long the card takes for it.
    """

    pace: Schedule
    link: Schedule


class Replays(Runner):
    """A runner of schedules. ``probes``: what is timed around each sample; then samples have a pace and a link."""

    def __init__(self, gpu: Gpu, allow_races: bool = False, probes: SampleProbes | None = None) -> None:
        self._gpu, self._bench, self._probes = gpu, Bench(gpu, allow_races), probes
        self._beside: list[Replayer] = []

    def plan(self, items: Sequence[Planned], on_step: OnStep) -> list[Sequence[Planned]]:  # noqa: ARG002
        """Return the schedules in groups whose buffers fit together."""
        found: list[list[Planned]] = []
        together: dict[Key, int] = {}
        free_device, free_host = self._gpu.free_bytes(), free_host_bytes()
        for item in items:
            need = buffers_of(item.schedule)
            grown = union((together, need))
            fits = False
            with suppress(InputError):
                check_fits(grown, free_device, free_host)
                fits = bool(found) and len(found[-1]) < GROUP_SIZE
            if not fits:
                found.append([])
                grown = need
            found[-1].append(item)
            together = grown
        return list(found)

    def begin(self, group: Sequence[Planned]) -> None:
        """Allocate the buffers of a group and of the probes. Raises InputError if there is not enough memory."""
        self._end()
        probes = self._probes or ()
        schedules = [*(item.schedule for item in group), *probes]
        try:
            prepare(self._bench, schedules)
        except InputError:
            self._bench.arena.clear()  # buffers of earlier groups may be in the way
            prepare(self._bench, schedules)
        self._beside = [Replayer(schedule, self._bench) for schedule in probes]

    def ready(self, item: Planned) -> Ready:
        """Make a schedule ready, verify it and warm it up."""
        replayer = Replayer(item.schedule, self._bench)
        try:
            found = _Replay(replayer, self._beside, replayer.verify())
            for _ in range(WARM_UP_RUNS):
                replayer.run()
        except InputError:
            replayer.close()
            raise
        return found

    def _end(self) -> None:
        for replayer in self._beside:
            replayer.close()

    def close(self) -> None:
        """Give the memory back."""
        self._end()
        self._bench.close()


class _Replay(Ready):
    """A schedule that is ready."""

    def __init__(self, replayer: Replayer, beside: list[Replayer], verified: bool) -> None:
        self._replayer, self.verified = replayer, verified
        self._meters = [beside[0].issue, beside[1].device_s] if beside else []

    def run(self, repeats: int) -> Seconds:
        runs = [self._replayer.run_beside(self._meters) for _ in range(repeats)]
        samples, read_s = zip(*runs, strict=True)
        names = [*samples[0]._fields, *(("paces_s", "links_s") if self._meters else ())]
        rows = (sample + read for sample, read in zip(samples, read_s, strict=True))
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))

    def verify(self) -> None:
        self._replayer.verify(timed=True)

    def close(self) -> None:
        self._replayer.close()
