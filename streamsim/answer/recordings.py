"""Answers on recordings: what was recorded, what stands still and why, and the replay by the model."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from streamsim.answer.document import Answer, Pictures
from streamsim.displayed import attributes
from streamsim.errors import counted, one_line
from streamsim.page import Beside, Shown
from streamsim.recorded import (
    AnnotationKind,
    EngineReplay,
    NamedSpan,
    RecordedAmount,
    RecordedCalls,
    RecordedCardUse,
    Recording,
    RecordingSummary,
    Replay,
    Unrecorded,
    warnings_of,
)
from streamsim.report import ANNOTATION, LONGEST_CELL, Row, Table, cut, facts
from streamsim.text import format_bytes, format_change, format_seconds

MOST_SPANS = 50  # names of windows that are shown without being asked for
ENGINE_NAMES = {"h2d": "H2D", "d2h": "D2H", "compute": "kernels", "copy": "copies"}


def recording_answer(why: Answer, summary: RecordingSummary, replay: tuple[Replay, Unrecorded] | None = None) -> Answer:
    """Return ``why``, the explanation of a recorded program, below what was recorded and how good the replay is."""
    recorded: list[Row] = [("recorded", format_seconds(summary.end_s - summary.start_s), summary.tool)]
    work, *others = _groups(summary)
    first: list[Iterable[Row]] = [recorded, work, *others]
    more = why.more
    if replay is not None:
        (_, *explained), *bounds = why.facts.groups  # the first row is the replay without recording
        unread = sum(unread.count for unread in summary.unread)
        left = [("not understood", f"{unread:,}", "--all says what")] if unread else []
        first = [[*recorded, *_replayed(*replay)], explained, *bounds, [*work, *left]]
        more = (_cut_facts("", others), *more, replay_table(*replay))
    return replace(
        why,
        facts=_cut_facts("", first),
        more=more,
        pictures=lambda: _pictures(why, replay),
        data={**why.data, **to_builtins(summary)},
    )


def _pictures(why: Answer, replay: tuple[Replay, Unrecorded] | None) -> Pictures:
    """Return the time lines of ``why``, and those recorded and replayed; the changed one stands above the recorded."""
    drawn = why.pictures()
    of_recording = () if replay is None else _lines(replay[0])
    return replace(drawn, lines=(*drawn.lines[:-1], *of_recording, *drawn.lines[-1:]))


def replay_answer(found: Replay) -> Answer:
    """Return the answer of a replay: the recorded time line, the replayed one, and their tables."""
    drawn = Pictures(lines=_lines(found))
    title = f"recorded by {found.recording.tool}"
    return Answer(title, warnings=tuple(warnings_of(found)), tables=(replay_table(found),), pictures=lambda: drawn)


def choices_answer(recording: Recording, spans: list[NamedSpan], title: str, inputs: dict[str, Any]) -> Answer:
    """Return what --gpu, --process and --window may name. ``inputs``: what was asked, for JSON."""
    used = sorted({recording.threads[thread].process for thread in set(recording.calls.thread.tolist())})
    held = [format_bytes(card.memory_bytes) if card.memory_bytes > 0 else "" for card in recording.cards]
    cards = [(f"--gpu {card.id}", card.name, size) for card, size in zip(recording.cards, held, strict=True)]
    processes = [(f"--process {process}", "", "") for process in used]
    windows = list(map(_window, spans))
    left = len(spans) - MOST_SPANS
    found = {"devices": to_builtins(recording.cards), "processes": used, "windows": to_builtins(spans)}
    return Answer(
        title=title,
        facts=_cut_facts("", (cards, processes, windows[:MOST_SPANS])),
        notes=(f"and {left:,} more names: --all has them",) if left > 0 else (),
        more=(_cut_facts("", [windows[MOST_SPANS:]]),) if left > 0 else (),
        data={"inputs": inputs, **found},
    )


def _window(span: NamedSpan) -> Row:
    option = f"--window '{one_line(span.name, LONGEST_CELL)}'"
    longest, first = format_seconds(span.longest_s), format_seconds(span.first_s)
    if span.count == 1:
        return option, longest, f"at {first}"
    return option, f"{longest} at the longest", f"{span.count} times, first at {first}"


# What was recorded


def _groups(summary: RecordingSummary) -> Iterator[list[Row]]:
    """Yield the work; then for ``--all`` each card, calls, and what is not understood."""
    yield [_amount(amount) for amount in (*summary.work, *summary.pages)]
    yield from (list(_card(card)) for card in summary.cards)
    yield list(map(_calls, summary.calls))
    yield [(unread.what, f"{unread.count:,}", f"not understood: {unread.why}") for unread in summary.unread]


def _amount(amount: RecordedAmount) -> Row:
    size = format_bytes(amount.bytes) if amount.bytes else ""
    rate = f"{amount.bytes / amount.time_s / 1e9:.4g} GB/s" if amount.bytes and amount.time_s else ""
    time = format_seconds(amount.time_s) if amount.time_s else ""
    return amount.what, f"{amount.count:,}", ", ".join(filter(None, (size, rate, time)))


def _card(card: RecordedCardUse) -> Iterator[Row]:
    """Yield how long each engine of a card was busy, and why none was, or no kernel ran."""

    def row(name: str, seconds: float, words: str = "") -> Row:
        return name, format_seconds(seconds), f"{seconds / card.span_s if card.span_s else 0.0:.1%}{words}"

    yield f"card {card.id}{f' ({card.name})' * bool(card.name)}", format_seconds(card.span_s), "first call to last end"
    for engine in card.engines:
        yield row(f"{engine.name} busy", engine.busy_s, f", {format_seconds(engine.alone_s)} of it alone")
    yield row("overlap", card.overlap_s, ": two engines or more busy")
    yield row("idle", card.idle_s, ": no engine busy")
    yield from (("", format_seconds(reason.time_s), reason.why) for reason in card.idle)
    yield row("no kernel", card.without_kernel_s)
    yield from (("", format_seconds(reason.time_s), reason.why) for reason in card.without_kernel)


def _calls(use: RecordedCalls) -> Row:
    each = f"median {format_seconds(use.median_s)}, longest {format_seconds(use.longest_s)}"
    words = f"{counted(use.count, 'call')}: {each} at {format_seconds(use.longest_at_s)}"
    return f"in {use.name}", format_seconds(use.total_s), words


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
            ends = {level: until for level, _, _, until in spans}
            level = next(level for level in count() if ends.get(level, 0) <= begin)
            spans.append((level, names[name], begin, end))
    return tuple(Beside(f"annotations {thread}", ANNOTATION, spans) for thread, spans in threads.items())


def _replayed(found: Replay, without: Unrecorded) -> Iterator[Row]:
    """Yield how good the replay is, and the time of the program when nothing records it."""
    error = f"{format_change(found.error, found.known_within)} of the {format_seconds(found.recorded_s)} recorded"
    yield "replayed", format_seconds(found.predicted_s, found.known_within), error
    yield from _unrecorded(without, found.known_within)


def _unrecorded(without: Unrecorded, within: float) -> Iterator[Row]:
    yield "replay without recording", format_seconds(without.predicted_s, within), ""
    if without.untraced_s is not None:
        said = "as given" if without.is_reached else "as given; not reached"
        yield "when nothing records it", format_seconds(without.untraced_s), said


def replay_table(found: Replay, without: Unrecorded | None = None) -> Table:
    """Return the recorded and predicted times, in all and by engine, and what is assumed.

    ``without``: the replay without the cost of recording, if known.
    """
    within = found.known_within
    in_all = f"{format_seconds(found.predicted_s, within)}, {format_change(found.error, within)}"
    times = [
        ("", "in the recording", "in the replay as recorded"),
        ("first work's call to last end", format_seconds(found.recorded_s), in_all),
        *(_engine(engine, within) for engine in found.engines if engine.recorded_s or engine.predicted_s),
    ]
    assumed = [(unread.what, f"{unread.count:,}", unread.why) for unread in found.program.assumed]
    cost: list[Row] = []
    if without is not None:
        taken_out = format_seconds(without.program.taken_out_s)
        cost = [*_unrecorded(without, within), ("what recording cost", taken_out, f"of host time; {without.how}")]
    return _cut_facts(f"replayed on {found.device.name}", (times, assumed, cost))


def _cut_facts(title: str, groups: Iterable[Iterable[Row]]) -> Table:
    return facts(title, (map(cut, group) for group in groups))


def _engine(engine: EngineReplay, within: float) -> Row:
    change = f", {format_change(engine.predicted_s / engine.recorded_s - 1, within)}" if engine.recorded_s else ""
    predicted = f"{format_seconds(engine.predicted_s, within)}{change}"
    return f"{ENGINE_NAMES.get(engine.name, engine.name)}, busy", format_seconds(engine.recorded_s), predicted


def replay_json(found: Replay, without: Unrecorded) -> dict[str, Any]:
    """Return plain numbers and strings; units are in the names."""
    return {
        "device": found.device.name,
        "known_within": found.known_within or None,
        **attributes(found, "recorded_s", "predicted_s", "error"),
        "warnings": warnings_of(found, without),
        **to_builtins(attributes(found, "engines")),
        "assumed": to_builtins(found.program.assumed),
        "untraced_s": without.untraced_s,
        "without_recording": attributes(without, "predicted_s", "how", "is_reached"),
        "recording_cost": {
            "taken_out_s": without.program.taken_out_s,
            **to_builtins(without.program.costs),
            "between_engines_s": found.stamps_s,
        },
    }
