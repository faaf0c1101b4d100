"""The result of a search for the best way to issue some work: its table, and how sure it is."""

from functools import partial
from math import ceil
from typing import Any

from streamsim.analysis import BOUND_AS_ISSUED, BOUND_OF_WORK
from streamsim.program import Layers, Workload
from streamsim.report.tables import Fact, Table, facts
from streamsim.search import FASTER, Best
from streamsim.text import counted, format_bytes, format_change, format_ratio, format_seconds, format_share

NAMES = {"one_by_one": "pinned", "pageable": "pageable", "resident": "all stay", "before": "as it is"}


def best_table(best: Best[Any]) -> Table:
    """Return what to use, the optimum, and what it is compared with; its memory, what binds, and what would help."""
    groups = (_times(best), _alone(best), _memory(best), _binds(best), _flat(best), _gains(best), _assumed(best))
    return facts(f"best on {best.device}{_described(best)}", groups, best.known_within)


def _described(best: Best[Any]) -> str:
    work = best.work
    if isinstance(work, Layers):
        return f": {work.words}"
    return "" if isinstance(work, Workload) else f": {best.compared['before'].more['chunks']} chunks of a program"


def _named(best: Best[Any]) -> str:
    return "the optimum" if best.exact else "the best found"


def _times(best: Best[Any]) -> list[Fact]:
    use, the_best = best.simplest, _named(best)
    found = "" if best.simplest_exact else " found"
    held = best.best.device_bytes
    on_card = f"; {format_bytes(held)} on the card" if held else ""
    rows: list[Fact] = [("use", use.makespan_s, f"{use.words}: the simplest{found} within 1 % of {the_best}")]
    if isinstance(best.work, Layers) and best.work.passes > 1:
        rows.append(("a pass", use.more["pass_s"], f"one of {best.work.passes}"))
    rows.append(("optimum" if best.exact else "best found", best.best.makespan_s, f"{best.best.words}{on_card}"))
    for name, one in best.compared.items():
        room = "" if best.fits(one) else ", which needs more memory than allowed"
        gain = f"{the_best} is {format_ratio(best.gain(one.makespan_s), best.known_within)} as fast"
        row = "unchunked" if name == "serial" and isinstance(best.work, Workload) else NAMES.get(name, name)
        rows.append((row, one.makespan_s, f"{one.words}{room}: {gain}"))
    return rows


def _alone(best: Best[Any]) -> list[Fact]:
    alone = best.changes.alone if best.changes else ()
    ratio = partial(format_ratio, within=best.known_within)
    return [(one.change, one.makespan_s, f"alone {ratio(one.gain)} as fast; then {one.binds} binds") for one in alone]


def _memory(best: Best[Any]) -> list[Fact]:
    if not isinstance(best.work, Layers):
        return []
    use, reserved = best.simplest, best.simplest.config.reserve_bytes
    limits = [
        "" if limit is None else f"at most {format_bytes(limit)} may be"
        for limit in (best.memory_bytes, best.pinned_limit_bytes)
    ]
    on_card = (limits[0], f"{format_bytes(reserved)} of it reserved" if reserved else "")
    unless = " in each direction, unless a buffer still holds them" if best.work.direction == "both" else ""
    on_host = (limits[1], f"{len(use.more['streamed'])} layers, which each pass copies{unless}")
    return [
        ("on the card", format_bytes(use.device_bytes), "; ".join(filter(None, on_card))),
        ("pinned on the host", format_bytes(use.more["pinned_bytes"]), "; ".join(filter(None, on_host))),
        ("load", use.more["load_s"], "what stays, once, before the first pass; not counted above"),
    ]


def _binds(best: Best[Any]) -> list[Fact]:
    name, bound = (BOUND_OF_WORK, best.work_bound) if best.work_bound else (BOUND_AS_ISSUED, best.issued_bound)
    over = format_share(best.best.makespan_s / bound.seconds - 1 if bound.seconds else 0.0, best.known_within)
    rows: list[Fact] = [(name, bound.seconds, f"by {bound.bound_by}; {_named(best)} is {over} above")]
    if best.critical_s:
        waits = max(best.critical_s, key=lambda name: best.critical_s[name])
        part = format_seconds(best.critical_s[waits], best.known_within)
        remark = f"{part} of it {'on ' if waits != 'waiting' else ''}{waits}"
        rows.append(("critical path", sum(best.critical_s.values()), remark))
    return rows


def _gains(best: Best[Any]) -> list[Fact]:
    took = best.best.makespan_s
    changes = {name: seconds / took - 1 if took else 0.0 for name, seconds in best.faster_s.items()}
    return [
        (
            f"{name} {FASTER}x as fast",
            seconds,
            f"{format_change(changes[name], best.known_within)} with the same schedule",
        )
        for name, seconds in best.faster_s.items()
    ]


def _flat(best: Best[Any]) -> list[Fact]:
    flatness = best.flatness
    if not flatness.share_within:
        return []
    known = {margin: share for margin, share in flatness.share_within.items() if share is not None}
    unknown = [str(margin) for margin in flatness.share_within if margin not in known]
    shares = [f"{format_share(share, best.known_within)} within {margin} %" for margin, share in known.items()]
    shares += [f"unknown within {', '.join(unknown)} %"] if unknown else []
    stay = f"within {flatness.range_percent} % if nothing else changes"
    reach = f"it is not known which numbers of chunks stay {stay}"
    if flatness.chunks_within is not None:
        low, high = flatness.chunks_within
        reach = f"{low} to {high} chunks stay {stay}"
    rows: list[Fact] = [("flatness", "", f"{', '.join(shares)} of {_named(best)}")]
    return [*rows, ("", "", reach)] if known or flatness.chunks_within is not None else rows


def _assumed(best: Best[Any]) -> list[Fact]:
    changes = best.changes
    told = [("assumed", changes.assumed), ("note", changes.notes)] if changes else []
    if isinstance(best.work, Layers):
        told = [("assumed", tuple(best.work.assumed))]
    return [(name, "", text) for name, texts in told for text in texts]


def how_sure(best: Best[Any]) -> list[str]:
    """Return how many programs were looked at, and what is not known for certain."""
    proved = best.programs - best.simulated - best.left_open
    slower = "more than 10 % slower" if best.grid else "no faster"
    counts = [f"{best.simulated:,} simulated", *([f"{proved:,} proved {slower} by their bounds"] if proved > 0 else [])]
    counts += [f"{best.left_open:,} left open"] if best.left_open else []
    lines = [f"{counted(best.programs, 'program')}: {', '.join(counts)}."]
    if best.left_open_because:
        choice = "--exact" if best.compiled else "streamsim[fast] or --exact"
        remedy = f" {choice} leaves nothing open." if best.left_open else ""
        lines.append(f"{_doubt(best)}: {best.left_open_because}.{remedy}")
    return lines


def _doubt(best: Best[Any]) -> str:
    if best.exact and best.simplest_exact:
        return "Exact, except how flat it is"
    if best.exact:
        return "The optimum is exact; a simpler program may come within 1 % of it"
    if not best.floor_s:
        return "Not exact"
    return f"Not exact, though no program is more than {ceil(1000 * best.nearness) / 10:.1f} % faster"


def what_stays(best: Best[Any]) -> list[str]:
    """Return what the table leaves out: names of layers, and what was not looked at or not tried."""
    lines = [f"not tried: {why}" for why in best.not_tried]
    if isinstance(best.work, Layers):
        lines.append(f"stay on the card: {', '.join(best.simplest.config.resident) or 'none'}")
    if best.most_chunks is not None:
        lines.append(f"No more than {best.most_chunks} chunks were looked at: the workload has no more.")
    if best.left_out:
        lines.append(f"{best.left_out} programs of the grid were left out: {best.left_out_why}.")
    return lines
