"""Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

from streamsim import depth_first, predict, workload_of_sizes

workload = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"])
prediction = predict(depth_first(workload, chunks=16, streams=4), "h200")
print(prediction.makespan_s, prediction.speedup)
"""

from importlib.metadata import version

from streamsim.advice import Explanation, explain, loop_advice, what_if
from streamsim.analysis import Prediction, interval, predict
from streamsim.code import code_of, code_of_schedule
from streamsim.device import Device, changed, device_names, load_device
from streamsim.diagnosis import Measured, diagnose
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import (
    Buffer,
    Config,
    Copy,
    HostWork,
    Kernel,
    Layer,
    Layers,
    Loop,
    Program,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    Workload,
    WorkloadKernel,
    breadth_first,
    build,
    depth_first,
    offload,
    one_stream,
    prefetch,
    read_layers,
    read_schedule,
    read_workload,
    ring,
    serial,
    workload_of_sizes,
    write_schedule,
    write_workload,
)
from streamsim.races import check
from streamsim.recorded import Recording, program_of, read_recording, replay, summarise
from streamsim.report import gantt, plot_gantt, plot_gantts, save_gantt, write_trace
from streamsim.search import Best, Grid, Sweep, best, best_offload, best_program, evaluate, sweep
from streamsim.timeline import Timeline
from streamsim.transform import Change

__version__ = version("streamsim")
__all__ = [
    "Best",
    "Buffer",
    "Change",
    "Config",
    "Copy",
    "Device",
    "Explanation",
    "Grid",
    "HostWork",
    "InputError",
    "Kernel",
    "Layer",
    "Layers",
    "Loop",
    "Measured",
    "Prediction",
    "Program",
    "RecordEvent",
    "Recording",
    "Region",
    "Schedule",
    "Sweep",
    "Synchronize",
    "Timeline",
    "WaitEvent",
    "Workload",
    "WorkloadKernel",
    "__version__",
    "best",
    "best_offload",
    "best_program",
    "breadth_first",
    "build",
    "changed",
    "check",
    "code_of",
    "code_of_schedule",
    "depth_first",
    "device_names",
    "diagnose",
    "evaluate",
    "explain",
    "gantt",
    "interval",
    "load_device",
    "loop_advice",
    "offload",
    "one_stream",
    "plot_gantt",
    "plot_gantts",
    "predict",
    "prefetch",
    "program_of",
    "read_layers",
    "read_recording",
    "read_schedule",
    "read_workload",
    "replay",
    "ring",
    "save_gantt",
    "serial",
    "simulate",
    "summarise",
    "sweep",
    "what_if",
    "workload_of_sizes",
    "write_schedule",
    "write_trace",
    "write_workload",
]
