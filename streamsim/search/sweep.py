"""Sweeps: every combination of some axes, predicted in order, in this process or on an executor's workers.

A :class:`Sweep` is a small value. A worker gets two numbers, ``start`` and ``stop``, and makes these combinations
itself. A million combinations therefore need no memory. Combination i is i written in mixed radix, with the last axis
counting fastest. It depends on nothing else, so neither the executor nor the order of its results changes a row.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from functools import lru_cache, partial
from importlib import import_module
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from streamsim.checks import check_number, check_tuple
from streamsim.device import Device, changed, known_within
from streamsim.displayed import Displayed
from streamsim.errors import InputError, NoRoomError
from streamsim.program import Config, Workload, WorkloadKernel, per_element, workload_of_sizes
from streamsim.rules import TICKS_PER_S
from streamsim.search.evaluate import evaluate_ticks, is_fast
from streamsim.text import one_line, short, shown

T = TypeVar("T")
CONFIG = Config.__struct_fields__
HOST, ONCE = ("host_work_s", "host_load_s"), ("h2d_once", "d2h_once")  # fields of a workload
WITHIN = "known_within"  # the relative error of the times if the device's latencies are assumed, else None
RESULTS = ("makespan_s", "serial_s", "speedup", WITHIN)
OTHERS = ("device", "connections", "scale", *HOST, *CONFIG)  # axes except arrays, kernels and a profile's numbers
_ARRAY = re.compile(r"(h2d_bytes|kernel_s|d2h_bytes)(?:_([1-9][0-9]*))?")
BLOCK_OPS = {False: 20_000, True: 10_000_000}  # ops of a block, a fraction of a second: on SimPy, on the compiled twin
BLOCK_ROWS = 8192
IN_FLIGHT = 16  # blocks given to an executor at a time
RETRIES = 2
CACHED = 4096
MOST_COMBINATIONS = 100_000_000  # an hour of the compiled twin, and ten gigabytes of rows
MOST_REFUSED = 100_000  # combinations tried in search of one that can be issued


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An axis of a sweep: its name and its values. Raises InputError if it is empty.

    Names:

    - ``device``: its values are names of ``Sweep.devices``;
    - ``connections``, and dotted names of a profile's numbers and rules, such as ``h2d.latency_s``;
    - ``h2d_bytes``, ``kernel_s`` and ``d2h_bytes``, with ``_1``, ``_2``, ... if there are several;
    - ``host_work_s``, ``host_load_s``;
    - ``scale``: a factor of the workload's elements (or bytes), kernel times and host load;
    - the fields of :class:`Config`.
    """

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        check_tuple(self.name, self.values)
        if not self.values:
            raise InputError(f"{self.name} = []: an empty axis; give at least one value")


class Sweep(Displayed, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sweep over every combination of the ``axes``, with the last axis counting fastest, at most a hundred million.

    Iteration predicts the combinations: see :meth:`rows`. ``len()`` counts them, with those that cannot be issued.

    - ``devices``: the first one counts unless there is an axis ``device``.
    - ``workload``: the work that the axes change. If it is None, arrays and kernels are axes, and ``elements``,
      ``h2d_once`` and ``d2h_once`` are those of :func:`workload_of_sizes`.

    Raises InputError naming the axis.
    """

    axes: tuple[Axis, ...]
    devices: tuple[Device, ...]
    workload: Workload | None = None
    elements: int | None = None
    h2d_once: tuple[int, ...] = ()
    d2h_once: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in ("axes", "devices", "h2d_once", "d2h_once"):
            check_tuple(field, getattr(self, field))
        names = [axis.name for axis in self.axes]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{name}: stands twice among the axes; keep one")
            if not (_ARRAY.fullmatch(name) or "." in name or name in OTHERS):
                raise InputError(f"{shown(name)}: no axis of that name")
        if (count := self._count) > MOST_COMBINATIONS:
            largest = max(self.axes, key=lambda axis: len(axis.values))
            raise InputError(
                f"{largest.name} = {len(largest.values)} values: a sweep of {count} combinations, more than"
                f" {MOST_COMBINATIONS}; give larger steps, or sweep it in parts"
            )
        if not self.devices:
            raise InputError("devices = []: a sweep needs at least one")
        if self.workload is None and not any(map(_ARRAY.fullmatch, names)):
            raise InputError("no workload: give one, or axes such as h2d_bytes and kernel_s")

    def __len__(self) -> int:
        """Return the number of combinations, with those that cannot be issued."""
        return self._count

    @property
    def _count(self) -> int:
        return prod(len(axis.values) for axis in self.axes)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's values."""
        return (*self._device_columns, "elements", *self.workload_columns, *CONFIG, *RESULTS)

    @property
    def _device_columns(self) -> tuple[str, ...]:
        dotted = tuple(axis.name for axis in self.axes if "." in axis.name)
        return ("device", "connections", *dotted)

    @property
    def workload_columns(self) -> tuple[str, ...]:
        """The columns of the work.

        There is a column for each array that is cut, each kernel, the bytes copied once (if any), the launches of each
        kernel (if any has several), and each axis of host work.
        """
        return (*self._array_columns, *self.once_columns, *self._launch_columns, *self.host_columns)

    @property
    def once_columns(self) -> tuple[str, ...]:
        """The columns of the bytes that are copied once, if any: ``h2d_once_bytes``, ``d2h_once_bytes``."""
        of = self.workload or self
        return tuple(f"{field}_bytes" for field in ONCE if getattr(of, field))

    @property
    def has_launches(self) -> bool:
        """True if any kernel has several launches; each kernel then has a column for its launches."""
        kernels = self.workload.kernels if self.workload else ()
        given = [value for axis in self.axes if axis.name.startswith("kernel_s") for value in axis.values]
        return any(isinstance(one, WorkloadKernel) and one.launches > 1 for one in (*kernels, *given))

    @property
    def _launch_columns(self) -> tuple[str, ...]:
        kernels = sum(name.startswith("kernel_s") for name in self._array_columns)
        return tuple(_numbered("kernel_launches", kernels)) if self.has_launches else ()

    @property
    def host_columns(self) -> tuple[str, ...]:
        """The columns of the axes of host work."""
        return tuple(name for name in HOST if any(axis.name == name for axis in self.axes))

    @property
    def _array_columns(self) -> tuple[str, ...]:
        workload = self.workload
        if workload is None:
            counts = self._arrays({axis.name: 1 for axis in self.axes})
            sizes = {name: len(found) for name, found in counts.items()}
        else:
            arrays = (workload.inputs, workload.kernels, workload.outputs)
            sizes = dict(zip(("h2d_bytes", "kernel_s", "d2h_bytes"), map(len, arrays), strict=True))
        return tuple(numbered for name, count in sizes.items() for numbered in _numbered(name, count))

    def point(self, number: int) -> dict[str, Any]:
        """Return the value of every axis in combination ``number``, by the axis's name."""
        found: dict[str, Any] = {}
        for axis in reversed(self.axes):
            number, k = divmod(number, len(axis.values))
            found[axis.name] = axis.values[k]
        return found

    def device(self, point: Mapping[str, Any]) -> Device:
        """Return the device of a combination. Raises InputError if its numbers contradict each other."""
        name = point.get("device", self.devices[0].name)
        base = next((device for device in self.devices if device.name == name), None)
        if base is None:
            raise InputError(f"device = {shown(name)}: not among the sweep's devices")
        numbers = {name: value for name, value in point.items() if "." in name}
        if "connections" in point:
            base = base.with_connections(point["connections"])
        return changed(base, numbers)

    def workload_at(self, point: Mapping[str, Any]) -> Workload:
        """Return the workload of a combination. Raises InputError if its sizes contradict each other."""
        arrays = self._arrays(point)
        if self.workload is None:
            sizes = (arrays["h2d_bytes"], arrays["kernel_s"], arrays["d2h_bytes"])
            workload = workload_of_sizes(*sizes, self.elements, self.h2d_once, self.d2h_once)
        else:
            workload = _with_arrays(self.workload, arrays)
        workload = msgspec.structs.replace(workload, **{name: point[name] for name in self.host_columns})
        return scaled(workload, point["scale"]) if "scale" in point else workload

    def _arrays(self, point: Mapping[str, Any]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {"h2d_bytes": [], "kernel_s": [], "d2h_bytes": []}
        named = sorted((match[1], int(match[2] or 1), name) for name in point if (match := _ARRAY.fullmatch(name)))
        for kind, _, name in named:
            found[kind].append(point[name])
        return found

    def rows(
        self, executor: Executor | None = None, retries: int = RETRIES, fast: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """Predict the combinations in order. Yield a row, a dict with the keys ``columns``, for each of them.

        Times are in seconds. Combinations that cannot be issued, or do not fit on the card, are left out. Arguments and
        errors are those of :func:`sweep_blocks`.
        """
        columns = self.columns
        for block in sweep_blocks(self, 0, executor, retries, fast=fast):
            for row in block.rows:
                yield dict(zip(columns, row, strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def to_pandas(self) -> Any:
        """Return the predicted combinations as a pandas data frame. Raises InputError if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError:
            raise InputError("a data frame needs pandas: pip install pandas") from None
        return pandas.DataFrame.from_records(list(self), columns=list(self.columns))

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name} x {len(axis.values)}" for axis in self.axes)
        return short(f"Sweep({self._count} combinations: {axes})")

    @property
    def numbers_of_chunks(self) -> tuple[int, ...]:
        """The values of the axis ``chunks``; empty without this axis."""
        return next((axis.values for axis in self.axes if axis.name == "chunks"), ())

    def first_refusal(self) -> InputError | None:
        """Return None if any combination can be issued, otherwise the error of the first one.

        Only the fewest chunks and streams are tried: a combination that can be issued with more can be with the fewest.
        A ring of buffers needs the least memory with the most chunks, which are tried as well. Only the first
        ``MOST_REFUSED`` combinations are tried; if all of them fail and there are more, the result is None.
        """
        refusal: InputError | None = None
        axes = tuple(Axis(a.name, (min(a.values),)) if a.name in ("chunks", "streams") else a for a in self.axes)
        simplest = msgspec.structs.replace(self, axes=axes)
        chunks = self.numbers_of_chunks
        for number in range(min(len(simplest), MOST_REFUSED)):
            point = simplest.point(number)
            try:
                workload = self.workload_at(point)
                device = self.device(point)
                _check_costs(workload, device)
                fewest = _config(point)
                fewest.check(workload)
                most = max((n for n in chunks if n <= workload.most_chunks), default=fewest.chunks)
                ways = fewest, msgspec.structs.replace(fewest, chunks=most)
                device.check_room(min(way.device_bytes(workload) for way in ways))
            except InputError as error:
                refusal = refusal or error
            else:
                return None
        return refusal if len(simplest) <= MOST_REFUSED else None


class Rows(NamedTuple):
    """The rows of a block of combinations, which ends before ``stop``, in order.

    - ``left_out``: combinations without a row, because they cannot be issued or do not fit on the card; ``reason``: why
      the first one cannot be issued.
    - ``too_large``: those of them that do not fit; ``too_large_reason``: the message of the first one.
    """

    stop: int
    rows: list[tuple[Any, ...]]
    left_out: int
    reason: str
    too_large: int
    too_large_reason: str


class _Block:
    """A block of combinations, grouped by workload and device, so that each group is evaluated in one call."""

    def __init__(self, sweep: Sweep, start: int, stop: int) -> None:
        self._sweep, self._stop, self._has_launches = sweep, stop, sweep.has_launches
        self._left_out, self._reason = 0, ""
        self._too_large, self._too_large_reason = 0, ""
        self._groups: dict[tuple[int, int], tuple[Workload, Device, list[tuple[int, Config]]]] = {}
        self._heads: dict[tuple[int, int], tuple[Any, ...]] = {}
        names = [axis.name for axis in sweep.axes]
        self._device = _Cached([n for n in names if n in ("device", "connections") or "." in n], sweep.device)
        self._workload = _Cached([n for n in names if n in ("scale", *HOST) or _ARRAY.fullmatch(n)], sweep.workload_at)
        self._config = _Cached([n for n in names if n in CONFIG], _config)
        for number in range(start, stop):
            self._add(number)

    def _add(self, number: int) -> None:
        point = self._sweep.point(number)
        try:
            device, workload, config = self._device(point), self._workload(point), self._config(point)
            config.check(workload)
            device.check_room(config.device_bytes(workload))
            self._group(workload, device, point).append((number, config))
        except NoRoomError as error:
            self._left_out += 1
            self._too_large += 1
            self._too_large_reason = self._too_large_reason or str(error)
        except InputError as error:
            self._left_out += 1
            self._reason = self._reason or str(error)

    def _group(self, workload: Workload, device: Device, point: Mapping[str, Any]) -> list[tuple[int, Config]]:
        key = (id(workload), id(device))  # the groups keep them alive
        if key not in self._groups:
            _check_costs(workload, device)
            self._groups[key] = (workload, device, [])
            self._heads[key] = self._head(workload, device, point)
        return self._groups[key][2]

    def _head(self, workload: Workload, device: Device, point: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of the columns that do not depend on the config."""
        numbers = (point[name] for name in self._device.names if "." in name)
        times = [kernel.whole_s(workload.work) if kernel.is_timed else None for kernel in workload.kernels]
        once = [sum(getattr(workload, name.removesuffix("_bytes"))) for name in self._sweep.once_columns]
        launches = [kernel.launches for kernel in workload.kernels] if self._has_launches else []
        host = [getattr(workload, name) for name in self._sweep.host_columns]
        sizes = (workload.input_bytes, times, workload.output_bytes, once, launches, host)
        return (device.name, device.connections, *numbers, workload.elements, *(n for some in sizes for n in some))

    def predict(self, fast: bool, threads: int | None) -> Rows:
        found: list[tuple[int, tuple[Any, ...]]] = []
        for key, (workload, device, numbered) in self._groups.items():
            head, within = self._heads[key], known_within(device) or None
            configs = [config for _, config in numbered]
            ticks = _with_serial(workload, configs, partial(evaluate_ticks, device=device, fast=fast, threads=threads))
            for (number, config), took in zip(numbered, ticks, strict=True):
                found.append((number, (*head, *_tail(config, *took), within)))
        found.sort()
        left_out = self._left_out, self._reason, self._too_large, self._too_large_reason
        return Rows(self._stop, [row for _, row in found], *left_out)


class _Cached(Generic[T]):
    """A function of some axes of a combination that is called once for equal values of these axes."""

    def __init__(self, names: list[str], make: Callable[[Mapping[str, Any]], T]) -> None:
        self.names = names
        self._make = lru_cache(CACHED)(lambda *values: make(dict(zip(names, values, strict=True))))

    def __call__(self, point: Mapping[str, Any]) -> T:
        return self._make(*[point[name] for name in self.names])


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


def _tail(config: Config, ticks: int, serial_ticks: int) -> tuple[Any, ...]:
    makespan_s, serial_s = ticks / TICKS_PER_S, serial_ticks / TICKS_PER_S
    return (*msgspec.structs.astuple(config), makespan_s, serial_s, serial_s / makespan_s if ticks else 1.0)


def _config(point: Mapping[str, Any]) -> Config:
    return Config(**{name: point[name] for name in CONFIG if name in point})


def _check_costs(workload: Workload, device: Device) -> None:
    for kernel in workload.launches(workload.cut(1)[0]):
        device.kernel_time(kernel)


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{k}" for k in range(1, count + 1)]


def _with_arrays(workload: Workload, arrays: Mapping[str, list[Any]]) -> Workload:
    """Return the workload with other sizes or times. Raises InputError for another number of them than it has."""
    new: dict[str, Any] = {}
    for name, field in (("h2d_bytes", "inputs"), ("kernel_s", "kernels"), ("d2h_bytes", "outputs")):
        given, old = arrays[name], getattr(workload, field)
        if given and len(given) != len(old):
            raise InputError(f"{name}: {len(given)} given; the workload has {len(old)}")
        if given and field == "kernels":
            new[field] = tuple(map(_retimed, old, given))
        elif given:
            new[field] = tuple(per_element(name, size, workload.elements or 1) for size in given)
    return msgspec.structs.replace(workload, **new)


def _retimed(kernel: WorkloadKernel, given: float | WorkloadKernel) -> WorkloadKernel:
    """Return the kernel with another time in all, or a ``given`` kernel in its place, under its name."""
    if not isinstance(given, WorkloadKernel):
        return msgspec.structs.replace(kernel, duration_s=given, points=())
    return given if given.name != WorkloadKernel().name else msgspec.structs.replace(given, name=kernel.name)


def scaled(workload: Workload, factor: float) -> Workload:
    """Return the workload with its elements or bytes, its kernels' work and its host load multiplied by ``factor``."""
    check_number("scale", factor, 1e-9, 1e9)
    new: dict[str, Any] = {
        "kernels": tuple(
            kernel.over(factor, workload.work * factor) if kernel.is_timed else kernel for kernel in workload.kernels
        ),
        "host_load_s": workload.host_load_s * factor,
    }
    if workload.elements:
        new["elements"] = max(1, round(workload.elements * factor))
    else:
        for field in ("inputs", "outputs"):
            new[field] = tuple(max(1, round(n * factor)) for n in getattr(workload, field))
    return msgspec.structs.replace(workload, **new)


def sweep_blocks(
    sweep: Sweep,
    start: int = 0,
    executor: Executor | None = None,
    retries: int = RETRIES,
    block: int | None = None,
    fast: bool | None = None,
) -> Iterator[Rows]:
    """Predict the combinations from ``start`` on. Yield their rows block by block, in order.

    - ``executor``: any ``concurrent.futures.Executor`` (processes, Dask's ``client.get_executor()``, MPI, ...) whose
      workers can import streamsim. None: this process.
    - ``retries``: how often a block that fails on the executor is tried again.
    - ``block``: the number of combinations in a block (None: chosen by their cost).
    - ``fast``: as for :func:`evaluate`.

    Raises InputError if a block fails each time.
    """
    fast = is_fast() if fast is None else fast
    size = block or _block_size(sweep, fast)
    ranges = ((at, min(at + size, len(sweep))) for at in range(start, len(sweep), size))
    if executor is None:
        return (predict_block(sweep, a, b, fast) for a, b in ranges)
    return _Submitted(sweep, executor, retries, fast).blocks(ranges)


def predict_block(sweep: Sweep, start: int, stop: int, fast: bool | None = None, threads: int | None = None) -> Rows:
    """Predict the combinations from ``start`` up to but not including ``stop``; count those that cannot be issued."""
    return _Block(sweep, start, stop).predict(is_fast() if fast is None else fast, threads)


def _block_size(sweep: Sweep, fast: bool) -> int:
    """Return the number of combinations in a block, from the average cost of one: a stopped sweep loses a block."""
    chunks = sweep.numbers_of_chunks or (1,)
    ops: float = sum(chunks) / len(chunks) * max(1, len(sweep.workload_columns))
    return max(1, min(BLOCK_ROWS, round(BLOCK_OPS[fast] / ops)))


class _Submitted:
    """Blocks submitted to an executor, at most ``IN_FLIGHT`` at a time; results come back in order."""

    def __init__(self, sweep: Sweep, executor: Executor, retries: int, fast: bool) -> None:
        self._sweep, self._executor, self._retries, self._fast = sweep, executor, retries, fast

    def blocks(self, ranges: Iterator[tuple[int, int]]) -> Iterator[Rows]:
        waiting: deque[tuple[tuple[int, int], Future[Rows]]] = deque()
        try:
            for span in ranges:
                waiting.append((span, self._submit(span)))
                if len(waiting) == IN_FLIGHT:
                    yield self._result(*waiting.popleft())
            while waiting:
                yield self._result(*waiting.popleft())
        finally:
            for _, future in waiting:
                future.cancel()

    def _submit(self, span: tuple[int, int]) -> Future[Rows]:
        try:
            return self._executor.submit(_rows, self._sweep, *span, self._fast)
        except Exception as error:
            raise InputError(one_line(f"the executor takes no more work: {_why(error)}")) from error

    def _result(self, span: tuple[int, int], future: Future[Rows]) -> Rows:
        for left in reversed(range(self._retries + 1)):
            try:
                return future.result()
            except InputError:
                raise
            except Exception as error:
                if not left:
                    times = f"failed {self._retries + 1} times"
                    what = f"combinations {span[0]} to {span[1] - 1} {times} on the executor: {_why(error)}"
                    raise InputError(one_line(what)) from error
            future = self._submit(span)
        raise AssertionError


def _rows(sweep: Sweep, start: int, stop: int, fast: bool) -> Rows:
    """Predict a block on a worker, with one thread because other workers run on the same machine."""
    return predict_block(sweep, start, stop, fast and is_fast(), threads=1)


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
