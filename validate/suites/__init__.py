"""The suites: schedules that are measured to see how good the model is. Needs a card only to run."""

from streamsim_validate.suites.fixed_suites import GRID
from streamsim_validate.suites.program_suite import PROGRAM_COUNT, drawn_programs
from streamsim_validate.suites.suites import CONNECTIONS, RANDOM, RANDOM_COUNT, SUITES, suite, suite_connections
from streamsim_validate.suites.workloads import EVEN, HEAVY, LIGHT, MI, SMALL, sincos
