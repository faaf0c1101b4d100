"""Locks of files that one process at a time may write. The system frees a lock when its process ends, in any way."""

import errno
import os
import sys

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
