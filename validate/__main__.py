"""``python -m streamsim_validate`` is the ``streamsim-validate`` command: see :func:`main`."""

from streamsim.__main__ import load_and_run


def main() -> int:
    """Load the command and run it; Ctrl-C ends it without a word while it is still being loaded, too."""
    return load_and_run("streamsim_validate.cli")


if __name__ == "__main__":
    raise SystemExit(main())
