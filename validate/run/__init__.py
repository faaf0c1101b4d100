"""Campaigns: many schedules measured, interleaved and verified, into a record; and tuning, the few worth it.

A campaign has a process for each number of hardware queues (``python -m streamsim_validate.run``), started by
:func:`run`. :func:`tune` measures in the process that calls it. :func:`capture` records somebody's program.
"""

from streamsim_validate.run.campaign import REPEATS, Plan, run
from streamsim_validate.run.candidates import Kernels, Meter, Programs
from streamsim_validate.run.capture import Program, ProgramError, capture, parse_program
from streamsim_validate.run.runners import FUNCTION, Runner, check_language, runner_of
from streamsim_validate.run.tuned import Tried, Tuned
from streamsim_validate.run.tuning import BUDGET, Task, check_output, tune

__all__ = [
    "BUDGET",
    "FUNCTION",
    "REPEATS",
    "Kernels",
    "Meter",
    "Plan",
    "Program",
    "ProgramError",
    "Programs",
    "Runner",
    "Task",
    "Tried",
    "Tuned",
    "capture",
    "check_language",
    "check_output",
    "parse_program",
    "run",
    "runner_of",
    "tune",
]
