"""Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

    from streamsim import depth_first, load_device, predict, workload_of_sizes

    workload = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"])
    prediction = predict(depth_first(workload, chunks=16, streams=4), load_device("h200"))
    print(prediction.makespan_s, prediction.speedup)

Names are imported when first used (PEP 562), so that ``import streamsim`` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamsim.analysis.bounds import Bound, lower_bound
    from streamsim.analysis.causes import Explanation, Loss
    from streamsim.analysis.explain import explain
    from streamsim.analysis.formulas import published
    from streamsim.analysis.intervals import Interval, interval
    from streamsim.analysis.predict import Prediction, predict
    from streamsim.analysis.races import Finding, check, repaired
    from streamsim.analysis.remedies import Source
    from streamsim.device.assumptions import link_words
    from streamsim.device.files import read_device, write_device
    from streamsim.device.library import device_names, load_device
    from streamsim.device.profile import Device
    from streamsim.device.variations import changed
    from streamsim.errors import InputError
    from streamsim.model import simulate
    from streamsim.program.config import Config
    from streamsim.program.files import read_schedule, read_workload, write_schedule, write_workload
    from streamsim.program.patterns import (
        breadth_first,
        build,
        depth_first,
        one_stream,
        prefetch,
        ring,
        serial,
        serialized,
    )
    from streamsim.program.schedule import Buffer, Copy, Kernel, RecordEvent, Region, Schedule, Synchronize, WaitEvent
    from streamsim.program.workload import Point, Workload, WorkloadKernel
    from streamsim.program.workload_text import parse_kernel, workload_of_sizes
    from streamsim.report.gantt import save_explanation, save_gantt
    from streamsim.report.heatmap import HeatMap, save_heatmap
    from streamsim.report.text import gantt
    from streamsim.report.trace import write_trace
    from streamsim.search.best import Best, best
    from streamsim.search.evaluate import evaluate
    from streamsim.search.grid import Grid
    from streamsim.search.sweep import Axis, Sweep
    from streamsim.search.sweep_output import Journal, write_sweep
    from streamsim.search.sweep_text import read_sweep, sweep
    from streamsim.text.quantities import parse_bandwidth, parse_bytes, parse_seconds
    from streamsim.timeline.critical_path import critical_path
    from streamsim.timeline.timeline import Span, Timeline

    __version__: str

_HOME = {
    # The schedule language
    "Schedule": "program.schedule",  # operations in the order in which the host issues them
    "Copy": "program.schedule",  # host to device or back
    "Kernel": "program.schedule",  # a kernel launch
    "RecordEvent": "program.schedule",  # an event marks a place in a stream
    "WaitEvent": "program.schedule",  # a stream waits for an event
    "Synchronize": "program.schedule",  # the host waits
    "Buffer": "program.schedule",  # a named piece of host or device memory
    "Region": "program.schedule",  # a byte range of a buffer
    # Patterns: a workload cut into chunks
    "Workload": "program.workload",  # arrays in and out, and the kernels between
    "WorkloadKernel": "program.workload",  # a kernel over all of it, by its time or by its name in the profile
    "Point": "program.workload",  # a measured time of a part of a kernel
    "workload_of_sizes": "program.workload_text",  # a workload from sizes and times, as numbers or as text
    "parse_kernel": "program.workload_text",  # "0.57ms,9us@64Ki" to a WorkloadKernel
    "serial": "program.patterns",  # blocking copies, one chunk after another
    "one_stream": "program.patterns",  # asynchronous, in one stream
    "depth_first": "program.patterns",  # chunk by chunk over several streams
    "breadth_first": "program.patterns",  # stage by stage over several streams
    "ring": "program.patterns",  # k device buffers used in turn (double buffering)
    "prefetch": "program.patterns",  # copy the next batch beside the kernels of this one
    "serialized": "program.patterns",  # any schedule without its overlap
    "build": "program.patterns",  # a pattern by name
    # Devices
    "Device": "device.profile",  # a card, its link and its host
    "device_names": "device.library",  # the shipped profiles
    "load_device": "device.library",  # a shipped profile or a file
    "changed": "device.variations",  # a device with other numbers
    "link_words": "device.assumptions",  # what link a device has, and how well that is known
    # The model and what it says
    "simulate": "model",  # schedule and device to time line
    "predict": "analysis.predict",  # schedule and device to makespan, speed-up, bound and utilisation
    "Prediction": "analysis.predict",  # what predict gives
    "Timeline": "timeline.timeline",  # when every op was issued, became ready, started, ended
    "Span": "timeline.timeline",  # one op of a time line
    "critical_path": "timeline.critical_path",  # the chain of ops that sets the makespan
    "Bound": "analysis.bounds",  # a lower bound and what sets it
    "lower_bound": "analysis.bounds",  # no schedule of this work can be faster
    "published": "analysis.formulas",  # the published formulas
    "check": "analysis.races",  # races, and events and waits that do nothing
    "Finding": "analysis.races",  # what it finds
    "repaired": "analysis.races",  # a schedule with the waits that its races lack
    # The best schedule, and many of them
    "Config": "program.config",  # how to cut and issue a workload
    "Grid": "search.grid",  # all ways to combine some of them
    "evaluate": "search.evaluate",  # configs to makespans, compiled where numba is installed
    "best": "search.best",  # exactly the optimum of a grid
    "Best": "search.best",  # what best gives
    "Sweep": "search.sweep",  # what sweep gives: iterate over it for its rows
    "Axis": "search.sweep",  # a name and its values
    "sweep": "search.sweep_text",  # every combination of ranges such as "1..64*2", predicted
    "read_sweep": "search.sweep_text",  # such a sweep from a TOML file
    "write_sweep": "search.sweep_output",  # to CSV, JSON lines or Parquet, resumable
    "Journal": "search.sweep_output",  # how far that has come
    "HeatMap": "report.heatmap",  # the rows of a sweep by two columns
    "save_heatmap": "report.heatmap",  # as a picture
    # Why
    "explain": "analysis.explain",  # the time above the lower bound, split over its causes
    "Explanation": "analysis.causes",  # what explain gives
    "Source": "analysis.remedies",  # the workload and configuration that a schedule was made from, for explain
    "Loss": "analysis.causes",  # a cause, what it has lost, and its remedy
    # How sure
    "interval": "analysis.intervals",  # where the makespan lies with a probability of 90 %
    "Interval": "analysis.intervals",  # what interval gives
    # Pictures and files
    "gantt": "report.text",  # a time line as text
    "save_gantt": "report.gantt",  # a time line as a picture
    "save_explanation": "report.gantt",  # the same with the critical path and the lost time by cause
    "write_trace": "report.trace",  # a time line for Perfetto
    "read_schedule": "program.files",  # from JSON
    "write_schedule": "program.files",  # to JSON
    "read_workload": "program.files",  # from TOML
    "write_workload": "program.files",  # to TOML
    "read_device": "device.files",  # from TOML
    "write_device": "device.files",  # to TOML
    "parse_bytes": "text.quantities",  # "64MiB" to 67108864
    "parse_seconds": "text.quantities",  # "0.57ms" to 0.00057
    "parse_bandwidth": "text.quantities",  # "25GB/s" to 25e9
    "InputError": "errors",  # what bad input raises
}

__all__ = [
    "Axis",
    "Best",
    "Bound",
    "Buffer",
    "Config",
    "Copy",
    "Device",
    "Explanation",
    "Finding",
    "Grid",
    "HeatMap",
    "InputError",
    "Interval",
    "Journal",
    "Kernel",
    "Loss",
    "Point",
    "Prediction",
    "RecordEvent",
    "Region",
    "Schedule",
    "Source",
    "Span",
    "Sweep",
    "Synchronize",
    "Timeline",
    "WaitEvent",
    "Workload",
    "WorkloadKernel",
    "__version__",
    "best",
    "breadth_first",
    "build",
    "changed",
    "check",
    "critical_path",
    "depth_first",
    "device_names",
    "evaluate",
    "explain",
    "gantt",
    "interval",
    "link_words",
    "load_device",
    "lower_bound",
    "one_stream",
    "parse_bandwidth",
    "parse_bytes",
    "parse_kernel",
    "parse_seconds",
    "predict",
    "prefetch",
    "published",
    "read_device",
    "read_schedule",
    "read_sweep",
    "read_workload",
    "repaired",
    "ring",
    "save_explanation",
    "save_gantt",
    "save_heatmap",
    "serial",
    "serialized",
    "simulate",
    "sweep",
    "workload_of_sizes",
    "write_device",
    "write_schedule",
    "write_sweep",
    "write_trace",
    "write_workload",
]


def _lookup(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("streamsim")
    elif name in _HOME:
        value = getattr(import_module(f"streamsim.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'streamsim' has no attribute {name!r}")
    globals()[name] = value  # found at once the next time
    return value


if not TYPE_CHECKING:  # type checkers know the names above, and should complain about any other
    __getattr__ = _lookup


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
