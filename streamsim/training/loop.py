"""What each usual change brings to a training loop, and what the loop waits for."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device, as_device, known_within
from streamsim.displayed import Result, attributes
from streamsim.errors import InputError
from streamsim.program import Loop
from streamsim.text import format_ratio, format_seconds, listed, short
from streamsim.timeline import Timeline
from streamsim.transform import Case, Change, LoopSource, changed_by, enough_workers
from streamsim.transform import changes as make

replace = msgspec.structs.replace

FASTER = 0.9  # a part shortened to this share shows whether the loop waits for it
BINDS = 0.25  # the loop waits for a part if it gains at least this share of the time that the part gains
FILLS = 0.9  # or if the part takes this share of the loop's time
PICTURED = 8  # steps of a pictured time line, plus one for each worker
WORTH = 1.01  # a change that gains less is not worth a line
WORTH_DOING = 1.03  # a change that gains less is no answer


class LoopRow(msgspec.Struct, frozen=True):
    """A loop and its predicted time.

    - ``title``: the changes that make it, or "as it is"; ``loop``: the loop.
    - ``step_s``: seconds from step to step once the loop is warm; ``binds``: the parts that it waits for.
    - ``gain``: the time of the unchanged loop over its time.
    - ``assumes``: conditions for the changes ("" for none).
    """

    title: str
    loop: Loop
    step_s: float
    gain: float
    binds: tuple[str, ...]
    assumes: str = ""

    @property
    def samples_per_s(self) -> float:
        """Samples per second."""
        return self.loop.batch / self.step_s


class LoopAdvice(Result, msgspec.Struct, frozen=True):
    """The usual changes of a training loop on a device, and their gains.

    ``rows``: the unchanged loop first, then changes, and last all useful changes together if that is faster than each
    row before. ``notes``: rows in which the order of issue matters. ``known_within``: the relative error of the times
    if the profile's latencies are assumed: 0.10 is 10 %; else 0.
    """

    device: str
    rows: tuple[LoopRow, ...]
    notes: tuple[str, ...] = ()
    known_within: float = 0.0

    def __repr__(self) -> str:
        return short(f"LoopAdvice({self.verdict})")

    @property
    def best(self) -> LoopRow:
        """The first row within 1 % of the fastest one: rows with fewer changes come first."""
        least = min(row.step_s for row in self.rows)
        return next(row for row in self.rows if row.step_s <= least * WORTH)

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        first, best = self.rows[0], self.best
        if best.gain < WORTH_DOING:
            return f"nothing to gain: the loop waits for {listed(first.binds)}"
        gain = format_ratio(best.gain, self.known_within)
        return f"{best.title}: {gain} as fast; then the loop waits for {listed(best.binds)}"

    def _json(self) -> dict[str, Any]:
        loops = [{**msgspec.structs.asdict(row), "samples_per_s": row.samples_per_s} for row in self.rows]
        return {**attributes(self, "device", "verdict"), "best": self.best.title, "notes": self.notes, "loops": loops}


def loop_advice(loop: Loop, device: Device | str | Path) -> LoopAdvice:
    """Predict the gains of the usual changes of ``loop`` on ``device``.

    ``device``: a Device, or the name or file of one. Its calls are PyTorch's, unless it has another front end's. Raises
    InputError for an unknown device, and for batches that do not fit on the card.
    """
    source = LoopSource(loop, as_device(device))
    case = source.case()
    as_it_is = _row([], case, None)
    changes = _with_enough_workers([change for change in CHANGES if _does(change, case)], case)
    rows = [as_it_is, *(_row([change], case, as_it_is) for change in changes)]
    together = _row(_together(changes, case), case, as_it_is)
    if together.step_s * WORTH < min(row.step_s for row in rows):
        rows.append(together)
    return LoopAdvice(case.device.name, tuple(rows), tuple(_order_matters(rows, source)), known_within(case.device))


CHANGES = make.pin(), make.make_async(), make.prefetch(1), make.drop_sync()


def _does(change: Change, case: Case) -> bool:
    with suppress(InputError):
        return bool(changed_by([change], case).words)
    return False


def _with_enough_workers(changes: Sequence[Change], case: Case) -> list[Change]:
    """Return the changes, with the workers that the loop with the other changes needs if it has fewer."""
    others = [change for change in changes if change in CHANGES]
    more = make.workers(enough_workers(changed_by(others, case).case))
    return [*others, more] if _does(more, case) else others


def _together(changes: Sequence[Change], case: Case) -> list[Change]:
    """Return the changes that gain beside the others, with enough workers: the largest for the user go first."""
    kept, least_s = list(changes), seconds_of(changed_by(changes, case).case)
    for change in reversed(changes):
        without = [other for other in kept if other is not change]
        if seconds_of(changed_by(without, case).case) <= least_s * WORTH:
            kept = without
    return kept if all(change in CHANGES for change in kept) else _with_enough_workers(kept, case)


def _row(changes: Sequence[Change], case: Case, as_it_is: LoopRow | None) -> LoopRow:
    made = changed_by(changes, case)
    assert isinstance(made.case.source, LoopSource)
    seconds = seconds_of(made.case)
    gain = 1.0 if as_it_is is None else as_it_is.step_s / seconds
    title, binds = listed(made.words) or "as it is", waits_for(made.case)
    return LoopRow(title, made.case.source.loop, seconds, gain, binds, "; ".join(made.assumes))


def _order_matters(rows: Sequence[LoopRow], source: LoopSource) -> Iterator[str]:
    """Yield a note for each row whose new prefetcher would be slower if it issued the copy before the step."""
    for row in rows:
        if row.loop.issue == "step first" and source.loop.issue == "in turn":
            other = LoopSource(replace(row.loop, issue="copy first"), source.card).case()
            other_s = seconds_of(other)
            if other_s > row.step_s * WORTH:
                yield (
                    f"{row.title}: issue the step before the next batch's copy; the other way round it takes"
                    f" {format_seconds(other_s, known_within(other.device))} a step"
                )


def timelines_of(found: LoopAdvice, device: Device) -> dict[str, Timeline]:
    """Return the time lines of the unchanged loop and of the best loop on ``device``, by title, with equal steps."""
    shown = {row.title: LoopSource(row.loop, device) for row in (found.rows[0], found.best)}
    steps = PICTURED + max(source.loop.workers for source in shown.values())
    return {title: simulate_one_of_many(*source.case(steps).scenario) for title, source in shown.items()}


def seconds_of(case: Case) -> float:
    """Return the measured seconds of a case: of a loop from step to step, once it is warm."""
    return case.seconds_of(simulate_one_of_many(*case.scenario))


def waits_for(case: Case) -> tuple[str, ...]:
    """Return the parts that a training loop waits for.

    If such a part takes less time, the loop gains at least a quarter of that. Or the part fills the loop's time, beside
    another part that does. There are several if parts take turns.
    """
    assert isinstance(case.source, LoopSource)
    loop, staging_s = case.source.loop, case.source.staging_s
    link, steps, seconds = case.device.h2d, 2 * loop.warm_steps + 1, seconds_of(case)
    rate = link.bandwidth_bytes_per_s if loop.is_pinned else link.pageable_bandwidth_bytes_per_s
    faster_step = replace(loop, step_s=loop.step_s * FASTER, issue_s=loop.issue_s * FASTER)
    smaller = replace(loop, batch_bytes=max(1, round(loop.batch_bytes * FASTER)))
    parts = {
        "loading": (loop.load_s / loop.period_workers, replace(loop, load_s=loop.load_s * FASTER), staging_s),
        "the step": (max(loop.step_s, loop.issue_s), faster_step, staging_s),
        "the copy": (loop.batch_bytes / rate, smaller, staging_s),
        "pinning": (staging_s * loop.pins, loop, staging_s * FASTER),
    }
    bound = []
    for part, (part_s, shorter, staging_s) in parts.items():
        faster_s = seconds_of(case._replace(schedule=shorter.schedule(steps, staging_s)))
        if part_s and (part_s >= FILLS * seconds or seconds - faster_s >= BINDS * (1 - FASTER) * part_s):
            bound.append(part)
    return tuple(bound) or ("calls of the host",)
