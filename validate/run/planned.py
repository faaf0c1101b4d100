"""What a run is to measure, one by one."""

import msgspec

from streamsim.program.schedule import Schedule
from streamsim_validate.records import Recipe
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
