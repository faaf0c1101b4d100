"""The kernels that a schedule can name: CUDA source or a Python launch, and a NumPy reference for each.

Every CUDA kernel takes one argument, the struct ``Arrays`` below: the elements, the parameter, and for each
region that the schedule's kernel reads and writes its address and its bytes per element. So one kernel
serves one input or several, outputs smaller than inputs, and work in place. Thread i works on element i.

A kernel that is given by its time and has no name here is replayed by a stand-in (:data:`SPIN`), which holds the share
of the card that the kernel fills until that time is over. To it each region is one element, of any number of bytes.
"""

from __future__ import annotations

import ctypes
import re
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from streamsim.device.library import load_device
from streamsim.errors import InputError
from streamsim.text.shown import one_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from streamsim.device.profile import Device
    from streamsim.program.schedule import Kernel

    Bytes = NDArray[np.uint8]

MOST_ARRAYS = 4
THREADS_PER_BLOCK = 256
FLOAT_BYTES = 4
# Host data repeats after this many floats (a prime, so that no chunk in use starts where the period does):
# the reference of an elementwise kernel then needs one period of a large array, not all of it.
PERIOD = 65_521

PRELUDE = f"""
#define MOST_ARRAYS {MOST_ARRAYS}
struct Arrays {{
    long long elements, parameter;
    long long inputs, outputs;
    const unsigned char* in[MOST_ARRAYS];
    long long in_width[MOST_ARRAYS];  // bytes per element
    unsigned char* out[MOST_ARRAYS];
    long long out_width[MOST_ARRAYS];
}};
"""

# The loops over arrays are unrolled so that the struct is indexed by constants and stays in constant memory.
BUILT_IN_SOURCE = (
    PRELUDE
    + r"""
__device__ __forceinline__ long long thread_index() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ float sum_of_inputs(const Arrays& a, long long i) {
    float x = 0.0f;
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.inputs) {
            const int floats = (int)(a.in_width[k] >> 2);
            const float* in = (const float*)a.in[k] + i * floats;
            for (int j = 0; j < floats; ++j) x += in[j];
        }
    }
    return x;
}

__device__ __forceinline__ void to_outputs(const Arrays& a, long long i, float x) {
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.outputs) {
            const int floats = (int)(a.out_width[k] >> 2);
            float* out = (float*)a.out[k] + i * floats;
            for (int j = 0; j < floats; ++j) out[j] = x;
        }
    }
}

// Output k of element i is input k (the last one where there are fewer), cut short or repeated to its width.
__device__ __forceinline__ void pass_through(const Arrays& a, long long i) {
    const unsigned char* in = a.in[0];
    int in_width = (int)a.in_width[0];
    if (a.inputs == 0) return;
    #pragma unroll
    for (int k = 0; k < MOST_ARRAYS; ++k) {
        if (k < a.inputs) { in = a.in[k]; in_width = (int)a.in_width[k]; }
        if (k < a.outputs) {
            const int out_width = (int)a.out_width[k];
            const unsigned char* from = in + i * in_width;
            unsigned char* to = a.out[k] + i * out_width;
            if (((in_width | out_width | (int)(size_t)from | (int)(size_t)to) & 3) == 0) {
                for (int b = 0, s = 0; b < out_width; b += 4, s = s + 4 < in_width ? s + 4 : 0)
                    *(unsigned*)(to + b) = *(const unsigned*)(from + s);
            } else {
                for (int b = 0, s = 0; b < out_width; ++b, s = s + 1 < in_width ? s + 1 : 0) to[b] = from[s];
            }
        }
    }
}

extern "C" __global__ void streamsim_sincos(const Arrays a) {
    const long long i = thread_index();
    if (i >= a.elements) return;
    float x = sum_of_inputs(a, i);
    const int iterations = (int)a.parameter;
    for (int n = 0; n < iterations; ++n) x = sinf(x) * cosf(x);
    to_outputs(a, i, x);
}

extern "C" __global__ void streamsim_vector_add(const Arrays a) {
    const long long i = thread_index();
    if (i < a.elements) to_outputs(a, i, sum_of_inputs(a, i));
}

extern "C" __global__ void streamsim_copy(const Arrays a) {
    const long long i = thread_index();
    if (i < a.elements) pass_through(a, i);
}

extern "C" __global__ void streamsim_sleep(const Arrays a) {
    const long long start = clock64();
    const long long i = thread_index();
    if (i >= a.elements) return;
    pass_through(a, i);
    while (clock64() - start < a.parameter) {}
}

__device__ __forceinline__ long long timer_ns() {
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

// Time by the card's timer, which runs on at one pace when the clock changes. It ticks once in a microsecond on some
// cards; between its ticks, and before the first one seen, cycles count at the pace at which they went since then.
struct Stopwatch {
    long long begun, first_cycle, first_ns;

    __device__ __forceinline__ void start() {
        begun = clock64();
        const long long ns = timer_ns();
        do {
            first_ns = timer_ns();
            first_cycle = clock64();
        } while (first_ns == ns);
    }

    __device__ __forceinline__ void wait_until(long long duration_ns) const {
        long long ns = first_ns, cycle = first_cycle, passed_ns;
        do {
            const long long now_ns = timer_ns(), now = clock64();
            if (now_ns != ns) { ns = now_ns; cycle = now; }
            passed_ns = ns - first_ns;
            if (passed_ns > 0) {
                const float ns_a_cycle = (float)passed_ns / (float)(cycle - first_cycle);
                passed_ns += (long long)(ns_a_cycle * (float)(now - cycle + first_cycle - begun));
            }
        } while (passed_ns < duration_ns);
    }
};

// By the whole grid; what is shorter than the output is repeated. No division in the loop: it would cost registers.
template <typename Word>
__device__ __forceinline__ void pass_words(unsigned char* to, long long bytes, const unsigned char* from,
                                           long long length) {
    const long long words = bytes / sizeof(Word), stride = (long long)gridDim.x * blockDim.x;
    if (thread_index() < words) {
        const long long period = length < bytes ? length / sizeof(Word) : words;
        const long long step = stride % period;
        long long at = thread_index() % period;
        for (long long i = thread_index(); i < words; i += stride) {
            ((Word*)to)[i] = ((const Word*)from)[at];
            at += step;
            if (at >= period) at -= period;
        }
    }
    for (long long i = words * sizeof(Word) + thread_index(); i < bytes; i += stride) to[i] = from[i % length];
}

__device__ __forceinline__ void pass_regions(const Arrays& a) {
    for (int k = 0; k < a.outputs && a.inputs; ++k) {
        const int source = k < a.inputs ? k : (int)a.inputs - 1;
        const unsigned char* from = a.in[source];
        unsigned char* to = a.out[k];
        const long long bytes = a.out_width[k], length = a.in_width[source];
        const size_t odd = (size_t)from | (size_t)to | (length < bytes ? (size_t)length : 0);
        if (odd % sizeof(uint4) == 0) pass_words<uint4>(to, bytes, from, length);
        else if (odd % sizeof(unsigned) == 0) pass_words<unsigned>(to, bytes, from, length);
        else pass_words<unsigned char>(to, bytes, from, length);
    }
}

// Each block passes its part of the bytes through and holds its threads until it has been there for so many
// nanoseconds. Bounded so that as many threads are resident as the card has (2048 a multiprocessor at most).
extern "C" __global__ void __launch_bounds__(256, 8) streamsim_spin(const Arrays a) {
    __shared__ Stopwatch stopwatch;
    const bool keeps_time = threadIdx.x == 0 && a.parameter > 0;
    if (keeps_time) stopwatch.start();
    pass_regions(a);
    if (keeps_time) stopwatch.wait_until(a.parameter);
    __syncthreads();
}
"""
)

# (inputs as (elements, bytes each) arrays, bytes per element of each output, elements, parameter) -> outputs alike
Reference = Callable[[Sequence["Bytes"], Sequence[int], int, int], list["Bytes"]]
Launch = Callable[[Any, Sequence[Any], Sequence[Any], int, int], None]


def exact(parameter: int) -> float:  # noqa: ARG001  (a tolerance may depend on the parameter)
    """Compare byte for byte."""
    return 0.0


@dataclass(frozen=True)
class KernelSpec:
    """A kernel that schedules can name.

    ``source``: CUDA source with ``extern "C" __global__ void entry(const Arrays a)``; ``Arrays`` is
    declared for it. ``launch``: or a Python callable ``launch(stream, reads, writes, elements, parameter)``
    that launches on the CuPy stream given, on CuPy uint8 arrays. ``reference``: what it computes, in NumPy;
    without one its output is compared with the same ops run one at a time on the card. ``tolerance``:
    parameter -> largest absolute difference of its float32 outputs (0: byte for byte). ``elementwise``:
    output element i depends on input element i alone. ``unit_bytes``: elements must be a multiple of it.
    ``threads``: one for each element, or as many as hold the kernel's share of the card, which then take each region
    as one element.
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


def _sum_of(inputs: Sequence[Bytes], elements: int) -> NDArray[np.float32]:
    total = np.zeros(elements, np.float32)
    for array in inputs:
        for column in array.view(np.float32).T:  # float by float in the kernel's order: the same rounding
            total += column
    return total


def _spread(x: NDArray[np.float32], widths: Sequence[int]) -> list[Bytes]:
    return [np.repeat(x, width // FLOAT_BYTES).reshape(len(x), -1).view(np.uint8) for width in widths]


def sincos_reference(inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int) -> list[Bytes]:
    """``parameter`` times x = sin(x) cos(x) in double precision, from the float32 sum of the inputs.

    As sin(2x) / 2, which is the same and half the work.
    """
    x = _sum_of(inputs, elements).astype(np.float64)
    for _ in range(parameter):
        x = np.sin(2 * x) / 2
    return _spread(x.astype(np.float32), widths)


def sincos_tolerance(parameter: int) -> float:
    """Largest absolute error of the float32 iteration.

    CUDA's sinf and cosf are within 2 ulp each (CUDA C++ Programming Guide, "Mathematical Functions"), so one
    iteration adds at most 4.5 ulp of a number below 1/2: 1.4e-7. The map shrinks earlier errors
    (its slope cos 2x is about 1 - 3/(2n) after n iterations), so they add up like the square root of n.
    """
    return float(2.5e-7 * np.sqrt(max(1, parameter)))


def sum_reference(inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int) -> list[Bytes]:  # noqa: ARG001
    """The float32 sum of the inputs, exact in every bit."""
    return _spread(_sum_of(inputs, elements), widths)


def pass_through_reference(
    inputs: Sequence[Bytes],
    widths: Sequence[int],
    elements: int,  # noqa: ARG001
    parameter: int,  # noqa: ARG001
) -> list[Bytes]:
    """Output k is input k (the last where there are fewer), cut short or repeated to its width."""
    if not inputs:
        return []
    sources = [inputs[min(k, len(inputs) - 1)] for k in range(len(widths))]
    return [_of_width(array, width) for array, width in zip(sources, widths, strict=True)]


def _of_width(array: Bytes, width: int) -> Bytes:
    """Every row cut short or repeated."""
    times = -(-width // array.shape[1])
    return (array if times == 1 else np.tile(array, times))[:, :width]


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
    """Let schedules name this kernel; a kernel of the same name is replaced."""
    _REGISTRY[spec.name] = spec


def load_kernels(path: str) -> list[str]:
    """Register the kernels of a file and return their names.

    A ``.cu`` file: each ``extern "C" __global__ void NAME(const Arrays a)`` becomes the kernel NAME, without
    a NumPy reference. A ``.py`` file is executed, and calls :func:`register` itself. Raises InputError.
    """
    before = dict(_REGISTRY)
    if path.endswith(".cu"):
        try:
            source = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(one_line(f"{path}: cannot read it: {error}")) from None
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
    """Names that a schedule can use."""
    return sorted(_REGISTRY)


def find_kernel(kernel: Kernel) -> KernelSpec:
    """What to launch for a kernel of a schedule.

    A name that is not registered stands for a kernel that takes ``duration_s``: see :data:`SPIN` and
    :func:`stand_in`. Raises InputError when such a kernel has no duration.
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


def stand_in(kernel: Kernel, card_threads: int, launch_s: float) -> tuple[float, float]:
    """(seconds, share of the card held meanwhile) of the launch that stands for a kernel with a duration.

    What a prediction reckons with on a card of so many threads where a launch takes ``launch_s`` at least: the rule
    for parts of a launch has one home.
    """
    card = _bare_card(card_threads, launch_s)
    alone_s, share = card.kernel_time(kernel)
    return alone_s, min(1.0, share * alone_s / (alone_s - card.kernel_drain_s(kernel)))


@cache
def _bare_card(threads: int, launch_s: float) -> Device:
    """A card of which nothing else is known."""
    ideal = load_device("ideal")
    compute = msgspec.structs.replace(ideal.compute, resident_threads=threads, floor_s=launch_s)
    return msgspec.structs.replace(ideal, compute=compute)


def elements_of(spec: KernelSpec, kernel: Kernel) -> int:
    """Elements that a launch works on: the kernel's own number, or the floats of the largest region it touches.

    A single one where each region is taken whole.
    """
    if spec.threads == "card":
        return 1
    largest = max((region.bytes for region in (*kernel.reads, *kernel.writes)), default=0)
    return kernel.elements or max(1, largest // FLOAT_BYTES)


def widths_of(spec: KernelSpec, kernel: Kernel) -> tuple[list[int], list[int]]:
    """Bytes per element of each region that is read and written.

    Raises InputError when the regions do not divide into the kernel's elements or are too many.
    """
    elements = elements_of(spec, kernel)
    for field, regions in (("reads", kernel.reads), ("writes", kernel.writes)):
        if len(regions) > MOST_ARRAYS:
            raise InputError(f"kernel {kernel.name!r}: {field} has {len(regions)} regions, more than {MOST_ARRAYS}")
        for region in regions:
            if region.bytes % (elements * spec.unit_bytes) or region.offset % spec.unit_bytes:
                raise InputError(
                    f"kernel {kernel.name!r}: {field} {region.bytes} bytes at {region.offset} of {region.buffer!r},"
                    f" expected a multiple of {spec.unit_bytes} bytes for each of {elements} elements"
                )
    return [r.bytes // elements for r in kernel.reads], [r.bytes // elements for r in kernel.writes]


class Arrays(ctypes.Structure):
    """The kernels' one argument, laid out as in the CUDA source."""

    _fields_ = (
        ("elements", ctypes.c_longlong),
        ("parameter", ctypes.c_longlong),
        ("inputs", ctypes.c_longlong),
        ("outputs", ctypes.c_longlong),
        ("in_", ctypes.c_void_p * MOST_ARRAYS),
        ("in_width", ctypes.c_longlong * MOST_ARRAYS),
        ("out", ctypes.c_void_p * MOST_ARRAYS),
        ("out_width", ctypes.c_longlong * MOST_ARRAYS),
    )


class Argument:
    """An ``Arrays`` and the pointer to it that a launch takes; keep it for as long as it is launched."""

    def __init__(
        self, elements: int, parameter: int, reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]
    ) -> None:
        """``reads`` and ``writes`` are (address, bytes per element)."""
        self.arrays = Arrays(elements, parameter, len(reads), len(writes))
        for k, (address, width) in enumerate(reads):
            self.arrays.in_[k], self.arrays.in_width[k] = address, width
        for k, (address, width) in enumerate(writes):
            self.arrays.out[k], self.arrays.out_width[k] = address, width
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.arrays))
        self.address = ctypes.addressof(self._pointers)


def blocks_of(elements: int) -> int:
    """Blocks of ``THREADS_PER_BLOCK`` threads that have one for each element."""
    return -(-elements // THREADS_PER_BLOCK)


def compute_reference(
    spec: KernelSpec, inputs: Sequence[Bytes], widths: Sequence[int], elements: int, parameter: int
) -> list[Bytes]:
    """What the kernel leaves in each output, in NumPy. ``spec.reference`` must be given.

    ``inputs``: the bytes of each region that is read. Raises InputError when the reference does.
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
    """What to raise when code of the user's own fails."""
    return InputError(one_line(f"kernel {spec.name!r}: its {what} raises {type(error).__name__}: {error}"))
