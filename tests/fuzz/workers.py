"""Processes that try inputs: one that dies or hangs is a fault of the input that it was at, and another goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, Queue
from signal import SIGKILL
from threading import Thread
from typing import Any, NamedTuple

from trials import FOLDER, in_memory
from worker import Asked


class Patience(NamedTuple):
    """For how long a process may be at one input, by the clock."""

    stuck_s: float = 300.0  # of code that no signal reaches: a share of a busy machine
    asleep_s: float = 30.0  # asking for nothing of the processor, however busy


POLL_S = 1.0  # counted, not read off a clock: a machine may stand still
PATIENCE = Patience()
COMMAND = (sys.executable, str(Path(__file__).with_name("worker.py")))
Report = dict[str, Any]  # number, kind, fault, and the fields of the input


class _Worker:
    """The process of a part, from the input ``first`` on; ``told`` gets each line of what it tells, "" at its end.

    Which input it is at stands in a file, as 8 bytes, behind them the tries to make it smaller: a line for each would
    cost a tenth of all time.
    """

    def __init__(self, command: Sequence[str], asked: Asked, first: int, told: Queue[tuple[_Worker, str]]) -> None:
        ours, its = os.pipe()
        self._place = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._place.write(first.to_bytes(8, "little"))
        self._place.flush()
        self.process = subprocess.Popen(
            [*command, json.dumps(asked), str(first), str(its), str(self._place.fileno())],
            pass_fds=[its, self._place.fileno()],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its)
        self.ready, self._killed = False, ""
        self._seen, self._stuck_s = b"", 0.0
        self._took, self._asleep_s = "", 0.0
        Thread(target=self._listen, args=(ours, told), daemon=True).start()

    def _listen(self, pipe: int, told: Queue[tuple[_Worker, str]]) -> None:
        with open(pipe) as lines:
            for line in lines:
                told.put((self, line))
        told.put((self, ""))

    @property
    def at(self) -> int:
        """The input."""
        return int.from_bytes(os.pread(self._place.fileno(), 8, 0), "little")

    def heard(self, line: str) -> Report | None:
        """Take note of a line; the report, if it is one."""
        if line == "ready\n":
            self.ready = True
            return None
        report: Report = json.loads(line)
        return report

    def kill_if_stuck(self, waited_s: float, patience: Patience) -> None:
        """If it has been at one input, or at one smaller form of it, for so long; called when so much has passed."""
        place, (asleep, took) = os.pread(self._place.fileno(), 16, 0), self._processor()
        here = place == self._seen
        self._stuck_s = self._stuck_s + waited_s if here else 0.0
        self._asleep_s = self._asleep_s + waited_s if here and asleep and took == self._took else 0.0
        self._seen, self._took = place, took
        if self._stuck_s > patience.stuck_s:
            self._killed = f"hangs for {patience.stuck_s:g} s"
        elif self._asleep_s > patience.asleep_s:
            self._killed = f"waits for {patience.asleep_s:g} s"
        if self._killed:
            self.process.kill()

    def _processor(self) -> tuple[bool, str]:
        """Whether it wants none of the processor, and how much it has had; known of Linux alone, while it runs."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False, ""
        return fields[0] == "S", f"{fields[11]} {fields[12]}"

    def ended(self, asked: Asked, patience: Patience) -> Report | None:
        """What it died of, if it did, or that it has no more to tell and stays; the input that it was at."""
        try:
            code = self.process.wait(patience.stuck_s)
        except subprocess.TimeoutExpired:
            code, self._killed = -SIGKILL, "the process does not end"
        if not code:
            return None
        if not self.ready:
            raise RuntimeError(f"a process that tries inputs ended with {code} before it began")
        kind, made, ours = asked.draw(self.at)
        how = self._killed or f"the process ends with {code}"
        fault = ours or f"{how}: {made.program} {made.arguments[0]}"
        return {"number": self.at, "kind": kind, "fault": fault} | made._asdict()

    def close(self) -> None:
        """Whatever it is at; of one that was killed its folder is left."""
        self.process.kill()
        self.process.wait()
        for folder in Path(in_memory()).glob(FOLDER.format(self.process.pid) + "*"):
            shutil.rmtree(folder, ignore_errors=True)
        self._place.close()


def gather(
    asked: Asked,
    parts: Sequence[int] = (),
    patience: Patience = PATIENCE,
    command: Sequence[str] = COMMAND,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Report]:
    """What is found in these parts of what is asked for (all if none), a process for each, as it is found.

    ``on_progress`` is told now and then how many have been tried. Raises RuntimeError when a process cannot even begin.
    """
    told: Queue[tuple[_Worker, str]] = Queue()
    workers = {part: _Worker(command, asked, part, told) for part in parts or range(asked.parts)}
    at = dict.fromkeys(workers, 0)
    try:
        while workers:
            try:
                worker, line = told.get(timeout=POLL_S)
            except Empty:
                for part, worker in workers.items():
                    worker.kill_if_stuck(POLL_S, patience)
                    at[part] = worker.at // asked.parts
                on_progress(sum(at.values()))
                continue
            if line:
                found = worker.heard(line)
            else:
                last, found = worker.at, worker.ended(asked, patience)
                part = last % asked.parts
                at[part] = last // asked.parts + 1
                workers.pop(part).close()
                if found and last + asked.parts < asked.inputs:
                    workers[part] = _Worker(command, asked, last + asked.parts, told)
            if found:
                yield found
        on_progress(sum(at.values()))
    finally:
        for worker in workers.values():
            worker.close()
