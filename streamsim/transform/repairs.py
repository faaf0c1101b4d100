"""Races of a schedule, and the waits that keep a changed schedule free of them."""

from streamsim.errors import InputError
from streamsim.program import Schedule, remembered
from streamsim.races import check, repaired

MOST_REPAIRS = 4  # of a changed schedule


@remembered
def is_racy(schedule: Schedule) -> bool:
    """Return True if the schedule has races."""
    return any(finding.rule == "race" for finding in check(schedule))


def still_ordered(before: Schedule, after: Schedule) -> Schedule:
    """Return ``after`` with waits for events where it has lost an order that its data needs.

    If ``before`` has races, ``after`` is returned unchanged. A wait may move what others wait for, so that repairs are
    repeated. Raises InputError if races are left.
    """
    if after is before or not after.buffers or is_racy(before):
        return after
    for _ in range(MOST_REPAIRS):
        races = [finding for finding in check(after) if finding.rule == "race"]
        if not races:
            return after
        after = repaired(after, races)
    raise InputError("ops: the order that the data needs cannot be kept by waits for events")
