"""Campaigns: many schedules measured, interleaved and verified, into a record.

A process for each number of hardware queues (``python -m streamsim_validate.run``), started by :func:`run`.
"""

from streamsim_validate.run.campaign import REPEATS, Plan, run

__all__ = ["REPEATS", "Plan", "run"]
