"""Sweeps: every combination of some axes, predicted in order, in this process or on an executor's workers.

A :class:`Sweep` is a small value. A worker gets two numbers, ``start`` and ``stop``, and makes these combinations
itself. Combination i is i written in mixed radix, with the last axis counting fastest. It depends on nothing else, so
neither the executor nor the order of its results changes a row.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import lru_cache, partial
from importlib import import_module
from itertools import chain, groupby
from math import prod
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from streamsim.checks import check_number
from streamsim.device import Device, changed, known_within
from streamsim.displayed import Displayed
from streamsim.errors import InputError, NoRoomError
from streamsim.program import Config, Workload, WorkloadKernel, per_element, workload_of_sizes
from streamsim.rules import TICKS_PER_S
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.text import one_line, short

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
        set_numbers = (axis.name for axis in self.device_axes if "." in axis.name)
        counts = {
            name: len(getattr(self.workload, field)) if self.workload else len(self._axes_of(name))
            for name, field in ARRAYS.items()
        }
        arrays = (column for name, count in counts.items() for column in _numbered(name, range(count)))
        more = [f"{name}_bytes" for name in ONCE if getattr(self.workload or self, name)]
        swept = (value for axis in self._axes_of("kernel_s") for value in axis.values)
        kernels = chain(self.workload.kernels if self.workload else (), swept)
        if any(isinstance(kernel, WorkloadKernel) and kernel.launches > 1 for kernel in kernels):
            more += _numbered("kernel_launches", range(counts["kernel_s"]))
        more += [axis.name for axis in self.work_axes if axis.name in HOST]
        return ("device", "connections", *set_numbers, "elements", *arrays, *more)

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
    """The combinations from ``start`` to ``stop``, by workload and device, and why some of them cannot be issued."""

    def __init__(self, sweep: Sweep, start: int, stop: int) -> None:
        self.sweep, self.stop = sweep, stop
        self.left_out, self.reasons = Counter[str](), dict[str, str]()
        self.groups: list[tuple[dict[str, Any], Workload, Device, list[Config]]] = []
        self.numbers: list[int] = []  # of those that have a row
        axes = (sweep.device_axes, sweep.work_axes, sweep.config_axes)
        makers: tuple[Callable[[Mapping[str, Any]], Any], ...]
        makers = (sweep.device, sweep.workload_at, lambda point: Config(**point))
        self._made = [lru_cache(CACHED)(partial(_made, make, own)) for make, own in zip(makers, axes, strict=True)]
        _, works, configs = map(_count, axes)
        for group, numbers in groupby(range(start, stop), lambda number: number // configs):
            self._add(*divmod(group, works), numbers, configs)

    def _add(self, card: int, work: int, numbers: Iterable[int], count: int) -> None:
        """Take the combinations ``numbers`` of a device and a workload, each with another one of ``count`` configs."""
        device_at, workload_at, config_at = self._made
        configs: list[Config] = []
        for number in numbers:
            try:
                device, workload, config = device_at(card), workload_at(work), config_at(number % count)
                config.check(workload)
                device.check_room(config.device_bytes(workload))
                if not configs:
                    for kernel in workload.launches(workload.cut(1)[0]):
                        device.kernel_time(kernel)
            except InputError as error:
                kind = NO_ROOM if isinstance(error, NoRoomError) else UNISSUED
                self.left_out[kind] += 1
                self.reasons.setdefault(kind, str(error))
            else:
                configs.append(config)
                self.numbers.append(number)
        if configs:
            cells = _point(self.sweep.device_axes, card) | _work_cells(workload)
            cells |= {"device": device.name, "connections": device.connections}
            self.groups.append((cells, workload, device, configs))

    def predict(self, fast: bool, threads: int | None = None) -> Rows:
        """Return the rows; ``fast``, ``threads``: as for :func:`evaluate`."""
        rows: list[tuple[Any, ...]] = []
        columns = self.sweep.head_columns
        for cells, workload, device, configs in self.groups:
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


def _made(make: Callable[[Mapping[str, Any]], Any], axes: Sequence[Axis], number: int) -> Any:
    return make(_point(axes, number))


def _numbered(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return ``values`` by name: the name itself for one, else with ``_1``, ``_2``, ..."""
    return {name if len(values) == 1 else f"{name}_{k}": value for k, value in enumerate(values, 1)}


def _work_cells(workload: Workload) -> dict[str, Any]:
    times = [kernel.whole_s(workload.work) if kernel.is_timed else None for kernel in workload.kernels]
    return {
        "elements": workload.elements,
        **_numbered("h2d_bytes", workload.input_bytes),
        **_numbered("kernel_s", times),
        **_numbered("d2h_bytes", workload.output_bytes),
        **{f"{name}_bytes": sum(getattr(workload, name)) for name in ONCE},
        **_numbered("kernel_launches", [kernel.launches for kernel in workload.kernels]),
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
