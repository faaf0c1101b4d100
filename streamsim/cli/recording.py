"""What explain says and draws of a recording, above the explanation of its program."""

from pathlib import Path

from msgspec.structs import replace

from streamsim.answer import Answer, choices_answer, recording_answer, replay_json
from streamsim.cli.given import Given, NotReplayedError, part_asked, read_part
from streamsim.errors import InputError
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


def recorded_answer(given: Given, why: Answer, is_on_another: bool) -> tuple[Answer, Replay]:
    """Return what was recorded, what binds and how good the replay is, above ``why``; and the replay.

    ``is_on_another``: True if another device than the recording's own is asked for.
    """
    assert given.replayed is not None
    whole, found, without = given.replayed
    summary, (card, _) = summarise(whole), busiest_card(whole)
    use = next(use for use in summary.cards if use.id == card)
    why = replace(
        why,
        verdict=(*map(one_line, verdict_of(use, found.device)), *why.verdict),
        warnings=(*(warnings_of(found, without) if is_on_another else ()), *why.warnings),  # its own card's are noted
        data={**why.data, "replay": {"card": card, **replay_json(found, without)}},
    )
    return recording_answer(why, summary, (found, without)), found
