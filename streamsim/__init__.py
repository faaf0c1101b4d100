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
    from streamsim.analysis.bounds import Bound, lower_bound
    from streamsim.analysis.causes import Assuming, Loss, Together
    from streamsim.analysis.counterfactual import Scenario
    from streamsim.analysis.event_pairs import timed_alone
    from streamsim.analysis.explain import explain
    from streamsim.analysis.explanation import Explanation
    from streamsim.analysis.formulas import published
    from streamsim.analysis.intervals import Interval, interval
    from streamsim.analysis.predict import EngineUse, Prediction, WithoutRing, predict
    from streamsim.analysis.races import Finding, Hazard, MissingWait, check, repaired
    from streamsim.analysis.remedies import LayersSource, Source
    from streamsim.analysis.what_if import Change, Outcome, WhatIf, what_if
    from streamsim.analysis.work_bound import work_bound
    from streamsim.code.layers import code_of_layers
    from streamsim.code.programs import code_of, code_of_schedule, code_of_steps
    from streamsim.device.assumptions import link_words
    from streamsim.device.files import read_device, write_device
    from streamsim.device.front_ends import FrontEnd
    from streamsim.device.kernel_costs import KernelCost
    from streamsim.device.library import device_names, load_device
    from streamsim.device.profile import Compute, CopyEngines, Device, HandOver, Host, KernelUse, LinkDirection
    from streamsim.device.recorders import Recorder
    from streamsim.device.variations import changed
    from streamsim.diagnosis.diagnose import Diagnosis, Explains, Measured, Next, Range, diagnose
    from streamsim.errors import InputError
    from streamsim.model import simulate
    from streamsim.program.builder import Event, Memory, Program, Stream
    from streamsim.program.config import Config
    from streamsim.program.files import read_schedule, read_workload, write_schedule, write_workload
    from streamsim.program.layer_files import read_layers, write_layers
    from streamsim.program.layers import Layer, Layers, LayerStep
    from streamsim.program.offload import Offload, offload
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
    from streamsim.program.recorded_times import RecordedTimes
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
        WaitThread,
    )
    from streamsim.program.workload import Part, Point, Workload, WorkloadKernel
    from streamsim.program.workload_text import parse_kernel, workload_of_sizes
    from streamsim.recorded.card_profile import profile_of
    from streamsim.recorded.program import RecordedProgram, program_of
    from streamsim.recorded.read import read_recording
    from streamsim.recorded.recording import (
        AnnotationKind,
        Annotations,
        CallKind,
        CardWork,
        CopyDirection,
        CopyMemory,
        HostCalls,
        RecordedCard,
        RecordedStream,
        RecordedThread,
        Recording,
        Unread,
        WorkKind,
    )
    from streamsim.recorded.recording_costs import HostCosts
    from streamsim.recorded.replay import (
        EngineReplay,
        Misplaced,
        Replay,
        Unrecorded,
        replay,
        untraced,
        without_recording,
    )
    from streamsim.recorded.summary import (
        RecordedAmount,
        RecordedCalls,
        RecordedCardUse,
        RecordedEngine,
        RecordedReason,
        RecordingSummary,
        summarise,
    )
    from streamsim.recorded.times import recorded_times
    from streamsim.recorded.windows import NamedSpan, named_spans, part_of
    from streamsim.report.gantt import (
        plot_explanation,
        plot_gantt,
        plot_gantts,
        save_explanation,
        save_gantt,
        save_gantts,
    )
    from streamsim.report.heatmap import HeatMap, plot_heatmap, save_heatmap
    from streamsim.report.text import gantt
    from streamsim.report.trace import write_trace, write_traces
    from streamsim.search.best import Best, Flatness, Found, best
    from streamsim.search.best_offload import BestOffload, Placed, best_offload
    from streamsim.search.best_steps import BestSteps, TimedWay, Way, best_steps
    from streamsim.search.evaluate import evaluate
    from streamsim.search.grid import Grid
    from streamsim.search.sweep import Axis, Sweep
    from streamsim.search.sweep_output import Journal, write_sweep
    from streamsim.search.sweep_text import read_sweep, sweep
    from streamsim.text.quantities import parse_bandwidth, parse_bytes, parse_seconds
    from streamsim.timeline.critical_path import Step, critical_path
    from streamsim.timeline.timeline import Span, Timeline, recorded_timeline
    from streamsim.training.loop import Loop, LoopAdvice, LoopRow, loop_advice

    __version__: str

_HOME = {
    # The schedule language
    "Schedule": "program.schedule",  # operations in the order in which the host issues them
    "Copy": "program.schedule",  # host to device or back
    "Kernel": "program.schedule",  # a kernel launch
    "RecordEvent": "program.schedule",  # an event marks a place in a stream
    "WaitEvent": "program.schedule",  # a stream waits for an event
    "Synchronize": "program.schedule",  # the host waits
    "HostWork": "program.schedule",  # a thread of the host does something else
    "WaitThread": "program.schedule",  # a thread of the host waits for another
    "Buffer": "program.schedule",  # a named piece of host or device memory
    "Region": "program.schedule",  # a byte range of a buffer
    # The same, written with handles
    "Program": "program.builder",  # p.stream(), p.device("x", "64MiB"), p.schedule()
    "Stream": "program.builder",  # s.copy_in(x, h), s.kernel("0.57ms"), e = s.record(), s.wait(e)
    "Event": "program.builder",  # e.synchronize()
    "Memory": "program.builder",  # a buffer or, as x[0:1024], a part of it
    # Patterns: a workload cut into chunks
    "Workload": "program.workload",  # arrays in and out, and the kernels between
    "WorkloadKernel": "program.workload",  # a kernel over all of it, by its time or by its name in the profile
    "Point": "program.workload",  # a measured time of a part of a kernel
    "Part": "program.workload",  # what some chunks have of a workload
    "workload_of_sizes": "program.workload_text",  # a workload from sizes and times, as numbers or as text
    "parse_kernel": "program.workload_text",  # "0.57ms,9us@64Ki" to a WorkloadKernel
    "Layers": "program.layers",  # a model's layers, and how many passes over them
    "Layer": "program.layers",  # the bytes of its weights, and its kernels
    "LayerStep": "program.layers",  # one of those that a pass goes through
    "serial": "program.patterns",  # blocking copies, one chunk after another
    "one_stream": "program.patterns",  # asynchronous, in one stream
    "depth_first": "program.patterns",  # chunk by chunk over several streams
    "breadth_first": "program.patterns",  # stage by stage over several streams
    "ring": "program.patterns",  # k device buffers used in turn (double buffering)
    "prefetch": "program.patterns",  # copy the next batch beside the kernels of this one
    "offload": "program.offload",  # a model's layers streamed to the card, but for those that stay there
    "Offload": "program.offload",  # how deep, and which stay
    "serialized": "program.patterns",  # any schedule without its overlap
    "build": "program.patterns",  # a pattern by name
    # Programs
    "code_of": "code.programs",  # a workload cut and issued so, as a program in CuPy, PyTorch or CUDA C++
    "code_of_schedule": "code.programs",  # a schedule as a program, call by call
    "code_of_steps": "code.programs",  # the loop of a program whose steps repeat
    "code_of_layers": "code.layers",  # layers streamed to the card, as a program in PyTorch
    # Devices
    "Device": "device.profile",  # a card, its link and its host
    "LinkDirection": "device.profile",  # a direction of its link
    "CopyEngines": "device.profile",  # what copies
    "Compute": "device.profile",  # what runs kernels
    "KernelCost": "device.kernel_costs",  # how long a kernel of a name takes
    "KernelUse": "device.profile",  # what a kernel takes of the card
    "HandOver": "device.profile",  # what it costs to go on on another engine
    "Host": "device.profile",  # what calls cost
    "device_names": "device.library",  # the shipped profiles
    "load_device": "device.library",  # a shipped profile or a file
    "changed": "device.variations",  # a device with other numbers
    "FrontEnd": "device.front_ends",  # what calls cost in programs in CuPy or PyTorch
    "Recorder": "device.recorders",  # what a profiler takes of the host's time
    "link_words": "device.assumptions",  # what link a device has, and how well that is known
    # The model and what it says
    "simulate": "model",  # schedule and device to time line
    "predict": "analysis.predict",  # schedule and device to makespan, speed-up, bound and utilisation
    "Prediction": "analysis.predict",  # what predict gives
    "EngineUse": "analysis.predict",  # how busy an engine is
    "WithoutRing": "analysis.predict",  # what a ring of buffers is compared with
    "Timeline": "timeline.timeline",  # when every op was issued, became ready, started, ended
    "Span": "timeline.timeline",  # one op of a time line
    "critical_path": "timeline.critical_path",  # the chain of ops that sets the makespan
    "Step": "timeline.critical_path",  # one op of it, and what it waited for
    "Bound": "analysis.bounds",  # a lower bound and what sets it
    "lower_bound": "analysis.bounds",  # the bound as issued: no run of this schedule can be faster
    "timed_alone": "analysis.event_pairs",  # a workload's kernels less what a pair of events adds to their times
    "work_bound": "analysis.work_bound",  # the bound of the work: no way to cut and issue it can be faster
    "published": "analysis.formulas",  # the published formulas
    "check": "analysis.races",  # races, and events and waits that do nothing
    "Finding": "analysis.races",  # what it finds
    "Hazard": "analysis.races",  # the bytes of a race
    "MissingWait": "analysis.races",  # the wait that it lacks
    "repaired": "analysis.races",  # a schedule with the waits that its races lack
    # The best schedule, and many of them
    "Config": "program.config",  # how to cut and issue a workload
    "Grid": "search.grid",  # all ways to combine some of them
    "evaluate": "search.evaluate",  # configs to makespans, compiled where numba is installed
    "best": "search.best",  # exactly the optimum of a grid
    "Best": "search.best",  # what best gives
    "Found": "search.best",  # a configuration and its time
    "Flatness": "search.best",  # how much it matters to hit the optimum
    "best_offload": "search.best_offload",  # which layers stay on the card, and how deep the others are prefetched
    "BestOffload": "search.best_offload",  # what best_offload gives
    "Placed": "search.best_offload",  # a way to place layers and what it takes
    "Sweep": "search.sweep",  # what sweep gives: iterate over it for its rows
    "Axis": "search.sweep",  # a name and its values
    "sweep": "search.sweep_text",  # every combination of ranges such as "1..64*2", predicted
    "read_sweep": "search.sweep_text",  # such a sweep from a TOML file
    "write_sweep": "search.sweep_output",  # to CSV, JSON lines or Parquet, resumable
    "Journal": "search.sweep_output",  # how far that has come
    "HeatMap": "report.heatmap",  # the rows of a sweep by two columns
    "plot_heatmap": "report.heatmap",  # drawn into Axes
    "save_heatmap": "report.heatmap",  # as a picture
    # Why
    "explain": "analysis.explain",  # the time above the lower bound, split over its causes
    "Explanation": "analysis.explanation",  # what explain gives
    "Source": "analysis.remedies",  # the workload and configuration that a schedule was made from, for explain
    "LayersSource": "analysis.remedies",  # the layers and how they are run that a schedule was made from, likewise
    "Together": "analysis.causes",  # changes that gain more together than any single one
    "Assuming": "analysis.causes",  # a remedy that is right only if something holds that the schedule does not show
    "Loss": "analysis.causes",  # a cause, what it has lost, and its remedy
    "Scenario": "analysis.counterfactual",  # a schedule and a device with the remedy done
    # How sure
    "interval": "analysis.intervals",  # where the makespan lies with a probability of 90 %
    "Interval": "analysis.intervals",  # what interval gives
    # Recorded programs
    "read_recording": "recorded.read",  # what PyTorch's profiler, Nsight Systems or a capture recorded
    "Recording": "recorded.recording",  # a recorded program, whatever the format: columns of
    "HostCalls": "recorded.recording",  # its calls,
    "CardWork": "recorded.recording",  # what its cards did,
    "Annotations": "recorded.recording",  # and its named spans of time
    "CallKind": "recorded.recording",  # what a call does
    "WorkKind": "recorded.recording",  # a copy, a kernel, a memset, a graph
    "CopyDirection": "recorded.recording",  # where a copy goes
    "CopyMemory": "recorded.recording",  # pinned or pageable
    "AnnotationKind": "recorded.recording",  # who named a span of time
    "RecordedThread": "recorded.recording",  # of the host
    "RecordedStream": "recorded.recording",  # and whether it is blocking
    "RecordedCard": "recorded.recording",  # as far as the recording says
    "Unread": "recorded.recording",  # what of it could not be understood
    "part_of": "recorded.windows",  # of a recording: a card, a process, a window
    "named_spans": "recorded.windows",  # what windows there are
    "NamedSpan": "recorded.windows",  # one of them
    "summarise": "recorded.summary",  # what a recorded program did when, and why its card stood still
    "RecordingSummary": "recorded.summary",  # what summarise gives
    "RecordedAmount": "recorded.summary",  # how much of something there is
    "RecordedCardUse": "recorded.summary",  # what a card did
    "RecordedEngine": "recorded.summary",  # how busy one of its engines was
    "RecordedReason": "recorded.summary",  # why something stood still
    "RecordedCalls": "recorded.summary",  # the host's calls of one name
    "program_of": "recorded.program",  # the program that a recording is of, as a schedule
    "RecordedProgram": "recorded.program",  # what program_of gives
    "HostCosts": "recorded.recording_costs",  # what recording cost
    "profile_of": "recorded.card_profile",  # the profile of a recording's card
    "replay": "recorded.replay",  # a recorded program, predicted beside what was recorded
    "untraced": "recorded.replay",  # the program without what recording cost
    "without_recording": "recorded.replay",  # the same, with how long it takes and how that is known
    "Unrecorded": "recorded.replay",  # what without_recording gives
    "Replay": "recorded.replay",  # what replay gives
    "EngineReplay": "recorded.replay",  # an engine's time, recorded and predicted
    "Misplaced": "recorded.replay",  # an op whose start is predicted worst
    "RecordedTimes": "program.recorded_times",  # when the ops of a schedule were recorded to run
    "recorded_times": "recorded.times",  # of a recorded program
    "recorded_timeline": "timeline.timeline",  # the same as a time line, to draw
    "diagnose": "diagnosis.diagnose",  # which usual mistakes make a program take its measured time
    "Measured": "diagnosis.diagnose",  # a measured time
    "Diagnosis": "diagnosis.diagnose",  # what explains it
    "Explains": "diagnosis.diagnose",  # one explanation
    "Range": "diagnosis.diagnose",  # least and most seconds
    "Next": "diagnosis.diagnose",  # a second measurement that tells explanations apart
    "loop_advice": "training.loop",  # what changes of a training loop bring
    "Loop": "training.loop",  # a training loop
    "LoopAdvice": "training.loop",  # what loop_advice gives
    "LoopRow": "training.loop",  # a loop and what it takes
    "what_if": "analysis.what_if",  # what changes of a program bring, each alone and together
    "WhatIf": "analysis.what_if",  # what what_if gives
    "Outcome": "analysis.what_if",  # of one change, or of all
    "Change": "analysis.what_if",  # pin(), make_async(), streams(4, assumed=True) of that module
    "best_steps": "search.best_steps",  # of a program whose steps repeat: pieces, streams, steps copied ahead
    "BestSteps": "search.best_steps",  # what best_steps gives
    "Way": "search.best_steps",  # how to issue the steps
    "TimedWay": "search.best_steps",  # and what that takes
    # Pictures and files
    "gantt": "report.text",  # a time line as text
    "plot_gantt": "report.gantt",  # a time line drawn into Axes
    "save_gantt": "report.gantt",  # as a picture
    "plot_explanation": "report.gantt",  # the same with the critical path and the lost time by cause
    "save_explanation": "report.gantt",  # as a picture
    "plot_gantts": "report.gantt",  # several time lines, one above the other
    "save_gantts": "report.gantt",  # as a picture
    "write_trace": "report.trace",  # a time line for Perfetto
    "write_traces": "report.trace",  # several, a process each
    "read_schedule": "program.files",  # from JSON
    "write_schedule": "program.files",  # to JSON
    "read_workload": "program.files",  # from TOML
    "write_workload": "program.files",  # to TOML
    "read_layers": "program.layer_files",  # from TOML or CSV
    "write_layers": "program.layer_files",  # to TOML
    "read_device": "device.files",  # from TOML
    "write_device": "device.files",  # to TOML
    "parse_bytes": "text.quantities",  # "64MiB" to 67108864
    "parse_seconds": "text.quantities",  # "0.57ms" to 0.00057
    "parse_bandwidth": "text.quantities",  # "25GB/s" to 25e9
    "InputError": "errors",  # what bad input raises
}

__all__ = [
    "AnnotationKind",
    "Annotations",
    "Assuming",
    "Axis",
    "Best",
    "BestOffload",
    "BestSteps",
    "Bound",
    "Buffer",
    "CallKind",
    "CardWork",
    "Change",
    "Compute",
    "Config",
    "Copy",
    "CopyDirection",
    "CopyEngines",
    "CopyMemory",
    "Device",
    "Diagnosis",
    "EngineReplay",
    "EngineUse",
    "Event",
    "Explains",
    "Explanation",
    "Finding",
    "Flatness",
    "Found",
    "FrontEnd",
    "Grid",
    "HandOver",
    "Hazard",
    "HeatMap",
    "Host",
    "HostCalls",
    "HostCosts",
    "HostWork",
    "InputError",
    "Interval",
    "Journal",
    "Kernel",
    "KernelCost",
    "KernelUse",
    "Layer",
    "LayerStep",
    "Layers",
    "LayersSource",
    "LinkDirection",
    "Loop",
    "LoopAdvice",
    "LoopRow",
    "Loss",
    "Measured",
    "Memory",
    "Misplaced",
    "MissingWait",
    "NamedSpan",
    "Next",
    "Offload",
    "Outcome",
    "Part",
    "Placed",
    "Point",
    "Prediction",
    "Program",
    "Range",
    "RecordEvent",
    "RecordedAmount",
    "RecordedCalls",
    "RecordedCard",
    "RecordedCardUse",
    "RecordedEngine",
    "RecordedProgram",
    "RecordedReason",
    "RecordedStream",
    "RecordedThread",
    "RecordedTimes",
    "Recorder",
    "Recording",
    "RecordingSummary",
    "Region",
    "Replay",
    "Scenario",
    "Schedule",
    "Source",
    "Span",
    "Step",
    "Stream",
    "Sweep",
    "Synchronize",
    "TimedWay",
    "Timeline",
    "Together",
    "Unread",
    "Unrecorded",
    "WaitEvent",
    "WaitThread",
    "Way",
    "WhatIf",
    "WithoutRing",
    "WorkKind",
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
    "code_of_layers",
    "code_of_schedule",
    "code_of_steps",
    "critical_path",
    "depth_first",
    "device_names",
    "diagnose",
    "evaluate",
    "explain",
    "gantt",
    "interval",
    "link_words",
    "load_device",
    "loop_advice",
    "lower_bound",
    "named_spans",
    "offload",
    "one_stream",
    "parse_bandwidth",
    "parse_bytes",
    "parse_kernel",
    "parse_seconds",
    "part_of",
    "plot_explanation",
    "plot_gantt",
    "plot_gantts",
    "plot_heatmap",
    "predict",
    "prefetch",
    "profile_of",
    "program_of",
    "published",
    "read_device",
    "read_layers",
    "read_recording",
    "read_schedule",
    "read_sweep",
    "read_workload",
    "recorded_timeline",
    "recorded_times",
    "repaired",
    "replay",
    "ring",
    "save_explanation",
    "save_gantt",
    "save_gantts",
    "save_heatmap",
    "serial",
    "serialized",
    "simulate",
    "summarise",
    "sweep",
    "timed_alone",
    "untraced",
    "what_if",
    "without_recording",
    "work_bound",
    "workload_of_sizes",
    "write_device",
    "write_layers",
    "write_schedule",
    "write_sweep",
    "write_trace",
    "write_traces",
    "write_workload",
]


def _lookup(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("streamsim")
    elif name in _HOME:
        value = getattr(import_module(f"streamsim.{_HOME[name]}"), name)
        if isinstance(value, FunctionType):
            from streamsim.arguments import checked

            value = checked(value, _lookup)
    else:
        raise AttributeError(f"module 'streamsim' has no attribute {name!r}")
    globals()[name] = value  # found at once the next time
    return value


if not TYPE_CHECKING:  # type checkers know the names above, and should complain about any other
    __getattr__ = _lookup


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
