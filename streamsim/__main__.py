"""``python -m streamsim`` is the ``streamsim`` command."""

from streamsim.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
