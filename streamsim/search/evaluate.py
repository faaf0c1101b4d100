"""How long configurations take: by the compiled twin of the model where numba is installed, else on SimPy.

The same ticks, over a hundred times apart in speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsim.device.front_ends import written_in
from streamsim.device.library import as_device
from streamsim.rules.clock import TICKS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload
SLOW = "running on SimPy; pip install 'streamsim[fast]' simulates over a hundred times as fast"


def is_fast() -> bool:
    """Whether the compiled twin can be used here."""
    from streamsim.compiled import available

    return available()


def evaluate(
    workload: Workload,
    configs: Sequence[Config],
    device: Device | str | Path,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[float]:
    """Predict the makespan of every config, in seconds.

    ``device``: a Device, or the name or file of one, with the calls of the workload's front end unless it has others.
    ``fast``: with the compiled twin (None: if it is there) on so many ``threads`` (None: all cores), or on SimPy.
    Raises InputError when the workload cannot be cut or issued so, the device or the front end is unknown, or there is
    no cost for a kernel.
    """
    card = written_in(as_device(device), workload.front_end)
    return [ticks / TICKS_PER_S for ticks in evaluate_ticks(workload, configs, card, fast, threads)]


def evaluate_ticks(
    workload: Workload,
    configs: Sequence[Config],
    device: Device,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[int]:
    """The same in whole ticks (ns), which are compared exactly."""
    if workload.has_host_work or workload.in_order:
        for config in configs:
            config.check(workload)
    if workload.in_chunks(1) is not workload:  # launches that belong to items: a chunk makes its share of them
        ticks = {
            chunks: iter(evaluate_ticks(workload.in_chunks(chunks), own, device, fast, threads))
            for chunks, own in _by_chunks(configs).items()
        }
        return [next(ticks[config.chunks]) for config in configs]
    if is_fast() if fast is None else fast:
        from streamsim.compiled import makespans

        found: list[int] = makespans(workload, configs, device, threads=threads).tolist()
        return found
    from streamsim.model import simulate

    return [round(simulate(config.schedule(workload), device).makespan_s * TICKS_PER_S) for config in configs]


def _by_chunks(configs: Sequence[Config]) -> dict[int, list[Config]]:
    found: dict[int, list[Config]] = {}
    for config in configs:
        found.setdefault(config.chunks, []).append(config)
    return found
