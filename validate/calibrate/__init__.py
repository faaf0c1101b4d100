"""Calibration: isolated micro-benchmarks, their measurement, and the profile that is fitted to them.

A file for each part of a profile holds its probes, their fit and its spread: ``copies``, ``shared_link``, ``kernels``,
``hand_overs``, ``host_probes``, ``queues``, and for libraries and profilers ``front_ends`` and ``recorders``.
``all_probes`` has all probes, ``measurement`` measures them, ``samples`` keeps the measured times, and ``fits`` puts
the profile together.
"""

from streamsim_validate.calibrate.front_ends import (
    ALONE_KINDS,
    KINDS,
    TURNS,
    Rounds,
    kinds_of,
    measure_front_ends,
    pooled,
    time_round,
    variation,
)
from streamsim_validate.calibrate.host_probes import host_calls
from streamsim_validate.calibrate.measurement import measure_probes
from streamsim_validate.calibrate.recorders import measure_recorders
from streamsim_validate.calibrate.samples import PlainSamples, Samples, read_samples, write_samples
