"""The JSON Schemas of the kinds of file: what ``streamsim schema`` prints."""

from typing import Any

import msgspec

from streamsim.device.profile import Device
from streamsim.errors import InputError
from streamsim.program.files import ScheduleFile, WorkloadFile
from streamsim.program.layers import Layers
from streamsim.program.workload import Point, WorkloadKernel
from streamsim.text.shown import shown

KINDS: dict[str, type[msgspec.Struct]] = {
    "schedule": ScheduleFile,
    "workload": WorkloadFile,
    "layers": Layers,
    "device": Device,
}


# What a table may be given as instead.
_OTHERWISE = {
    f"#/$defs/{WorkloadKernel.__name__}": ("string", "number"),
    f"#/$defs/{Point.__name__}": ("string",),
}


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a ``schedule``, ``workload``, ``layers`` or ``device`` file."""
    if kind not in KINDS:
        raise InputError(f"kind = {shown(kind)}: expected one of {', '.join(KINDS)}")
    exact = msgspec.json.schema(KINDS[kind])
    return exact if kind == "schedule" else _or_text(exact)


def _or_text(node: Any) -> Any:
    """A schema with text, such as ``"64MiB"``, in place of each number and kernel of a table, as TOML files may."""
    if isinstance(node, list):
        return [_or_text(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("integer", "number"):
        return {**node, "type": [node["type"], "string"]}
    if other := _OTHERWISE.get(node.get("$ref", "")):
        return {"anyOf": [node, *({"type": kind} for kind in other)]}
    as_it_is = ("default", "additionalProperties")  # of a spread: names are anybody's, and numbers are numbers
    return {key: value if key in as_it_is else _or_text(value) for key, value in node.items()}
