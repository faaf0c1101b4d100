"""Detection of a file's kind from its content, for errors about a file of the wrong kind."""

import re
import tomllib
import zlib

# By kind: its name, and the command or option that takes it.
WORDS = {
    "schedule": "a schedule, for `streamsim predict`",
    "workload": "a workload, for `streamsim predict`",
    "layers": "the layers of a model, for --layers",
    "loop": "a training loop, for `streamsim loop`",
    "device": "a device profile, for --device",
    "sweep": "the options of a sweep, for `streamsim sweep --file`",
    "record": "a record of measured runs, for `streamsim-validate compare`",
    "journal": "the journal of an unfinished record, for `streamsim-validate compare`",
    "samples": "calibration samples, for `streamsim-validate calibrate --from`",
    "trace": "a trace, for https://ui.perfetto.dev",
}
HEAD_BYTES = 1 << 16  # of a file, unpacked: its kind shows in them
LARGEST_TOML_BYTES = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
# JSON by kind: a pattern that shows the kind. The first one that is found counts.
_JSON = {
    "journal": re.compile(rb'\A\s*\{"line":'),
    "record": re.compile(rb'"machine"\s*:'),
    "samples": re.compile(rb'"timings"\s*:'),
    "trace": re.compile(rb'"traceEvents"\s*:'),
    "schedule": re.compile(rb'"(?:ops|buffers|streams)"\s*:\s*\['),
}
# TOML by kind: names that only this kind has.
_TOML = {"device": {"compute", "host", "copy_engines"}, "workload": {"inputs", "outputs", "kernels"}}
_TOML |= {"layers": {"layers", "passes", "direction"}, "loop": {"batch", "sample", "batch_bytes", "step"}}
_TOML |= {"sweep": {"set", "h2d", "d2h", "kernel", "scale", "workload"}}


def mistaken_for(kind: str, data: bytes) -> str:
    """Return words such as ``"is calibration samples, ..."`` if ``data`` is empty or of another kind, else ``""``."""
    expected = WORDS[kind].partition(",")[0]
    if not data.strip() and kind in ("schedule", *_TOML):  # an empty packed file has an error of its own
        return f"is empty; expected {expected}"
    found = kind_of(data)
    if found in ("", kind):
        return f"is JSON; expected {expected}, in TOML" if kind in _TOML and data.lstrip()[:1] == b"{" else ""
    if is_cut_short(data) and found != "journal":  # a journal grows line by line and may end anywhere
        return f"is the beginning of {WORDS[found].partition(',')[0]}, cut short; expected {expected}"
    return f"is {WORDS[found]}; expected {expected}"


def is_cut_short(data: bytes) -> bool:
    """Return True if ``data`` begins as a JSON object and does not end as one."""
    return data.lstrip()[:1] == b"{" and data.rstrip()[-1:] != b"}"


def kind_of(data: bytes) -> str:
    """Return the kind of a file from its content or its beginning: a key of ``WORDS``, or ``""`` if unknown."""
    head = _head(data)
    if head.lstrip()[:1] == b"{":
        return next((kind for kind, shape in _JSON.items() if shape.search(head)), "")
    try:
        names = set(tomllib.loads(data[:LARGEST_TOML_BYTES].decode()))
    except (ValueError, RecursionError):
        return ""
    return next((kind for kind, own in _TOML.items() if names & own), "workload" if "elements" in names else "")


def _head(data: bytes) -> bytes:
    if not data.startswith(GZIP_MAGIC):
        return data[:HEAD_BYTES]
    try:
        return zlib.decompressobj(wbits=31).decompress(data, HEAD_BYTES)
    except zlib.error:
        return b""
