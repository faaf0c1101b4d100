"""Calibration: isolated micro-benchmarks, their measurement, and the profile that is fitted to them.

``probes`` has every probe, ``samples`` measures and keeps them, and ``fits`` puts the profile together. ``front_ends``
does all of this for libraries.
"""

from streamsim_validate.calibrate.front_ends import TURNS, measure_front_ends, time_round
from streamsim_validate.calibrate.probes import all_probes, host_calls
from streamsim_validate.calibrate.samples import Samples, measure_probes, read_samples, write_samples
