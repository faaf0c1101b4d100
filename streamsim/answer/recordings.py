"""Answers on recordings: what was recorded, what stands still and why, and the replay by the model."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any

import msgspec
from msgspec import to_builtins

from streamsim.answer.document import Answer, Pictures
from streamsim.page import Beside, Shown
from streamsim.recorded import (
    PREDICTED,
    TAKEN,
    AnnotationKind,
    EngineReplay,
    Misplaced,
    NamedSpan,
    RecordedAmount,
    RecordedCalls,
    RecordedCardUse,
    RecordedReason,
    Recording,
    RecordingSummary,
    Replay,
    Unrecorded,
    warnings_of,
)
from streamsim.report import ANNOTATION, LONGEST_CELL, Row, Table, cut, facts
from streamsim.text import counted, format_bytes, format_change, format_seconds, one_line

MOST_CALLS, MOST_REASONS, MOST_SPANS = 8, 6, 50
FIRST_CALLS = 2  # that are shown without being asked for
ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def recording_answer(why: Answer, summary: RecordingSummary, replay: tuple[Replay, Unrecorded] | None = None) -> Answer:
    """Return ``why``, the explanation of a recorded program, below what was recorded and how good the replay is."""
    explained = () if why.facts is None else why.facts.groups
    return msgspec.structs.replace(
        why,
        facts=_cut_facts("", (_headline(summary, replay), *explained, *_groups(summary))),
        more=(*_rest(summary), *why.more, *(() if replay is None else replay_tables(*replay))),
        pictures=lambda: _pictures(why, replay),
        data={**why.data, **to_builtins(summary)},
        rows=[*_rows(summary), *why.rows],
    )


def _pictures(why: Answer, replay: tuple[Replay, Unrecorded] | None) -> Pictures:
    """Return the time lines of ``why``, and those recorded and replayed; the changed one stands above the recorded."""
    drawn = why.pictures()
    of_recording = () if replay is None else _lines(replay[0])
    return msgspec.structs.replace(drawn, lines=(*drawn.lines[:-1], *of_recording, *drawn.lines[-1:]))


def replay_answer(title: str, found: Replay) -> Answer:
    """Return the answer of a replay: the recorded time line, the replayed one, and their tables."""
    first, rest = replay_tables(found)
    return Answer(
        title=title,
        warnings=tuple(warnings_of(found)),
        tables=(first,),
        more=(rest,),
        pictures=lambda: Pictures(lines=_lines(found)),
    )


def choices_answer(recording: Recording, spans: list[NamedSpan], title: str, inputs: dict[str, Any]) -> Answer:
    """Return what --gpu, --process and --window may name. ``inputs``: what was asked, for JSON."""
    cards = [
        (f"--gpu {card.id}", card.name, format_bytes(card.memory_bytes) if card.memory_bytes else "")
        for card in recording.cards
    ]
    names = dict(recording.processes)
    used = sorted({recording.threads[thread].process for thread in set(recording.calls.thread.tolist())})
    processes = [(f"--process {process}", names.get(process, ""), "") for process in used]
    windows = list(map(_window, spans))
    left = len(spans) - MOST_SPANS
    groups = [list(map(cut, group)) for group in (cards, processes, windows)]
    first = (*groups[:2], groups[2][:MOST_SPANS])
    data = {
        "devices": to_builtins(recording.cards),
        "processes": [{"id": number, "name": name} for number, name in recording.processes],
        "windows": to_builtins(spans),
    }
    return Answer(
        title=title,
        facts=facts("", first),
        notes=(f"and {left:,} more names: --all has them",) if left > 0 else (),
        more=(facts("", [groups[2][MOST_SPANS:]]),) if left > 0 else (),
        data={"inputs": inputs, **data},
        rows=[{"option": option, **one} for option, some in data.items() for one in some],
    )


def _window(span: NamedSpan) -> Row:
    option = f"--window '{one_line(span.name, LONGEST_CELL)}'"
    longest, first = format_seconds(span.longest_s), format_seconds(span.first_s)
    if span.count == 1:
        return option, longest, f"at {first}"
    return option, f"{longest} at the longest", f"{span.count} times, first at {first}"


# What was recorded


def _headline(summary: RecordingSummary, replay: tuple[Replay, Unrecorded] | None) -> Iterator[Row]:
    yield "recorded", format_seconds(summary.end_s - summary.start_s), summary.tool
    if replay is None:
        return
    found, without = replay
    error = f"{format_change(found.error, found.known_within)} of the {format_seconds(found.recorded_s)} recorded"
    yield "replayed", format_seconds(found.predicted_s, found.known_within), error
    if without is not None and (without.program.taken_out_s or without.untraced_s is not None):
        yield from _unrecorded(without, found.known_within)


def _groups(summary: RecordingSummary) -> Iterator[list[Row]]:
    yield [_amount("", amount) for amount in (*summary.work, *summary.pages)]
    for card in summary.cards:
        yield _card(card)
    yield [_call(use) for use in summary.calls[:FIRST_CALLS]]
    yield [(unread.what, f"{unread.count:,}", f"not understood: {unread.why}") for unread in summary.unread]


def _rest(summary: RecordingSummary) -> list[Table]:
    """Return what stands behind ``--all``: why cards stood still, the host's work, annotations and calls."""
    by = f"by {counted(summary.threads, 'thread')} of {counted(summary.processes, 'process', 'es')}"
    streams: list[Row] = [("streams", str(summary.streams), f"issued {by}")]
    host = [_amount("host: ", amount) for amount in summary.host]
    annotations = [_amount("annotations: ", amount) for amount in summary.annotations]
    calls = [_call(use) for use in summary.calls[FIRST_CALLS:MOST_CALLS]]
    return [_cut_facts("", (streams, *map(_stands_still, summary.cards), host, annotations, calls))]


def _amount(title: str, amount: RecordedAmount) -> Row:
    rate = f", {amount.bytes / amount.time_s / 1e9:.4g} GB/s" if amount.bytes and amount.time_s else ""
    size = f"{format_bytes(amount.bytes)}{rate}, " if amount.bytes else ""
    time = f"{format_seconds(amount.time_s)} in all" if amount.time_s else ""
    return f"{title}{amount.what}", f"{amount.count:,}", f"{size}{time}"


def _card(card: RecordedCardUse) -> list[Row]:
    name = f"card {card.id}{f' ({card.name})' if card.name else ''}"
    rows: list[Row] = [(name, format_seconds(card.span_s), "first work's call to last end")]
    for engine in card.engines:
        share = f"{_share(engine.busy_s, card)}, {format_seconds(engine.alone_s)} of it alone"
        rows.append((f"{engine.name} busy", format_seconds(engine.busy_s), share))
    rows.append(
        ("overlap", format_seconds(card.overlap_s), f"{_share(card.overlap_s, card)}: two engines or more busy")
    )
    rows.append(("idle", format_seconds(card.idle_s), f"{_share(card.idle_s, card)}: no engine busy"))
    rows.append(("no kernel", format_seconds(card.without_kernel_s), f"{_share(card.without_kernel_s, card)}"))
    return rows


def _stands_still(card: RecordedCardUse) -> Iterator[Row]:
    """Yield why no engine is busy, and why no kernel runs."""
    whys = {"idle": (card.idle, card.idle_s), "no kernel": (card.without_kernel, card.without_kernel_s)}
    for name, (reasons, of_s) in whys.items():
        yield f"card {card.id}: {name}", format_seconds(of_s), _share(of_s, card)
        yield from _reasons(reasons, of_s)


def _reasons(reasons: tuple[RecordedReason, ...], of_s: float) -> list[Row]:
    shown: list[Row] = [("", format_seconds(reason.time_s), reason.why) for reason in reasons[:MOST_REASONS]]
    rest_s = of_s - sum(reason.time_s for reason in reasons[:MOST_REASONS])
    return [*shown, ("", format_seconds(rest_s), "other reasons")] if len(reasons) > MOST_REASONS else shown


def _call(use: RecordedCalls) -> Row:
    each = f"median {format_seconds(use.median_s)}, longest {format_seconds(use.longest_s)}"
    words = f"{counted(use.count, 'call')}: {each} at {format_seconds(use.longest_at_s)}"
    return f"in {use.name}", format_seconds(use.total_s), words


def _share(seconds: float, card: RecordedCardUse) -> str:
    return f"{seconds / card.span_s:.1%}" if card.span_s else "0.0%"


def _rows(summary: RecordingSummary) -> Iterator[dict[str, Any]]:
    """Yield the rows of CSV: work of the cards and of the host, annotations, calls, times of each card."""
    for where in ("work", "host", "annotations"):
        for amount in getattr(summary, where):
            yield {"where": where, **to_builtins(amount)}
    for use in summary.calls:
        yield {"where": "calls", "what": use.name, "count": use.count, "bytes": 0, "time_s": use.total_s}
    for card in summary.cards:
        busy = [(f"{engine.name} busy", engine.busy_s) for engine in card.engines]
        for what, seconds in (("span", card.span_s), *busy, ("overlap", card.overlap_s), ("idle", card.idle_s)):
            yield {"where": f"card {card.id}", "what": what, "count": 1, "bytes": 0, "time_s": seconds}


# The replay


def _lines(found: Replay) -> tuple[Shown, ...]:
    return Shown("recorded", found.recorded, beside=_annotations(found)), Shown("replayed", found.timeline)


def _annotations(found: Replay) -> tuple[Beside, ...]:
    """Return the ranges and steps that the program named: a row for each thread, with a level for each depth."""
    notes, names, first_ns = found.recording.annotations, found.recording.names, found.program.first_ns
    last_ns, threads = first_ns + round(found.recorded_s * 1e9), dict[int, list[tuple[int, str, int, int]]]()
    columns = (notes.thread, notes.start_ns, -notes.end_ns, notes.kind, notes.name)
    for thread, start, minus_end, kind, name in sorted(zip(*(column.tolist() for column in columns), strict=True)):
        begin, end = max(start, first_ns) - first_ns, min(-minus_end, last_ns) - first_ns
        if kind in (AnnotationKind.RANGE, AnnotationKind.STEP) and begin < end:
            spans = threads.setdefault(thread, [])
            ends = dict(zip((span[0] for span in spans), (span[3] for span in spans), strict=True))
            level = next(level for level in count() if ends.get(level, 0) <= begin)
            spans.append((level, names[name], begin, end))
    return tuple(Beside(f"annotations {thread}", ANNOTATION, spans) for thread, spans in threads.items())


def replay_tables(found: Replay, without: Unrecorded | None = None) -> tuple[Table, Table]:
    """Return the recorded and predicted times, in all and by engine; and what stands behind ``--all``.

    That is the worst-placed ops, and where the times come from. The first table ends with the replay ``without`` the
    cost of recording, if it is given.
    """
    within = found.known_within
    in_all = f"{format_seconds(found.predicted_s, within)}, {format_change(found.error, within)}"
    times = [
        ("", "in the recording", "in the replay as recorded"),
        ("first work's call to last end", format_seconds(found.recorded_s), in_all),
        *(_engine(engine, within) for engine in found.engines if engine.recorded_s or engine.predicted_s),
    ]
    assumed = [(unread.what, f"{unread.count:,}", unread.why) for unread in found.program.assumed]
    known: list[Row] = [
        ("taken from the recording", "", "; ".join(TAKEN)),
        ("predicted", "", "; ".join(PREDICTED)),
    ]
    if found.stamps_s:
        more = "more from engine to engine of the card"
        known.append(("while it is recorded", format_seconds(found.stamps_s), more))
    worst = [_misplaced(op, within) for op in found.worst if op.predicted_s != op.recorded_s]
    unrecorded = () if without is None else (*_unrecorded(without, within), *_cost(without))
    first = (times, assumed, unrecorded)
    return _cut_facts(f"replayed on {found.device.name}", first), _cut_facts("of the replay", (worst, known))


def _cut_facts(title: str, groups: Iterable[Iterable[Row]]) -> Table:
    return facts(title, (map(cut, group) for group in groups))


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
    """Yield the time without a profiler, and that which was given."""
    low, high = format_seconds(without.least_s, within), format_seconds(without.most_s, within)
    between = "" if low == high else f"between {low} and {high}"
    yield "replay without recording", format_seconds(without.predicted_s, within), between
    if without.untraced_s is not None:
        said = "as given" if without.is_reached else "as given; not reached"
        yield "when nothing records it", format_seconds(without.untraced_s), said


def _cost(without: Unrecorded) -> Iterator[Row]:
    yield "what recording cost", format_seconds(without.program.taken_out_s), "taken off the host's time"
    yield "", "", without.how


def replay_json(found: Replay, without: Unrecorded) -> dict[str, Any]:
    """Return plain numbers and strings; units are in the names."""
    return {
        "device": found.device.name,
        "known_within": found.known_within or None,
        "recorded_s": found.recorded_s,
        "predicted_s": found.predicted_s,
        "error": found.error,
        "warnings": warnings_of(found, without),
        "engines": to_builtins(found.engines),
        "worst": to_builtins(found.worst),
        "taken": TAKEN,
        "predicted": PREDICTED,
        "assumed": to_builtins(found.program.assumed),
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
            **to_builtins(without.program.costs),
            "between_engines_s": found.stamps_s,
        },
    }
