"""Searches for the best candidate, and sweeps over configurations.

``searches`` simulates candidates within a budget:

- configurations of a ``grid``, which ``best`` searches, and changes of a program;
- placements of layers (``best_offload``).

``sweep`` predicts every combination of some axes. Axes are given as text, and rows are written to files.
"""

from streamsim.search.best import GridSearch, best, best_program
from streamsim.search.best_offload import MOST_LEAN, LayerCosts, best_offload
from streamsim.search.grid import SLOW, Grid, evaluate, evaluate_ticks, is_fast, simulation_costs
from streamsim.search.searches import BUDGET_OPS, Best, SimulatedProgram
from streamsim.search.sweep import (
    CONFIG,
    FORMATS,
    RESULTS,
    WITHIN,
    Axis,
    Sweep,
    Swept,
    encoded,
    format_of,
    header,
    read_asked,
    read_rows,
    sweep,
    sweep_blocks,
    sweep_of,
    write_sweep,
)
from streamsim.search.tuning import Proposals, candidates, default_grid, proposals
