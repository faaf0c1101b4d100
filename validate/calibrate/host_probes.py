"""The costs of calls that wait and of a graph's launch, and the host's speed: probes, fit and spread.

Calls of programs that wait for nothing are in :mod:`streamsim_validate.calibrate.program_calls`.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from streamsim.device import Device, Host
from streamsim.program import Copy, Op, RecordEvent, Synchronize, WaitEvent
from streamsim.program.schedule import Direction
from streamsim_validate.calibrate.copies import Link
from streamsim_validate.calibrate.kernels import KERNELS, kernel_kind
from streamsim_validate.calibrate.probe import (
    BUFFERS,
    KI,
    LINK_BYTES,
    MIX_BYTES,
    TINY,
    Probe,
    moved,
    probe_of,
    with_kernel,
)
from streamsim_validate.calibrate.program_calls import calls_spread, fit_calls, mixes
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.simulated import misfits, nearest_number, rms
from streamsim_validate.records import (
    RECORD_CHAINS,
    SYNCHRONISE_CHAINS,
    WAIT_CHAINS,
)

HOST_LENGTHS = (16, 64)
GRAPH_NODES = (8, 32, 128)
SERIAL_KINDS = {"serial hkd", "serial hgkd"}  # older samples have none


def host_calls() -> Iterator[Probe]:
    """Yield mixes of calls, and chains of one other call: without named buffers, to be measured among schedules."""
    yield from mixes()
    for n in HOST_LENGTHS:
        yield probe_of(RECORD_CHAINS, 0, n, [RecordEvent(i, 1 + i % 4) for i in range(n)], 4, events=n)
        records: list[Op] = [RecordEvent(i, 1 + i) for i in range(4)]
        waits: list[Op] = [WaitEvent(i % 4, 1 + (i + 1) % 4) for i in range(n)]
        yield probe_of(WAIT_CHAINS, 0, n, records + waits, 4, events=4)  # a wait for what was never recorded is cheaper
        yield probe_of(SYNCHRONISE_CHAINS, 0, n, [Synchronize(stream=1)] * n)


def waiting_calls() -> Iterator[Probe]:
    """Yield probes of calls that wait, and of a graph's launch."""
    for n in HOST_LENGTHS:
        yield probe_of("blocking copy", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1, blocking=True)] * n)
        yield probe_of("blocking kernel", 0, n, [TINY, Synchronize(stream=1)] * n)
    for n in GRAPH_NODES:
        yield probe_of("graph", LINK_BYTES, n, [Copy("h2d", LINK_BYTES, 1)] * n, launch="graph")


def serial() -> Iterator[Probe]:
    """Yield chunks whose copies all hold the host, each from memory of its own: most calls come after a wait."""
    made: dict[str, Callable[[int], list[Op]]] = {
        "hkd": lambda i: [_held("h2d", i), *_touched(i), _held("d2h", i)],
        "hgkd": lambda i: [_held("h2d", 2 * i), _held("h2d", 2 * i + 1), *_touched(i), _held("d2h", i)],
    }
    for letters, chunk in made.items():
        for n in HOST_LENGTHS:
            ops = [op for i in range(n) for op in chunk(i)]
            yield probe_of(f"serial {letters}", MIX_BYTES, n, ops, buffers=BUFFERS)


def _held(direction: Direction, number: int) -> Copy:
    return replace(moved(direction, MIX_BYTES, 1, number), blocking=True)


def _touched(number: int) -> list[Op]:
    return [with_kernel("h2d", MIX_BYTES, 1, number)[1]]


# The fit


def fit_host(samples: Samples, h2d: Link) -> Host:
    """Return the costs of the host's calls. A call that waits also holds the host for the way to the card and back."""
    calls = fit_calls(samples)
    tiny_s = samples.per_link(kernel_kind(*KERNELS[0]), KI)
    held = (
        samples.per_link("blocking copy", LINK_BYTES, "wall_s") - calls.copy_s - h2d.at(LINK_BYTES),
        samples.per_link("blocking kernel", 0, "wall_s") - calls.kernel_s - tiny_s,
    )
    there_and_back_s = max(0.0, sum(held) / 2)  # to the card and back; which way takes how long does not show
    nodes = samples.points("graph")
    (first, first_s), (last, last_s) = nodes[0], nodes[-1]
    copies_s = first * (last_s - first_s) / (last - first)  # those of the shortest, which take longer than their issue
    return Host(
        **calls._asdict(),
        submit_s=there_and_back_s / 2,
        wake_s=there_and_back_s / 2,
        graph_launch_s=max(0.0, first_s - copies_s - there_and_back_s / 2),
        graph_node_s=max(0.0, samples.per_link("graph", LINK_BYTES, "issue_s")),
        pageable_immediate_bytes=64 * KI,
    )


def fit_after_wait(samples: Samples, device: Device) -> Device:
    """Return the device with the extra time of first calls after a wait: the model's misfit of serial chunks."""

    def made(seconds: float) -> Device:
        return replace(device, host=replace(device.host, after_wait_s=seconds))

    return made(nearest_number(samples, list(serial()), made)) if samples.has(SERIAL_KINDS) else device


# Spread


def host_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the host's calls: of programs, and from the scatter of the chains of other calls."""
    host = device.host
    found = calls_spread(samples, host.after_wait_s)
    found["synchronize_s"] = samples.scatter(SYNCHRONISE_CHAINS, "wall_s")
    found |= dict.fromkeys(("submit_s", "wake_s"), samples.scatter("blocking kernel", "wall_s"))
    found |= dict.fromkeys(("graph_launch_s", "graph_node_s"), samples.scatter("graph"))
    return {f"host.{call}": scatter for call, scatter in found.items()}


def after_wait_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the extra time of first calls after a wait: the share that the model misses."""
    after_wait_s = device.host.after_wait_s
    if not after_wait_s:
        return {}
    missed_s = rms(m.missed_s / len(m.kind.split()[-1]) for m in misfits(samples, list(serial()), device))
    return {"host.after_wait_s": min(1.0, missed_s / after_wait_s)}
