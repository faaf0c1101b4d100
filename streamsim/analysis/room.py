"""Whether a pipeline has room on the card, and if not, how it could have."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.checks import MOST_CHUNKS
from streamsim.text.quantities import format_bytes

if TYPE_CHECKING:
    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload

DOUBLE = 2  # buffers of a ring: one is filled while the other is worked on


def check_room(workload: Workload, config: Config, device: Device) -> None:
    """Raise NoRoomError, that says what to do, for a workload cut and issued so that has no room on the card."""
    n_bytes, room = config.device_bytes(workload), device.memory_bytes
    if room is not None and n_bytes > room:
        device.check_room(n_bytes, _remedy(workload, config, room))


def _remedy(workload: Workload, config: Config, room: int) -> str:
    once = sum(workload.h2d_once) + sum(workload.d2h_once)
    if once >= room:
        held = f"the arrays that are copied once take {format_bytes(once)} of it"
        return f"{held}: cut them, allow more, or take a larger card"
    double = replace(config, order="prefetch" if config.is_prefetch else "depth-first", buffers=DOUBLE)
    most = min(workload.most_chunks, MOST_CHUNKS)
    for chunks in takewhile(lambda n: n <= most, (1 << k for k in range(1, MOST_CHUNKS.bit_length()))):
        n_bytes = replace(double, chunks=chunks).device_bytes(workload)
        if n_bytes <= room:
            return f"use buffers = {DOUBLE}, chunks = {chunks}, {double.order}: that holds {format_bytes(n_bytes)}"
    return "no number of chunks makes it fit: allow more, or take a larger card"
