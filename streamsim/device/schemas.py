"""JSON Schemas of the kinds of file, as ``streamsim schema`` prints them."""

from typing import Any

import msgspec

from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.program import Layers, Point, ScheduleFile, WorkloadFile, WorkloadKernel
from streamsim.text import shown

KINDS: dict[str, type[msgspec.Struct]] = {
    "schedule": ScheduleFile,
    "workload": WorkloadFile,
    "layers": Layers,
    "device": Device,
}


# The types that a TOML file may hold in place of a table.
_IN_PLACE_OF_TABLE = {
    f"#/$defs/{WorkloadKernel.__name__}": ("string", "number"),
    f"#/$defs/{Point.__name__}": ("string",),
}


def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a ``schedule``, ``workload``, ``layers`` or ``device`` file.

    Raises InputError for another kind.
    """
    if kind not in KINDS:
        raise InputError(f"kind = {shown(kind)}: expected one of {', '.join(KINDS)}")
    exact = msgspec.json.schema(KINDS[kind])
    return exact if kind == "schedule" else _or_text(exact)


def _or_text(node: Any) -> Any:
    """Return a schema that also allows text, such as ``"64MiB"``, for each number and kernel, as TOML files may."""
    if isinstance(node, list):
        return [_or_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("integer", "number"):
        return {**node, "type": [node["type"], "string"]}
    if other := _IN_PLACE_OF_TABLE.get(node.get("$ref", "")):
        return {"anyOf": [node, *({"type": kind} for kind in other)]}
    unchanged = ("default", "additionalProperties")  # a spread has arbitrary names, and its values must be numbers
    return {key: value if key in unchanged else _or_text(value) for key, value in node.items()}
