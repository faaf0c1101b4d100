"""Programs in PyTorch and CuPy, recorded on a card: their replays, and what changes of them were predicted.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before, five minutes:

    cd validate; python -m campaigns.recordings record FOLDER --profile profile.toml --limit-s 300

runs the programs of ``campaigns.recorded``: those of a module in one process, round by round in turn, so that a host or
a link that changes its speed changes it for all of them; as they are and then recorded by CUPTI, as
``streamsim-validate capture`` does it; twice more as they are, while there is time.
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
from campaigns.replayed import RECORD, RECORDINGS, Failure, Pair, Recorded, RecordedRounds, Times, lines, read_record
from streamsim.files import write_bytes
from streamsim.transform import Change, chunks, drop_sync, graph, make_async, pin, prefetch, streams

HERE = Path(__file__).parents[1]  # whence the programs are run
PACKAGE = "campaigns.recorded"
CAPTURED, AS_IT_IS = "captured", "as it is"
RECORDERS = {CAPTURED: ("", "CUPTI"), AS_IT_IS: ("",)}  # of the processes of a step
CAPTURED_ROUND = ROUNDS // 2
QUIET = 4  # one in so many rounds is faster than the one that is replayed: what else runs on a host only slows it
LIMIT_S, PROCESS_S = 300.0, 90.0
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


class Variant(NamedTuple):
    """A variant of a module of ``campaigns.recorded``."""

    module: str
    variant: str

    @property
    def name(self) -> str:
        return f"{self.module} {self.variant}"

    def window(self, round_number: int) -> str:
        """Return the window of one of its rounds; the first is 1."""
        return f"{self.variant}[{round_number}]"


VARIANTS = {  # by module; earlier records have programs in CUDA C++, and recordings of the PyTorch profiler, as well
    "inference": "pageable pinned async synchronised streams-2 streams-4 small small-synchronised small-graph",
    "perceptron": "pageable pinned async streams-2 streams-4"
    " small-pageable small-pinned small-async small-streams-2 small-streams-4",
    "training": "pageable pinned async each-loss prefetched",
    "layers_streamed": "pageable pinned async prefetched",
    "cupy_pipeline": "pageable pinned synchronised async streams graph whole chunked small small-streams small-graph",
}
PROGRAMS = tuple(Variant(module, variant) for module, variants in VARIANTS.items() for variant in variants.split())


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


class Experiment:
    """Runs programs until the time is over. ``record`` has what came of it, and is written anew behind each step.

    ``run``: a command, with its limit in seconds; raises RuntimeError where it fails.
    """

    def __init__(
        self, folder: Path, head: RecordedRounds, limit_s: float, run: Callable[[Sequence[str], float], None]
    ) -> None:
        self.record = head
        self._folder, self._limit_s, self._run = folder, limit_s, run
        self._began = time.monotonic()

    def all_of(self, programs: Sequence[Variant]) -> RecordedRounds:
        """Return those of each module captured, then as they are, once more in reverse order."""
        modules = [[*some] for _, some in groupby(programs, attrgetter("module"))]
        steps = (
            *((CAPTURED, some) for some in modules),
            *((AS_IT_IS, some) for some in modules),
            *((AS_IT_IS, some) for some in reversed(modules)),
        )
        for k, (what, some) in enumerate(steps, 1):
            since_s = time.monotonic() - self._began
            print(f"{since_s:5.1f} s  {k} of {len(steps)}  {some[0].module}, {what}", file=sys.stderr, flush=True)
            try:
                if since_s > self._limit_s:
                    raise RuntimeError("no time was left")
                self._step(what, some)
            except Exception as error:  # of one module; the others go on
                print(f"    failed: {error}", file=sys.stderr, flush=True)
                self._add(failures=[Failure(program.name, what, str(error)) for program in some])
            write_bytes(msgspec.json.encode(self.record), self._folder / RECORD)
        return self.record

    def _add(self, **more: Sequence[object]) -> None:
        columns = {name: (*getattr(self.record, name), *values) for name, values in more.items()}
        took_s = round(time.monotonic() - self._began, 1)
        self.record = msgspec.structs.replace(self.record, took_s=took_s, **columns)

    def _step(self, what: str, some: Sequence[Variant]) -> None:
        """Run the programs of a module in a process, and once more if they are captured. Keep times and recording."""
        processes = [(program, recorder) for recorder in RECORDERS[what] for program in some]
        with tempfile.TemporaryDirectory() as name:
            times, recording = Path(name, "times"), Path(name, "recording.json.gz")
            try:
                self._run(_command(what, some, str(times), str(recording)), len(RECORDERS[what]) * PROCESS_S)
            finally:
                lines = times.read_bytes().splitlines() if times.exists() else []
                for (program, recorder), line in zip(processes, lines, strict=False):
                    self._said(msgspec.json.decode(line, type=_Line), program, recorder, what)
            if what == CAPTURED:
                self._keep(some, recording)

    def _said(self, said: _Line, program: Variant, recorder: str, what: str) -> None:
        """Keep the times of a program that a process wrote."""
        assert said.variant == program.variant
        if not said.verified:
            self._add(failures=[Failure(program.name, what, "its results are wrong")])
        rounds, beside = said.rounds, said.beside
        times = rounds.wall_s, said.verified, beside.wall_s, rounds.pace_s, beside.pace_s
        self._add(times=[Times(program.name, recorder, *times)])

    def _keep(self, some: Sequence[Variant], recording: Path) -> None:
        """Put a recording into the zip, or into the next one; LZMA packs it to half of what gzip does."""
        packed, own = recording.read_bytes(), [one for one in self.record.times if one.by == "CUPTI"][-len(some) :]
        file = f"{some[0].module}-CUPTI.json"
        part = max(1, len([*self._folder.glob(RECORDINGS.format("*"))]))
        path = self._folder / RECORDINGS.format(part)
        if path.exists() and path.stat().st_size + len(packed) > PART_BYTES:
            path = self._folder / RECORDINGS.format(part + 1)
        with zipfile.ZipFile(path, "a") as kept:
            kept.writestr(zipfile.ZipInfo(file), gzip.decompress(packed), zipfile.ZIP_LZMA)
        rounds = (quiet_round(one.wall_s) for one in own)
        self._add(
            recordings=[
                Recorded(file, program.name, "CUPTI", program.window(number), one.pace_s[number - 1])
                for program, one, number in zip(some, own, rounds, strict=True)
            ]
        )


def _command(what: str, some: Sequence[Variant], times: str, recording: str) -> list[str]:
    variants = [program.variant for program in some]
    own = [sys.executable, "-m", f"{PACKAGE}.{some[0].module}", "--variants", *variants, "--times", times]
    if what == CAPTURED:
        return [sys.executable, "-c", CAPTURE, recording, some[-1].window(CAPTURED_ROUND), *own]
    return own


def quiet_round(wall_s: Sequence[float]) -> int:
    """Return the number of the round that a quarter of all were faster than, the first is 1."""
    return wall_s.index(sorted(wall_s)[len(wall_s) // QUIET]) + 1


def run(command: Sequence[str], limit_s: float) -> None:
    """Run a command from the folder of the validator. Raises RuntimeError where it fails or takes longer."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=HERE, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
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


def record(folder: Path, profile: str, date: str, limit_s: float, only: Sequence[str] = ()) -> RecordedRounds:
    """Run the programs, or ``only`` those whose names have one of these words, and write the record to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(RECORDINGS.format("*")):
        old.unlink()
    programs = [one for one in PROGRAMS if not only or any(word in one.name for word in only)]
    return Experiment(folder, RecordedRounds(_card(), date, profile, 0.0, (), (), ()), limit_s, run).all_of(programs)


def _card() -> str:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


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
        print("\n".join(lines(folder, read_record(folder), PAIRS, profile)))


if __name__ == "__main__":
    main()
