"""What is made of a schedule is made once, and of another one anew, however much it is alike."""

import gc
import weakref

from hypothesis import given
from msgspec.structs import replace
from strategies import devices, h2d, plan, schedules

from streamsim.device import Device
from streamsim.lowering import lower
from streamsim.program import MOST, MOST_OPS, Schedule, remembered

SCHEDULE = plan(h2d(1, 10))


def test_a_schedule_of_many_ops_is_not_kept_nor_are_many_of_fewer() -> None:
    class Made:
        pass

    @remembered
    def make(_: Schedule) -> Made:
        return Made()

    large = plan(*(h2d(1, 10),) * (MOST_OPS + 1))
    few = [replace(SCHEDULE) for _ in range(MOST + 1)]
    kept = [weakref.ref(make(schedule)) for schedule in (large, *few)]
    gc.collect()
    assert [made() is None for made in kept] == [True, True, *[False] * MOST]
    three = [weakref.ref(make(plan(*(h2d(1, 10),) * (MOST_OPS // 2)))) for _ in range(3)]
    gc.collect()
    assert [made() is None for made in three] == [True, False, False]


@given(schedules(), devices(), devices())
def test_what_a_schedule_is_on_one_device_changes_nothing_on_another(
    schedule: Schedule, device: Device, other: Device
) -> None:
    lower(schedule, other)
    assert lower(schedule, device) == lower(replace(schedule), device)
