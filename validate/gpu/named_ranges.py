"""The named ranges of a Python program, noted where Python opens and closes them.

Hooked are NVTX as PyTorch, CuPy and the package nvtx call it, and PyTorch's record_function. So a run without a
recording has its ranges too, and no profiler is needed. This file uses the standard library alone: see
:mod:`streamsim_validate.gpu.runner`.
"""

import contextlib
import functools
import importlib.util
import itertools
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

LONGEST_NAME = 4096
Hook = Callable[[Any, "Ranges"], None]


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

    def open(self, key: Any, name: object) -> None:
        """Open a range, inside those with the same key."""
        text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        asked = text in self._windows and next(self._seen[text]) == self._windows[text]
        if asked:
            self._wait()
        self._open.setdefault(key, []).append((self._clock(), text[:LONGEST_NAME], asked))

    def close(self, key: Any) -> None:
        """Close the latest range that was opened with this key, if there is one."""
        opened = self._open.get(key)
        if opened:
            start, name, asked = opened.pop()
            if not opened:
                del self._open[key]
            if asked:
                self._wait()
            self.rows.append((start, self._clock(), threading.get_native_id(), name))


class Watcher:
    """A finder that hooks the modules that open ranges, the first time that each is imported."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges, self._hooks = ranges, dict(HOOKS)

    def find_spec(self, name: str, *_: object) -> Any:
        """Return what the other finders find, with a hook; None for other modules, which leaves it to them."""
        hook = self._hooks.pop(name, None)
        spec = importlib.util.find_spec(name) if hook else None  # asks here again, in vain
        if hook is None or spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, lambda module: hook(module, self._ranges))  # type: ignore[assignment]
        return spec


class _Loader:
    """A loader that calls a hook behind another loader."""

    def __init__(self, loader: Any, hook: Callable[[ModuleType], None]) -> None:
        self._loader, self._hook = loader, hook

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        with contextlib.suppress(AttributeError, TypeError):  # of a version without such functions
            self._hook(module)


# How a library opens and closes them


def _torch_nvtx(module: Any, ranges: Ranges) -> None:
    _stacked(ranges, module, "range_push", "range_pop")
    _by_handle(ranges, module, "range_start", "range_end")


def _cupy_nvtx(module: Any, ranges: Ranges) -> None:
    _stacked(ranges, module, "RangePush", "RangePop")
    module.RangePushC = _opening(ranges, module.RangePushC, "RangePop")


def _nvtx(module: Any, ranges: Ranges) -> None:
    _stacked(ranges, module, "push_range", "pop_range", domain_at=(2, 0))
    _by_handle(ranges, module, "start_range", "end_range")
    kind = module.annotate
    makes, calls = kind.__init__, kind.__call__

    def make(self: Any, message: Any = None, *more: Any, **named: Any) -> None:
        with contextlib.suppress(AttributeError):  # of a version that has no place for it
            self.streamsim_name = message
        makes(self, message, *more, **named)

    def call(self: Any, function: Any) -> Any:
        inner, name = calls(self, function), _name_of(self) or function.__name__

        @functools.wraps(function)
        def ranged(*arguments: Any, **named: Any) -> Any:
            key = threading.get_ident(), kind
            ranges.open(key, name)
            try:
                return inner(*arguments, **named)
            finally:
                ranges.close(key)

        return ranged

    kind.__init__, kind.__call__ = make, call
    _as_context(ranges, kind, _name_of)


def _name_of(annotation: Any) -> Any:
    return getattr(annotation, "streamsim_name", None)


def _record_function(module: Any, ranges: Ranges) -> None:
    _as_context(ranges, module.record_function, lambda entered: entered.name)


HOOKS: dict[str, Hook] = {
    "torch.cuda.nvtx": _torch_nvtx,
    "torch.autograd.profiler": _record_function,
    "cupy_backends.cuda.libs.nvtx": _cupy_nvtx,
    "nvtx.nvtx": _nvtx,
}


def _stacked(
    ranges: Ranges, module: Any, push: str, pop: str, domain_at: tuple[int | None, int | None] = (None, None)
) -> None:
    """Hook functions that open and close nested ranges of a thread. ``domain_at``: where each takes a domain."""
    closes = getattr(module, pop)
    setattr(module, push, _opening(ranges, getattr(module, push), pop, domain_at[0]))

    @functools.wraps(closes)
    def closing(*arguments: Any, **named: Any) -> Any:
        found = closes(*arguments, **named)
        ranges.close((threading.get_ident(), pop, _domain(domain_at[1], arguments, named)))
        return found

    setattr(module, pop, closing)


def _opening(ranges: Ranges, opens: Any, pop: str, domain_at: int | None = None) -> Any:
    @functools.wraps(opens)
    def opening(*arguments: Any, **named: Any) -> Any:
        ranges.open((threading.get_ident(), pop, _domain(domain_at, arguments, named)), _message(arguments, named))
        return opens(*arguments, **named)

    return opening


def _message(arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return arguments[0] if arguments else named.get("message", named.get("msg"))


def _domain(place: int | None, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if place is None or len(arguments) <= place:
        return named.get("domain")
    return arguments[place]


class _Handle:
    """The handle of a range. ``given``: the library's own handle, which may be the same each time."""

    given: Any = None


def _by_handle(ranges: Ranges, module: Any, begin: str, end: str) -> None:
    """Hook a function that returns a handle and one that takes it, maybe in another thread."""
    begins, ends = getattr(module, begin), getattr(module, end)

    @functools.wraps(begins)
    def beginning(*arguments: Any, **named: Any) -> _Handle:
        handle = _Handle()
        ranges.open(handle, _message(arguments, named))
        handle.given = begins(*arguments, **named)
        return handle

    @functools.wraps(ends)
    def ending(handle: Any) -> Any:
        if not isinstance(handle, _Handle):
            return ends(handle)
        found = ends(handle.given)
        ranges.close(handle)
        return found

    setattr(module, begin, beginning)
    setattr(module, end, ending)


def _as_context(ranges: Ranges, kind: Any, name_of: Callable[[Any], Any]) -> None:
    """Hook a class whose ``with`` blocks are ranges."""
    enters, leaves = kind.__enter__, kind.__exit__

    def enter(self: Any) -> Any:
        ranges.open((threading.get_ident(), kind), name_of(self))
        return enters(self)

    def leave(self: Any, *raised: Any) -> Any:
        found = leaves(self, *raised)
        ranges.close((threading.get_ident(), kind))
        return found

    kind.__enter__, kind.__exit__ = enter, leave
