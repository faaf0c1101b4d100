"""Titles of pictures and pages: what ran, spelled out, and where."""

import re

from streamsim.text import counted, one_line
from streamsim.timeline import Timeline

NUMBERS = {"N": "chunk", "S": "stream", "K": "buffer"}  # in the names of schedules: depth-first N=16 S=4
NUMBER = re.compile(r" (?:([NSK])|(chunk|stream|buffer)s?)=(\d+)\b")  # or of recipes: depth-first chunks=16 streams=4
UNNAMED = "schedule"


def spelled_out(name: str) -> str:
    """Return the name of a schedule with its numbers in words: ``depth-first, 16 chunks, 4 streams``."""

    def words(found: re.Match[str]) -> str:
        return f", {counted(int(found[3]), found[2] or NUMBERS[found[1]])}"

    return one_line(NUMBER.sub(words, name or UNNAMED).replace(" launch=graph", ", as a graph"))


def title_of(timeline: Timeline) -> str:
    """Return what ran, and on which device, or that it was measured."""
    where = "measured" if timeline.device is None else f"on {one_line(timeline.device.name)}"
    return f"{spelled_out(timeline.schedule.name)}, {where}"
