"""What the room refuses: every bad value, call or file is one printable line that begins with what is wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from layered import layers_of
from msgspec.structs import replace
from refusals import refusal
from strategies import pipeline_of

from streamsim import Workload, WorkloadKernel, simulate
from streamsim.errors import LARGEST_BYTES
from streamsim.program import (
    Buffer,
    Copy,
    Kernel,
    Layer,
    Memory,
    Offload,
    Program,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    build,
    depth_first,
    offload,
    parse_kernel,
    parse_layers,
    parse_workload,
    ring,
    workload_of_sizes,
)

HOST, PAGE, CARD = Buffer("host", 100, "pinned"), Buffer("page", 100, "pageable"), Buffer("card", 100, "device")
K = Kernel(1, duration_s=1e-3)
SHORT = WorkloadKernel(duration_s=1.0, launches=1_000_000)


def schedule(*ops: object, **more: object) -> Schedule:
    """A schedule with two streams, two events and three buffers."""
    fields = {"streams": ("non-blocking", "blocking"), "buffers": (HOST, PAGE, CARD), "events": 2} | more
    return Schedule(ops, **fields)  # type: ignore[arg-type]


def mine() -> tuple[Program, Memory, Memory]:
    """A program with memory on both sides."""
    p = Program()
    return p, p.device("x", 64), p.pinned("h", 64)


P, X, H = mine()
S = P.stream()
OTHER, OTHER_X, OTHER_H = mine()
OTHER_EVENT = OTHER.stream().record()
ONE = "[[layers]]\nweight_bytes = {}\nkernels = {}\n"

# What to make, how the message begins, and what it must show: the field and its value.
VALUES: list[tuple[Callable[[], object], str, str]] = [
    (lambda: Copy("both", 4, 1), "direction", "'both'"),  # type: ignore[arg-type]
    (lambda: Copy("h2d", 0, 1), "bytes", "0"),
    (lambda: Copy("h2d", LARGEST_BYTES + 1, 1), "bytes", str(LARGEST_BYTES + 1)),
    (lambda: Copy("h2d", 4, 1, Region("host", 0, 5)), "host.bytes", "5"),
    (lambda: Kernel(1), "duration_s", "None"),
    (lambda: Kernel(1, duration_s=1e-3, fill=1.5), "fill", "1.5"),
    (lambda: Synchronize(stream=1, event=1), "event", "1"),
    (lambda: Buffer("", 4, "pinned"), "name", "''"),
    (lambda: Buffer("a", 4, "managed"), "memory", "'managed'"),  # type: ignore[arg-type]
    (lambda: Region("a", 0, 0), "bytes", "0"),
    (lambda: schedule(), "ops", "[]"),
    (lambda: schedule(K, streams=("loud",)), "streams[0]", "'loud'"),
    (lambda: schedule(K, launch="later"), "launch", "'later'"),
    (lambda: schedule(K, schema_version=9), "schema_version", "9"),
    (lambda: schedule(K, buffers=(HOST, HOST)), "buffers", "'host'"),
    (lambda: schedule(K, "kernel"), "ops[1]", "'kernel'"),
    (lambda: schedule(K, Copy("h2d", 4, 3)), "ops[1].stream", "3"),
    (lambda: schedule(K, Synchronize(stream=7)), "ops[1].stream", "7"),
    (lambda: schedule(RecordEvent(2, 1)), "ops[0].event", "2"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("nope", 0, 4))), "ops[0].host.buffer", "'nope'"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("card", 0, 4))), "ops[0].host.buffer", "'card'"),
    (lambda: schedule(Copy("h2d", 4, 1, None, Region("host", 0, 4))), "ops[0].device.buffer", "'host'"),
    (lambda: schedule(Copy("h2d", 60, 1, Region("host", 50, 60))), "ops[0].host", "50..110"),
    (lambda: schedule(Kernel(1, duration_s=1e-3, reads=(Region("host", 0, 4),))), "ops[0].reads", "'host'"),
    (lambda: schedule(Synchronize(), K, launch="graph"), "ops[0]", "graph"),
    (lambda: schedule(Kernel(0, duration_s=1e-3), launch="graph"), "ops[0].stream", "0"),
    (lambda: schedule(Copy("h2d", 4, 1, blocking=True), launch="graph"), "ops[0]", "graph"),
    (lambda: schedule(Copy("h2d", 4, 1, Region("page", 0, 4)), launch="graph"), "ops[0]", "graph"),
    (lambda: depth_first(pipeline_of(4), 5, 1), "chunks", "5"),
    (lambda: ring(pipeline_of(4), 2, 2, 0), "streams", "0"),
    (lambda: build(Workload(64, (4,), (), (SHORT,)), chunks=20), "chunks", ": 20000020 copies"),
    (lambda: pipeline_of(0), "elements", "0"),
    (lambda: Workload(4, (0,)), "inputs[0]", "0"),
    (lambda: Workload(4, (), (4, -4)), "outputs[1]", "-4"),
    (lambda: Workload(1 << 42, (4,)), "inputs[0] * elements", str(1 << 44)),
    (lambda: Workload(4, (), (), ()), "inputs, outputs, kernels", "at least one"),
    (lambda: WorkloadKernel(duration_s=0.0), "duration_s", "0.0"),
    (lambda: simulate(pipeline_of(16), "ideal"), "schedule", ": expected a Schedule, such as depth_first"),  # type: ignore[arg-type]
    (lambda: schedule(K, unchunked=5), "unchunked", "5"),
    (lambda: schedule(K, name=5), "name", "5"),
    (lambda: replace(K, reads=[Region("card", 0, 4)]), "reads", "list"),
    (lambda: Workload(16, [4]), "inputs", "list"),  # type: ignore[arg-type]
    (lambda: WorkloadKernel(points=[]), "points", "list"),  # type: ignore[arg-type]
    (lambda: Layer(4, [WorkloadKernel(duration_s=1.0)]), "kernels", "list"),  # type: ignore[arg-type]
    (lambda: Layer(4, (WorkloadKernel(duration_s=1.0),), repeats=True), "repeats", "True"),
    (lambda: offload("x"), "layers", "'x'"),  # type: ignore[arg-type]
    (lambda: WorkloadKernel(duration_s=1.0, per="item", latency_s=1e-6), "per", "and no other time"),
    (lambda: WorkloadKernel(per="item"), "per", "needs duration_s"),
    (lambda: workload_of_sizes([], ["1ms,2ms@1/2"]), "points", "no less time"),
    (lambda: workload_of_sizes([], ["1ms,9us@64Ki"]), "points", "give a share"),
    (lambda: workload_of_sizes(["1MiB"], ["4ms,9us@512Ki"]), "points", "4 ms for 1 and 9 us for 2 of the whole"),
    (lambda: workload_of_sizes(["1MiB"], ["1ms,9us@1/4,8us@0.25"]), "points", "give each part once"),
    (lambda: workload_of_sizes("64"), "h2d", "'64': expected a list; put it into brackets: ['64']"),
    (lambda: workload_of_sizes(["64"], "1ms"), "kernels", "put it into brackets: ['1ms']"),
]
BUILDER: list[tuple[Callable[[], object], str]] = [
    (lambda: S.wait(OTHER_EVENT), "event 0: of another program; record one in a stream of this program"),
    (lambda: S.wait(3), "event = 3: expected an event, as record() gives it"),  # type: ignore[arg-type]
    (lambda: S.copy_in(OTHER_X, H), "to = x[0:64] (device): of another program; declare it in this program"),
    (lambda: S.kernel(1e-6, writes=[X, H]), "writes = h[0:64] (pinned): expected device memory"),
    (lambda: S.kernel(1e-6, writes=["x"]), "writes = 'x': expected memory"),  # type: ignore[list-item]
    (lambda: S.copy_in(H, X), "to = h[0:64] (pinned): expected device memory"),
    (lambda: S.copy_out(X, H), "to = x[0:64] (device): expected pinned or pageable memory"),
    (lambda: S.copy_in(X[:8], H), "to = x[0:8] (device), source = h[0:64] (pinned): a copy needs one size"),
    (lambda: S.copy_in(), "to = None, source = None: a copy needs one size"),
    (lambda: S.copy_in(8, "16B"), "to = 8, source = '16B': a copy needs one size"),
    (lambda: S.kernel(1e-6, parts=(0.5,)), "parts[0] = 0.5: expected a tuple"),
    (lambda: S.copy_in("64M"), "size = '64M': expected a size"),
    (lambda: S.kernel("5 parsecs"), "duration = '5 parsecs': expected a time"),
    (lambda: X[60:65], "x[60:65]: expected whole numbers of bytes, the smaller first, from 0 to 64"),
    (lambda: X[0:8:2], "x[slice(0, 8, 2)]: expected a slice of bytes without a step"),
    (lambda: P.device("x", 8), "name = 'x': another buffer has this name; rename one"),
    (lambda: P.pinned("", 8), "name = '': expected a buffer name"),
    (lambda: P.schedule(), "ops = []: an empty schedule has nothing to predict"),
]
OFFLOADS: list[tuple[dict[str, Any], str]] = [
    ({"depth": 0}, "depth = 0: expected a whole number from 1"),
    ({"resident": ["layer0"]}, "resident = list: expected a tuple"),
    ({"resident": ("layer0", "layer0")}, "resident[1] = 'layer0': stands twice"),
    ({"resident": ("layer7",)}, "resident = 'layer7': no layer has this name"),
    ({"reserve_bytes": -1}, "reserve_bytes = -1: expected a whole number from 0"),
]
KERNELS = [
    ("fast", "kernel = 'fast'"),
    ("1ms,2ms", "two times of the whole"),
    ("1ms@2%%", "kernel part"),
    ("1ms/0", "kernel launches"),
    ("1ms,speed=3", "'speed' is none of threads, latency, fill, name, launches"),
    ("1ms,fill=2", "kernel fill"),
    ("4ms,threads=2,threads=3", "threads is given twice"),
    ("4ms,name=", "name = ''"),
    ("4ms,latency=5ms", "latency_s = 0.005 s: a launch takes so long at least, and one of these takes 4 ms"),
    ("4ms,9us@abc", "kernel part = 'abc': expected a count such as 16Mi, 4M or 4096"),
]
WORKLOADS = [
    ("inputs = [4]\nkernel = ['4ms']", "kernel = ['4ms']: unknown field; did you mean kernels?"),
    (
        "kernels = [{ points = [{ on = 3 }] }]",
        "kernels[0].points[0].on = 3: unknown field; streamsim init --schema says",
    ),
    ("kernels = ['1ms', 0]", "kernels[1]: duration_s = 0: expected a number from 1e-09"),
    ("inputs = ['1MiB']\nkernels = ['10us@512Ki,latency=8us']", "latency_s = 8e-06 s: a launch takes so long at least"),
    ("inputs = '64'", "inputs = '64': expected a list; put it into brackets: ["),
    ("kernels = [{}]", "kernels: kernel has no time and nothing to work on; give its duration_s, or arrays"),
]
TOML = [
    ("", "is empty; expected the layers of a model"),
    ("layers = []", "layers = []: a model needs a layer; add one"),
    ("[[layers]]\nweight_bytes = 4", "layers[0].kernels: is missing"),
    (ONE.format("'4m'", "['1ms']"), "layers[0].weight_bytes = '4m': expected a size in bytes"),
    (ONE.format(4, "['1ms', {name = 'x'}]"), "layers[0].kernels[1].duration_s: is missing"),
    (ONE.format(4, "['1ms']") + "bytes = 4", "layers[0].bytes = 4: unknown field"),
    (ONE.format(4, "['1ms']") + "name = 'a,b'", "layers[0].name = 'a,b': expected no comma"),
    (ONE.format("'5TiB'", "['1ms']") * 2, "weight_bytes in all = 10995116277760: expected"),
    ((ONE.format(4, "['1ms']") + "name = 'a'\n") * 2, "layers[1].name = 'a': another layer is called 'a'"),
    (ONE.format(4, "['1ms']") + "repeats = 10000\n" + ONE.format(4, "['1ms']"), "layers, passes: 10001 layers and"),
    ("inputs = [4]", "is a workload, for `streamsim predict`; expected the layers of a model"),
    ("[[layers", "cannot be read"),
]


def _offload(fields: dict[str, Any]) -> Schedule:
    return Offload(**fields).schedule(layers_of((4, 5), (6, 3)))


REFUSED: list[tuple[Callable[[], object], str, str]] = [
    *VALUES,
    *((call, begins, "") for call, begins in BUILDER),
    *((partial(_offload, fields), begins, "") for fields, begins in OFFLOADS),
    *((partial(parse_kernel, text), "", shows) for text, shows in KERNELS),
    *((partial(parse_workload, text, "w"), f"w: {says}", "") for text, says in WORKLOADS),
    *((partial(parse_layers, text, "model.toml"), f"model.toml: {says}", "") for text, says in TOML),
]


@pytest.mark.parametrize(("make", "begins", "shows"), REFUSED, ids=[f"{b}{s}"[:40] for _, b, s in REFUSED])
def test_bad_input_is_one_line_that_says_what_is_wrong(make: Callable[[], object], begins: str, shows: str) -> None:
    said = refusal(make)
    assert said.startswith(begins)
    assert shows in said
