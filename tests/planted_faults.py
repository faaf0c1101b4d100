"""A program with faults of every sort, in place of ours, for the fuzzer to find: ``python planted_faults.py``."""

import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

import trials
import worker
from kinds import Input
from worker import Asked
from workers import Patience

PATIENCE = Patience(stuck_s=5.0, asleep_s=2.0)
LOOP_S = 0.4
LIMIT_BYTES = 1 << 26  # so much more is there at once, on machines too that take seconds to find a gigabyte


def _raise() -> int:
    raise ValueError


def _loop() -> int:
    while True:
        pass


def _hog() -> int:
    return len(bytearray(trials.LIMIT_BYTES * 3 // 2)) and 0


def _hog_and_complain() -> int:
    try:
        bytearray(trials.LIMIT_BYTES * 100)
    except MemoryError:
        sys.stderr.write(f"planted: error: {trials.NO_MEMORY} for it\n")
    return 2


def _die() -> int:
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def _exit() -> int:
    os._exit(5)


def _sleep() -> int:
    time.sleep(3600)
    return 0


def _loop_deaf() -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
    return _loop()


def _stay() -> int:
    pipe = int(sys.argv[3])
    os.close(pipe)
    os.open(os.devnull, os.O_WRONLY)  # in its place
    return _sleep()


def _undrawn() -> int:
    raise NotImplementedError


def _complain() -> int:
    sys.stderr.write("planted: error: as it should be\n")
    return 2


# What a program does, and the fault that it is.
DOES = {
    _complain: None,
    _sleep: f"waits for {PATIENCE.asleep_s:g} s: planted _sleep",
    _loop_deaf: f"hangs for {PATIENCE.stuck_s:g} s: planted _loop_deaf",
    _undrawn: worker.UNDRAWN,
    _raise: "ValueError in planted_faults.py:_raise",
    _loop: f"takes more than {LOOP_S} s: planted _loop",
    _hog: "takes more than 1 GiB: planted _hog",
    _hog_and_complain: "takes more than 1 GiB: planted _hog_and_complain",
    _die: f"the process ends with {-signal.SIGSEGV}: planted _die",
    _exit: "the process ends with 5: planted _exit",
}
PROGRAMS = [*DOES, _complain, _stay]  # after the last fault goes on another; who stays is waited for, so by itself
STAYS = len(PROGRAMS) - 1


def planted(_asked: Asked, number: int) -> tuple[str, Input]:
    """One after another."""
    name = PROGRAMS[number % len(PROGRAMS)].__name__
    if name == _undrawn.__name__:
        _loop()
    return "planted", Input("planted", (name, str(number)), {"f": "a file"})


def run(arguments: list[str]) -> int:
    """In place of a command."""
    return PROGRAMS[int(arguments[1]) % len(PROGRAMS)]()


if __name__ == "__main__":
    nothing_of_ours = patch.multiple(worker, prepare=lambda: None, shrink=lambda made, *_: made)
    limits = patch.multiple(trials, LIMIT_S=LOOP_S, LIMIT_BYTES=LIMIT_BYTES, PROGRAMS={"planted": run})
    with nothing_of_ours, limits, patch.object(Asked, "input", planted):
        worker.main()
