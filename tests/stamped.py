"""What every JSON result of the command begins with, beside what the library says."""

import re
from importlib.metadata import version
from typing import Any


def unstamped(value: dict[str, Any]) -> dict[str, Any]:
    """Take the stamp out of a result for a device, once it is checked; what is left is what the library says."""
    assert next(iter(value)) == "schema_version"
    assert value.pop("streamsim") == version("streamsim")
    profile = value.pop("profile")
    assert profile["name"]
    assert re.fullmatch("[0-9a-f]{16}", profile["digest"])
    return value
