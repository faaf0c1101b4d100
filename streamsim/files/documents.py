"""Parsing of JSON and TOML documents into values; a fault in a document is an InputError of one line.

Nothing in a document is executed. An error names the document, the field, its value and the expected values. In TOML, a
number with a unit may also be a string with the unit: ``latency_s = "2.7us"``, ``bandwidth_bytes_per_s = "55.3GB/s"``.
The ending of the field's name says which units are possible.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
import tomli_w

from streamsim.errors import InputError
from streamsim.files.atomic_files import read_bytes
from streamsim.text import (
    LARGEST_TOML_BYTES,
    WORDS,
    check_listed,
    is_cut_short,
    mistaken_for,
    parser_for,
    shown,
    uncapitalised,
)

KNOWN = "streamsim init --schema says what is known"
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)

Value = TypeVar("Value", bound=msgspec.Struct)
Parsers = Mapping[type | str, Callable[[str, str], Any]]  # of text, by the type or the name of a field


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the plain table in a TOML file of a sweep's options. Raises InputError naming the file."""
    data = read_bytes(path, LARGEST_TOML_BYTES)
    if mistaken := mistaken_for("sweep", data):
        raise InputError(f"{path}: {mistaken}")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {_malformed(error)}") from None


def parse_toml(
    data: bytes,
    kind: type[Value],
    name: str,
    where: str,
    parsers: Parsers | None = None,
    prepared: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Value:
    """Return the value of type ``kind`` in a TOML document. Raises InputError whose message begins with ``where``.

    - ``name``: the kind of file, a key of ``WORDS``.
    - ``parsers``: parsers of text for a type or for a field's name. Other text is parsed by the unit in its name.
    - ``prepared``: a function that changes the plain table before it is converted.
    """
    try:
        return of_table(prepared(tomllib.loads(data.decode())), kind, parsers)
    except (ValueError, RecursionError) as error:
        expected = f"; expected {WORDS[name].partition(',')[0]}, in TOML"
        reason = str(error) if isinstance(error, InputError) else _malformed(error) + expected
        raise InputError(f"{where}: {mistaken_for(name, data) or reason}") from None


def of_table(plain: dict[str, Any], kind: type[Value], parsers: Parsers | None = None) -> Value:
    """Return the value of type ``kind`` in a plain table, with text as in :func:`parse_toml`. Raises InputError."""
    table = _numbers(plain, kind, "", parsers or {})
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InputError(_explain(error, table, kind)) from None


def dump_toml(value: msgspec.Struct) -> str:
    """Return ``value`` as TOML text."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return tomli_w.dumps({name: item for name, item in plain.items() if item is not None})  # TOML has no null


def _numbers(value: Any, kind: Any, path: str, parsers: Parsers) -> Any:
    """Return ``value``, which will become a ``kind``, with numbers in place of quantities such as "2.7us"."""
    if isinstance(value, list) and get_origin(kind) is tuple:
        return [_numbers(item, get_args(kind)[0], f"{path}[{i}]", parsers) for i, item in enumerate(value)]
    if get_origin(kind) is tuple:
        check_listed(path, value)
    if kind in parsers and type(value) in (str, int, float):
        return msgspec.to_builtins(parsers[kind](value, path))
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        kinds = {field.encode_name: _bare(field.type) for field in msgspec.structs.fields(kind)}
        return {k: _numbers(v, kinds.get(k), f"{path}.{k}".lstrip("."), parsers) for k, v in value.items()}
    if isinstance(value, dict) and get_origin(kind) is dict and get_args(kind)[1] is not float:  # of tables
        return {k: _numbers(v, get_args(kind)[1], f"{path}.{k}".lstrip("."), parsers) for k, v in value.items()}
    if isinstance(value, str) and {kind, *get_args(kind)} & {int, float}:
        name = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
        return parsers.get(name, parser_for(name))(value, path)
    return value


def _bare(kind: Any) -> Any:
    """Return a type without its ``Annotated`` declaration."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Raise InputError if an object has two values of one name; an ``object_pairs_hook`` of ``json.loads``."""
    if len(dict(pairs)) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{shown(twice)} stands twice in one object; keep one")


# Errors: msgspec gives the place ("$.ops[3].bytes"); the plain objects have the value.


def explain_json(error: ValueError | RecursionError, data: bytes, kind: type[msgspec.Struct]) -> str:
    """Return the line and column of a syntax error, or the field and value that are wrong for a ``kind``."""
    try:
        plain = json.loads(data.decode())
    except (ValueError, RecursionError) as slip:
        if isinstance(slip, json.JSONDecodeError) and slip.msg != "Extra data" and is_cut_short(data):
            return f"is cut short ({_malformed(slip)}); write it again"
        return _malformed(slip) + ("" if data.lstrip()[:1] in b"{[" else "; a schedule is a JSON object")
    return _explain(error, plain, kind) if isinstance(error, msgspec.ValidationError) else _malformed(error)


def _malformed(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start})"
    return f"cannot be read: {uncapitalised(str(error))}"


def _explain(error: msgspec.ValidationError, plain: Any, kind: type[msgspec.Struct]) -> str:
    """Return the reason why ``plain`` cannot become a ``kind``, as ``error`` says."""
    reason, _, place = str(error).partition(" - at `$")
    path, value, expected = _look_up(plain, kind, place.removesuffix("`"))
    if isinstance(error.__cause__, InputError):
        return f"{path}.{error.__cause__}".lstrip(".")
    if get_origin(expected) is Literal:
        return f"{path} = {shown(value)}: expected one of {', '.join(map(repr, get_args(expected)))}"
    field = _FIELD.match(reason)
    if field is None:
        remedy = f"; {KNOWN}" if reason.startswith("Invalid value") else ""
        return f"{path or 'the file'} = {shown(value)}: {uncapitalised(reason).replace('`', '')}{remedy}"
    name = f"{path}.{field.group(2)}".lstrip(".")
    if field.group(1) == "missing required":
        return f"{name}: is missing"
    known = [known.encode_name for known in _fields_of(expected)]
    nearest = get_close_matches(field.group(2).replace("-", "_"), known, n=1)
    hint = f"did you mean {nearest[0]}? {KNOWN}" if nearest else KNOWN
    return f"{name} = {shown(value.get(field.group(2)))}: unknown field; {hint}"


def _look_up(value: Any, kind: Any, place: str) -> tuple[str, Any, Any]:
    """Return the path to ``place`` in a ``value`` that should become a ``kind``, and the value and the type there.

    msgspec names no key of a table whose keys anyone may choose (``[...]``): it is that of the first bad value.
    """
    path = ""
    for name, index in _STEP.findall(place):
        if name:
            kind = next((_bare(field.type) for field in _fields_of(kind) if field.encode_name == name), None)
        else:
            kind = get_args(kind)[-1 if get_origin(kind) is dict else 0]
        if index == "...":
            name = next(key for key in value if not _is_a(kind, value[key]))
        value = value[name or int(index)]
        path += f".{name}" if name else f"[{index}]"
    return path.lstrip("."), value, kind


def _is_a(kind: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except ValueError:
        return False
    return True


def _fields_of(kind: Any) -> list[msgspec.structs.FieldInfo]:
    """Return the fields of a struct, or of all structs of a union; none for another type."""
    kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    structs = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return [field for struct in structs for field in msgspec.structs.fields(struct)]
