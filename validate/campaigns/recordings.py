"""Programs in PyTorch, CuPy and CUDA C++, recorded on a card: their replays, and what changes of them were predicted.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before, five minutes:

    cd validate; python -m campaigns.recordings record FOLDER --profile profile.toml --limit-s 300

runs the programs of ``campaigns.recorded``: those of a module in one process, round by round in turn, so that a host or
a link that changes its speed changes it for all of them; as they are and then recorded by CUPTI, as
``streamsim-validate capture`` does it; twice more as they are, and some by the PyTorch profiler, while there is time.
What fails is noted and left out. ``FOLDER`` has the recordings in ``recordings-1.zip`` and so on, and all times in
``recordings.json``.

Anywhere ``python -m campaigns.recordings FOLDER`` replays every recording, predicts from each what a change of its
program brings, and prints both beside what was measured.
"""

from __future__ import annotations

import argparse
import gzip
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from campaigns.recorded.rounds import ROUNDS
from campaigns.replayed import tables
from streamsim.files import write_bytes
from streamsim.transform import Change, chunks, drop_sync, graph, make_async, pin, prefetch, streams

HERE = Path(__file__).parents[1]  # whence the programs are run
PACKAGE = "campaigns.recorded"
SOURCE, LIBRARY = Path(__file__).parent / "recorded" / "cpp_pipeline.cu", "CPP_PIPELINE"
RECORD, RECORDINGS = "recordings.json", "recordings-{}.zip"
CAPTURED_ROUND, PROFILED_ROUND = ROUNDS // 2, 2
QUIET = 4  # one in so many rounds is faster than the one that is replayed: what else runs on a host only slows it
SAME_PACE = 0.1  # the loop before two rounds differs by no more where the host is as fast: else by half and more
LIMIT_S, PROCESS_S, COMPILING_S = 300.0, 90.0, 120.0
PART_BYTES = 15 << 20  # of recordings in a file
CAPTURE = """
import sys
from pathlib import Path
from streamsim.errors import InputError
from streamsim_validate.run import capture, parse_program
output, window, *command = sys.argv[1:]
try:
    capture(parse_program(command), Path(output), window)
except InputError as error:
    sys.exit(str(error))
"""


class Program(NamedTuple):
    """A variant of a module of ``campaigns.recorded``. ``by_profiler``: the PyTorch profiler records it as well."""

    module: str
    variant: str
    by_profiler: bool = False

    @property
    def name(self) -> str:
        return f"{self.module} {self.variant}"

    def window(self, round_number: int) -> str:
        """Return the window of one of its rounds; the first is 1."""
        return f"{self.variant}[{round_number}]"


class Pair(NamedTuple):
    """A program, and the one that somebody makes of it who is told of ``changes``."""

    before: str
    after: str
    changes: tuple[Change, ...]


def _programs(module: str, variants: str, by_profiler: str = "") -> Iterator[Program]:
    for variant in variants.split():
        yield Program(module, variant, variant in by_profiler.split())


PERCEPTRONS = " ".join(
    f"{size}{how}" for size in ("", "small-") for how in ("pageable", "pinned", "async", "streams-2", "streams-4")
)
PROGRAMS = (
    *_programs("cpp_pipeline", "pageable pinned async streams"),
    *_programs(
        "inference",
        "pageable pinned async synchronised streams-2 streams-4 small small-synchronised small-graph",
        "pageable async streams-2 small",
    ),
    *_programs("perceptron", PERCEPTRONS, PERCEPTRONS),
    *_programs("training", "pageable pinned async each-loss prefetched", "async"),
    *_programs("layers_streamed", "pageable pinned async prefetched", "pinned"),
    *_programs(
        "cupy_pipeline",
        "pageable pinned synchronised async streams graph whole chunked small small-streams small-graph",
    ),
)


def _pairs(module: str, *rows: tuple[str, str, tuple[Change, ...]]) -> Iterator[Pair]:
    for before, after, changes in rows:
        yield Pair(f"{module} {before}", f"{module} {after}", changes)


PAIRS = (
    *_pairs(
        "inference",
        ("pageable", "pinned", (pin(),)),
        ("pageable", "async", (pin(), make_async())),
        ("pinned", "async", (make_async(),)),
        ("pinned", "streams-4", (make_async(), streams(4))),
        ("synchronised", "async", (drop_sync(),)),
        ("async", "streams-2", (streams(2),)),
        ("async", "streams-4", (streams(4),)),
        ("streams-2", "streams-4", (streams(4),)),
        ("small-synchronised", "small", (drop_sync(),)),
        ("small", "small-graph", (graph(),)),
    ),
    *_pairs(
        "perceptron",
        ("pageable", "pinned", (pin(),)),
        ("pageable", "async", (pin(), make_async())),
        ("pageable", "streams-4", (pin(), make_async(), streams(4))),
        ("pinned", "async", (make_async(),)),
        ("pinned", "streams-4", (make_async(), streams(4))),
        ("async", "streams-2", (streams(2),)),
        ("async", "streams-4", (streams(4),)),
        ("small-pageable", "small-pinned", (pin(),)),
        ("small-pageable", "small-async", (pin(), make_async())),
        ("small-pinned", "small-async", (make_async(),)),
        ("small-async", "small-streams-4", (streams(4),)),
    ),
    *_pairs(
        "training",
        ("pageable", "pinned", (pin(),)),
        ("pageable", "async", (pin(), make_async())),
        ("pageable", "prefetched", (pin(), make_async(), prefetch(1))),
        ("pinned", "async", (make_async(),)),
        ("async", "prefetched", (prefetch(1),)),
        ("each-loss", "async", (drop_sync(),)),
    ),
    *_pairs(
        "layers_streamed",
        ("pageable", "pinned", (pin(),)),
        ("pageable", "prefetched", (pin(), prefetch(1))),
        ("pinned", "async", (make_async(),)),
        ("pinned", "prefetched", (prefetch(1),)),
    ),
    *_pairs(
        "cupy_pipeline",
        ("pageable", "pinned", (pin(),)),
        ("pinned", "async", (make_async(),)),
        ("pinned", "streams", (make_async(), streams(4))),
        ("synchronised", "streams", (make_async(), drop_sync(), streams(4))),
        ("async", "streams", (streams(4),)),
        ("streams", "graph", (graph(),)),
        ("whole", "chunked", (make_async(), chunks(24), streams(4))),
        ("small", "small-streams", (streams(4),)),
        ("small", "small-graph", (graph(),)),
    ),
    *_pairs(
        "cpp_pipeline",
        ("pageable", "pinned", (pin(),)),
        ("pageable", "streams", (pin(), make_async(), streams(4))),
        ("pinned", "streams", (make_async(), streams(4))),
        ("async", "streams", (streams(4),)),
    ),
)


class Times(msgspec.Struct, frozen=True):
    """Seconds of the rounds of a process, and of a loop before each. ``by``: what recorded it; "" for nothing.

    ``beside_s``: rounds in the same process, behind those, that nothing recorded; ``beside_pace_s``: their loops.
    """

    program: str
    by: str
    wall_s: tuple[float, ...]
    verified: bool
    beside_s: tuple[float, ...] = ()
    pace_s: tuple[float, ...] = ()
    beside_pace_s: tuple[float, ...] = ()


class Recorded(msgspec.Struct, frozen=True):
    """A recording: its file in the zip, of which program, by what, and the window of a round.

    ``pace_s``: what the loop before that round took, as a measure of the host's speed; 0 where it was not timed.
    """

    file: str
    program: str
    by: str
    window: str
    pace_s: float = 0.0


class Failure(msgspec.Struct, frozen=True):
    """A failure: what was tried with which program, and how it ended."""

    program: str
    what: str
    why: str


class Record(msgspec.Struct, frozen=True):
    """The programs that were run. ``profile``: TOML, calibrated on that card just before; "" for the shipped one."""

    card: str
    date: str
    profile: str
    took_s: float
    times: tuple[Times, ...]
    recordings: tuple[Recorded, ...]
    failures: tuple[Failure, ...]

    def untraced_s(self, program: str) -> tuple[float, ...]:
        """Return the median of each process that nothing recorded."""
        own = (one for one in self.times if one.program == program and not one.by)
        return tuple(statistics.median(one.wall_s) for one in own)

    def measured_s(self, program: str, pace_s: float = 0.0) -> tuple[float, ...]:
        """Of rounds that nothing recorded in the process that was recorded; else as :meth:`untraced_s`.

        Of the rounds alone before which the host was as fast, where that is known: none, if there are none. A graph
        that was made while CUPTI recorded stays as it is made for that: such a round is no measure.
        """
        own = [one for one in self.times if one.program == program]
        beside = [_at_pace(one.beside_s, one.beside_pace_s, pace_s) for one in own if one.by and "graph" not in program]
        apart = [_at_pace(one.wall_s, one.pace_s, pace_s) for one in own if not one.by]
        return tuple(statistics.median(some) for some in [*filter(None, beside)] or [*filter(None, apart)])


def _at_pace(wall_s: Sequence[float], paces_s: Sequence[float], pace_s: float) -> list[float]:
    """Return those of the rounds before which the host was as fast; all, where that is not known."""
    if not pace_s or not paces_s:
        return [*wall_s]
    return [wall for wall, pace in zip(wall_s, paces_s, strict=True) if abs(pace / pace_s - 1) <= SAME_PACE]


# -- on a card ---------------------------------------------------------------------------------------------------------


class _Rounds(msgspec.Struct, frozen=True):
    wall_s: tuple[float, ...] = ()
    pace_s: tuple[float, ...] = ()


class _Line(msgspec.Struct):
    """A line of a variant and a process, as ``campaigns.recorded.rounds`` writes it."""

    variant: str
    verified: bool
    rounds: _Rounds
    beside: _Rounds = _Rounds()
    profiled: _Rounds = _Rounds()


class Experiment:
    """Runs programs until the time is over, and writes the record anew behind each.

    ``run``: a command, with its limit in seconds and its environment; raises RuntimeError where it fails.
    """

    def __init__(self, folder: Path, head: Record, limit_s: float, run: Callable[[Sequence[str], float], None]) -> None:
        self._folder, self._head, self._run = folder, head, run
        self._began = time.monotonic()
        self._limit_s = limit_s
        self._times: list[Times] = []
        self._recordings: list[Recorded] = []
        self._failures: list[Failure] = []
        self._part = 1

    @property
    def record(self) -> Record:
        return msgspec.structs.replace(
            self._head,
            took_s=round(time.monotonic() - self._began, 1),
            times=tuple(self._times),
            recordings=tuple(self._recordings),
            failures=tuple(self._failures),
        )

    def all_of(self, programs: Sequence[Program]) -> Record:
        """Return those of each module captured; some profiled; all once more as they are, before that and behind it."""
        modules = _by_module(programs)
        profiled = _by_module([program for program in programs if program.by_profiler])
        steps = (
            *(("captured", some, self._captured) for some in modules),
            *(("as it is", some, self._as_it_is) for some in modules),
            *(("profiled", some, self._profiled) for some in profiled),
            *(("as it is", some, self._as_it_is) for some in reversed(modules)),
        )
        for k, (what, some, step) in enumerate(steps):
            since_s = time.monotonic() - self._began
            if since_s > self._limit_s:
                for word, left, _ in steps[k:]:
                    self._failed(left, word, "no time was left")
                break
            print(f"{since_s:5.1f} s  {k + 1} of {len(steps)}  {some[0].module}, {what}", file=sys.stderr, flush=True)
            try:
                step(some)
            except Exception as error:  # of one module; the others go on
                print(f"    failed: {error}", file=sys.stderr, flush=True)
                self._failed(some, what, str(error))
            write_bytes(msgspec.json.encode(self.record), self._folder / RECORD)
        return self.record

    def _failed(self, some: Sequence[Program], what: str, why: str) -> None:
        self._failures += (Failure(program.name, what, why) for program in some)

    def _captured(self, some: Sequence[Program]) -> None:
        def command(folder: Path) -> list[str]:
            own = [*_words(some), "--times", str(folder / "times")]
            window = some[-1].window(CAPTURED_ROUND)
            return [sys.executable, "-c", CAPTURE, str(folder / "recording.json.gz"), window, *own]

        self._processes(some, command, ("", "CUPTI"), 2 * PROCESS_S)

    def _profiled(self, some: Sequence[Program]) -> None:
        def command(folder: Path) -> list[str]:
            more = ["--rounds", str(ROUNDS // 2), "--kineto", str(folder / "recording.json.gz")]
            return [*_words(some), *more, "--times", str(folder / "times")]

        self._processes(some, command, ("",), PROCESS_S, "PyTorch profiler")

    def _as_it_is(self, some: Sequence[Program]) -> None:
        def command(folder: Path) -> list[str]:
            return [*_words(some), "--times", str(folder / "times")]

        self._processes(some, command, ("",), PROCESS_S)

    def _processes(
        self,
        some: Sequence[Program],
        command: Callable[[Path], list[str]],
        by: tuple[str, ...],
        limit_s: float,
        profiler: str = "",
    ) -> None:
        """Keep the times of the processes of a command, each recorded ``by`` that, and the recording.

        ``profiler``: what records behind the timed rounds.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            try:
                self._run(command(folder), limit_s)
            finally:
                times = folder / "times"
                lines = times.read_bytes().splitlines() if times.exists() else []
                self._times += self._said(some, lines, by, profiler)
            if recorder := by[-1] or profiler:
                own = [one for one in self._times if one.by == recorder][-len(some) :]
                rounds = [quiet_round(one.wall_s) if by[-1] else PROFILED_ROUND for one in own]
                self._keep(some, own, rounds, folder / "recording.json.gz")

    def _said(
        self, some: Sequence[Program], lines: Sequence[bytes], by: tuple[str, ...], profiler: str
    ) -> Iterator[Times]:
        """Yield what processes wrote, a line of each program, those of the first ``by`` first."""
        programs = [(program, recorder) for recorder in by for program in some]
        for (program, recorder), line in zip(programs, lines, strict=False):
            said = msgspec.json.decode(line, type=_Line)
            assert said.variant == program.variant
            if not said.verified:
                self._failed([program], recorder or "as it is", "its results are wrong")
            beside = {"beside_s": said.beside.wall_s, "beside_pace_s": said.beside.pace_s}
            yield Times(program.name, recorder, said.rounds.wall_s, said.verified, pace_s=said.rounds.pace_s, **beside)
            if profiler:
                yield Times(program.name, profiler, said.profiled.wall_s, said.verified, pace_s=said.profiled.pace_s)

    def _keep(self, some: Sequence[Program], own: Sequence[Times], rounds: Sequence[int], recording: Path) -> None:
        """Put a recording into the zip, or into the next one; LZMA packs it to half of what gzip does."""
        packed, by = recording.read_bytes(), own[0].by
        file = f"{some[0].module} {by}.json".replace(" ", "-")
        path = self._folder / RECORDINGS.format(self._part)
        if path.exists() and path.stat().st_size + len(packed) > PART_BYTES:
            self._part += 1
            path = self._folder / RECORDINGS.format(self._part)
        with zipfile.ZipFile(path, "a") as kept:
            kept.writestr(zipfile.ZipInfo(file), gzip.decompress(packed), zipfile.ZIP_LZMA)
        self._recordings += (
            Recorded(file, program.name, by, program.window(number), one.pace_s[number - 1])
            for program, one, number in zip(some, own, rounds, strict=True)
        )


def _by_module(programs: Sequence[Program]) -> list[list[Program]]:
    return [[*some] for _, some in groupby(programs, attrgetter("module"))]


def quiet_round(wall_s: Sequence[float]) -> int:
    """Return the number of the round that a quarter of all were faster than, the first is 1."""
    return wall_s.index(sorted(wall_s)[len(wall_s) // QUIET]) + 1


def _words(some: Sequence[Program]) -> list[str]:
    variants = [program.variant for program in some]
    return [sys.executable, "-m", f"{PACKAGE}.{some[0].module}", "--variants", *variants]


def run(command: Sequence[str], limit_s: float, environment: dict[str, str] | None = None) -> None:
    """Run a command from the folder of the validator. Raises RuntimeError where it fails or takes longer."""
    more = {**os.environ, **(environment or {})}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=HERE, env=more, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"took longer than {limit_s:.0f} s") from None
            raise
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {' | '.join(said.strip().splitlines()[-4:])}")


def record(folder: Path, profile: str, date: str, limit_s: float, only: Sequence[str] = ()) -> Record:
    """Run the programs, or ``only`` those whose names have one of these words, and write the record to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(RECORDINGS.format("*")):
        old.unlink()
    programs = [one for one in PROGRAMS if not only or any(word in one.name for word in only)]
    with tempfile.TemporaryDirectory() as built:
        library = Path(built, "libcpp_pipeline.so")
        head = Record(_card(), date, profile, 0.0, (), (), ())
        experiment = Experiment(folder, head, limit_s, lambda command, s: run(command, s, {LIBRARY: str(library)}))
        if any(program.module == "cpp_pipeline" for program in programs):
            try:
                run(_compiling(library), COMPILING_S)
            except (OSError, RuntimeError) as error:
                print(f"{SOURCE.name}: {error}", file=sys.stderr)
        return experiment.all_of(programs)


def _compiling(library: Path) -> list[str]:
    return ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-o", str(library), str(SOURCE)]


def _card() -> str:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# -- anywhere ----------------------------------------------------------------------------------------------------------


def read_record(folder: Path) -> Record:
    """Return the record of a folder."""
    return msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)


def main() -> None:
    """Record, or print the tables of a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="[record] FOLDER")
    parser.add_argument("--profile", type=Path, help="of the card; to print tables: in place of the record's")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="no program is begun after so long")
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD", help="programs whose names have such a word")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    given = parser.parse_args()
    profile = given.profile.read_text(encoding="utf-8") if given.profile else ""
    *recording, folder = given.folders
    if recording and recording != [Path("record")]:
        parser.error("expected FOLDER, or record FOLDER")
    if recording:
        found = record(folder, profile, given.date, given.limit_s, given.only)
        print(f"{len(found.recordings)} recordings in {found.took_s:.0f} s", file=sys.stderr)
        for one in found.failures:
            print(f"{one.program}, {one.what}: {one.why}", file=sys.stderr)
    else:
        print("\n".join(tables(folder, read_record(folder), PAIRS, profile)))


if __name__ == "__main__":
    main()
