"""An input with a fault, cut down to what the fault needs."""

import contextlib
import json
import time
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import tomli_w
from kinds import Input
from trials import fault_of

MOST_TRIES, SHRINK_S = 2000, 120.0  # to make an input smaller
MOST_LETTERS, LISTS = 100_000, 5  # of a document of which each part is tried; of one whose halves are


def shrink(made: Input, fault: str, on_try: Callable[[int], object] = bool) -> Input:
    """The smallest input found that has the same fault; what could not be left out is tried once more at the end.

    ``on_try`` is told before each try how many there have been.
    """
    until, tries = time.monotonic() + SHRINK_S, 0
    needed: set[str] = set()
    again = False
    while True:
        for what, smaller in _smaller(made):
            if tries == MOST_TRIES or time.monotonic() > until:
                return made
            if what in needed or _size(smaller) >= _size(made):
                continue
            tries += 1
            on_try(tries)
            if fault_of(smaller) == fault:
                made, again = smaller, True
                break
            needed.add(what)
        else:
            if not again:
                return made
            needed, again = set(), False


def _size(made: Input) -> int:
    return sum(map(len, made.arguments)) + len(made.arguments) + sum(map(len, made.files.values()))


def _smaller(made: Input) -> Iterator[tuple[str, Input]]:
    """Without a file, a part of one, or some words, and what is left out; the largest parts first."""
    for name, text in made.files.items():
        yield name, made._replace(files={other: its for other, its in made.files.items() if other != name})
        for what, less in _less(text):
            yield f"{name} {what}", made._replace(files=made.files | {name: less})
    words = made.arguments
    for n in (2, 1):
        for i in range(1, len(words) - n + 1):
            yield f"{words[i : i + n]}", made._replace(arguments=words[:i] + words[i + n :])
    for i, word in enumerate(words[1:], 1):
        for what, less in _cut(word):
            yield f"{word} {what}", made._replace(arguments=(*words[:i], less, *words[i + 1 :]))


def _less(text: str) -> Iterator[tuple[str, str]]:
    """Of a document the parts of its tree, of long lists their halves first; of another text its pieces."""
    for parse, dump in ((json.loads, json.dumps), (tomllib.loads, tomli_w.dumps)):
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            tree: Any = parse(text)
            for path, a, b in _slices(tree):
                smaller = parse(text)
                del _at(smaller, path)[a:b]
                yield f"{path} {a} {b}", dump(smaller)
            if len(text) > MOST_LETTERS:
                return
            for path in sorted(_paths(tree), key=lambda path: -len(str(_at(tree, path)))):
                smaller = parse(text)
                del _at(smaller, path[:-1])[path[-1]]
                yield f"{path}", dump(smaller)
            return
    yield from _cut(text)


def _slices(tree: Any) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Halves, quarters, eighths of its lists, from the longest list on."""
    lists = [path for path in ((), *_paths(tree)) if isinstance(_at(tree, path), list)]
    for path in sorted(lists, key=lambda path: -len(_at(tree, path)))[:LISTS]:
        count = len(_at(tree, path))
        for parts in (2, 4, 8):
            if size := count // parts:
                yield from ((path, at, at + size) for at in range(0, count, size))


def _paths(tree: Any) -> Iterator[tuple[Any, ...]]:
    """Of everything in a tree."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield (key,)
        yield from ((key, *path) for path in _paths(tree[key]))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _cut(text: str) -> Iterator[tuple[str, str]]:
    """Without a half, a quarter, an eighth of it, down to a character."""
    size = len(text) // 2
    while size:
        yield from ((f"{at} {size} {len(text)}", text[:at] + text[at + size :]) for at in range(0, len(text), size))
        size //= 2
