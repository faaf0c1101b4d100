"""What is predicted of the programs of a record, by what its user knows of the kernel, and how wrong that is.

``cd validate; python -m campaigns.predicted`` prints the tables of docs/evidence.md, with other rules for small parts.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

from campaigns.record import CALLS_OF, Group, Record, read_record
from streamsim import Config, Device, Workload, WorkloadKernel, evaluate
from streamsim.device import kernel_costs
from streamsim.device.files import parse_device
from streamsim.program.workload import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOLDER = Path(__file__).parents[2] / "records"
CARDS = ("h100", "h200")
LARGE = 1 << 22  # elements, from which on a program is a large one
CUBLAS = "gemm"
FLOAT_BYTES = 4
PROBED_CHUNKS = 64  # of the host's calls: issue_us of pipelines.cu
RULES = {"none": (0.0, 0.0), "1/10, 1/10": (0.1, 0.1), "1/16, 1/8": (1 / 16, 1 / 8), "1/4, 1/4": (1 / 4, 1 / 4)}


class Known(NamedTuple):
    """What a user knows of a kernel beside its time over the whole: no more, one time at ``at`` elements, or others."""

    name: str
    at: int | Literal["chunk", "all"] | None = None


WHOLE = Known("the whole kernel's time alone")
POINT_16KI = Known("and its time at 16 Ki elements", 1 << 14)
POINT_64KI = Known("and its time at 64 Ki elements", 1 << 16)
POINT_CHUNK = Known("and its time at a chunk's elements", "chunk")
CURVE = Known("its whole measured curve", "all")
ALL_KNOWN = (WHOLE, POINT_16KI, POINT_64KI, POINT_CHUNK, CURVE)


class Error(NamedTuple):
    """Predicted over measured time of a program, less one."""

    kernel: str
    elements: int
    chunks: int
    error: float


@cache
def record_of(card: str) -> Record:
    return read_record(FOLDER / f"programs-{card}.json.gz")


@cache
def errors(card: str, known: Known, rule: str = "") -> list[Error]:
    """Of every program of the record; ``rule`` names its workload, by which the compiled model keeps costs."""
    record = record_of(card)
    device = parse_device(record.profile)
    return [error for group in record.groups for error in _errors(record, group, device, known, rule)]


def of_size(found: list[Error], large: bool, cublas: bool = False) -> np.ndarray:
    """Absolute errors of the large or the small programs, those of cuBLAS's SGEMM or those of all other kernels."""
    wanted = (e for e in found if (e.elements >= LARGE) == large and (e.kernel == CUBLAS) == cublas)
    return np.array([abs(e.error) for e in wanted])


def median_and_p95(found: np.ndarray) -> tuple[float, float]:
    return float(np.median(found)), float(np.percentile(found, 95))


def kernel_of(record: Record, group: Group, known: Known, chunks: int) -> WorkloadKernel:
    """The kernel of a group by its time. Where a measured time falls as the work grows, the longer one holds."""
    sizes, times_us = zip(*record.curves[group.kernel], strict=True)
    least_us = list(accumulate(times_us, max))
    wanted: Sequence[int]
    if known.at == "all":
        wanted = sizes
    elif known.at == "chunk":
        wanted = [group.elements // chunks]
    else:
        wanted = [known.at] if known.at else []

    def time_s(elements: int) -> float:
        return float(np.interp(elements, sizes, least_us)) * 1e-6

    points = tuple(Point(n, time_s(n)) for n in wanted if n < group.elements)
    return WorkloadKernel(group.kernel, time_s(group.elements), points=points)


def with_calls(device: Device, group: Group) -> Device:
    """The calls of a C++ program cost the host other than CuPy's, and by the minute: as probed beside the group."""
    few, many = CALLS_OF.index(4), CALLS_OF.index(16)
    copies_us, chunk_us = group.copies_us, group.chunk_us
    first_us = max(0.0, chunk_us[many] - chunk_us[few]) * PROBED_CHUNKS / (3 * (16 - 4))  # three calls a stream
    each_us = first_us * 4 / PROBED_CHUNKS  # of a call that each of few streams makes first
    copy_us = max(0.0, copies_us[few] / 2 - each_us)
    kernel_us = max(0.0, chunk_us[few] - copies_us[few] - each_us)
    calls = {"copy_s": copy_us * 1e-6, "kernel_s": kernel_us * 1e-6, "first_on_stream_s": first_us * 1e-6}
    return replace(device, host=replace(device.host, **calls))


def _errors(record: Record, group: Group, device: Device, known: Known, rule: str) -> Iterator[Error]:
    device = with_calls(device, group)
    wake_us = device.host.wake_s * 1e6  # until the synchronisation returns
    bytes_in = bytes_out = (FLOAT_BYTES,)
    for chunks, some in groupby(group.programs, key=lambda program: program.chunks):
        programs = list(some)
        kernel = kernel_of(record, group, known, chunks)
        workload = Workload(group.elements, bytes_in, bytes_out, (kernel,), rule)
        configs = [Config(program.order, chunks, program.streams) for program in programs]
        for program, end_s in zip(programs, evaluate(workload, configs, device, fast=True), strict=True):
            yield Error(group.kernel, group.elements, chunks, (end_s * 1e6 + wake_us) / program.wall_us[1] - 1)


def row(name: str, one: Callable[[str], list[Error]], cublas: bool = False) -> str:
    """A row of a table: per cent of the large and of the small programs, card by card."""
    figures = [median_and_p95(of_size(one(card), large, cublas)) for card in CARDS for large in (True, False)]
    return f"| {name} | {' | '.join(f'{100 * median:.1f}, {100 * p95:.1f}' for median, p95 in figures)} |"


def main() -> None:
    """Print the tables."""
    chosen = kernel_costs.LEAST_THREADS, kernel_costs.LEAST_TIME
    for known in ALL_KNOWN:
        print(row(known.name, partial(errors, known=known)))
    for known in (WHOLE, CURVE):
        print(row(f"SGEMM, {known.name}", partial(errors, known=known), cublas=True))
    for name, rule in RULES.items():
        kernel_costs.LEAST_THREADS, kernel_costs.LEAST_TIME = rule
        print(row(name, partial(errors, known=WHOLE, rule=name)))
    kernel_costs.LEAST_THREADS, kernel_costs.LEAST_TIME = chosen


if __name__ == "__main__":
    main()
