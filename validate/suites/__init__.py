"""The suites: schedules that are measured to see how good the model is. Needs a card only to run."""

from streamsim_validate.suites.fixed_suites import GRID
from streamsim_validate.suites.program_suite import PROGRAM_COUNT, Drawn, drawn_programs
from streamsim_validate.suites.suites import CONNECTIONS, RANDOM, RANDOM_COUNT, SUITES, suite, suite_connections
from streamsim_validate.suites.workloads import EVEN, HEAVY, KI, LIGHT, MI, SMALL, sincos

__all__ = [
    "CONNECTIONS",
    "EVEN",
    "GRID",
    "HEAVY",
    "KI",
    "LIGHT",
    "MI",
    "PROGRAM_COUNT",
    "RANDOM",
    "RANDOM_COUNT",
    "SMALL",
    "SUITES",
    "Drawn",
    "drawn_programs",
    "sincos",
    "suite",
    "suite_connections",
]
