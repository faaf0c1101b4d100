"""What an op's spans and calls are, in ticks."""

from strategies import make_device, plan

from streamsim.device import Device
from streamsim.model import simulate
from streamsim.program import Op

IDEAL = make_device()


def spans(device: Device, *ops: Op, **more: object) -> list[tuple[int, int]]:
    """(start, end) of every copy and kernel."""
    timeline = simulate(plan(*ops, **more), device)  # type: ignore[arg-type]
    return [(s, e) for s, e, k in zip(timeline.start, timeline.end, timeline.engine, strict=True) if k >= 0]
