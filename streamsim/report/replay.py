"""A recorded program replayed, as a table and as JSON."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from streamsim.recorded import PREDICTED, TAKEN, EngineReplay, Misplaced, Replay, Unrecorded, warnings_of
from streamsim.report.tables import Row, Table, cut, facts
from streamsim.text import format_change, format_seconds

ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def replay_table(found: Replay, without: Unrecorded | None = None) -> Table:
    """Return the recorded and predicted times: in all, by engine, of the worst-placed ops; and where they come from.

    Below stands the replay ``without`` the cost of recording, if it is given.
    """
    within = found.known_within
    in_all = f"{format_seconds(found.predicted_s, within)}, {format_change(found.error, within)}"
    times = [
        ("", "in the recording", "in the replay as recorded"),
        ("first work's call to last end", format_seconds(found.recorded_s), in_all),
        *(_engine(engine, within) for engine in found.engines if engine.recorded_s or engine.predicted_s),
    ]
    known: list[Row] = [
        ("taken from the recording", "", "; ".join(TAKEN)),
        ("predicted", "", "; ".join(PREDICTED)),
        *((unread.what, f"{unread.count:,}", unread.why) for unread in found.program.assumed),
    ]
    if found.stamps_s:
        more = "more from engine to engine of the card"
        known.append(("while it is recorded", format_seconds(found.stamps_s), more))
    worst = [_misplaced(op, within) for op in found.worst if op.predicted_s != op.recorded_s]
    groups = (times, worst, known, () if without is None else _unrecorded(without, within))
    return facts(f"replayed on {found.device.name}", (map(cut, group) for group in groups))


def _engine(engine: EngineReplay, within: float) -> Row:
    change = f", {format_change(engine.predicted_s / engine.recorded_s - 1, within)}" if engine.recorded_s else ""
    predicted = f"{format_seconds(engine.predicted_s, within)}{change}"
    return f"{ENGINE_NAMES.get(engine.name, engine.name)}, busy", format_seconds(engine.recorded_s), predicted


def _misplaced(op: Misplaced, within: float) -> Row:
    late_s = op.predicted_s - op.recorded_s
    seconds = partial(format_seconds, within=within)
    where = f"{seconds(op.predicted_s)}: {seconds(abs(late_s))} {'late' if late_s > 0 else 'early'}"
    return f"worst placed: ops[{op.op}] {op.label}", format_seconds(op.recorded_s), where


def _unrecorded(without: Unrecorded, within: float) -> Iterator[Row]:
    low, high = format_seconds(without.least_s, within), format_seconds(without.most_s, within)
    between = "" if low == high else f"between {low} and {high}"
    yield "replay without recording", format_seconds(without.predicted_s, within), between
    yield "", "", without.how
    if without.untraced_s is not None:
        said = "as given" if without.is_reached else "as given; not reached"
        yield "when nothing records it", format_seconds(without.untraced_s), said
    yield "what recording cost", format_seconds(without.program.taken_out_s), "taken off the host's time"


def replay_json(found: Replay, without: Unrecorded) -> dict[str, Any]:
    """Return plain numbers and strings; units are in the names."""
    return {
        "device": found.device.name,
        "known_within": found.known_within or None,
        "recorded_s": found.recorded_s,
        "predicted_s": found.predicted_s,
        "error": found.error,
        "warnings": warnings_of(found, without),
        "engines": msgspec.to_builtins(found.engines),
        "worst": msgspec.to_builtins(found.worst),
        "taken": TAKEN,
        "predicted": PREDICTED,
        "assumed": msgspec.to_builtins(found.program.assumed),
        "untraced_s": without.untraced_s,
        "without_recording": {
            "predicted_s": without.predicted_s,
            "least_s": without.least_s,
            "most_s": without.most_s,
            "how": without.how,
            "is_reached": without.is_reached,
        },
        "recording_cost": {
            "taken_out_s": without.program.taken_out_s,
            **msgspec.to_builtins(without.program.costs),
            "between_engines_s": found.stamps_s,
        },
    }
