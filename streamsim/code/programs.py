"""The door: programs in a language, from a workload with a configuration, or from a schedule."""

from streamsim import transform
from streamsim.checks import check_choice
from streamsim.code.cuda import Cuda
from streamsim.code.loops import plan_of
from streamsim.code.plans import LANGUAGES, CodePlan, Language
from streamsim.code.python import CuPy, PyTorch
from streamsim.code.writer import Writer
from streamsim.code.written_out import plan_of_schedule
from streamsim.errors import InputError
from streamsim.program import Config, Schedule, Workload

_WRITERS: dict[Language, type[Writer]] = {"cupy": CuPy, "pytorch": PyTorch, "cuda-c++": Cuda}


def code_of(workload: Workload, config: Config, language: Language) -> str:
    """Return the source of a program that runs ``workload``, cut and issued as ``config`` says, in a loop.

    The program takes other numbers of chunks, streams and buffers as arguments, and prints its wall times as JSON.
    Raises InputError for a workload or a configuration that the language cannot express.
    """
    return _written(plan_of(workload.in_chunks(config.chunks), config), language)


def code_of_schedule(schedule: Schedule, language: Language) -> str:
    """Return the source of a program that makes the calls of ``schedule`` one by one. Raises InputError if none can."""
    return _written(plan_of_schedule(schedule), language)


def code_of_steps(schedule: Schedule, language: Language, depth: int = 0) -> str:
    """Return the source of a loop that makes the calls of a ``schedule`` with equal steps, each step as a chunk.

    ``depth``: the number of next steps whose copies to the card run beside a step's work. Raises InputError with the
    reason if there is no such loop.
    """
    try:
        workload, config = transform.repeated_step(schedule)
    except InputError as error:
        raise InputError(f"no pipeline can be written: {error}") from None
    if not depth:
        return code_of(workload, config, language)
    if config.streams > 1:
        raise InputError(
            f"--prefetch {depth}: a pipeline prefetches, or has its steps in {config.streams} streams; leave one out"
        )
    prefetch = Config("prefetch", config.chunks, 1, depth + 1, config.memory, config.launch)
    return code_of(workload, prefetch, language)


def _written(plan: CodePlan, language: Language) -> str:
    check_choice("language", language, LANGUAGES)
    return _WRITERS[language](plan).text()
