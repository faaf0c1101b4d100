"""Schedules as JSON, and workloads as text and as TOML.

``streamsim init --schema schedule`` or ``workload`` prints the exact form of each as a JSON Schema. Sizes and times in
a workload may be text with a unit, ``inputs = ["64MiB"]``. A kernel may be text as for ``--kernel``,
``"0.57ms,9us@64Ki"``, or a time in seconds.
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from streamsim.errors import LEAST_FILL, SHORTEST_KERNEL_S, InputError, one_line, shown
from streamsim.files import (
    Parsers,
    explain_json,
    parse_toml,
    read_bytes,
    read_toml,
    refuse_duplicates,
    write_bytes,
)
from streamsim.program.schedule import Schedule
from streamsim.program.workload import MOST_LAUNCHES, Point, Workload, WorkloadKernel
from streamsim.text import (
    LARGEST_TOML_BYTES,
    check_listed,
    mistaken_for,
    parse_bytes,
    parse_count,
    parse_seconds,
    parse_share,
)

UNKNOWN = -1
COLUMNS = ("issued_ns", "returned_ns", "start_ns", "end_ns")
FIRST_TOUCH = "first touch of host memory"  # the name of host work: page faults in a copy of pageable memory
LATEST_NS = 1 << 52  # 52 days, and exact as a float


class RecordedTrack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recorded spans that belong to no op, such as moves of unified memory's pages, in whole nanoseconds.

    Raises InputError for different numbers of starts and ends, and for spans that overlap or are out of order.
    """

    name: str
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]

    def __post_init__(self) -> None:
        times = [time for span in zip(self.start_ns, self.end_ns, strict=False) for time in span]
        in_order = all(a <= b for a, b in pairwise((0, *times, LATEST_NS)))
        if len(self.start_ns) != len(self.end_ns) or not in_order:
            raise InputError(f"start_ns, end_ns: expected spans one after the other, from 0 to {LATEST_NS} ns")


class RecordedTimes(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"tracks": "lanes"}
):
    """Recorded times, one column entry for each op, in whole nanoseconds since the first op's call; -1: no such time.

    - ``issued_ns``, ``returned_ns``: begin and return of its call. ``start_ns``, ``end_ns``: its run on the card.
    - ``tracks``: recorded spans that belong to no op; ``lanes`` in a file.

    Raises InputError naming the column for columns of different lengths, and for impossible times.
    """

    issued_ns: tuple[int, ...]
    returned_ns: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    tracks: tuple[RecordedTrack, ...] = ()

    def __post_init__(self) -> None:
        for name in COLUMNS:
            column = getattr(self, name)
            if len(column) != len(self):
                raise InputError(f"{name}: has {len(column)} entries, and issued_ns {len(self)}; give one an op")
            if column and not (min(column) >= UNKNOWN and max(column) <= LATEST_NS):
                raise InputError(f"{name}: expected times from 0 to {LATEST_NS} ns, and -1 for none")
        for first, last in (("issued_ns", "returned_ns"), ("start_ns", "end_ns")):
            pairs = zip(getattr(self, first), getattr(self, last), strict=True)
            late = next((i for i, (begin, end) in enumerate(pairs) if begin > end), None)
            if late is not None:
                raise InputError(f"{last}[{late}]: is before {first}[{late}]; give a later time")

    def __len__(self) -> int:
        return len(self.issued_ns)

    def __repr__(self) -> str:
        return f"RecordedTimes({len(self)} ops)"


SizeText = int | str
KernelText = float | str | WorkloadKernel


parse_fill = partial(parse_share, least=LEAST_FILL)  # of a share of the card such as "50%"


def _text(text: str, _: str) -> str:
    return text


OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "threads": ("threads", parse_count),
    "latency": ("latency_s", lambda text, field: parse_seconds(text, field, least=0)),
    "fill": ("fill", parse_fill),
    "name": ("name", _text),
    "launches": ("launches", partial(parse_count, most=MOST_LAUNCHES)),
    "per": ("per", _text),
    "timed": ("timed", _text),
}
FORM = (
    "TIME, TIME/LAUNCHES or TIME@PART, then more of TIME@PART, threads=N, latency=TIME, fill=SHARE, launches=N,"
    " per=item, timed=events and name=NAME, with commas between"
)


def workload_of_sizes(
    h2d: Sequence[SizeText] = (),
    kernels: Sequence[KernelText] = (),
    d2h: Sequence[SizeText] = (),
    elements: int | None = None,
    h2d_once: Sequence[SizeText] = (),
    d2h_once: Sequence[SizeText] = (),
    host_work: float | str = 0.0,
    host_load: float | str = 0.0,
) -> Workload:
    """Return the workload with input arrays ``h2d`` and output arrays ``d2h`` (whole sizes in bytes) and ``kernels``.

    - A kernel is its time in seconds, text (see :func:`parse_kernel`), or a :class:`WorkloadKernel`.
    - ``elements``: chunks have whole elements; it must divide every size.
    - ``h2d_once`` and ``d2h_once``: arrays that are copied once.
    - ``host_work`` and ``host_load``: the host's work before each chunk, and over all chunks, in seconds or as text.

    Raises InputError naming what cannot be read or does not go together.
    """
    inputs, outputs = _sizes("h2d", h2d), _sizes("d2h", d2h)
    check_listed("kernels", kernels)
    if elements is not None:
        inputs = [per_element("h2d", size, elements) for size in inputs]
        outputs = [per_element("d2h", size, elements) for size in outputs]
    host = {
        f"{name}_s": parse_seconds(time, name, least=0.0) if isinstance(time, str) else time
        for name, time in (("host_work", host_work), ("host_load", host_load))
    }
    return Workload(
        elements=elements,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        kernels=_numbered([kernel_given(kernel) for kernel in kernels]),
        h2d_once=tuple(_sizes("h2d_once", h2d_once)),
        d2h_once=tuple(_sizes("d2h_once", d2h_once)),
        **{name: seconds for name, seconds in host.items() if seconds != 0},  # type: ignore[arg-type]
    )


def _sizes(field: str, sizes: Sequence[SizeText]) -> list[int]:
    check_listed(field, sizes)
    return [parse_bytes(size, field) if isinstance(size, str) else size for size in sizes]


def kernel_given(kernel: KernelText, field: str = "kernel") -> WorkloadKernel:
    """Return a kernel given as a value, as text or by its seconds. Raises InputError naming ``field``."""
    if isinstance(kernel, WorkloadKernel):
        return kernel
    return parse_kernel(kernel, field) if isinstance(kernel, str) else _kernel_with(field, duration_s=kernel)


def _kernel_with(what: str, **fields: Any) -> WorkloadKernel:
    """Return the kernel with these fields. Raises InputError that begins with ``what``."""
    try:
        return WorkloadKernel(**fields)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _numbered(kernels: list[WorkloadKernel]) -> tuple[WorkloadKernel, ...]:
    """Return ``kernels``, with numbers in their names if several have the default name."""
    usual = WorkloadKernel().name
    if sum(kernel.name == usual for kernel in kernels) < 2:
        return tuple(kernels)
    return tuple(
        msgspec.structs.replace(kernel, name=f"{usual} {i}") if kernel.name == usual else kernel
        for i, kernel in enumerate(kernels, 1)
    )


def per_element(name: str, size: int, elements: int) -> int:
    """Return an array's bytes per element. Raises InputError if ``elements`` does not divide its ``size``."""
    if size % elements:
        raise InputError(
            f"elements = {elements}: does not divide {name} = {size} bytes; give one that does, or none: then arrays"
            " are cut by share"
        )
    return size // elements


def parse_kernel(text: str, field: str = "kernel") -> WorkloadKernel:
    """Return a kernel from text: ``0.57ms``, ``0.57ms@16Mi,9us@64Ki``, ``25ms/600``, ``4ms,threads=64Ki,latency=3us``.

    - ``0.57ms``: the time of the whole. ``9us@64Ki``: the time of a part, given as a number of elements (more than 1)
      or a share of the whole (up to 1, such as ``0.004`` or ``1/256``).
    - ``/600``: these times belong to 600 equal launches together. Each chunk makes all of them; with ``per=item``, its
      share.
    - ``timed=events``: the times are those between two events.

    Raises InputError naming ``field``.
    """
    times: list[tuple[float, float | None]] = []
    fields: dict[str, Any] = {}
    for item in _items(text):
        name, equals, value = map(str.strip, item.partition("="))
        if not equals:
            time, at_sign, part = map(str.strip, item.partition("@"))
            seconds = parse_seconds(time, field, least=SHORTEST_KERNEL_S)
            times.append((seconds, parse_part(part, f"{field} part") if at_sign else None))
            continue
        if name not in OPTIONS:
            raise InputError(f"{field} = {shown(text)}: {shown(name)} is none of {', '.join(OPTIONS)}; expected {FORM}")
        key, parse = OPTIONS[name]
        if key in fields:
            raise InputError(f"{field} = {shown(text)}: {name} is given twice; give it once")
        fields[key] = parse(value, f"{field} {name}")
    whole = [seconds for seconds, part in times if part is None]
    if len(whole) > 1:
        raise InputError(f"{field} = {shown(text)}: two times of the whole; say of which part one is, as in 9us@64Ki")
    points = tuple(Point(part, seconds) for seconds, part in times if part is not None)
    return _kernel_with(f"{field} = {shown(text)}", duration_s=whole[0] if whole else None, points=points, **fields)


def _items(text: str) -> Iterator[str]:
    """Yield the items between commas; ``25ms/600`` yields both halves."""
    for item in text.split(","):
        time, slash, launches = item.partition("/")
        is_both = slash and not {"@", "="} & {*item}
        yield from (time.strip(), f"launches={launches}") if is_both else (item.strip(),)


def parse_point(text: str, field: str) -> Point:
    """Return the time of a part from text such as ``9us@64Ki``. Raises InputError naming ``field``."""
    kernel = parse_kernel(str(text), field)
    if kernel != WorkloadKernel(points=kernel.points[:1]) or not kernel.points:
        raise InputError(f"{field} = {shown(text)}: expected the time of a part, such as 9us@64Ki")
    return kernel.points[0]


def parse_part(text: str, field: str) -> float:
    """Return a share of the whole or a number of elements, from "1/256" or "64Ki". Raises InputError."""
    if not (any(c in text for c in "./%") or text == "1"):
        return parse_count(text, field)
    return parse_share(text, field)


# The parsers of text and times in a kernel's table, by type or by the name of the field.
OF_KERNELS: dict[type | str, Callable[[Any, str], Any]] = {
    "at": parse_part,
    "fill": parse_fill,
    WorkloadKernel: kernel_given,
    Point: parse_point,
}


LARGEST_JSON_BYTES = 1 << 30


class ScheduleFile(Schedule, frozen=True):
    """The content of a schedule's file.

    - ``recorded``: the recorded times of its ops; ``profile``: its card's profile as TOML, or "".
    - ``notes``: sentences to read before use, such as that the replay is far from the recording.
    """

    recorded: RecordedTimes | None = None
    profile: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check nothing: the schedule that is made of the file checks itself."""

    def schedule(self) -> Schedule:
        """Return the schedule. Raises InputError for an impossible one, and for recorded times of other ops."""
        found = Schedule(*(getattr(self, name) for name in Schedule.__struct_fields__))
        if self.recorded is not None and len(self.recorded) != len(found):
            raise InputError(f"recorded: has times of {len(self.recorded)} ops; there are {len(found)}")
        return found


class WorkloadFile(Workload, frozen=True):
    """The fields of a workload's file: the workload, and how to cut, issue and predict it unless options say otherwise.

    The names are those of the options. A sweep takes ranges, such as ``chunks = "1..64"``. ``measured`` is for
    ``streamsim explain``, which then says which mistake explains it.
    """

    chunks: int | str | list[int | str] | None = None
    streams: int | str | list[int | str] | None = None
    order: str | list[str] | None = None
    buffers: int | str | list[int | str] | None = None
    memory: str | list[str] | None = None
    launch: str | list[str] | None = None  # type: ignore[assignment]  # a method of workloads, which files have not
    device: str | list[str] | None = None
    measured: str | list[str] | None = None


PLAN = WorkloadFile.__struct_fields__[len(Workload.__struct_fields__) :]

ARRAYS = ("inputs", "outputs", "h2d_once", "d2h_once")
# The parsers of text in a workload: sizes of arrays, and text of kernels.
_PARSERS: Parsers = {**dict.fromkeys(ARRAYS, partial(parse_bytes, least=0)), **OF_KERNELS}


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Return the schedule in a JSON file. Raises InputError naming the file, the field and the value."""
    return read_program(path)[0]


def read_program(path: str | os.PathLike[str]) -> tuple[Schedule, ScheduleFile]:
    """Return the schedule in a JSON file, and all of the file. Raises InputError like :func:`read_schedule`."""
    return _parse_schedule(read_bytes(path, LARGEST_JSON_BYTES), one_line(str(path)))


def read_workload(path: str | os.PathLike[str]) -> Workload:
    """Return the workload in a TOML file. Raises InputError naming the file, the field and the value."""
    return read_toml(path, Workload, "workload", _PARSERS, _without_plan)


def read_plan(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return how the file of a workload says to cut, issue and predict it, by option name; empty if it is no TOML.

    A device's file may stand beside it. Raises InputError if the file cannot be read.
    """
    try:
        table = tomllib.loads(read_bytes(path, LARGEST_TOML_BYTES).decode())
    except (ValueError, RecursionError):
        return {}  # read_workload says why
    plan = {name: value for name, value in table.items() if name in PLAN}
    if isinstance(device := plan.get("device"), str) and (own := Path(path).parent / device).is_file():
        plan["device"] = str(own)
    return plan


def write_schedule(
    schedule: Schedule,
    path: str | os.PathLike[str],
    recorded: RecordedTimes | None = None,
    profile: str = "",
    notes: tuple[str, ...] = (),
) -> None:
    """Save ``schedule`` as JSON, one op a line, with the ``recorded`` times of its ops if they are given.

    ``profile``, ``notes``: see :class:`ScheduleFile`. Raises InputError if the file cannot be written.
    """
    write_bytes(dump_schedule(schedule, recorded, profile, notes), path)


def dump_schedule(
    schedule: Schedule, recorded: RecordedTimes | None = None, profile: str = "", notes: tuple[str, ...] = ()
) -> bytes:
    """Return ``schedule`` as JSON in UTF-8, one op a line.

    The last line holds the unchunked program, the ``recorded`` times, the card's ``profile`` and the ``notes``.
    """
    encode = msgspec.json.Encoder().encode
    head = {
        name: getattr(schedule, name) for name in schedule.__struct_fields__[::-1] if name not in ("ops", "unchunked")
    }
    try:
        ops = b",\n".join(map(encode, schedule.ops))
        tail = b"" if schedule.unchunked is None else b',"unchunked":' + encode(schedule.unchunked)
        tail += b"" if recorded is None else b',"recorded":' + encode(recorded)
        tail += b',"profile":' + encode(profile) if profile else b""
        tail += b',"notes":' + encode(notes) if notes else b""
        return encode(head)[:-1] + b',"ops":[\n' + ops + b"\n]" + tail + b"}\n"
    except UnicodeEncodeError as error:
        raise InputError(f"schedule: {shown(error.object)} is not text that UTF-8 can hold") from None


def parse_schedule(data: bytes, where: str = "schedule") -> Schedule:
    """Return the schedule in the JSON ``data``. Raises InputError that begins with ``where``."""
    return _parse_schedule(data, where)[0]


def _parse_schedule(data: bytes, where: str) -> tuple[Schedule, ScheduleFile]:
    try:
        file = msgspec.json.decode(data, type=ScheduleFile)
        schedule = file.schedule()
        if dump_schedule(schedule, file.recorded, file.profile, file.notes) != data:  # ours name nothing twice
            json.loads(data, object_pairs_hook=refuse_duplicates)
        return schedule, file
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, InputError) else explain_json(error, data, ScheduleFile)
        raise InputError(f"{where}: {mistaken_for('schedule', data) or reason}") from None


def parse_workload(text: str | bytes, where: str = "workload") -> Workload:
    """Return the workload in the TOML ``text``. Raises InputError that begins with ``where``."""
    return parse_toml(text, Workload, "workload", where, _PARSERS, _without_plan)


def _without_plan(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in PLAN}
