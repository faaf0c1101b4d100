"""Lines of C++ as clang-format breaks them: in Google's style, up to 100 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH = 100
INDENT = "  "


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """The lines so many blocks deeper."""
    return [f"{INDENT * by}{line}" if line else "" for line in lines]


def filled(head: str, words: Sequence[str], tail: str, depth: int, between: str = ",") -> list[str]:
    """``head`` and words up to ``tail``, in a block of this depth: as many in a line as have room, the rest below."""
    room = WIDTH - len(INDENT) * depth
    lines = [head]
    for k, word in enumerate(words):
        end = between if k < len(words) - 1 else tail
        space = " " if k else ""
        if len(lines[-1]) + len(space + word + end) > room:
            lines.append(" " * len(head) + word + end)
        else:
            lines[-1] += space + word + end
    return lines


def assigned(name: str, head: str, words: Sequence[str], tail: str, depth: int) -> list[str]:
    """As :func:`filled`, behind ``name =``: in a line of its own, where one does for all words."""
    value = f"{head}{', '.join(words)}{tail}"
    room = WIDTH - len(INDENT) * depth
    if len(name) + 1 + len(value) > room >= len(value) + 4:
        return [name, f"    {value}"]
    return filled(f"{name} {head}", words, tail, depth)


def opened(head: str, items: str, tail: str, depth: int) -> list[str]:
    """A list in braces, in a line of its own where that of ``head`` has no room."""
    line = f"{head}{items}{tail}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, f"    {items}{tail}"]


def packed(head: str, words: Iterable[str], tail: str, room: int) -> list[str]:
    """``head``, words and ``tail`` in each line, with as many of the words as have room."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1].removesuffix(tail)}, {word}{tail}" if lines else ""
        if lines and len(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(f"{head}{word}{tail}")
    return lines


def declared(kind: str, words: Iterable[str]) -> list[str]:
    """Variables of a kind, in the block of a function."""
    return packed(f"{kind} ", words, ";", WIDTH - len(INDENT))


def block(head: str, body: list[str], depth: int) -> list[str]:
    """A loop or condition; of a single call without braces, in one line where it has room."""
    if len(body) > 1 or not body[0].endswith(";"):
        return [f"{head} {{", *indented(body), "}"]
    line = f"{head} {body[0]}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, INDENT + body[0]]


def over(variable: str, items: Iterable[str], body: list[str], depth: int) -> list[str]:
    """The body for each of the items, in a loop that needs no braces."""
    room = WIDTH - len(INDENT) * depth
    lines: list[str] = []
    for head in packed(f"for ({variable} : {{", items, "})", room):
        line = f"{head} {body[0]}"
        lines += (
            [line]
            if len(body) == 1 and len(line) <= room and not body[0].startswith("for ")
            else [head, *indented(body)]
        )
    return lines
