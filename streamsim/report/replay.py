"""A recorded program replayed, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim.device.assumptions import known_within
from streamsim.recorded.replay import PREDICTED, TAKEN, warnings_of
from streamsim.report.tables import Row, Table, cut, facts
from streamsim.text.quantities import format_change, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim.recorded.replay import EngineReplay, Misplaced, Replay, Unrecorded


ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def replay_table(found: Replay, without: Unrecorded | None = None) -> Table:
    """Return the recorded and predicted times: in all, by engine, of the worst-placed ops; and where they come from.

    Below stands the replay ``without`` the cost of recording, if it is given.
    """
    in_all = f"{format_seconds(found.predicted_s)}, {format_change(found.error)}"
    times = [
        ("", "in the recording", "in the replay as recorded"),
        ("first work's call to last end", format_seconds(found.recorded_s), in_all),
        *(_engine(engine) for engine in found.engines if engine.recorded_s or engine.predicted_s),
    ]
    misplaced = [op for op in found.worst if op.predicted_s != op.recorded_s]
    known: list[Row] = [
        ("taken from the recording", "", "; ".join(TAKEN)),
        ("predicted", "", "; ".join(PREDICTED)),
        *((unread.what, f"{unread.count:,}", unread.why) for unread in found.program.assumed),
    ]
    if found.stamps_s:
        more = "more from engine to engine of the card"
        known.append(("while it is recorded", format_seconds(found.stamps_s), more))
    groups = (times, map(_misplaced, misplaced), known, () if without is None else _unrecorded(without))
    return facts(f"replayed on {found.device.name}", (map(cut, group) for group in groups))


def _engine(engine: EngineReplay) -> Row:
    change = f", {format_change(engine.predicted_s / engine.recorded_s - 1)}" if engine.recorded_s else ""
    predicted = f"{format_seconds(engine.predicted_s)}{change}"
    return f"{ENGINE_NAMES.get(engine.name, engine.name)}, busy", format_seconds(engine.recorded_s), predicted


def _misplaced(op: Misplaced) -> Row:
    late = op.predicted_s - op.recorded_s
    where = f"{format_seconds(op.predicted_s)}: {format_seconds(abs(late))} {'late' if late > 0 else 'early'}"
    return f"worst placed: ops[{op.op}] {op.label}", format_seconds(op.recorded_s), where


def _unrecorded(without: Unrecorded) -> Iterator[Row]:
    low, high = format_seconds(without.least_s), format_seconds(without.most_s)
    between = "" if low == high else f"between {low} and {high}"
    yield "replay without recording", format_seconds(without.predicted_s), between
    yield "", "", without.how
    if without.untraced_s is not None:
        said = "as given" if without.is_reached else "as given; not reached"
        yield "when nothing records it", format_seconds(without.untraced_s), said
    yield "what recording cost", format_seconds(without.program.taken_out_s), "taken off the host's time"


def replay_json(found: Replay, without: Unrecorded) -> dict[str, Any]:
    """Return plain numbers and strings; units are in the names."""
    import msgspec

    return {
        "device": found.device.name,
        "known_within": known_within(found.device) or None,
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
