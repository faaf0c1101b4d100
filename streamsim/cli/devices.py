"""The device profiles, and the JSON Schemas of the files."""

from pathlib import Path
from typing import Any

import click

from streamsim.answer import Answer
from streamsim.cli.options import FILE, complete_device, format_options
from streamsim.cli.printing import emit, print_data, tell
from streamsim.device import (
    Device,
    device_names,
    dump_device,
    link_words,
    load_device,
    own_device_names,
    read_device,
)
from streamsim.report import Table
from streamsim.text import counted, format_bytes


@click.group("devices", invoke_without_command=True)
@format_options
@click.pass_context
def devices(context: click.Context) -> None:
    """List the shipped device profiles and your own, show one, or check a file.

    A profile of your own is found by its name where its file is in ~/.config/streamsim/devices (XDG_CONFIG_HOME;
    Application Support on macOS; AppData on Windows).

    \b
    Examples:
      streamsim devices
      streamsim devices show h200
    """  # noqa: D301 - click wants the backspace itself
    if context.invoked_subcommand is None:
        rows = [_device_row(name, load_device(name)) for name in (*device_names(), *own_device_names())]
        table = Table("", (tuple(map(_cells, rows)),), ("name", "memory", "description"), whole=frozenset({0, 1}))
        links = Table("Links", (tuple((row["name"], row["link"]) for row in rows),))
        title = counted(len(rows), "device profile")
        emit(Answer(title, tables=(table,), more=(links,), data={"devices": rows}))


@devices.command("show")
@click.argument("name", shell_complete=complete_device)
def show_device(name: str) -> None:
    """Print a profile as TOML, ready to be edited; every number says where it comes from."""
    print_data(dump_device(load_device(name)).encode())


@devices.command("check")
@click.argument("file", metavar="FILE.toml", type=FILE)
def check_device(file: Path) -> None:
    """Check a profile; an error names the field, its value and what was expected."""
    device = read_device(file)
    tell(f"{file}: ok: {device.name}, {device.description}")


def _device_row(name: str, device: Device) -> dict[str, Any]:
    return {
        "name": name,
        "description": device.description,
        "copy_engines": device.copy_engines.count,
        "connections": device.connections,
        "h2d_bytes_per_s": device.h2d.bandwidth_bytes_per_s,
        "d2h_bytes_per_s": device.d2h.bandwidth_bytes_per_s,
        "memory_bytes": device.memory_bytes,
        "link": link_words(device),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    memory = format_bytes(row["memory_bytes"]) if row["memory_bytes"] else ""
    return row["name"], memory, row["description"]
