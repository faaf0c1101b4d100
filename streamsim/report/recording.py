"""The summary of a recording, and what it offers to choose from, as tables."""

from collections.abc import Iterable

from streamsim.recorded import (
    NamedSpan,
    RecordedAmount,
    RecordedCalls,
    RecordedCardUse,
    RecordedReason,
    Recording,
    RecordingSummary,
)
from streamsim.report.tables import LONGEST_CELL, Row, Table, cut, facts
from streamsim.text import counted, format_bytes, format_seconds, one_line

MOST_CALLS, MOST_REASONS, MOST_SPANS = 8, 6, 50


def recording_table(summary: RecordingSummary, title: str) -> Table:
    """Return what was found, what each card did and why it stood still, the host's calls, what was not understood."""
    return facts(title, (map(cut, group) for group in _groups(summary)))


def choices_table(recording: Recording, spans: list[NamedSpan], title: str) -> Table:
    """Return what --gpu, --process and --window may name."""
    cards = [
        (f"--gpu {card.id}", card.name, format_bytes(card.memory_bytes) if card.memory_bytes else "")
        for card in recording.cards
    ]
    names = dict(recording.processes)
    used = sorted({recording.threads[thread].process for thread in set(recording.calls.thread.tolist())})
    processes = [(f"--process {process}", names.get(process, ""), "") for process in used]
    windows = [_window(span) for span in spans[:MOST_SPANS]]
    if len(spans) > MOST_SPANS:
        windows.append((f"and {len(spans) - MOST_SPANS:,} more names", "", "--json has them all"))
    return facts(title, (map(cut, group) for group in (cards, processes, windows)))


def _window(span: NamedSpan) -> Row:
    option = f"--window '{one_line(span.name, LONGEST_CELL)}'"
    longest, first = format_seconds(span.longest_s), format_seconds(span.first_s)
    if span.count == 1:
        return option, longest, f"at {first}"
    return option, f"{longest} at the longest", f"{span.count} times, first at {first}"


def _groups(summary: RecordingSummary) -> Iterable[list[Row]]:
    span = format_seconds(summary.end_s - summary.start_s)
    by = f"by {counted(summary.threads, 'thread')} of {counted(summary.processes, 'process', 'es')}"
    yield [
        ("recorded", span, summary.tool),
        ("streams", str(summary.streams), f"issued {by}"),
    ]
    for title, amounts in (
        ("", (*summary.work, *summary.pages)),
        ("host: ", summary.host),
        ("annotations: ", summary.annotations),
    ):
        yield [_amount(title, amount) for amount in amounts]
    for card in summary.cards:
        yield _card(card)
    yield [_call(use) for use in summary.calls[:MOST_CALLS]]
    yield [(unread.what, f"{unread.count:,}", f"not understood: {unread.why}") for unread in summary.unread]


def _amount(title: str, amount: RecordedAmount) -> Row:
    rate = f", {amount.bytes / amount.time_s / 1e9:.4g} GB/s" if amount.bytes and amount.time_s else ""
    size = f"{format_bytes(amount.bytes)}{rate}, " if amount.bytes else ""
    time = f"{format_seconds(amount.time_s)} in all" if amount.time_s else ""
    return f"{title}{amount.what}", f"{amount.count:,}", f"{size}{time}"


def _card(card: RecordedCardUse) -> list[Row]:
    name = f"card {card.id}{f' ({card.name})' if card.name else ''}"
    rows: list[Row] = [(name, format_seconds(card.span_s), "from the call of its first work to the end of its last")]
    for engine in card.engines:
        share = f"{_share(engine.busy_s, card)}, {format_seconds(engine.alone_s)} of it with nothing beside"
        rows.append((f"{engine.name} busy", format_seconds(engine.busy_s), share))
    rows.append(
        ("overlap", format_seconds(card.overlap_s), f"{_share(card.overlap_s, card)}: two engines or more busy")
    )
    rows.append(("idle", format_seconds(card.idle_s), f"{_share(card.idle_s, card)}: no engine busy"))
    rows += _reasons(card.idle, card.idle_s)
    rows.append(("no kernel", format_seconds(card.without_kernel_s), f"{_share(card.without_kernel_s, card)}"))
    return rows + _reasons(card.without_kernel, card.without_kernel_s)


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
