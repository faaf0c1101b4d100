"""A runner of a Python program for ``streamsim-validate capture``, in the program's own interpreter.

That interpreter may be another one than the validator's. So this file is run by its path, and imports only the standard
library and, to record, NVIDIA's ``cupti-python``.

- ``probe``: says whether there are a card and that library.
- ``time``: runs the program and notes when its named ranges begin and end.
- ``record``: also has CUPTI record every call and all work of the card.

Named ranges are noted where Python opens and closes them. Hooked are NVTX as PyTorch, CuPy and the package nvtx call
it, and PyTorch's record_function. So a run without a recording has its ranges too, and no profiler is needed.

The results are written at the end of the process, as the lines that :mod:`streamsim.recorded.cupti` reads. The
program's output, exceptions and exit code are its own.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # Python 3.10 has no such flag
    del sys.path[0]  # this file's folder: the program gets its own

import atexit
import contextlib
import ctypes
import functools
import importlib.abc
import importlib.util
import itertools
import json
import os
import runpy
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

FORMAT, VERSION = "streamsim_capture", 1
ROWS_AT_ONCE, NAMES_AT_ONCE = 10_000, 500  # in a line
BUFFER_BYTES = 32 << 20  # of CUPTI's records: as a buffer is handed over, its records are copied, which holds the host
FAR = 1 << 61
NO_CARD, CANNOT_RECORD = 3, 4  # exit codes: the first of a probe, the second when the program was not begun
LONGEST_NAME = 4096
Arguments = tuple[Any, ...]
Named = dict[str, Any]
Effect = Callable[[Arguments, Named], None]


def _columns(text: str) -> dict[str, str]:
    """Return the attribute of CUPTI's record for each column: ``column=attribute`` if the names differ."""
    return {column: attribute or column for column, _, attribute in (word.partition("=") for word in text.split())}


_PLACED = "start end device=device_id context=context_id stream=stream_id correlation=correlation_id"
_GRAPH = "graph=graph_id node=graph_node_id"
_CALL = _columns("start end thread=thread_id correlation=correlation_id name=cbid")
_COPY = f"{_PLACED} bytes copy_kind src_kind dst_kind {_GRAPH}"
_MARK = "correlation=correlation_id context=context_id stream=stream_id event={} sync=cuda_event_sync_id"
_SHAPE = "grid_x grid_y grid_z block_x block_y block_z registers=registers_per_thread"
_SHARED = "static_shared=static_shared_memory dynamic_shared=dynamic_shared_memory"
_CARD = "id name memory_bytes=global_memory_size multiprocessors=num_multiprocessors copy_engines=num_memcpy_engines"
# CUPTI's kinds of records: the table of each, and its columns
RECORDS: dict[str, tuple[str, dict[str, str]]] = {
    "DEVICE": ("devices", _columns(_CARD)),
    "CONTEXT": ("contexts", _columns("context=context_id device=device_id null_stream=null_stream_id")),
    "STREAM": ("streams", _columns("context=context_id stream=stream_id flag")),
    "RUNTIME": ("calls", _CALL),
    "DRIVER": ("calls", _CALL),
    "MEMCPY": ("copies", _columns(_COPY)),
    "MEMCPY2": ("copies", _columns(f"{_COPY} src_device=src_device_id dst_device=dst_device_id")),
    "MEMSET": ("memsets", _columns(f"{_PLACED} bytes {_GRAPH}")),
    # not KERNEL, which would have them run one by one
    "CONCURRENT_KERNEL": ("kernels", _columns(f"{_PLACED} name {_SHAPE} {_SHARED} {_GRAPH}")),
    "SYNCHRONIZATION": ("synchronizations", _columns(_MARK.format("cuda_event_id"))),
    "CUDA_EVENT": ("events", _columns(_MARK.format("event_id"))),
    "OVERHEAD": ("ranges", _columns("start end name=overhead_kind")),
}
NEEDED = ("RUNTIME", "DRIVER", "MEMCPY", "CONCURRENT_KERNEL")
OF_THE_HOST = ("RUNTIME", "DRIVER", "SYNCHRONIZATION", "CUDA_EVENT")
DOMAINS = {"DRIVER": "DRIVER_API", "RUNTIME": "RUNTIME_API"}
BY_PROGRAM, BY_PROFILER = 0, 1
RANGE = ("start", "end", "thread", "name")
Row = tuple[Any, ...]


def wait_for_card() -> None:
    """Wait until the card has done the work of the thread's context, if there is one."""
    if _DRIVER is not None:
        _DRIVER.cuCtxSynchronize()


_DRIVER: Any = None


# What CUPTI records


class Recorder:
    """CUPTI's records, copied as they come: ``rows`` by kind. ``cupti``: the module in the package of that name."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self.rows: dict[str, list[Row]] = {kind: [] for kind in RECORDS}
        self._take: dict[int, tuple[Callable[[Any], Row], list[Row]]] = {}
        for name, rows in self.rows.items():
            kind = int(getattr(cupti.ActivityKind, name))
            self._take[kind] = attrgetter(*RECORDS[name][1].values()), rows
        self._enabled: dict[str, int] = {}
        self._lost = 0
        self.clock: Callable[[], int] = cupti.get_timestamp

    def start(self) -> None:
        """Record from here on. Raises CUPTI's error if it cannot record what is needed."""
        cupti = self._cupti
        with contextlib.suppress(Exception):  # else threads have other numbers than the system's
            cupti.set_thread_id_type(cupti.ActivityThreadIdType.SYSTEM)
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self.take)
        for name in self.rows:
            kind = getattr(cupti.ActivityKind, name)
            try:
                cupti.activity_enable(kind)
                self._enabled[name] = kind
            except Exception:
                if name in NEEDED:
                    raise

    def take(self, activities: Iterable[Any]) -> None:
        """Copy the fields of records, which are valid only while CUPTI hands them over."""
        take = self._take
        for activity in activities:
            if activity.kind in take:
                fields, rows = take[activity.kind]
                try:
                    rows.append(fields(activity))
                except Exception:  # one that cannot be read; the others can
                    self._lost += 1

    def stop(self) -> None:
        """Have the remaining records handed over. The wait for the card is not part of the program."""
        self._disable(OF_THE_HOST)
        wait_for_card()
        self._cupti.activity_flush_all(1)
        self._disable(tuple(self._enabled))
        self._cupti.activity_flush_all(1)

    def lost(self) -> int:
        """Return the number of records for which CUPTI had no room, and of those that could not be read."""
        dropped = ctypes.c_size_t()
        with contextlib.suppress(Exception):
            self._cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(dropped))
        return self._lost + dropped.value

    def _disable(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(Exception):
                self._cupti.activity_disable(self._enabled.pop(name))

    def write(self, lines: Lines) -> None:
        """Write all records."""
        for kind, (table, columns) in RECORDS.items():
            names, at = list(columns), list(columns).index("name") if "name" in columns else 0
            naming, more = self._naming(kind), tuple[int, ...]()
            if kind == "OVERHEAD":
                names, more = [*names, "thread", "by"], (-1, BY_PROFILER)
            rows = ((*row[:at], naming(row[at]), *row[at + 1 :], *more) for row in self.rows[kind])
            lines.rows(table, names, rows)

    def _naming(self, kind: str) -> Callable[[Any], Any]:
        """Return what turns the name of a record, or else its first column, into what is written."""
        cupti = self._cupti
        if kind in DOMAINS:
            domain = getattr(cupti.CallbackDomain, DOMAINS[kind])
            return functools.cache(lambda number: str(cupti.get_callback_name(domain, number)))
        if kind == "OVERHEAD":
            known = {int(one): one.name for one in cupti.ActivityOverheadKind}
            return lambda number: known.get(number, f"OVERHEAD_{number}")
        return demangled if kind == "CONCURRENT_KERNEL" else lambda value: value


@functools.cache
def demangled(name: str) -> str:
    """Return a C++ name as in the source, from CUPTI's name for the linker; unchanged if that fails."""
    if name.startswith("_Z"):
        with contextlib.suppress(Exception):
            function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
            function.restype = ctypes.c_char_p  # it is never freed: there are few names
            return (function(name.encode(), None, None, None) or name.encode()).decode(errors="replace")
    return name


# Named ranges


class Ranges:
    """A log of ranges. ``windows``: by name, the number of the range that has the card idle at both of its ends.

    ``clock``: nanoseconds. ``wait``: waits until the card is idle. ``rows``: start, end, thread and name of each closed
    range.
    """

    def __init__(self, clock: Callable[[], int], windows: Mapping[str, int], wait: Callable[[], None]) -> None:
        self.rows: list[tuple[int, int, int, str]] = []
        self._clock, self._windows, self._wait = clock, windows, wait
        self._seen = {name: itertools.count(1) for name in windows}
        self._open: dict[Any, list[tuple[int, str, bool]]] = {}

    def open(self, kind: object, name: object) -> None:
        """Open a range, inside those of this thread and kind."""
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        asked = text in self._windows and next(self._seen[text]) == self._windows[text]
        if asked:
            self._wait()
        opened = self._open.setdefault((threading.get_ident(), kind), [])
        opened.append((self._clock(), text[:LONGEST_NAME], asked))

    def close(self, kind: object) -> None:
        """Close the latest range that was opened in this thread with this kind, if there is one."""
        if opened := self._open.get((threading.get_ident(), kind)):
            start, name, asked = opened.pop()
            if asked:
                self._wait()
            self.rows.append((start, self._clock(), threading.get_native_id(), name))


class Watcher(importlib.abc.MetaPathFinder):
    """A finder that hooks the modules that open ranges, the first time that each is imported."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges, self._hooks = ranges, dict(HOOKS)

    def find_spec(self, name: str, *_: object) -> Any:
        """Return what the other finders find, with a hook; None for other modules, which leaves it to them."""
        hook = self._hooks.pop(name, None)
        spec = importlib.util.find_spec(name) if hook else None  # asks here again, in vain
        if hook is None or spec is None or spec.loader is None:
            return None
        runs = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            runs(module)
            with contextlib.suppress(AttributeError, TypeError):  # of a version without such functions
                hook(module, self._ranges)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# How a library opens and closes them


def _nothing(_arguments: Arguments, _named: Named) -> None:
    """Do nothing."""


def _hook(owner: Any, name: str, before: Effect = _nothing, after: Effect = _nothing) -> None:
    """Have a function of a module or class also do something ``before`` it is run or ``after``."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def hooked(*arguments: Any, **named: Any) -> Any:
        before(arguments, named)
        found = original(*arguments, **named)
        after(arguments, named)
        return found

    setattr(owner, name, hooked)


def _message(arguments: Arguments, named: Named) -> Any:
    return arguments[0] if arguments else named.get("message", named.get("msg"))


def _stacked(ranges: Ranges, module: Any, pop: str, *pushes: str) -> None:
    """Hook functions that open and close nested ranges of a thread."""
    for push in pushes:
        _hook(module, push, before=lambda arguments, named: ranges.open(pop, _message(arguments, named)))
    _hook(module, pop, after=lambda *_: ranges.close(pop))


def _as_context(ranges: Ranges, kind: Any, name: str) -> None:
    """Hook a class whose ``with`` blocks are ranges. ``name``: the attribute that has it."""
    _hook(kind, "__enter__", before=lambda arguments, _: ranges.open(kind, getattr(arguments[0], name)))
    _hook(kind, "__exit__", after=lambda *_: ranges.close(kind))


def _nvtx(module: Any, ranges: Ranges) -> None:
    """Hook the package nvtx, whose class ``annotate`` is a context, and a decorator that may have no name."""
    _stacked(ranges, module, "pop_range", "push_range")
    kind = module.annotate
    calls = kind.__call__

    def make(arguments: Arguments, named: Named) -> None:
        arguments[0].streamsim_name = _message(arguments[1:], named)

    def call(self: Any, function: Any) -> Any:
        inner, name = calls(self, function), self.streamsim_name or function.__name__

        @functools.wraps(function)
        def ranged(*arguments: Any, **named: Any) -> Any:
            ranges.open(kind, name)
            try:
                return inner(*arguments, **named)
            finally:
                ranges.close(kind)

        return ranged

    _hook(kind, "__init__", before=make)
    kind.__call__ = call
    _as_context(ranges, kind, "streamsim_name")


HOOKS: dict[str, Callable[[Any, Ranges], None]] = {
    "torch.cuda.nvtx": lambda module, ranges: _stacked(ranges, module, "range_pop", "range_push"),
    "torch.autograd.profiler": lambda module, ranges: _as_context(ranges, module.record_function, "name"),
    "cupy_backends.cuda.libs.nvtx": lambda module, ranges: _stacked(
        ranges, module, "RangePop", "RangePush", "RangePushC"
    ),
    "nvtx.nvtx": _nvtx,
}


# What is written


class Lines:
    """The file of results: names are written before the first rows that have them."""

    def __init__(self, path: str, **head: Any) -> None:
        self._file = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - closed by close
        self._names: dict[str, int] = {}
        self._line({FORMAT: VERSION, "process": os.getpid(), **head})

    def rows(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Write rows of a table. A text in them becomes the number of its name."""
        left = iter(rows)
        while some := list(itertools.islice(left, ROWS_AT_ONCE)):
            new: list[str] = []
            numbers = [[self._number(value, new) for value in column] for column in zip(*some, strict=True)]
            for first in range(0, len(new), NAMES_AT_ONCE):
                self._line({"names": new[first : first + NAMES_AT_ONCE]})
            self._line({"table": table, "columns": dict(zip(columns, numbers, strict=True))})

    def _number(self, value: Any, new: list[str]) -> int:
        if isinstance(value, str):
            text = value[:LONGEST_NAME].encode(errors="replace").decode()  # a surrogate is no text of JSON
            place = self._names.get(text)
            if place is None:
                place = self._names[text] = len(self._names)
                new.append(text)
            return place
        number = int(value or 0)
        return number if -FAR < number < FAR else -1  # all ones: none

    def close(self, lost: int = 0) -> None:
        """Write the last line, which says that the file is complete except for ``lost`` records."""
        self._line({"end": True, "dropped": lost})
        self._file.close()

    def _line(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


def probe() -> None:
    """End with the reason on stderr if there is no card, or no CUPTI for Python."""
    count = ctypes.c_int()
    if _DRIVER is None:
        reason = "no NVIDIA driver: libcuda.so.1 cannot be loaded"
    elif code := int(_DRIVER.cuInit(0) or _DRIVER.cuDeviceGetCount(ctypes.byref(count))):
        reason = f"CUDA's error {code}"
    else:
        reason = "" if count.value else "no card is visible"
    if reason:
        print(reason, file=sys.stderr)
        sys.exit(NO_CARD)
    from cupti import cupti  # noqa: F401


# The program


def run(words: Sequence[str]) -> None:
    """Run the program that Python would run with these words: a script or ``-m module``, and arguments."""
    safe = getattr(sys.flags, "safe_path", False)
    if words[0] == "-m":
        sys.path[:0] = [] if safe else [os.getcwd()]
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[:0] = [] if safe else [os.path.dirname(os.path.realpath(words[0]))]
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")


def main(arguments: Sequence[str]) -> None:
    """Do what the ``arguments`` say: the mode, the file for the results, what is asked (JSON), the program's words.

    Asked: ``windows`` of :class:`Ranges`, and the files ``timed`` of timed runs.
    """
    global _DRIVER
    what, path, asked, *words = arguments
    with contextlib.suppress(OSError):
        _DRIVER = ctypes.CDLL("libcuda.so.1")
    if what == "probe":
        return probe()
    recorder, clock = None, time.perf_counter_ns
    if what == "record":
        try:
            from cupti import cupti

            recorder = Recorder(cupti)
            recorder.start()
            clock = recorder.clock
        except Exception as error:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"failed": f"{type(error).__name__}: {error}"}, file)
            sys.exit(CANNOT_RECORD)
    told = json.loads(asked)
    ranges = Ranges(clock, told["windows"], wait_for_card)
    timed = [(run, *row) for run, other in enumerate(told["timed"]) for row in ranges_in(other)]
    atexit.register(finish, os.getpid(), path, recorder, ranges, timed, " ".join(words))  # behind all of the program's
    sys.meta_path.insert(0, Watcher(ranges))
    return run(words)


def ranges_in(path: str) -> Iterator[Row]:
    """Yield start, end, thread and name of a run's ranges. Raises ValueError if they were not written whole."""
    names: list[str] = []
    line: dict[str, Any] = {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            names += line.get("names", ())
            if line.get("table") == "ranges":
                columns = line["columns"]
                for start, end, thread, name in zip(*(columns[c] for c in RANGE), strict=True):
                    yield start, end, thread, names[name]
    if not line.get("end"):
        raise ValueError("its end is missing")


def finish(
    process: int, path: str, recorder: Recorder | None, ranges: Ranges, timed: Sequence[Row], program: str
) -> None:
    """Write the results. A process that was forked has none to write."""
    if os.getpid() != process:
        return
    if recorder is not None:
        recorder.stop()
    lines = Lines(path, program=program[:LONGEST_NAME])
    if recorder is not None:
        recorder.write(lines)
    lines.rows("ranges", (*RANGE, "by"), ((*row, BY_PROGRAM) for row in ranges.rows))
    lines.rows("untraced", ("run", *RANGE), timed)
    lines.close(recorder.lost() if recorder else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
