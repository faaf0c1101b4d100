"""The rules of the card and its host, each once, as a function of whole numbers.

A rule knows neither schedules nor device profiles; what it has to remember is in a record that it is given.
:mod:`streamsim.lowering` reads those two and makes whole numbers of them: which op waits for which, and what each takes
alone. What then happens is a rule: who is served next, how copies and kernels share, how much longer a call or a
hand-over takes by what came before.

Both models call the rules: the one on SimPy as they stand, the compiled one with their code put in its place by numba.
So they are written in what numba knows: arithmetic, comparisons, loops, and tables that are read by their index.
"""
