"""The kernels that a schedule can name: CUDA source or a Python launch, and a NumPy reference for each.

Every CUDA kernel takes one argument, the struct ``Arrays`` of :mod:`streamsim_validate.gpu.cuda_source`: the elements,
the parameter, and the address and the bytes per element of each region that it reads and writes. So one kernel serves
one input or several, outputs smaller than inputs, and work in place. Thread i works on element i.

A stand-in (:data:`SPIN`) replays a kernel that is given by its time and has no name here. It holds the share of the
card that the kernel fills until the time is over. Each region is one element for it, of any number of bytes.
"""

import re
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamsim.errors import InputError
from streamsim.files import read_bytes
from streamsim.program import Kernel
from streamsim.text import one_line
from streamsim_validate.gpu.cuda_source import BUILT_IN_SOURCE

Bytes = NDArray[np.uint8]

FLOAT_BYTES = 4
LARGEST_SOURCE_BYTES = 1 << 20
# Host data repeats after this many floats (a prime, so that no chunk in use starts where the period does):
# the reference of an elementwise kernel then needs one period of a large array, not all of it.
PERIOD = 65_521
# (inputs as (elements, bytes each) arrays, bytes per element of each output, elements, parameter) -> outputs alike
Reference = Callable[[Sequence["Bytes"], Sequence[int], int, int], list["Bytes"]]
Launch = Callable[[Any, Sequence[Any], Sequence[Any], int, int], None]


def exact(parameter: int) -> float:  # noqa: ARG001  (a tolerance may depend on the parameter)
    """Compare byte for byte."""
    return 0.0


@dataclass(frozen=True)
class KernelSpec:
    """A kernel that schedules can name.

    - ``source``: CUDA source with ``extern "C" __global__ void entry(const Arrays a)``; ``Arrays`` is declared for it.
    - ``launch``: or a Python callable ``launch(stream, reads, writes, elements, parameter)`` that launches on the given
      CuPy stream, on CuPy uint8 arrays.
    - ``reference``: the same computation in NumPy. Without one, its output is compared with the same ops run one at a
      time on the card.
    - ``tolerance``: parameter -> largest absolute difference of its float32 outputs (0: byte for byte).
    - ``elementwise``: output element i depends on input element i alone. ``unit_bytes``: elements must be a multiple of
      it.
    - ``threads``: one for each element; or as many as hold the kernel's share of the card, and each region is one
      element.
    """

    name: str
    source: str | None = None
    entry: str = ""
    launch: Launch | None = None
    reference: Reference | None = None
    tolerance: Callable[[int], float] = exact
    elementwise: bool = True
    unit_bytes: int = 1
    threads: Literal["elements", "card"] = "elements"

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("name = '': a kernel needs a name")
        if (self.source is None) == (self.launch is None):
            raise InputError(f"kernel {self.name!r}: give it CUDA source or a Python launch, and not both")

    @property
    def function(self) -> str:
        """The name of the function in its CUDA source."""
        return self.entry or self.name


# The built-in kernels' references


def _sum_of(inputs: Sequence[Bytes], elements: int) -> NDArray[np.float32]:
    total = np.zeros(elements, np.float32)
    for array in inputs:
        for column in array.view(np.float32).T:  # float by float in the kernel's order: the same rounding
            total += column
    return total


def _spread(x: NDArray[np.float32], widths: Sequence[int]) -> list[Bytes]:
    return [np.repeat(x, width // FLOAT_BYTES).reshape(len(x), -1).view(np.uint8) for width in widths]


def sincos_reference(inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int) -> list[Bytes]:
    """Return ``parameter`` times x = sin(x) cos(x) in double precision, from the float32 sum of the inputs.

    It is computed as sin(2x) / 2, which is equal and half the work.
    """
    x = _sum_of(inputs, elements).astype(np.float64)
    for _ in range(parameter):
        x = np.sin(2 * x) / 2
    return _spread(x.astype(np.float32), widths)


def sincos_tolerance(parameter: int) -> float:
    """Return the largest absolute error of the float32 iteration.

    CUDA's sinf and cosf are within 2 ulp each (CUDA C++ Programming Guide, "Mathematical Functions"), so one
    iteration adds at most 4.5 ulp of a number below 1/2: 1.4e-7. The map shrinks earlier errors
    (its slope cos 2x is about 1 - 3/(2n) after n iterations), so they add up like the square root of n.
    """
    return float(2.5e-7 * np.sqrt(max(1, parameter)))


def sum_reference(inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int) -> list[Bytes]:  # noqa: ARG001
    """Return the float32 sum of the inputs, exact in every bit."""
    return _spread(_sum_of(inputs, elements), widths)


def pass_through_reference(
    inputs: Sequence[Bytes],
    widths: Sequence[int],
    elements: int,  # noqa: ARG001
    parameter: int,  # noqa: ARG001
) -> list[Bytes]:
    """Return for output k input k (the last if there are fewer), cut short or repeated to its width."""
    if not inputs:
        return []
    sources = [inputs[min(k, len(inputs) - 1)] for k in range(len(widths))]
    return [_of_width(array, width) for array, width in zip(sources, widths, strict=True)]


def _of_width(array: Bytes, width: int) -> Bytes:
    """Return every row cut short or repeated."""
    times = -(-width // array.shape[1])
    return (array if times == 1 else np.tile(array, times))[:, :width]


# The kernels that are known


def _built_in(name: str, reference: Reference, **more: Any) -> KernelSpec:
    return KernelSpec(name, BUILT_IN_SOURCE, f"streamsim_{name}", reference=reference, **more)


_ENTRY = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
SPIN = _built_in("spin", pass_through_reference, threads="card", elementwise=False)
_REGISTRY: dict[str, KernelSpec] = {
    spec.name: spec
    for spec in (
        _built_in("sincos", sincos_reference, tolerance=sincos_tolerance, unit_bytes=FLOAT_BYTES),
        _built_in("vector_add", sum_reference, unit_bytes=FLOAT_BYTES),
        _built_in("copy", pass_through_reference),
        _built_in("sleep", pass_through_reference),
    )
}


def register(spec: KernelSpec) -> None:
    """Let schedules name this kernel. It replaces a kernel of the same name."""
    _REGISTRY[spec.name] = spec


def read_source(path: str) -> bytes:
    """Return a file of kernels. Raises InputError if it cannot be read or is larger than any source."""
    return read_bytes(path, LARGEST_SOURCE_BYTES)


def load_kernels(path: str) -> list[str]:
    """Register the kernels of a file and return their names.

    A ``.cu`` file: each ``extern "C" __global__ void NAME(const Arrays a)`` becomes the kernel NAME, without a NumPy
    reference. A ``.py`` file is executed, and calls :func:`register` itself. Raises InputError.
    """
    before = dict(_REGISTRY)
    if path.endswith(".cu"):
        try:
            source = read_source(path).decode()
        except UnicodeDecodeError:
            raise InputError(one_line(f"{path}: is not UTF-8 text")) from None
        for name in _ENTRY.findall(source):
            register(KernelSpec(name, source))
    elif path.endswith(".py"):
        try:
            runpy.run_path(path)
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise InputError(one_line(f"{path}: cannot be run: {type(error).__name__}: {error}")) from error
    else:
        raise InputError(one_line(f"{path}: expected a .cu file (CUDA source) or a .py file that registers kernels"))
    found = sorted(name for name, spec in _REGISTRY.items() if before.get(name) is not spec)
    if not found:
        raise InputError(one_line(f'{path}: has no kernel: no extern "C" __global__ void NAME(...), no register(...)'))
    return found


def known_kernels() -> list[str]:
    """Return the names that a schedule can use."""
    return sorted(_REGISTRY)


def find_kernel(kernel: Kernel) -> KernelSpec:
    """Return what to launch for a kernel of a schedule.

    A name that is not registered stands for a kernel that takes ``duration_s``: see :data:`SPIN` and :func:`stand_in`.
    Raises InputError if such a kernel has no duration.
    """
    spec = _REGISTRY.get(kernel.name)
    if spec is not None:
        return spec
    if kernel.duration_s is None:
        raise InputError(
            f"kernel {kernel.name!r}: neither a known kernel ({', '.join(known_kernels())}) nor given a duration_s;"
            " register it, or give it a duration_s"
        )
    return SPIN


def compute_reference(
    spec: KernelSpec, inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int
) -> list[Bytes]:
    """Return the kernel's outputs, in NumPy. ``spec.reference`` must be given.

    ``inputs``: the bytes of each region that is read. Raises InputError if the reference does.
    """
    assert spec.reference is not None, "the caller checks"
    try:
        results = spec.reference([array.reshape(elements, -1) for array in inputs], widths, elements, parameter)
        return [
            np.ascontiguousarray(result).reshape(elements * width).view(np.uint8)
            for result, width in zip(results, widths, strict=False)
        ]
    except Exception as error:  # whatever the user's code raises
        raise broken(spec, "reference", error) from error


def broken(spec: KernelSpec, what: str, error: Exception) -> InputError:
    """Return the error to raise if the user's own code fails."""
    return InputError(one_line(f"kernel {spec.name!r}: its {what} raises {type(error).__name__}: {error}"))
