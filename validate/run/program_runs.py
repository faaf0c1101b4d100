"""The suite ``programs``, measured: each program by itself, and beside it its kernels alone and the speed of the host.

Every language's programs run in turns, so that a host that changes its speed changes it for all of them alike.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from streamsim.code.steps import LANGUAGES, Language
from streamsim.errors import InputError
from streamsim.text.shown import one_line
from streamsim_validate.calibrate import pooled
from streamsim_validate.gpu import LostGpuError, installed_libraries
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import CHUNK_ROUND, STAND_IN, Entry, Program, Recipe, config_of, key_of, to_times
from streamsim_validate.run.beside import Beside, BesideCuda, BesideLibrary, Link
from streamsim_validate.run.planned import Planned
from streamsim_validate.run.programs import CUDA, INSTALL, MODULES, check_language, run_on
from streamsim_validate.suites import drawn_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamsim_validate.gpu import Gpu
    from streamsim_validate.records import Run
    from streamsim_validate.run.programs import Result

LOST, SKIPPED = "lost", "skipped"
OTHERS = 2  # kinds of rounds beside each program, in turn, of which its front end is calibrated with the others


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
    with closing(_Measured(gpu, card, repeats)) as measured:
        measured.prepare(items, on_step)
        for i, item in enumerate(items):
            on_step("measuring programs", i, len(items))
            try:
                on_entry(measured.entry(item))
            except LostGpuError as error:
                on_entry(item.left(f"{LOST}: {error}"))
                raise
            except InputError as error:
                on_entry(item.left(f"failed: {error}"))


class _Measured:
    """Measures programs."""

    def __init__(self, gpu: Gpu, card: int, repeats: int) -> None:
        self._gpu, self._card, self._repeats = gpu, card, repeats
        self._link = Link(gpu)
        self._besides: dict[Language, Beside | str] = {}
        self._number: Counter[str] = Counter()  # of programs, by language

    def prepare(self, items: Sequence[WrittenProgram], on_step: OnStep) -> None:
        """Do all that needs no quiet host."""
        for language in dict.fromkeys(item.language for item in items):
            self._besides[language] = beside = _beside(language, self._link, self._card)
            if not isinstance(beside, str):
                recipes = [_recipe(item) for item in items if item.language == language]
                beside.prepare([(recipe.workload, config_of(recipe)) for recipe in recipes], on_step)

    def entry(self, item: WrittenProgram) -> Entry:
        """What came of a program. Raises InputError."""
        beside = self._besides[item.language]
        if isinstance(beside, str):
            return item.left(f"{SKIPPED}: {beside}")
        result, program = run_on(self._gpu, item.key, lambda: self._measured(item, beside))
        return item.ran(walls=result.wall_s, issues=result.issue_s, paces=result.paces_s, program=program)

    def _measured(self, item: WrittenProgram, beside: Beside) -> tuple[Result, Program]:
        recipe = _recipe(item)
        workload, elements = recipe.workload, recipe.workload.elements or 1
        part = -(-elements // int(recipe.arguments["chunks"]))
        first = workload.kernels[0]
        work = first.parameter if first.name == STAND_IN else 1
        kernels_s, chunks_s = beside.kernels_s(workload, elements), beside.kernels_s(workload, part)
        kinds = CHUNK_ROUND, *self._others(item.language, beside)
        result, found = beside.run(workload, config_of(recipe), self._repeats, work, kinds)
        rounds_s, *others_s = (to_times(found[kind]) for kind in kinds)
        beside_it = to_times(kernels_s), to_times(chunks_s), rounds_s
        others = dict(zip(kinds[1:], others_s, strict=True))
        return result.checked(), Program(item.language, *beside_it, 1, others, result.pace, to_times(result.links_s))

    def _others(self, language: Language, beside: Beside) -> list[str]:
        """The other kinds of rounds whose turn it is: over the programs of a run all are made as often."""
        kinds = [kind for kind in beside.kinds if kind != CHUNK_ROUND]
        first = OTHERS * self._number[language]
        self._number[language] += 1
        return [kinds[(first + more) % len(kinds)] for more in range(OTHERS)]

    def close(self) -> None:
        """Leave nothing behind."""
        for beside in self._besides.values():
            if not isinstance(beside, str):
                beside.close()
        self._link.close()


def _beside(language: Language, link: Link, card: int) -> Beside | str:
    """What runs and times a language's programs, or the reason why there are none."""
    try:
        check_language(language, ())
        if language == CUDA:
            return BesideCuda(card)
        library = next((library for library in installed_libraries(card) if library.name == language), None)
        if library is None:
            return f"{language} is not installed, or sees no card; {INSTALL[language]}"
        return BesideLibrary(language, library, link.both_s, card)
    except InputError as error:
        return one_line(_without_option(error, language))


def _without_option(error: InputError, language: Language, instead: str = "") -> str:
    """What is wrong with a language, to somebody who gave no ``--as``."""
    return instead + str(error).removeprefix(f"--as {language}: ").replace("take --as cupy", "leave it out")


def _recipe(item: WrittenProgram) -> Recipe:
    assert item.recipe is not None
    return item.recipe


def to_fit(run: Run) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What its calibrations show, before and after; each front end by all rounds of the run, those beside programs too.

    A host may be disturbed for as long as a calibration takes, and seldom is for as long as a run does. Of a run that
    was cut short there is none after it.
    """
    beside = _rounds_beside(run)
    if run.samples is None or not beside:
        return run.samples, run.samples_after
    taken = [plain["front_ends"] for plain in (run.samples, run.samples_after) if plain is not None]
    known = {
        name: {**library, "rounds": pooled([*(each[name]["rounds"] for each in taken), beside.get(name, {})])}
        for name, library in taken[0].items()
        if all(name in each for each in taken)
    }
    after = run.samples_after and {**run.samples_after, "front_ends": known}
    return {**run.samples, "front_ends": known}, after


def _rounds_beside(run: Run) -> dict[str, dict[str, list[float]]]:
    """By language and kind the rounds that were made beside the programs of that language.

    Those of a chunk, which are made beside each, no more often than others: where a host has two speeds, a kind of
    round that had more of the slower one would look dear.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for language, programs in _with_others(run).items():
        kinds = found.setdefault(language, {})
        for program in programs:
            for kind, seconds in program.others_s.items():
                kinds.setdefault(kind, []).extend(seconds)
        most = max(1, *map(len, kinds.values()))
        every = max(1, sum(len(program.rounds_s) for program in programs) // most)
        kinds[CHUNK_ROUND] = [seconds for program in programs[::every] for seconds in program.rounds_s]
    return found


def _with_others(run: Run) -> dict[str, list[Program]]:
    found: dict[str, list[Program]] = {}
    for entry in run.entries:
        if entry.program is not None and entry.program.others_s:
            found.setdefault(entry.program.language, []).append(entry.program)
    return found
