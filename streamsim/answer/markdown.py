"""Answers as Markdown: tables are tables, a sentence is a paragraph, a time line in letters is code."""

from streamsim.answer.document import Answer
from streamsim.report import Table, gantt, in_markdown
from streamsim.timeline import Timeline

FENCE = "```"


def markdown_of(answer: Answer, everything: bool = False) -> str:
    """Return ``answer`` as Markdown. ``everything``: with what stands behind ``--all``."""
    return "\n\n".join((f"**{in_markdown(answer.title)}**", *map(_written, answer.parts(everything)), ""))


def _written(part: str | Table | Timeline) -> str:
    if isinstance(part, Table):
        return part.markdown()
    return f"{FENCE}text\n{gantt(part)}\n{FENCE}" if isinstance(part, Timeline) else in_markdown(part)
