"""The result of a search for the best way to place a model's layers, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.analysis.bounds import BOUND_AS_ISSUED
from streamsim.report.tables import Fact, Table, facts
from streamsim.search.best_offload import FASTER
from streamsim.text.quantities import format_bytes, format_change

if TYPE_CHECKING:
    from streamsim.program.layers import Layers
    from streamsim.search.best_offload import BestOffload, Placed


def best_layers_table(best: BestOffload, layers: Layers | None = None) -> Table:
    """Return what to use, the optimum and what both are compared with; the memory that it needs; what binds."""
    use, took = best.lean, best.best.makespan_s
    the_best, whole = "the optimum" if best.exact else "the best found", format_bytes(best.resident_bytes)
    fits = best.memory_bytes is None or best.resident_bytes <= best.memory_bytes
    every = f"every layer on the card, {whole}{'' if fits else ', which it has no room for'}"
    times: list[Fact] = [
        ("use", use.makespan_s, f"{use.words}: the leanest found within 1 % of {the_best}"),
        *([("a pass", use.makespan_s / best.passes, f"one of {best.passes}")] if best.passes > 1 else []),
        ("optimum" if best.exact else "best found", took, f"{best.best.words}; {_held(best.best)} on the card"),
        ("pageable", best.serial_s, f"each layer copied in its turn, as people begin: {_times(best.serial_s, took)}"),
        ("pinned", best.one_by_one_s, f"the same from pinned memory: {_times(best.one_by_one_s, took)}"),
        ("kernel first", best.kernel_first_s, f"pageable, --kernel-first: {_times(best.kernel_first_s, took)}"),
        ("all stay", best.resident_s, every),
    ]
    limits = [
        "" if limit is None else f"at most {format_bytes(limit)} may be"
        for limit in (best.memory_bytes, best.pinned_limit_bytes)
    ]
    reserved = f"{format_bytes(use.config.reserve_bytes)} of it reserved" if use.config.reserve_bytes else ""
    copied = f"{len(use.streamed)} layers, which each pass copies"
    memory: list[Fact] = [
        ("on the card", _held(use), "; ".join(filter(None, (limits[0], reserved)))),
        ("pinned on the host", format_bytes(use.pinned_bytes), "; ".join(filter(None, (limits[1], copied)))),
        ("load", use.load_s, "what stays, once, before the first pass; not counted above"),
    ]
    waits = max(best.critical_s, key=lambda name: best.critical_s[name])
    path = f"{best.critical_s[waits] / took:.0%} of the optimum's {'on ' * (waits != 'waiting')}{waits}"
    binds: list[Fact] = [
        (BOUND_AS_ISSUED, best.issued_bound.seconds, f"by {best.issued_bound.bound_by}"),
        ("critical path", best.critical_s[waits], path),
        *((f"{name} {FASTER}x as fast", s, format_change(s / took - 1)) for name, s in best.faster_s.items()),
    ]
    of = "" if layers is None else f": {_described(layers)}"
    return facts(f"best on {best.device}{of}", (times, memory, binds))


def _described(layers: Layers) -> str:
    several = f", {layers.passes} passes" * (layers.passes > 1)
    return f"{len(layers.steps)} layers of {format_bytes(layers.weight_bytes)}{several}"


def _held(placed: Placed) -> str:
    return format_bytes(placed.device_bytes)


def _times(seconds: float, took: float) -> str:
    return f"{seconds / took:.2f}x as long"
