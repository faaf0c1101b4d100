"""CUPTI, which sees what the card does, with the names, numbers and fields of cupti-python 13.

``install`` makes a folder that shows a Python process ``cupti``, ``libcuda.so.1``, what small programs call
(:func:`copy`, :func:`launch` and so on) and the package ``nvtx``.
"""

# ruff: noqa: N802 - CUDA's names

import ctypes
import os
import threading
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fake_gpu.card import LEGACY, WORK_NS, Card, nothing

NONE_32, NONE_64 = (1 << 32) - 1, (1 << 64) - 1
DEVICE, CONTEXT, NULL_STREAM = 0, 1, 7
VISIBLE = "FAKE_CARDS"  # how many there are: a variable of the environment


class ActivityKind(IntEnum):
    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONTEXT = 9
    CONCURRENT_KERNEL = 10
    OVERHEAD = 17
    MEMCPY2 = 22
    CUDA_EVENT = 36
    STREAM = 37
    SYNCHRONIZATION = 38


class CallbackDomain(IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


class ActivityThreadIdType(IntEnum):
    DEFAULT = 0
    SYSTEM = 1


class ActivityOverheadKind(IntEnum):
    CUPTI_BUFFER_FLUSH = 1 << 16


class StreamFlag(IntEnum):
    DEFAULT = 1
    NON_BLOCKING = 2
    NULL = 3


_WORK = "start end device_id context_id stream_id correlation_id graph_id graph_node_id channel_id channel_type"
_API = "cbid correlation_id end process_id return_value start thread_id"
_SYNC = "context_id correlation_id stream_id"
FIELDS = {  # of cupti-python's classes, but for those that only fill space
    ActivityKind.MEMCPY: f"{_WORK} bytes copy_count copy_kind dst_kind flags_ is_device_launched src_kind",
    ActivityKind.MEMCPY2: f"{_WORK} bytes copy_kind dst_context_id dst_device_id dst_kind flags_ src_context_id"
    " src_device_id src_kind",
    ActivityKind.MEMSET: f"{_WORK} bytes flags_ is_device_launched memory_kind value",
    ActivityKind.CONCURRENT_KERNEL: f"{_WORK} block_x block_y block_z completed dynamic_shared_memory grid_id grid_x"
    " grid_y grid_z launch_type name queued registers_per_thread static_shared_memory submitted",
    ActivityKind.DRIVER: _API,
    ActivityKind.RUNTIME: _API,
    ActivityKind.DEVICE: "global_memory_size id name num_memcpy_engines num_multiprocessors",
    ActivityKind.CONTEXT: "compute_api_kind context_id device_id null_stream_id",
    ActivityKind.STREAM: "context_id correlation_id flag priority stream_id",
    ActivityKind.SYNCHRONIZATION: f"{_SYNC} cuda_event_id cuda_event_sync_id end return_value start type",
    ActivityKind.CUDA_EVENT: f"{_SYNC} cuda_event_sync_id device_id device_timestamp event_id",
    ActivityKind.OVERHEAD: "correlation_id end object_kind overhead_kind start",
}


def record(kind: ActivityKind, **fields: Any) -> SimpleNamespace:
    """An activity record; fields that are not given are 0. What the real one lacks cannot be given, nor read."""
    known = FIELDS[kind].split()
    assert set(fields) <= set(known), set(fields) - set(known)
    return SimpleNamespace(kind=int(kind), **dict.fromkeys(known, 0) | fields)


# The module


NAMES: dict[tuple[int, int], str] = {}  # of calls, by domain and number
enabled: set[int] = set()
completed: list[Callable[[list[Any]], None]] = []
waiting: list[Any] = []
CARD = Card(now_ns=10**18)
get_timestamp = CARD.clock


class cuptiError(Exception):  # noqa: N801 - its name
    """As CUPTI's."""


def set_thread_id_type(kind: int) -> None:
    assert kind == ActivityThreadIdType.SYSTEM


def activity_register_callbacks(requested: Callable[[], tuple[int, int]], done: Callable[[list[Any]], None]) -> None:
    size, records = requested()
    assert size > 0
    assert records == 0
    completed[:] = [done]


def activity_enable(kind: int) -> None:
    if os.environ.get("FAKE_CUPTI_FAILS"):
        raise cuptiError(os.environ["FAKE_CUPTI_FAILS"])
    enabled.add(kind)
    if kind == ActivityKind.DEVICE:
        shape = {"global_memory_size": 1 << 30, "num_multiprocessors": 4, "num_memcpy_engines": 2}
        emit(record(ActivityKind.DEVICE, id=DEVICE, name="NVIDIA H200", **shape))
    if kind == ActivityKind.CONTEXT:
        emit(record(ActivityKind.CONTEXT, context_id=CONTEXT, device_id=DEVICE, null_stream_id=NULL_STREAM))


def activity_disable(kind: int) -> None:
    enabled.discard(kind)


def activity_flush_all(flag: int) -> None:
    assert flag in (0, 1)
    some, waiting[:] = list(waiting), []
    for done in completed:
        done(some)
    for gone in some:
        vars(gone).clear()


def activity_get_num_dropped_records(context: int, stream_id: int, dropped: int) -> None:
    assert (context, stream_id) == (0, 0)
    ctypes.c_size_t.from_address(dropped).value = int(os.environ.get("FAKE_DROPPED", "0"))


def get_callback_name(domain: int, number: int) -> str:
    return NAMES[domain, number]


def number_of(name: str, domain: int = CallbackDomain.RUNTIME_API) -> int:
    """Of a call."""
    for (where, number), known in NAMES.items():
        if (where, known) == (domain, name):
            return number
    NAMES[domain, len(NAMES) + 1] = name
    return len(NAMES)


def emit(made: Any) -> None:
    """A record, if its kind is asked for."""
    if made.kind in enabled:
        waiting.append(made)


# What programs call


def _call(name: str, start: int, kind: ActivityKind = ActivityKind.RUNTIME) -> int:
    """Its correlation. ``start``: it may have waited since then."""
    CARD.called(name)
    where = {"process_id": os.getpid(), "thread_id": threading.get_native_id(), "correlation_id": len(CARD.log)}
    domain = CallbackDomain.DRIVER_API if kind == ActivityKind.DRIVER else CallbackDomain.RUNTIME_API
    emit(record(kind, cbid=number_of(name, domain), start=start, end=CARD.clock(), **where))
    return len(CARD.log)


def _work(kind: ActivityKind, stream: int, call: str, **fields: Any) -> None:
    correlation = _call(call, CARD.clock())
    end = CARD.add(stream, nothing, took_ns=WORK_NS).end_ns
    where = {"device_id": DEVICE, "context_id": CONTEXT, "stream_id": NULL_STREAM + CARD.number(stream)}
    emit(record(kind, start=end - WORK_NS, end=end, correlation_id=correlation, **where, **fields))


def stream(flag: int = StreamFlag.NON_BLOCKING) -> int:
    made = CARD.stream("non-blocking")
    emit(record(ActivityKind.STREAM, context_id=CONTEXT, stream_id=NULL_STREAM + CARD.number(made), flag=flag))
    return made


def copy(size: int, stream: int = LEGACY, direction: int = 1, memory: int = 2) -> None:
    """To the card (direction 1) or from it (2), of memory that is pageable (1) or pinned (2)."""
    kinds = {"src_kind": memory, "dst_kind": 3} if direction == 1 else {"src_kind": 3, "dst_kind": memory}
    _work(ActivityKind.MEMCPY, stream, "cudaMemcpyAsync_v3020", bytes=size, copy_kind=direction, **kinds)


def launch(name: str, stream: int = LEGACY) -> None:
    shape = {"grid_x": 8, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    _work(ActivityKind.CONCURRENT_KERNEL, stream, "cudaLaunchKernel_v7000", name=name, **shape)


# The functions of the libraries that open named ranges: torch.cuda.nvtx, torch.autograd.profiler, CuPy and nvtx
NVTX = """
from functools import wraps
stack = []
class annotate:
    def __init__(self, message=None, color=None, domain=None): self.message = message
    def __enter__(self): return self
    def __exit__(self, *raised): return False
    def __call__(self, func):
        @wraps(func)
        def inner(*args, **kwargs): return func(*args, **kwargs)
        return inner
class record_function:
    def __init__(self, name, args=None): self.name = name
    def __enter__(self): return self
    def __exit__(self, *raised): return None
def push_range(message=None, color="blue", domain=None): stack.append(message)
def pop_range(domain=None): stack.pop()
def range_push(msg): stack.append(msg); return len(stack)
def range_pop(): stack.pop(); return len(stack)
def RangePush(message, id_color=-1): stack.append(message)
RangePushC, RangePop = RangePush, pop_range
"""


class Driver:
    """Of libcuda.so.1 what the runner calls."""

    def cuInit(self, _: int) -> int:
        return 0 if int(os.environ.get(VISIBLE, "1")) else 100

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = int(os.environ.get(VISIBLE, "1"))
        return 0

    def cuCtxSynchronize(self) -> int:
        start = CARD.clock()
        CARD.synchronise()
        _call("cuCtxSynchronize", start, ActivityKind.DRIVER)
        return 0


def be_there() -> None:
    """Have ``ctypes`` find this driver, and time pass as here."""
    import time

    loads = ctypes.CDLL
    ctypes.CDLL = lambda name, *more, **named: (  # type: ignore[assignment, misc]
        Driver() if name == "libcuda.so.1" else loads(name, *more, **named)
    )
    time.perf_counter_ns = get_timestamp


def install(folder: Path) -> dict[str, str]:
    """Write what shows it to a process; the variables of the environment that it needs."""
    texts = {
        "sitecustomize.py": "from fake_gpu.cupti import be_there\nbe_there()\n",
        "cupti/__init__.py": "",
        "nvtx/__init__.py": "",
        "cupti/cupti.py": "from fake_gpu.cupti import *\n",
        "nvtx/nvtx.py": NVTX,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(Path(__file__).parents[1])))}
