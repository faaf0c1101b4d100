"""``python -m streamsim`` is the ``streamsim`` command: see :func:`main`."""

import sys
from _thread import interrupt_main
from importlib import import_module
from threading import Timer
from typing import Any

from streamsim.errors import INTERRUPTED

AGAIN_S = 0.05


def main() -> int:
    """Load the command and run it; Ctrl-C ends it without a word while it is still being loaded, too."""
    return load_and_run("streamsim.cli")


def load_and_run(module: str) -> int:
    """The exit code of ``main`` of a module that takes a while to import."""
    sys.unraisablehook = _interrupt_again
    try:
        code: int = import_module(module).main()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _interrupt_again(unraisable: Any) -> None:
    """Ctrl-C while a callback runs, of the import system say, is lost there: it comes once more when that is over."""
    if unraisable.exc_type is KeyboardInterrupt:
        Timer(AGAIN_S, interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    raise SystemExit(main())
