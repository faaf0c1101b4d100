"""What the command prints, as text or JSON, and what every result begins with beside what the library says."""

import json
import re
from importlib.metadata import version
from typing import Any

import pytest

from streamsim.cli import main
from streamsim.errors import FOUND, OK


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints on standard output."""
    capsys.readouterr()
    assert main(list(arguments)) in (OK, FOUND)
    return capsys.readouterr().out


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON object that a command prints."""
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))
    return found


def unstamped(value: dict[str, Any]) -> dict[str, Any]:
    """Take the stamp out of a result for a device, once it is checked; what is left is what the library says."""
    assert next(iter(value)) == "schema_version"
    assert value.pop("streamsim") == version("streamsim")
    profile = value.pop("profile")
    assert profile["name"]
    assert re.fullmatch("[0-9a-f]{16}", profile["digest"])
    return value
