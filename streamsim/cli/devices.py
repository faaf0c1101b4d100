"""The device profiles, and the JSON Schemas of the files."""

from pathlib import Path
from typing import Any

import click

from streamsim.cli.options import FILE, complete_device, format_options
from streamsim.cli.printing import print_csv, print_data, print_json, print_object, tell
from streamsim.device.assumptions import link_words
from streamsim.device.files import dump_device, read_device
from streamsim.device.library import device_names, load_device
from streamsim.device.profile import Device
from streamsim.device.schemas import KINDS
from streamsim.device.schemas import schema as file_schema
from streamsim.text.quantities import format_bytes


@click.group("devices", invoke_without_command=True)
@format_options
@click.pass_context
def devices(context: click.Context, form: str) -> None:
    """List the shipped device profiles, show one, or check a file."""
    if context.invoked_subcommand is None:
        _print_devices([_device_row(load_device(name)) for name in device_names()], form)


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


@click.command("schema")
@click.argument("kind", type=click.Choice(tuple(KINDS)))
def schema_command(kind: str) -> None:
    """Print the JSON Schema of a schedule (JSON), workload, layers or device (TOML) file."""
    print_object(file_schema(kind))


def _device_row(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "description": device.description,
        "copy_engines": device.copy_engines.count,
        "connections": device.connections,
        "h2d_bytes_per_s": device.h2d.bandwidth_bytes_per_s,
        "d2h_bytes_per_s": device.d2h.bandwidth_bytes_per_s,
        "memory_bytes": device.memory_bytes,
        "link": link_words(device),
    }


def _print_devices(rows: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        return print_json({"devices": rows})
    if form == "csv":
        return print_csv(rows)
    from streamsim.cli.consoles import open_console
    from streamsim.report.tables import Table

    memory = [format_bytes(row["memory_bytes"]) if row["memory_bytes"] else "" for row in rows]
    cells = ((row["name"], held, row["link"], row["description"]) for row, held in zip(rows, memory, strict=True))
    heads = ("name", "memory", "link", "description")
    return open_console().print(Table("", (tuple(cells),), heads, whole=frozenset({0, 1})))
