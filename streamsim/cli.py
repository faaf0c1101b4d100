"""The ``streamsim`` command: parse, call, print.

Exit codes: 0 ok, 1 a tolerance failed, 2 usage or bad input (one line on stderr); 3 is the validator's "no GPU".
"""

import json
import math
import os
import sys
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
import msgspec

from streamsim.device import Device
from streamsim.devices import device_names, load_device
from streamsim.errors import InputError
from streamsim.files import (
    KINDS,
    dump_device,
    dump_schedule,
    one_line,
    read_device,
    read_schedule,
    read_workload,
    write_bytes,
)
from streamsim.files import schema as file_schema
from streamsim.patterns import HostMemory, Order, Workload, WorkloadKernel, build, serial
from streamsim.quantities import parse_bytes, parse_count, parse_seconds
from streamsim.schedule import Launch, Schedule

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from streamsim.report import Prediction

OK, BAD_INPUT, INTERRUPTED = 0, 2, 130
BYTES_PER_ELEMENT = 4
ELEMENTS_WITHOUT_ARRAYS = 1 << 20
SHORTEST_KERNEL_S = 1e-9
MOST_CHUNKS = 1_000_000  # a schedule of a million chunks takes some 2 GB; more is a slip of the keyboard
FORMATS = ("table", "json", "csv")

Command = TypeVar("Command", bound=Callable[..., Any])


def main(arguments: list[str] | None = None) -> int:
    """Run the command with ``arguments`` (default: those of the process) and return its exit code."""
    try:
        code = app.main(arguments, prog_name="streamsim", standalone_mode=False)
        return _flushed(code if isinstance(code, int) else OK)
    except click.ClickException as error:
        return _complain(_usage(error))
    except InputError as error:
        return _complain(str(error))
    except MemoryError:
        return _complain("not enough memory for a schedule of this size; use fewer chunks")
    except (BrokenPipeError, SystemExit):  # nobody reads our output (click then exits), or a word was completed
        return _flushed(OK)
    except OSError as error:  # no room for our output, say
        return _flushed(_complain(str(error)))
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED


def _flushed(code: int) -> int:
    """Send what is left of the output; what cannot be sent is dropped, so that the interpreter does not try again."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code if code or isinstance(error, BrokenPipeError) else _complain(str(error))
    return code


def _complain(message: str) -> int:
    print(f"streamsim: error: {one_line(message)}", file=sys.stderr)
    return BAD_INPUT


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} Try {context.command_path} --help" if context else message


# Options


class _Quantity(click.ParamType):  # type: ignore[type-arg]  # generic in new versions of click only
    """A size, time or count; what is wrong with it is an InputError that names the option."""

    def __init__(self, name: str, parse: Callable[[str, str], float]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 - click calls it so
        return self.parse(value, param.opts[-1] if param else self.name) if isinstance(value, str) else value


class _File(click.Path):
    """A path that is looked at when it is used; then its errors are InputErrors."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)


FILE = _File()
SIZE = _Quantity("size", parse_bytes)
TIME = _Quantity("time", partial(parse_seconds, least=SHORTEST_KERNEL_S))
COUNT = _Quantity("count", parse_count)
CHUNKS = _Quantity("count", partial(parse_count, most=MOST_CHUNKS))


def _complete_device(_context: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem | str]":
    return [name for name in device_names() if name.startswith(incomplete)]


def _all(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def _format_options(command: Command) -> Command:
    return _all(
        click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="How to print it."),
        click.option("--json", "form", flag_value="json", help="The same as --format json."),
    )(command)


_pipeline_options = _all(
    click.argument("workload", metavar="[WORKLOAD.toml]", type=FILE, required=False),
    click.option("--h2d", type=SIZE, multiple=True, help="Size of an input array, such as 64MiB. Repeatable."),
    click.option(
        "--kernel", type=TIME, multiple=True, help="Time of a kernel over all elements, such as 0.57ms. Repeatable."
    ),
    click.option("--d2h", type=SIZE, multiple=True, help="Size of an output array. Repeatable."),
    click.option(
        "--elements",
        type=COUNT,
        help="Number of elements, such as 16Mi. Default: the greatest common divisor of the sizes, as elements of"
        " 4 bytes where it divides by 4; 1Mi without arrays.",
    ),
    click.option("--chunks", type=CHUNKS, default=1, show_default=True, help="Cut the workload into this many chunks."),
    click.option("--streams", type=CHUNKS, default=1, show_default=True, help="Chunk i runs in stream i mod this."),
    click.option(
        "--order",
        type=click.Choice(get_args(Order)),
        default="depth-first",
        show_default=True,
        help="Issue chunk by chunk, stage by stage, or as a program that waits for every copy.",
    ),
    click.option(
        "--buffers", type=CHUNKS, help="Device buffers used in turn (2: double buffering). Default: no buffer twice."
    ),
    click.option("--memory", type=click.Choice(get_args(HostMemory)), default="pinned", show_default=True),
    click.option(
        "--launch",
        type=click.Choice(get_args(Launch)),
        default="live",
        show_default=True,
        help="The host issues every op, or launches one CUDA graph.",
    ),
)

_device_options = _all(
    click.option(
        "--device",
        default="h200",
        show_default=True,
        shell_complete=_complete_device,
        help="A shipped profile (streamsim devices) or a TOML file.",
    ),
    click.option("--connections", type=int, help="Hardware queues, 1 to 32, in place of the profile's number."),
)

_output_options = _all(
    _format_options,
    click.option("--plot", type=FILE, help="Save the Gantt chart: a .png, .svg or .pdf file."),
    click.option("--trace", type=FILE, help="Save a trace for Perfetto or chrome://tracing."),
)


class Pipeline(msgspec.Struct, frozen=True):
    """The options that describe a workload and how it is cut and issued; sizes in bytes, times in seconds."""

    workload: Path | None
    h2d: tuple[int, ...]
    kernel: tuple[float, ...]
    d2h: tuple[int, ...]
    elements: int | None
    chunks: int
    streams: int
    order: Order
    buffers: int | None
    memory: HostMemory
    launch: Launch

    def load(self) -> Workload:
        """The workload, from its file or from sizes and times."""
        if self.workload is None:
            return _workload(self.h2d, self.kernel, self.d2h, self.elements)
        if self.h2d or self.kernel or self.d2h or self.elements:
            raise InputError(f"{self.workload}: give a workload file or --h2d, --kernel, --d2h, --elements, not both")
        return read_workload(self.workload)

    def schedule(self, workload: Workload) -> Schedule:
        """``workload`` in the pattern that the options name."""
        return build(workload, self.order, self.chunks, self.streams, self.buffers, self.memory, self.launch)

    def inputs(self, workload: Workload) -> dict[str, Any]:
        """What was asked, as plain numbers and strings."""
        names = ("chunks", "streams", "order", "buffers", "memory", "launch")
        sizes = {"h2d_bytes": workload.h2d_bytes, "d2h_bytes": workload.d2h_bytes}
        return {"workload": msgspec.to_builtins(workload), **sizes, **{name: getattr(self, name) for name in names}}


def _workload(h2d: tuple[int, ...], kernels: tuple[float, ...], d2h: tuple[int, ...], given: int | None) -> Workload:
    """The workload of arrays of these sizes and kernels of these times."""
    if not (h2d or kernels or d2h):
        raise InputError("no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE, or a workload file")
    elements = given or _elements((*h2d, *d2h))
    names = ["kernel"] if len(kernels) == 1 else [f"kernel {i}" for i in range(1, len(kernels) + 1)]
    return Workload(
        elements=elements,
        inputs=tuple(_per_element("--h2d", size, elements) for size in h2d),
        outputs=tuple(_per_element("--d2h", size, elements) for size in d2h),
        kernels=tuple(WorkloadKernel(name, time) for name, time in zip(names, kernels, strict=True)),
    )


def _elements(sizes: tuple[int, ...]) -> int:
    if not sizes:
        return ELEMENTS_WITHOUT_ARRAYS
    divisor = math.gcd(*sizes)
    return divisor // BYTES_PER_ELEMENT if divisor % BYTES_PER_ELEMENT == 0 else divisor


def _per_element(option: str, size: int, elements: int) -> int:
    if size % elements:
        raise InputError(f"--elements = {elements}: does not divide {option} = {size} bytes; give one that does")
    return size // elements


def _device(name: str, connections: int | None) -> Device:
    device = load_device(name)
    return device if connections is None else msgspec.structs.replace(device, connections=connections)


# Commands


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamsim", message="streamsim %(version)s")
def app() -> None:
    """Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

    \b
    Example:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200

    \b
    Shell completion (bash; zsh_source and fish_source likewise):
      eval "$(_STREAMSIM_COMPLETE=bash_source streamsim)"

    Exit codes: 0 ok, 1 a tolerance failed, 2 usage or bad input.
    """  # noqa: D301 - click wants the backspace itself


@app.command("predict")
@_pipeline_options
@_device_options
@_output_options
def predict_command(
    device: str, connections: int | None, form: str, plot: Path | None, trace: Path | None, **options: Any
) -> None:
    """Predict a pipeline of copies in, kernels and copies out, cut into chunks over streams.

    The workload is a TOML file, or sizes and times: 64MiB is 64 * 1024 * 1024 bytes, 64MB is 64,000,000, a
    bare number is in bytes; 0.57ms, 20us, 1500ns, a bare number is in seconds.

    \b
    Examples:
      streamsim predict --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 --device h200
      streamsim predict --h2d 4MiB --h2d 4MiB --kernel 20us --d2h 4MiB --chunks 8 --streams 2 --order breadth-first
      streamsim predict workload.toml --chunks 32 --streams 4 --buffers 2 --json
      streamsim predict --h2d 1GiB --kernel 20ms --chunks 64 --streams 3 --plot gantt.svg --trace trace.json
    """  # noqa: D301 - click wants the backspace itself
    pipeline = Pipeline(**options)
    workload = pipeline.load()
    inputs = {**pipeline.inputs(workload), "device": device, "connections": connections}
    unchunked = serial(workload, 1, pipeline.memory)
    prediction = _predict(pipeline.schedule(workload), _device(device, connections), unchunked)
    _report(prediction, inputs, form, plot, trace)


@app.command("simulate")
@click.argument("schedule", metavar="SCHEDULE.json", type=FILE)
@_device_options
@_output_options
def simulate_command(
    schedule: Path, device: str, connections: int | None, form: str, plot: Path | None, trace: Path | None
) -> None:
    """Predict a schedule from a file. Serial is then the same copies and kernels one at a time.

    \b
    Examples:
      streamsim simulate schedule.json --device a100
      streamsim simulate schedule.json --device my-card.toml --connections 32 --json
    """  # noqa: D301 - click wants the backspace itself
    inputs = {"schedule": str(schedule), "device": device, "connections": connections}
    prediction = _predict(read_schedule(schedule), _device(device, connections))
    _report(prediction, inputs, form, plot, trace)


@app.command("schedule")
@_pipeline_options
@click.option("--output", "-o", type=FILE, help="File to write. Default: standard output.")
def schedule_command(output: Path | None, **options: Any) -> None:
    """Write the schedule that the options of predict describe, as JSON.

    \b
    Example:
      streamsim schedule --h2d 64MiB --kernel 0.57ms --d2h 64MiB --chunks 16 --streams 4 -o schedule.json
    """  # noqa: D301 - click wants the backspace itself
    pipeline = Pipeline(**options)
    data = dump_schedule(pipeline.schedule(pipeline.load()))
    if output is None:
        sys.stdout.write(data.decode())
    else:
        write_bytes(data, output)


@app.command("schema")
@click.argument("kind", type=click.Choice(tuple(KINDS)))
def schema_command(kind: str) -> None:
    """Print the JSON Schema of a schedule (JSON), workload (TOML) or device (TOML) file."""
    _print_json(file_schema(kind))


@app.group("devices", invoke_without_command=True)
@_format_options
@click.pass_context
def devices(context: click.Context, form: str) -> None:
    """List the shipped device profiles, show one, or check a file."""
    if context.invoked_subcommand is None:
        _print_devices([_device_row(load_device(name)) for name in device_names()], form)


@devices.command("show")
@click.argument("name", shell_complete=_complete_device)
def show_device(name: str) -> None:
    """Print a profile as TOML, ready to be edited; every number says where it comes from."""
    sys.stdout.write(dump_device(load_device(name)))


@devices.command("check")
@click.argument("file", metavar="FILE.toml", type=FILE)
def check_device(file: Path) -> None:
    """Check a profile; an error names the field, its value and what was expected."""
    device = read_device(file)
    print(one_line(f"{file}: ok: {device.name}, {device.description}"))


# Predicting and printing


def _predict(schedule: Schedule, device: Device, serial_schedule: Schedule | None = None) -> "Prediction":
    from streamsim.report import predict  # with it comes the model; other commands do without

    return predict(schedule, device, serial_schedule)


def _report(prediction: "Prediction", inputs: dict[str, Any], form: str, plot: Path | None, trace: Path | None) -> None:
    """Write the files, then print: when a file fails, its error is all there is to read."""
    if plot is not None:
        from streamsim.plot import save_gantt

        save_gantt(prediction.timeline, plot, prediction.serial_s)
    if trace is not None:
        from streamsim.trace import write_trace

        write_trace(prediction.timeline, trace)
    if form == "table":
        _print_prediction(prediction)
    elif form == "json":
        _print_json(prediction.to_json(inputs))
    else:
        _print_csv([{k: v for k, v in prediction.to_json().items() if k != "inputs"}])


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def _print_csv(rows: list[dict[str, Any]]) -> None:
    from streamsim.report import to_csv

    sys.stdout.write(to_csv(rows))


def _print_prediction(prediction: "Prediction") -> None:
    from rich.console import Console

    from streamsim.report import gantt, summary

    console = Console(highlight=False)
    console.print(summary(prediction))
    console.print(gantt(prediction.timeline, console.width), markup=False)
    console.print("The stream served most; ':' busy for less than half of the column, '.' idle.", style="dim")


def _device_row(device: Device) -> dict[str, Any]:
    return {
        "name": device.name,
        "description": device.description,
        "copy_engines": device.copy_engines.count,
        "connections": device.connections,
        "h2d_bytes_per_s": device.h2d.bandwidth_bytes_per_s,
        "d2h_bytes_per_s": device.d2h.bandwidth_bytes_per_s,
    }


def _print_devices(rows: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        return _print_json({"schema_version": 1, "devices": rows})
    if form == "csv":
        return _print_csv(rows)
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "copy engines", "H2D GB/s", "D2H GB/s", "description", box=SIMPLE)
    table.columns[0].no_wrap = True
    for row in rows:
        speeds = (f"{row[k] / 1e9:.1f}" for k in ("h2d_bytes_per_s", "d2h_bytes_per_s"))
        table.add_row(row["name"], str(row["copy_engines"]), *speeds, row["description"])
    return Console(highlight=False).print(table)
