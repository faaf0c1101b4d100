"""Sweeps: every combination of some axes, predicted in order, in this process or on an executor's workers; their files.

A :class:`Sweep` is a small value. A worker gets two numbers, ``start`` and ``stop``, and makes these combinations
itself. Combination i is i written in mixed radix, with the last axis counting fastest. It depends on nothing else, so
neither the executor nor the order of its results changes a row.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import lru_cache, partial
from importlib import import_module
from itertools import chain
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from streamsim.checks import check_number
from streamsim.device import Device, changed, known_within
from streamsim.displayed import Displayed
from streamsim.errors import InputError, NoRoomError
from streamsim.files import file_error
from streamsim.program import Config, Workload, WorkloadKernel, per_element, workload_of_sizes
from streamsim.rules import TICKS_PER_S
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.text import from_cell, one_line, short, to_cell

FORMATS = ("csv", "jsonl")
TEXT_COLUMNS = ("device", "order", "memory", "launch")
LONGEST_ROW = 1 << 20  # bytes
CONFIG = Config.__struct_fields__
ARRAYS = {"h2d_bytes": "inputs", "kernel_s": "kernels", "d2h_bytes": "outputs"}  # axes, and fields of a workload
HOST, ONCE = ("host_work_s", "host_load_s"), ("h2d_once", "d2h_once")
WITHIN = "known_within"  # the relative error of the times if the device's latencies are assumed, else None
RESULTS = ("makespan_s", "serial_s", "speedup", WITHIN)
UNISSUED, NO_ROOM = "cannot be issued", "have no room on the card"  # why combinations have no row
BLOCK_OPS = {False: 20_000, True: 10_000_000}  # ops of a block, a fraction of a second: on SimPy, on the compiled twin
BLOCK_ROWS = 8192
IN_FLIGHT = 64  # blocks given to an executor at a time
LOST_S = 10.0  # after so long without a result, a Dask client is asked whether its scheduler is still there
CACHED = 4096
MOST_COMBINATIONS = 100_000_000  # an hour of the compiled twin, and ten gigabytes of rows
MOST_REFUSED = 100_000  # combinations tried in search of one that can be issued


class Axis(msgspec.Struct, frozen=True):
    """An axis of a sweep: the name of its column (or ``scale``), and its values."""

    name: str
    values: tuple[Any, ...]


class Sweep(Displayed, msgspec.Struct, frozen=True):
    """A sweep over every combination of its axes, as :func:`sweep` makes it.

    Iteration predicts the combinations: see :meth:`rows`. ``len()`` counts them, with those that cannot be issued.

    - ``device_axes``, ``work_axes``, ``config_axes``: the axes, the outermost first; the last one counts fastest.
    - ``workload``: the work that the axes change. If it is None, arrays and kernels are axes, and ``elements``,
      ``h2d_once`` and ``d2h_once`` are those of :func:`workload_of_sizes`.

    Raises InputError for more than a hundred million combinations, and if none of them can be issued.
    """

    device_axes: tuple[Axis, ...]
    work_axes: tuple[Axis, ...]
    config_axes: tuple[Axis, ...]
    devices: tuple[Device, ...]
    workload: Workload | None = None
    elements: int | None = None
    h2d_once: tuple[int, ...] = ()
    d2h_once: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes, the outermost first."""
        return (*self.device_axes, *self.work_axes, *self.config_axes)

    def __len__(self) -> int:
        """Return the number of combinations, with those that cannot be issued."""
        return _count(self.axes)

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name} x {len(axis.values)}" for axis in self.axes)
        return short(f"Sweep({len(self)} combinations: {axes})")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's values."""
        return (*self.head_columns, *CONFIG, *RESULTS)

    @property
    def head_columns(self) -> tuple[str, ...]:
        """The columns of the device and of the work.

        Bytes that are copied once, launches of kernels and host work have columns only if there are any.
        """
        arrays: dict[str, Sequence[Any]] = {
            name: getattr(self.workload, field) if self.workload else self._axes_of(name)
            for name, field in ARRAYS.items()
        }
        swept = (value for axis in self._axes_of("kernel_s") for value in axis.values)
        kernels = chain(self.workload.kernels if self.workload else (), swept)
        launched = any(isinstance(kernel, WorkloadKernel) and kernel.launches > 1 for kernel in kernels)
        return (
            *("device", "connections"),
            *(axis.name for axis in self.device_axes if "." in axis.name),
            "elements",
            *(column for name, some in arrays.items() for column in numbered(name, some)),
            *(f"{name}_bytes" for name in ONCE if getattr(self.workload or self, name)),
            *(numbered("kernel_launches", arrays["kernel_s"]) if launched else ()),
            *(axis.name for axis in self.work_axes if axis.name in HOST),
        )

    def _axes_of(self, kind: str) -> list[Axis]:
        return [axis for axis in self.work_axes if axis.name.startswith(kind)]

    def values_of(self, name: str) -> tuple[Any, ...]:
        """Return the values of the axis ``name``; empty without this axis."""
        return next((axis.values for axis in self.axes if axis.name == name), ())

    def point(self, number: int) -> dict[str, Any]:
        """Return the value of every axis in combination ``number``, by the axis's name."""
        return _point(self.axes, number)

    def device(self, point: Mapping[str, Any]) -> Device:
        """Return the device of a combination. Raises InputError if its numbers contradict each other."""
        base = {device.name: device for device in self.devices}[point["device"]]
        if "connections" in point:
            base = base.with_connections(point["connections"])
        return changed(base, {name: value for name, value in point.items() if "." in name})

    def workload_at(self, point: Mapping[str, Any]) -> Workload:
        """Return the workload of a combination. Raises InputError if its sizes contradict each other."""
        given = {kind: [point[axis.name] for axis in self._axes_of(kind)] for kind in ARRAYS}
        if self.workload is None:
            sizes = (given["h2d_bytes"], given["kernel_s"], given["d2h_bytes"])
            workload = workload_of_sizes(*sizes, self.elements, self.h2d_once, self.d2h_once)
        else:
            workload = _with_arrays(self.workload, given)
        workload = replace(workload, **{name: point[name] for name in HOST if name in point})
        return scaled(workload, point["scale"]) if "scale" in point else workload

    def rows(self, executor: Any = None, fast: bool | None = None) -> Iterator[dict[str, Any]]:
        """Predict the combinations in order. Yield a row, a dict with the keys ``columns``, for each of them.

        Times are in seconds. Combinations that cannot be issued, or do not fit on the card, are left out. Arguments and
        errors are those of :func:`sweep_blocks`.
        """
        for block in sweep_blocks(self, 0, executor, fast):
            for row in block.rows:
                yield dict(zip(self.columns, row, strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def to_pandas(self) -> Any:
        """Return the predicted combinations as a pandas data frame. Raises InputError if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise InputError("a data frame needs pandas: pip install pandas") from None
        return pandas.DataFrame.from_records(list(self), columns=list(self.columns))


def checked(sweep: Sweep) -> Sweep:
    """Return ``sweep``. Raises InputError for too many combinations, and if none of them can be issued.

    A combination that can be issued in more streams can be in the fewest. The first ``MOST_REFUSED`` are tried.
    """
    if (count := len(sweep)) > MOST_COMBINATIONS:
        largest = max(sweep.axes, key=lambda axis: len(axis.values))
        raise InputError(
            f"{largest.name} = {len(largest.values)} values: a sweep of {count} combinations, more than"
            f" {MOST_COMBINATIONS}; give larger steps, or sweep it in parts"
        )
    axes = (Axis(axis.name, (min(axis.values),)) if axis.name == "streams" else axis for axis in sweep.config_axes)
    fewest = replace(sweep, config_axes=tuple(axes))
    reason = ""
    for start in range(0, min(len(fewest), MOST_REFUSED), 256):
        some = Combinations(fewest, start, min(start + 256, len(fewest)))
        if some.numbers:
            return sweep
        reason = reason or next(iter(some.reasons.values()))
    if len(fewest) > MOST_REFUSED:
        return sweep
    raise InputError(one_line(f"an empty grid: none of its {count} combinations can be issued: {reason}"))


class Rows(NamedTuple):
    """The rows of a block of combinations, which ends before ``stop``, in order.

    ``left_out``: the number of combinations without a row, by why; ``reasons``: the message of the first one.
    """

    stop: int
    rows: list[tuple[Any, ...]]
    left_out: Counter[str]
    reasons: dict[str, str]


class Combinations:
    """The combinations from ``start`` to ``stop`` that can be issued, and why others cannot.

    - ``groups``: their device, workload and configurations, by the number of the device and that of the workload.
    - ``numbers``: the numbers of those that have a row; ``left_out`` and ``reasons`` are those of :class:`Rows`.
    """

    def __init__(self, sweep: Sweep, start: int, stop: int) -> None:
        self.sweep, self.stop = sweep, stop
        self.left_out, self.reasons = Counter[str](), dict[str, str]()
        self.groups: dict[tuple[int, int], tuple[Device, Workload, list[Config]]] = {}
        self.numbers: list[int] = []
        axes = (sweep.device_axes, sweep.work_axes, sweep.config_axes)
        cached = lru_cache(CACHED)
        device_at = cached(lambda card: sweep.device(_point(axes[0], card)))
        workload_at = cached(lambda work: sweep.workload_at(_point(axes[1], work)))
        config_at = cached(lambda config: Config(**_point(axes[2], config)))
        _, works, configs = map(_count, axes)
        for number in range(start, stop):
            (card, work), config = divmod(number // configs, works), number % configs
            try:
                self._add((card, work), device_at(card), workload_at(work), config_at(config))
            except InputError as error:
                kind = NO_ROOM if isinstance(error, NoRoomError) else UNISSUED
                self.left_out[kind] += 1
                self.reasons.setdefault(kind, str(error))
            else:
                self.numbers.append(number)

    def _add(self, group: tuple[int, int], device: Device, workload: Workload, config: Config) -> None:
        config.check(workload)
        device.check_room(config.device_bytes(workload))
        if group not in self.groups:
            for kernel in workload.launches(workload.cut(1)[0]):
                device.occupancy(kernel)
        self.groups.setdefault(group, (device, workload, []))[2].append(config)

    def predict(self, fast: bool, threads: int | None = None) -> Rows:
        """Return the rows; ``fast``, ``threads``: as for :func:`evaluate`."""
        rows: list[tuple[Any, ...]] = []
        columns = self.sweep.head_columns
        for (card, _), (device, workload, configs) in self.groups.items():
            cells = _point(self.sweep.device_axes, card) | _work_cells(workload)
            cells |= {"device": device.name, "connections": device.connections}
            head, within = [cells[name] for name in columns], known_within(device) or None
            ticks = _with_serial(workload, configs, partial(evaluate_ticks, device=device, fast=fast, threads=threads))
            for config, pair in zip(configs, ticks, strict=True):
                took_s, serial_s = (n / TICKS_PER_S for n in pair)
                speedup = serial_s / took_s if took_s else 1.0
                rows.append((*head, *msgspec.structs.astuple(config), took_s, serial_s, speedup, within))
        return Rows(self.stop, rows, self.left_out, self.reasons)


def _count(axes: Iterable[Axis]) -> int:
    return prod(len(axis.values) for axis in axes)


def _point(axes: Sequence[Axis], number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for axis in reversed(axes):
        number, k = divmod(number, len(axis.values))
        found[axis.name] = axis.values[k]
    return found


def numbered(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return ``values`` by name: the name itself for one, else with ``_1``, ``_2``, ..."""
    return {name if len(values) == 1 else f"{name}_{k}": value for k, value in enumerate(values, 1)}


def _work_cells(workload: Workload) -> dict[str, Any]:
    times = [kernel.whole_s(workload.work) if kernel.is_timed else None for kernel in workload.kernels]
    return {
        "elements": workload.elements,
        **numbered("h2d_bytes", workload.input_bytes),
        **numbered("kernel_s", times),
        **numbered("d2h_bytes", workload.output_bytes),
        **{f"{name}_bytes": sum(getattr(workload, name)) for name in ONCE},
        **numbered("kernel_launches", [kernel.launches for kernel in workload.kernels]),
        **{name: getattr(workload, name) for name in HOST},
    }


def _with_serial(
    workload: Workload, configs: list[Config], ticks_of: Callable[[Workload, list[Config]], list[int]]
) -> Iterator[tuple[int, int]]:
    """Yield the ticks of each config and of its unchunked program.

    Configs share an unchunked program if they have the same host work and memory.
    """
    keys = [(config.chunks if workload.host_work_s else 1, config.memory) for config in configs]
    serial = {key: Config(order="serial", memory=key[1]) for key in keys}
    if workload.host_work_s:
        ticks = ticks_of(workload, configs)
        ticks += [ticks_of(workload.loaded_once(key[0]), [config])[0] for key, config in serial.items()]
    else:
        ticks = ticks_of(workload, configs + list(serial.values()))
    serial_ticks = dict(zip(serial, ticks[len(configs) :], strict=True))
    return zip(ticks, map(serial_ticks.__getitem__, keys), strict=False)


def _with_arrays(workload: Workload, given: Mapping[str, list[Any]]) -> Workload:
    """Return the workload with other sizes or times. Raises InputError for another number of them than it has."""
    new: dict[str, Any] = {}
    for name, field in ARRAYS.items():
        values, old = given[name], getattr(workload, field)
        if values and len(values) != len(old):
            raise InputError(f"{name}: {len(values)} given; the workload has {len(old)}")
        if values and field == "kernels":
            new[field] = tuple(map(_retimed, old, values))
        elif values:
            new[field] = tuple(per_element(name, size, workload.elements or 1) for size in values)
    return replace(workload, **new)


def _retimed(kernel: WorkloadKernel, given: float | WorkloadKernel) -> WorkloadKernel:
    """Return the kernel with another time in all, or a ``given`` kernel in its place, under its name."""
    if not isinstance(given, WorkloadKernel):
        return replace(kernel, duration_s=given, points=())
    return given if given.name != WorkloadKernel().name else replace(given, name=kernel.name)


def scaled(workload: Workload, factor: float) -> Workload:
    """Return the workload with its elements or bytes, its kernels' work and its host load multiplied by ``factor``."""
    check_number("scale", factor, 1e-9, 1e9)
    work = workload.work * factor
    new: dict[str, Any] = {
        "kernels": tuple(kernel.over(factor, work) if kernel.is_timed else kernel for kernel in workload.kernels),
        "host_load_s": workload.host_load_s * factor,
    }
    if workload.elements:
        new["elements"] = max(1, round(workload.elements * factor))
    else:
        for field in ("inputs", "outputs"):
            new[field] = tuple(max(1, round(n * factor)) for n in getattr(workload, field))
    return replace(workload, **new)


def block_ranges(sweep: Sweep, start: int, fast: bool, block: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield begin and end of blocks with ``block`` combinations each, or with what takes a fraction of a second."""
    chunks = sweep.values_of("chunks") or (1,)
    ops = sum(chunks) / len(chunks) * max(1, len(sweep.head_columns) - 3)
    size = block or max(1, min(BLOCK_ROWS, round(BLOCK_OPS[fast] / ops)))
    return ((at, min(at + size, len(sweep))) for at in range(start, len(sweep), size))


def sweep_blocks(
    sweep: Sweep,
    start: int = 0,
    executor: Any = None,
    fast: bool | None = None,
    block: int | None = None,
) -> Iterator[Rows]:
    """Predict the combinations from ``start`` on. Yield their rows block by block, in order.

    - ``executor``: any ``concurrent.futures.Executor`` (processes, MPI, ...), or a Dask ``Client``, whose workers can
      import streamsim. None: this process.
    - ``fast``: as for :func:`evaluate`.
    - ``block``: the number of combinations in a block (None: chosen by their cost).

    Raises InputError if the executor fails.
    """
    fast = is_fast() if fast is None else fast
    ranges = block_ranges(sweep, start, fast, block)
    if executor is None:
        return (Combinations(sweep, *span).predict(fast) for span in ranges)
    return _submitted(sweep, ranges, executor, fast)


def _submitted(sweep: Sweep, ranges: Iterable[tuple[int, int]], executor: Any, fast: bool) -> Iterator[Rows]:
    """Yield the rows of blocks that an executor predicts, in order; at most ``IN_FLIGHT`` blocks are on their way."""
    waiting: deque[Any] = deque()
    try:
        for span in ranges:
            waiting.append(executor.submit(_on_worker, sweep, *span, fast))
            if len(waiting) == IN_FLIGHT:
                yield _result(executor, waiting.popleft())
        while waiting:
            yield _result(executor, waiting.popleft())
    except InputError:
        raise
    except Exception as error:  # which one depends on the executor
        raise InputError(one_line(f"the executor failed: {type(error).__name__}: {error}; start it again")) from error
    finally:
        for future in waiting if isinstance(executor, Executor) else ():  # Dask drops what nobody waits for
            future.cancel()


def _result(executor: Any, future: Any) -> Any:
    """Return the rows of a block. Raises TimeoutError if the executor is a Dask client that has lost its scheduler."""
    while not isinstance(executor, Executor):
        try:
            return future.result(LOST_S)
        except TimeoutError:
            scheduler = executor.scheduler_comm
            if future.status == "error" or executor.status != "running" or not scheduler or scheduler.closed():
                raise TimeoutError("Dask's scheduler is lost") from None
    return future.result()


def _on_worker(sweep: Sweep, start: int, stop: int, fast: bool) -> Rows:
    """Predict a block on a worker, with one thread because other workers run on the same machine."""
    return Combinations(sweep, start, stop).predict(fast and is_fast(), threads=1)


# Files


class Tally:
    """The rows of a sweep so far: their number, the fastest one, and the combinations without a row by why."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._time = itemgetter(columns.index("makespan_s"))
        self.rows = 0
        self.fastest: tuple[Any, ...] | None = None
        self.left_out, self.reasons = Counter[str](), dict[str, str]()

    def counted(self, blocks: Iterable[Rows]) -> Iterator[Rows]:
        """Yield the blocks, each once it is counted."""
        for block in blocks:
            self.add(block.rows)
            self.leave_out(block)
            yield block

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Count more rows."""
        self.rows += len(rows)
        self.fastest = min(filter(None, (self.fastest, *rows)), key=self._time, default=None)

    def leave_out(self, some: Rows | Combinations) -> None:
        """Count the combinations of ``some`` that have no row."""
        self.left_out += some.left_out
        self.reasons = {**some.reasons, **self.reasons}


def format_of(path: str | os.PathLike[str], given: str | None = None) -> str:
    """Return the format that the suffix of ``path`` names; CSV if it has none. Raises InputError for other suffixes."""
    name = given or Path(path).suffix.lower().removeprefix(".") or "csv"
    if name in FORMATS:
        return name
    known = ", ".join(f".{form}" for form in FORMATS)
    raise InputError(one_line(f"{path}: expected a file name that ends in one of {known}, or --format"))


def encoded(form: str, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> bytes:
    """Return rows as lines of CSV, without a header, or of JSON."""
    if form == "jsonl":
        return msgspec.json.Encoder().encode_lines([dict(zip(columns, row, strict=True)) for row in rows])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(to_cell, row) for row in rows)
    return text.getvalue().encode()


def header(form: str, columns: tuple[str, ...]) -> bytes:
    """Return the bytes before the first row."""
    return encoded(form, columns, [columns]) if form == "csv" else b""


def write_sweep(
    sweep: Sweep,
    path: str | os.PathLike[str],
    form: str | None = None,
    executor: Any = None,
    fast: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    block: int | None = None,
) -> Tally:
    """Write every row of ``sweep`` to ``path``, and go on where the file ends if a run of the same sweep wrote it.

    - ``form``: "csv" or "jsonl" (None: as the suffix of ``path`` says).
    - ``executor``, ``fast``, ``block``: as for :func:`sweep_blocks`.
    - ``progress``: a function that is called with the number of combinations done and of all.

    Rows do not depend on when or where they are made, so the file ends up the same, byte for byte. Return the count of
    all rows. Raises InputError if ``path`` holds anything else or cannot be written.
    """
    form, path, tally = format_of(path, form), Path(path), Tally(sweep.columns)
    try:
        start = _resumed(sweep, path, form, tally) if path.is_file() else 0
        with open(path, "ab") as file:
            file.write(b"" if start else header(form, sweep.columns))
            for rows in tally.counted(sweep_blocks(sweep, start, executor, fast, block)):
                file.write(encoded(form, sweep.columns, rows.rows))
                file.flush()
                if progress is not None:
                    progress(rows.stop, len(sweep))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_error(path, error, "write") from None
    return tally


def _resumed(sweep: Sweep, path: Path, form: str, tally: Tally) -> int:
    """Return the combination behind the file's last whole row, with all before it in ``tally``; 0 without a whole row.

    The bytes behind that row are cut off. Raises InputError for a file that this sweep did not write.
    """
    columns, head, last, line = sweep.columns, header(form, sweep.columns), b"", b""
    other = InputError(one_line(f"{path}: holds something else than rows of this sweep; choose another name"))
    with open(path, "rb") as file:
        begin = file.read(len(head))
        end = len(head)
        while begin == head and (line := file.readline(LONGEST_ROW)).endswith(b"\n"):
            try:
                row = _read(form, columns, line)
            except (ValueError, csv.Error):
                raise other from None
            times = [row.get(name) for name in RESULTS if row.get(name) is not None or name != WITHIN]
            if tuple(row) != columns or not all(isinstance(value, int | float) for value in times):
                raise other
            tally.add([tuple(row.values())])
            last, end = line, end + len(line)
    number = _leave_out(sweep, max(1, tally.rows), tally if last else Tally(columns))
    ours = [] if number is None else Combinations(sweep, number, number + 1).predict(is_fast()).rows
    expected = encoded(form, columns, ours)
    if not (expected == last if last else (head + expected).startswith(begin + line)):
        raise other
    os.truncate(path, end if last else 0)
    return number + 1 if last and number is not None else 0


def _leave_out(sweep: Sweep, row: int, tally: Tally) -> int | None:
    """Return the combination of the ``row``-th row, from 1, with those left out before it in ``tally``; None: no such.

    Nothing is predicted.
    """
    for start, stop in block_ranges(sweep, 0, is_fast()):
        found = Combinations(sweep, start, stop)
        if row <= len(found.numbers):
            number = found.numbers[row - 1]
            tally.leave_out(Combinations(sweep, start, number + 1))
            return number
        tally.leave_out(found)
        row -= len(found.numbers)
    return None


def read_rows(path: str | os.PathLike[str], form: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, with numbers as numbers and None for empty cells. Raises InputError for other files."""
    form = format_of(path, form)
    try:
        with open(path, "rb") as file:
            names = next(csv.reader([next(file, b"").decode()]), []) if form == "csv" else []
            for line in file:
                yield _read(form, names, line)
    except (ValueError, csv.Error) as error:
        raise InputError(one_line(f"{path}: holds something else than rows of a sweep ({error})")) from None


def _read(form: str, names: Sequence[str], line: bytes) -> dict[str, Any]:
    """Return the row in a line of a file. Raises ValueError or csv.Error for other lines."""
    if form == "jsonl":
        return msgspec.json.decode(line, type=dict[str, Any])
    (cells,) = csv.reader([line.decode()])
    return {name: _value(name, text) for name, text in zip(names, cells, strict=True)}


def _value(name: str, text: str) -> Any:
    if not text or name in TEXT_COLUMNS:
        return from_cell(text) or None
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return from_cell(text)
