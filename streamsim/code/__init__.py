"""Schedules out as programs: CuPy, PyTorch and CUDA C++, as a person would write them.

What a program does stands once, in no language (:mod:`~streamsim.code.steps`): for a workload
:mod:`~streamsim.code.loops` writes the loop of its pattern, for a hand-made schedule
:mod:`~streamsim.code.written_out` its ops one by one. A writer for each family of languages says it in that language:
:mod:`~streamsim.code.python`, :mod:`~streamsim.code.cuda`. :mod:`~streamsim.code.programs` is the door.
:mod:`~streamsim.code.layers` writes the program of a model's streamed layers.
"""
