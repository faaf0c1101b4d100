"""Locks of files that one process at a time may write. The system frees a lock when its process ends, in any way."""

import errno
import os
import socket
import sys
from contextlib import suppress

HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)  # errors for a lock that another process holds
FAR = 1 << 40  # Windows locks bytes, for reading too: one beyond any file of ours


def try_lock(number: int) -> bool:
    """Lock the open file of this descriptor until it is closed. Return False if another process holds the lock.

    Return True if the file system has no locks.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            at = os.lseek(number, 0, os.SEEK_CUR)
            os.lseek(number, FAR, os.SEEK_SET)
            try:
                msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(number, at, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in HELD
    return True


def this_process() -> str:
    """Return the name of this process for messages of others: ``process 4711 on tesla``."""
    return _process(os.getpid())


def holder(number: int) -> str:
    """Return the name of the process that holds the lock on the open file of this descriptor (only Linux tells)."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            locks = [line.split() for line in file]
        own = os.fstat(number)
        for _, kind, _, _, pid, where, *_ in locks:  # 1: FLOCK ADVISORY WRITE 4711 08:02:131 0 EOF
            if kind == "FLOCK" and where.endswith(f":{own.st_ino}") and _has_open(int(pid), own):
                return _process(int(pid))
    except (OSError, ValueError):
        pass
    return "another process"


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Return True if a process has this file open; inodes of two file systems may have one number."""
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with suppress(OSError):  # closed since
            if os.path.samestat(os.stat(f"{folder}/{name}"), file):
                return True
    return False


def _process(pid: int) -> str:
    return f"process {pid} on {socket.gethostname()}"
