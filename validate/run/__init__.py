"""Campaigns: many schedules measured, interleaved and verified, into a record; and tuning, the few worth it.

A campaign has a process for each number of hardware queues (``python -m streamsim_validate.run``), started by
:func:`run`. :func:`tune` measures in the process that calls it. :func:`capture` records somebody's program.
"""

from streamsim_validate.run.campaign import REPEATS, Plan, run
from streamsim_validate.run.capture import capture, parse_program
from streamsim_validate.run.measuring import Planned, Replays, measure
from streamsim_validate.run.programs import FUNCTION, check_language
from streamsim_validate.run.tuning import BUDGET, Task, Tuned, tune
