"""Makespans of configurations, by the compiled twin of the model if numba is installed, else on SimPy.

Both give the same ticks. The compiled twin is over a hundred times as fast.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from streamsim.compiled import available
from streamsim.device import Device, as_device, written_in
from streamsim.errors import install
from streamsim.model import simulate
from streamsim.program import Config, Workload
from streamsim.rules import TICKS_PER_S

CONFIG_OPS = 25  # the fixed cost of simulating a configuration, in ops
TIMES_AS_FAST = 125  # the compiled twin, beside SimPy
SLOW = f"running on SimPy; numba ({install('fast')}) simulates over a hundred times as fast"


def is_fast() -> bool:
    """Return True if the compiled twin can run here."""
    return available()


def evaluate(
    workload: Workload,
    configs: Sequence[Config],
    device: Device | str | Path,
    fast: bool | None = None,
    threads: int | None = None,
) -> list[float]:
    """Return the predicted makespan of every config, in seconds.

    - ``device``: a Device, or the name or file of one. Its calls are those of the workload's front end, unless the
      device has those of another one.
    - ``fast``: True for the compiled twin, False for SimPy, None for the compiled twin if it can run.
    - ``threads``: threads of the compiled twin (None: one for each core).

    Raises InputError if the workload cannot be cut or issued in a config's way, for an unknown device or front end, and
    for a kernel without a cost.
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
    """Return the predicted makespan of every config in whole ticks (nanoseconds), which compare exactly.

    The arguments are those of :func:`evaluate`; ``device`` already has its front end's calls.
    """
    if workload.has_host_work or workload.in_order:
        for config in configs:
            config.check(workload)
    if workload.in_chunks(1) is not workload:  # launches belong to items, so each chunk makes its share of them
        by_chunks = defaultdict[int, list[Config]](list)
        for config in configs:
            by_chunks[config.chunks].append(config)
        ticks = {
            chunks: iter(evaluate_ticks(workload.in_chunks(chunks), own, device, fast, threads))
            for chunks, own in by_chunks.items()
        }
        return [next(ticks[config.chunks]) for config in configs]
    if is_fast() if fast is None else fast:
        from streamsim.compiled import makespans

        found: list[int] = makespans(workload, configs, device, threads=threads).tolist()
        return found

    return [round(simulate(config.schedule(workload), device).makespan_s * TICKS_PER_S) for config in configs]


def serial_ticks(workload: Workload, config: Config, device: Device, fast: bool | None = None) -> int:
    """Return the ticks of the unchunked program with blocking copies, and the host work and memory of ``config``."""
    serial = Config(order="serial", memory=config.memory)
    return evaluate_ticks(workload.loaded_once(config.chunks), [serial], device, fast)[0]


def simulation_costs(
    workload: Workload, configs: Sequence[Config], device: Device, fast: bool | None = None
) -> list[float]:
    """Return the cost of simulating every config, in ops of SimPy: about its copies and kernels.

    The arguments are those of :func:`evaluate_ticks`.
    """
    calls = {chunks: chunks * workload.in_chunks(chunks).calls_of_chunk for chunks in {one.chunks for one in configs}}
    ops: list[float] = [CONFIG_OPS + calls[config.chunks] for config in configs]
    if not (is_fast() if fast is None else fast):
        return ops
    from streamsim.compiled import can_run

    runs = can_run(workload.in_chunks(1), configs, device)
    return [own / TIMES_AS_FAST if is_compiled else own for own, is_compiled in zip(ops, runs, strict=True)]
