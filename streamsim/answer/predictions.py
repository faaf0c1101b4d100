"""Answers to what a program takes and why: predictions and explanations."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import asdict

from streamsim import analysis
from streamsim.advice import WORTH, Explanation, Loss
from streamsim.answer.document import Answer, Pictures
from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, within_words
from streamsim.errors import counted
from streamsim.page import Shown
from streamsim.report import SERIAL_WORDS, Fact, Table, facts, losses_of, serial_timeline, title_of
from streamsim.text import format_between, format_bytes, format_change, format_ratio, format_seconds, format_share

HEADS, NUMBERS = ("cause", "part", "share", "remedy"), frozenset({1, 2})
FOLDED = 0.05  # of the makespan: causes whose part is smaller are one line of the short table
MOST_CHANGES = 4  # that a page has time lines of
RACY = "The schedule has races (streamsim check): what its data needs is uncertain."


def prediction_answer(
    prediction: analysis.Prediction,
    interval: analysis.Interval | None = None,
    assumed: Sequence[str] = (),
    formulas: bool = False,
    inputs: dict[str, Any] | None = None,
) -> Answer:
    """Return the answer of a prediction, with the ``interval`` and the ``formulas`` if given.

    ``assumed``: sentences on its kernels; ``inputs``: what was asked, for JSON.
    """
    p = prediction
    data = {**p.to_json(inputs), **({} if interval is None else {"interval": asdict(interval)})}
    bounds = (
        [] if p.work_bound is None else [bound_fact(analysis.BOUND_OF_WORK, p.work_bound, p.makespan_s, p.known_within)]
    )
    groups = (_headline(p, interval), bounds, _engines(p), _memory(p), _formulas(p) if formulas else [])
    notes, link = device_notes(p.device, p.link, p.timeline.device, assumed)
    return Answer(
        title=title_of(p.timeline),
        facts=facts("", groups, p.known_within),
        sketch=p.timeline,
        notes=notes,
        more=(facts("", [_rest(p)], p.known_within), *link),
        pictures=lambda: Pictures(lines=lines_of(p, interval)),
        data={**data, **({"assumed": assumed} if assumed else {})},
    )


def device_notes(
    name: str, link: str, device: Device | None, assumed: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is assumed of a device and of the work, and what stands behind ``--all``: a link that is not."""
    line, is_assumed = (f"{name}: {link}",), "assumed" in link
    return (*(line if is_assumed else ()), *within_words(device), *assumed), () if is_assumed else line


def bound_fact(name: str, bound: analysis.Bound, seconds: float, within: float, what: str = "predicted") -> Fact:
    """Return a lower bound, and by how much ``what``, which takes ``seconds``, is above it."""
    above = format_share(seconds / bound.seconds - 1 if bound.seconds else 0.0, within)
    return name, bound.seconds, f"by {bound.bound_by}; {what} is {above} above"


def _headline(p: analysis.Prediction, interval: analysis.Interval | None) -> Iterator[Fact]:
    """Yield the predicted time, what it is compared with, and the interval if there is one."""
    within = p.known_within
    between = format_between(p.makespan_s * (1 - within), p.makespan_s * (1 + within), within)
    gain = f"{format_ratio(p.speedup, within)} as fast as {p.serial_program}"
    yield "predicted", between if within else p.makespan_s, gain
    if interval is not None:
        yield f"{interval.level:.0%} interval", interval.between, f"{interval.samples} draws, seed {interval.seed}"
    room = "" if p.serial_fits else f"; {format_bytes(p.serial_device_bytes)}, for which there is no room"
    yield p.serial_program, p.serial_s, f"{SERIAL_WORDS[p.serial_program]}{room}"


def _engines(p: analysis.Prediction) -> Iterator[Fact]:
    used = p.timeline.utilisation
    for name, busy_s in p.timeline.busy_s.items():
        yield f"{name} busy", busy_s, f"{format_share(used[name], p.known_within)} of the time"
    yield "overlap", p.timeline.overlap_s, "two engines or more busy"


def _memory(p: analysis.Prediction) -> Iterator[Fact]:
    has = "" if p.memory_bytes is None else f"of {format_bytes(p.memory_bytes)}"
    yield "on the card", format_bytes(p.device_bytes), has


def _formulas(p: analysis.Prediction) -> Iterator[Fact]:
    for name, seconds in p.formulas.items():
        change = format_change(seconds / p.makespan_s - 1, p.known_within) if p.makespan_s else ""
        yield name, seconds, f"{change} against the model: {analysis.FORMULA_WORDS[name]}"


def _rest(p: analysis.Prediction) -> Iterator[Fact]:
    """Yield the figures that stand behind ``--all``."""
    if p.serial_program != "serial":
        times = format_ratio(p.speedup_over_one_by_one, p.known_within)
        yield "serial", p.one_by_one_s, f"{SERIAL_WORDS['serial']}: {times} as long"
    yield bound_fact(analysis.BOUND_AS_ISSUED, p.issued_bound, p.makespan_s, p.known_within)
    yield "calls return", p.timeline.calls_return_s, "to the host, before it waits for the card"


def lines_of(prediction: analysis.Prediction, interval: analysis.Interval | None = None) -> tuple[Shown, ...]:
    """Return the time lines of a prediction: that of the program that it was cut from, if any, and its own."""
    p, within = prediction, (0.0, 0.0) if interval is None else (interval.low_s, interval.high_s)
    predicted = Shown("predicted", p.timeline, p.issued_bound.seconds, within)
    if p.timeline.device is None or p.serial_program != "unchunked":
        return (predicted,)
    return Shown("unchunked", serial_timeline(p)), predicted


# Explanations


def explanation_answer(
    explanation: Explanation,
    work: analysis.Bound | None = None,
    assumed: Sequence[str] = (),
    inputs: dict[str, Any] | None = None,
    command: str = "",
) -> Answer:
    """Return the answer of an explanation: the losses, their remedies, and what to do first.

    ``work``: the bound of the work, if known; ``command``: that which makes changes of the program, if any does;
    ``assumed``, ``inputs`` as for :func:`prediction_answer`.
    """
    e, first = explanation, explanation.first
    issued_s = max(e.own_bound_s, work.seconds if work else 0.0)  # neither is beaten
    notes, link = device_notes(e.device, e.link, e.timeline.device, assumed)
    data = {**e.to_json(inputs), **analysis.bound_json("work", work)}
    headline: list[Fact] = [
        ("predicted", e.makespan_s, ""),
        ("lost", e.gap_s, f"above the {analysis.BUSIEST_ENGINE}"),
        (analysis.BUSIEST_ENGINE, e.bound_s, f"the {e.bound_by}"),
        *([] if work is None else [(analysis.BOUND_OF_WORK, work.seconds, f"by {work.bound_by}")]),
    ]
    tried = () if first is None or not command else (f"try it: {command} {shlex.join(first.options)}",)
    short, whole = (_losses(e, "Lost", e.losses, e.gap_s, least) for least in (FOLDED, 0.0))
    limits = _losses(e, f"In the {analysis.BUSIEST_ENGINE}", e.limits, e.bound_s - e.even_s)
    return Answer(
        title=title_of(e.timeline),
        verdict=(f"first: {e.advice}", *tried),
        warnings=(RACY,) if e.is_racy else (),
        facts=facts("", [headline], e.known_within),
        tables=short,
        notes=notes,
        more=(
            facts("", [[(analysis.BOUND_AS_ISSUED, issued_s, "of this schedule")]], e.known_within),
            *(whole if whole != short else ()),
            *limits,
            *link,
        ),
        pictures=lambda: _pictures(e, Shown("predicted", e.timeline, issued_s)),
        data={**data, **({"assumed": assumed} if assumed else {})},
    )


def _pictures(explanation: Explanation, predicted: Shown) -> Pictures:
    """Return the losses, and the time line after the first changes above the predicted one.

    Others may take the place of the first: those after each single change that pays, the best first.
    """
    tried = explanation.tried
    paying = sorted((one for one in tried.alone if one.gain >= 1 + WORTH), key=lambda one: one.takes_s)
    changes = {one.text: one.work[:2] for one in (*filter(None, [tried.first]), *paying)}
    scenarios = list(changes.items())[:MOST_CHANGES]
    lines = tuple(Shown(f"changed: {text}", simulate_one_of_many(*scenario)) for text, scenario in scenarios)
    return Pictures(losses_of(explanation), lines=(*lines[:1], predicted), changes=lines[1:])


def _losses(
    explanation: Explanation, title: str, losses: Sequence[Loss], whole_s: float, folded: float = 0.0
) -> tuple[Table, ...]:
    """Return what each cause has lost of ``whole_s``, and its remedy; no table of no losses.

    Causes that lost less than the part ``folded`` of the makespan are one line, except the first.
    """
    least_s, within = folded * explanation.makespan_s, explanation.known_within
    time = partial(format_seconds, within=within)
    small = [loss for loss in losses[1:] if loss.lost_s < least_s]

    def row(name: str, lost_s: float, remedy: str) -> tuple[str, ...]:
        return name, time(lost_s), f"{lost_s / whole_s if whole_s else 0.0:.0%}", remedy

    rows = [
        row(loss.title, loss.lost_s, loss.remedies(explanation.known_within, least_s))
        for loss in losses
        if loss not in small
    ]
    if small:
        several, lost_s = f"{counted(len(small), 'more cause')}, together", sum(loss.lost_s for loss in small)
        rows.append(row(several, lost_s, f"each below {folded:.0%} of the time: --all"))
    titled = f"{title}: {time(whole_s)}"
    return (Table(titled, (tuple(rows),), HEADS, NUMBERS, NUMBERS, (2, 0, 0, 5)),) if rows else ()
