"""A picture that a command of streamsim makes: the same command stands under it in the docs."""

import contextlib
import io
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from streamsim.cli import main


def make(command: str) -> None:
    """Run ``command`` and keep the picture that it names last, beside this file; its other files are thrown away."""
    *words, picture = shlex.split(command)
    with TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, str(Path(__file__).with_name(picture))])
    sys.exit(code)
