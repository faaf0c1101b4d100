"""Workloads as people write them: sizes and times are numbers, or text such as "64MiB" and "0.57ms@16Mi,9us@64Ki"."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args

import msgspec

from streamsim.checks import LEAST_FILL, SHORTEST_KERNEL_S
from streamsim.errors import InputError
from streamsim.program.workload import MOST_LAUNCHES, Point, Timed, Workload, WorkloadKernel
from streamsim.text import check_listed, parse_bytes, parse_count, parse_seconds, parse_share, shown

Size = int | str
Kernel = float | str | WorkloadKernel


def parse_fill(text: str, field: str) -> float:
    """Return the share of the card from text such as "50%". Raises InputError naming ``field``."""
    return parse_share(text, field, least=LEAST_FILL)


def _one_of(words: tuple[str, ...], text: str, field: str) -> str:
    """Return ``text`` if it is one of ``words``. Raises InputError naming ``field``."""
    if text not in words:
        raise InputError(f"{field} = {shown(text)}: expected {' or '.join(words)}")
    return text


OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "threads": ("threads", parse_count),
    "latency": ("latency_s", lambda text, field: parse_seconds(text, field, least=0)),
    "fill": ("fill", parse_fill),
    "name": ("name", lambda text, _: text),
    "launches": ("launches", partial(parse_count, most=MOST_LAUNCHES)),
    "per": ("per", partial(_one_of, ("chunk", "item"))),
    "timed": ("timed", partial(_one_of, get_args(Timed))),
}
FORM = (
    "TIME, TIME/LAUNCHES or TIME@PART, then more of TIME@PART, threads=N, latency=TIME, fill=SHARE, launches=N,"
    " per=item, timed=events and name=NAME, with commas between"
)


def workload_of_sizes(
    h2d: Sequence[Size] = (),
    kernels: Sequence[Kernel] = (),
    d2h: Sequence[Size] = (),
    elements: int | None = None,
    h2d_once: Sequence[Size] = (),
    d2h_once: Sequence[Size] = (),
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
    inputs, outputs = _sizes("h2d", h2d), _sizes("d2h", d2h)
    check_listed("kernels", kernels)
    if elements is not None:
        inputs = [per_element("h2d", size, elements) for size in inputs]
        outputs = [per_element("d2h", size, elements) for size in outputs]
    host = {"host_work_s": _seconds("host_work", host_work), "host_load_s": _seconds("host_load", host_load)}
    return Workload(
        elements=elements,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        kernels=_named([kernel_given(kernel) for kernel in kernels]),
        h2d_once=tuple(_sizes("h2d_once", h2d_once)),
        d2h_once=tuple(_sizes("d2h_once", d2h_once)),
        **{field: seconds for field, seconds in host.items() if seconds != 0},  # type: ignore[arg-type]
    )


def _sizes(field: str, sizes: Sequence[Size]) -> list[int]:
    check_listed(field, sizes)
    return [parse_bytes(size, field) if isinstance(size, str) else size for size in sizes]


def _seconds(field: str, time: float | str) -> float:
    return parse_seconds(time, field, least=0.0) if isinstance(time, str) else time


def kernel_given(kernel: Kernel, field: str = "kernel") -> WorkloadKernel:
    """Return a kernel given as a value, as text or by its seconds. Raises InputError naming ``field``."""
    if isinstance(kernel, WorkloadKernel):
        return kernel
    return parse_kernel(kernel, field) if isinstance(kernel, str) else _made(field, duration_s=kernel)


def _made(what: str, **fields: Any) -> WorkloadKernel:
    """Return the kernel with these fields. Raises InputError that begins with ``what``."""
    try:
        return WorkloadKernel(**fields)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _named(kernels: list[WorkloadKernel]) -> tuple[WorkloadKernel, ...]:
    """Return ``kernels``, with numbers in their names if several have the default name."""
    usual = WorkloadKernel().name
    if sum(kernel.name == usual for kernel in kernels) < 2:
        return tuple(kernels)
    return tuple(
        msgspec.structs.replace(kernel, name=f"{usual} {i}") if kernel.name == usual else kernel
        for i, kernel in enumerate(kernels, 1)
    )


def per_element(name: str, size: int, elements: int) -> int:
    """Return an array's bytes per element. Raises InputError if ``elements`` does not divide its ``size``."""
    if size % elements:
        raise InputError(
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
    times: list[tuple[float, float | None]] = []
    fields: dict[str, Any] = {}
    for item in _items(text):
        name, equals, value = map(str.strip, item.partition("="))
        if not equals:
            time, at_sign, part = map(str.strip, item.partition("@"))
            seconds = parse_seconds(time, field, least=SHORTEST_KERNEL_S)
            times.append((seconds, parse_part(part, f"{field} part") if at_sign else None))
            continue
        if name not in OPTIONS:
            raise InputError(f"{field} = {shown(text)}: {shown(name)} is none of {', '.join(OPTIONS)}; expected {FORM}")
        key, parse = OPTIONS[name]
        if key in fields:
            raise InputError(f"{field} = {shown(text)}: {name} is given twice; give it once")
        fields[key] = parse(value, f"{field} {name}")
    whole = [seconds for seconds, part in times if part is None]
    if len(whole) > 1:
        raise InputError(f"{field} = {shown(text)}: two times of the whole; say of which part one is, as in 9us@64Ki")
    points = tuple(Point(part, seconds) for seconds, part in times if part is not None)
    return _made(f"{field} = {shown(text)}", duration_s=whole[0] if whole else None, points=points, **fields)


def _items(text: str) -> Iterator[str]:
    """Yield the items between commas; ``25ms/600`` yields both halves."""
    for item in text.split(","):
        time, slash, launches = item.partition("/")
        is_both = slash and not {"@", "="} & {*item}
        yield from (time.strip(), f"launches={launches}") if is_both else (item.strip(),)


def parse_point(text: str, field: str) -> Point:
    """Return the time of a part from text such as ``9us@64Ki``. Raises InputError naming ``field``."""
    kernel = parse_kernel(str(text), field)
    if kernel != WorkloadKernel(points=kernel.points[:1]) or not kernel.points:
        raise InputError(f"{field} = {shown(text)}: expected the time of a part, such as 9us@64Ki")
    return kernel.points[0]


def parse_part(text: str, field: str) -> float:
    """Return a share of the whole or a number of elements, from "1/256" or "64Ki". Raises InputError."""
    if not (any(c in text for c in "./%") or text == "1"):
        return parse_count(text, field)
    try:
        return parse_share(text, field)
    except InputError:
        elements, _, launches = text.partition("/")
        if not launches or not elements.strip()[-1:].isalpha():
            raise
        parse_count(elements, field)
        raise InputError(
            f"{field} = {shown(text)}: how many launches take these times together is said by launches={launches}"
        ) from None


# The parsers of text and times in a kernel's table, by type or by the name of the field.
OF_KERNELS: dict[type | str, Callable[[Any, str], Any]] = {
    "at": parse_part,
    "fill": parse_fill,
    WorkloadKernel: kernel_given,
    Point: parse_point,
}
