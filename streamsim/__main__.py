"""``python -m streamsim`` is the ``streamsim`` command: see :func:`main`."""

from importlib import import_module

from streamsim.errors import INTERRUPTED


def main() -> int:
    """Load the command and run it; Ctrl-C ends it without a word while it is still being loaded, too."""
    return load_and_run("streamsim.cli")


def load_and_run(module: str) -> int:
    """The exit code of ``main`` of a module that takes a while to import."""
    try:
        return int(import_module(module).main())
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
