"""Kinds of CUDA and HIP calls, found from their names as profilers write them: ``cudaMemcpyAsync_v3020``."""

import re
from collections.abc import Iterable

from streamsim.recorded.recording import CallKind

_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+\Z")
_PREFIX = re.compile(r"\A(?:cuda|hip|cu)(?=[A-Z])")
_KINDS = (
    (re.compile(r"Memcpy.*Async|MemcpyBatchAsync"), CallKind.COPY_ASYNC),
    (re.compile(r"Memcpy"), CallKind.COPY),
    (re.compile(r"Memset"), CallKind.MEMSET),
    (re.compile(r"MemPrefetch"), CallKind.PREFETCH),
    (re.compile(r"GraphLaunch"), CallKind.GRAPH_LAUNCH),
    (re.compile(r"LaunchHostFunc|StreamAddCallback"), CallKind.HOST_FUNCTION),
    (re.compile(r"(?:ExtModule|Ext|Module)?Launch(?:Cooperative)?(?:Kernel|Grid|\Z)"), CallKind.LAUNCH),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"StreamWaitEvent"), CallKind.WAIT),
    (re.compile(r"StreamSynchronize"), CallKind.SYNCHRONIZE_STREAM),
    (re.compile(r"EventSynchronize"), CallKind.SYNCHRONIZE_EVENT),
    (re.compile(r"(?:Device|Ctx|Context|Thread)Synchronize"), CallKind.SYNCHRONIZE_DEVICE),
    (re.compile(r"(?:(?:Host)?Malloc|(?:Mem)?HostAlloc|MemAlloc|(?:Mem)?HostRegister)(?!.*Async)"), CallKind.ALLOCATE),
    (re.compile(r"(?:Free|MemFree|HostUnregister|HostFree|MemHostUnregister)(?!.*Async)"), CallKind.FREE),
)  # fmt: skip

# Calls that read a variable of their thread in 20 ns. Array libraries make several for each call that issues work.
QUERIES = frozenset(
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("GetDevice", "GetLastError", "PeekAtLastError")
) | {"cuCtxGetCurrent", "cuCtxGetDevice"}

# Other calls of tens of nanoseconds that launch nothing and wait for nothing. PyTorch's profiler writes them.
LOOKUPS = frozenset(
    f"{prefix}{name}" for prefix in ("cuda", "hip") for name in ("StreamIsCapturing", "DeviceGetAttribute")
)


def plain(name: str) -> str:
    """Return a call's name without the version that a profiler adds: ``cudaMalloc_v3020`` gives ``cudaMalloc``."""
    return _SUFFIX.sub("", name)


def kind_of_call(name: str) -> CallKind:
    """Return the kind of a runtime or driver call, named without a version; OTHER for a call of no other kind."""
    rest, found = _PREFIX.subn("", name)
    if not found:
        return CallKind.OTHER
    return next((kind for form, kind in _KINDS if form.match(rest)), CallKind.OTHER)


def places(names: Iterable[str], wanted: frozenset[str]) -> list[int]:
    """Return the indices of those of the ``names`` that are ``wanted``."""
    return [k for k, name in enumerate(names) if name in wanted]
