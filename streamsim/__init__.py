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
    from streamsim.assumptions import link_words
    from streamsim.best import Best, find_best
    from streamsim.bounds import Bound, lower_bound, published
    from streamsim.check import Finding, check_schedule, repaired
    from streamsim.device import Device
    from streamsim.devices import device_names, load_device
    from streamsim.errors import InputError
    from streamsim.explain import Explanation, Loss, explain_schedule
    from streamsim.files import read_device, read_schedule, read_workload, write_device, write_schedule, write_workload
    from streamsim.grid import Config, Grid, evaluate
    from streamsim.heatmap import HeatMap, save_heatmap
    from streamsim.model import simulate
    from streamsim.patterns import (
        breadth_first,
        build,
        depth_first,
        one_stream,
        prefetch,
        ring,
        serial,
        serialized,
    )
    from streamsim.plot import save_explanation, save_gantt
    from streamsim.quantities import parse_bandwidth, parse_bytes, parse_seconds
    from streamsim.remedies import Source
    from streamsim.report import Prediction, gantt, predict
    from streamsim.schedule import (
        Buffer,
        Copy,
        Kernel,
        RecordEvent,
        Region,
        Schedule,
        Synchronize,
        WaitEvent,
    )
    from streamsim.sizes import parse_kernel, workload_of_sizes
    from streamsim.sweep import Axis, Sweep, sweep_blocks
    from streamsim.sweep_files import write_sweep
    from streamsim.sweep_plan import read_sweep, sweep_of
    from streamsim.timeline import Span, Timeline, critical_path
    from streamsim.trace import write_trace
    from streamsim.uncertainty import Interval, interval
    from streamsim.variations import changed
    from streamsim.workload import Point, Workload, WorkloadKernel

    __version__: str

_HOME = {
    # The schedule language
    "Schedule": "schedule",  # operations in the order in which the host issues them
    "Copy": "schedule",  # host to device or back
    "Kernel": "schedule",  # a kernel launch
    "RecordEvent": "schedule",  # an event marks a place in a stream
    "WaitEvent": "schedule",  # a stream waits for an event
    "Synchronize": "schedule",  # the host waits
    "Buffer": "schedule",  # a named piece of host or device memory
    "Region": "schedule",  # a byte range of a buffer
    # Patterns: a workload cut into chunks
    "Workload": "workload",  # arrays in and out, and the kernels between
    "WorkloadKernel": "workload",  # a kernel over all of it, by its time or by its name in the profile
    "Point": "workload",  # a measured time of a part of a kernel
    "workload_of_sizes": "sizes",  # a workload from sizes and times, as numbers or as text
    "parse_kernel": "sizes",  # "0.57ms,9us@64Ki" to a WorkloadKernel
    "serial": "patterns",  # blocking copies, one chunk after another
    "one_stream": "patterns",  # asynchronous, in one stream
    "depth_first": "patterns",  # chunk by chunk over several streams
    "breadth_first": "patterns",  # stage by stage over several streams
    "ring": "patterns",  # k device buffers used in turn (double buffering)
    "prefetch": "patterns",  # copy the next batch beside the kernels of this one
    "serialized": "patterns",  # any schedule without its overlap
    "build": "patterns",  # a pattern by name
    # Devices
    "Device": "device",  # a card, its link and its host
    "device_names": "devices",  # the shipped profiles
    "load_device": "devices",  # a shipped profile or a file
    "changed": "variations",  # a device with other numbers
    "link_words": "assumptions",  # what link a device has, and how well that is known
    # The model and what it says
    "simulate": "model",  # schedule and device to time line
    "predict": "report",  # schedule and device to makespan, speed-up, bound and utilisation
    "Prediction": "report",  # what predict gives
    "Timeline": "timeline",  # when every op was issued, became ready, started, ended
    "Span": "timeline",  # one op of a time line
    "critical_path": "timeline",  # the chain of ops that sets the makespan
    "Bound": "bounds",  # a lower bound and what sets it
    "lower_bound": "bounds",  # no schedule of this work can be faster
    "published": "bounds",  # the published formulas
    "check_schedule": "check",  # races, and events and waits that do nothing
    "Finding": "check",  # what it finds
    "repaired": "check",  # a schedule with the waits that its races lack
    # The best schedule, and many of them
    "Config": "grid",  # how to cut and issue a workload
    "Grid": "grid",  # all ways to combine some of them
    "evaluate": "grid",  # configs to makespans, compiled where numba is installed
    "find_best": "best",  # exactly the optimum of a grid
    "Best": "best",  # what find_best gives
    "Axis": "sweep",  # a name and its values
    "Sweep": "sweep",  # every combination of some axes
    "sweep_blocks": "sweep",  # the rows of a sweep, on any executor
    "sweep_of": "sweep_plan",  # a sweep from ranges such as "1..64*2"
    "read_sweep": "sweep_plan",  # such ranges from TOML
    "write_sweep": "sweep_files",  # to CSV, JSON lines or Parquet, resumable
    "HeatMap": "heatmap",  # the rows of a sweep by two columns
    "save_heatmap": "heatmap",  # as a picture
    # Why
    "explain_schedule": "explain",  # the time above the lower bound, split over its causes
    "Explanation": "explain",  # what explain_schedule gives
    "Source": "remedies",  # the workload and configuration that a schedule was made from, for explain_schedule
    "Loss": "explain",  # a cause, what it has lost, and its remedy
    # How sure
    "interval": "uncertainty",  # where the makespan lies with a probability of 90 %
    "Interval": "uncertainty",  # what interval gives
    # Pictures and files
    "gantt": "report",  # a time line as text
    "save_gantt": "plot",  # a time line as a picture
    "save_explanation": "plot",  # the same with the critical path and the lost time by cause
    "write_trace": "trace",  # a time line for Perfetto
    "read_schedule": "files",  # from JSON
    "write_schedule": "files",  # to JSON
    "read_workload": "files",  # from TOML
    "write_workload": "files",  # to TOML
    "read_device": "files",  # from TOML
    "write_device": "files",  # to TOML
    "parse_bytes": "quantities",  # "64MiB" to 67108864
    "parse_seconds": "quantities",  # "0.57ms" to 0.00057
    "parse_bandwidth": "quantities",  # "25GB/s" to 25e9
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
    "breadth_first",
    "build",
    "changed",
    "check_schedule",
    "critical_path",
    "depth_first",
    "device_names",
    "evaluate",
    "explain_schedule",
    "find_best",
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
    "sweep_blocks",
    "sweep_of",
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
