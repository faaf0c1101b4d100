"""Workers: processes beside this one that predict parts of a sweep, each served by a thread and a pipe of its own.

With a pipe of its own any of them may be killed at any time, and nobody waits for the other half of what it was saying:
the executor of the standard library shares one, and cannot be stopped before all workers have done what they are at.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from signal import SIG_IGN, SIGINT, signal
from threading import Lock, Thread, local
from typing import Any, TypeVar

from streamsim.errors import INTERRUPTED

Result = TypeVar("Result")


class WorkerDiedError(RuntimeError):
    """A worker has ended in the middle of a call; the next call is that of another one."""


@contextmanager
def workers(count: int) -> Iterator["Workers"]:
    """So many workers. They end with the block; at once when an error ends it, Ctrl-C say, whatever they are at."""
    pool = Workers(count)
    try:
        yield pool
    except BaseException:
        pool.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class Workers(ThreadPoolExecutor):
    """An executor whose calls run in ``count`` processes. Functions, arguments and results are pickled."""

    def __init__(self, count: int) -> None:
        super().__init__(count, initializer=_deaf)
        self._own = local()  # of each thread
        self._lock = Lock()  # of the two below
        self._begun: list[_Worker] = []
        self._killed = False

    def submit(self, function: Callable[..., Result], /, *arguments: Any, **more: Any) -> Future[Result]:
        return super().submit(self._call, function, arguments, more)

    def _call(self, function: Callable[..., Any], arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._lock:
                if self._killed:
                    raise WorkerDiedError("the workers are stopped")
                worker = self._own.worker = _Worker()
                self._begun.append(worker)
        try:
            done, result = worker.call(function, arguments, more)
        except WorkerDiedError:
            self._own.worker = None
            raise
        if not done:
            raise result
        return result

    def kill(self) -> None:
        """End all workers now, and begin no more: the calls that they are at fail."""
        with self._lock:
            self._killed = True
            for worker in self._begun:
                worker.process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the calls that were submitted, then end the workers."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:  # otherwise they end with this process
            for worker in self._begun:
                worker.pipe.close()
            for worker in self._begun:
                worker.process.join()


class _Worker:
    """A process, and our end of its pipe."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, its = context.Pipe()
        self.process = context.Process(target=_serve, args=(its,), daemon=True)
        self.process.start()
        its.close()

    def call(self, *what: Any) -> tuple[bool, Any]:
        try:
            self.pipe.send(what)
            answer: tuple[bool, Any] = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise WorkerDiedError(f"a worker ended with exit code {self.process.exitcode}") from None
        return answer


def _deaf() -> None:
    """Block Ctrl-C in a thread, which has it no more than its processes then: what it means is for the main one."""
    with suppress(ImportError):  # Windows
        from signal import SIG_BLOCK, pthread_sigmask

        pthread_sigmask(SIG_BLOCK, [SIGINT])


# In a worker


def _serve(pipe: Connection) -> None:
    """Call what comes and send back what comes of it, until there is nobody to send it to."""
    signal(SIGINT, SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        while True:
            function, arguments, more = pipe.recv()
            try:
                pipe.send((True, function(*arguments, **more)))
            except Exception as error:
                _send_error(pipe, error)


def _send_error(pipe: Connection, error: Exception) -> None:
    """Send an error; in words if it cannot be pickled."""
    try:
        pipe.send((False, error))
    except ConnectionError:
        raise
    except Exception:
        pipe.send((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _end_with_parent() -> None:
    """However that ends, and whatever is being predicted."""
    parent = parent_process()
    assert parent is not None, "a worker has one"
    parent.join()
    os._exit(INTERRUPTED)
