"""Numbers of things, and lists of words, as sentences have them."""

from collections.abc import Sequence


def counted(count: int, what: str, plural: str = "s") -> str:
    """Return a number of things: ``1 stream``, ``2 streams``, ``1,000 streams``; ``plural``: the ending of several."""
    return f"{count:,} {what}{'' if count == 1 else plural}"


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([*filter(None, [", ".join(words[:-1])]), *words[-1:]])
