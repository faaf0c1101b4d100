"""The hardware queues in front of each engine, and the rule for which ready head goes first: probes and fit."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from streamsim.device import ARBITRATIONS, Arbitration, Device
from streamsim.program import Copy, Kernel, Op, RecordEvent, Synchronize, WaitEvent
from streamsim_validate.calibrate.probe import KI, LINK_BYTES, MI, TINY, Probe, probe_of
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.simulated import simulated_issue_s

MOST_QUEUES = 32
QUEUE_GATE_S = 500e-6
QUEUES, RULES = {"compute": "queues compute", "copies": "queues copies"}, {"compute": "rule compute", "h2d": "rule h2d"}
FULL = Kernel(1, "sincos", MI, 176)  # four waves of the largest cards: it leaves no room beside it until its last part


def queues() -> Iterator[Probe]:
    """Yield probes of the queues: with ops blocked in n streams, the next stream's op is blocked if there are n queues.

    The host waits for that op and then issues one more, so its issue time tells.
    """
    ops: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: replace(TINY, stream=stream),
        "copies": lambda stream: Copy("d2h", LINK_BYTES, stream),
    }
    for engine, kind in QUEUES.items():
        make = ops[engine]
        for n in range(1, MOST_QUEUES):
            free, gate = n + 1, n + 2
            blocked = [op for stream in range(1, free) for op in (WaitEvent(0, stream), make(stream))]
            last: list[Op] = [make(free), Synchronize(stream=free), make(gate)]
            opening: list[Op] = [Kernel(gate, duration_s=QUEUE_GATE_S, fill=0.01), RecordEvent(0, gate)]
            yield probe_of(kind, 0, n, [*opening, *blocked, *last], gate, events=1)


def rules() -> Iterator[Probe]:
    """Yield probes that show which of several ready heads goes first: the host waits for stream 1's second op.

    Stream 1 has two ops. Stream 4 has one, issued between them, which is ready at once and takes the room that the
    first kernel leaves. Streams 2 and 3 have one each behind a copy back, issued between them and last; they become
    ready while the first op runs, stream 3's before stream 2's. So the second op of stream 1 comes first under
    same-queue-first, after stream 4's and stream 2's in issue order, and last in ready order. Kernels leave the card
    before they end, and with them the turn of their queue: same-queue-first shows as ready order.
    """
    makers: dict[str, Callable[[int], Op]] = {
        "compute": lambda stream: replace(FULL, stream=stream),
        "h2d": lambda stream: Copy("h2d", 16 * MI, stream),
    }
    for engine, kind in RULES.items():
        make = makers[engine]
        early: list[Op] = [Copy("d2h", 64 * KI, 3), Copy("d2h", 2 * MI, 2)]
        heads = [make(stream) for stream in (1, 4, 2, 1, 3)]
        yield probe_of(kind, 0, 1, [*early, *heads, Synchronize(stream=1), TINY], 4)


# The fit


def fit_queues(samples: Samples, kind: str) -> int:
    """Return the number of hardware queues: the fewest blocked streams that also block the next one."""
    held = (chain.length for chain in samples.of(kind) if samples.median(chain, "issue_s") > QUEUE_GATE_S / 2)
    return min(held, default=MOST_QUEUES)


def fit_rules(samples: Samples, device: Device) -> Device:
    """Return the device with the arbitration rule of each engine that brings the model closest to its probe."""
    schedules = {chain.kind: schedule for chain, schedule in rules()}

    def best(kind: str, with_rule: Callable[[Arbitration], Device]) -> Arbitration:
        (chain,) = samples.of(kind)
        measured_s = samples.median(chain, "issue_s")
        return min(ARBITRATIONS, key=lambda rule: abs(simulated_issue_s(schedules[kind], with_rule(rule)) - measured_s))

    compute, copy_engines = device.compute, device.copy_engines
    kernels = best(RULES["compute"], lambda rule: replace(device, compute=replace(compute, arbitration=rule)))
    copies = best(RULES["h2d"], lambda rule: replace(device, copy_engines=replace(copy_engines, arbitration=rule)))
    return replace(
        device,
        compute=replace(compute, arbitration=kernels),
        copy_engines=replace(copy_engines, arbitration=copies),
    )
