"""Texts of files, whole and with faults to be put in."""

from hypothesis import strategies as st

from streamsim.device import Device
from streamsim.files import dump_toml

texts = st.text(st.characters(codec="utf-8"), max_size=20)


WORKLOAD = 'elements = "16Mi"\ninputs = ["4B", 8]\noutputs = []\n[[kernels]]\nduration_s = "0.57ms"\n'

COPY = '{"op":"copy","direction":"h2d","bytes":8,"stream":1}'


def document(op: str = COPY, more: str = "") -> bytes:
    return f'{{"streams":["blocking"],{more + "," if more else ""}"ops":[{COPY},{op}]}}'.encode()


def edited(device: Device, field: str, text: str) -> str:
    """The TOML of ``device`` with the first ``field`` set to ``text``."""
    lines = dump_toml(device).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{field} = "))
    return "\n".join([*lines[:at], f"{field} = {text}", *lines[at + 1 :]])
