"""What explain says and draws of a recording, above the explanation of its program."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from streamsim.answer import Answer, choices_answer, recording_answer, replay_json
from streamsim.cli.given import Given, NotReplayedError, part_asked, read_part
from streamsim.device import Device
from streamsim.errors import InputError
from streamsim.program import Schedule
from streamsim.recorded import Replay, busiest_card, named_spans, summarise, verdict_of, warnings_of
from streamsim.text import one_line


def choices_of(path: Path | None) -> Answer:
    """Return what --gpu, --process and --window may name of a recording."""
    if path is None:
        raise InputError("--list: needs a recording; give its file")
    recording, _ = read_part(path)
    return choices_answer(recording, named_spans(recording), path.name, {"schedule": str(path), **part_asked()})


def not_replayed_answer(path: Path, error: NotReplayedError) -> Answer:
    """Return what was recorded, and why it is not explained."""
    data = {"inputs": {"schedule": str(path), **part_asked()}, "replay": None}
    told = Answer(path.name, (one_line(f"not replayed: {error}"),), data=data)
    return recording_answer(told, summarise(error.recording))


def recorded_answer(
    path: Path, given: Given, program: tuple[Schedule, Device], why: Answer, options: Sequence[str]
) -> tuple[Answer, Replay]:
    """Return what was recorded, what binds, what to try and how good the replay is, above ``why``; and the replay.

    ``program``: what is explained, and on which device; ``options``: those that name this device.
    """
    assert given.replayed is not None
    whole, found, without = given.replayed
    summary, (card, _) = summarise(whole), busiest_card(whole)
    use = next(use for use in summary.cards if use.id == card)
    part = ((f"--{name.replace('_', '-')}", value) for name, value in part_asked().items())
    words = [str(path), *(str(word) for pair in part for word in pair if word is not True), *options]
    verdict = map(one_line, verdict_of(use, *program, shlex.join(words)))
    why = replace(
        why,
        verdict=(*verdict, *why.verdict),
        warnings=(*(warnings_of(found, without) if options else ()), *why.warnings),  # its own card's are noted
        data={**why.data, "replay": {"card": card, **replay_json(found, without)}},
    )
    return recording_answer(why, summary, (found, without)), found
