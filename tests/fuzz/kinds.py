"""What the commands read: right inputs of each kind, and how they go wrong."""

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
from made_recordings import call, capture, export, kernel, kineto, pipeline, span
from mutations import (
    BYTES,
    JSON,
    LINES,
    MOST_MUTATIONS,
    TABLES,
    TEXT,
    TOML,
    Form,
    gone_wrong,
    grown,
    mutate_option,
)

from streamsim import Workload, WorkloadKernel, build, load_device
from streamsim.cli import app
from streamsim.files import dump_toml
from streamsim.program import dump_schedule
from streamsim.search import sweep_of, write_sweep
from streamsim_validate.cli import app as validator
from streamsim_validate.records import Header, RunBegins, RunEnds, read_record

RECORDS = Path(__file__).parents[2] / "validate" / "campaigns" / "records"
ARRAYS = ("--h2d", "64KiB", "--kernel", "10us", "--d2h", "64KiB")
FEW, MOST_FEW = ("--chunks", "4", "--streams", "2"), ("--max-chunks", "4", "--max-streams", "2")
SWEEP = ("sweep", *ARRAYS, "--chunks", "1..8")
WORKLOAD = Workload(1 << 14, (4, 8), (4,), (WorkloadKernel(duration_s=5e-6), WorkloadKernel("sincos", parameter=10)))
SAME = 3  # the reader by itself, as many times as every command: it is quick, and makes most complaints
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
    form: Form | None = None  # of the file that goes wrong; None: the options do


def _of(program: str, name: str, text: str, *commands: str) -> list[Input]:
    """These commands of a program, with the file ``name`` in place of ``FILE``."""
    return [Input(program, tuple(command.replace("FILE", name).split()), {name: text}) for command in commands]


def _read(kind: str, name: str, text: str) -> list[Input]:
    return _of("read", name, text, f"{kind} FILE") * SAME


@cache
def schedules() -> list[Input]:
    """Rings with events, graphs, pageable memory."""
    found = []
    for schedule in (
        build(WORKLOAD, "depth-first", 3, 2, buffers=2),
        build(WORKLOAD, "breadth-first", 2, 2, launch="graph"),
        build(WORKLOAD, "depth-first", 2, 2, memory="pageable"),
    ):
        text = dump_schedule(schedule).decode()
        found += [
            *_of("streamsim", "s.json", text, "predict FILE --json", "predict FILE", "explain FILE --json"),
            *_of("streamsim", "s.json", text, "check FILE", "check FILE --fix fixed.json"),
            *_of("streamsim", "s.json", text, "code FILE --as cupy", "code FILE --as cuda-c++"),
            *_of("streamsim-validate", "s.json", text, "run FILE"),
            *_read("schedule", "s.json", text),
        ]
    return found


@cache
def workloads() -> list[Input]:
    """A file of arrays and kernels."""
    text, few = dump_toml(WORKLOAD), " ".join(MOST_FEW)
    return [
        *_of("streamsim", "w.toml", text, "predict FILE --json", "predict FILE", f"best FILE {few} --json"),
        *_of(
            "streamsim", "w.toml", text, "code FILE --as schedule", "code FILE --as pytorch", "sweep FILE --chunks 1..4"
        ),
        *_of("streamsim-validate", "w.toml", text, f"tune FILE {few}"),
        *_read("workload", "w.toml", text),
    ]


@cache
def devices() -> list[Input]:
    """Shipped profiles, with kernels' costs and spread; of their curves a few points."""
    texts = [dump_toml(load_device(name)) for name in ("ideal", "k20c")]
    texts.append(tomli_w.dumps(_shortened(tomllib.loads(dump_toml(load_device("h200"))))))
    arrays, found = " ".join(ARRAYS), []
    for text in texts:
        found += [
            *_of("streamsim", "d.toml", text, "devices check FILE", "devices show FILE"),
            *_of("streamsim", "d.toml", text, f"predict {arrays} --chunks 3 --device FILE --json"),
            *_of("streamsim", "d.toml", text, f"predict {arrays} --device FILE --samples 20 --json"),
            *_of("streamsim", "d.toml", text, f"sweep {arrays} --device FILE --set h2d.latency=1us,2us"),
            *_read("device", "d.toml", text),
        ]
    return found


def _shortened(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _shortened(value) for name, value in tree.items()}
    return list(map(_shortened, tree[:3])) if isinstance(tree, list) else tree


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
    return [*_of("streamsim", "p.toml", text, "sweep --file FILE"), *_read("sweep", "p.toml", text)]


@cache
def unfinished() -> list[Input]:
    """The first half of a sweep's output."""
    asked = {"h2d": ["64KiB"], "kernel": ["10us"], "d2h": ["64KiB"], "chunks": ["1..8"], "device": ["h200"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out.csv"
        write_sweep(sweep_of(asked), path)
        half = "".join(path.read_text().splitlines(keepends=True)[:5])
    return [Input("streamsim", (*SWEEP, "-o", "out.csv"), {"out.csv": half})]


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
    """Compared with its own profile and another, with intervals; and a record of programs."""
    text, record = _record()[0], read_record(min(RECORDS.glob("programs-suite-*.json.gz")))
    run = msgspec.structs.replace(record.runs[0], entries=record.runs[0].entries[:4])
    programs = msgspec.json.encode(msgspec.structs.replace(record, runs=(run,))).decode()
    compared = ("compare FILE", "compare FILE --json", "compare FILE --device h200", "compare FILE --samples 20")
    return [
        *_of("streamsim-validate", "r.json.gz", text, *compared),
        Input("streamsim-validate", ("compare", "r.json.gz", "--fail-if", "median > 1%"), {"r.json.gz": text}),
        *_of("streamsim-validate", "r.json.gz", programs, "compare FILE --json"),
        *_read("record", "r.json.gz", text),
    ]


@cache
def journals() -> list[Input]:
    """A run that was not finished."""
    name, text = "r.json.gz.journal", _record()[1]
    return [*_of("streamsim-validate", name, text, "compare FILE -d h200 --json"), *_read("record", name, text)]


@cache
def samples() -> list[Input]:
    """What a calibration measured, in part for its reader."""
    text = gzip.decompress((RECORDS / "calibration-h200.samples.gz").read_bytes()).decode()
    short = json.dumps(_shortened(json.loads(text)))
    return [
        *_of("streamsim-validate", "c.gz", text, "calibrate --from FILE -o my.toml"),
        *_read("samples", "c.gz", short),
    ]


@cache
def lines() -> list[Input]:
    """Each command with options that are right."""
    schedule = dump_schedule(build(WORKLOAD, "depth-first", 2, 2)).decode()
    alone = (
        *(("predict", *ARRAYS, *FEW), ("predict", *ARRAYS, *FEW, "--json"), ("explain", *ARRAYS, *FEW)),
        *(("code", *ARRAYS, *FEW, "--as", "schedule"), ("code", *ARRAYS, *FEW, "--as", "cuda-c++")),
        *(("best", *ARRAYS, *MOST_FEW), SWEEP, ("init", "--schema", "device")),
    )
    return [
        *(Input("streamsim", command, {}) for command in alone),
        *_of("streamsim", "s.json", schedule, "check FILE", "predict FILE"),
        *_of("streamsim", "t.json", recording(), "explain FILE"),
        *_of("streamsim-validate", "r.json.gz", _record()[0], "compare FILE"),
        *_of("streamsim-validate", "s.json", schedule, "run FILE"),
        *(Input("streamsim-validate", command, {}) for command in (("calibrate",), ("tune", *ARRAYS, *MOST_FEW))),
    ]


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


def _imported(name: str, text: str) -> list[Input]:
    ways = ("--json", "", "--list --json", "--window step --json", "--skip-first --gpu 0 --json", "--process 420")
    return [*_of("streamsim", name, text, *(f"explain FILE {way}" for way in ways)), *_read("recording", name, text)]


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
    with tempfile.TemporaryDirectory() as folder:
        return _imported("t.sqlite", made.write(Path(folder) / "t.sqlite").read_bytes().decode("latin-1"))


KINDS = {
    "schedule": Kind(20, schedules, JSON),
    "workload": Kind(20, workloads, TOML),
    "device": Kind(20, devices, TOML),
    "sweep": Kind(10, sweeps, TOML),
    "unfinished sweep": Kind(5, unfinished, TEXT),
    "record": Kind(5, records, JSON),
    "journal": Kind(5, journals, LINES),
    "samples": Kind(1, samples, JSON),
    "trace": Kind(10, lambda: _imported("t.json", recording()), JSON),
    "packed trace": Kind(
        5, lambda: _imported("t.packed", gzip.compress(recording().encode(), 1, mtime=0).decode("latin-1")), BYTES
    ),
    "capture": Kind(10, lambda: _imported("t.capture", capture()), LINES),
    "export": Kind(10, exports, TABLES),
    "damaged export": Kind(10, exports, BYTES),
    "options": Kind(40, lines),
}


def input_of(name: str, rng: Random, grow_to: int = 0) -> Input:
    """An input of this kind with some things wrong; ``grow_to``: with its file grown to so many bytes instead."""
    kind = KINDS[name]
    made = rng.choice(kind.right())
    if kind.form is not None:
        ((file, text),) = made.files.items()
        wrong = grown(text, kind.form, rng, grow_to) if grow_to else gone_wrong(text, kind.form, rng)
        return made._replace(files={file: wrong})
    first, *words = made.arguments
    for _ in range(rng.randint(1, MOST_MUTATIONS)):
        words = mutate_option(_command_of(made), words, rng)
    return made._replace(arguments=(first, *words))


def _command_of(made: Input) -> click.Command:
    group = app if made.program == "streamsim" else validator
    found = group.get_command(click.Context(group), made.arguments[0])
    assert found is not None
    return found
