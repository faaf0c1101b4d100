"""Named ranges where Python opens them: as PyTorch, CuPy and the package nvtx have the functions."""

import importlib
import sys
from collections.abc import Iterator
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fake_gpu.cupti import NVTX

from streamsim_validate.gpu.runner import HOOKS, Ranges, Watcher


@pytest.fixture
def waits() -> list[int]:
    """When the card was waited for."""
    return []


@pytest.fixture
def load(tmp_path: Path, waits: list[int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A library's module as it is imported while ranges are watched, and the ranges. The clock: one more each time."""
    clock = count(1)
    for name in HOOKS:
        *parents, own = name.split(".")
        folder = tmp_path
        for parent in parents:
            folder = folder / parent
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{own}.py").write_text(NVTX)
    roots = {name.partition(".")[0] for name in HOOKS}
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


@pytest.mark.parametrize(
    ("name", "push", "pop"),
    [
        ("torch.cuda.nvtx", "range_push", "range_pop"),
        ("cupy_backends.cuda.libs.nvtx", "RangePush", "RangePop"),
        ("cupy_backends.cuda.libs.nvtx", "RangePushC", "RangePop"),
        ("nvtx.nvtx", "push_range", "pop_range"),
    ],
)
def test_nested_ranges_of_functions(load: Any, name: str, push: str, pop: str) -> None:
    """And one that was opened before is closed without a word."""
    nvtx, ranges = load(name)
    nvtx.stack.append("before")
    getattr(nvtx, push)("outer")
    (message,) = {"msg", "message"} & set(signature(getattr(nvtx, push)).parameters)
    getattr(nvtx, push)(**{message: b"inner"})
    for _ in range(3):
        getattr(nvtx, pop)()
    assert spans(ranges) == [("inner", 2, 3), ("outer", 1, 4)]
    assert nvtx.stack == []


@pytest.mark.parametrize(("name", "kind"), [("torch.autograd.profiler", "record_function"), ("nvtx.nvtx", "annotate")])
def test_ranges_of_contexts(load: Any, name: str, kind: str) -> None:
    module, ranges = load(name)
    with getattr(module, kind)("step") as entered:
        assert isinstance(entered, getattr(module, kind))
    with pytest.raises(KeyError), getattr(module, kind)("fails"):
        raise KeyError
    assert spans(ranges) == [("step", 1, 2), ("fails", 3, 4)]


def test_ranges_of_decorated_functions(load: Any) -> None:
    nvtx, ranges = load("nvtx.nvtx")

    @nvtx.annotate()  # type: ignore[untyped-decorator]
    def work(n: int) -> int:
        return n and work(n - 1)

    assert work(1) == 0
    assert work.__name__ == "work"
    assert spans(ranges) == [("work", 2, 3), ("work", 1, 4)]


def test_the_card_is_waited_for_at_both_ends_of_the_window_alone(load: Any, waits: list[int]) -> None:
    """The second of that name, counted as they open: 1 and 4 are the first's, the wait is 5, then 6 to 8."""
    nvtx, ranges = load("torch.autograd.profiler", step=2)
    for _ in range(3):
        with nvtx.record_function("step"), nvtx.record_function("inner"):
            pass
    assert [span for span in spans(ranges) if span[0] == "step"] == [("step", 1, 4), ("step", 6, 10), ("step", 11, 14)]
    assert waits == [5, 9]
