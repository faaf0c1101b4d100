"""A run of a suite or of schedules: a process for each number of connections, a journal, a record.

``CUDA_DEVICE_MAX_CONNECTIONS`` is read once, when a process makes its context, so every number of connections
is measured by a process of its own. They run one after another and append to one journal. Profiles are fitted to what
was calibrated when all is measured.

A measuring process (``python -m streamsim_validate.run CONNECTIONS``) gets the plan on a line of stdin. It ends when
stdin does, which is when the process that started it has ended, however that was.
"""

import hashlib
import os
import subprocess
import sys
from _thread import interrupt_main
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from threading import Thread
from time import sleep
from typing import Any

import msgspec

from streamsim.cli.running import say, steps
from streamsim.code import LANGUAGES
from streamsim.errors import INTERRUPTED, NO_GPU, OK, InputError
from streamsim.program import Schedule
from streamsim_validate import calibrate, records
from streamsim_validate import gpu as hardware
from streamsim_validate.calibrate import fits
from streamsim_validate.progress import OnStep, quietly
from streamsim_validate.run.measuring import Planned, Replays, measure
from streamsim_validate.run.programs import Programs
from streamsim_validate.suites import PROGRAM_COUNT, RANDOM, RANDOM_COUNT, drawn_programs, suite, suite_connections

REPEATS = 11
DRAWN = {RANDOM: RANDOM_COUNT, records.PROGRAMS: PROGRAM_COUNT}  # suites, and how many unless told otherwise
COMPLAINT = "streamsim-validate: error: "  # a dying context may print more after it
TIMES = 4  # of a repeat
STDERR = 2  # the process's progress goes there
SETTLING_S = 60.0  # for what is measured and not in the journal yet

TakeSamples = Callable[[hardware.Gpu], calibrate.Samples]

# What is timed around every sample of a run that calibrates, because the host's costs drift within minutes.
PROBES = next(schedule for chain, schedule in calibrate.host_calls() if chain == records.PACE_CHAIN), records.LINK_PAIR


class Plan(msgspec.Struct, frozen=True):
    """The schedules to measure, and the record's file. Raises InputError for options that do not belong together.

    - ``schedules``: replace a suite's recipes if given. ``seed``: of the order of the repeats, and of the suites
      ``random`` and ``programs``. ``count``: the number of their schedules, or of programs of each language (0: 200 and
      150).
    - ``kernels``: the user's files of kernels (:func:`streamsim_validate.gpu.kernels.load_kernels`), which every
      measuring process loads.
    """

    output: str
    suite: str = "quick"
    schedules: tuple[Schedule, ...] = ()
    kernels: tuple[str, ...] = ()
    connections: tuple[int, ...] = ()
    repeats: int = REPEATS
    seed: int = 0
    device: int = 0
    calibrate: bool = True
    count: int = 0

    def __post_init__(self) -> None:
        what = "schedule files" if self.schedules else f"the suite {self.suite}"
        if self.count and (self.schedules or self.suite not in DRAWN):
            raise InputError(
                f"count = {self.count}: only the suites {' and '.join(DRAWN)} are drawn, and this run is of {what};"
                " leave --count out"
            )
        if self.is_of_programs and self.kernels:
            raise InputError(f"--kernels: the programs of the suite {records.PROGRAMS} have their own kernels")

    @property
    def is_of_programs(self) -> bool:
        """True if the campaign runs programs in a language, and replays nothing."""
        return self.suite == records.PROGRAMS and not self.schedules

    @property
    def drawn(self) -> int:
        """The number of drawn schedules, or of programs of each language; 0 if none are drawn."""
        return 0 if self.schedules else self.count or DRAWN.get(self.suite, 0)


def planned(plan: Plan, connections: int) -> list[Planned]:
    """Return what a process with this number of connections measures. Raises InputError on an unknown suite."""
    if plan.schedules:
        keys = [f"{i}: {schedule.name}".rstrip(": ") for i, schedule in enumerate(plan.schedules, 1)]
        return [Planned(key, schedule) for key, schedule in zip(keys, plan.schedules, strict=True)]
    if plan.is_of_programs:
        return planned_programs(plan.seed, plan.drawn)
    recipes = suite(plan.suite, connections, plan.seed, plan.drawn)
    return [Planned(recipe.key, recipe.schedule(), recipe) for recipe in recipes]


def planned_programs(seed: int, count: int) -> list[Planned]:
    """Return the programs of the suite, each in every language in turn: a change of the host's speed hits all alike."""
    found: list[Planned] = []
    for drawn in drawn_programs(seed, count):
        for language in LANGUAGES:
            recipe = drawn.of(language)
            first = recipe.workload.kernels[0]
            work = first.parameter if first.name == records.STAND_IN else 1
            found.append(
                Planned(f"{language}: {recipe.key}", recipe.schedule(), recipe, language, work, is_probed=True)
            )
    return found


def run(plan: Plan) -> records.Record:
    """Measure the plan, or continue where its journal stopped, and write its record.

    Raises NoGpuError, InputError, and KeyboardInterrupt after Ctrl-C. The journal then holds what was measured, and the
    same call continues from there.
    """
    records.check_unused(plan.output)
    for i, schedule in enumerate(plan.schedules, 1):  # those of the suites have none
        hardware.refuse_races(schedule, schedule.name or f"schedule {i}")
    for path in plan.kernels:
        hardware.read_source(path)
    usual = (hardware.connections(),) if plan.schedules or plan.is_of_programs else suite_connections(plan.suite)
    counts = plan.connections or usual
    number = sum(len(planned(plan, connections)) for connections in counts)
    if TIMES * number * plan.repeats > records.MOST_VALUES // 2:  # all else in a record is less than the times
        raise InputError(
            f"repeats = {plan.repeats}: of {number} schedules, more than a record holds; ask for"
            f" {records.MOST_VALUES // (2 * TIMES) // number} at most, or measure in parts"
        )
    hardware.import_cupy()  # in vain there is no need to start a process
    for connections in counts:
        if len(counts) > 1:
            say(f"with {connections} hardware queues in front of each engine")
        _start(plan, connections)
    return records.finish(records.journal_path(plan.output), plan.output, with_profiles)


def _start(plan: Plan, connections: int) -> None:
    """Run a measuring process, which prints its own complaint, and ends when its stdin does: with this one."""
    environment = dict(os.environ)
    if plan.connections or not plan.is_of_programs:  # a program finds the hardware queues that any program does
        environment |= {hardware.CONNECTIONS_VARIABLE: str(connections)}
    command = [sys.executable, "-m", "streamsim_validate.run", str(connections)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=STDERR, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            with suppress(BrokenPipeError):  # it has died, and says why
                process.stdin.write(msgspec.json.encode(plan) + b"\n")
                process.stdin.flush()
            complaint = process.stderr.read()
            process.wait()
        except KeyboardInterrupt:  # the terminal has told the process too: let it settle what it has
            process.wait()
            raise
    raise_for(process.returncode, complaint.decode(errors="replace"))


def raise_for(code: int, complaint: str) -> None:
    """Raise what the process that ended with ``code`` would have raised here."""
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    lines = [line for line in complaint.splitlines() if line.strip()]
    complaints = [line.removeprefix(COMPLAINT) for line in lines if line.startswith(COMPLAINT)]
    died = ": ".join([f"the measuring process died (exit code {code})", *lines[-1:]])
    message = complaints[-1] if complaints else f"{died}; the same command goes on from its journal"
    if code:
        raise (hardware.NoGpuError if code == NO_GPU else InputError)(message)


def main(connections: int) -> int:
    """Run a measuring process with this number of connections, and return its exit code."""
    try:
        plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
        Thread(target=_end_with_stdin, daemon=True).start()
        for path in plan.kernels:
            hardware.load_kernels(path)
        with hardware.open_gpu(plan.device) as gpu, steps(sys.stdout) as on_step:
            calibrates = partial(_calibrated, plan, on_step) if plan.calibrate else None
            measure_plan(plan, connections, gpu, calibrates, on_step)
    except InputError as error:
        say(f"{COMPLAINT}{error}")
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


def _end_with_stdin() -> None:
    """End the process as Ctrl-C does when stdin ends. Until then the thread sleeps and disturbs no measurement."""
    os.read(sys.stdin.fileno(), 1)
    interrupt_main()
    sleep(SETTLING_S)
    os._exit(INTERRUPTED)


def _calibrated(plan: Plan, on_step: OnStep, gpu: hardware.Gpu) -> calibrate.Samples:
    """Return the samples of the card's probes, and of the front ends' if programs are measured."""
    found = calibrate.measure_probes(gpu, on_step=on_step)
    if not plan.is_of_programs:
        return found
    libraries = (one for one in hardware.installed_libraries(plan.device) if one.name in LANGUAGES)
    with hardware.compiled_rounds(plan.device) as compiled:
        return msgspec.structs.replace(found, front_ends=calibrate.measure_front_ends(libraries, compiled, on_step))


def measure_plan(
    plan: Plan, connections: int, gpu: hardware.Gpu, take_samples: TakeSamples | None, on_step: OnStep = quietly
) -> None:
    """Measure on an open card what is not in the journal yet, and append it there.

    ``take_samples``: calibrates before the run's first measurement and after its last. ``on_step``: is called with the
    progress.
    """
    title = "schedules" if plan.schedules else plan.suite
    with records.Journal(
        records.journal_path(plan.output), records.header(gpu.card, title, fingerprint(plan.kernels))
    ) as journal:
        items = planned(plan, connections)
        digests = {item.key: records.digest(item.schedule) for item in items}
        for entry in journal.entries(connections):
            journal.check_same(entry, digests.get(entry.key))
        done = journal.complete(connections, plan.repeats)
        if left := [item for item in items if item.key not in done]:
            before = _plain(take_samples, gpu)
            journal.append(records.RunBegins(connections, records.now(), plan.seed, plan.repeats, before, plan.drawn))
            probes = PROBES if take_samples else ()
            with closing(Programs(gpu) if plan.is_of_programs else Replays(gpu, probes=probes)) as runner:
                measure(left, runner, plan.repeats, plan.seed, journal.append, journal.next_group, on_step)
        if journal.unended == connections:
            after = _plain(take_samples, gpu)
            journal.append(records.RunEnds(records.now(), samples=after))


def fingerprint(paths: Sequence[str]) -> str:
    """Return a fingerprint of the content of files, in their order; "" for none."""
    digests = [hashlib.sha256(hardware.read_source(path)).digest() for path in paths]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16] if paths else ""


def _plain(take_samples: TakeSamples | None, gpu: hardware.Gpu) -> dict[str, Any] | None:
    return take_samples and _builtins(take_samples(gpu))


def _builtins(value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain


def with_profiles(record: records.Record) -> records.Record:
    """Return the record with the profiles that the samples of its calibrations show.

    One that cannot be fitted is said on the terminal and is missing.
    """
    if any(run.samples or run.samples_after for run in record.runs):
        say("fitting the calibrations")
    runs = (
        msgspec.structs.replace(run, before=_fitted(run.samples), after=_fitted(run.samples_after))
        for run in record.runs
    )
    return msgspec.structs.replace(record, runs=tuple(runs))


def _fitted(plain: dict[str, Any] | None) -> dict[str, Any] | None:
    if plain is None:
        return None
    try:
        return _builtins(fits.fit(msgspec.convert(plain, calibrate.Samples).check()))
    except (InputError, msgspec.ValidationError) as error:  # samples of another form, in a journal of then
        say(f"no profile: {error}")
        return None
