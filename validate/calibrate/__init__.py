"""Calibration: isolated micro-benchmarks, their measurement, and the profile that is fitted to them.

A file for each part of a profile holds its probes, their fit and its spread: ``links``, ``engines``, ``host_calls``,
and for libraries and profilers ``front_ends``. ``samples`` keeps the measured times, and ``fits`` measures all probes
and puts the profile together.
"""

from streamsim_validate.calibrate.fits import measure_probes
from streamsim_validate.calibrate.front_ends import TURNS, measure_front_ends, measure_recorders, time_round, variation
from streamsim_validate.calibrate.host_calls import host_calls
from streamsim_validate.calibrate.samples import PlainSamples, Samples, read_samples, write_samples
