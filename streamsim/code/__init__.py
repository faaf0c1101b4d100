"""Programs written from schedules: CuPy, PyTorch and CUDA C++, as a person would write them.

A plan describes a program without a language (:mod:`~streamsim.code.plans`). For a workload,
:mod:`~streamsim.code.loops` plans the loop of its pattern. For any other schedule, :mod:`~streamsim.code.written_out`
plans its ops one by one. A writer for each family of languages writes the plan: :mod:`~streamsim.code.python` and
:mod:`~streamsim.code.cuda`. :mod:`~streamsim.code.programs` is the door. :mod:`~streamsim.code.layers` writes the
program of a model's streamed layers.
"""

from streamsim.code.layers import code_of_layers
from streamsim.code.plans import FLOAT_BYTES, FRONT_END_OF, LANGUAGES, VERIFIED, Language, language_of
from streamsim.code.programs import code_of, code_of_schedule, code_of_steps
from streamsim.code.training import training_program
