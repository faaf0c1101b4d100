"""Whether a pipeline has room on the card, and if not, how it could have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.checks import MOST_CHUNKS
from streamsim.text.quantities import format_bytes

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload

RINGS = (2, 1)  # buffers: one is filled while the other is worked on, or but one


def check_room(workload: Workload, config: Config, device: Device) -> None:
    """Raise NoRoomError, that says what would have room, for a workload cut and issued so that has none."""
    n_bytes = config.device_bytes(workload)
    if not device.has_room(n_bytes):
        device.check_room(n_bytes, _remedy(workload, config, device))


def _remedy(workload: Workload, config: Config, device: Device) -> str:
    if not device.has_room(workload.once_bytes + 1):
        once = format_bytes(workload.once_bytes)
        return f"the arrays that are copied once take {once} of it: cut them, allow more, or take a larger card"
    most = min(workload.most_chunks, MOST_CHUNKS)
    order = "prefetch" if config.is_prefetch else "depth-first"
    for buffers in RINGS:
        for chunks in [*(1 << k for k in range(1, most.bit_length())), most]:  # the more, the less room
            ring = replace(config, order=order, buffers=buffers, chunks=chunks)
            if device.has_room(n_bytes := ring.device_bytes(workload)):
                return f"use buffers = {buffers}, chunks = {chunks}, {order}: that holds {format_bytes(n_bytes)}"
    return "no number of chunks makes it fit: allow more, or take a larger card"
