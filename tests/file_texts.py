"""Texts of files, whole and with faults to be put in."""

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=20)


WORKLOAD = 'elements = "16Mi"\ninputs = ["4B", 8]\noutputs = []\n[[kernels]]\nduration_s = "0.57ms"\n'

COPY = '{"op":"copy","direction":"h2d","bytes":8,"stream":1}'


def document(op: str = COPY, more: str = "") -> bytes:
    return f'{{"streams":["blocking"],{more + "," if more else ""}"ops":[{COPY},{op}]}}'.encode()
