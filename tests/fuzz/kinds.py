"""What the commands read: a right input of each kind, and how it goes wrong."""

import contextlib
import gzip
import json
import tempfile
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import click
import msgspec
import tomli_w
from forms import BYTES, JSON, LINES, MOST_MUTATIONS, TABLES, TEXT, TOML, Form, gone_wrong
from made_recordings import call, capture, export, kernel, kineto, pipeline, span
from mutations import mutate_option, mutate_text

from streamsim import Workload, WorkloadKernel, build, load_device
from streamsim.cli import app
from streamsim.device import dump_device
from streamsim.program import dump_schedule, dump_workload
from streamsim.search import JOURNAL, sweep_of, write_sweep
from streamsim_validate.records import Header, RunBegins, RunEnds, read_record

RECORDS = Path(__file__).parents[2] / "validate" / "campaigns" / "records"
ARRAYS = ("--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB")
SWEEP = ("sweep", *ARRAYS, "--chunks", "1..8")
READ, FEW = 2, 3
OF_BYTES = (".packed", ".sqlite")


class Input(NamedTuple):
    """A command line and the files beside it, in a folder of their own; those named .gz are compressed there.

    The letters of files with one of the endings ``OF_BYTES`` stand for their bytes.
    """

    program: str
    arguments: tuple[str, ...]
    files: dict[str, str]


class Kind(NamedTuple):
    """``weight``: how often it is drawn, by what one input costs."""

    weight: int
    right: Callable[[], list[Input]]
    form: Form | None  # of the files that go wrong; None: the options do
    files: str | tuple[str, ...] = ""  # that go wrong: those that end so


def _streamsim(*arguments: str, **files: str) -> Input:
    return Input("streamsim", arguments, {name.replace("_", "."): text for name, text in files.items()})


def _read(kind: str, name: str, text: str) -> list[Input]:
    """The reader by itself, as often as ``READ`` says: what makes most complaints, and is quick."""
    return [Input("read", (kind, name), {name: text})] * READ


WORKLOAD = Workload(1 << 14, (4, 8), (4,), (WorkloadKernel(duration_s=5e-6), WorkloadKernel("sincos", parameter=10)))


@cache
def schedules() -> list[Input]:
    """Rings with events, graphs, pageable memory."""
    made = (
        build(WORKLOAD, "depth-first", 3, 2, 2),
        build(WORKLOAD, "breadth-first", 2, 2, launch="graph"),
        build(WORKLOAD, "depth-first", 2, 2, memory="pageable"),
    )
    commands = (
        ("simulate", "s.json", "--json"),
        ("simulate", "s.json"),
        ("check", "s.json"),
        ("check", "s.json", "--fix", "fixed.json"),
        ("explain", "s.json", "--json"),
        ("code", "s.json", "--as", "cupy"),
        ("code", "s.json", "--as", "cuda-c++"),
    )
    found = []
    for schedule in made:
        text = dump_schedule(schedule).decode()
        found += [_streamsim(*command, s_json=text) for command in commands] + _read("schedule", "s.json", text) * 5
        found.append(Input("streamsim-validate", ("run", "s.json"), {"s.json": text}))
    return found


@cache
def workloads() -> list[Input]:
    """A file of arrays and kernels."""
    text = dump_workload(WORKLOAD)
    few = ("--max-chunks", "4", "--max-streams", "2")
    commands = (
        ("predict", "w.toml", "--json"),
        ("predict", "w.toml"),
        ("best", "w.toml", *few, "--json"),
        ("schedule", "w.toml"),
        ("code", "w.toml", "--as", "pytorch"),
        ("sweep", "w.toml", "--chunks", "1..4"),
    )
    found = [_streamsim(*command, w_toml=text) for command in commands] + _read("workload", "w.toml", text) * 4
    return [*found, Input("streamsim-validate", ("tune", "w.toml", *few), {"w.toml": text})]


@cache
def devices() -> list[Input]:
    """Shipped profiles, with kernels' costs and spread; of their curves a few points."""
    texts = [dump_device(load_device(name)) for name in ("ideal", "k20c")]
    texts.append(tomli_w.dumps(_shortened(tomllib.loads(dump_device(load_device("h200"))))))
    commands = (
        ("devices", "check", "d.toml"),
        ("devices", "show", "d.toml"),
        ("predict", *ARRAYS, "--chunks", "3", "--device", "d.toml", "--json"),
        ("predict", *ARRAYS, "--device", "d.toml", "--samples", "20", "--json"),
        ("sweep", *ARRAYS, "--device", "d.toml", "--set", "h2d.latency=1us,2us"),
    )
    found = []
    for text in texts:
        found += [_streamsim(*command, d_toml=text) for command in commands] + _read("device", "d.toml", text)
    return found


def _shortened(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _shortened(value) for name, value in tree.items()}
    return list(map(_shortened, tree[:FEW])) if isinstance(tree, list) else tree


@cache
def sweeps() -> list[Input]:
    """A file with a sweep's options."""
    text = """
h2d = "16KiB..64KiB*2"
kernel = ["10us", 1e-5]
d2h = "64KiB"
chunks = "1..4"
streams = [1, 2]
order = "depth-first,breadth-first"
device = "h200,ideal"
[set]
"h2d.latency_s" = "1us,2us"
"""
    return [_streamsim("sweep", "--file", "p.toml", p_toml=text), *_read("sweep", "p.toml", text)]


@cache
def unfinished() -> list[Input]:
    """A sweep's output and journal, half-way, in every format."""
    return [_unfinished(name) for name in ("out.csv", "out.jsonl")]


def _unfinished(name: str) -> Input:
    def stop(done: int, _: int) -> None:
        if done > 3:
            raise KeyboardInterrupt

    asked = {"h2d": ["64KiB"], "kernel": ["10us"], "d2h": ["64KiB"], "chunks": ["1..8"], "device": ["h200"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with contextlib.suppress(KeyboardInterrupt):
            write_sweep(sweep_of(asked), path, block=2, progress=stop)
        files = {file: (path.parent / file).read_text() for file in (name, name + JOURNAL)}
    return Input("streamsim", (*SWEEP, "-o", name), files)


@cache
def _record() -> tuple[str, str]:
    """Some of a measured one, and its journal."""
    record = read_record(min(RECORDS.glob("standard-*.json.gz")))
    first = record.runs[0]
    run = msgspec.structs.replace(first, entries=first.entries[:4], samples=None, samples_after=None, groups=())
    few = msgspec.structs.replace(record, runs=(run,))
    begin = RunBegins(run.connections, run.started, run.seed, run.repeats)
    head = Header(few.card, few.machine, few.suite, few.streamsim)
    lines = (head, begin, *run.entries, RunEnds(run.finished))
    return msgspec.json.encode(few).decode(), "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)


@cache
def records() -> list[Input]:
    """Compared as they are, with another profile, with intervals."""
    text = _record()[0]
    found = [
        Input("streamsim-validate", ("compare", "r.json.gz", *more), {"r.json.gz": text})
        for more in ((), ("--json",), ("--device", "h200"), ("--samples", "20"), ("--fail-if", "median > 1%"))
    ]
    found.append(Input("streamsim-validate", ("compare", "r.json.gz", "--json"), {"r.json.gz": _programs()}))
    return found + _read("record", "r.json.gz", text) * 4


@cache
def _programs() -> str:
    """Some of a record of programs."""
    record = read_record(min(RECORDS.glob("programs-suite-*.json.gz")))
    run = msgspec.structs.replace(record.runs[0], entries=record.runs[0].entries[:4])
    return msgspec.json.encode(msgspec.structs.replace(record, runs=(run,))).decode()


@cache
def journals() -> list[Input]:
    """A run that was not finished."""
    name, text = "r.json.gz.journal", _record()[1]
    compared = Input("streamsim-validate", ("compare", name, "-d", "h200", "--json"), {name: text})
    return [compared, *_read("record", name, text)]


@cache
def samples() -> list[Input]:
    """What a calibration measured, in part for its reader."""
    text = gzip.decompress((RECORDS / "calibration-h200.samples.gz").read_bytes()).decode()
    fitted = Input("streamsim-validate", ("calibrate", "--from", "c.gz", "-o", "my.toml"), {"c.gz": text})
    return [fitted, *_read("samples", "c.gz", json.dumps(_shortened(json.loads(text)))) * 10]


@cache
def lines() -> list[Input]:
    """Each command with options that are right."""
    schedule = dump_schedule(build(WORKLOAD, "depth-first", 2, 2)).decode()
    few = ("--chunks", "4", "--streams", "2")
    return [
        _streamsim("predict", *ARRAYS, *few),
        _streamsim("predict", *ARRAYS, *few, "--json"),
        _streamsim("explain", *ARRAYS, *few),
        _streamsim("schedule", *ARRAYS, *few),
        _streamsim("best", *ARRAYS, "--max-chunks", "4", "--max-streams", "2"),
        _streamsim(*SWEEP),
        _streamsim("check", "s.json", s_json=schedule),
        _streamsim("simulate", "s.json", s_json=schedule),
        Input("streamsim-validate", ("compare", "r.json.gz"), {"r.json.gz": _record()[0]}),
        _streamsim("import", "t.json", t_json=recording()),
        Input("streamsim-validate", ("run", "s.json"), {"s.json": schedule}),
        Input("streamsim-validate", ("calibrate",), {}),
        Input("streamsim-validate", ("tune", *ARRAYS, "--max-chunks", "4", "--max-streams", "2"), {}),
        _streamsim("code", *ARRAYS, *few, "--as", "cuda-c++"),
        _streamsim("schema", "device"),
    ]


@cache
def texts() -> list[Input]:
    """Of options, each to its reader."""
    right = {
        "bytes": ("64MiB", "1.5GB"),
        "count": ("256", "64Ki"),
        "seconds": ("0.57ms", "1e-6"),
        "share": ("1/256",),
        "bandwidth": ("25GB/s",),
        "kernel": ("0.57ms,9us@64Ki", "25ms/600", "0.57ms,9us@1/256"),
        "setting": ("h2d.latency=1us", "link.bandwidth=25GB/s", "copy_engines.count=1"),
        "sizes": ("1MiB..1GiB*2", "1MiB,2MiB"),
        "counts": ("1..64", "1..64*2", "1,2,4"),
        "times": ("0.1ms..1ms+0.1ms",),
        "buffers": ("all,2,3..5",),
        "device": ("h200", "h200:cupy"),
        "tolerance": ("p95 host-bound > 12%", "median > 1%"),
    }
    return [Input("read", (kind, text), {}) for kind, those in right.items() for text in those]


@cache
def recording() -> str:
    """Kineto's: a pipeline, a wait for an event, two processes, a step."""
    wait = {"stream": 20, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 11, "wait_on_cuda_event_id": 5}
    more = (
        call("cudaEventRecord", 151, 1, 11),
        call("cudaStreamWaitEvent", 153, 1, 12),
        span("cuda_sync", "Stream Wait Event", 153, 1, 0, 20, device=0, context=1, correlation=12, **wait),
        span("cuda_driver", "cuLaunchKernel", 160, 5, 7, 7, correlation=13),
        kernel(170, 5, 13, stream=20),
        span("user_annotation", "ProfilerStep#1", 10, 50),
    )
    return kineto(*pipeline(), *more)


IMPORTS = (
    ("--json",),
    (),
    ("--list", "--json"),
    ("--window", "step", "--json"),
    ("--skip-first", "--device", "0", "--json"),
    ("--process", "420", "--json"),
)


def traces() -> list[Input]:
    """As JSON."""
    found = [_streamsim("import", "t.json", *more, t_json=recording()) for more in IMPORTS]
    return found + _read("recording", "t.json", recording()) * 5


@cache
def packed_traces() -> list[Input]:
    """As gzip."""
    data = gzip.compress(recording().encode(), 1, mtime=0).decode("latin-1")
    found = [_streamsim("import", "t.packed", *more, t_packed=data) for more in IMPORTS[:2]]
    return found + _read("recording", "t.packed", data) * 2


@cache
def exports() -> list[Input]:
    """Of Nsight Systems."""
    made = export()
    made.call("cudaEventRecord_v3020", 151_000, 152_000, 11)
    made.call("cudaStreamWaitEvent_v3020", 153_000, 154_000, 12)
    made.work("CUDA_EVENT", 0, 0, 11, eventId=5, eventSyncId=100)
    made.work("SYNCHRONIZATION", 153_000, 154_000, 12, streamId=14, eventId=5, eventSyncId=100)
    made.work("MEMSET", 160_000, 161_000, 13, bytes=4)
    made.work("GRAPH_TRACE", 162_000, 163_000, 14, graphId=1, graphExecId=2)
    made.add("TARGET_INFO_CUDA_STREAM", streamId=13, processId=420, contextId=1, flag=2)
    made.add("TARGET_INFO_GPU", id=0, name="a card", totalMemory=1 << 30, smCount=4, asyncEngines=2)
    made.add("ENUM_CUDA_MEMCPY_OPER", id=1, name="CUDA_MEMCPY_KIND_HTOD")
    with tempfile.TemporaryDirectory() as folder:
        data = made.write(Path(folder) / "t.sqlite").read_bytes().decode("latin-1")
    found = [_streamsim("import", "t.sqlite", *more, t_sqlite=data) for more in IMPORTS]
    return found + _read("recording", "t.sqlite", data) * 5


@cache
def captures() -> list[Input]:
    """Of ``streamsim-validate capture``: the pipeline once more, an event, a window, two untraced runs."""
    found = [_streamsim("import", "t.capture", *more, t_capture=capture()) for more in IMPORTS]
    return found + _read("recording", "t.capture", capture()) * 5


KINDS = {
    "schedule": Kind(20, schedules, JSON, "s.json"),
    "workload": Kind(20, workloads, TOML, "w.toml"),
    "device": Kind(20, devices, TOML, "d.toml"),
    "sweep": Kind(10, sweeps, TOML, "p.toml"),
    "unfinished sweep": Kind(10, unfinished, JSON, JOURNAL),
    "unfinished output": Kind(3, unfinished, TEXT, ("csv", "jsonl")),
    "record": Kind(5, records, JSON, "r.json.gz"),
    "journal": Kind(5, journals, LINES, "r.json.gz.journal"),
    "samples": Kind(1, samples, JSON, "c.gz"),
    "trace": Kind(10, traces, JSON, "t.json"),
    "packed trace": Kind(5, packed_traces, BYTES, "t.packed"),
    "capture": Kind(10, captures, LINES, "t.capture"),
    "export": Kind(10, exports, TABLES, "t.sqlite"),
    "damaged export": Kind(10, exports, BYTES, "t.sqlite"),
    "options": Kind(40, lines, None),
    "text": Kind(40, texts, None),
}


def draw(rng: Random, names: list[str]) -> tuple[str, Input]:
    """One of these kinds and an input of it."""
    (name,) = rng.choices(names, [KINDS[name].weight for name in names])
    return name, draw_of(name, rng)


def draw_of(name: str, rng: Random) -> Input:
    """An input of this kind with some things wrong."""
    kind = KINDS[name]
    made = rng.choice(kind.right())
    if kind.form is not None:
        file = rng.choice([name for name in made.files if name.endswith(kind.files)])
        return made._replace(files=made.files | {file: gone_wrong(made.files[file], kind.form, rng)})
    for _ in range(rng.randint(1, MOST_MUTATIONS)):
        if made.program == "read":
            kind_of_text, text = made.arguments
            made = made._replace(arguments=(kind_of_text, mutate_text(text, rng)))
            continue
        words = mutate_option(command_of(made), [*made.arguments[1:]], rng)
        made = made._replace(arguments=(made.arguments[0], *words))
    return made


def command_of(made: Input) -> click.Command:
    """The command that the line calls."""
    if made.program == "streamsim":
        found = app.get_command(click.Context(app), made.arguments[0])
    else:
        from streamsim_validate.cli import app as validator

        found = validator.get_command(click.Context(validator), made.arguments[0])
    assert found is not None
    return found
