"""Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

    from streamsim import depth_first, predict, workload_of_sizes

    workload = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"])
    prediction = predict(depth_first(workload, chunks=16, streams=4), "h200")
    print(prediction.makespan_s, prediction.speedup)

Names are imported when first used (PEP 562), so that ``import streamsim`` alone costs next to nothing.
"""

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsim.analysis.explain import explain as explain
    from streamsim.analysis.explanation import Explanation as Explanation
    from streamsim.analysis.intervals import interval as interval
    from streamsim.analysis.predict import Prediction as Prediction
    from streamsim.analysis.predict import predict as predict
    from streamsim.analysis.what_if import what_if as what_if
    from streamsim.code.programs import code_of as code_of
    from streamsim.code.programs import code_of_schedule as code_of_schedule
    from streamsim.device.library import device_names as device_names
    from streamsim.device.library import load_device as load_device
    from streamsim.device.profile import Device as Device
    from streamsim.device.variations import changed as changed
    from streamsim.diagnosis.diagnose import Measured as Measured
    from streamsim.diagnosis.diagnose import diagnose as diagnose
    from streamsim.errors import InputError as InputError
    from streamsim.model import simulate as simulate
    from streamsim.program.builder import Program as Program
    from streamsim.program.config import Config as Config
    from streamsim.program.files import read_schedule as read_schedule
    from streamsim.program.files import read_workload as read_workload
    from streamsim.program.files import write_schedule as write_schedule
    from streamsim.program.files import write_workload as write_workload
    from streamsim.program.layer_files import read_layers as read_layers
    from streamsim.program.layers import Layer as Layer
    from streamsim.program.layers import Layers as Layers
    from streamsim.program.offload import offload as offload
    from streamsim.program.patterns import breadth_first as breadth_first
    from streamsim.program.patterns import build as build
    from streamsim.program.patterns import depth_first as depth_first
    from streamsim.program.patterns import one_stream as one_stream
    from streamsim.program.patterns import prefetch as prefetch
    from streamsim.program.patterns import ring as ring
    from streamsim.program.patterns import serial as serial
    from streamsim.program.schedule import Buffer as Buffer
    from streamsim.program.schedule import Copy as Copy
    from streamsim.program.schedule import HostWork as HostWork
    from streamsim.program.schedule import Kernel as Kernel
    from streamsim.program.schedule import RecordEvent as RecordEvent
    from streamsim.program.schedule import Region as Region
    from streamsim.program.schedule import Schedule as Schedule
    from streamsim.program.schedule import Synchronize as Synchronize
    from streamsim.program.schedule import WaitEvent as WaitEvent
    from streamsim.program.workload import Workload as Workload
    from streamsim.program.workload import WorkloadKernel as WorkloadKernel
    from streamsim.program.workload_text import workload_of_sizes as workload_of_sizes
    from streamsim.races.check import check as check
    from streamsim.recorded.program import program_of as program_of
    from streamsim.recorded.read import read_recording as read_recording
    from streamsim.recorded.recording import Recording as Recording
    from streamsim.recorded.replay import replay as replay
    from streamsim.recorded.summary import summarise as summarise
    from streamsim.report.gantt import plot_gantt as plot_gantt
    from streamsim.report.gantt import plot_gantts as plot_gantts
    from streamsim.report.gantt import save_gantt as save_gantt
    from streamsim.report.heatmap import plot_heatmap as plot_heatmap
    from streamsim.report.text import gantt as gantt
    from streamsim.report.trace import write_trace as write_trace
    from streamsim.search.best import best as best
    from streamsim.search.best_offload import best_offload as best_offload
    from streamsim.search.best_steps import best_steps as best_steps
    from streamsim.search.evaluate import evaluate as evaluate
    from streamsim.search.grid import Grid as Grid
    from streamsim.search.result import Best as Best
    from streamsim.search.sweep import Sweep as Sweep
    from streamsim.search.sweep_text import sweep as sweep
    from streamsim.timeline.timeline import Timeline as Timeline
    from streamsim.training.loop import Loop as Loop
    from streamsim.training.loop import loop_advice as loop_advice
    from streamsim.transform.changes import Change as Change

    __version__: str

_HOME = {
    # Schedules
    "Schedule": "program.schedule",
    "Copy": "program.schedule",
    "Kernel": "program.schedule",
    "RecordEvent": "program.schedule",
    "WaitEvent": "program.schedule",
    "Synchronize": "program.schedule",
    "HostWork": "program.schedule",
    "Buffer": "program.schedule",
    "Region": "program.schedule",
    "Program": "program.builder",
    # Workloads, and the patterns that cut and issue them
    "Workload": "program.workload",
    "WorkloadKernel": "program.workload",
    "workload_of_sizes": "program.workload_text",
    "Layers": "program.layers",
    "Layer": "program.layers",
    "Config": "program.config",
    "Grid": "search.grid",
    "serial": "program.patterns",
    "one_stream": "program.patterns",
    "depth_first": "program.patterns",
    "breadth_first": "program.patterns",
    "ring": "program.patterns",
    "prefetch": "program.patterns",
    "build": "program.patterns",
    "offload": "program.offload",
    # Devices
    "Device": "device.profile",
    "device_names": "device.library",
    "load_device": "device.library",
    "changed": "device.variations",
    # Answers
    "simulate": "model",
    "Timeline": "timeline.timeline",
    "predict": "analysis.predict",
    "Prediction": "analysis.predict",
    "interval": "analysis.intervals",
    "explain": "analysis.explain",
    "Explanation": "analysis.explanation",
    "check": "races.check",
    "what_if": "analysis.what_if",
    "Change": "transform.changes",
    "diagnose": "diagnosis.diagnose",
    "Measured": "diagnosis.diagnose",
    "loop_advice": "training.loop",
    "Loop": "training.loop",
    # Searches
    "best": "search.best",
    "Best": "search.result",
    "best_offload": "search.best_offload",
    "best_steps": "search.best_steps",
    "evaluate": "search.evaluate",
    "sweep": "search.sweep_text",
    "Sweep": "search.sweep",
    # Recordings of programs
    "read_recording": "recorded.read",
    "Recording": "recorded.recording",
    "summarise": "recorded.summary",
    "program_of": "recorded.program",
    "replay": "recorded.replay",
    # Code, pictures and files
    "code_of": "code.programs",
    "code_of_schedule": "code.programs",
    "gantt": "report.text",
    "plot_gantt": "report.gantt",
    "plot_gantts": "report.gantt",
    "save_gantt": "report.gantt",
    "plot_heatmap": "report.heatmap",
    "write_trace": "report.trace",
    "read_schedule": "program.files",
    "write_schedule": "program.files",
    "read_workload": "program.files",
    "write_workload": "program.files",
    "read_layers": "program.layer_files",
    # Errors
    "InputError": "errors",
}

__all__ = [*sorted(_HOME), "__version__"]


def _lookup(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("streamsim")
    elif name in _HOME:
        value = getattr(import_module(f"streamsim.{_HOME[name]}"), name)
        if isinstance(value, FunctionType):
            from streamsim.arguments import checked

            value = checked(value)
    else:
        raise AttributeError(f"module 'streamsim' has no attribute {name!r}")
    globals()[name] = value  # found at once the next time
    return value


if not TYPE_CHECKING:  # type checkers know the names above, and should complain about any other
    __getattr__ = _lookup


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
