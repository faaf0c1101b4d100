"""Items of a run: schedules to replay, and programs in a language."""

from collections.abc import Iterable

import msgspec

from streamsim.code import Language
from streamsim.program import Config, Schedule, Workload
from streamsim_validate.records import Entry, Program, Recipe, config_of, digest, to_times

CUDA: Language = "cuda-c++"


class Planned(msgspec.Struct, frozen=True):
    """A schedule to measure, named by ``key``, and the recipe that it comes from, if any."""

    key: str
    schedule: Schedule
    recipe: Recipe | None = None

    def entry(
        self,
        status: str = "ok",
        *,
        verified: bool | None = None,
        device_s: Iterable[float] = (),
        wall_s: Iterable[float] = (),
        issue_s: Iterable[float] = (),
        paces_s: Iterable[float] = (),
        links_s: Iterable[float] = (),
        program: Program | None = None,
        group: int = 0,
    ) -> Entry:
        """Return the entry of a record with these times. ``verified``: None if a program verifies its own output."""
        return Entry(
            key=self.key,
            digest=digest(self.schedule),
            status=status,
            verified=status == "ok" if verified is None else verified,
            recipe=self.recipe,
            schedule=None if self.recipe else self.schedule,
            device_s=to_times(device_s),
            wall_s=to_times(wall_s),
            issue_s=to_times(issue_s),
            paces_s=to_times(paces_s),
            links_s=to_times(links_s),
            program=program,
            group=group,
        )


class WrittenProgram(Planned, frozen=True):
    """A program to measure in a language: it has a recipe.

    ``work``: rounds of its stand-in kernel. ``times``: how often it makes each launch.
    """

    language: Language = CUDA
    work: int = 1
    times: int = 1

    @property
    def workload(self) -> Workload:
        """Return what is cut into chunks."""
        assert self.recipe is not None
        return self.recipe.workload

    @property
    def config(self) -> Config:
        """How the program cuts and issues its work."""
        assert self.recipe is not None
        return config_of(self.recipe)
