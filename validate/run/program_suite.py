"""The suite ``programs``: each program is measured by itself, with its kernels alone and the host's speed beside it.

The languages take turns, so that a host that changes its speed changes it for all languages alike.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import Any

from streamsim.code import LANGUAGES, Language
from streamsim.errors import InputError
from streamsim.text import one_line
from streamsim_validate.calibrate import pooled
from streamsim_validate.gpu import Gpu, LostGpuError, installed_libraries
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.records import CHUNK_ROUND, STAND_IN, Entry, Program, Run, key_of, to_times
from streamsim_validate.run.planned import CUDA, WrittenProgram
from streamsim_validate.run.probed_python import Link, ProbedPython
from streamsim_validate.run.replays import failure
from streamsim_validate.run.runners import INSTALL, MODULES, Cuda, Result, check_language, run_on
from streamsim_validate.suites import drawn_programs

ProbedRunner = ProbedPython | Cuda

OTHERS = 2  # kinds of rounds beside each program, in turn, by which its front end is calibrated too


def planned_programs(seed: int, count: int, languages: Sequence[Language] = ()) -> list[WrittenProgram]:
    """Return the programs of the suite, each in every language in turn. ``languages``: () for all."""
    return [
        WrittenProgram(key_of(language, recipe), recipe.schedule(), recipe, language=language)
        for drawn in drawn_programs(seed, count)
        for language in (languages or LANGUAGES)
        for recipe in [drawn.of(language)]
    ]


def check_installed(languages: Sequence[Language]) -> None:
    """Raise InputError if programs in one of these languages, which the user asked for, cannot be run here."""
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
    """Measure each program ``repeats`` times on the card of that number; ``on_entry`` is called with each result.

    If a program fails, or its language is not installed, the entry's ``status`` gives the reason. Raises LostGpuError
    if a program has broken the card's context, and KeyboardInterrupt.
    """
    with closing(_Suite(gpu, card, repeats)) as suite:
        suite.prepare(items, on_step)
        for i, item in enumerate(items):
            on_step("measuring programs", i, len(items))
            try:
                on_entry(suite.entry(item))
            except InputError as error:
                on_entry(_not_measured(item, failure(error)))
                if isinstance(error, LostGpuError):
                    raise


def _not_measured(item: WrittenProgram, status: str) -> Entry:
    return item.entry(status, program=Program(item.language))


class _Suite:
    """Measures programs of several languages."""

    def __init__(self, gpu: Gpu, card: int, repeats: int) -> None:
        self._gpu, self._card, self._repeats = gpu, card, repeats
        self._link = Link(gpu)
        self._runners: dict[Language, ProbedRunner | str] = {}
        self._number: Counter[str] = Counter()  # of programs, by language

    def prepare(self, items: Sequence[WrittenProgram], on_step: OnStep) -> None:
        """Do all that needs no quiet host."""
        for language in dict.fromkeys(item.language for item in items):
            self._runners[language] = runner = _runner_of(language, self._link, self._card)
            if isinstance(runner, Cuda):
                runner.prepare([(item.workload, item.config) for item in items if item.language == language], on_step)

    def entry(self, item: WrittenProgram) -> Entry:
        """Measure a program. Raises InputError."""
        runner = self._runners[item.language]
        if isinstance(runner, str):
            return _not_measured(item, f"skipped: {runner}")
        result, program = run_on(self._gpu, item.key, lambda: self._measured(item, runner))
        return item.entry(wall_s=result.wall_s, issue_s=result.issue_s, paces_s=result.paces_s, program=program)

    def _measured(self, item: WrittenProgram, runner: ProbedRunner) -> tuple[Result, Program]:
        workload, elements = item.workload, item.workload.elements or 1
        part = -(-elements // item.config.chunks)
        first = workload.kernels[0]
        work = first.parameter if first.name == STAND_IN else 1
        kernels_s, chunks_s = runner.kernels_s(workload, elements), runner.kernels_s(workload, part)
        kinds = CHUNK_ROUND, *self._others(item.language, runner)
        result, found = runner.run_probed(workload, item.config, self._repeats, work, kinds)
        rounds_s = {kind: to_times(found[kind]) for kind in kinds}
        program = Program(
            item.language,
            to_times(kernels_s),
            to_times(chunks_s),
            rounds_s.pop(CHUNK_ROUND),
            others_s=rounds_s,
            pace=result.pace,
            run_links_s=to_times(result.links_s),
        )
        return result.checked(), program

    def _others(self, language: Language, runner: ProbedRunner) -> list[str]:
        """Return the other kinds of rounds whose turn it is: over the programs of a run each is made as often."""
        kinds = [kind for kind in runner.kinds if kind != CHUNK_ROUND]
        first = OTHERS * self._number[language]
        self._number[language] += 1
        return [kinds[(first + more) % len(kinds)] for more in range(OTHERS)]

    def close(self) -> None:
        """Leave nothing behind."""
        for runner in self._runners.values():
            if isinstance(runner, Cuda):
                runner.close()
        self._link.close()


def _runner_of(language: Language, link: Link, card: int) -> ProbedRunner | str:
    """Return what runs and probes a language's programs, or the reason why nothing can."""
    try:
        check_language(language, ())
        if language == CUDA:
            return Cuda(card)
        library = next((library for library in installed_libraries(card) if library.name == language), None)
        if library is None:
            return f"{language} is not installed, or sees no card; {INSTALL[language]}"
        return ProbedPython(language, library, link.both_s, card)
    except InputError as error:
        return one_line(_without_option(error, language))


def _without_option(error: InputError, language: Language, instead: str = "") -> str:
    """Return what is wrong with a language, in words for somebody who did not give ``--as``."""
    return instead + str(error).removeprefix(f"--as {language}: ").replace("take --as cupy", "leave it out")


def to_fit(run: Run) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the samples of the calibrations before and after a run, each front end with all rounds of the run.

    A host may be disturbed for as long as a calibration takes, and seldom is for as long as a run does. So the rounds
    beside programs count, too. The second is None for a run that was cut short.
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
    """Return by language and kind the seconds of the rounds that were made beside that language's programs.

    A chunk's rounds are made beside each program. They count no more often than others: on a host with two speeds, a
    kind with more rounds at the slower speed would look expensive.
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
