"""``python -m streamsim_validate`` is the ``streamsim-validate`` command: see :func:`main`."""

from streamsim.errors import INTERRUPTED


def main() -> int:
    """Load the command and run it; Ctrl-C ends it without a word while it is still being loaded, too."""
    try:
        from streamsim_validate.cli import main as command

        return command()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
