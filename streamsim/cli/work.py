"""The work that a command is given: one reader of sizes and options, and of files of every kind.

:func:`read_issued` says what can be issued, and how: a workload, layers, a training loop, or the program in a file.
:func:`work_of` puts it on the device that the options name.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource
from msgspec import to_builtins
from msgspec.structs import asdict, replace

from streamsim import program
from streamsim.analysis import Bound, check_room, kernel_assumptions, timed_alone, work_bound
from streamsim.cli.options import (
    COUNT,
    FILE,
    LAYERS,
    LOOP,
    OF_WORKLOADS,
    PART,
    PLAIN,
    PROGRAM,
    RINGS,
    SIZE,
    SIZES,
    DeviceOptions,
    Quantity,
    all_of,
    device_options,
    kind_of_file,
    one_of,
    option,
    part_options,
    picked,
    pipeline_options,
)
from streamsim.cli.printing import NOTED, OWN_CARD
from streamsim.cli.running import note
from streamsim.collector import collector_off
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, assumptions_of, parse_device
from streamsim.errors import InputError
from streamsim.recorded import (
    Recording,
    Replay,
    Unrecorded,
    busiest_card,
    kind_given,
    part_of,
    profile_of,
    read_recording,
    recorded_times,
    replay,
    untraced_time_s,
    warnings_of,
    without_recording,
)
from streamsim.text import chosen, format_seconds, parse_buffers, parse_bytes
from streamsim.transform import LayersSource, LoopSource, Source, Work

CUT = tuple(name for name in program.Config.__struct_fields__ if name != "memory")
SEARCHED = ("max_chunks", "max_streams")
ALONE = "needs a single program; give one, and one value of each option, or leave it out"

which_layers = all_of(
    option("--layers", "A model's layers, a TOML file, in place of a workload.", FILE),
    option("--passes", "With --layers: passes over all layers. Default: what the layers file says.", COUNT),
    option(
        "--direction",
        "With --layers: forward or backward passes, or both, as a training step. Default: what the layers file says.",
        one_of(tuple(program.DIRECTIONS)),
    ),
    option(
        "--reserve",
        "With --layers: memory on the card for other things, such as 2GiB. Default of best: a tenth of the memory.",
        Quantity("size", partial(parse_bytes, least=0)),
    ),
)
place_layers = all_of(
    which_layers,
    option("--depth", "With --layers: buffers that streamed layers take in turn. Default: 2.", COUNT),
    option("--resident", "With --layers: names of the layers that stay on the card, separated by commas."),
)
work_options = all_of(pipeline_options, place_layers, device_options, part_options)
bound_layers = all_of(
    which_layers,
    option("--host-memory-limit", "With --layers: most memory that may be pinned on the host.", SIZE),
)
OF_LAYERS = ("passes", "direction", "reserve", "depth", "resident", "host_memory_limit")

# Programs: schedules, and what a profiler recorded


def part_asked() -> dict[str, Any]:
    """Return the options that choose what of a recording is read, with their values; those that are given."""
    asked: dict[str, Any] = click.get_current_context().meta.get(PART, {})
    return asked


def check_no_part() -> None:
    """Raise InputError for options that choose what of a recording is read, where none is."""
    for name in part_asked():
        raise InputError(
            f"--{name.replace('_', '-')}: chooses what of a recording is read; give a recording, or leave it out"
        )


class NotReplayedError(InputError):
    """The reason why a ``recording``, in a file of this ``name``, cannot be replayed."""

    def __init__(self, reason: str, name: str, recording: Recording) -> None:
        super().__init__(reason)
        self.name, self.recording = name, recording


class Given(NamedTuple):
    """A program in a file.

    - ``recorded``: when its ops ran; ``device``: the profile of its card; both None where it has none.
    - ``notes``: what to say of a recording before anything else; ``replayed``: the recording of all cards, and the
      replays of the busiest one, with the cost of recording and without.
    """

    schedule: program.Schedule
    recorded: program.RecordedTimes | None = None
    device: Device | None = None
    notes: tuple[str, ...] = ()
    replayed: tuple[Recording, Replay, Unrecorded] | None = None


@collector_off()
def read_given(path: Path) -> Given:
    """Read the program in a file. Raises InputError naming the file, and what to do."""
    if kind_given(path) == "recording":
        return replayed(path.name, *read_part(path))
    check_no_part()
    schedule, file = program.read_program(path)
    device = parse_device(file.profile, f"{path}: profile") if file.profile else None
    return Given(schedule, file.recorded, device, file.notes)


def read_part(path: Path) -> tuple[Recording, float | None]:
    """Return what the options choose of a recording, and the seconds of its program without a profiler if known."""
    part, whole = part_asked(), read_recording(path)
    is_without_first = "skip_first" in part
    recording = part_of(whole, part.get("gpu"), part.get("process"), part.get("window"), is_without_first)
    if "untraced_time" in part or is_without_first:
        return recording, part.get("untraced_time")
    card, _ = busiest_card(recording)
    return recording, untraced_time_s(whole, part.get("window"), None if card < 0 else card)


def replayed(name: str, recording: Recording, untraced_s: float | None, on: Device | None = None) -> Given:
    """Return the program of the card with most work, without the cost of recording it, by the profile of its card.

    ``name``: of the recording's file; ``on``: another device. Raises NotReplayedError.
    """
    card, others = busiest_card(recording)
    part = part_of(recording, card) if others else recording
    try:
        device = profile_of(part, on)
        found, without = replay(part, device), without_recording(part, device, untraced_s, name)
    except InputError as error:
        raise NotReplayedError(str(error), name, recording) from None
    notes = [line for line in (assumptions_of(device), *warnings_of(found, without)) if line]
    if others:
        left = ", ".join(map(str, others))
        which = f"this is card {card}; --gpu N takes another one (N: {left})"
        notes.insert(0, f"{name}: work on {len(others) + 1} cards; {which}")
    times = recorded_times(part, without.program)
    return Given(without.program.schedule, times, device, tuple(notes), (recording, found, without))


Issued = Source | LayersSource | program.Loop | Given


class Asked(NamedTuple):
    """The work that a command is asked about.

    - ``inputs``: what was asked, as plain numbers and strings.
    - ``assumed``: sentences on its kernels or steps; ``given``: the program in the file, if the file holds one.
    """

    work: Work
    inputs: dict[str, Any]
    assumed: Sequence[str] = ()
    given: Given | None = None

    @property
    def bound(self) -> Bound | None:
        """Return the time that no way to cut and issue a workload beats, with the memory and launch of the work."""
        pipeline = self.work.pipeline
        if pipeline is None:
            return None
        return work_bound(pipeline.workload, self.work.device, pipeline.config.memory, pipeline.config.launch)


def is_given(context: click.Context, name: str) -> bool:
    """Return True if an option is on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse(context: click.Context, names: Iterable[str], why: str) -> None:
    """Raise InputError for the first of these options that is on the command line."""
    options = {param.name: param.opts[0] for param in context.command.params} | {"workload": "a workload"}
    for name in names:
        if is_given(context, name) and context.params.get(name, True) is not None:  # layers have become an option
            raise InputError(f"{options[name]}: {why}")


def read_issued(context: click.Context, path: Path | None = None) -> Issued:
    """Return what the options of a command ask for; ``path``: one of several files.

    Raises InputError for options that say nothing of such work.
    """
    params = context.params
    path = path or params["workload"]
    kind = LAYERS if params.get("layers") else kind_of_file(path) if path else ""
    if kind != PROGRAM:
        check_no_part()
    if params.get("layers"):
        searches = ("memory",) * ("depth" not in params)  # the best is pinned
        beside = "does not go with --layers, which are streamed, not cut; leave it out"
        refuse(context, (*OF_WORKLOADS, *CUT, *SEARCHED, *searches), beside)
        return layers_asked(params)
    refuse(context, OF_LAYERS, "needs layers; add --layers FILE")
    if path is None or kind not in (PROGRAM, LOOP):
        return Source(workload_asked(params), picked(program.Config, params) if "chunks" in params else PLAIN)
    what = "schedule, cut and issued already" if kind == PROGRAM else "training loop, whose steps are not cut"
    refuse(context, (*OF_WORKLOADS[1:], *program.Config.__struct_fields__), f"{path} is a {what}; leave the option out")
    return read_given(path) if kind == PROGRAM else program.read_loop_file(path).loop()


def workload_asked(params: Mapping[str, Any]) -> program.Workload:
    """Return the workload, from its file or from sizes and times. Options for the host's work win over the file."""
    path, given = params["workload"], {name: params[name] for name in SIZES if params[name]}
    if path is None:
        if not given.keys() - {"elements"}:
            raise InputError("no workload: give --h2d SIZE, --kernel TIME or --d2h SIZE, or a workload file")
        given["kernels"] = given.pop("kernel", ())
        found = program.workload_of_sizes(**given)
    elif given:
        raise InputError(f"{path}: give a workload file or --h2d, --kernel, --d2h, --elements, not both")
    else:
        found = program.read_workload(path)
    host = {f"{name}_s": params[name] for name in ("host_work", "host_load") if params[name] is not None}
    return replace(found, **host)


def layers_asked(params: dict[str, Any]) -> LayersSource:
    """Return the layers in the file, with what options say of passes, and how to place them. Raises InputError."""
    layers = program.read_layers(params["layers"])
    layers = replace(layers, **{name: params[name] for name in ("passes", "direction") if params[name]})
    depth = program.Offload().depth if params.get("depth") is None else params["depth"]
    names = names_of(params.get("resident") or "")
    return LayersSource(layers, program.Offload(depth, names, params["memory"], params["reserve"] or 0))


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in ``text``, between commas."""
    return tuple(name for name in map(str.strip, text.split(",")) if name)


def grid_fields(params: dict[str, Any], workload: program.Workload, card: Device) -> dict[str, Any]:
    """Return the options of a grid as fields of a Grid, without its numbers of chunks and streams."""
    has_room = params["memory_limit"] is None and card.has_room(program.Config().device_bytes(workload))
    return {
        "order": chosen("order", params["order"], program.ORDERS),
        "buffers": parse_buffers(params["buffers"] or ("all" if has_room else RINGS)),
        "memory": params["memory"],
        "launch": tuple(launch for launch in program.LAUNCHES if params["launch"] in (launch, "both")),
    }


def work_of(context: click.Context) -> Asked:
    """Return the work that the options of a command ask for, on the device that they name. Raises InputError."""
    return work_on(context, read_issued(context), picked(DeviceOptions, context.params))


def work_on(context: click.Context, found: Issued, on: DeviceOptions) -> Asked:
    """Return what was read on a device. Raises InputError."""
    match found:
        case Given():
            on = on_own_card(context, on, found)
            inputs = {"schedule": str(context.params["workload"]), **part_asked(), **on.inputs()}
            return Asked(Work(found.schedule, on.load()), inputs, given=found)
        case program.Loop():
            return _loop_on(LoopSource(found, on.load()), on)
        case LayersSource():
            return _layers_on(found, on)
        case Source():
            return _workload_on(found, on)


def on_own_card(context: click.Context, asked: DeviceOptions, given: Given) -> DeviceOptions:
    """Return the options with the profile of a program's own card, if it has one and --device is not given.

    What is to be said of a recording is noted.
    """
    for line in given.notes:
        note(line)
    context.meta[NOTED] = (*context.meta.get(NOTED, ()), *given.notes)
    if given.device is None or is_given(context, "device"):
        return asked
    context.meta[OWN_CARD] = True
    return replace(asked, device=given.device)


def _loop_on(source: LoopSource, on: DeviceOptions) -> Asked:
    work = source.work()
    step = format_seconds(work.seconds_of(simulate_one_of_many(*work[:2])))
    assumed = f"times are those of the whole {work.schedule.name}; once the loop is warm, a step takes {step}"
    return Asked(work, {"loop": asdict(source.loop), **on.inputs()}, [assumed])


def _layers_on(source: LayersSource, on: DeviceOptions) -> Asked:
    schedule, device = source.config.schedule(source.layers), on.load()
    remedy = "give a smaller --depth, fewer layers that are --resident, or less --reserve"
    device.check_room(schedule.device_bytes, remedy)
    inputs = {"layers": to_builtins(source.layers), **to_builtins(source.config), **on.inputs()}
    return Asked(Work(schedule, device, source), inputs, source.layers.assumed)


def _workload_on(source: Source, on: DeviceOptions) -> Asked:
    config = source.config
    workload, on = on.written_in(source.workload)
    device = on.load()
    inputs = {**workload_inputs(workload), **to_builtins(config), **on.inputs()}
    workload, of_events = timed_alone_noted(workload, device)
    schedule = config.schedule(workload)
    check_room(workload, config, device)
    work = Work(schedule, device, Source(workload, config))
    return Asked(work, inputs, [*of_events, *assumed_of(work)])


def assumed_of(work: Work) -> list[str]:
    """Return what is assumed of the kernels of a workload; nothing of other work."""
    if work.pipeline is None:
        return []
    workload, config = work.pipeline.workload, work.pipeline.config
    return kernel_assumptions(workload, config.chunks, work.device, config.launch)


def workload_inputs(workload: program.Workload) -> dict[str, Any]:
    """Return the workload as plain numbers and strings."""
    h2d, d2h = (*workload.input_bytes, *workload.h2d_once), (*workload.output_bytes, *workload.d2h_once)
    return {"workload": to_builtins(workload), "h2d_bytes": sum(h2d), "d2h_bytes": sum(d2h)}


def timed_alone_noted(workload: program.Workload, device: Device) -> tuple[program.Workload, list[str]]:
    """Return the workload with its kernels' own times, and a line for each kernel that was timed with events."""
    if all(kernel.timed == "alone" for kernel in workload.kernels):
        return workload, []
    alone = timed_alone(workload, device)
    lines = [
        f"kernel {kernel.name!r}: {format_seconds(kernel.whole_s(workload.work))} between two events is taken for"
        f" {format_seconds(own.whole_s(workload.work))} on the card: the rest is its launch on this host"
        for kernel, own in zip(workload.kernels, alone.kernels, strict=True)
        if kernel.timed == "events"
    ]
    return alone, lines
