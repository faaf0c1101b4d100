"""Files and options gone wrong: mutations of a document's tree, of its text, and of a command line."""

from __future__ import annotations

import json
import sqlite3
import string
import tempfile
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import tomli_w

if TYPE_CHECKING:
    from random import Random

DEEP, LONG = 2000, 100_000
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-9, 5e-324, 1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", " ", "0", "1", "-1", "+1", "1.5", "1e3", "1e400", "-0", "nan", "inf", "0x10", "1_000", "64MiB", "64mib", "64M",
    "1us", "0.57ms", "1e999s", "-1us", "us", "1..64", "1..64*2", "64..1", "1..1000000", "1,2,4", ",", "1,,2", "..", "*",
    "1..8*0", "1..8+0", "1..8*1", "h200", "ideal", "H200", "nowhere", "depth-first", "breadth-first", "serial", "all",
    "pinned", "pageable", "live", "graph", "true", "none", "null", "\0", "\n", "a\nb", "卡", "é", "\u202e", "%s",
    "h2d.latency_s=1us", "h2d.__doc__=x", "connections.real=2", "=", "x=", "9" * 400, "1" * 5000, "x" * LONG,
)  # fmt: skip
NAMES = ("out.csv", "out.jsonl", "out.parquet", "out", "", ".", "no/out.csv", "a\0b.csv", "x" * 300, "/dev/full")


def odd(rng: Random) -> Any:
    """A value that is rarely the right one."""
    match rng.randrange(8):
        case 0 | 1:
            return rng.choice(NUMBERS)
        case 2 | 3:
            return rng.choice(FLOATS)
        case 4 | 5:
            return rng.choice(TEXTS)
        case 6:
            return rng.choice((True, False, None, [], {}, [[]], [{}], {"": 0}, [None] * 300))
    value: Any = 0
    for _ in range(rng.choice((3, 100, DEEP))):
        value = [value]
    return value


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    found, todo = [], [tree]
    while todo:
        at = todo.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            found.append((at, key))
            todo.append(at[key])
    return found


def mutate_tree(tree: Any, rng: Random) -> Any:
    """A copy with one place removed, renamed, repeated, replaced, or exchanged with another."""
    tree = deepcopy(tree)
    found = places(tree)
    if not found:
        return odd(rng)
    at, key = rng.choice(found)
    match rng.randrange(9):
        case 0:
            del at[key]
        case 1 if isinstance(at, dict):
            at[rng.choice(("", "x", "é", key + "x", rng.choice(TEXTS)))] = at.pop(key)
        case 1 | 2 if isinstance(at, list):
            at[key:key] = [at[key]] * rng.choice((1, 2, 50))
        case 3:
            other, its = rng.choice(found)
            at[key] = deepcopy(other[its])
        case 4 if isinstance(at[key], int | float) and at[key] == at[key]:
            at[key] = rng.choice((at[key] + 1, -at[key], at[key] * 2, at[key] / 3, float(at[key]), str(at[key])))
        case 5 if isinstance(at[key], str):
            at[key] = mutate_text(at[key], rng)
        case _:
            at[key] = odd(rng)
    return tree


def mutate_text(text: str, rng: Random) -> str:
    """A piece cut out, repeated, exchanged for another, or something put in."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    b = min(b, a + rng.choice((1, 8, 1000)))
    match rng.randrange(6):
        case 0:
            return text[:a] + text[b:]
        case 1:
            return text[:b] + text[a:b] * rng.choice((1, 3, 100)) + text[b:]
        case 2:
            return text[:a]
        case 3:
            return text[:a] + rng.choice(string.printable) + text[a + 1 :]
    return text[:a] + rng.choice(TEXTS) + text[b:]


def mutate_bytes(text: str, rng: Random) -> str:
    """Of a file whose bytes the letters stand for: cut short, or some of them others."""
    data = bytearray(text.encode("latin-1", "replace"))
    if rng.random() < 0.3:
        return text[: rng.randrange(len(text) + 1)]
    for _ in range(rng.choice((1, 2, 20))):
        if data:
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data.decode("latin-1")


def mutate_tables(text: str, rng: Random) -> str:
    """Of an SQLite file: a table or column gone, renamed or empty, rows repeated, values replaced or exchanged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(text.encode("latin-1", "replace"))
        try:
            with sqlite3.connect(path) as connection:
                for statement, values in _changes(connection, rng):
                    connection.execute(statement, values)
        except (sqlite3.Error, OverflowError, UnicodeError):
            return mutate_bytes(text, rng)
        finally:
            connection.close()
        return path.read_bytes().decode("latin-1")


def _changes(connection: sqlite3.Connection, rng: Random) -> list[tuple[str, tuple[Any, ...]]]:
    names = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    table = rng.choice(names)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    one, other = rng.choice(columns), rng.choice(columns)
    row = "rowid = (SELECT rowid FROM " + f'"{table}" LIMIT 1 OFFSET {rng.randrange(4)})'
    match rng.randrange(10):
        case 0:
            change = f'DROP TABLE "{table}"'
        case 1:
            change = f'ALTER TABLE "{table}" DROP COLUMN "{one}"'
        case 2:
            change = f'ALTER TABLE "{table}" RENAME COLUMN "{one}" TO "x"'
        case 3:
            change = f'INSERT INTO "{table}" SELECT * FROM "{table}"'
        case 4:
            change = f'UPDATE "{table}" SET "{one}" = "{other}"'
        case 5:
            change = f'UPDATE "{table}" SET "{one}" = -"{one}"'
        case 6:
            change = (
                f'UPDATE "{table}" SET "{one}" = CAST(zeroblob({rng.choice((0, 9, 2_000_000))}) AS TEXT) WHERE {row}'
            )
        case 7:
            change = f'DELETE FROM "{table}" WHERE {row}'
        case _:
            value = rng.choice((*NUMBERS[:-2], *FLOATS, *TEXTS[:-1], b"\xff\xfe", None))
            return [(f'UPDATE "{table}" SET "{one}" = ? WHERE {row}', (value,))]
    return [(change, ())]


def mutate_json(text: str, rng: Random) -> str:
    """Of one document, as JSON writes it (and Python's NaN)."""
    try:
        return json.dumps(mutate_tree(json.loads(text), rng))
    except (ValueError, RecursionError):
        return mutate_text(text, rng)


def mutate_toml(text: str, rng: Random) -> str:
    """The same where it can be written as TOML."""
    try:
        return tomli_w.dumps(mutate_tree(tomllib.loads(text), rng))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return mutate_text(text, rng)


def mutate_lines(text: str, rng: Random) -> str:
    """Of a journal: lines removed, repeated, exchanged, torn; or one of them is another document."""
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            lines[i] = mutate_json(lines[i], rng)
    return "\n".join(lines)


def mutate_option(command: click.Command, line: list[str], rng: Random) -> list[str]:
    """The line with one option more, or with a word of it gone wrong. Nothing that starts processes or calls others."""
    known = [o for o in command.params if isinstance(o, click.Option) and o.name not in ("dask", "workers", "help")]
    option = rng.choice(known)
    name = rng.choice(option.opts)
    if rng.random() < 0.2 and line:
        i = rng.randrange(len(line))
        return [*line[:i], mutate_text(line[i], rng).replace("/", ""), *line[i + 1 :]]
    if option.is_flag:
        return [*line, name]
    if isinstance(option.type, click.Path) or option.name in ("output", "plot", "trace", "samples", "fix"):
        value = rng.choice(NAMES)
    elif isinstance(option.type, click.Choice) and rng.random() < 0.7:
        value = str(rng.choice(list(option.type.choices)))
    elif rng.random() < 0.5:
        value = rng.choice(TEXTS)
    else:
        value = mutate_text(rng.choice(TEXTS[:-3]), rng).replace("/", "")
    return [*line, name, value]
