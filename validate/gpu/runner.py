"""A runner of a Python program for ``streamsim-validate capture``, in the program's own interpreter.

That interpreter may be another one than the validator's. So this file is run by its path, and imports only the standard
library, the file beside it and, to record, NVIDIA's ``cupti-python``.

- ``probe``: says whether there are a card and that library.
- ``time``: runs the program and notes when its named ranges begin and end.
- ``record``: also has CUPTI record every call and all work of the card.

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
import importlib.util
import itertools
import json
import os
import runpy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from types import ModuleType, TracebackType
from typing import Any

from streamsim_validate.gpu.named_ranges import Ranges

FORMAT, VERSION = "streamsim_capture", 1
ROWS_AT_ONCE, NAMES_AT_ONCE = 10_000, 500  # in a line
BUFFER_BYTES = 32 << 20  # of CUPTI's records: as a buffer is handed over, its records are copied, which holds the host
FAR = 1 << 61
CANNOT_RECORD = 3  # exit code, when the program was not begun
LONGEST_NAME = 4096


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
Row = tuple["Any", ...]


def wait_for_card() -> None:
    """Wait until the card has done the work of the thread's context, if there is one."""
    if _DRIVER is not None:
        _DRIVER.cuCtxSynchronize()


_DRIVER: Any = None


def _driver() -> Any:
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libcuda.so.1")
    return None


# What CUPTI records


class Recorder:
    """CUPTI's records, copied as they come. ``cupti``: the module of that name in the package of that name."""

    def __init__(self, cupti: Any) -> None:
        self._cupti = cupti
        self._rows: dict[str, list[Row]] = {kind: [] for kind in RECORDS}
        self._take: dict[int, Callable[[Any], None]] = {}
        for name, (_, columns) in RECORDS.items():
            kind = int(getattr(cupti.ActivityKind, name))
            self._take[kind] = functools.partial(_keep, attrgetter(*columns.values()), self._rows[name])
        self._enabled: dict[str, int] = {}
        self._lost = 0
        self.clock: Callable[[], int] = cupti.get_timestamp

    def start(self) -> None:
        """Record from here on. Raises CUPTI's error if it cannot record what is needed."""
        cupti = self._cupti
        with contextlib.suppress(Exception):  # else threads have other numbers than the system's
            cupti.set_thread_id_type(cupti.ActivityThreadIdType.SYSTEM)
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self.take)
        for name in RECORDS:
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
            taker = take.get(activity.kind)
            if taker is not None:
                try:
                    taker(activity)
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
            rows: Iterable[Row] = self._rows[kind]
            names = list(columns)
            if kind in DOMAINS:
                rows = self._named(rows, getattr(self._cupti.CallbackDomain, DOMAINS[kind]))
            elif kind == "CONCURRENT_KERNEL":
                at = names.index("name")
                rows = ((*row[:at], demangled(row[at]), *row[at + 1 :]) for row in rows)
            elif kind == "OVERHEAD":
                rows = ((start, end, self._overhead(what), -1, BY_PROFILER) for start, end, what in rows)
                names += ["thread", "by"]
            lines.rows(table, names, rows)

    def _named(self, rows: Iterable[Row], domain: int) -> Iterable[Row]:
        known: dict[int, str] = {}
        for *row, number in rows:
            if number not in known:
                known[number] = str(self._cupti.get_callback_name(domain, number))
            yield (*row, known[number])

    def _overhead(self, kind: int) -> str:
        try:
            return str(self._cupti.ActivityOverheadKind(kind).name)
        except ValueError:
            return f"OVERHEAD_{kind}"


def _keep(fields: Callable[[Any], Row], rows: list[Row], activity: Any) -> None:
    rows.append(fields(activity))


@functools.cache
def demangled(name: str) -> str:
    """Return a C++ name as in the source, from CUPTI's name for the linker; unchanged if that fails."""
    if not name.startswith("_Z"):
        return name
    with contextlib.suppress(Exception):
        library, status = ctypes.CDLL("libstdc++.so.6"), ctypes.c_int()
        function, free = library.__cxa_demangle, ctypes.CDLL(None).free
        function.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        found = function(name.encode(), None, None, ctypes.byref(status))
        if found:
            text = ctypes.string_at(found).decode(errors="replace")
            free(found)
            return text
    return name


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


def write_probe(path: str) -> None:
    """Write whether there are a card and CUPTI for Python, as one object."""
    found: dict[str, Any] = {"cards": 0, "why": "", "no_cupti": ""}
    if _DRIVER is None:
        found["why"] = "no NVIDIA driver: libcuda.so.1 cannot be loaded"
    else:
        count, code = ctypes.c_int(), int(_DRIVER.cuInit(0))
        if code == 0:
            code = int(_DRIVER.cuDeviceGetCount(ctypes.byref(count)))
        found["cards"], found["why"] = count.value, f"CUDA's error {code}" if code else "no card is visible"
    try:
        from cupti import cupti  # noqa: F401
    except Exception as error:  # whatever it says
        found["no_cupti"] = str(error) or type(error).__name__
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


# The program


def run(words: Sequence[str]) -> None:
    """Run the program that Python would run with these words: a script, ``-m module`` or ``-c code``, and arguments."""
    safe = getattr(sys.flags, "safe_path", False)
    if words[0] == "-m":
        sys.path[:0] = [] if safe else [os.getcwd()]
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path[:0] = [] if safe else [""]
        sys.argv = ["-c", *words[2:]]
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    else:
        sys.path[:0] = [] if safe else [os.path.dirname(os.path.realpath(words[0]))]
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")


def show_own_frames(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show a program's exception without the frames of this runner."""
    outer = (__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in outer and trace.tb_next is not None:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def main(arguments: Sequence[str]) -> None:
    """Do what the ``arguments`` say: the mode, the file for the results, what is asked (JSON), the program's words.

    Asked: ``windows`` of :class:`Ranges`, and the files ``timed`` of timed runs.
    """
    global _DRIVER
    what, path, asked, *words = arguments
    _DRIVER = _driver()
    if what == "probe":
        return write_probe(path)
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
    watching = _beside("named_ranges")
    ranges = watching.Ranges(clock, told["windows"], wait_for_card)
    timed = [(run, *row) for run, other in enumerate(told["timed"]) for row in ranges_in(other)]
    atexit.register(finish, os.getpid(), path, recorder, ranges, timed, " ".join(words))  # behind all of the program's
    sys.meta_path.insert(0, watching.Watcher(ranges))
    sys.excepthook = show_own_frames
    return run(words)


def _beside(name: str) -> Any:
    """Return the module in the file beside this one, by a name that no program has."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"streamsim_capture_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    tool = ""
    if recorder is not None:
        recorder.stop()
        with contextlib.suppress(Exception):
            from importlib.metadata import version

            tool = f"CUPTI, cupti-python {version('cupti-python')}"
    lines = Lines(path, tool=tool, program=program[:LONGEST_NAME])
    if recorder is not None:
        recorder.write(lines)
    lines.rows("ranges", (*RANGE, "by"), ((*row, BY_PROGRAM) for row in ranges.rows))
    lines.rows("untraced", ("run", *RANGE), timed)
    lines.close(recorder.lost() if recorder else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
