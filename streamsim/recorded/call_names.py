"""What a call of CUDA or HIP does, told by its name as profilers write it: ``cudaMemcpyAsync_v3020``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from streamsim.recorded.recording import CallKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+\Z")
_PREFIX = re.compile(r"\A(?:cuda|hip|cu)(?=[A-Z])")
_KINDS = (
    (re.compile(r"Memcpy.*Async|MemcpyBatchAsync"), CallKind.COPY_ASYNC),
    (re.compile(r"Memcpy"), CallKind.COPY),
    (re.compile(r"Memset"), CallKind.MEMSET),
    (re.compile(r"GraphLaunch"), CallKind.GRAPH_LAUNCH),
    (re.compile(r"LaunchHostFunc|StreamAddCallback"), CallKind.HOST_FUNCTION),
    (re.compile(r"(?:ExtModule|Ext|Module)?Launch(?:Cooperative)?(?:Kernel|Grid|\Z)"), CallKind.LAUNCH),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"StreamWaitEvent"), CallKind.WAIT),
    (re.compile(r"StreamSynchronize"), CallKind.SYNCHRONIZE_STREAM),
    (re.compile(r"EventSynchronize"), CallKind.SYNCHRONIZE_EVENT),
    (re.compile(r"(?:Device|Ctx|Context|Thread)Synchronize"), CallKind.SYNCHRONIZE_DEVICE),
    (re.compile(r"(?:Malloc|(?:Mem)?HostAlloc|MemAlloc|(?:Mem)?HostRegister)(?!.*Async)"), CallKind.ALLOCATE),
    (re.compile(r"(?:Free|MemFree|HostUnregister|HostFree|MemHostUnregister)(?!.*Async)"), CallKind.FREE),
)  # fmt: skip

# Calls that look at a variable of their thread, which takes 20 ns: array libraries make several for each that works.
_QUERIES = {"cuCtxGetCurrent", "cuCtxGetDevice"} | {
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("GetDevice", "GetLastError", "PeekAtLastError")
}

# Others that launch nothing and wait for nothing, in tens of nanoseconds, and that PyTorch's profiler writes.
_LOOKUPS = {f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("StreamIsCapturing", "DeviceGetAttribute")}


def plain(name: str) -> str:
    """Without the version that a profiler adds: ``cudaMalloc_v3020`` -> ``cudaMalloc``."""
    return _SUFFIX.sub("", name)


def kind_of_call(name: str) -> CallKind:
    """Of the runtime's and the driver's names, whatever their version; OTHER for what is none of the kinds."""
    bare = plain(name)
    rest, found = _PREFIX.subn("", bare)
    if not found:
        return CallKind.OTHER
    return next((kind for form, kind in _KINDS if form.match(rest)), CallKind.OTHER)


def queries(names: Iterable[str]) -> list[int]:
    """Where among ``names`` calls are that look at a variable of their thread, launch nothing and wait for nothing."""
    return _places(names, _QUERIES)


def lookups(names: Iterable[str]) -> list[int]:
    """Where among ``names`` those are that do as little, of the calls that PyTorch's profiler writes."""
    return _places(names, _LOOKUPS)


def _places(names: Iterable[str], wanted: set[str]) -> list[int]:
    return [k for k, name in enumerate(names) if plain(name) in wanted]
