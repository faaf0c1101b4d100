"""Advice: what to change in a program, and what each change brings.

``advise`` is the one engine. It makes the changes of :mod:`streamsim.transform` that ``rows`` names, simulates each
alone and several together, and says which to make first. ``explain`` adds what each cause of lost time loses. With
``what_if`` a user says which changes are made. ``search.best_program`` lets the engine go on with more values.
"""

from streamsim.advice.engine import WORTH, Advice, Trial, WhatIf, advise, loop_advice, what_if
from streamsim.advice.explanation import Explanation, Loss, explain
from streamsim.advice.rows import Values
