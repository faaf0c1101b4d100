"""How long configurations take: by the compiled twin of the model where numba is installed, else on SimPy.

The same ticks, over a hundred times apart in speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload
SLOW = "running on SimPy; pip install 'streamsim[fast]' makes this over a hundred times as fast"


def is_fast() -> bool:
    """Whether the compiled twin can be used here."""
    from streamsim.compiled import available

    return available()


def evaluate(
    workload: Workload,
    configs: Sequence[Config],
    device: Device,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[int]:
    """Predict the makespan of every config, in ticks (ns).

    ``fast``: with the compiled twin (None: if it is there) on so many ``threads`` (None: all cores), or on
    SimPy. Raises InputError when a config has more chunks than elements, or the device no cost for a kernel.
    """
    if is_fast() if fast is None else fast:
        from streamsim.compiled import makespans

        found: list[int] = makespans(workload, configs, device, threads=threads).tolist()
        return found
    from streamsim.model import simulate
    from streamsim.rules.clock import S_PER_TICK

    return [round(simulate(config.schedule(workload), device).makespan_s / S_PER_TICK) for config in configs]
