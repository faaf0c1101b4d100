"""Searches for the best candidate, and sweeps over configurations.

``best_first`` is the search of all candidates:

- configurations of a grid (``best``): ``grid`` lists them, ``pruning_bounds`` bounds their makespan from below,
  ``coarse_to_fine`` searches within a budget;
- placements of layers (``best_offload``);
- changes of a program (``best_steps``).

``sweep`` predicts every combination of some axes. Axes are given as text, and rows are written to files.
"""
