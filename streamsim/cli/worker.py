"""What is around a worker: a process beside this one that predicts a part of a sweep."""

import os
from multiprocessing import parent_process
from signal import SIG_IGN, SIGINT, signal
from threading import Thread

from streamsim.errors import INTERRUPTED


def follow_parent() -> None:
    """End when the process that started this one ends, however that was; what Ctrl-C means is for that one to say."""
    signal(SIGINT, SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a worker has one"
    parent.join()
    os._exit(INTERRUPTED)
