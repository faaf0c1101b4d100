"""Sweeps described in text: options of the command, or a TOML file with the same names.

device = "a100,h200"
h2d = ["64MiB"]              # a text for each array; a range in it is an axis
kernel = ["0.1ms..1ms*1.5"]
d2h = ["64MiB"]
chunks = "1..64"             # or [1, 2, 4]
streams = "1,2,4,8"
set."h2d.latency_s" = "1us..8us*2"
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from streamsim.checks import MOST_CHUNKS, SHORTEST_KERNEL_S
from streamsim.device import (
    Device,
    as_device,
    changed,
    current,
    full_name,
    names_front_end,
    parser_of,
    split_setting,
    targets_of,
    with_front_end,
    with_memory_limit,
    written_in,
)
from streamsim.errors import InputError
from streamsim.files import read_bytes, read_table
from streamsim.program import (
    HOST_MEMORIES,
    LAUNCHES,
    ORDERS,
    Workload,
    WorkloadKernel,
    parse_kernel,
    read_plan,
    read_workload,
    workload_of_sizes,
)
from streamsim.search.sweep import Axis, Sweep, checked, numbered
from streamsim.text import (
    ALL,
    LARGEST_TOML_BYTES,
    chosen,
    expand,
    kind_of,
    parse_buffers,
    parse_bytes,
    parse_count,
    parse_number,
    parse_seconds,
    shown,
)

ARRAYS, ONCE = ("h2d", "kernel", "d2h"), ("h2d_once", "d2h_once")
HOST = ("host_work", "host_load")
COLUMNS = {"h2d": "h2d_bytes", "kernel": "kernel_s", "d2h": "d2h_bytes"} | {name: f"{name}_s" for name in HOST}
USUAL_DEVICE = "h200"
Asked = dict[str, list[str]]  # the texts under each of NAMES; under "set" texts such as "h2d.latency_s=1us,2us"


def _scale(text: str, field: str) -> float:
    with suppress(ValueError):
        if 1e-9 <= float(text) <= 1e9:
            return float(text)
    raise InputError(f"{field} = {shown(text)}: expected a number from 1e-09 to 1e+09")


def _kernels(text: str, name: str) -> tuple[float | WorkloadKernel, ...]:
    """Return the times of an axis in seconds, or kernels that have launches and other keys besides a time."""
    items = [item.strip() for item in text.split(",")]
    more = [item for item in items if {"@", "="} & {*item}]
    if len(more) == len(items):
        return (parse_kernel(text),)
    found: dict[float | WorkloadKernel, None] = {}
    for item in items:
        times, slash, launches = item.partition("/")
        said = ",".join([*([f"launches={launches}"] if slash else []), *more])
        for seconds in () if item in more else expand(times, name, _KERNEL_TIME, False, False):
            found[parse_kernel(f"{seconds!r}s,{said}") if said else seconds] = None
    return tuple(found)


Values = Callable[[str, str], Sequence[Any]]  # makes the values of an axis of a text and the axis's name
_KERNEL_TIME = partial(parse_seconds, least=SHORTEST_KERNEL_S)
_sizes: Values = partial(expand, parse=parse_bytes, step_by_one=False)
_times: Values = partial(expand, parse=parse_seconds, whole=False, step_by_one=False)
_numbers: Values = partial(expand, parse=partial(parse_number, most=MOST_CHUNKS))
DEVICE_AXES: dict[str, Values] = {"connections": partial(expand, parse=partial(parse_count, most=32))}
WORK_AXES: dict[str, Values] = {
    **{"h2d": _sizes, "kernel": _kernels, "d2h": _sizes, "host_work": _times, "host_load": _times},
    "scale": partial(expand, parse=_scale, whole=False),
}
CONFIG_AXES: dict[str, Values] = {
    "memory": lambda text, name: chosen(name, text, HOST_MEMORIES),
    "launch": lambda text, name: chosen(name, text, LAUNCHES),
    "order": lambda text, name: chosen(name, text, ORDERS),
    "buffers": lambda text, _: parse_buffers(text),
    "chunks": _numbers,
    "streams": _numbers,
}
OF_THE_DEVICE = ("device", "front_end", "connections", "memory_limit", "set")
NAMES = ("workload", *OF_THE_DEVICE, *ARRAYS, *ONCE, "elements", *HOST, "scale", *CONFIG_AXES)


def read_asked(path: str | os.PathLike[str]) -> Asked:
    """Return the texts in a sweep's or a workload's file. Raises InputError naming the file, the name and the value."""
    if kind_of(read_bytes(path, LARGEST_TOML_BYTES)) == "workload":
        return {"workload": [str(path)]}
    asked = {name: _asked(name, value, f"{path}: ") for name, value in read_table(path).items()}
    if "workload" in asked:  # beside the file that names it
        asked["workload"] = [str(Path(path).parent / asked["workload"][0])]
    return asked


def _asked(name: str, value: Any, place: str) -> list[str]:
    """Return the values under ``name`` as texts; an error message begins with ``place``."""
    if name not in NAMES:
        raise InputError(f"{place}{name} = {shown(value)}: unknown; expected one of {', '.join(NAMES)}")
    if name == "set" and isinstance(value, Mapping):
        return [f"{key}={','.join(_texts(f'set.{key}', item, place))}" for key, item in value.items()]
    texts = _texts(name, value, place)
    return texts if name in (*ARRAYS, *ONCE) else [",".join(texts)]


def _texts(name: str, value: Any, place: str) -> list[str]:
    """Return a text, a number, or each of a list of them as text; None stands for a buffer for each chunk."""
    values = list(value) if isinstance(value, list | tuple | range) else [value]
    if name == "buffers":
        values = [ALL if item is None else item for item in values]
    if not values or not all(type(item) in (str, int, float) for item in values):
        raise InputError(f"{place}{name} = {shown(value)}: expected a text, a number or a list of them")
    try:
        texts = [str(item) for item in values]
    except ValueError:  # a number of more digits than Python is willing to write
        raise InputError(f"{place}{name} = {shown(value)}: expected a number of fewer digits") from None
    if name in ("kernel", *HOST) or name.startswith("set."):  # a number is in seconds where text needs its unit: 1e0
        pairs = zip(values, texts, strict=True)
        return [text if isinstance(item, str) or "e" in text else f"{text}e0" for item, text in pairs]
    return texts


def sweep(
    workload: Workload | None = None,
    device: Device | str | Path | Sequence[Device | str | Path] = USUAL_DEVICE,
    **axes: Any,
) -> Sweep:
    """Return a sweep over every combination of the ``axes`` for ``workload`` on one or several devices.

    Iteration predicts the combinations. Each row is a dict, with times in seconds::

        for row in sweep(workload, ["a100", "h200"], chunks="1..64*2", streams=[1, 2, 4]): ...

    Axes have the names of a sweep file. A value is a number, a text such as ``"1..64*2"`` or ``"1,2,4"``, or a list of
    these.

    - How to cut and issue: ``chunks``, ``streams``, ``order``, ``buffers`` (None: one for each chunk), ``memory``,
      ``launch``.
    - The work: ``host_work``, ``host_load``, ``scale``.
    - The device: ``front_end``, ``connections``, ``memory_limit``, and ``set``, a dict from names of a
      profile's numbers to values.
    - Without a workload: ``h2d``, ``kernel`` and ``d2h`` (a list has an entry for each array or kernel), ``elements``,
      ``h2d_once`` and ``d2h_once``.

    Raises InputError naming the axis.
    """
    devices = [device] if isinstance(device, Device | str | Path) else list(device)
    if "workload" in axes:
        raise InputError("workload: a sweep takes one; give it first")
    return _sweep({name: _asked(name, value, "") for name, value in axes.items()}, workload, devices)


def sweep_of(asked: Mapping[str, Sequence[str]]) -> Sweep:
    """Return the sweep that the texts describe; missing names have their default. Raises InputError naming a text."""
    texts = {name: list(values) for name, values in asked.items() if values}
    workload = None
    if "workload" in texts:
        path = texts["workload"][0]
        plan = {name: _asked(name, value, f"{path}: ") for name, value in read_plan(path).items() if name in NAMES}
        texts, workload = {**plan, **texts}, read_workload(path)
    return _sweep(texts, workload, _split(texts, "device") or [USUAL_DEVICE])


def _sweep(texts: Asked, workload: Workload | None, asked: Sequence[Device | str | Path]) -> Sweep:
    if not asked:
        raise InputError("devices = []: a sweep needs at least one")
    workload = _workload(texts, workload)
    devices = _devices(texts, workload.front_end, asked)
    settings = _set_axes(texts.get("set", ()), devices[0])
    cards = (Axis("device", tuple(device.name for device in devices)), *_axes(texts, DEVICE_AXES), *settings)
    return checked(Sweep(cards, _axes(texts, WORK_AXES), _axes(texts, CONFIG_AXES), devices, workload))


def _workload(texts: Asked, given: Workload | None) -> Workload:
    """Return the ``given`` workload, or one with as many arrays and kernels as ``texts`` have, which are axes."""
    own = [name for name in ("elements", *ONCE) if name in texts]
    if given is not None:
        for name in own:
            raise InputError(f"{name}: the workload says it; leave it out, or use scale for other sizes")
        return given
    if not texts.keys() & {*ARRAYS}:
        nothing = ", as nothing is cut of what is copied once" if texts.keys() & {*ONCE} else ""
        raise InputError(f"no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE{nothing}, or a workload file")
    elements = parse_count(texts["elements"][0], "elements") if "elements" in texts else None
    h2d, kernels, d2h = (len(texts.get(name, ())) for name in ARRAYS)
    size, (h2d_once, d2h_once) = elements or 1, (texts.get(name, ()) for name in ONCE)
    kernels_s = [SHORTEST_KERNEL_S] * kernels
    return workload_of_sizes([size] * h2d, kernels_s, [size] * d2h, elements, h2d_once, d2h_once)


def _devices(texts: Asked, front_end: str, asked: Sequence[Device | str | Path]) -> tuple[Device, ...]:
    """Return the devices: of the front ends in ``texts``, else of the workload's unless a device names its own."""
    limit = parse_bytes(texts["memory_limit"][0], "memory_limit") if "memory_limit" in texts else None
    found: dict[str, Device] = {}
    for one in asked:
        card, is_told = as_device(one), not isinstance(one, Device) and names_front_end(one)
        usual = card if is_told else written_in(card, front_end)
        for device in [with_front_end(card, name.lower()) for name in _split(texts, "front_end")] or [usual]:
            if (name := device.name) in found:
                raise InputError(f"device = {shown(name)}: two profiles of this name; rename one (name = in its file)")
            found[name] = with_memory_limit(device, limit)
    return tuple(found.values())


def _axes(texts: Asked, known: Mapping[str, Values]) -> tuple[Axis, ...]:
    """Return the axes of ``known`` that ``texts`` has: one of each array and kernel, and one of each other name."""
    found: list[Axis] = []
    for name, values in known.items():
        given = texts.get(name, []) if name in ARRAYS else [",".join(texts[name])] if name in texts else []
        columns = numbered(COLUMNS.get(name, name), given)
        found += [Axis(column, tuple(values(text, name))) for column, text in columns.items()]
    return tuple(found)


def _set_axes(texts: Sequence[str], device: Device) -> list[Axis]:
    """Return the axes of the profile's numbers and rules, of texts such as ``"h2d.latency=1us..8us*2"``.

    The profile's value gives the kind of values. Raises InputError for values that a profile cannot have, and for two
    axes of one number.
    """
    axes = []
    for text in texts:
        given, values = split_setting(text, "NAME=VALUES such as h2d.latency_s=1us,2us")
        name, parse = full_name(device, given), parser_of(device, given)
        if parse is not None:
            whole = isinstance(current(device, name), int)
            axes.append(Axis(name, expand(values, name, parse, whole=whole, step_by_one=whole)))
            continue
        axes.append(Axis(name, tuple(part.strip() for part in values.split(","))))
        for value in axes[-1].values:
            changed(device, {name: value})
    targets_of(device, dict.fromkeys(axis.name for axis in axes))
    return axes


def _split(texts: Asked, name: str) -> list[str]:
    return [part.strip() for text in texts.get(name, ()) for part in text.split(",")]
