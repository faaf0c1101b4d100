"""The best of many candidates, and sweeps over configurations.

``best_first`` is the search: over a grid (``best``: ``grid`` lists configurations, ``pruning_bounds`` bounds them,
``coarse_to_fine`` searches within a budget), over placements of layers (``best_offload``), over changes of a program
(``best_steps``). ``sweep`` predicts every combination of some axes, given as text and written to files.
"""
