"""How numba compiles: what is put in place of its calls, the rules among it, and what is kept on disk.

Reference counts are off (``_nrt``): counting references to the arrays would take most of the time. Indices are made
unsigned where they are used often: numba would look at the sign of each, to count from the end.
"""

from __future__ import annotations

import hashlib
import warnings
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

uintp = np.uintp
_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
_cache = True

inlined: Any = njit(inline="always", **_OPTIONS)  # a function whose code is put in place of its calls
called: Any = njit(**_OPTIONS)  # a function that is compiled with its callers, once


@cache
def rule(function: Any) -> Any:
    """A function of :mod:`streamsim.rules` and those that it calls, for compiled code: put in place of the calls.

    It looks its names up in a copy of its module's, in which rules are those that numba knows.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        other = names.get(name)
        if isinstance(other, FunctionType) and other.__module__.startswith("streamsim.rules."):
            names[name] = rule(other)
    return inlined(FunctionType(function.__code__, names, function.__name__))


def sources() -> int:
    """A number that changes with the source of anything that is compiled: of rules, numbers, and this folder."""
    read = [file for room in ("rules", "compiled") for file in files(f"streamsim.{room}").iterdir()]
    read = sorted((file for file in read if file.name.endswith(".py")), key=str)
    digest = hashlib.sha256()
    for file in (*read, files("streamsim.lowering") / "costs.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return int.from_bytes(digest.digest()[:7])  # within an int64


def keeps_code() -> bool:
    """Tell whether what is compiled is kept on disk."""
    return _cache


def compiled(make: Callable[[int], Any]) -> Any:
    """The function that ``make`` makes, compiled, and kept on disk where a folder can be written.

    Numba looks only at that function's own file and at what it closes over to see whether what is on disk still holds,
    not at the code that it puts in place of calls. So ``make`` gets :func:`sources`, and its function names that.
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
