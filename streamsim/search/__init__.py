"""Searches for the best candidate, and sweeps over configurations.

``best_first`` is the search of all candidates:

- configurations of a grid (``best``): ``grid`` lists them, ``pruning_bounds`` bounds their makespan from below,
  ``coarse_to_fine`` searches within a budget;
- placements of layers (``best_offload``);
- changes of a program (``best_steps``).

``sweep`` predicts every combination of some axes. Axes are given as text, and rows are written to files.
"""

from streamsim.search.best import best
from streamsim.search.best_first import BUDGET_OPS
from streamsim.search.best_offload import MOST_DEPTH, MOST_LEAN, best_offload
from streamsim.search.best_steps import Way, best_steps
from streamsim.search.coarse_to_fine import BLOCKS, CONFIG_OPS, MARGINS_PERCENT, Searched, cost_ops, search
from streamsim.search.evaluate import SLOW, evaluate, evaluate_ticks, is_fast
from streamsim.search.grid import Grid
from streamsim.search.offload_bounds import LayerCosts, Room, floor_ticks
from streamsim.search.pruning_bounds import LowerBounds
from streamsim.search.result import FASTER, Best, Flatness, SimulatedProgram
from streamsim.search.sweep import CONFIG, RESULTS, WITHIN, Axis, Combinations, Sweep, scaled, sweep_blocks
from streamsim.search.sweep_output import FORMATS, Tally, encoded, format_of, header, read_rows, write_sweep
from streamsim.search.sweep_text import ARRAYS, ONCE, read_asked, sweep, sweep_of
from streamsim.search.together import changes, together
from streamsim.search.tuning import Proposals, candidates, default_grid, proposals
