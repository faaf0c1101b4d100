"""The best of many configurations, and sweeps over them.

``grid`` lists configurations, ``pruning_bounds`` says which cannot win, ``shortest`` searches the rest, ``best`` says
what to make of it; ``sweep`` predicts every combination of some axes, given as text and written to files.
"""
