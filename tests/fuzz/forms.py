"""What files are made of: how one is taken apart, goes wrong in its parts, grows, and is put together again."""

import json
import marshal
import tomllib
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, NamedTuple

import tomli_w
from mutations import (
    grow_tables,
    grow_text,
    grow_tree,
    mutate_bytes,
    mutate_lines,
    mutate_tables,
    mutate_text,
    mutate_tree,
)

MOST_MUTATIONS = 3
AS_TEXT = 0.2  # of the files that have parts
GROWN, SMALLEST, LARGEST = 0.001, 4.0, 7.0  # of all; powers of ten, of bytes
MOST_LETTERS = 3 * 10**7  # of a file, about; a list grows in all the places that share it
CANNOT = (ValueError, TypeError, AttributeError, RecursionError, OverflowError)  # be written: None in TOML, say


class Form(NamedTuple):
    """``mutate`` and ``grow`` get what ``read`` gives, as their own, and give what ``write`` takes."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    mutate: Callable[[Any, Random], Any]
    grow: Callable[[Any, Random, int], Any]


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _joined(lines: Any) -> str:
    return "".join(json.dumps(line) + "\n" for line in _bounded(lines))


def _toml(tree: Any) -> str:
    return tomli_w.dumps(_bounded(tree, 4))  # letters by which it indents what is inside another


def _json(tree: Any) -> str:
    return json.dumps(_bounded(tree))


def _bounded(tree: Any, indent: int = 0) -> Any:
    """The tree, if it is not too large when it is written. Raises ValueError: to write all of it might take hours."""
    letters, deep, level = 0, 0, [tree]
    while level:
        deep += 1
        inside: list[Any] = []
        for value in level:
            letters += indent * deep + _letters(value)
            if isinstance(value, list | dict):
                inside += value.values() if isinstance(value, dict) else value
            if letters + len(inside) > MOST_LETTERS:
                raise ValueError(f"of more than {MOST_LETTERS} letters")
        level = inside
    return tree


def _letters(value: Any) -> int:
    """By itself, about."""
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if isinstance(value, dict):
        return sum(map(len, value)) + 2
    return len(value) if isinstance(value, str) else 2


JSON = Form(json.loads, _json, mutate_tree, grow_tree)
TOML = Form(tomllib.loads, _toml, mutate_tree, grow_tree)
LINES = Form(_lines, _joined, mutate_lines, grow_tree)  # of JSON
TABLES = Form(str, str, mutate_tables, grow_tables)
BYTES = Form(str, str, mutate_bytes, grow_text)
TEXT = Form(str, str, mutate_text, grow_text)


def gone_wrong(text: str, form: Form, rng: Random) -> str:
    """A file of that form with some things wrong, seldom a large one."""
    if rng.random() < AS_TEXT and form is not BYTES:
        form = TEXT
    size = int(10 ** rng.uniform(SMALLEST, LARGEST)) if rng.random() < GROWN else 0
    times = rng.randint(1, MOST_MUTATIONS)
    try:
        return _changed(text, form, rng, times, size)
    except CANNOT:
        return _changed(text, TEXT, rng, times, size)


def _changed(text: str, form: Form, rng: Random, times: int, size: int) -> str:
    found = marshal.loads(_parts(text, form))
    for _ in range(times):
        found = form.mutate(found, rng)
    return form.write(form.grow(found, rng, size) if size else found)


@cache
def _parts(text: str, form: Form) -> bytes:
    """Of a right file, of which there are few; to be copied."""
    return marshal.dumps(form.read(text))
