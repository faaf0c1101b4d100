"""Files of a model's layers: TOML with ``[[layers]]``, or CSV with one layer in each line under the column names.

``streamsim schema layers`` prints the exact form. Sizes and times may be text with a unit, ``"400MB"``, and a kernel
may be what ``--kernel`` takes. Semicolons separate several kernels in a cell of a CSV file.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from streamsim.errors import InputError
from streamsim.files import dump_toml, of_table, parse_toml, read_bytes, write_text
from streamsim.program.layers import Layer, Layers
from streamsim.program.workload_text import OF_KERNELS
from streamsim.text import LARGEST_TOML_BYTES, one_line, shown

CSV = ".csv"
COLUMNS = Layer.__struct_fields__
NEEDED = tuple(field.name for field in msgspec.structs.fields(Layer) if field.required)
BETWEEN_KERNELS = ";"


def read_layers(path: str | os.PathLike[str]) -> Layers:
    """Return the layers in a TOML file, or in a CSV file named .csv. Raises InputError naming the place."""
    data, where = read_bytes(path, LARGEST_TOML_BYTES), one_line(str(path))
    return parse_layers_csv(data, where) if Path(path).suffix.lower() == CSV else parse_layers(data, where)


def write_layers(layers: Layers, path: str | os.PathLike[str]) -> None:
    """Save ``layers`` as TOML. Raises InputError if the file cannot be written."""
    write_text(dump_layers(layers), path)


def dump_layers(layers: Layers) -> str:
    """Return ``layers`` as TOML."""
    return dump_toml(layers)


def parse_layers(text: str | bytes, where: str = "layers") -> Layers:
    """Return the layers in the TOML ``text``. Raises InputError that begins with ``where``."""
    return parse_toml(text.encode() if isinstance(text, str) else text, Layers, "layers", where, OF_KERNELS)


def parse_layers_csv(text: str | bytes, where: str = "layers") -> Layers:
    """Return the layers in CSV ``text``, as spreadsheets write it. Raises InputError that begins with ``where``."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return Layers(tuple(_layers(decoded.removeprefix("\ufeff"))))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 text (byte {error.start})") from None
    except InputError as error:
        raise InputError(one_line(f"{where}: {error}")) from None


def _layers(text: str) -> Iterator[Layer]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] = []
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if names:
                yield _layer(names, cells, rows.line_num)
            else:
                names = _columns(cells, rows.line_num)
    except csv.Error as error:
        raise InputError(f"line {rows.line_num}: cannot be read as CSV: {error}") from None
    if not names:
        raise InputError(f"is empty; expected a line with the columns {', '.join(COLUMNS)}")


def _columns(cells: list[str], line: int) -> list[str]:
    known = f"expected {', '.join(COLUMNS)}, separated by commas"
    for name in cells:
        if name not in COLUMNS:
            raise InputError(f"line {line}: column {shown(name)} is unknown; {known}")
        if cells.count(name) > 1:
            raise InputError(f"line {line}: column {name} stands twice; keep one")
    for name in NEEDED:
        if name not in cells:
            raise InputError(f"line {line}: column {name} is missing; {known}")
    return cells


def _layer(names: list[str], cells: list[str], line: int) -> Layer:
    if len(cells) > len(names) and any(cells[len(names) :]):
        raise InputError(
            f"line {line}: {len(cells)} cells under {len(names)} columns; write a cell that holds a comma in quotes"
        )
    plain: dict[str, Any] = {name: cell for name, cell in zip(names, cells, strict=False) if cell}
    for column in plain.keys() & {"kernels", "backward"}:
        plain[column] = [text for text in map(str.strip, plain[column].split(BETWEEN_KERNELS)) if text]
    try:
        return of_table(plain, Layer, OF_KERNELS)
    except InputError as error:
        raise InputError(f"line {line}: {error}") from None
