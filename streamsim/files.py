"""The files: schedules (JSON), workloads and devices (TOML).

``streamsim schema schedule|workload|device`` prints the exact form of each as a JSON Schema. In TOML a
number with a unit may also be a string with one: ``latency_s = "2.7us"``, ``inputs = ["64MiB"]``,
``bandwidth_bytes_per_s = "55.3GB/s"``; and a kernel may be what ``--kernel`` takes: ``"0.57ms,9us@64Ki"``.

Files are data. Nothing in one is executed, its size is checked before it is read, and a fault in it is an
InputError of one line: the file, the field, its value and what was expected. A file is written beside its
place and then put there in one step, so a failed write leaves what was there before.
"""

import json
import os
import re
import secrets
import shutil
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args, get_origin

import msgspec

from streamsim.device import Device
from streamsim.errors import InputError, Notice
from streamsim.kinds import mistaken_for
from streamsim.quantities import parse_bandwidth, parse_bytes, parse_count, parse_seconds, shown
from streamsim.schedule import Schedule
from streamsim.sizes import parse_kernel, parse_part
from streamsim.workload import Workload, WorkloadKernel

LARGEST_JSON_BYTES = 1 << 30
LARGEST_TOML_BYTES = 1 << 20
LONGEST_LINE = 500
ARRAYS = ("inputs", "outputs", "h2d_once", "d2h_once")  # of a workload: sizes
KINDS: dict[str, type[msgspec.Struct]] = {"schedule": Schedule, "workload": Workload, "device": Device}
# Numbers of profiles of earlier versions, whose effects the measured runs do not need: docs/design.md.
RETIRED = ("compute.switch_s", "hand_over.look_s", "hand_over.crowded_s")

T = TypeVar("T", bound=msgspec.Struct)


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """The schedule in a JSON file. Raises InputError naming the file, the field and the value."""
    return parse_schedule(_read(path, LARGEST_JSON_BYTES), one_line(str(path)))


def read_workload(path: str | os.PathLike[str]) -> Workload:
    """The workload in a TOML file. Raises InputError naming the file, the field and the value."""
    return _parse_toml(_read(path, LARGEST_TOML_BYTES), Workload, one_line(str(path)))


def read_device(path: str | os.PathLike[str]) -> Device:
    """The device profile in a TOML file. Raises InputError naming the file, the field and the value.

    Warns with a :class:`streamsim.errors.Notice` of numbers that profiles no longer have; without them it is the same.
    """
    return _parse_toml(_read(path, LARGEST_TOML_BYTES), Device, one_line(str(path)))


def write_schedule(schedule: Schedule, path: str | os.PathLike[str]) -> None:
    """Save ``schedule`` as JSON, one op a line. Raises InputError when the file cannot be written."""
    write_bytes(dump_schedule(schedule), path)


def write_workload(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Save ``workload`` as TOML. Raises InputError when the file cannot be written."""
    write_text(dump_workload(workload), path)


def write_device(device: Device, path: str | os.PathLike[str]) -> None:
    """Save ``device`` as TOML. Raises InputError when the file cannot be written."""
    write_text(dump_device(device), path)


def dump_schedule(schedule: Schedule) -> bytes:
    """``schedule`` as JSON in UTF-8, one op a line, the program that it was cut from on the last one."""
    encode = msgspec.json.Encoder().encode
    head = {
        name: getattr(schedule, name) for name in schedule.__struct_fields__[::-1] if name not in ("ops", "unchunked")
    }
    try:
        ops = b",\n".join(map(encode, schedule.ops))
        tail = b"" if schedule.unchunked is None else b',"unchunked":' + encode(schedule.unchunked)
        return encode(head)[:-1] + b',"ops":[\n' + ops + b"\n]" + tail + b"}\n"
    except UnicodeEncodeError as error:
        raise InputError(f"schedule: {shown(error.object)} is not text that UTF-8 can hold") from None


def dump_workload(workload: Workload) -> str:
    """``workload`` as TOML."""
    return _dump_toml(workload)


def dump_device(device: Device) -> str:
    """``device`` as TOML."""
    return _dump_toml(device)


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a ``schedule``, ``workload`` or ``device`` file."""
    if kind not in KINDS:
        raise InputError(f"kind = {shown(kind)}: expected one of {', '.join(KINDS)}")
    exact = msgspec.json.schema(KINDS[kind])
    return exact if kind == "schedule" else _or_text(exact)


def _or_text(node: Any) -> Any:
    """A schema with text, such as ``"64MiB"``, in place of each number and kernel of a table, as TOML files may."""
    if isinstance(node, list):
        return [_or_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("integer", "number"):
        return {**node, "type": [node["type"], "string"]}
    if node.get("$ref") == f"#/$defs/{WorkloadKernel.__name__}":
        return {"anyOf": [node, {"type": "string"}]}
    as_it_is = ("default", "additionalProperties")  # of a spread: names are anybody's, and numbers are numbers
    return {key: value if key in as_it_is else _or_text(value) for key, value in node.items()}


def parse_schedule(data: bytes, where: str = "schedule") -> Schedule:
    """The schedule that the JSON ``data`` holds; ``where`` begins the message of the InputError it may raise."""
    try:
        schedule = msgspec.json.decode(data, type=Schedule)
        if dump_schedule(schedule) != data:  # a file as we write it names nothing twice
            json.loads(data, object_pairs_hook=_refuse_duplicates)
        return schedule
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, InputError) else _explain_json(error, data)
        raise InputError(one_line(f"{where}: {mistaken_for('schedule', data) or reason}")) from None


def parse_workload(text: str | bytes, where: str = "workload") -> Workload:
    """The workload that the TOML ``text`` holds; ``where`` begins the message of the InputError it may raise."""
    return _parse_toml(text.encode() if isinstance(text, str) else text, Workload, where)


def parse_device(text: str | bytes, where: str = "device") -> Device:
    """The profile that the TOML ``text`` holds; ``where`` begins the message of the InputError it may raise."""
    return _parse_toml(text.encode() if isinstance(text, str) else text, Device, where)


def one_line(text: str) -> str:
    """``text`` fit for one line of a terminal: what cannot be printed is escaped, what is too long is cut."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: LONGEST_LINE + 1])
    return safe if len(safe) <= LONGEST_LINE else f"{safe[: LONGEST_LINE - 3]}..."


# Reading


def _read(path: str | os.PathLike[str], most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise InputError(one_line(f"{path}: is not a regular file"))
            data = b"" if status.st_size > most else file.read(most + 1)  # a pipe has no size
    except (OSError, ValueError) as error:
        raise file_error(path, error, "read") from None
    if status.st_size > most or len(data) > most:
        raise InputError(one_line(f"{path}: is larger than {most} bytes, the largest file of its kind"))
    return data


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The plain table in a TOML file of a sweep's options. Raises InputError naming the file."""
    data = _read(path, LARGEST_TOML_BYTES)
    if mistaken := mistaken_for("sweep", data):
        raise InputError(one_line(f"{path}: {mistaken}"))
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(one_line(f"{path}: {_malformed(error)}")) from None


def file_error(path: str | os.PathLike[str], error: OSError | ValueError, verb: str) -> InputError:
    """The error of one line for a file that could not be read or written (``verb``)."""
    if isinstance(error, InputError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return InputError(one_line(f"{path}: cannot {verb} it: {_lower(reason)}"))


def _parse_toml(data: bytes, kind: type[T], where: str) -> T:
    try:
        plain = tomllib.loads(data.decode())
        plain, retired = without_retired(plain) if kind is Device else (plain, [])
        numbers = _numbers(plain, kind, "")
        value = msgspec.convert(numbers, kind)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, InputError) else ""
        reason = reason or (_explain(error, plain) if isinstance(error, msgspec.ValidationError) else _malformed(error))
        name = next(name for name, of in KINDS.items() if of is kind)
        raise InputError(one_line(f"{where}: {mistaken_for(name, data) or reason}")) from None
    if retired:
        text = f"{where}: {', '.join(retired)}: no longer part of a profile, left out"
        warnings.warn(text, Notice, stacklevel=3)
    return value


def without_retired(profile: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A profile as plain data without what profiles no longer have, its sources and its spread; the names of that."""
    plain, dropped = dict(profile), []
    for name in RETIRED:
        part, _, field = name.partition(".")
        for table, key in ((part, field), ("sources", name), ("spread", name)):
            if isinstance(plain.get(table), dict) and key in plain[table]:
                plain[table] = {own: value for own, value in plain[table].items() if own != key}
                dropped.append(name)
    return plain, list(dict.fromkeys(dropped))


def _numbers(value: Any, kind: Any, path: str) -> Any:
    """``value``, meant to become a ``kind``, with numbers in place of quantities such as "2.7us"."""
    if isinstance(value, list) and get_origin(kind) is tuple:
        return [_numbers(item, get_args(kind)[0], f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, str) and kind is WorkloadKernel:
        return msgspec.to_builtins(parse_kernel(value, path))
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        return {k: _numbers(v, kinds.get(k), f"{path}.{k}".lstrip(".")) for k, v in value.items()}
    if isinstance(value, str) and {kind, *get_args(kind)} & {int, float}:
        return _quantity(value, path)
    return value


def _quantity(text: str, path: str) -> float:
    parser: Callable[..., float]
    name = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    if name.endswith("_bytes_per_s"):
        return parse_bandwidth(text, path)
    if name.endswith("_s"):
        return parse_seconds(text, path)
    if name == "at":
        return parse_part(text, path)
    parser = parse_bytes if name.endswith("bytes") or name in ARRAYS else parse_count
    return parser(text, path, least=0)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{shown(twice)} stands twice in one object; keep one")


# Errors: msgspec says where ("$.ops[3].bytes"); the plain objects say what stands there.

KNOWN = "streamsim schema says what is known"
_PLACE = re.compile(r" - at (?:`(key)` in )?`\$([^`]*)`$")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`$", re.DOTALL)


def _explain_json(error: ValueError | RecursionError, data: bytes) -> str:
    """Name the line and column of a slip, as json knows them, or the field and value that msgspec refused."""
    try:
        plain = json.loads(data.decode())
    except (ValueError, RecursionError) as slip:
        return _malformed(slip) + ("" if data.lstrip()[:1] in b"{[" else "; a schedule is a JSON object")
    return _explain(error, plain) if isinstance(error, msgspec.ValidationError) else _malformed(error)


def _malformed(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start})"
    return f"cannot be read: {_lower(str(error))}"


def _explain(error: msgspec.ValidationError, plain: Any) -> str:
    place = _PLACE.search(str(error))
    reason = str(error)[: place.start()] if place else str(error)
    path, value = _look_up(plain, place.group(2) if place else "", reason)
    if isinstance(error.__cause__, InputError):
        return f"{path}.{error.__cause__}".lstrip(".")
    field = _FIELD.match(reason)
    if field is None:
        remedy = f"; {KNOWN}" if reason.startswith("Invalid value") else ""
        return f"{path or 'the file'} = {shown(value)}: {_lower(reason).replace('`', '')}{remedy}"
    name = f"{path}.{field.group(2)}".lstrip(".")
    if field.group(1) == "missing required":
        return f"{name}: is missing"
    return f"{name} = {shown(value.get(field.group(2)))}: unknown field; {KNOWN}"


def _look_up(value: Any, place: str, reason: str) -> tuple[str, Any]:
    """The path to ``place`` without msgspec's ``$`` and ``[...]`` ("some key"), and what stands there."""
    path = ""
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", place):
        if index == "...":
            name = _misfit(value, reason)
        value = value[name] if name else value[int(index)]
        path += f".{name}" if name else f"[{index}]"
    return path.lstrip("."), value


def _misfit(table: dict[str, Any], reason: str) -> str:
    """The first key whose value is not what msgspec expected of every value of the table."""
    fits: tuple[type, ...] = (str,) if reason.startswith("Expected `str`") else (int, float)
    return next(key for key, value in table.items() if not isinstance(value, fits) or isinstance(value, bool))


def _lower(text: str) -> str:
    """Without the capital of a sentence; ``JSON`` keeps its own."""
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


# Writing


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write ``text`` as UTF-8, whole or not at all. Raises InputError when it cannot be written."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{shown(error.object)} is not text that UTF-8 can hold") from None
    write_bytes(data, path)


def write_bytes(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write ``data``, whole or not at all. Raises InputError when it cannot be written."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` when the block ends without an error.

    Anything but a regular file (``/dev/stdout``, a pipe) is written to as it is. Raises InputError when
    the file cannot be written.
    """
    try:
        special = Path(path).exists() and not Path(path).is_file()
        target = Path(os.path.realpath(path))  # the file that a link stands for, not the link
    except (OSError, ValueError) as error:
        raise file_error(path, error, "write") from None
    try:
        with open(path, "wb") if special else _beside(target) as file:
            yield file
    except OSError as error:
        raise file_error(path, error, "write") from None


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    temporary = target.parent / f".streamsim-{secrets.token_hex(6)}"
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is write-protected")
    try:
        with open(temporary, "xb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _dump_toml(value: msgspec.Struct) -> str:
    import tomli_w

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return tomli_w.dumps({name: item for name, item in plain.items() if item is not None})  # TOML has no null
