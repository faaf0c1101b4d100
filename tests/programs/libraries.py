"""Programs in CuPy and PyTorch, as ``streamsim code`` writes them, measured on a card and beside their predictions.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before:

    cd tests; python -m programs.libraries --seed 7 --count 75 profile.toml ../validate/records/libraries-h100.json.gz

and anywhere ``python -m programs.libraries ../validate/records/libraries-h100.json.gz`` prints the errors. A program is
measured by its own ``measure``; beside it stand the time of each of its kernels over all the work, alone, and how fast
the host made such calls just before.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import numpy as np

from streamsim import Config, Device, Workload, WorkloadKernel
from streamsim.code.programs import code_of
from streamsim.compiled import simulate
from streamsim.device.files import parse_device
from streamsim.device.front_ends import with_front_end
from streamsim.device.variations import with_values
from streamsim.files.atomic_files import write_bytes
from streamsim.program.workload import Point
from streamsim_validate.calibrate import time_round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from streamsim_validate.gpu import Calls

FrontEndName = Literal["cupy", "pytorch"]
FRONT_ENDS: tuple[FrontEndName, ...] = ("cupy", "pytorch")
Order = Literal["depth-first", "breadth-first"]

FLOAT_BYTES = 4
ELEMENTS = (1 << 18, 1 << 20, 1 << 22, 1 << 24)
CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
STREAMS = (1, 2, 3, 4, 6, 8)
WORK = (1, 4, 16, 64)
REPEATS = 9
CHAIN = 20  # launches
SPIN_CYCLES = 20_000_000  # some 10 ms, in which the host makes them all
HOST_BOUND = 0.8  # of the wall time, from which on the calls by themselves set it
CALLS = ("copy", "kernel", "record", "wait", "synchronize", "enter")  # of a host
CHUNK = "|iko"  # the round that says how fast the host is


class Program(msgspec.Struct, frozen=True):
    """A program and what it took.

    ``kernel_s``: of each kernel over all the work, alone; ``chunk_s``: over the largest chunk. ``round_s``: of a round
    of such calls just before.
    """

    front_end: FrontEndName
    order: Order
    elements: int
    kernels: int
    work: int
    chunks: int
    streams: int
    kernel_s: float
    chunk_s: float
    round_s: float
    wall_s: tuple[float, ...]


class Record(msgspec.Struct, frozen=True):
    """What was measured, and the profile that was calibrated just before, as TOML."""

    seed: int
    date: str
    profile: str
    programs: tuple[Program, ...]


# -- on a card ---------------------------------------------------------------------------------------------------------


def drawn(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """So many configurations of each front end, in turns.

    Breadth-first ones over two streams or more: in one stream the loop enters it anew for every op, and the model does
    not (docs/limits.md); nothing would overlap in them.
    """
    rng = random.Random(seed)
    for _ in range(count):
        for front_end in FRONT_ENDS:
            chunks, streams = rng.choice(CHUNKS), rng.choice(STREAMS)
            orders: tuple[Order, ...] = (
                ("depth-first", "breadth-first") if min(chunks, streams) > 1 else ("depth-first",)
            )
            yield {
                "front_end": front_end,
                "order": rng.choice(orders if min(chunks, streams) > 1 else orders[:1]),
                "elements": rng.choice(ELEMENTS),
                "kernels": rng.choice((1, 1, 2, 3, 6)),
                "work": rng.choice(WORK),
                "chunks": chunks,
                "streams": min(chunks, streams),
            }


def workload_of(elements: int, kernels: int, kernel_s: float, points: tuple[Point, ...] = ()) -> Workload:
    """A float in and a float out of each element, through so many kernels that take as long."""
    kernel = WorkloadKernel(duration_s=kernel_s, points=points)
    return Workload(elements, (FLOAT_BYTES,), (FLOAT_BYTES,), (kernel,) * kernels)


@cache
def namespace_of(front_end: FrontEndName, order: Order, elements: int, kernels: int) -> dict[str, Any]:
    """The names of a written program, which takes the chunks, the streams and the work as arguments."""
    text = code_of(workload_of(elements, kernels, 1e-4), Config(order, 2, 2), front_end)
    found: dict[str, Any] = {"__name__": "pipeline"}
    exec(compile(text, f"{front_end} {order}", "exec"), found)  # what streamsim wrote itself
    return found


def measured(what: dict[str, Any], calls: Calls) -> Program:
    """One program, with what stands beside it. Raises RuntimeError if its output is not that of the serial program."""
    names = namespace_of(what["front_end"], what["order"], what["elements"], what["kernels"])
    chain = CHAINS[what["front_end"]]
    parts = what["elements"], -(-what["elements"] // what["chunks"])
    kernel_s, chunk_s = (chain(names, elements, what["work"]) / what["kernels"] for elements in parts)
    round_s = statistics.median(time_round(calls, CHUNK) for _ in range(3))
    result = names["measure"](what["chunks"], what["streams"], REPEATS, what["work"])
    if not result["verified"]:
        raise RuntimeError(f"{what}: its output is not that of the serial program")
    return Program(**what, kernel_s=kernel_s, chunk_s=chunk_s, round_s=round_s, wall_s=tuple(result["wall_s"]))


def _cupy_chain(names: dict[str, Any], elements: int, work: int) -> float:
    cp = import_module("cupy")
    x, y = cp.zeros(elements, np.float32), cp.zeros(elements, np.float32)
    code = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'
    spin = cp.RawKernel(code, "spin")

    def chain(length: int) -> float:
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        spin((1,), (1,), (SPIN_CYCLES,))
        begin.record()
        for _ in range(length):
            names["kernels"](x, y, work)
        end.record()
        end.synchronize()
        return float(cp.cuda.get_elapsed_time(begin, end)) * 1e-3

    return _each(chain)


def _pytorch_chain(names: dict[str, Any], elements: int, work: int) -> float:
    torch = import_module("torch")
    x, y = (torch.zeros(elements, device="cuda") for _ in range(2))

    def chain(length: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        begin.record()
        for _ in range(length):
            names["kernels"](x, y, work)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    return _each(chain)


def _each(chain: Callable[[int], float]) -> float:
    """Seconds that one more link takes, once warm."""
    chain(1)
    short, long = (statistics.median(chain(n) for _ in range(3)) for n in (1, 1 + CHAIN))
    return (long - short) / CHAIN


CHAINS: dict[str, Callable[[dict[str, Any], int, int], float]] = {"cupy": _cupy_chain, "pytorch": _pytorch_chain}


def record(seed: int, count: int, profile: Path, output: Path, date: str) -> None:
    """Measure and keep so many programs of each front end."""
    from streamsim_validate.gpu import installed_libraries

    calls = {library.name: library for library in installed_libraries(0)}
    programs = tuple(measured(what, calls[what["front_end"]]) for what in drawn(seed, count))
    found = Record(seed, date, profile.read_text(encoding="utf-8"), programs)
    write_bytes(gzip.compress(msgspec.json.encode(found), mtime=0), output)


# -- anywhere ----------------------------------------------------------------------------------------------------------


class Error(NamedTuple):
    """Predicted over measured time of a program, less one; and whether its calls by themselves set its time."""

    program: Program
    error: float
    host_bound: bool


def read_record(path: Path) -> Record:
    """A record of such programs."""
    return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Record)


def device_of(record: Record, front_end: str) -> Device:
    """The card as it was calibrated, with the calls of the front end."""
    return with_front_end(parse_device(record.profile), front_end)


def at_speed(device: Device, program: Program) -> Device:
    """The same with the host as fast as it was just before the program."""
    host = device.host
    usual_s = 2 * host.copy_s + host.kernel_s + host.enter_s
    faster = program.round_s / usual_s
    return with_values(device, {f"host.{name}_s": getattr(host, f"{name}_s") * faster for name in CALLS})


def predicted_s(program: Program, device: Device) -> float:
    """From the first call until the synchronisation behind the last one returns."""
    between_s = device.hand_over.kernel_to_kernel_s  # in a chain each waits for one
    whole_s, part_s = (max(1e-9, seconds - between_s) for seconds in (program.kernel_s, program.chunk_s))
    part = -(-program.elements // program.chunks)
    points = (Point(float(part), min(part_s, whole_s)),) if program.chunks > 1 else ()
    workload = workload_of(program.elements, program.kernels, whole_s, points)
    timeline = simulate(Config(program.order, program.chunks, program.streams).schedule(workload), device)
    return timeline.returned[-1] * 1e-9


def errors(record: Record, at_its_speed: bool = False) -> list[Error]:
    """Of every program; ``at_its_speed``: with the host as fast as it was just before each."""
    devices = {front_end: device_of(record, front_end) for front_end in FRONT_ENDS}
    found = []
    for program in record.programs:
        device = devices[program.front_end]
        wall_s = statistics.median(program.wall_s)
        beside = at_speed(device, program)
        host = beside.host
        calls_s = program.chunks * (2 * host.copy_s + program.kernels * host.kernel_s + host.enter_s)
        error = predicted_s(program, beside if at_its_speed else device) / wall_s - 1
        found.append(Error(program, error, calls_s > HOST_BOUND * wall_s))
    return found


def row(found: Iterable[Error]) -> str:
    """How many, and the median, the 95th percentile and the worst of their errors in percent."""
    sizes = [100 * abs(one.error) for one in found]
    if not sizes:
        return "none"
    return f"{len(sizes)}: {np.median(sizes):.1f} / {np.percentile(sizes, 95):.1f} / {max(sizes):.1f} %"


def _print(record: Record) -> None:
    for at_its_speed in (False, True):
        print("the host as fast as just before each" if at_its_speed else "as calibrated")
        found = errors(record, at_its_speed)
        for front_end in FRONT_ENDS:
            for host_bound in (False, True):
                of = [one for one in found if (one.program.front_end, one.host_bound) == (front_end, host_bound)]
                print(f"  {front_end}, {'host' if host_bound else 'device'}-bound {row(of)}")


def main() -> None:
    """Measure, where there is a profile to go with it, or print the errors of a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path, nargs="?")
    parser.add_argument("record", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=75)
    parser.add_argument("--date", default="")
    given = parser.parse_args()
    if given.profile:
        record(given.seed, given.count, given.profile, given.record, given.date)
    _print(read_record(given.record))


if __name__ == "__main__":
    main()
