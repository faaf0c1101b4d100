"""A refusal is one printable line that names the thing and shows what is wrong or what to do.

A value raises InputError. A command says the line on stderr, prints nothing, exits with 2 and leaves its folder as it
was.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from streamsim.cli import main
from streamsim.errors import InputError

LONGEST = 560  # a message, and the name of the file before it


def refusal(make: Callable[[], object], said: str = "") -> str:
    """The message of what ``make`` raises, which is checked as ``shows`` does."""
    with pytest.raises(InputError) as caught:
        make()
    return shows(str(caught.value), said)


def refused(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    said: str = "",
    program: Callable[..., int] = main,
    code: int = 2,
) -> str:
    """The message of a command in the folder of the process, which is checked as ``shows`` does."""
    before = contents()
    assert program(command) == code
    out, err = capsys.readouterr()
    assert contents() == before
    assert (out, err.count("\n")) == ("", 1), err
    return shows(err.rstrip("\n").partition(": error: ")[2], said)


def shows(message: str, said: str) -> str:
    """The message, once it begins with ``said``; what follows "..." in it may stand anywhere behind."""
    begins, *more = said.split("...")
    assert message.isprintable()
    assert len(message) <= LONGEST
    assert message.startswith(begins), message
    assert not [part for part in more if part not in message], message
    return message


def contents() -> dict[Path, bytes]:
    """All files and folders below that of the process."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in Path().rglob("*")}
