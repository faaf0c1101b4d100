"""The door: a program in a language, from a workload and how to cut and issue it, or from a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.checks import check_choice
from streamsim.code.cuda import Cuda
from streamsim.code.loops import plan_of
from streamsim.code.python_libraries import CuPy, PyTorch
from streamsim.code.steps import LANGUAGES, Language
from streamsim.code.written_out import plan_of_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamsim.code.steps import Plan
    from streamsim.program.config import Config
    from streamsim.program.schedule import Schedule
    from streamsim.program.workload import Workload

_WRITERS: dict[Language, Callable[[Plan], Cuda | CuPy | PyTorch]] = {"cupy": CuPy, "pytorch": PyTorch, "cuda-c++": Cuda}


def code_of(workload: Workload, config: Config, language: Language, prefetch: bool = False) -> str:
    """The source of a program that runs ``workload`` cut and issued so, in the loop of its pattern.

    ``prefetch``: a batch is copied in beside the kernels of the one before it, as
    :func:`streamsim.program.patterns.prefetch` issues it, with the chunks, buffers, memory and launch of ``config``.
    The program takes other numbers of chunks, streams and buffers as arguments and prints its wall times as JSON.
    Raises InputError for a workload or a configuration that the language cannot say.
    """
    return _written(plan_of(workload, config, prefetch), language)


def code_of_schedule(schedule: Schedule, language: Language) -> str:
    """The source of a program that makes the calls of ``schedule`` one by one. Raises InputError."""
    return _written(plan_of_schedule(schedule), language)


def _written(plan: Plan, language: Language) -> str:
    check_choice("language", language, LANGUAGES)
    return _WRITERS[language](plan).text()
