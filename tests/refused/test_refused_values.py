"""What Python's values and functions are refused for: how it begins, and what it shows behind the dots.

``project/test_types.py`` has every field of another type, and numbers that no field takes.
"""

from collections.abc import Callable
from functools import partial

import pytest
from layered import layers_of
from msgspec.structs import replace
from refusals import refusal
from strategies import NS, d2h, h2d, kernel, link, make_device, pipeline_of, plan

from streamsim import Workload, WorkloadKernel, device, load_device, program, simulate, sweep
from streamsim.advice import explain, what_if
from streamsim.analysis import interval
from streamsim.search import Grid, best_offload, proposals
from streamsim.transform import changes as change
from streamsim.transform import in_pieces, steps_of

Refused = list[tuple[Callable[[], object], str]]
DEVICE, IDEAL, H200 = make_device(), load_device("ideal"), load_device("h200")

# Programs

HOST, PAGE, CARD = (
    program.Buffer("host", 100, "pinned"),
    program.Buffer("page", 100, "pageable"),
    program.Buffer("card", 100, "device"),
)
ON_HOST, ON_CARD = program.Region("host", 0, 4), program.Region("card", 0, 4)
K = program.Kernel(1, duration_s=1e-3)
SHORT = WorkloadKernel(duration_s=1.0, launches=1_000_000)


def schedule(*ops: object, **more: object) -> program.Schedule:
    """A schedule with two streams, two events and three buffers."""
    fields = {"streams": ("non-blocking", "blocking"), "buffers": (HOST, PAGE, CARD), "events": 2} | more
    return program.Schedule(ops, **fields)  # type: ignore[arg-type]


SCHEDULES: Refused = [
    (lambda: program.Synchronize(stream=1, event=1), "event...1"),
    (lambda: schedule(K, streams=("loud",)), "streams[0]...'loud'"),
    (lambda: schedule(K, buffers=(HOST, HOST)), "buffers...'host'"),
    (lambda: schedule(K, program.Copy("h2d", 4, 3)), "ops[1].stream...3"),
    (lambda: schedule(program.Copy("h2d", 4, 1, program.Region("nope", 0, 4))), "ops[0].host.buffer...'nope'"),
    (lambda: schedule(program.Copy("h2d", 4, 1, None, ON_HOST)), "ops[0].device.buffer...'host'"),
    (lambda: schedule(program.Copy("h2d", 60, 1, program.Region("host", 50, 60))), "ops[0].host...50..110"),
    (lambda: schedule(program.Synchronize(), K, launch="graph"), "ops[0]...graph"),
    (lambda: schedule(program.Copy("h2d", 4, 1, program.Region("page", 0, 4)), launch="graph"), "ops[0]...graph"),
    (lambda: simulate(pipeline_of(16), "ideal"), "schedule...: expected a Schedule, such as depth_first"),  # type: ignore[arg-type]
]
PATTERNS: Refused = [
    (lambda: program.build(Workload(64, (4,), (), (SHORT,)), chunks=20), "chunks...: 20000020 copies"),
    (lambda: Workload(1 << 42, (4,)), f"inputs[0] * elements...{1 << 44}"),
    (lambda: Workload(4, (), (), ()), "inputs, outputs, kernels...at least one"),
    (lambda: WorkloadKernel(duration_s=1.0, per="item", latency_s=1e-6), "per...and no other time"),
    (lambda: WorkloadKernel(per="item"), "per...needs duration_s"),
    (lambda: program.workload_of_sizes([], ["1ms,2ms@1/2"]), "points...no less time"),
    (lambda: program.workload_of_sizes([], ["1ms,9us@64Ki"]), "points...give a share"),
    (lambda: program.workload_of_sizes(["1MiB"], ["4ms,9us@512Ki"]), "points...4 ms for 1 and 9 us for 2 of the whole"),
    (lambda: program.workload_of_sizes("64"), "h2d...'64': expected a list; put it into brackets: ['64']"),
    (lambda: program.parse_kernel("1ms,speed=3"), "...speed = '3': unknown field; streamsim init --schema"),
    (
        lambda: program.workload_of_sizes([], ["4ms,latency=5ms"]),
        "latency_s = 0.005 s: a launch takes so long at least, and one",
    ),
]
P, OTHER = program.Program(), program.Program()
S, X, H = P.stream(), P.device("x", 64), P.pinned("h", 64)
OTHER_EVENT = OTHER.stream().record()
BUILDER: Refused = [
    (lambda: S.wait(OTHER_EVENT), "event...: expected an event, as record() gives it in this program"),
    (lambda: S.copy_in(X, H[:8]), "to, source...'x'...'h'...: a copy needs one size"),
    (lambda: S.copy_out(H[:8], X), "to, source...'h'...'x'...: a copy needs one size"),
    (lambda: X[60:65], "x[60:65]: expected whole numbers of bytes, ascending, from 0 to 64"),
    (lambda: X[0:8:2], "x[...: expected a slice of bytes"),
    (lambda: P.schedule(), "ops = []: an empty schedule has nothing to predict"),
]
MODEL = layers_of((4, 5), (6, 3))


LAYERS: Refused = [
    (partial(best_offload, MODEL, IDEAL, 8, 3), "no way to place...allow more, or reserve less: the largest layer"),
    (
        lambda: best_offload(MODEL, IDEAL, memory_limit_bytes=8, reserve_bytes=0, pinned_limit_bytes=5),
        "no way to place 10 B of weights was found that fits into 8 B for weights on the card and 5 B pinned on",
    ),
    (lambda: program.Loop(batch=256, batch_bytes=154_000_000, step_s=45e-3, workers=1000), "workers"),
]

# Devices


def sourced(name: str, source: str) -> device.Device:
    return replace(DEVICE, sources=DEVICE.sources | {name: source})


def settings(*texts: str) -> device.Device:
    return device.changed(H200, device.parse_settings(texts))


NEITHER = "neither a shipped profile (" + ", ".join(device.device_names())
FALL = (2e-6, 1e-6)  # a slope that would give kernels of negative time and share
UNKNOWN = "front end = 'jax': expected one of calls, cuda-c++, cupy, pytorch, pytorch_eager"
DEVICES: Refused = [
    (lambda: replace(DEVICE, connections=33), "connections...33"),
    (lambda: replace(DEVICE, name="a,b"), "name...'a,b'"),
    (lambda: sourced("host", "guessed: at night"), "sources.host...'guessed: at night'"),
    (lambda: replace(DEVICE, spread={"host.coffee_s": 0.1}), "spread.host.coffee_s...0.1"),
    (lambda: link(latency=2, duplex_latency=1), "duplex_latency_s...1e-09"),
    (lambda: device.KernelCost("k", 0, (10, 20), FALL), "duration_s..."),
    (lambda: load_device("RTX309O"), f"device = 'RTX309O': {NEITHER}...; did you mean 'rtx3090'?"),
    *((partial(load_device, name), f"device = ...{NEITHER}") for name in ("", "no/such/t4", "\0", "1" * 5000)),
    (lambda: load_device("h200:jax"), UNKNOWN),
    (lambda: device.changed(H200, {"link.bandwidth": 16**5000}), "h2d.bandwidth_bytes_per_s = ...number from"),
    (lambda: settings("link.latency=1us", "h2d.latency=2us"), "h2d.latency_s: set twice; keep one"),
    (lambda: settings("h2d.__doc__=x"), "'h2d.__doc__': no number or rule of a device profile"),
    (lambda: settings("h2d.bandwith=1GB/s"), "'h2d.bandwith': no number or rule...; did you mean h2d.bandwidth?"),
    (lambda: settings("connections=4"), "'connections': cannot be set here; use --connections"),
    (lambda: settings("host.copy"), "set = 'host.copy': expected NAME=VALUE such as h2d.bandwidth=51GB/s"),
    (lambda: settings("host.copy=1us,2us"), "host.copy = '1us,2us': expected one value; streamsim sweep takes several"),
    (lambda: settings("d2h.duplex_bandwidth=9TB/s"), "d2h.duplex_bandwidth_bytes_per_s = 9e+12: above bandwidth_byt"),
]

# Advice and search

TWO_STEPS = plan(*(h2d(1, 10), kernel(1, 20), d2h(1, 10)) * 2, program.Synchronize(), streams=1)
COPIED = (program.Copy("h2d", 100, 1, program.Region("host", 0, 100)), program.Synchronize(stream=1), kernel(1, 20))
PAGEABLE = plan(*COPIED, streams=1, buffers=(program.Buffer("host", 100, "pageable"),))
OVERWRITTEN = plan(  # what the first kernel reads, by the second copy
    *(program.Copy("h2d", 4, 1, ON_HOST, ON_CARD), program.Kernel(1, duration_s=NS, reads=(ON_CARD,))) * 2,
    streams=1,
    buffers=(HOST, CARD),
)
NOBODY_WAITS = (h2d(1, 4), program.WaitThread(0, thread=1), kernel(1, 4, thread=1), h2d(1, 4), kernel(1, 4))
NO_SPREAD = "device 'ideal': its profile has no spread...; calibrate the card with streamsim-validate calibrate, or"
ADVICE: Refused = [
    (lambda: steps_of(plan(h2d(1, 4), kernel(1, 4), kernel(1, 4))), "...no step is repeated"),
    (lambda: steps_of(plan(*NOBODY_WAITS)), "...in step 1 nobody waits for thread 1"),
    (lambda: in_pieces(TWO_STEPS, 11), "...of 10 bytes or elements cannot be cut into 11 pieces; give fewer"),
    (
        lambda: what_if(OVERWRITTEN, DEVICE, [change.order("breadth-first")]),
        "...cannot be issued breadth-first: its data needs another order",
    ),
    (lambda: what_if(TWO_STEPS, DEVICE, [change.streams(2)]), "--streams 2: nothing in the schedule ...--independent"),
    (lambda: what_if(TWO_STEPS, DEVICE, [change.chunks(3)], True), "...cannot be made 3: give a multiple of 2"),
    (lambda: what_if(PAGEABLE, DEVICE, [change.GRAPH]), "...blocking or pageable"),
    (lambda: interval(plan(h2d(1, 10)), IDEAL), NO_SPREAD),
    (lambda: explain(plan(program.Kernel(1, "mine", 100)), IDEAL), "...no cost for it"),
]
SEARCHES: Refused = [
    (lambda: program.Config("random"), "order = 'random': expected one of"),  # type: ignore[arg-type]
    (lambda: sweep(pipeline_of(8), chunk=4), "chunk = 4: unknown; expected one of "),
    (lambda: sweep(pipeline_of(8), chunks={"a": 1}), "chunks = {'a': 1}: expected a text, a number or a list of them"),
    (lambda: sweep(pipeline_of(8), set="host.copy=foo"), "host.copy_s = 'foo': expected a time"),
    (lambda: sweep(pipeline_of(8), []), "devices = []: a sweep needs at least one"),
    (lambda: proposals(pipeline_of(8), [], DEVICE), "configs = []: nothing to choose from"),
    (lambda: Grid(chunks=()), "chunks = []: an empty grid; give at least one"),
]
REFUSED: Refused = [*SCHEDULES, *PATTERNS, *BUILDER, *LAYERS, *DEVICES, *ADVICE, *SEARCHES]


@pytest.mark.parametrize(("make", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_a_value_says_in_one_line_what_is_wrong(make: Callable[[], object], said: str) -> None:
    refusal(make, said)
