"""What a refusal is: an InputError whose message is one printable line; of a command, that line alone on stderr."""

from collections.abc import Callable

import pytest

from streamsim.cli import main
from streamsim.errors import InputError

ERROR = "streamsim: error: "


def refusal(make: Callable[[], object]) -> str:
    """The message of what ``make`` raises."""
    with pytest.raises(InputError) as caught:
        make()
    message = str(caught.value)
    assert message.isprintable()
    return message


def refusal_of(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says on stderr: it prints no result, and exits with 2."""
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(ERROR)
    return err.removeprefix(ERROR)
