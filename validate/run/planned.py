"""What a run is to measure, one by one."""

from collections.abc import Sequence

import msgspec

from streamsim.program.schedule import Schedule
from streamsim_validate.records import Entry, Program, Recipe, digest, to_times
from streamsim_validate.run.measure import Job


class Planned(msgspec.Struct, frozen=True):
    """A schedule to measure and where it comes from."""

    key: str
    schedule: Schedule
    recipe: Recipe | None = None

    @property
    def job(self) -> Job:
        """For :func:`measure`."""
        return Job(self.key, self.schedule)

    def ran(
        self,
        status: str = "ok",
        walls: Sequence[float] = (),
        issues: Sequence[float] = (),
        paces: Sequence[float] = (),
        program: Program | None = None,
        group: int = 0,
    ) -> Entry:
        """What came of it as a program, which says itself how long it took and whether its output is right."""
        return Entry(
            key=self.key,
            digest=digest(self.schedule),
            status=status,
            verified=status == "ok",
            recipe=self.recipe,
            wall_s=to_times(walls),
            issue_s=to_times(issues),
            paces_s=to_times(paces),
            program=program,
            group=group,
        )
