"""Programs written from schedules: CuPy, PyTorch and CUDA C++, as a person would write them.

A plan describes a program without a language (:mod:`~streamsim.code.plans`). For a workload,
:mod:`~streamsim.code.loops` plans the loop of its pattern. For any other schedule, :mod:`~streamsim.code.written_out`
plans its ops one by one. Both issue steps, which each language writes in its own words
(:mod:`~streamsim.code.steps`). :mod:`~streamsim.code.templates` shows whole programs, with places for what a plan
decides; :mod:`~streamsim.code.writers` fills these places.
:mod:`~streamsim.code.training` writes the program of a training loop.
"""

from streamsim.code.plans import FLOAT_BYTES, FRONT_END_OF, LANGUAGES, VERIFIED, Language, language_of
from streamsim.code.training import training_program
from streamsim.code.writers import code_of, code_of_schedule, code_of_steps
