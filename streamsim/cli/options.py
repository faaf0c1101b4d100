"""Options that several commands share, and what they stand for."""

from collections.abc import Callable, Container
from copy import copy
from functools import partial, reduce
from glob import escape, glob
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from streamsim.code import FRONT_END_OF, Language
from streamsim.device import (
    Device,
    as_device,
    changed,
    device_names,
    names_front_end,
    parse_settings,
    with_front_end,
    with_memory_limit,
)
from streamsim.diagnosis import Measured
from streamsim.errors import MOST_CHUNKS, SHORTEST_KERNEL_S, InputError, shown
from streamsim.files import check_writable, read_bytes
from streamsim.program import HOST_MEMORIES, LAUNCHES, ORDERS, Config, Workload, parse_kernel, read_plan
from streamsim.recorded import kind_given
from streamsim.report import picture_format
from streamsim.text import LARGEST_TOML_BYTES, kind_of, parse_bytes, parse_count, parse_seconds

PLAIN = Config()  # what is issued where nothing is said
# What a click context knows: the form of the answer, whether all of it is asked for, and the part of a recording.
FORM, EVERYTHING, PART = "streamsim.form", "streamsim.all", "streamsim.part"
FORMATS, MARKDOWN_FORM = ("table", "json", "csv"), "markdown"

Command = TypeVar("Command", bound=Callable[..., Any])


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic in new versions of click only
    """A size, time or count; what is wrong with it is an InputError that names the option."""

    def __init__(self, name: str, parse: Callable[[str, str], Any]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 - click calls it so
        return self.parse(value, param.opts[-1] if param else self.name) if isinstance(value, str) else value


class File(click.Path):
    """A path that is looked at when it is used; then its errors are InputErrors."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)


class Output(File):
    """A file to write. Its name, which ``check`` may refuse, and folder are looked at before anything is computed."""

    def __init__(self, check: Callable[[str], object] = Path) -> None:
        super().__init__()
        self.check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        self.check(value)
        path = Path(value)
        check_writable(path)
        read = ctx.params.get("workload") if ctx else None
        if isinstance(read, Path) and path.exists() and read.exists() and path.samefile(read):
            option = param.opts[-1] if param else self.name
            raise InputError(f"{option} {path}: is the file that is read; give another name")
        return path


def _check_page(name: str) -> None:
    if not name.lower().endswith((".html", ".htm")):
        raise InputError(f"{name}: expected a file name that ends in .html")


FILE, OUTPUT, PICTURE, PAGE = File(), Output(), Output(picture_format), Output(_check_page)
SIZE = Quantity("size", parse_bytes)
TIME = Quantity("time", partial(parse_seconds, least=SHORTEST_KERNEL_S))
WAIT = Quantity("time", parse_seconds)
KERNEL = Quantity("kernel", parse_kernel)
COUNT = Quantity("count", parse_count)
CHUNKS = Quantity("count", partial(parse_count, most=MOST_CHUNKS))


SEVERAL = ("device", "connections", *Config.__struct_fields__)  # options that take several values
SIZES = ("h2d", "kernel", "d2h", "h2d_once", "d2h_once", "elements")
OF_WORKLOADS = ("workload", *SIZES, "host_work", "host_load")


class Listed(str):
    """Several values as text, with commas between them; numbers may be a range such as 1..64*2."""

    __slots__ = ()


class Several(click.ParamType):  # type: ignore[type-arg]  # generic in new versions of click only
    """One value of a type; or several, which stay :class:`Listed`, as one does ``as_text``."""

    def __init__(self, one: click.ParamType, as_text: bool = False) -> None:  # type: ignore[type-arg]
        self.one, self.name, self.as_text = one, one.name, as_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or the text of several."""
        is_range = ".." in str(value) and param is not None and param.name != "device"  # ../card.toml is none
        if isinstance(value, str) and (self.as_text or "," in value or is_range):
            return Listed(value)
        return self.one.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        """Return what stands for the value in the help."""
        return self.one.get_metavar(param, ctx) if ctx is not None else self.one.get_metavar(param)  # type: ignore[call-arg]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """Complete one value."""
        return self.one.shell_complete(ctx, param, incomplete)


def take_several(command: click.Command, names: Container[str], as_text: bool = False) -> None:
    """Let options of ``command`` take several values; ``as_text``: as text, without a default, or a file's ones."""
    for param in command.params:
        if as_text and param.name in names:
            param.default, param.callback = None, None
        if param.name in names and isinstance(param, click.Option):
            param.type = Several(param.type, as_text)


# Suffixes of files that hold a program, whatever their content.
SUFFIXES = (".json", ".gz", ".sqlite", ".sqlite3", ".db", ".nsys-rep", ".qdrep")
PROGRAM, LAYERS, LOOP = "program", "layers", "loop"  # kinds of files
SEARCHED = ("chunks", "streams", "order", "buffers", "launch")  # what a search looks for itself


def kind_of_file(path: Path) -> str:
    """Return "program" for a schedule or a recording, else what :func:`streamsim.text.kind_of` says of the content."""
    if path.suffix.lower() in SUFFIXES or kind_given(path):
        return PROGRAM
    return kind_of(read_bytes(path, LARGEST_TOML_BYTES)) if path.is_file() else ""


def take_defaults(context: click.Context, param: click.Parameter, path: Path | None) -> Path | None:  # noqa: ARG001
    """Make what the file says the defaults of the other options, so that an option on the command line wins.

    Return the path of the work; None for layers, which have an option. Raises InputError naming the file, the name and
    the value.
    """
    if path is None or context.resilient_parsing or not path.is_file():
        return path
    kind, known = kind_of_file(path), {option.name: option for option in context.command.params}
    if kind == LAYERS and LAYERS in known:
        context.default_map = {LAYERS: path}
        return None
    if kind not in (PROGRAM, LAYERS, LOOP):
        searched = () if "chunks" in known else SEARCHED
        plan = {name: value for name, value in read_plan(path).items() if name in known and name not in searched}
        context.default_map = {name: _value(path, known[name], name, value) for name, value in plan.items()}
    return path


def _value(path: Path, option: click.Parameter, name: str, value: Any) -> Any:
    """Return the value of an option, read as on the command line. Raises InputError naming the file and the name."""
    named = copy(option)
    named.opts = [name]  # in messages
    try:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise InputError(f"{name} = {shown(value)}: expected one value; several are for streamsim sweep")
        return option.type.convert(str(value), named, None)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except click.UsageError as error:
        raise InputError(f"{path}: {name} = {shown(value)}: {error.message}") from None


def complete_device(_context: click.Context, _param: click.Parameter, incomplete: str) -> "list[CompletionItem | str]":
    """Return the profiles and TOML files that the last of several names may be; else what the shell finds."""
    before, comma, last = incomplete.rpartition(",")
    names = [name for name in device_names() if name.startswith(last)]
    files = sorted(filter(str.isprintable, glob(f"{escape(last)}*.toml")))
    return [f"{before}{comma}{name}" for name in (*names, *files)] or [CompletionItem(incomplete, type="file")]


def option(names: str, text: str, kind: Any = None, **how: Any) -> Callable[[Command], Command]:
    """Return an option with these ``names``, the ``text`` of its help and the ``kind`` of its value.

    ``how``: further arguments of ``click.option``. The help shows a default that is not None.
    """
    how.setdefault("show_default", how.get("default") is not None)
    return click.option(*names.split(), type=kind, help=text, **how)


def noted(key: str, names: str, text: str, kind: Any = None, **how: Any) -> Callable[[Command], Command]:
    """Return an option whose value the command is not given: the click context knows it under ``key``."""

    def keep(context: click.Context, _param: click.Parameter, value: Any) -> None:
        context.meta[key] = value

    return option(names, text, kind, expose_value=False, callback=keep, **how)


def all_of(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return several options as one decorator; the help shows them in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def one_of(names: tuple[str, ...]) -> "click.Choice[str]":
    """Return the type of an option that takes one of some names, in any case."""
    return click.Choice(names, case_sensitive=False)


def formats(choices: tuple[str, ...], json: str, text: str) -> Callable[[Command], Command]:
    """Return ``--format`` and ``--json``, which is one of its ``choices``; the click context knows what they say."""

    def keep(context: click.Context, _param: click.Parameter, value: Any) -> None:
        form = json if value is True else value
        if form and context.meta.setdefault(FORM, form) != form:
            raise InputError("--json, --format: they say different things; give one of them")

    return all_of(
        option("--format", text, click.Choice(choices), expose_value=False, callback=keep),
        option("--json", f"The same as --format {json}.", is_flag=True, expose_value=False, callback=keep),
    )


all_option = noted(EVERYTHING, "--all", "Print also what is left out of the first screen.", is_flag=True)


def _of_part(name: str, text: str, kind: Any = None, **how: Any) -> Callable[[Command], Command]:
    def keep(context: click.Context, param: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            context.meta.setdefault(PART, {})[param.name] = value

    return option(name, text, kind, expose_value=False, callback=keep, **how)


part_options = all_of(
    _of_part("--gpu", "Read only the card to which the profiler of a recording gives this number.", int, metavar="N"),
    _of_part("--process", "Read only this process of a recording.", int, metavar="PID"),
    _of_part(
        "--window",
        "Read only this range of a recording; calls that begin in this NVTX range, ProfilerStep or user annotation"
        " (NAME[2]: the second of that name), or between these times since it began, such as 1ms..5ms; and their work.",
        metavar="NAME|FROM..TO",
    ),
    _of_part("--skip-first", "Leave out the first copy or launch of each process of a recording.", is_flag=True),
    _of_part(
        "--untraced-time",
        "Time of a recorded program when nothing records it. Default: that of a capture's runs without CUPTI, else by"
        " what profilers are known to cost.",
        TIME,
    ),
)


def gpu_option(text: str, default: int | None = None) -> Callable[[Command], Command]:
    """Return ``--gpu``, the number of a card, as ``device``."""
    number, shown = click.IntRange(0), default is not None
    return option("--gpu device", text, number, default=default, show_default=shown, metavar="N")


form_options = formats((*FORMATS, MARKDOWN_FORM), "json", "How to print it. Default: table.")
format_options = all_of(form_options, all_option)


workload_options = all_of(
    click.argument(
        "workload", metavar="[WORKLOAD.toml]", type=FILE, required=False, is_eager=True, callback=take_defaults
    ),
    option("--h2d", "Size of an input array, such as 64MiB. Repeatable.", SIZE, multiple=True),
    option(
        "--kernel",
        "Time of a kernel over all the work, such as 0.57ms. With the time of a part: 0.57ms,9us@64Ki (elements)"
        " or 0.57ms,9us@1/256. 25ms/600: 600 launches take 25 ms together, and each chunk makes all of them, as in a"
        " network; 25ms/600,per=item: a chunk makes its share of them. 15us,timed=events: two CUDA events around the"
        " kernel show this time, which is 4 to 6 us too long; the launch on this host is taken off. Also: threads=64Ki,"
        " the threads of the whole launch; latency=3us, the time of a launch that does almost nothing; fill=0.5, the"
        " part of the card that the kernel keeps busy; name=filter. Repeatable.",
        KERNEL,
        multiple=True,
    ),
    option("--d2h", "Size of an output array. Repeatable.", SIZE, multiple=True),
    option("--h2d-once", "Size of an array copied once, before the first chunk.", SIZE, multiple=True),
    option("--d2h-once", "Size of an array copied back once, after the last.", SIZE, multiple=True),
    option(
        "--elements",
        "Number of elements, such as 256 images, which no chunk cuts. Default: pieces of 16 bytes.",
        COUNT,
    ),
    option("--host-work", "Time of the host's work before it issues each chunk, such as 3ms.", WAIT),
    option("--host-load", "Host work over all the data, such as reading it; each chunk waits for its share.", WAIT),
)

pipeline_options = all_of(
    workload_options,
    option("--chunks", "Cut the workload into this many chunks.", CHUNKS, default=PLAIN.chunks),
    option("--streams", "Chunk i runs in stream i mod this.", CHUNKS, default=PLAIN.streams),
    option(
        "--order",
        "depth-first: chunk by chunk. breadth-first: stage by stage. serial: the host waits for every copy."
        " prefetch: the next chunk's copies run beside this chunk's kernels. relay: depth-first, and kernels wait for"
        " those of the chunk before.",
        one_of(ORDERS),
        default=PLAIN.order,
    ),
    option("--buffers", "Device buffers used in turn, such as 2. Default: one a chunk; prefetch: 2.", CHUNKS),
    option("--memory", "Memory of the host arrays.", one_of(HOST_MEMORIES), default=PLAIN.memory),
    option("--launch", "Issue every op live, or one CUDA graph.", one_of(LAUNCHES), default=PLAIN.launch),
)

RINGS = "all,2,3,4,8"  # what is tried when the card's memory is too small or limited
grid_options = all_of(
    option("--max-chunks", "Try 1 to this many chunks.", CHUNKS, default=256),
    option("--max-streams", "Try 1 to this many streams.", CHUNKS, default=32),
    option(
        "--order",
        f"Issue orders to try, separated by commas: {', '.join(ORDERS)}.",
        default="depth-first,breadth-first",
    ),
    option(
        "--buffers",
        "Device buffers used in turn, such as 2,3 or 2..8; all: one for every chunk. Default: all; if that does"
        f" not fit on the card, or with --memory-limit, {RINGS}.",
    ),
    option("--memory", "Memory of the host arrays.", one_of(HOST_MEMORIES), default="pinned"),
    option("--launch", "Issue every op live, or one graph; or try both.", one_of((*LAUNCHES, "both")), default="live"),
)

device_options = all_of(
    option(
        "--device",
        "A profile that streamsim devices lists, or a TOML file. Default for a recorded program: its own card.",
        default="h200",
        shell_complete=complete_device,
    ),
    option("--connections", "Hardware queues, 1 to 32, in place of the profile's number.", int),
    option(
        "--set settings",
        "Another number or rule of the profile, such as h2d.bandwidth=51GB/s or host.kernel=4us. Repeatable.",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    option("--memory-limit", "The most that the device buffers may hold, such as 8GiB.", SIZE),
    option("--front-end", "What the program is written in: calls (CUDA C++, the default), cupy, pytorch ..."),
)

timeline_options = all_of(
    option("--plot", "Draw the time lines: a .png, .svg or .pdf file.", PICTURE),
    option("--trace", "Save the time lines for Perfetto or chrome://tracing.", OUTPUT),
)


class DeviceOptions(msgspec.Struct, frozen=True):
    """The options that name a device: a profile and what is changed in it."""

    device: str | Device
    connections: int | None
    settings: tuple[str, ...]
    memory_limit: int | None
    front_end: str | None

    def load(self) -> Device:
        """Return a shipped profile or one from a file, with the changes. Raises InputError."""
        device = as_device(self.device)
        if self.front_end is not None:
            device = with_front_end(device, self.front_end.lower())
        if self.connections is not None:
            device = device.with_connections(self.connections)
        return with_memory_limit(changed(device, parse_settings(self.settings)), self.memory_limit)

    def written_in(self, workload: Workload, language: Language | None = None) -> "tuple[Workload, DeviceOptions]":
        """Return the workload and the device, both with the front end of their program.

        That of the option ``--front-end``, or of the device's name, or of a ``language`` in which it is to be written,
        or else what the workload says.
        """
        asked = self.with_calls_of(FRONT_END_OF[language] if language else workload.front_end)
        return msgspec.structs.replace(workload, front_end=asked.front_end or ""), asked

    def with_calls_of(self, front_end: str) -> "DeviceOptions":
        """Return the options with a front end, unless they or the device's name have one."""
        is_named = self.front_end is not None or (isinstance(self.device, str) and names_front_end(self.device))
        return self if is_named else msgspec.structs.replace(self, front_end=front_end or None)

    def inputs(self) -> dict[str, Any]:
        """Return what was asked, as plain numbers and strings."""
        device = self.device if isinstance(self.device, str) else self.device.name
        found: dict[str, Any] = {"device": device, "connections": self.connections}
        if self.front_end is not None:
            found["front_end"] = self.front_end
        if self.settings:
            found["set"] = list(self.settings)
        return found if self.memory_limit is None else {**found, "memory_limit_bytes": self.memory_limit}


Picked = TypeVar("Picked", bound=msgspec.Struct)


def picked(kind: type[Picked], options: dict[str, Any]) -> Picked:
    """Return a ``kind`` of the options that it has fields for."""
    return kind(**{name: options[name] for name in kind.__struct_fields__})


COPIES, UNCUT = "copies", "uncut"  # behind a measured time: without the kernels; all of the work as one chunk
TIMES_FORM = (
    "a time such as 14.5ms; 4:14.5ms over 4 streams; 9ms:copies without the kernels; 20ms:uncut as one chunk;"
    " several with commas between"
)


def parse_measured(text: str, field: str) -> tuple[Measured, ...]:
    """Return one measured time or several. Raises InputError naming ``field``."""
    parts = text.split(",")
    if len(parts) > 1 and any(part.strip().isdecimal() for part in parts):
        raise InputError(f"{field} {shown(text)}: a time lacks its unit; write 16.2ms with a point, or {TIMES_FORM}")
    return tuple(_measured(part, field) for part in parts)


def _measured(text: str, field: str) -> Measured:
    parts = text.strip().split(":")
    how = parts[-1].strip().lower()
    *streams, time = parts[:-1] if how in (COPIES, UNCUT) else parts or [""]
    if len(streams) > 1 or not time or (streams and not streams[0].strip().isdecimal()):
        raise InputError(f"{field} {shown(text)}: expected {TIMES_FORM}")
    count = parse_count(streams[0], f"{field} streams") if streams else None
    return Measured(parse_seconds(time, field, least=1e-9), count, how == COPIES, how == UNCUT)


measured_option = option(
    "--measured",
    f"Say which usual mistake explains the measured time: {TIMES_FORM}.",
    Quantity("times", parse_measured),
    metavar="TIMES",
)
