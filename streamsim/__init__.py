"""Predict how long a chunked GPU pipeline takes, and whether streams pay, with no GPU at hand.

from streamsim import depth_first, predict, workload_of_sizes

workload = workload_of_sizes(h2d=["64MiB"], kernels=["0.57ms"], d2h=["64MiB"])
prediction = predict(depth_first(workload, chunks=16, streams=4), "h200")
print(prediction.makespan_s, prediction.speedup)

There is a function for each command: ``predict``, ``explain``, ``best``, ``sweep``, ``what_if``, ``loop_advice``,
``check``, ``code_of``, and ``diagnose`` for ``explain --measured``. Other parts are imported from their rooms, such as
``streamsim.report`` for pictures and ``streamsim.program`` for the ops of a schedule.
"""

from importlib.metadata import version

from streamsim.advice import Explanation, explain, loop_advice, what_if
from streamsim.analysis import Prediction, predict
from streamsim.answer import Answer, answer_of
from streamsim.code import code_of
from streamsim.device import Device, device_names, load_device
from streamsim.diagnosis import Measured, diagnose
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import (
    Config,
    Layer,
    Layers,
    Loop,
    Offload,
    Program,
    Schedule,
    Workload,
    WorkloadKernel,
    breadth_first,
    build,
    depth_first,
    prefetch,
    read_layers,
    read_schedule,
    read_workload,
    ring,
    serial,
    workload_of_sizes,
    write_schedule,
)
from streamsim.races import check
from streamsim.recorded import Recording, read_recording
from streamsim.search import Best, Grid, Sweep, best, sweep
from streamsim.timeline import Timeline
from streamsim.transform import Change

__version__ = version("streamsim")
__all__ = ["Answer", "Best", "Explanation", "Measured", "Prediction", "Timeline", "answer_of", "simulate"]
__all__ += ["best", "check", "code_of", "diagnose", "explain", "loop_advice", "predict", "sweep", "what_if"]
__all__ += ["Change", "Config", "Grid", "Layer", "Layers", "Loop", "Offload", "Program", "Recording", "Schedule"]
__all__ += ["Sweep", "Workload", "WorkloadKernel", "read_workload", "workload_of_sizes"]
__all__ += ["breadth_first", "build", "depth_first", "prefetch", "ring", "serial"]
__all__ += ["read_layers", "read_recording", "read_schedule", "write_schedule"]
__all__ += ["Device", "InputError", "__version__", "device_names", "load_device"]
