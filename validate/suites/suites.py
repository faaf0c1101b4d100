"""The suites by their names: which schedules are measured to see how good the model is.

Kernels are named and carry no duration: a prediction takes their time from the device profile. ``quick`` and
``standard``: :mod:`streamsim_validate.suites.fixed_suites`. The schedules of ``random`` are drawn:
:mod:`streamsim_validate.suites.random_suite`.
"""

from collections.abc import Iterable

from streamsim.errors import InputError
from streamsim_validate.records import Recipe, workload_key
from streamsim_validate.suites.fixed_suites import FIXED, queue_probes
from streamsim_validate.suites.random_suite import random_recipes

CONNECTIONS = (8, 1, 32)
QUEUE_PROBES = (1, 32)  # the connections other than the default, measured on a part of the suite
RANDOM, RANDOM_COUNT = "random", 200
SUITES = (*FIXED, RANDOM)  # of schedules; the programs of :mod:`~streamsim_validate.suites.program_suite` are no such


def suite(name: str, connections: int = CONNECTIONS[0], seed: int = 0, count: int = RANDOM_COUNT) -> list[Recipe]:
    """Return the recipes of a suite for a process with this number of connections, grouped by workload.

    ``seed`` and ``count`` are those of ``random``. Raises InputError if there is no such suite.
    """
    if name not in SUITES:
        raise InputError(f"suite = {name!r}: expected one of {', '.join(SUITES)}")
    if name == RANDOM:
        found: Iterable[Recipe] = random_recipes(seed, count)
    else:
        found = queue_probes() if name == "standard" and connections in QUEUE_PROBES else FIXED[name]()
    recipes = {recipe.key: recipe for recipe in found}
    return sorted(recipes.values(), key=lambda recipe: (recipe.workload.elements, workload_key(recipe.workload)))


def suite_connections(name: str) -> tuple[int, ...]:
    """Return the numbers of connections a suite is measured with, a process for each."""
    return CONNECTIONS if name == "standard" else CONNECTIONS[:1]
