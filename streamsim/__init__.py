"""Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

from streamsim import depth_first, predict, workload_of_sizes

workload = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"])
prediction = predict(depth_first(workload, chunks=16, streams=4), "h200")
print(prediction.makespan_s, prediction.speedup)
"""

from importlib.metadata import version

from streamsim.analysis.explain import explain
from streamsim.analysis.explanation import Explanation
from streamsim.analysis.intervals import interval
from streamsim.analysis.predict import Prediction, predict
from streamsim.analysis.what_if import what_if
from streamsim.code.programs import code_of, code_of_schedule
from streamsim.device.generations import load_device
from streamsim.device.library import device_names
from streamsim.device.profile import Device
from streamsim.device.variations import changed
from streamsim.diagnosis.diagnose import Measured, diagnose
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program.builder import Program
from streamsim.program.config import Config, breadth_first, build, depth_first, one_stream, prefetch, ring, serial
from streamsim.program.files import read_schedule, read_workload, workload_of_sizes, write_schedule, write_workload
from streamsim.program.layers import Layer, Layers, read_layers
from streamsim.program.offload import offload
from streamsim.program.schedule import (
    Buffer,
    Copy,
    HostWork,
    Kernel,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
)
from streamsim.program.workload import Workload, WorkloadKernel
from streamsim.races.check import check
from streamsim.recorded.program import program_of
from streamsim.recorded.read import read_recording
from streamsim.recorded.recording import Recording
from streamsim.recorded.replay import replay
from streamsim.recorded.summary import summarise
from streamsim.report.gantt import plot_gantt, plot_gantts, save_gantt
from streamsim.report.text import gantt
from streamsim.report.trace import write_trace
from streamsim.search.best import best
from streamsim.search.best_offload import best_offload
from streamsim.search.best_steps import best_steps
from streamsim.search.evaluate import evaluate
from streamsim.search.grid import Grid
from streamsim.search.result import Best
from streamsim.search.sweep import Sweep
from streamsim.search.sweep_text import sweep
from streamsim.timeline.timeline import Timeline
from streamsim.training.loop import Loop, loop_advice
from streamsim.transform.changes import Change

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
    "best_steps",
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
