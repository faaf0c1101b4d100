"""What explain says and draws of a recording, above the explanation of its program."""

from pathlib import Path

from msgspec.structs import replace

from streamsim.advice import Explanation
from streamsim.answer import Answer, choices_answer, recording_answer, replay_json
from streamsim.cli.given import Given, NotReplayedError, part_asked, read_part
from streamsim.errors import InputError
from streamsim.recorded import Replay, busiest_card, named_spans, pages_to_prefetch, summarise, verdict_of, warnings_of
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


def recorded_answer(given: Given, explanation: Explanation, why: Answer, is_on_another: bool) -> tuple[Answer, Replay]:
    """Return what was recorded, what binds and how good the replay is, above ``why``, the explanation; and the replay.

    Pages that move while kernels wait come first where prefetching them may save more than the changes that were made.

    ``is_on_another``: True if another device than the recording's own is asked for.
    """
    assert given.replayed is not None
    whole, found, without = given.replayed
    summary, (card, _) = summarise(whole), busiest_card(whole)
    use = next(use for use in summary.cards if use.id == card)
    words, saved_s = pages_to_prefetch(use, found.device)
    first, largest = explanation.first, explanation.losses[:1]
    if saved_s > max(first.saved_s() if first else 0.0, *(loss.lost_s for loss in largest), 0.0):
        then = [line.replace("first:", "then:", 1) for line in why.verdict] if first else []
        why = replace(why, verdict=(f"first: {words}", *then), data={**why.data, "advice": words})
    why = replace(
        why,
        verdict=(*map(one_line, verdict_of(use)), *why.verdict),
        warnings=(*(warnings_of(found, without) if is_on_another else ()), *why.warnings),  # its own card's are noted
        data={**why.data, "replay": {"card": card, **replay_json(found, without)}},
    )
    return recording_answer(why, summary, (found, without)), found
