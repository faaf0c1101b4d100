"""Commands for files: a new workload's, device profiles, and races in a schedule."""

import os
from pathlib import Path
from typing import Any

import click

from streamsim.answer import Answer, findings_answer
from streamsim.cli.options import FILE, OUTPUT, complete_device, format_options, option, part_options
from streamsim.cli.printing import emit, print_data, print_object
from streamsim.cli.running import BriefCommand, tell
from streamsim.cli.work import read_given
from streamsim.device import KINDS, Device, device_names, link_words, load_device, read_device
from streamsim.device import schema as file_schema
from streamsim.errors import FOUND, OK, InputError, counted
from streamsim.files import dump_toml, write_text
from streamsim.program import write_schedule
from streamsim.races import check, repaired
from streamsim.report import Table
from streamsim.text import format_bytes

WORKLOAD = """\
# What a program copies and runs, and how to cut, issue and predict it. Options on a command line win over this file.
#     streamsim predict {name}        streamsim best {name}        streamsim sweep {name} --chunks 1..64

inputs = ["64MiB"]  # arrays that are copied to the card, a chunk at a time
outputs = ["64MiB"]  # arrays that are copied back
kernels = ["0.57ms"]  # each over all of the work, alone on the card
# elements = 64  # inputs and outputs are then the bytes of an element, and chunks are whole elements
# h2d_once = ["16MiB"]  # arrays that are copied once, before the first chunk
# d2h_once = ["4KiB"]  # arrays that are copied back once, after the last chunk
# host_work_s = "1ms"  # what the host does before it issues each chunk
# in_order = false  # true: chunks need each other's result, as training steps do

chunks = 16
streams = 4
# order = "depth-first"  # or breadth-first, serial, relay, prefetch
# buffers = 4  # device buffers that chunks use in turn
# memory = "pinned"  # or pageable
# launch = "live"  # or graph

device = "h200"  # a name that streamsim devices lists, or a file
# front_end = "cupy"  # what the program is written in: cupy, pytorch, cuda-c++
# measured = "1.6ms"  # explain then says which mistake makes it take so long
"""


@click.command("init", cls=BriefCommand)
@click.argument("file", metavar="[WORKLOAD.toml]", type=OUTPUT, default="workload.toml")
@option("--schema", "Print the JSON Schema of such a file instead.", click.Choice(tuple(KINDS)))
def init_command(file: Path, schema: str | None) -> None:
    """Write a workload's file with every setting explained, to edit. A file that is there stays as it is.

    \b
    Example:
      streamsim init workload.toml
      streamsim predict workload.toml
      streamsim init --schema workload

    Exit codes: 0 ok, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    if schema is not None:
        return print_object(file_schema(schema))
    if os.path.lexists(file):
        raise InputError(f"{file}: is there already; give another name")
    write_text(WORKLOAD.format(name=file.name), file)
    return tell(f"{file}: edit it, then: streamsim predict {file}")


@click.group("devices", invoke_without_command=True)
@format_options
@click.pass_context
def devices(context: click.Context) -> None:
    """List the shipped device profiles, show one, or check a file.

    \b
    Examples:
      streamsim devices
      streamsim devices show h200
    """  # noqa: D301 - click wants the backspace itself
    if context.invoked_subcommand is None:
        rows = [_device_row(name, load_device(name)) for name in device_names()]
        table = Table("", (tuple(map(_cells, rows)),), ("name", "memory", "description"), whole=frozenset({0, 1}))
        links = Table("Links", (tuple((row["name"], row["link"]) for row in rows),))
        title = counted(len(rows), "device profile")
        emit(Answer(title, tables=(table,), more=(links,), data={"devices": rows}))


@devices.command("show")
@click.argument("name", shell_complete=complete_device)
def show_device(name: str) -> None:
    """Print a profile as TOML, ready to be edited; every number says where it comes from."""
    print_data(dump_toml(load_device(name)).encode())


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


@click.command("check", cls=BriefCommand)
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@format_options
@part_options
@option("--fix", "Save the schedule with the waits that its races lack.", OUTPUT)
def check_command(schedule: Path, fix: Path | None) -> int:
    """Find races in a schedule, and events and waits that do not do what they seem to.

    \b
    Errors: two ops touch the same bytes of a buffer, one of them writes, and nothing orders them.
    Warnings: a wait for an event not recorded before; a copy to the host that the host never waits for;
    a wait that changes nothing.

    Each race comes with the wait that is missing; what only follows from it is not reported again.

    \b
    Examples:
      streamsim check schedule.json
      streamsim check schedule.json --json
      streamsim check schedule.json --fix fixed.json

    Exit codes: 0 nothing found, 1 something found, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself
    program = read_given(schedule).schedule
    findings = check(program)
    if fix is not None:
        write_schedule(repaired(program, findings), fix)
    emit(findings_answer(program, findings, schedule))
    return FOUND if findings else OK
