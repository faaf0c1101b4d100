"""Columns of whole numbers as a short text, which the page's viewer unpacks.

Signs are folded (0, -1, 1, -2 become 0, 1, 2, 3). Each number takes seven bits a byte, the least first, and all but
its last byte have the highest bit set. The bytes of all columns are deflated and written in base64.
"""

import base64
import zlib
from collections.abc import Iterable

SMALLEST = 9  # the level of zlib that packs most


def packed(columns: Iterable[Iterable[int]]) -> str:
    """Return ``columns`` as a text of printable ASCII."""
    raw = bytearray()
    for column in columns:
        for value in column:
            folded = value << 1 if value >= 0 else ~(value << 1)
            while folded > 127:
                raw.append(folded & 127 | 128)
                folded >>= 7
            raw.append(folded)
    return deflated(bytes(raw))


def deflated(raw: bytes) -> str:
    """Return bytes as a text of printable ASCII: deflated, in base64."""
    return base64.b64encode(zlib.compress(raw, SMALLEST)).decode("ascii")
