"""Files and options gone wrong: a document's tree, its text or bytes, a database's tables, a command line.

Each choice is drawn from the random numbers of hypothesis, which makes them fewer and smaller where a fault is found.
"""

import json
import sqlite3
import string
import tomllib
from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from random import Random
from typing import Any, NamedTuple

import click
import tomli_w

DEEP, LONG, MOST_MUTATIONS = 2000, 100_000, 3
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-9, 5e-324, 1e308, float("inf"), float("-inf"), float("nan"))
OTHERS: tuple[Any, ...] = (True, False, None, [], {}, [[]], [{}], {"": 0}, [None] * 300)
TEXTS = (
    "", " ", "0", "1", "-1", "+1", "1.5", "1e3", "1e400", "-0", "nan", "inf", "0x10", "1_000", "64MiB", "64mib", "64M",
    "1us", "0.57ms", "1e999s", "-1us", "us", "1..64", "1..64*2", "64..1", "1..1000000", "1,2,4", ",", "1,,2", "..", "*",
    "1..8*0", "1..8+0", "1..8*1", "h200", "ideal", "H200", "nowhere", "depth-first", "breadth-first", "serial", "all",
    "pinned", "pageable", "live", "graph", "true", "none", "null", "\0", "\n", "a\nb", "卡", "é", "\u202e", "%s",
    "h2d.latency_s=1us", "h2d.__doc__=x", "connections.real=2", "=", "x=", "9" * 400, "1" * 5000, "x" * LONG,
)  # fmt: skip
FILES = ("out.csv", "out.jsonl", "out", "", ".", "no/out.csv", "a\0b.csv", "x" * 300, "/dev/full")
CANNOT = (ValueError, TypeError, AttributeError, RecursionError, OverflowError, sqlite3.Error, IndexError)


def gone_wrong(text: str, form: "Form", rng: Random) -> str:
    """The file with up to three things wrong: in its parts, or in a fifth of the cases in its text."""
    times = rng.randint(1, MOST_MUTATIONS)
    try:
        form = form if rng.randrange(5) else TEXT
        parts = form.read(text)
        for _ in range(times):
            parts = form.mutate(parts, rng)
        return form.write(parts)
    except CANNOT:  # be written: None in TOML, say
        return mutate_text(text, rng)


def grown(text: str, form: "Form", rng: Random, n_bytes: int) -> str:
    """The file with a list, a table or a text of it so long that it has about so many bytes."""
    tree = form.read(text)
    found = [(at, key) for at, key in places(tree) if at[key] and isinstance(at[key], list | dict | str)]
    if not found:  # no tree
        a = rng.randrange(len(text))
        piece = text[a : a + rng.choice((1, 100, LONG))]
        return text[:a] + piece * (n_bytes // len(piece)) + text[a:]
    at, key = rng.choice(found)
    value = at[key]
    times = -(-n_bytes // (len(str(value)) + 8 * len(value)))
    if isinstance(value, dict):
        at[key] = value | {f"{name}{k}": item for k in range(times) for name, item in value.items()}
    else:
        at[key] = value * times
    return form.write(tree)


def odd(rng: Random) -> Any:
    """A value that is rarely the right one."""
    value: Any = rng.choice(rng.choice((NUMBERS, FLOATS, TEXTS, OTHERS)))
    for _ in range(rng.choice((0, 0, 0, 0, 0, 3, 100, DEEP))):
        value = [value]
    return deepcopy(value)


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


def mutate_text(text: str, rng: Random) -> str:
    """A piece cut out, repeated, exchanged for another, or something put in."""
    a = rng.randrange(len(text) + 1)
    b = min(len(text), a + rng.choice((1, 8, 1000)))
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
    if not rng.randrange(3):
        return text[: rng.randrange(len(text) + 1)]
    for _ in range(rng.choice((1, 2, 20))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data.decode("latin-1")


def mutate_tables(text: str, rng: Random) -> str:
    """Of an SQLite file: a table or column gone, renamed or empty, rows repeated, values replaced or exchanged."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(text.encode("latin-1"))
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        table = f'"{rng.choice(tables)[0]}"'
        columns = [f'"{row[1]}"' for row in connection.execute(f"PRAGMA table_info({table})")]
        one, other = rng.choice(columns), rng.choice(columns)
        row = f"rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {rng.randrange(4)})"
        change = rng.choice(
            (
                *(f"UPDATE {table} SET {one} = ? WHERE {row}",) * 2,
                f"DROP TABLE {table}",
                f"ALTER TABLE {table} DROP COLUMN {one}",
                f'ALTER TABLE {table} RENAME COLUMN {one} TO "x"',
                f"INSERT INTO {table} SELECT * FROM {table}",
                f"UPDATE {table} SET {one} = {other}",
                f"UPDATE {table} SET {one} = -{one}",
                f"UPDATE {table} SET {one} = CAST(zeroblob({rng.choice((0, 9, 2_000_000))}) AS TEXT) WHERE {row}",
                f"DELETE FROM {table} WHERE {row}",
            )
        )
        value = rng.choice((*NUMBERS[:-4], *FLOATS, *TEXTS[:-1], b"\xff\xfe", None))
        connection.execute(change, (value,) * change.count("?"))
        return connection.serialize().decode("latin-1")


def mutate_option(command: click.Command, line: list[str], rng: Random) -> list[str]:
    """The line with one option more, or with a word of it gone wrong. Nothing that starts processes or calls others."""
    known = [o for o in command.params if isinstance(o, click.Option) and o.name not in ("dask", "workers", "help")]
    if not known or (line and not rng.randrange(5)):
        i = rng.randrange(len(line))
        return [*line[:i], mutate_text(line[i], rng).replace("/", ""), *line[i + 1 :]]
    option = rng.choice(known)
    name = rng.choice(option.opts)
    if option.is_flag:
        return [*line, name]
    if isinstance(option.type, click.Path) or option.name in ("output", "plot", "trace", "samples", "fix"):
        value = rng.choice(FILES)
    elif isinstance(option.type, click.Choice) and rng.randrange(3):
        value = str(rng.choice(list(option.type.choices)))
    elif rng.randrange(2):
        value = rng.choice(TEXTS)
    else:
        value = mutate_text(rng.choice(TEXTS[:-3]), rng).replace("/", "")
    return [*line, name, value]


class Form(NamedTuple):
    """What a file is made of; ``mutate`` gets what ``read`` gives, as its own, and gives what ``write`` takes."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    mutate: Callable[[Any, Random], Any]


JSON = Form(json.loads, json.dumps, mutate_tree)
TOML = Form(tomllib.loads, tomli_w.dumps, mutate_tree)
LINES = Form(  # of JSON
    lambda text: [json.loads(line) for line in text.splitlines()],
    lambda lines: "".join(json.dumps(line) + "\n" for line in lines),
    mutate_tree,
)
TABLES = Form(str, str, mutate_tables)
BYTES = Form(str, str, mutate_bytes)
TEXT = Form(str, str, mutate_text)
