"""Named ranges where Python opens them: as PyTorch, CuPy and the package nvtx have the functions."""

import importlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from streamsim_validate.gpu.runner import HOOKS, Ranges, Watcher

TORCH_NVTX = """
from contextlib import contextmanager
stack, handles = [], []
def range_push(msg): stack.append(msg); return len(stack)
def range_pop(): stack.pop(); return len(stack)
def range_start(msg): handles.append(msg); return 0
def range_end(range_id): assert range_id == 0
@contextmanager
def range(msg, *args, **kwargs):
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
"""
TORCH_PROFILER = """
class record_function:
    def __init__(self, name, args=None): self.name = name
    def __enter__(self): return self
    def __exit__(self, *raised): return None
"""
CUPY_NVTX = """
stack = []
def RangePush(message, id_color=-1): stack.append(message)
def RangePushC(message, color=0): stack.append(message)
def RangePop(): stack.pop()
"""
NVTX = """
from functools import wraps
stacks = {}
class annotate:
    def __init__(self, message=None, color=None, domain=None, category=None, payload=None): self.message = message
    def __enter__(self): return self
    def __exit__(self, *raised): return False
    def __call__(self, func):
        @wraps(func)
        def inner(*args, **kwargs): return func(*args, **kwargs)
        return inner
def push_range(message=None, color="blue", domain=None, category=None, payload=None):
    stacks.setdefault(domain, []).append(message)
def pop_range(domain=None): stacks[domain].pop()
def start_range(message=None, color=None, domain=None, category=None, payload=None): return None
def end_range(range_id): assert range_id is None
"""
SOURCES = dict(zip(HOOKS, (TORCH_NVTX, TORCH_PROFILER, CUPY_NVTX, NVTX), strict=True))


@pytest.fixture
def waits() -> list[int]:
    """When the card was waited for."""
    return []


@pytest.fixture
def load(tmp_path: Path, waits: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A library's module as it is imported while ranges are watched, and the ranges. The clock: one more each time."""
    clock = count(1)
    for name, source in SOURCES.items():
        *parents, own = name.split(".")
        folder = tmp_path
        for parent in parents:
            folder = folder / parent
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{own}.py").write_text(source)
    roots = {name.partition(".")[0] for name in SOURCES}
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in roots}
    for name in before:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)

    def loading(name: str, **windows: int) -> tuple[Any, Ranges]:
        ranges = Ranges(lambda: next(clock), windows, lambda: waits.append(next(clock)))
        monkeypatch.setattr(sys, "meta_path", [Watcher(ranges), *sys.meta_path])
        return importlib.import_module(name), ranges

    yield loading
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]
    sys.modules.update(before)


def spans(ranges: Ranges) -> list[tuple[str, int, int]]:
    return [(name, start, end) for start, end, _, name in ranges.rows]


def test_pytorchs_nvtx(load: Any) -> None:
    nvtx, ranges = load("torch.cuda.nvtx")
    assert nvtx.range_push("outer") == 1
    with nvtx.range("inner {}", 2):
        pass
    assert nvtx.range_pop() == 0
    first, second = nvtx.range_start("a"), nvtx.range_start(msg="b")
    nvtx.range_end(first)
    nvtx.range_end(second)
    nvtx.range_end(0)  # of one that was opened before
    assert spans(ranges) == [("inner 2", 2, 3), ("outer", 1, 4), ("a", 5, 7), ("b", 6, 8)]
    assert nvtx.handles == ["a", "b"]


def test_pytorchs_record_function(load: Any) -> None:
    profiler, ranges = load("torch.autograd.profiler")
    with profiler.record_function("step") as entered:
        assert entered.name == "step"
    with pytest.raises(KeyError), profiler.record_function("fails"):
        raise KeyError
    assert spans(ranges) == [("step", 1, 2), ("fails", 3, 4)]


def test_cupys_nvtx(load: Any) -> None:
    nvtx, ranges = load("cupy_backends.cuda.libs.nvtx")
    nvtx.RangePush("outer", 3)
    nvtx.RangePushC(b"inner", color=7)
    nvtx.RangePop()
    nvtx.RangePop()
    assert spans(ranges) == [("inner", 2, 3), ("outer", 1, 4)]
    assert nvtx.stack == []


def test_the_package_nvtx(load: Any) -> None:
    """Ranges of two domains may cross."""
    nvtx, ranges = load("nvtx.nvtx")
    nvtx.push_range("a", domain="one")
    nvtx.push_range("b", "red", "two")
    nvtx.pop_range("one")
    nvtx.pop_range(domain="two")
    with nvtx.annotate("c", color="blue"):
        pass

    @nvtx.annotate()  # type: ignore[untyped-decorator]
    def work(n: int) -> int:
        return n and work(n - 1)

    assert work(1) == 0
    assert work.__name__ == "work"
    nvtx.end_range(nvtx.start_range("d"))
    found = spans(ranges)
    assert found[:3] == [("a", 1, 3), ("b", 2, 4), ("c", 5, 6)]
    assert found[3:] == [("work", 8, 9), ("work", 7, 10), ("d", 11, 12)]


def test_the_card_is_waited_for_at_both_ends_of_the_window_alone(load: Any, waits: list[int]) -> None:
    """The second of that name, counted as they open: 1 and 4 are the first's, the wait is 5, then 6 to 8."""
    nvtx, ranges = load("torch.cuda.nvtx", step=2)
    for _ in range(3):
        with nvtx.range("step"), nvtx.range("inner"):
            pass
    assert [span for span in spans(ranges) if span[0] == "step"] == [("step", 1, 4), ("step", 6, 10), ("step", 11, 14)]
    assert waits == [5, 9]
