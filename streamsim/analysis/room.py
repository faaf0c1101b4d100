"""Whether a pipeline has room on the card, and if not, how it could have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamsim.checks import MOST_CHUNKS
from streamsim.text.quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamsim.device.profile import Device
    from streamsim.program.config import Config
    from streamsim.program.workload import Workload

BUFFERS = (2, 1)  # of a ring, at least: one is filled while the other is worked on; or but one
A_STREAM = 2  # buffers at most: more save next to no time


def check_room(workload: Workload, config: Config, device: Device) -> None:
    """Raise NoRoomError, that says what would have room, for a workload cut and issued so that has none."""
    n_bytes = config.device_bytes(workload)
    if not device.has_room(n_bytes):
        device.check_room(n_bytes, _remedy(workload, config, device))


def _remedy(workload: Workload, config: Config, device: Device) -> str:
    if not device.has_room(workload.once_bytes + 1):
        once = format_bytes(workload.once_bytes)
        return f"the arrays that are copied once take {once} of it: cut them, allow more, or take a larger card"
    for ring in _rings(workload, config):
        if device.has_room(ring.device_bytes(workload)):
            found = _widened(workload, ring, device)
            holds = format_bytes(found.device_bytes(workload))
            return f"use buffers = {found.buffers}, chunks = {found.chunks}, {found.order}: that holds {holds}"
    return "no number of chunks makes it fit: allow more, or take a larger card"


def _rings(workload: Workload, config: Config) -> Iterator[Config]:
    """Over two buffers, with as many chunks and then ever more, down to the least room; then over one."""
    most = min(workload.most_chunks, MOST_CHUNKS)
    order = "prefetch" if config.is_prefetch else "depth-first"
    for buffers in BUFFERS:
        chunks = max(2, config.chunks)
        while chunks < most:
            yield replace(config, order=order, buffers=buffers, chunks=chunks)
            chunks *= 2
        yield replace(config, order=order, buffers=buffers, chunks=most)


def _widened(workload: Workload, ring: Config, device: Device) -> Config:
    """With as many buffers as have room, up to some for each stream and one less than there are chunks."""
    several = range(ring.buffers or 1, min(A_STREAM * ring.streams, ring.chunks - 1) + 1)
    wider = (replace(ring, buffers=buffers) for buffers in reversed(several))
    return next((one for one in wider if device.has_room(one.device_bytes(workload))), ring)
