"""The card: its memory, streams, events and kernels, and the replay of a schedule on it.

Only functions import CuPy. So code that needs no card, such as ``fit`` on kept samples and the tests, runs without it.
"""

from streamsim_validate.gpu.card import CONNECTIONS_VARIABLE, Gpu, NoGpuError, connections, import_cupy, open_gpu
from streamsim_validate.gpu.kernels import (
    THREADS_PER_BLOCK,
    Arrays,
    KernelSpec,
    find_kernel,
    load_kernels,
    read_source,
    register,
)
from streamsim_validate.gpu.libraries import Calls, Library, LinearLayers, installed_libraries
from streamsim_validate.gpu.memory import Key, buffers_of, check_fits, free_host_bytes, outputs, union
from streamsim_validate.gpu.nvcc import Compiled, compiled_rounds, has_nvcc, paced, probes
from streamsim_validate.gpu.replayer import Bench, LostGpuError, Replayer, one_line_errors, prepare, refuse_races
