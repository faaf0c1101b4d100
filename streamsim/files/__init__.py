"""Files read up to a size and written whole or not at all, and JSON and TOML whose faults are errors of one line.

A file's size is checked before it is read. A file is written under another name in the same folder and then renamed in
one step, so a failed write leaves the old file.

Nothing in a document is executed. An error names the document, the field, its value and the expected values. In TOML, a
number with a unit may also be a string with the unit: ``latency_s = "2.7us"``, ``bandwidth_bytes_per_s = "55.3GB/s"``.
The ending of the field's name says which units are possible.
"""

import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from gzip import GzipFile
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Literal, TypeVar, get_args, get_origin

import msgspec
import tomli_w

from streamsim.errors import InputError, one_line, shown, uncapitalised
from streamsim.text import LARGEST_TOML_BYTES, WORDS, check_listed, mistaken_for, parser_for

GZIP_LEVEL = 6
KNOWN = "streamsim init --schema says what is known"
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)

Value = TypeVar("Value")
Parsers = Mapping[type | str, Callable[[str, str], Any]]  # of text, by the type or the name of a field


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file or pipe of at most ``most`` bytes. Raises InputError naming the file."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise InputError(f"{path}: is not a regular file; give a file or a pipe")
            data = b"" if status.st_size > most else file.read(most + 1)  # a pipe has no size
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    if status.st_size > most or len(data) > most:
        raise InputError(f"{path}: is larger than {most} bytes, the largest file of its kind")
    return data


def file_error(path: str | os.PathLike[str], error: OSError | ValueError, verb: str) -> InputError:
    """Return an error of one line for a file that could not be read or written; ``verb``: "read" or "write"."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    remedy = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
    return InputError(f"{path}: cannot {verb} it: {uncapitalised(reason)}{remedy}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a file can be written at ``path``; long commands check this before they measure."""
    if "\0" in str(path):
        raise InputError(f"{path}: cannot write it: embedded null byte")
    folder = Path(os.path.realpath(path)).parent  # of the file that a link leads to
    if not os.path.isdir(folder):
        raise InputError(f"{path}: there is no folder {str(folder)!r}; make it, or choose another output")
    if os.path.isdir(path):
        raise InputError(f"{path}: is a folder; name a file in it")
    is_there = os.path.exists(path)
    is_replaced = os.path.isfile(path) or not is_there  # else it is a pipe or a device
    if (is_replaced and not os.access(folder, os.W_OK)) or (is_there and not os.access(path, os.W_OK)):
        raise InputError(f"{path}: cannot write it: no permission; choose another output")


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write ``text`` as UTF-8, whole or not at all. Raises InputError if the file cannot be written."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{shown(error.object)} is not text that UTF-8 can hold") from None
    write_bytes(data, path)


def write_bytes(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write ``data``, whole or not at all. Raises InputError if the file cannot be written."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path`` when the block ends without an error.

    If ``path`` exists and is not a regular file (``/dev/stdout``, a pipe), it is written directly. Raises InputError if
    the file cannot be written.
    """
    try:
        special = Path(path).exists() and not Path(path).is_file()
        target = Path(os.path.realpath(path))  # the file that a link leads to
    except (OSError, ValueError) as error:
        raise file_error(path, error, "write") from None
    try:
        with open(path, "wb") if special else _beside(target) as file:
            yield file
    except OSError as error:
        raise file_error(path, error, "write") from None


@contextmanager
def replacing_packed(path: str | os.PathLike[str]) -> Iterator[BinaryIO | GzipFile]:
    """Yield a file as :func:`replacing` does, packed with gzip if the name ends in ``.gz``.

    Equal content gives equal bytes.
    """
    with replacing(path) as file:
        if Path(path).suffix.lower() != ".gz":
            yield file
            return
        with GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as packed:
            yield packed


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    temporary = target.parent / f".streamsim-{os.urandom(6).hex()}"
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is write-protected")
    try:
        with open(temporary, "xb") as file:
            yield file
        if target.exists():
            old = target.stat()
            with suppress(OSError, AttributeError):  # root may give a file away, and Windows has no owners
                os.chown(temporary, old.st_uid, old.st_gid)
            shutil.copymode(target, temporary)  # last: a new owner takes set-uid bits away
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


# Documents


def toml_of(path: str | os.PathLike[str]) -> tuple[bytes, str]:
    """Return the content of a TOML file, and its name in messages: the first arguments of :func:`parse_toml`."""
    return read_bytes(path, LARGEST_TOML_BYTES), one_line(str(path))


def parse_toml(
    text: str | bytes,
    where: str,
    kind: type[Value],
    name: str,
    parsers: Parsers | None = None,
    prepared: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Value:
    """Return the value of type ``kind`` in a TOML document. Raises InputError whose message begins with ``where``.

    - ``name``: the kind of file, a key of ``WORDS``.
    - ``parsers``: parsers of text for a type or for a field's name. Other text is parsed by the unit in its name.
    - ``prepared``: a function that changes the plain table before it is converted.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        return converted(prepared(tomllib.loads(data.decode())), kind, parsers or {})
    except (ValueError, RecursionError) as error:
        expected = f"; expected {WORDS[name].partition(',')[0]}, in TOML"
        reason = str(error) if isinstance(error, InputError) else _malformed(error) + expected
        raise InputError(f"{where}: {mistaken_for(name, data) or reason}") from None


def converted(table: dict[str, Any], kind: type[Value], parsers: Parsers) -> Value:
    """Return the value of type ``kind`` in a plain table of TOML. Raises InputError naming the field and its value."""
    plain = _numbers(table, kind, "", parsers)
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise InputError(_explain(error, plain, kind)) from None


def dump_toml(value: msgspec.Struct) -> str:
    """Return ``value`` as TOML text."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return tomli_w.dumps({name: item for name, item in plain.items() if item is not None})  # TOML has no null


def write_toml(value: msgspec.Struct, path: str | os.PathLike[str]) -> None:
    """Save ``value`` as TOML. Raises InputError if the file cannot be written."""
    write_text(dump_toml(value), path)


def _numbers(value: Any, kind: Any, path: str, parsers: Parsers) -> Any:
    """Return ``value``, which will become a ``kind``, with numbers in place of quantities such as "2.7us"."""
    kind = _bare(kind)
    if isinstance(value, list) and get_origin(kind) is tuple:
        return [_numbers(item, get_args(kind)[0], f"{path}[{i}]", parsers) for i, item in enumerate(value)]
    if get_origin(kind) is tuple:
        check_listed(path, value)
    if kind in parsers and type(value) in (str, int, float):
        return msgspec.to_builtins(parsers[kind](value, path))
    if isinstance(value, dict) and kind is not None:  # unknown tables may be nested as deeply as Python recurses
        kinds = {field.encode_name: field.type for field in _fields_of(kind)}
        others = get_args(kind)[1] if get_origin(kind) is dict and get_args(kind)[1] is not float else None
        return {k: _numbers(v, kinds.get(k, others), f"{path}.{k}".lstrip("."), parsers) for k, v in value.items()}
    if isinstance(value, str) and {*map(_bare, (kind, *get_args(kind)))} & {int, float}:
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
        return f"{_malformed(slip)}; a schedule is one whole JSON object; write it again"
    return _explain(error, plain, kind) if isinstance(error, msgspec.ValidationError) else _malformed(error)


def _malformed(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start})"
    return f"cannot be read: {uncapitalised(str(error))}"


def _explain(error: msgspec.ValidationError, plain: Any, kind: type) -> str:
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
    fields = [known.encode_name for known in _fields_of(expected)]
    nearest = get_close_matches(field.group(2).replace("-", "_"), fields, n=1)
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
