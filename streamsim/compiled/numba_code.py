"""How numba compiles: inlined calls, the rules among them, and compiled code on disk.

Reference counts are off (``_nrt``), because counting references to the arrays would take most of the time. Indices that
are used often are unsigned, because numba checks the sign of signed ones, to count from the end.
"""

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

uintp = np.uintp
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_cache = True

inlined: Any = njit(inline="always", **_OPTIONS)  # a function whose code is put in place of its calls
called: Any = njit(**_OPTIONS)  # a function that is compiled with its callers, once


@cache
def rule(function: Any) -> Any:
    """Return a function of :mod:`streamsim.rules` for compiled code, inlined with the rules that it calls.

    It looks its names up in a copy of its module's names, in which rules are compiled ones.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        other = names.get(name)
        if isinstance(other, FunctionType) and other.__module__.startswith("streamsim.rules."):
            names[name] = rule(other)
    return inlined(FunctionType(function.__code__, names, function.__name__))


def sources() -> int:
    """Return a number that changes with the source of all that is compiled: rules, numbers, and this folder."""
    read = [file for room in ("rules", "compiled") for file in files(f"streamsim.{room}").iterdir()]
    read = sorted((file for file in read if file.name.endswith(".py")), key=str)
    digest = hashlib.sha256()
    for file in (*read, files("streamsim.lowering") / "costs.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return int.from_bytes(digest.digest()[:7])  # within an int64


def keeps_code() -> bool:
    """Return whether compiled code is kept on disk."""
    return _cache


def compiled(make: Callable[[int], Any]) -> Any:
    """Return the compiled function that ``make`` makes, kept on disk if a folder can be written.

    To see whether code on disk is current, numba looks only at the function's own file and at the values that it closes
    over, not at inlined code. So ``make`` gets :func:`sources`, and its function closes over this number.
    """
    global _cache
    function = make(sources())
    assert function.__code__.co_freevars, "what is kept on disk names its sources"
    try:
        return njit(nogil=True, cache=_cache, **_OPTIONS)(function)
    except RuntimeError as error:
        if not _cache:
            raise
        _cache = False
        said = "numba cannot keep what it compiles, so that every run compiles it anew: set NUMBA_CACHE_DIR to a folder"
        warnings.warn(f"{said} that can be written ({error})", RuntimeWarning, stacklevel=2)
        return compiled(make)
