"""Long lines of programs, broken as the formatters of their languages break them: ruff, and clang-format (Google)."""

from itertools import pairwise

PYTHON_WIDTH, CUDA_WIDTH = 88, 100
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def _split(line: str) -> tuple[str, list[str], str]:
    """Return what is before the last brackets of a line that are in no others, the words in them, and the rest."""
    depth, ends, found = 0, [0], [0]
    for k, character in enumerate(line):
        depth += _BRACKETS.get(character, 0)
        if depth == 1 and character in "([{":
            ends = [k]
        elif depth == 1 and character == ",":
            ends.append(k)
        elif depth == 0 and character in ")]}":
            found = [*ends, k]
    words = [line[begin + 1 : end].strip() for begin, end in pairwise(found)]
    return line[: found[0] + 1], words, line[found[-1] :]


def python_lines(line: str) -> list[str]:
    """Return a line of Python; what is in brackets, if it is too long, in a line of its own, or an item a line."""
    if len(line) <= PYTHON_WIDTH:
        return [line]
    head, items, tail = _split(line)
    margin = line[: len(line) - len(line.lstrip())]
    body = f"{margin}    {', '.join(items)}"
    is_call = head[-2].isalnum()
    if is_call and len(body) <= PYTHON_WIDTH:
        return [head, body, margin + tail]
    return [head, *(f"{margin}    {item}," for item in items), margin + tail]


def cuda_lines(line: str) -> list[str]:
    """Return a line of C++; the arguments of a call, if it is too long, with as many in each line as fit."""
    if len(line) <= CUDA_WIDTH or line.lstrip().startswith("//"):
        return [line]
    head, words, tail = _split(line)
    while len(words) == 1 and words[0][-1] in ")}":
        inner, words, end = _split(words[0])
        head, tail = head + inner, end + tail
    lines = [head + words[0]]
    for word, end in zip(words[1:], [*"," * (len(words) - 2), tail], strict=True):
        if len(f"{lines[-1]}, {word}{end}") <= CUDA_WIDTH:
            lines[-1] += f", {word}"
        else:
            lines[-1] += ","
            lines.append(" " * len(head) + word)
    return [*lines[:-1], lines[-1] + tail]
