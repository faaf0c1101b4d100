"""Sweeps: every combination of some axes, predicted in order, in this process or on an executor's workers; their files.

A :class:`Sweep` is a small value. A worker gets two numbers, ``start`` and ``stop``, and makes these combinations
itself. Combination i is i written in mixed radix, with the last axis counting fastest. It depends on nothing else, so
neither the executor nor the order of its results changes a row.

Axes are described in text: options of the command, or a TOML file with the same names::

    device = "a100,h200"
    h2d = ["64MiB"]              # a text for each array; a range in it is an axis
    kernel = ["0.1ms..1ms*1.5"]
    d2h = ["64MiB"]
    chunks = "1..64"             # or [1, 2, 4]
    streams = "1,2,4,8"
    set."h2d.latency_s" = "1us..8us*2"
"""

from __future__ import annotations

import csv
import io
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import accumulate, chain, groupby, islice
from math import prod
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from streamsim import device, errors, program, text
from streamsim.files import file_error, parse_toml, toml_of
from streamsim.rules import TICKS_PER_S
from streamsim.search.grid import evaluate_ticks, is_fast, serial_ticks

FORMATS = ("csv", "jsonl")
TEXT_COLUMNS = ("device", "order", "memory", "launch")
LONGEST_ROW = 1 << 20  # bytes
CONFIG = program.Config.__struct_fields__
ARRAYS = {"h2d": "inputs", "kernel": "kernels", "d2h": "outputs"}  # options, and fields of a workload
HOST, ONCE = ("host_work", "host_load"), ("h2d_once", "d2h_once")
COLUMNS = {"h2d": "h2d_bytes", "kernel": "kernel_s", "d2h": "d2h_bytes"} | {name: f"{name}_s" for name in HOST}
WITHIN = "known_within"  # the relative error of the times if the device's latencies are assumed, else None
RESULTS = ("makespan_s", "serial_s", "speedup", WITHIN)
BLOCK_OPS = {False: 20_000, True: 10_000_000}  # ops of a block, a fraction of a second: on SimPy, on the compiled twin
BLOCK_ROWS = 8192
IN_FLIGHT = 64  # blocks given to an executor at a time
CACHED = 4096
MOST_COMBINATIONS = 100_000_000  # an hour of the compiled twin, and ten gigabytes of rows
MOST_REFUSED = 100_000  # combinations tried in search of one that can be issued

SweptRow = dict[str, Any]


class Axis(msgspec.Struct, frozen=True):
    """An axis of a sweep: the name of its column, and its values."""

    name: str
    values: tuple[Any, ...]


class Sweep(msgspec.Struct, frozen=True):
    """A sweep over every combination of its axes, as :func:`sweep` makes it.

    Iteration predicts the combinations. ``len()`` counts them, with those that cannot be issued.

    - ``device_axes``, ``work_axes``, ``config_axes``: the axes, the outermost first; the last one counts fastest.
    - ``workload``: the work that the axes change.
    """

    device_axes: tuple[Axis, ...]
    work_axes: tuple[Axis, ...]
    config_axes: tuple[Axis, ...]
    devices: tuple[device.Device, ...]
    workload: program.Workload

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, the outermost first."""
        return (*self.device_axes, *self.work_axes, *self.config_axes)

    def __len__(self) -> int:
        """Return the number of combinations, with those that cannot be issued."""
        return _count(self.axes)

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name} x {len(axis.values)}" for axis in self.axes)
        return errors.short(f"Sweep({len(self)} combinations: {axes})")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's values."""
        settings = (axis.name for axis in self.device_axes if "." in axis.name)
        return ("device", "connections", *settings, *_work_cells(self.workload), *CONFIG, *RESULTS)

    def values_of(self, name: str) -> tuple[Any, ...]:
        """Return the values of the axis ``name``; empty without this axis."""
        return next((axis.values for axis in self.axes if axis.name == name), ())

    def point(self, number: int) -> dict[str, Any]:
        """Return the value of every axis in combination ``number``, by the axis's name."""
        return _point(self.axes, number)

    def device_at(self, point: Mapping[str, Any]) -> device.Device:
        """Return the device of a combination. Raises InputError if its numbers contradict each other."""
        base = next(card for card in self.devices if card.name == point["device"])
        if "connections" in point:
            base = base.with_connections(point["connections"])
        return device.changed(base, {name: value for name, value in point.items() if "." in name})

    def workload_at(self, point: Mapping[str, Any]) -> program.Workload:
        """Return the workload of a combination. Raises InputError if its sizes contradict each other."""
        base = self.workload
        new: dict[str, Any] = {COLUMNS[name]: point[COLUMNS[name]] for name in HOST if COLUMNS[name] in point}
        for name, field_name in ARRAYS.items():
            old, column = getattr(base, field_name), COLUMNS[name]
            values = [point[axis.name] for axis in self.work_axes if axis.name.startswith(column)]
            if values and len(values) != len(old):
                raise errors.InputError(f"{column}: {len(values)} given; the workload has {len(old)}")
            if values and name == "kernel":
                new[field_name] = tuple(map(_retimed, old, values))
            elif values:
                new[field_name] = tuple(program.per_element(name, size, base.elements or 1) for size in values)
        return replace(base, **new)

    def __iter__(self) -> Iterator[SweptRow]:
        """Yield a row, a dict with the keys ``columns``, for each combination that can be issued and fits on the card.

        Times are in seconds. Rows are in order.
        """
        return chain.from_iterable(block.rows for block in sweep_blocks(self))


def checked(sweep: Sweep) -> Sweep:
    """Return ``sweep``. Raises InputError for too many combinations and if none can be issued."""
    if (count := len(sweep)) > MOST_COMBINATIONS:
        most = f"more than {MOST_COMBINATIONS}; give larger steps, or sweep it in parts"
        raise errors.InputError(f"a sweep of {count} combinations, {most}")
    some = islice(combinations(sweep), MOST_REFUSED)
    if count <= MOST_REFUSED and not any(isinstance(one, Combination) for one in some):
        why = next(combinations(sweep))
        raise errors.InputError(f"an empty grid: none of its {count} combinations can be issued: {why}")
    return sweep


class Combination(NamedTuple):
    """A combination that can be issued: its number, that of its pair of device and workload, and what it is."""

    number: int
    pair: int
    card: device.Device
    workload: program.Workload
    config: program.Config


def combinations(sweep: Sweep, start: int = 0, stop: int | None = None) -> Iterator[Combination | errors.InputError]:
    """Yield the combinations from ``start`` to ``stop`` (None: all), or for some the error that says why not."""
    works, configs = _count(sweep.work_axes), _count(sweep.config_axes)
    device_at = lru_cache(CACHED)(lambda card: sweep.device_at(_point(sweep.device_axes, card)))
    workload_at = lru_cache(CACHED)(lambda work: sweep.workload_at(_point(sweep.work_axes, work)))
    config_at = lru_cache(CACHED)(lambda config: program.Config(**_point(sweep.config_axes, config)))

    @lru_cache(CACHED)
    def check_kernels(pair: int) -> None:
        for kernel, _ in workload_at(pair % works).kernels_of(workload_at(pair % works).cut(1)[0]):
            device_at(pair // works).occupancy(kernel)

    for number in range(start, len(sweep) if stop is None else stop):
        pair, config = divmod(number, configs)
        try:
            found = Combination(number, pair, device_at(pair // works), workload_at(pair % works), config_at(config))
            found.config.check(found.workload)
            found.card.check_room(found.config.device_bytes(found.workload))
            check_kernels(pair)
        except errors.InputError as error:
            yield error
        else:
            yield found


def _count(axes: Iterable[Axis]) -> int:
    return prod(len(axis.values) for axis in axes)


def _point(axes: Sequence[Axis], number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for axis in reversed(axes):
        number, k = divmod(number, len(axis.values))
        found = {axis.name: axis.values[k], **found}
    return found


def numbered(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return ``values`` by name: the name itself for one, else with ``_1``, ``_2``, ..."""
    return {name if len(values) == 1 else f"{name}_{k}": value for k, value in enumerate(values, 1)}


def _work_cells(workload: program.Workload) -> dict[str, Any]:
    """Return what a row says of the workload; None for what it does not have, and for one launch of a kernel."""
    times = [kernel.whole_s(workload.work) if kernel.is_timed else None for kernel in workload.kernels]
    launches = [kernel.launches if kernel.launches > 1 else None for kernel in workload.kernels]
    return {
        "elements": workload.elements,
        **numbered("h2d_bytes", workload.input_bytes),
        **numbered("kernel_s", times),
        **numbered("d2h_bytes", workload.output_bytes),
        **{f"{name}_bytes": sum(getattr(workload, name)) or None for name in ONCE},
        **numbered("kernel_launches", launches),
        **{COLUMNS[name]: getattr(workload, COLUMNS[name]) or None for name in HOST},
    }


def _retimed(kernel: program.WorkloadKernel, given: float | program.WorkloadKernel) -> program.WorkloadKernel:
    """Return the kernel with another time in all, or a ``given`` kernel in its place, under its name."""
    if not isinstance(given, program.WorkloadKernel):
        return replace(kernel, duration_s=given, points=())
    return given if given.name != program.WorkloadKernel().name else replace(given, name=kernel.name)


# Prediction


class Swept(NamedTuple):
    """Rows of a sweep: those of the latest block of combinations, and what is known of all so far.

    - ``stop``: the combination that comes next; ``rows``: the rows of the latest block, in order.
    - ``total``, ``fastest``: the number of rows, and the fastest one.
    - ``left_out``, ``why``: the number of combinations without a row, and why the first of them has none.
    """

    stop: int = 0
    rows: Sequence[SweptRow] = ()
    total: int = 0
    fastest: SweptRow | None = None
    left_out: int = 0
    why: str = ""

    def then(self, block: Swept) -> Swept:
        """Return what is known behind one more ``block``."""
        fastest = min(filter(None, (self.fastest, block.fastest)), key=itemgetter("makespan_s"), default=None)
        left_out, why = self.left_out + block.left_out, self.why or block.why
        return Swept(block.stop, block.rows, self.total + block.total, fastest, left_out, why)


def predict_block(sweep: Sweep, start: int, stop: int, fast: bool, threads: int | None = 1) -> Swept:
    """Predict the combinations from ``start`` to ``stop``. ``fast``, ``threads``: as for :func:`evaluate`."""
    found, rows = list(combinations(sweep, start, stop)), list[SweptRow]()
    issued = (one for one in found if isinstance(one, Combination))
    for _, some in groupby(issued, key=attrgetter("pair")):
        rows += _rows(sweep, list(some), fast and is_fast(), threads)
    fastest = min(rows, key=itemgetter("makespan_s"), default=None)
    why = next((str(one) for one in found if isinstance(one, errors.InputError)), "")
    return Swept(stop, rows, len(rows), fastest, len(found) - len(rows), why)


def _rows(sweep: Sweep, some: Sequence[Combination], fast: bool, threads: int | None) -> Iterator[SweptRow]:
    """Yield the rows of combinations of one device and one workload."""
    card, workload, configs = some[0].card, some[0].workload, [one.config for one in some]
    settings = {name: value for name, value in sweep.point(some[0].number).items() if "." in name}
    head = {"device": card.name, "connections": card.connections, **settings, **_work_cells(workload)}
    within = device.known_within(card) or None

    @cache
    def alone_s(chunks: int, memory: program.HostMemory) -> float:
        return serial_ticks(workload, program.Config(chunks=chunks, memory=memory), card, fast) / TICKS_PER_S

    all_ticks = evaluate_ticks(workload, configs, card, fast, threads)
    for config, ticks in zip(configs, all_ticks, strict=True):
        took_s, serial_s = ticks / TICKS_PER_S, alone_s(config.chunks if workload.host_work_s else 1, config.memory)
        times = took_s, serial_s, serial_s / took_s if took_s else 1.0, within
        yield {**head, **asdict(config), **dict(zip(RESULTS, times, strict=True))}


def sweep_blocks(
    sweep: Sweep,
    before: Swept = Swept(),  # noqa: B008 - it cannot be changed
    executor: Any = None,
    fast: bool | None = None,
    block: int | None = None,
) -> Iterator[Swept]:
    """Predict the combinations behind those ``before``. Yield their rows block by block, in order.

    - ``executor``: any ``concurrent.futures.Executor`` (processes, MPI, ...), or a Dask ``Client``, whose workers can
      import streamsim. None: this process.
    - ``fast``: as for :func:`evaluate`.
    - ``block``: the number of combinations in a block (None: what takes a fraction of a second).

    Raises InputError if the executor fails.
    """
    fast = is_fast() if fast is None else fast
    chunks, work = sweep.values_of("chunks") or (1,), sweep.workload
    ops = sum(chunks) / len(chunks) * len((*work.inputs, *work.kernels, *work.outputs))
    size = block or max(1, min(BLOCK_ROWS, round(BLOCK_OPS[fast] / ops)))
    spans = ((at, min(at + size, len(sweep))) for at in range(before.stop, len(sweep), size))
    here = (predict_block(sweep, *span, fast, threads=None) for span in spans)
    blocks = here if executor is None else _submitted(sweep, spans, executor, fast)
    return islice(accumulate(blocks, Swept.then, initial=before), 1, None)


def _submitted(sweep: Sweep, spans: Iterable[tuple[int, int]], executor: Any, fast: bool) -> Iterator[Swept]:
    """Yield the rows of blocks that an executor predicts, in order; at most ``IN_FLIGHT`` blocks are on their way.

    A worker has one thread because other workers run on the same machine.
    """
    waiting: deque[Any] = deque()
    try:
        for span in spans:
            waiting.append(executor.submit(predict_block, sweep, *span, fast))
            if len(waiting) == IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except errors.InputError:
        raise
    except Exception as error:  # which one depends on the executor
        raise errors.InputError(f"the executor failed: {type(error).__name__}: {error}; start it again") from error
    finally:
        for future in waiting if isinstance(executor, Executor) else ():  # Dask drops what nobody waits for
            future.cancel()


# Files


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str:
    """Return the format that the suffix of ``path`` names; CSV if it has none. Raises InputError for other suffixes."""
    name = given or Path(path).suffix.lower().removeprefix(".") or "csv"
    if name in FORMATS:
        return name
    raise errors.InputError(f"{path}: expected a file name that ends in .csv or .jsonl, or --format")


def encoded(form: str, rows: Iterable[SweptRow]) -> bytes:
    """Return rows as lines of CSV, without a header, or of JSON."""
    if form == "jsonl":
        return msgspec.json.Encoder().encode_lines(rows)
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(map(errors.to_cell, row.values()) for row in rows)
    return lines.getvalue().encode()


def header(form: str, columns: tuple[str, ...]) -> bytes:
    """Return the bytes before the first row."""
    return encoded(form, [dict(zip(columns, columns, strict=True))]) if form == "csv" else b""


def write_sweep(
    sweep: Sweep,
    path: str | os.PathLike[str],
    form: str | None = None,
    executor: Any = None,
    fast: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    block: int | None = None,
) -> Swept:
    """Write every row of ``sweep`` to ``path``, and go on where the file ends if a run of the same sweep wrote it.

    - ``form``: "csv" or "jsonl" (None: as the suffix of ``path`` says).
    - ``executor``, ``fast``, ``block``: as for :func:`sweep_blocks`.
    - ``progress``: a function that is called with the number of combinations done and of all.

    Rows do not depend on when or where they are made, so the file ends up the same, byte for byte. Return what is known
    of all rows. Raises InputError if ``path`` holds anything else or cannot be written.
    """
    form, path = format_of(path, form), Path(path)
    try:
        found = _resumed(sweep, path, form) if path.is_file() else Swept()
        with open(path, "ab") as file:
            file.write(b"" if found.total else header(form, sweep.columns))
            for found in sweep_blocks(sweep, found, executor, fast, block):  # noqa: B020
                file.write(encoded(form, found.rows))
                file.flush()
                if progress is not None:
                    progress(found.stop, len(sweep))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_error(path, error, "write") from None
    return found


def _resumed(sweep: Sweep, path: Path, form: str) -> Swept:
    """Return what is known of the rows in a file; what is behind the last whole row is cut off.

    The last whole row is made anew; without one, the first is. Raises InputError for a file of anything else.
    """
    head, last, line, total = header(form, sweep.columns), b"", b"", 0
    with open(path, "rb") as file:
        begin, end = file.read(len(head)), 0
        while begin == head and (line := file.readline(LONGEST_ROW)).endswith(b"\n"):
            last, end, total = line, file.tell(), total + 1
    issued, why, ours, stop = 0, "", b"", 0
    for number, one in enumerate(combinations(sweep)):
        if not isinstance(one, Combination):
            why = why or str(one)
        elif (issued := issued + 1) == max(1, total):
            ours = encoded(form, predict_block(sweep, number, number + 1, is_fast()).rows)
            stop = number + 1 if last else 0
            break
    if not (ours == last if last else (head + ours).startswith(begin + line)):
        raise errors.InputError(f"{path}: holds something else than rows of this sweep; choose another name")
    fastest = min(islice(read_rows(path, form), total), key=itemgetter("makespan_s"), default=None)
    os.truncate(path, end)
    return Swept(stop, (), total, fastest, stop - total, why if stop else "")


def read_rows(path: str | os.PathLike[str], form: str | None = None) -> Iterator[SweptRow]:
    """Yield the rows of a file, with numbers as numbers and None for empty cells. Raises InputError for other files."""
    form = format_of(path, form)
    try:
        with open(path, "rb") as file:
            names = next(csv.reader([next(file, b"").decode()]), []) if form == "csv" else []
            for line in file:
                if form == "jsonl":
                    row = msgspec.json.decode(line, type=SweptRow)
                else:
                    (cells,) = csv.reader([line.decode()])
                    row = {name: _value(name, cell) for name, cell in zip(names, cells, strict=True)}
                times = [*map(row.get, RESULTS[:3]), row.get(WITHIN) or 0.0]
                if not all(isinstance(value, int | float) for value in times):
                    raise ValueError("a row without its times")
                yield row
    except (ValueError, csv.Error) as error:
        raise errors.InputError(f"{path}: holds something else than rows of a sweep ({error})") from None


def _value(name: str, cell: str) -> Any:
    with suppress(ValueError):
        if name not in TEXT_COLUMNS:
            return int(cell) if cell.isdecimal() else float(cell)
    return errors.from_cell(cell) or None


# Axes in text


USUAL_DEVICE = "h200"
Card = device.Device | str | Path  # a device, or the name or file of one
Asked = dict[str, list[str]]  # the texts under each of NAMES; under "set" texts such as "h2d.latency_s=1us,2us"
Values = Callable[[str, str], Sequence[Any]]  # makes the values of an axis of a text and the axis's name


def _kernels(values: str, name: str) -> Sequence[float | program.WorkloadKernel]:
    """Return the times of an axis in seconds, or the one kernel that has launches or other keys besides a time."""
    if {"@", "=", "/"} & {*values}:
        return (program.parse_kernel(values),)
    return text.expand(values, name, partial(text.parse_seconds, least=errors.SHORTEST_KERNEL_S), False, False)


def _chosen(choices: tuple[str, ...]) -> Values:
    return lambda values, name: text.chosen(name, values, choices)


_sizes = partial(text.expand, parse=text.parse_bytes, step_by_one=False)
_times = partial(text.expand, parse=text.parse_seconds, whole=False, step_by_one=False)
_numbers = partial(text.expand, parse=partial(text.parse_count, most=errors.MOST_CHUNKS))
DEVICE_AXES: dict[str, Values] = {"connections": partial(text.expand, parse=partial(text.parse_count, most=32))}
WORK_AXES: dict[str, Values] = {
    "h2d": _sizes,
    "kernel": _kernels,
    "d2h": _sizes,
    "host_work": _times,
    "host_load": _times,
}
CONFIG_AXES: dict[str, Values] = {
    "memory": _chosen(program.HOST_MEMORIES),
    "launch": _chosen(program.LAUNCHES),
    "order": _chosen(program.ORDERS),
    "buffers": lambda values, _: text.parse_buffers(values),
    "chunks": _numbers,
    "streams": _numbers,
}
OF_DEVICES = ("device", "front_end", *DEVICE_AXES, "memory_limit", "set")
NAMES = ("workload", *OF_DEVICES, *ARRAYS, *ONCE, "elements", *HOST, *CONFIG_AXES)


def read_asked(path: str | os.PathLike[str]) -> Asked:
    """Return the texts in a sweep's or a workload's file. Raises InputError naming the file, the name and the value."""
    data, where = toml_of(path)
    if text.kind_of(data) == "workload":
        return {"workload": [str(path)]}
    if mistaken := text.mistaken_for("sweep", data):
        raise errors.InputError(f"{where}: {mistaken}")
    asked = _asked(parse_toml(data, where, dict, "sweep"), f"{where}: ")
    if "workload" in asked:  # beside the file that names it
        asked["workload"] = [str(Path(path).parent / asked["workload"][0])]
    return asked


def _asked(table: Mapping[str, Any], place: str = "") -> Asked:
    """Return the values under each name as texts; an error message begins with ``place``."""
    asked: Asked = {}
    for name, value in table.items():
        if name not in NAMES:
            expected = ", ".join(NAMES)
            raise errors.InputError(f"{place}{name} = {errors.shown(value)}: unknown; expected one of {expected}")
        if name == "set" and isinstance(value, Mapping):
            asked[name] = [f"{key}={','.join(_texts(f'set.{key}', item, place))}" for key, item in value.items()]
        else:
            values = _texts(name, value, place)
            asked[name] = values if name in (*ARRAYS, *ONCE) else [",".join(values)]
    return asked


def _texts(name: str, value: Any, place: str) -> list[str]:
    """Return a text, a number, or each of a list of them as text; None stands for a buffer for each chunk.

    A number is in seconds where text needs its unit: 1e0.
    """
    in_seconds = name in ("kernel", *HOST) or name.startswith("set.")
    found = []
    try:
        for item in value if isinstance(value, list | tuple | range) else (value,):
            if name == "buffers" and item is None:
                found.append(text.ALL)
            elif type(item) in (str, int, float):
                said = str(item)  # a ValueError for a number of more digits than Python is willing to write
                found.append(said if isinstance(item, str) or "e" in said or not in_seconds else f"{said}e0")
            else:
                raise ValueError
        if found:
            return found
    except ValueError:
        pass
    raise errors.InputError(f"{place}{name} = {errors.shown(value)}: expected a text, a number or a list of them")


def sweep(
    workload: program.Workload | None = None,
    device: Card | Sequence[Card] = USUAL_DEVICE,
    **axes: Any,
) -> Sweep:
    """Return a sweep over every combination of the ``axes`` for ``workload`` on one or several devices.

    Iteration predicts the combinations. Each row is a dict, with times in seconds::

        for row in sweep(workload, ["a100", "h200"], chunks="1..64*2", streams=[1, 2, 4]): ...

    Axes have the names of a sweep file. A value is a number, a text such as ``"1..64*2"`` or ``"1,2,4"``, or a list of
    these.

    - How to cut and issue: ``chunks``, ``streams``, ``order``, ``buffers`` (None: one for each chunk), ``memory``,
      ``launch``.
    - The work: ``host_work``, ``host_load``.
    - The device: ``front_end``, ``connections``, ``memory_limit``, and ``set``, a dict from names of a
      profile's numbers to values.
    - Without a workload: ``h2d``, ``kernel`` and ``d2h`` (a list has an entry for each array or kernel), ``elements``,
      ``h2d_once`` and ``d2h_once``.

    Raises InputError naming the axis.
    """
    devices = list(device) if isinstance(device, Sequence) and not isinstance(device, str) else [device]
    if not devices:
        raise errors.InputError("devices = []: a sweep needs at least one")
    return sweep_of(_asked(axes), workload, devices)


def sweep_of(
    asked: Mapping[str, Sequence[str]],
    workload: program.Workload | None = None,
    devices: Sequence[Card] = (),
) -> Sweep:
    """Return the sweep that the texts describe; missing names have their default. Raises InputError naming a text.

    ``workload``, ``devices``: those to take in place of what the texts name.
    """
    texts = {name: list(values) for name, values in asked.items() if values}
    if "workload" in texts:
        path = texts["workload"][0]
        plan = {name: value for name, value in program.read_plan(path).items() if name in NAMES}
        texts, workload = {**_asked(plan, f"{path}: "), **texts}, program.read_workload(path)
    workload = _workload(texts, workload)
    cards = _devices(texts, workload.front_end, devices or _split(texts, "device") or [USUAL_DEVICE])
    names = Axis("device", tuple(card.name for card in cards))
    device_axes = (names, *_axes(texts, DEVICE_AXES), *_set_axes(texts.get("set", ()), cards[0]))
    return checked(Sweep(device_axes, _axes(texts, WORK_AXES), _axes(texts, CONFIG_AXES), cards, workload))


def _workload(texts: Asked, given: program.Workload | None) -> program.Workload:
    """Return the ``given`` workload, or one with as many arrays and kernels as ``texts`` have, which are axes."""
    if given is not None:
        for name in ("elements", *ONCE):
            if name in texts:
                raise errors.InputError(f"{name}: the workload says it; leave it out")
        return given
    h2d, kernels, d2h = (len(texts.get(name, ())) for name in ARRAYS)
    if not h2d + kernels + d2h:
        raise errors.InputError("no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE, or a workload file")
    elements = text.parse_count(texts["elements"][0], "elements") if "elements" in texts else None
    size, (h2d_once, d2h_once) = elements or 1, (texts.get(name, ()) for name in ONCE)
    kernels_s = [errors.SHORTEST_KERNEL_S] * kernels
    return program.workload_of_sizes([size] * h2d, kernels_s, [size] * d2h, elements, h2d_once, d2h_once)


def _devices(texts: Asked, front_end: str, asked: Sequence[Card]) -> tuple[device.Device, ...]:
    """Return the devices: of the front ends in ``texts``, else of the workload's unless a device names its own."""
    limit = text.parse_bytes(texts["memory_limit"][0], "memory_limit") if "memory_limit" in texts else None
    found: dict[str, device.Device] = {}
    for one in asked:
        card, is_told = device.as_device(one), isinstance(one, str | Path) and device.names_front_end(one)
        usual = card if is_told else device.written_in(card, front_end)
        named = [device.with_front_end(card, name.lower()) for name in _split(texts, "front_end")]
        for card in named or [usual]:
            if (name := card.name) in found:
                raise errors.InputError(
                    f"device = {errors.shown(name)}: two profiles of this name; rename one (name = in its file)"
                )
            found[name] = device.with_memory_limit(card, limit)
    return tuple(found.values())


def _axes(texts: Asked, known: Mapping[str, Values]) -> tuple[Axis, ...]:
    """Return the axes of ``known`` that ``texts`` has: one of each array and kernel, and one of each other name."""
    found: list[Axis] = []
    for name in filter(texts.__contains__, known):
        given = texts[name] if name in ARRAYS else [",".join(texts[name])]
        columns = numbered(COLUMNS.get(name, name), given)
        found += [Axis(column, tuple(known[name](values, name))) for column, values in columns.items()]
    return tuple(found)


def _set_axes(texts: Sequence[str], card: device.Device) -> list[Axis]:
    """Return the axes of the profile's numbers and rules, of texts such as ``"h2d.latency=1us..8us*2"``.

    The profile's value gives the kind of values. Raises InputError for values that a profile cannot have, and for two
    axes of one number.
    """
    axes = []
    for setting in texts:
        given, said = device.split_setting(setting, "NAME=VALUES such as h2d.latency_s=1us,2us")
        name, parse = device.full_name(card, given), device.parser_of(card, given)
        if parse is not None:
            whole = isinstance(device.current(card, name), int)
            values: tuple[Any, ...] = text.expand(said, name, parse, whole=whole, step_by_one=whole)
        else:
            values = tuple(part.strip() for part in said.split(","))
            for value in values:
                device.changed(card, {name: value})
        axes.append(Axis(name, values))
    device.targets_of(card, dict.fromkeys(axis.name for axis in axes))
    return axes


def _split(texts: Asked, name: str) -> list[str]:
    return [part.strip() for given in texts.get(name, ()) for part in given.split(",")]
