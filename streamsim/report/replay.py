"""A recorded program replayed, as a table and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamsim.recorded.recording_costs import STAMPS_S
from streamsim.recorded.replay import PREDICTED, TAKEN
from streamsim.report.recording import add_row, plain_table
from streamsim.text.quantities import format_change, format_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from streamsim.recorded.program import RecordedProgram
    from streamsim.recorded.replay import Replay


ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def replay_table(found: Replay, untraced: RecordedProgram, untraced_s: float | None = None) -> Table:
    """Recorded beside predicted: in all, engine by engine, the worst-placed ops; what is taken and what is predicted.

    ``untraced``: the program without what recording cost; ``untraced_s``: what it takes then, where that is known.
    """
    table = plain_table(f"replayed on {found.device.name}")
    add_row(table, "", "in the recording", "in the replay")
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
    table.add_section()
    if untraced_s is not None:
        fitted = "as timed; what recording cost is fitted to it, where it can be"
        add_row(table, "when nothing records it", format_seconds(untraced_s), fitted)
    add_row(table, "what recording cost", format_seconds(untraced.taken_out_s), _off(untraced))
    add_row(table, "", format_seconds(STAMPS_S), "from engine to engine of the card, which the replay here is with")
    return table


def _off(program: RecordedProgram) -> str:
    costs = program.costs
    each = [f"{format_seconds(costs.call_s)} a call"]
    each += [f"{format_seconds(costs.between_s)} before it"] * (costs.between_s > 0)
    each += [f"{format_seconds(costs.work_s)} more of one that puts work on the card"] * (costs.work_s > 0)
    each += [f"{format_seconds(costs.unwritten_s)} for those beside it that are not written"] * (costs.unwritten_s > 0)
    each += [f"{format_seconds(costs.operation_s)} a recorded operation"] * (costs.operation_s > 0 or len(each) == 1)
    return f"of the host's time, which the schedule is without: {', '.join(each)}"


def replay_json(found: Replay, untraced: RecordedProgram, untraced_s: float | None = None) -> dict[str, Any]:
    """Plain numbers and strings; units are in the names."""
    import msgspec

    return {
        "device": found.device.name,
        "recorded_s": found.recorded_s,
        "predicted_s": found.predicted_s,
        "error": found.error,
        "engines": msgspec.to_builtins(found.engines),
        "worst": msgspec.to_builtins(found.worst),
        "taken": TAKEN,
        "predicted": PREDICTED,
        "assumed": msgspec.to_builtins(found.program.assumed),
        "untraced_s": untraced_s,
        "recording_cost": {
            "taken_out_s": untraced.taken_out_s,
            **msgspec.to_builtins(untraced.costs),
            "between_engines_s": STAMPS_S,
        },
    }
