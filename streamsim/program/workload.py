"""Workloads: the work of a program, before it is cut into chunks; and the rule that cuts it.

A workload gives the sizes of its arrays and the times of its kernels. :meth:`Workload.cut` gives each chunk's share.
This rule stands only here: patterns, the compiled search and its bounds ask it.
"""

from __future__ import annotations

import os
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from streamsim import errors
from streamsim.files import Parsers, converted, parse_toml, read_bytes, toml_of
from streamsim.program.schedule import Kernel
from streamsim.text import (
    LARGEST_TOML_BYTES,
    check_listed,
    format_seconds,
    parse_bytes,
    parse_count,
    parse_seconds,
    parse_share,
)

BYTES_PER_ELEMENT = 4  # default: floats, one thread for each
THREADS_PER_S = 250_000_000  # least threads of a launch: a wave of a large card takes at most 1 ms
ALIGN_BYTES = 16  # arrays are cut at multiples of a thread's widest load, a float4
MOST_LAUNCHES = 1_000_000
UNNAMED = "kernel"

Per = Literal["chunk", "item"]
Timed = Literal["alone", "events"]


class Point(errors.Checked, frozen=True):
    """A measured time of a kernel: ``duration_s`` for ``at``, a share of the work (up to 1) or a number of elements."""

    at: Annotated[float, errors.Limits(errors.LEAST_SHARE, errors.LARGEST_BYTES)]
    duration_s: errors.KernelTime


class WorkloadKernel(errors.Checked, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A kernel over the whole workload.

    - ``duration_s``: seconds alone on the card. Without it, and without ``points``, the device profile's cost of
      ``name`` and ``parameter`` gives the time. A chunk's share of the time is its share of the work, but at least the
      time of a launch: ``latency_s`` if it is known, otherwise by the rule of
      :func:`streamsim.device.profile.part_s`.
    - ``points``: measured times of parts. Without ``duration_s``, a line through the last two gives the time of the
      whole.
    - ``threads``: the threads of a launch over the whole work (0: see :meth:`Workload.threads`).
    - ``launches``: the number of equal launches, one after another, that take these times together; ``latency_s`` is
      the time of one.
    - ``per``: "chunk": each chunk makes all launches over its share of the work, like the layers of a network. "item":
      each launch belongs to an item of the work, and a chunk makes its share of the launches.
    - ``timed``: "alone": the times are the kernel's own. "events": they are the times between two events around all
      launches, which are longer (:func:`streamsim.analysis.workloads.timed_alone`).
    - ``fill``: the share of the card (0..1] that it keeps busy (None: as its threads fill it).

    Raises InputError naming the field.
    """

    name: str = UNNAMED
    duration_s: errors.KernelTime | None = None
    parameter: int = 0
    fill: errors.Fill | None = None
    points: tuple[Point, ...] = ()
    threads: int = 0
    latency_s: float = 0.0
    launches: Annotated[int, errors.Limits(1, MOST_LAUNCHES)] = 1
    per: Per = "chunk"
    timed: Timed = "alone"

    def __post_init__(self) -> None:
        errors.Checked.__post_init__(self)
        if not self.name:
            raise errors.InputError("name = '': expected a name; leave it out for one that has none")
        if self.per == "item" and (self.duration_s is None or self.points or self.latency_s):
            raise errors.InputError("per = 'item': needs duration_s, the time of all launches, and no other time")
        for field, default in (("threads", 0), ("latency_s", 0.0), ("timed", "alone")):
            if getattr(self, field) != default and not self.is_timed:
                raise errors.InputError(
                    f"{field} = {getattr(self, field)!r}: needs duration_s, the time of the whole kernel"
                )

    @property
    def is_timed(self) -> bool:
        """True if it has a time of its own."""
        return self.duration_s is not None or bool(self.points)

    def launches_in(self, chunks: int) -> int:
        """Return the number of launches of each of ``chunks`` chunks, at least one."""
        return self.launches if self.per == "chunk" else -(-self.launches // chunks)

    def check_alone(self) -> None:
        """Raise InputError unless its times are the kernel's own."""
        if self.timed == "events":
            what = f"kernel {self.name!r}: its time is that between two events, and here no device says what the kernel"
            raise errors.InputError(
                f"{what} takes of that; give its own time, or in Python timed_alone(workload, device)"
            )

    def launch_s(self, elements: int) -> float:
        """Return the seconds of one launch of a timed kernel over a whole workload of ``elements`` elements.

        Raises InputError for contradictory points, and for a time below ``latency_s``.
        """
        curve = self._curve(elements)
        least_s = curve[0][1] or curve[1][1]
        if self.latency_s > least_s:
            raise errors.InputError(
                f"latency_s = {self.latency_s:g} s: a launch takes so long at least, and one of these takes"
                f" {format_seconds(least_s)}; give no more than that, or a longer time"
            )
        if curve[0][0] >= 1:  # no smaller part is known
            return curve[0][1]
        k = min(bisect_left(curve, (1.0, 0.0)), len(curve) - 1)
        (start, start_s), (end, end_s) = curve[k - 1 : k + 1]
        return start_s + (end_s - start_s) * (1 - start) / (end - start)

    def whole_s(self, elements: int) -> float:
        """Return the seconds of all launches over ``elements`` elements; errors as in :meth:`launch_s`."""
        return self.launches * self.launch_s(elements) if self.duration_s is None else self.duration_s

    def is_extrapolated(self, elements: int) -> bool:
        """Return whether the whole of a timed kernel is larger than all parts with known times."""
        return self._curve(elements)[-1][0] < 1

    def scaled(self, factor: float) -> WorkloadKernel:
        """Return the timed kernel with all its times multiplied by ``factor``."""
        points = tuple(Point(point.at, _times(point.duration_s, factor)) for point in self.points)
        duration_s = None if self.duration_s is None else _times(self.duration_s, factor)
        return msgspec.structs.replace(self, duration_s=duration_s, points=points, latency_s=self.latency_s * factor)

    def parts(self, elements: int) -> tuple[tuple[float, float], ...]:
        """Return (share, seconds of one launch) of the parts with known times, ascending, without the whole.

        Raises InputError for points whose time falls while the work grows.
        """
        known = [(share, seconds) for share, seconds in self._curve(elements) if 0 < share < 1]
        return ((errors.LEAST_SHARE, self.latency_s), *known) if self.latency_s else tuple(known)

    def _curve(self, elements: int) -> list[tuple[float, float]]:
        """Return (share, seconds of one launch), ascending; at least two."""
        if not elements and any(point.at > 1 for point in self.points):
            raise errors.InputError("points: elements of a workload without arrays; give a share, up to 1")
        times = [(point.at / elements if point.at > 1 else point.at, point.duration_s) for point in self.points]
        whole = [] if self.duration_s is None else [(1.0, self.duration_s)]
        curve = [(share, seconds / self.launches) for share, seconds in sorted([*times, *whole])]
        for (a, shorter), (b, longer) in pairwise(curve):
            if longer < shorter or a == b:
                first, second = (f"{format_seconds(s)} for {share:.6g}" for share, s in ((a, shorter), (b, longer)))
                once = "give each part once, and a larger one no less time"
                raise errors.InputError(f"points: {first} and {second} of the whole: {once}")
        return curve if len(curve) > 1 else [(0.0, 0.0), *curve]


def _times(seconds: float, factor: float) -> float:
    """Return ``seconds * factor`` within the limits of a kernel's time."""
    return min(errors.LONGEST_S, max(errors.SHORTEST_KERNEL_S, seconds * factor))


class EqualChunks(NamedTuple):
    """``many`` equal chunks in a row, and the share of the workload that each has.

    - ``share``: of the work (0..1). ``elements``: their number; if the workload has none, a substitute
      (:attr:`Workload.work`).
    - ``inputs``, ``outputs``, ``d2h_once``: bytes of each array (0: none of it). ``launches``: launches of each kernel.
    """

    many: int
    share: float
    elements: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    d2h_once: tuple[int, ...]
    launches: tuple[int, ...]


class Workload(errors.Checked, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """Arrays to copy in, kernels that run one after another on each chunk, and arrays to copy back.

    - ``inputs`` and ``outputs``: the bytes of each array. With ``elements``: the bytes of an element in each array, and
      chunks have whole elements.
    - ``h2d_once``: bytes of arrays that are copied once, before the first chunk, and that every kernel reads (weights,
      tables). ``d2h_once``: bytes of arrays that are copied back once, after the last chunk, such as sums.
    - ``front_end``: the library that makes the calls, such as "cupy" ("": the device's).
    - ``host_work_s``: seconds of the host's work before it issues each chunk, whatever its size, as in a data loader.
      ``host_load_s``: seconds of host work over all chunks; each chunk's share comes before the chunk.
    - ``in_order``: True if each chunk needs the result of the chunk before, like the steps of a training loop. The
      kernels then stay in order.

    Raises InputError naming the field.
    """

    elements: errors.Bytes | None = None
    inputs: tuple[errors.Bytes, ...] = ()
    outputs: tuple[errors.Bytes, ...] = ()
    kernels: tuple[WorkloadKernel, ...] = ()
    name: str = ""
    h2d_once: tuple[errors.Bytes, ...] = ()
    d2h_once: tuple[errors.Bytes, ...] = ()
    front_end: str = ""
    host_work_s: float = 0.0
    host_load_s: float = 0.0
    in_order: bool = False

    def __post_init__(self) -> None:
        errors.Checked.__post_init__(self)
        for field in ("inputs", "outputs") if self.elements else ():
            for k, n_bytes in enumerate(getattr(self, field)):
                errors.check_whole(f"{field}[{k}] * elements", n_bytes * (self.elements or 1), 1, errors.LARGEST_BYTES)
        if not (self.inputs or self.outputs or self.kernels or self.h2d_once or self.d2h_once):
            raise errors.InputError("inputs, outputs, kernels: a workload needs at least one of them")
        for kernel in self.kernels:
            if kernel.is_timed:
                kernel.launch_s(self.work)
            elif not self.work:
                raise errors.InputError(
                    f"kernels: {kernel.name} has no time and nothing to work on; give its duration_s, or arrays"
                )

    @property
    def input_bytes(self) -> tuple[int, ...]:
        """The bytes of each array that is cut and copied to the card."""
        return tuple(n * (self.elements or 1) for n in self.inputs)

    @property
    def output_bytes(self) -> tuple[int, ...]:
        """The bytes of each array that is cut and copied back."""
        return tuple(n * (self.elements or 1) for n in self.outputs)

    @property
    def has_host_work(self) -> bool:
        """True if the host works before it issues a chunk."""
        return self.host_work_s > 0 or self.host_load_s > 0

    def host_s(self, part: EqualChunks) -> float:
        """Return the seconds of the host's work before it issues each chunk of ``part``."""
        return self.host_work_s + part.share * self.host_load_s

    def loaded_once(self, chunks: int) -> Workload:
        """Return the workload with the host work of ``chunks`` chunks as load: any cut has as much in all."""
        if not self.host_work_s:
            return self
        load_s = self.host_load_s + chunks * self.host_work_s
        return msgspec.structs.replace(self, host_work_s=0.0, host_load_s=load_s)

    @property
    def once_bytes(self) -> int:
        """The bytes of the arrays that are copied once."""
        return sum(self.h2d_once) + sum(self.d2h_once)

    @property
    def floats(self) -> int:
        """The number of floats (4 bytes) in the largest array that is cut, rounded up; 0 without one."""
        return -(-max((*self.input_bytes, *self.output_bytes), default=0) // BYTES_PER_ELEMENT)

    @property
    def work(self) -> int:
        """The number of elements, or :attr:`floats` in their place."""
        return self.elements or self.floats

    @property
    def most_chunks(self) -> int:
        """The most chunks: one for each element. Without elements: no limit with kernels, else one for each piece."""
        if not (self.inputs or self.outputs or self.kernels):
            return 1
        if self.elements or self.kernels:
            return self.elements or errors.LARGEST_COUNT
        return -(-max((*self.inputs, *self.outputs)) // ALIGN_BYTES)

    def cut(self, chunks: int) -> tuple[EqualChunks, ...]:
        """Return the shares of the chunks, in order, as runs of equal chunks.

        Arrays are cut at whole elements. Without elements, each array is cut by itself at multiples of 16 bytes; if it
        has fewer such pieces than there are chunks, the last chunks have none of it. The work is divided like the
        elements or the largest array. All chunks make equally many launches, at least one of each kernel. Raises
        InputError for more chunks than ``most_chunks``.
        """
        errors.check_whole("chunks", chunks, 1, errors.LARGEST_COUNT)
        if chunks > self.most_chunks:
            what = "elements" if self.elements else f"pieces of {ALIGN_BYTES} bytes"
            most = f"({self.most_chunks}); use at most {self.most_chunks}"
            raise errors.InputError(f"chunks = {chunks}: more chunks than {what} {most}")
        sizes = self.input_bytes + self.output_bytes + self.d2h_once
        units = self.inputs + self.outputs if self.elements else ()
        arrays = [(self.elements or 0, 1), *zip_longest(sizes, units, fillvalue=ALIGN_BYTES)]

        def pieces(chunk: int) -> list[int]:
            return [_end(*array, chunks, chunk + 1) - _end(*array, chunks, chunk) for array in arrays]

        edges = {edge for array in arrays for edge in _edges(*array, chunks)}
        starts = [0, *(edge for edge in sorted(edges) if 0 < edge < chunks and pieces(edge) != pieces(edge - 1))]
        return tuple(self._chunks(chunks, end - start, pieces(start)) for start, end in pairwise([*starts, chunks]))

    def _chunks(self, chunks: int, many: int, pieces: list[int]) -> EqualChunks:
        count, *sizes = pieces
        arrays = self.input_bytes + self.output_bytes
        if self.elements:
            share = count / self.elements
        else:
            largest = max(arrays, default=0)
            share = sizes[arrays.index(largest)] / largest if largest > (chunks - 1) * ALIGN_BYTES else 1 / chunks
            count = max(1, round(share * self.work)) if self.work else 0
        into, back = len(self.inputs), len(arrays)
        own = tuple(sizes[:into]), tuple(sizes[into:back]), tuple(sizes[back:])
        return EqualChunks(many, share, count, *own, self.launches_in(chunks))

    def launches_in(self, chunks: int) -> tuple[int, ...]:
        """Return the number of launches of each kernel in each of ``chunks`` chunks."""
        return tuple(kernel.launches_in(chunks) for kernel in self.kernels)

    def calls(self, chunks: int) -> int:
        """Return the most copies and launches of ``chunks`` chunks together."""
        return chunks * (len(self.inputs) + sum(self.launches_in(chunks)) + len(self.outputs))

    def kernels_of(self, part: EqualChunks) -> Iterator[tuple[Kernel, int]]:
        """Return (launch, number in a row) for each kernel of a chunk, without the bytes that it uses."""
        return (
            (self._launch(kernel, part, many), many) for kernel, many in zip(self.kernels, part.launches, strict=True)
        )

    def threads(self, kernel: WorkloadKernel) -> int:
        """Return the threads of a timed kernel's launch over all the work; 0: unknown.

        If the kernel does not give them: one thread for every 4 bytes of the largest array that is cut, and at least
        one for every 4 ns of the launch, because long work on little data has many threads for each float.
        docs/evidence.md has the source of that number.
        """
        if kernel.threads or not self.floats:
            return kernel.threads
        return max(self.floats, min(errors.LARGEST_BYTES, round(kernel.launch_s(self.work) * THREADS_PER_S)))

    def _launch(self, kernel: WorkloadKernel, part: EqualChunks, many: int) -> Kernel:
        """Return one of the ``many`` launches of a kernel over a chunk."""
        if not kernel.is_timed:
            return Kernel(1, kernel.name, part.elements, kernel.parameter, fill=kernel.fill)
        kernel.check_alone()
        if kernel.per == "item":  # always whole launches
            duration_s = kernel.whole_s(self.work) / many * part.share
            return Kernel(1, kernel.name, 0, kernel.parameter, duration_s, kernel.fill, threads=kernel.threads)
        duration_s, threads = kernel.launch_s(self.work) * part.share, self.threads(kernel)
        threads = max(1, round(part.share * threads)) if threads else 0
        elements = part.elements if threads else 0  # they would count for threads
        what = (1, kernel.name, elements, kernel.parameter, duration_s, kernel.fill)
        own = 0 if threads == elements else threads
        return Kernel(*what, share=part.share, threads=own, parts=kernel.parts(self.work))


def _end(n_bytes: int, unit: int, chunks: int, count: int) -> int:
    """Return the bytes of an array that the first ``count`` of ``chunks`` chunks have together, in whole units.

    Chunks are equal, or only the last one is smaller. If the last one would then have nothing, sizes differ by a unit.
    """
    units = -(-n_bytes // unit)
    size, over = divmod(units, chunks)
    is_last_smaller = over and (size + 1) * (chunks - 1) < units
    return min(n_bytes, unit * (count * (size + 1) if is_last_smaller else count * size + min(count, over)))


def _edges(n_bytes: int, unit: int, chunks: int) -> tuple[int, int, int]:
    """Return the chunks whose piece of an array may differ from that of the chunk before."""
    units = -(-n_bytes // unit)
    last = min(units, chunks)
    return units % chunks, last - 1, last


# Workloads as text and as TOML. ``streamsim init --schema workload`` prints the exact form. Sizes and times may be text
# with a unit, ``inputs = ["64MiB"]``. A kernel may be text as for ``--kernel``, ``"0.57ms,9us@64Ki"``, or seconds.


SizeText = int | str
KernelText = float | str | WorkloadKernel


KEYS = {"latency": "latency_s"}  # of a kernel as text, where it is not the name of the field
FORM = (
    "TIME, TIME/LAUNCHES or TIME@PART, then more of TIME@PART, threads=N, latency=TIME, fill=SHARE, launches=N,"
    " per=item, timed=events and name=NAME, with commas between"
)


def workload_of_sizes(
    h2d: Sequence[SizeText] = (),
    kernels: Sequence[KernelText] = (),
    d2h: Sequence[SizeText] = (),
    elements: int | None = None,
    h2d_once: Sequence[SizeText] = (),
    d2h_once: Sequence[SizeText] = (),
    host_work: float | str = 0.0,
    host_load: float | str = 0.0,
) -> Workload:
    """Return the workload with input arrays ``h2d`` and output arrays ``d2h`` (whole sizes in bytes) and ``kernels``.

    - A kernel is its time in seconds, text (see :func:`parse_kernel`), or a :class:`WorkloadKernel`.
    - ``elements``: chunks have whole elements; it must divide every size.
    - ``h2d_once`` and ``d2h_once``: arrays that are copied once.
    - ``host_work`` and ``host_load``: the host's work before each chunk, and over all chunks, in seconds or as text.

    Raises InputError naming what cannot be read or does not go together.
    """
    into, back = _sizes("h2d", h2d, elements), _sizes("d2h", d2h, elements)
    host = ("host_work", host_work), ("host_load", host_load)
    work_s, load_s = (parse_seconds(time, field) if isinstance(time, str) else time for field, time in host)
    check_listed("kernels", kernels)
    work = [kernel_given(kernel) for kernel in kernels]
    unnamed = [i for i, kernel in enumerate(work) if kernel.name == UNNAMED]
    for i in unnamed if len(unnamed) > 1 else ():
        work[i] = msgspec.structs.replace(work[i], name=f"{UNNAMED} {i + 1}")
    once = _sizes("h2d_once", h2d_once), _sizes("d2h_once", d2h_once)
    return Workload(elements, into, back, tuple(work), "", *once, host_work_s=work_s, host_load_s=load_s)


def _sizes(field: str, sizes: Sequence[SizeText], elements: int | None = None) -> tuple[int, ...]:
    check_listed(field, sizes)
    found = [parse_bytes(size, field) if isinstance(size, str) else size for size in sizes]
    return tuple(found if elements is None else [per_element(field, size, elements) for size in found])


def kernel_given(kernel: KernelText, field: str = "kernel") -> WorkloadKernel:
    """Return a kernel given as a value, as text or by its seconds. Raises InputError naming ``field``."""
    if isinstance(kernel, WorkloadKernel):
        return kernel
    return parse_kernel(kernel if isinstance(kernel, str) else f"{kernel}s", field)


def per_element(name: str, size: int, elements: int) -> int:
    """Return an array's bytes per element. Raises InputError if ``elements`` does not divide its ``size``."""
    if size % elements:
        raise errors.InputError(
            f"elements = {elements}: does not divide {name} = {size} bytes; give one that does, or none: then arrays"
            " are cut by share"
        )
    return size // elements


def parse_kernel(text: str, field: str = "kernel") -> WorkloadKernel:
    """Return a kernel from text: ``0.57ms``, ``0.57ms@16Mi,9us@64Ki``, ``25ms/600``, ``4ms,threads=64Ki,latency=3us``.

    - ``0.57ms``: the time of the whole. ``9us@64Ki``: the time of a part, given as a number of elements (more than 1)
      or a share of the whole (up to 1, such as ``0.004`` or ``1/256``).
    - ``/600``: these times belong to 600 equal launches together. Each chunk makes all of them; with ``per=item``, its
      share.
    - ``timed=events``: the times are those between two events.

    Raises InputError naming ``field``.
    """
    points = list[dict[str, str]]()
    table: dict[str, Any] = {"points": points}
    try:
        for item in text.split(","):
            key, equals, value = map(str.strip, item.partition("="))
            time, at_sign, part = map(str.strip, item.partition("@"))
            if at_sign and not equals:
                points.append({"at": part, "duration_s": time})
                continue
            whole, slash, launches = item.partition("/")
            given = {KEYS.get(key, key): value} if equals else {"duration_s": whole.strip()}
            given |= {"launches": launches.strip()} if slash and not equals else {}
            for twice in table.keys() & given.keys():
                raise errors.InputError(f"{twice} is given twice; expected {FORM}")
            table |= given
        return converted(table, WorkloadKernel, OF_KERNELS)
    except errors.InputError as error:
        raise errors.InputError(f"{field} = {errors.shown(text)}: {error}") from None


def parse_part(text: str, field: str) -> float:
    """Return a share of the whole or a number of elements, from "1/256" or "64Ki". Raises InputError."""
    if not (any(c in text for c in "./%") or text == "1"):
        return parse_count(text, field)
    return parse_share(text, field)


# The parsers of text and times in a kernel's table, by type or by the name of the field.
OF_KERNELS: dict[type | str, Callable[[Any, str], Any]] = {
    "at": parse_part,
    "fill": partial(parse_share, least=errors.LEAST_FILL),
    WorkloadKernel: kernel_given,
}


class WorkloadFile(Workload, frozen=True):
    """The fields of a workload's file: the workload, and how to cut, issue and predict it unless options say otherwise.

    The names are those of the options. A sweep takes ranges, such as ``chunks = "1..64"``. ``measured`` is for
    ``streamsim explain``, which then says which mistake explains it.
    """

    chunks: int | str | list[int | str] | None = None
    streams: int | str | list[int | str] | None = None
    order: str | list[str] | None = None
    buffers: int | str | list[int | str] | None = None
    memory: str | list[str] | None = None
    launch: str | list[str] | None = None
    device: str | list[str] | None = None
    measured: str | list[str] | None = None


PLAN = WorkloadFile.__struct_fields__[len(Workload.__struct_fields__) :]
ARRAYS = ("inputs", "outputs", "h2d_once", "d2h_once")
# The parsers of text in a workload: sizes of arrays, and text of kernels.
_PARSERS: Parsers = {**dict.fromkeys(ARRAYS, partial(parse_bytes, least=0)), **OF_KERNELS}


def read_workload(path: str | os.PathLike[str]) -> Workload:
    """Return the workload in a TOML file. Raises InputError naming the file, the field and the value."""
    return parse_workload(*toml_of(path))


def read_plan(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return how the file of a workload says to cut, issue and predict it, by option name; empty if it is no TOML.

    A device's file may stand beside it. Raises InputError if the file cannot be read.
    """
    try:
        table = tomllib.loads(read_bytes(path, LARGEST_TOML_BYTES).decode())
    except (ValueError, RecursionError):
        return {}  # read_workload says why
    plan = {name: value for name, value in table.items() if name in PLAN}
    if isinstance(device := plan.get("device"), str) and (own := Path(path).parent / device).is_file():
        plan["device"] = str(own)
    return plan


def parse_workload(text: str | bytes, where: str = "workload") -> Workload:
    """Return the workload in the TOML ``text``. Raises InputError that begins with ``where``."""
    return parse_toml(text, where, Workload, "workload", _PARSERS, _without_plan)


def _without_plan(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in PLAN}
