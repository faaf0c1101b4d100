"""What a value of the public interface says to a field of another type than it has."""

import math
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args

import msgspec
import pytest
from refusals import refusal
from strategies import h2d, plan

from streamsim import Config, Workload, WorkloadKernel, load_device, program
from streamsim.device import changed, tables_of
from streamsim.timeline import critical_path
from streamsim.transform import Source

H200 = load_device("h200")
REGION = program.Region("x", 0, 8)
WORKLOAD = Workload(64, (4,), (4,), (WorkloadKernel(duration_s=1e-3),))
VALUES = (
    program.Buffer("x", 8, "device"),
    REGION,
    program.Copy("h2d", 8, 1, None, REGION),
    program.Kernel(1, "k", 8, 1, 1e-3, 0.5, (REGION,), (REGION,), parts=((0.5, 1e-4),)),
    program.RecordEvent(0, 1),
    program.WaitEvent(0, 1),
    program.Synchronize(1),
    program.Schedule((program.Copy("h2d", 8, 1),), ("blocking",)),
    WORKLOAD,
    WORKLOAD.kernels[0],
    program.Point(0.5, 1e-3),
    Config(),
    Source(WORKLOAD, Config()),
    H200,
    *tables_of(H200).values(),
    H200.compute.kernels[0],
)
OF_MANY_TYPES: tuple[Any, ...] = (5, 5.5, "word", None, True, (), (5,), ("word",), [], {}, {"a": 5}, REGION, H200)


def is_of_type(value: object, kind: Any) -> bool:
    """As msgspec reads annotations; a list is no tuple, and True no number: a value that held one would be mutable."""
    if isinstance(value, program.Region):  # which msgspec takes for a mapping
        return program.Region in (kind, *get_args(kind))
    try:
        return msgspec.convert(value, kind) == value and not isinstance(value, list) and (value is not True)
    except msgspec.ValidationError:
        return False


def wrong_for(field: msgspec.structs.FieldInfo, number: Any) -> Iterator[Any]:
    """Values of other types than a field has, and numbers that cannot be where it holds one."""
    for other in OF_MANY_TYPES:
        is_right = other is True and field.name in ("blocking", "in_order", "schema_version")
        if not is_right and not is_of_type(other, field.type):
            yield other
    if isinstance(number, int | float) and not isinstance(number, bool):
        yield from (-1, 10**400, *((math.nan, math.inf) if isinstance(number, float) else ()))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_field_of_another_type_or_number_is_one_line_that_names_it(value: msgspec.Struct) -> None:
    for field in msgspec.structs.fields(value):
        for wrong in wrong_for(field, getattr(value, field.name)):
            message = refusal(partial(msgspec.structs.replace, value, **{field.name: wrong}))
            assert field.name in message


ROOMS = ("streamsim.program", "streamsim.device", "streamsim.timeline", "streamsim.analysis", "streamsim.search")


def values_of(room: str) -> list[Any]:
    """The structs and dataclasses of a room's door and modules."""
    door = import_module(room)
    modules = [door, *(import_module(f"{room}.{found.name}") for found in iter_modules(door.__path__))]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if f"{kind.__module__}.".startswith(f"{room}.")]
    return [kind for kind in own if issubclass(kind, msgspec.Struct) or is_dataclass(kind)]


@pytest.mark.parametrize("room", [*ROOMS, "streamsim_validate.compare"])
def test_no_value_can_be_changed(room: str) -> None:
    """What checked itself when it was made, or was compared, hashed or shown, stays so."""
    found = values_of(room)
    assert found
    for kind in found:
        made = getattr(kind, "__struct_config__", None) or kind.__dataclass_params__
        assert made.frozen, kind


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: program.Region(5, 0, 3), "buffer = 5: expected text"),  # type: ignore[arg-type]
        (lambda: program.Copy("h2d", 8, 1, host=5), "host = 5: expected a Region"),  # type: ignore[arg-type]
        (lambda: program.serialized(5), "schedule = 5: expected a Schedule, "),  # type: ignore[arg-type]
        (lambda: critical_path(plan(h2d(1, 8))), "timeline = Schedule("),  # type: ignore[arg-type]
        (lambda: changed(H200, {"h2d.latency_s": "-3us"}), "h2d.latency_s = '-3us': expected a time"),
        (lambda: changed(H200, {"link.bandwidth": []}), "h2d.bandwidth_bytes_per_s = []: expected a number"),
    ],
)
def test_a_wrong_argument_is_one_line(call: Callable[[], object], said: str) -> None:
    refusal(call, said)
