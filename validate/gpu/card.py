"""The card: whether it is there and free, its properties, and its streams and events.

The replayer imports CuPy only here. All other code calls the functions of ``Gpu.cuda`` on raw addresses, so a test can
put recorded or emulated calls in their place.
"""

import contextlib
import errno
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, Literal

from streamsim.errors import NO_GPU, InputError, install
from streamsim.program import StreamKind
from streamsim_validate.records import Card

CONNECTIONS_VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
DEFAULT_CONNECTIONS = 8  # CUDA C++ Programming Guide, "CUDA Environment Variables"
HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # errors for a lock that another process holds
INSTALL = f"{install('cuda13')} (or '.[cuda12]', to match the driver)"


class NoGpuError(InputError):
    """Nothing to measure on: CuPy or a usable card is missing. The command ends with ``exit_code``."""

    exit_code = NO_GPU


Pool = StreamKind | Literal["holder"]
EventPool = Literal["live", "captured", "timing"]


class Gpu:
    """A card in use: its CUDA calls, and streams and events that live as long as it is open.

    ``cuda`` has the functions of ``cupy.cuda.runtime`` under their names, ``launchKernel`` and
    ``occupancyMaxActiveBlocksPerMultiprocessor`` of ``cupy.cuda.driver``, and ``compile_module(source, name)``, which
    returns the address of the function.

    Streams are made once and shared by all schedules, so stream 3 of every schedule is the same CUDA stream. Those of
    the kind "holder", non-blocking, are no schedule's. ``queues``: the hardware queues in front of every engine, 0 if
    their number is not known. ``number``: the card's.
    """

    def __init__(self, cuda: Any, card: Card, queues: int = 0, number: int = 0) -> None:
        self.cuda, self.card, self.queues, self.number = cuda, card, queues, number
        self._streams: dict[Pool, list[int]] = {"non-blocking": [], "blocking": [], "holder": []}
        self._events: dict[EventPool, list[int]] = {"live": [], "captured": [], "timing": []}

    def streams(self, kinds: Sequence[Pool]) -> list[int]:
        """Return the addresses of streams 0 (legacy default), 1, 2, ... of a schedule with these kinds of stream."""
        found = [self.cuda.streamLegacy]
        used = dict.fromkeys(self._streams, 0)
        for kind in kinds:
            pool = self._streams[kind]
            if used[kind] == len(pool):
                flags = self.cuda.streamDefault if kind == "blocking" else self.cuda.streamNonBlocking
                try:
                    pool.append(int(self.cuda.streamCreateWithFlags(flags)))
                except Exception as error:
                    made = f"the driver gave {sum(map(len, self._streams.values()))} and no more ({error})"
                    raise InputError(f"streams = {len(kinds)}: {made}; use fewer") from error
            found.append(pool[used[kind]])
            used[kind] += 1
        return found

    def events(self, count: int, kind: EventPool = "live") -> list[int]:
        """Return the addresses of ``count`` events, without timing unless their kind is "timing".

        "captured": for a capture. CUDA refuses such events to live programs, which therefore have their own.
        """
        pool = self._events[kind]
        while len(pool) < count:
            flags = self.cuda.eventDefault if kind == "timing" else self.cuda.eventDisableTiming
            pool.append(self.cuda.eventCreateWithFlags(flags))
        return pool[:count]

    def free_bytes(self) -> int:
        """Return the device memory that can still be allocated."""
        return int(self.cuda.memGetInfo()[0])

    def close(self) -> None:
        """Destroy the streams and events. What a dead context refuses to destroy dies with it."""
        with contextlib.suppress(Exception):
            for stream in chain(*self._streams.values()):
                self.cuda.streamDestroy(stream)
            for event in chain(*self._events.values()):
                self.cuda.eventDestroy(event)
        for pool in (*self._streams.values(), *self._events.values()):
            pool.clear()


class CupyCuda:
    """``cupy.cuda.runtime``, with the driver's cheap launch and the compiler."""

    def __init__(self, cupy: types.ModuleType) -> None:
        self._cupy = cupy
        self._runtime = cupy.cuda.runtime
        self.launchKernel = cupy.cuda.driver.launchKernel  # under 2 us; RawKernel.__call__ takes about 5
        self.occupancyMaxActiveBlocksPerMultiprocessor = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        self._modules: list[object] = []  # a function dies with its module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def compile_module(self, source: str, name: str) -> int:
        """Compile CUDA ``source`` and return the address of the function ``name``.

        Raises InputError with the compiler's first error line.
        """
        module = self._cupy.RawModule(code=source)
        self._modules.append(module)
        try:
            return int(module.get_function(name).kernel.ptr)
        except self._cupy.cuda.compiler.CompileException as error:
            raise InputError(f"the CUDA source does not compile: {first_error_line(str(error))}") from error
        except self._cupy.cuda.driver.CUDADriverError as error:
            raise InputError(f'the CUDA source has no extern "C" kernel {name} ({error})') from error


def first_error_line(log: str) -> str:
    """Return the line of a compiler's log that names the error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no reason given")


def import_cupy() -> types.ModuleType:
    """Return CuPy. Raises NoGpuError, which says how to install it."""
    try:
        return import_module("cupy")
    except ImportError as error:
        missing = error.name == "cupy"
        reason = "CuPy is not installed" if missing else f"CuPy cannot be imported ({str(error).splitlines()[0]})"
        raise NoGpuError(f"{reason}: {INSTALL}") from error


@contextlib.contextmanager
def open_gpu(device: int = 0) -> Iterator[Gpu]:
    """Open the card number ``device``, for this process alone among validators, with its context made.

    Raises NoGpuError if there is no CuPy or no usable card, and InputError if another validator measures on it: two at
    once would measure each other.
    """
    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        needs = "measuring needs an NVIDIA card and a driver as new as this CuPy's CUDA"
        raise NoGpuError(f"no usable GPU ({error}): {needs}") from error
    if not 0 <= device < count:
        raise NoGpuError(f"device = {device}: this machine has {count} usable GPU(s), numbered from 0")
    with device_lock(runtime.deviceGetPCIBusId(device)), cupy.cuda.Device(device):
        try:
            runtime.memGetInfo()  # makes the context, which reads the number of connections
            gpu = Gpu(CupyCuda(cupy), describe_card(cupy, device), connections(if_not_set=0), device)
        except runtime.CUDARuntimeError as error:
            raise NoGpuError(f"device = {device}: the GPU cannot be used ({error})") from error
        try:
            yield gpu
        finally:
            gpu.close()


def describe_card(cupy: Any, device: int) -> Card:
    """Return the driver's description of the card."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(device)
    name = properties["name"]
    return Card(
        name=name.decode() if isinstance(name, bytes) else str(name),
        pci_bus=runtime.deviceGetPCIBusId(device),
        memory_bytes=int(properties["totalGlobalMem"]),
        multiprocessors=int(properties["multiProcessorCount"]),
        threads_per_multiprocessor=int(properties["maxThreadsPerMultiProcessor"]),
        copy_engines=int(runtime.deviceGetAttribute(runtime.cudaDevAttrAsyncEngineCount, device)),
        compute_capability=f"{properties['major']}.{properties['minor']}",
        driver=driver_version(),
        cuda_driver=version_text(runtime.driverGetVersion()),
        cuda_runtime=version_text(runtime.runtimeGetVersion()),
        cupy=str(cupy.__version__),
    )


def version_text(number: int) -> str:
    """Return CUDA's version number as text: 13020 is "13.2"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def driver_version() -> str:
    """Return the display driver's version, such as "580.159.04"; "unknown" without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
        if found := re.search(r"\d+(\.\d+)+", answer):
            return found.group()
    return "unknown"


def connections(if_not_set: int = DEFAULT_CONNECTIONS) -> int:
    """Return the number of hardware queues of a context that this process makes.

    ``if_not_set``: the number without the variable. An engine may then have fewer than the default: on an H200, the
    copy engines have 4 and the compute engine has 8.
    """
    value = os.environ.get(CONNECTIONS_VARIABLE, "")
    return min(32, max(1, int(value))) if value.isdigit() else if_not_set


@contextlib.contextmanager
def device_lock(device_id: str) -> Iterator[None]:
    """Hold the card ``device_id`` against other validators; the system releases it when the process dies.

    Raises InputError if another process holds it, or if there can be no lock file.
    """
    path = os.path.join(tempfile.gettempdir(), f"streamsim-validate-{re.sub(r'[^0-9A-Za-z]', '_', device_id)}.lock")
    try:
        # Reading is enough to lock a file that another user made. No link is followed: in a folder that all may write
        # somebody else may have put it there.
        number = os.open(path, os.O_RDONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        remedy = "set TMPDIR to a folder that can be written"
        if os.path.lexists(path):  # another TMPDIR would have another lock, which holds off nobody here
            remedy = f"let its owner run `chmod a+r {path}`, or remove it while nobody measures"
        raise InputError(f"{path}: cannot make the lock file ({error.strerror}); {remedy}") from error
    try:
        with contextlib.suppress(OSError, AttributeError):  # the umask may keep others out; it may be another user's
            os.fchmod(number, 0o666)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:  # else the file system has no locks
                raise InputError(
                    f"another streamsim-validate is measuring on the GPU {device_id} (lock file {path});"
                    " wait for it: two at once would measure each other"
                ) from None
        yield
    finally:
        os.close(number)
