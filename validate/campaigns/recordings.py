"""Recorded programs: their replays, and what changes of them were predicted to bring, beside what was measured.

On a card, with a profile that ``streamsim-validate calibrate`` made there just before:

    cd validate; python -m campaigns.recordings FOLDER profile.toml

runs each of ``campaigns.programs`` in a process, round by round in turn: as they are, and then recorded by
``streamsim-validate capture``; twice more as they are. What fails is noted and left out. FOLDER has the recordings in
zips, and all times in ``recordings.json``. ``python -m campaigns.tables recorded`` judges the records, anywhere.

Of a program that has not been changed only its recording is read; of the changed one, its times.
"""

import gzip
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from campaigns.programs.rounds import ROUNDS
from streamsim.advice import what_if
from streamsim.device import Device, parse_device
from streamsim.errors import InputError
from streamsim.files import write_bytes
from streamsim.program import Schedule
from streamsim.recorded import (
    NONE,
    HostCosts,
    Recording,
    part_of,
    profile_of,
    read_recording,
    replay,
    untraced_time_s,
    window_ns,
    without_recording,
)
from streamsim.transform import Change
from streamsim.transform import changes as make

RECORD, RECORDINGS = "recordings.json", "recordings-*.zip"
HERE = Path(__file__).parents[1]  # whence the programs are run
PROGRAMS = {  # by module; earlier records have more modules
    "inference": "pageable pinned async synchronised streams-2 streams-4 small small-synchronised small-graph",
}
PROCESS_S = 90.0
QUIET = 4  # one in so many rounds is faster than the one that is replayed: what else runs on a host only slows it
SAME_PACE = 0.1  # the loop before two rounds differs by no more where the host is as fast: else by half and more
RECOMMENDED = 1.01  # from such a gain on, a change is
SLOWER = 1.02  # than it was before: such a change must not be recommended


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
    """A recording: its file in a zip, of which program, by what, and the window of a round.

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


class RecordedRounds(msgspec.Struct):
    """The programs that were run. ``profile``: TOML, calibrated on that card just before; "" for the shipped one."""

    card: str
    date: str
    profile: str
    took_s: float = 0.0
    times: list[Times] = []
    recordings: list[Recorded] = []
    failures: list[Failure] = []

    def measured_s(self, program: str, pace_s: float = 0.0) -> float | None:
        """Return the median seconds of rounds before which the host was as fast, where that is known; None without any.

        Rounds that nothing recorded in the process that was recorded come first. A graph that was made while CUPTI
        recorded stays as it is made for that: such a round is no measure.
        """
        own = [one for one in self.times if one.program == program]
        beside = [_at_pace(one.beside_s, one.beside_pace_s, pace_s) for one in own if one.by and "graph" not in program]
        apart = [_at_pace(one.wall_s, one.pace_s, pace_s) for one in own if not one.by]
        found = [*filter(None, beside)] or [*filter(None, apart)]
        return statistics.median(map(statistics.median, found)) if found else None


def _at_pace(wall_s: Sequence[float], paces_s: Sequence[float], pace_s: float) -> list[float]:
    """Return those of the rounds before which the host was as fast; all, where that is not known."""
    if not pace_s or not paces_s:
        return [*wall_s]
    return [wall for wall, pace in zip(wall_s, paces_s, strict=True) if abs(pace / pace_s - 1) <= SAME_PACE]


def read_record(folder: Path) -> RecordedRounds:
    """Return the record of a folder."""
    return msgspec.json.decode((folder / RECORD).read_bytes(), type=RecordedRounds)


# -- anywhere ----------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A program, and the one that somebody makes of it who is told of ``changes``."""

    before: str
    after: str
    changes: tuple[Change, ...]


PIN, ASYNC, DROP, GRAPH, OVER_4 = make.PIN, make.ASYNC, make.DROP_SYNC, make.GRAPH, make.streams(4)
PAIRS = tuple(
    Pair(f"{module} {before}", f"{module} {after}", changes)
    for changes, *rows in (
        ((PIN,), "inference training layers_streamed cupy_pipeline cpp_pipeline: pageable>pinned"),
        ((PIN,), "perceptron: pageable>pinned small-pageable>small-pinned"),
        ((PIN, ASYNC), "inference training: pageable>async", "perceptron: pageable>async small-pageable>small-async"),
        ((ASYNC,), "inference training layers_streamed cupy_pipeline: pinned>async"),
        ((ASYNC,), "perceptron: pinned>async small-pinned>small-async"),
        ((DROP,), "inference: synchronised>async small-synchronised>small", "training: each-loss>async"),
        ((make.streams(2),), "inference perceptron: async>streams-2"),
        ((OVER_4,), "inference: async>streams-4 streams-2>streams-4", "cpp_pipeline: async>streams"),
        ((OVER_4,), "perceptron: async>streams-4 small-async>small-streams-4"),
        ((OVER_4,), "cupy_pipeline: async>streams small>small-streams"),
        ((ASYNC, OVER_4), "inference perceptron: pinned>streams-4", "cupy_pipeline cpp_pipeline: pinned>streams"),
        ((PIN, ASYNC, OVER_4), "perceptron: pageable>streams-4", "cpp_pipeline: pageable>streams"),
        ((ASYNC, DROP, OVER_4), "cupy_pipeline: synchronised>streams"),
        ((ASYNC, make.chunks(24), OVER_4), "cupy_pipeline: whole>chunked"),
        ((GRAPH,), "inference: small>small-graph", "cupy_pipeline: streams>graph small>small-graph"),
        ((make.prefetch(1),), "training: async>prefetched", "layers_streamed: pinned>prefetched"),
        ((PIN, make.prefetch(1)), "layers_streamed: pageable>prefetched"),
        ((PIN, ASYNC, make.prefetch(1)), "training: pageable>prefetched"),
    )
    for modules, pairs in (str(row).split(": ") for row in rows)
    for module in modules.split()
    for before, after in (pair.split(">") for pair in pairs.split())
)


class Replayed(NamedTuple):
    """A recording, replayed, and the program that it is without what recording cost.

    ``rest_s``: what a round has before the first call of its work and behind its end. ``timed``: the program with that
    cost as the capture's own untraced run tells it, ``alone``: without that run; the same where there is none.
    """

    recorded: Recorded
    device: Device
    recorded_s: float
    replayed_s: float
    rest_s: float
    timed: Schedule
    alone: Schedule

    @property
    def error(self) -> float:
        """The error of the replay, as a share of the recorded time."""
        return self.replayed_s / self.recorded_s - 1


class Predicted(NamedTuple):
    """The predicted seconds of a changed program, with its recording's untraced run and from the recording alone.

    ``gain``: as it is over changed, with the untraced run.

    ``before_s``, ``after_s``: measured, as :meth:`RecordedRounds.measured_s` has them.
    """

    pair: Pair
    predicted_s: float
    alone_s: float
    gain: float
    before_s: float
    after_s: float

    @property
    def error_alone(self) -> float:
        """The error of the prediction from the recording alone, as a share of the measured time."""
        return self.alone_s / self.after_s - 1

    @property
    def misleads(self) -> bool:
        """Whether it was recommended and the program became slower."""
        return self.gain >= RECOMMENDED and self.after_s > SLOWER * self.before_s


def replays(folder: Path, record: RecordedRounds) -> Iterator[Replayed | InputError]:
    """Yield the replay of every recording, as ``streamsim explain`` does it, or why there is none."""
    card = parse_device(record.profile) if record.profile else None
    with tempfile.TemporaryDirectory() as unpacked:
        for path in sorted(folder.glob(RECORDINGS)):
            with zipfile.ZipFile(path) as kept:
                kept.extractall(unpacked)
        read = lru_cache(1)(read_recording)  # those of one file come one after another
        for recorded in record.recordings:
            try:
                yield _replayed(read(Path(unpacked, recorded.file)), recorded, card)
            except InputError as error:
                yield error


def _replayed(whole: Recording, recorded: Recorded, card: Device | None) -> Replayed:
    recording = part_of(whole, window=recorded.window)
    device = profile_of(recording, card)
    found = replay(recording, device)
    alone = without_recording(recording, device, None, recorded.program).program
    rest_s = _rest_s(whole, recording, recorded.window, alone.costs)
    untraced_s = untraced_time_s(whole, recorded.window)
    timed = alone if untraced_s is None else without_recording(recording, device, untraced_s, recorded.program).program
    return Replayed(recorded, device, found.recorded_s, found.predicted_s, rest_s, timed.schedule, alone.schedule)


def _rest_s(whole: Recording, inside: Recording, window: str, costs: HostCosts) -> float:
    """Of a window, what lies before the first call that puts work on the card, and behind the end of all.

    Without what it cost to record the calls that are before that.
    """
    opened_ns, closed_ns = window_ns(whole, window)
    calls, work = inside.calls, inside.work
    first_ns = int(calls.start_ns[work.call[work.call != NONE]].min())
    called = int((calls.start_ns < first_ns).sum())
    cost_s = called * (costs.call_s + costs.between_s) + (first_ns - opened_ns) * 1e-9 * costs.share
    behind_ns = closed_ns - int(max(calls.end_ns.max(), work.end_ns.max()))
    return max((first_ns - opened_ns) * 1e-9 - cost_s, 0.0) + max(behind_ns, 0) * 1e-9


def predictions(
    found: Iterable[Replayed], record: RecordedRounds, pairs: Iterable[Pair] = PAIRS
) -> Iterator[Predicted]:
    """Yield the prediction of each pair from each recording of its program before the change.

    Pairs whose rounds were not measured at one speed of the host are left out, and changes that a program refuses.
    """
    replayed = list(found)
    for pair in pairs:
        for one in (one for one in replayed if one.recorded.program == pair.before):
            before_s, after_s = (record.measured_s(name, one.recorded.pace_s) for name in (pair.before, pair.after))
            if before_s is None or after_s is None:
                continue
            try:
                timed, alone = (what_if(ops, one.device, pair.changes, True).together for ops in (one.timed, one.alone))
            except InputError:
                continue
            predicted_s, alone_s = timed.takes_s + one.rest_s, alone.takes_s + one.rest_s
            yield Predicted(pair, predicted_s, alone_s, timed.gain, before_s, after_s)


# -- on a card ---------------------------------------------------------------------------------------------------------


Run = Callable[[Sequence[str]], None]


def run(command: Sequence[str]) -> None:
    """Run a command from the folder of the validator. Raises SubprocessError if it fails or takes too long."""
    subprocess.run(command, cwd=HERE, timeout=PROCESS_S, check=True)


def record(folder: Path, found: RecordedRounds, run: Run = run) -> None:
    """Run the programs of each module captured, then as they are, once more in reverse order; keep it in ``folder``."""
    steps = [(module, True) for module in PROGRAMS] + [(one, False) for one in (*PROGRAMS, *reversed(PROGRAMS))]
    began = time.monotonic()
    for module, is_captured in steps:
        try:
            _step(folder, found, module, is_captured, run)
        except subprocess.SubprocessError as error:  # of one module; the others go on
            found.failures.append(Failure(module, "captured" if is_captured else "as it is", str(error)))
        found.took_s = round(time.monotonic() - began, 1)
        write_bytes(msgspec.json.encode(found), folder / RECORD)


def _step(folder: Path, found: RecordedRounds, module: str, is_captured: bool, run: Run) -> None:
    """Run the programs of a module in a process, and once more if they are captured. Keep times and recording."""
    variants = PROGRAMS[module].split()
    with tempfile.TemporaryDirectory() as name:
        times, recording = Path(name, "times"), Path(name, "recording.json.gz")
        command = [sys.executable, "-m", f"campaigns.programs.{module}", str(times), *variants]
        if is_captured:
            window = f"{variants[-1]}[{ROUNDS // 2}]"
            capture = [sys.executable, "-m", "streamsim_validate", "capture", "--window", window, "-o", str(recording)]
            command = [*capture, "--", *command]
        run(command)
        for number, line in enumerate(times.read_bytes().splitlines()):
            one = msgspec.json.decode(line, type=Times)
            variant, program, by = one.program, f"{module} {one.program}", "CUPTI" if number >= len(variants) else ""
            found.times.append(replace(one, program=program, by=by))
            if by:
                quiet = one.wall_s.index(sorted(one.wall_s)[len(one.wall_s) // QUIET])
                window = f"{variant}[{quiet + 1}]"
                found.recordings.append(Recorded(f"{module}-CUPTI.json", program, by, window, one.pace_s[quiet]))
        if is_captured:  # LZMA packs it to half of what gzip does
            with zipfile.ZipFile(folder / RECORDINGS.replace("*", module), "w", zipfile.ZIP_LZMA) as kept:
                kept.writestr(f"{module}-CUPTI.json", gzip.decompress(recording.read_bytes()))


if __name__ == "__main__":
    where, profile = map(Path, sys.argv[1:])
    where.mkdir(parents=True, exist_ok=True)
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    card = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    record(where, RecordedRounds(card, time.strftime("%Y-%m-%d"), profile.read_text(encoding="utf-8")))
