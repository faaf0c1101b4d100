"""The suite ``programs``, measured: each program by itself, and beside it its kernels alone and the speed of the host.

Every language's programs run in turns, so that a host that changes its speed changes it for all of them alike. One
beside which the host was slower than it has been is measured again, a few times at most.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING

from streamsim.code.steps import LANGUAGES, Language
from streamsim.errors import InputError
from streamsim.text.shown import one_line
from streamsim_validate.gpu import LostGpuError, installed_libraries
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import STAND_IN, Entry, Program, Recipe, config_of, key_of, to_times
from streamsim_validate.run.beside import Beside, BesideCuda, BesideLibrary, Quiet
from streamsim_validate.run.planned import Planned
from streamsim_validate.run.programs import CUDA, INSTALL, MODULES, check_language, run_on
from streamsim_validate.suites import drawn_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamsim_validate.gpu import Gpu

LOST, SKIPPED = "lost", "skipped"
TRIES = 5


class WrittenProgram(Planned, frozen=True):
    """A program to measure, in a language."""

    language: Language = CUDA

    def left(self, status: str) -> Entry:
        """It was not measured, and why."""
        return self.ran(status, program=Program(self.language))


def planned_programs(seed: int, count: int, languages: Sequence[Language] = ()) -> list[WrittenProgram]:
    """The programs of the suite, each in every language in turn. ``languages``: () for all."""
    return [
        WrittenProgram(key_of(language, recipe), recipe.schedule(), recipe, language=language)
        for drawn in drawn_programs(seed, count)
        for language in (languages or LANGUAGES)
        for recipe in [drawn.of(language)]
    ]


def check_installed(languages: Sequence[Language]) -> None:
    """Raise InputError where programs in one of these languages, which were asked for, cannot be run here."""
    for language in languages:
        try:
            check_language(language, ())
        except InputError as error:
            raise InputError(_without_option(error, language, f"--front-end {language}: ")) from None
        if language != CUDA and find_spec(MODULES[language]) is None:
            raise InputError(f"--front-end {language}: is not installed; {INSTALL[language]}, or leave it out")


def measure_programs(
    items: Sequence[WrittenProgram],
    gpu: Gpu,
    card: int,
    repeats: int,
    on_entry: Callable[[Entry], None],
    on_step: OnStep = quietly,
) -> None:
    """Measure each program so often; ``on_entry`` is called with what came of it.

    One that fails has the reason in its ``status``, and so have those of a language that is not here. ``card``: its
    number. Raises LostGpuError when a program has broken the card's context, and KeyboardInterrupt.
    """
    with ExitStack() as stack:
        besides: dict[Language, Beside | str] = {}
        quiet: defaultdict[Language, Quiet] = defaultdict(Quiet)
        for i, item in enumerate(items):
            on_step("measuring programs", i, len(items))
            if item.language not in besides:
                besides[item.language] = found = _beside(item.language, gpu, card)
                if not isinstance(found, str):
                    stack.callback(found.close)
            beside = besides[item.language]
            if isinstance(beside, str):
                on_entry(item.left(f"{SKIPPED}: {beside}"))
                continue
            try:
                on_entry(_measured(item, beside, quiet[item.language], gpu, repeats))
            except LostGpuError as error:
                on_entry(item.left(f"{LOST}: {error}"))
                raise
            except InputError as error:
                on_entry(item.left(f"failed: {error}"))


def _beside(language: Language, gpu: Gpu, card: int) -> Beside | str:
    """What runs and times a language's programs, or the reason why there are none."""
    try:
        check_language(language, ())
        if language == CUDA:
            return BesideCuda(gpu, card)
        library = next((library for library in installed_libraries(card) if library.name == language), None)
        if library is None:
            return f"{language} is not installed, or sees no card; {INSTALL[language]}"
        return BesideLibrary(language, library, card)
    except InputError as error:
        return one_line(_without_option(error, language))


def _without_option(error: InputError, language: Language, instead: str = "") -> str:
    """What is wrong with a language, to somebody who gave no ``--as``."""
    return instead + str(error).removeprefix(f"--as {language}: ").replace("take --as cupy", "leave it out")


def _measured(item: WrittenProgram, beside: Beside, quiet: Quiet, gpu: Gpu, repeats: int) -> Entry:
    recipe = _recipe(item)
    workload, elements = recipe.workload, recipe.workload.elements or 1
    part = -(-elements // int(recipe.arguments["chunks"]))
    config, runner = config_of(recipe), beside.runner(workload)
    first = workload.kernels[0]
    work = first.parameter if first.name == STAND_IN else 1

    def run_all() -> tuple[tuple[float, ...], Program]:
        kernels_s = beside.kernels_s(workload, elements)
        chunks_s = beside.kernels_s(workload, part)
        tries, disturbed = 0, True
        while disturbed and tries < TRIES:
            before_s = beside.round_s()
            result = runner.run(workload, config, repeats, work).checked()
            rounds_s = to_times((before_s, beside.round_s()))
            tries, disturbed = tries + 1, quiet.was_disturbed(rounds_s)
        beside_it = to_times(kernels_s), to_times(chunks_s), rounds_s
        return result.wall_s, Program(item.language, *beside_it, tries)

    wall_s, program = run_on(gpu, item.key, run_all)
    return item.ran(walls=wall_s, program=program)


def _recipe(item: WrittenProgram) -> Recipe:
    assert item.recipe is not None
    return item.recipe
