"""Each rule of the card once, as a function of whole numbers; what it has to remember is in a record that it is given.

Both models call these: the one on SimPy as they stand, the compiled one with their code put in its place by numba. So
they are written in what numba knows: arithmetic, comparisons, loops, and tables that are read by their index.
"""
