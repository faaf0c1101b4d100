"""Lines of C++ as clang-format breaks them: in Google's style, up to 100 columns."""

from collections.abc import Iterable, Sequence

WIDTH = 100
INDENT = "  "


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines ``by`` blocks deeper."""
    return [f"{INDENT * by}{line}" if line else "" for line in lines]


def filled(head: str, words: Sequence[str], tail: str, depth: int, between: str = ",") -> list[str]:
    """Return ``head``, the words and ``tail`` in a block of this depth, with as many words in each line as fit."""
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
    """Return the same as :func:`filled`, after ``name =``; the value in a line of its own if it fits there only."""
    value = f"{head}{', '.join(words)}{tail}"
    room = WIDTH - len(INDENT) * depth
    if len(name) + 1 + len(value) > room >= len(value) + 4:
        return [name, f"    {value}"]
    return filled(f"{name} {head}", words, tail, depth)


def opened(head: str, items: str, tail: str, depth: int) -> list[str]:
    """Return a list in braces, in a line of its own if it does not fit behind ``head``."""
    line = f"{head}{items}{tail}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, f"    {items}{tail}"]


def packed(head: str, words: Iterable[str], tail: str, room: int) -> list[str]:
    """Return lines of ``head``, words and ``tail``, with as many words in each line as fit."""
    lines: list[str] = []
    for word in words:
        longer = f"{lines[-1].removesuffix(tail)}, {word}{tail}" if lines else ""
        if lines and len(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(f"{head}{word}{tail}")
    return lines


def declared(kind: str, words: Iterable[str]) -> list[str]:
    """Return the declarations of variables of a kind, in the block of a function."""
    return packed(f"{kind} ", words, ";", WIDTH - len(INDENT))


def block(head: str, body: list[str], depth: int) -> list[str]:
    """Return a loop or condition; a single call needs no braces, and stands in the same line if it fits."""
    if len(body) > 1 or not body[0].endswith(";"):
        return [f"{head} {{", *indented(body), "}"]
    line = f"{head} {body[0]}"
    return [line] if len(line) + len(INDENT) * depth <= WIDTH else [head, INDENT + body[0]]


def over(variable: str, items: Iterable[str], body: list[str], depth: int) -> list[str]:
    """Return a loop that runs the body for each of the items, without braces."""
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
