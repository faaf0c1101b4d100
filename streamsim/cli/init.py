"""Write a workload's file to begin with."""

import os
from pathlib import Path

import click

from streamsim.cli.brief_help import BriefCommand
from streamsim.cli.options import OUTPUT
from streamsim.cli.printing import print_object, tell
from streamsim.device import KINDS
from streamsim.device import schema as file_schema
from streamsim.errors import InputError
from streamsim.files import write_text

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
@click.option("--schema", type=click.Choice(tuple(KINDS)), help="Print the JSON Schema of such a file instead.")
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
