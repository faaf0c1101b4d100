"""A recorded program replayed, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim.recorded.replay import PREDICTED, TAKEN, warnings_of
from streamsim.report.recording import add_row, plain_table
from streamsim.text.quantities import format_change, format_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.recorded.replay import Replay, Unrecorded


ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def replay_table(found: Replay, without: Unrecorded) -> Table:
    """Recorded beside predicted: in all, engine by engine, the worst-placed ops; what is taken and what is predicted.

    Then the other replay: without what recording cost.
    """
    table = plain_table(f"replayed on {found.device.name}")
    add_row(table, "", "in the recording", "in the replay as recorded")
    in_all = f"{format_seconds(found.predicted_s)}, {format_change(found.error)}"
    add_row(table, "first work's call to last end", format_seconds(found.recorded_s), in_all)
    for engine in found.engines:
        if engine.recorded_s or engine.predicted_s:
            change = engine.predicted_s / engine.recorded_s - 1 if engine.recorded_s else 0.0
            predicted = f"{format_seconds(engine.predicted_s)}, {format_change(change)}"
            name = ENGINE_NAMES.get(engine.name, engine.name)
            add_row(table, f"{name}, busy", format_seconds(engine.recorded_s), predicted)
    table.add_section()
    for op in found.worst:
        late = op.predicted_s - op.recorded_s
        where = f"{format_seconds(op.predicted_s)}: {format_seconds(abs(late))} {'late' if late > 0 else 'early'}"
        add_row(table, f"worst placed: ops[{op.op}] {op.label}", format_seconds(op.recorded_s), where)
    table.add_section()
    for title, words in (("taken from the recording", TAKEN), ("predicted", PREDICTED)):
        add_row(table, title, "", "; ".join(words))
    for unread in found.program.assumed:
        add_row(table, unread.what, f"{unread.count:,}", unread.why)
    if found.stamps_s:
        add_row(table, "while it is recorded", format_seconds(found.stamps_s), "more from engine to engine of the card")
    table.add_section()
    low, high = format_seconds(without.least_s), format_seconds(without.most_s)
    between = "" if low == high else f"between {low} and {high}"
    add_row(table, "replay without recording", format_seconds(without.predicted_s), between)
    add_row(table, "", "", without.how)
    if without.untraced_s is not None:
        said = "as given" if without.is_reached else "as given; not reached"
        add_row(table, "when nothing records it", format_seconds(without.untraced_s), said)
    add_row(table, "what recording cost", format_seconds(without.program.taken_out_s), "taken off the host's time")
    return table


def replay_json(found: Replay, without: Unrecorded) -> dict[str, Any]:
    """Plain numbers and strings; units are in the names."""
    import msgspec

    return {
        "device": found.device.name,
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
