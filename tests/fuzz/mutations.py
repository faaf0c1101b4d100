"""Files and options gone wrong: mutations of a document's tree, of its text, and of a command line.

Those of a tree change it, and give the tree to go on with. Text and trees also grow, to a size that is asked for.
"""

import sqlite3
import string
from contextlib import closing
from copy import deepcopy
from random import Random
from typing import Any

import click

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
PAGE_BYTES = 4096
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
NAMES = ("out.csv", "out.jsonl", "out", "", ".", "no/out.csv", "a\0b.csv", "x" * 300, "/dev/full")


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
    """One place removed, renamed, repeated, replaced, or exchanged with another."""
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


def grow_tree(tree: Any, rng: Random, n_bytes: int) -> Any:
    """A list, a table or a text of it so large that the document has about so many bytes."""
    found = [(at, key) for at, key in places(tree) if at[key] and isinstance(at[key], list | dict | str)]
    if not found:
        return ["x" * 10] * (n_bytes // 15)
    at, key = rng.choice(found)
    value = at[key]
    if isinstance(value, str):
        at[key] = value * -(-n_bytes // len(value))
    elif isinstance(value, list):
        times = -(-n_bytes // len(str(value)))
        at[key] = value * times if rng.random() < 0.7 else [item for item in value for _ in range(times)]
    else:
        some = list(value.items())
        times = -(-n_bytes // (len(str(value)) + 8 * len(value)))
        value |= {f"{name}{k}": item for k in range(times) for name, item in some}
    return tree


def grow_text(text: str, rng: Random, n_bytes: int) -> str:
    """A piece of it repeated until it has about so many bytes."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    piece = text[a:b] or rng.choice((" ", "\n", "[", "9", "x,", "a=1\n"))
    return text[:b] + piece * (n_bytes // len(piece)) + text[b:]


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
    try:
        with closing(_opened(text)) as connection:
            for statement, values in _changes(connection, rng):
                connection.execute(statement, values)
            return _saved(connection)
    except (sqlite3.Error, OverflowError, UnicodeError, IndexError):
        return mutate_bytes(text, rng)


def grow_tables(text: str, rng: Random, n_bytes: int) -> str:
    """An SQLite file of about so many bytes: the rows of one of its tables again and again."""
    try:
        with closing(_opened(text)) as connection:
            table = rng.choice([name for (name,) in connection.execute(TABLES)])
            (rows,) = connection.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()
            while rows and connection.execute("PRAGMA page_count").fetchone()[0] * PAGE_BYTES < n_bytes:
                connection.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" LIMIT {n_bytes // 40}')
            return _saved(connection)
    except (sqlite3.Error, UnicodeError, IndexError):
        return grow_text(text, rng, n_bytes)


def _opened(text: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(text.encode("latin-1", "replace"))
    return connection


def _saved(connection: sqlite3.Connection) -> str:
    return connection.serialize().decode("latin-1")


def _changes(connection: sqlite3.Connection, rng: Random) -> list[tuple[str, tuple[Any, ...]]]:
    names = [name for (name,) in connection.execute(TABLES)]
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


def mutate_lines(lines: list[Any], rng: Random) -> list[Any]:
    """Of a journal: lines removed, repeated, exchanged; or one of them is another document."""
    if not lines:
        return [odd(rng)]
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, deepcopy(lines[i]))
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            lines[i] = mutate_tree(lines[i], rng)
    return lines


def mutate_option(command: click.Command, line: list[str], rng: Random) -> list[str]:
    """The line with one option more, or with a word of it gone wrong. Nothing that starts processes or calls others."""
    known = [o for o in command.params if isinstance(o, click.Option) and o.name not in ("dask", "workers", "help")]
    if not known or (line and rng.random() < 0.2):
        i = rng.randrange(len(line))
        return [*line[:i], mutate_text(line[i], rng).replace("/", ""), *line[i + 1 :]]
    option = rng.choice(known)
    name = rng.choice(option.opts)
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
