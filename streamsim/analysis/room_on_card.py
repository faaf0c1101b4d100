"""The room that a pipeline needs on the card, and what to change if the card has less."""

from collections.abc import Iterator

from msgspec.structs import replace

from streamsim.checks import MOST_CHUNKS
from streamsim.device import Device
from streamsim.program import Config, Workload
from streamsim.text import format_bytes

BUFFERS = (2, 1)  # of a ring, at least: one is filled while the other is worked on; or but one
A_STREAM = 2  # buffers at most: more save next to no time


def check_room(workload: Workload, config: Config, device: Device) -> None:
    """Raise NoRoomError, that says what would have room, for a workload cut and issued so that has none."""
    n_bytes = config.device_bytes(workload)
    if not device.has_room(n_bytes):
        device.check_room(n_bytes, remedy(workload, config, device.memory_bytes or 0))


def remedy(workload: Workload, config: Config, room_bytes: int) -> str:
    """What would have room in so many bytes where ``config`` has none."""
    if workload.once_bytes >= room_bytes:
        once = format_bytes(workload.once_bytes)
        return f"the arrays that are copied once take {once} of it: cut them, allow more, or take a larger card"
    for ring in _rings(workload, config):
        if ring.device_bytes(workload) <= room_bytes:
            found = _widened(workload, ring, room_bytes)
            over = f" over {found.streams} streams" if found.streams > 1 else ""
            return (
                f"use buffers = {found.buffers}, chunks = {found.chunks}, {found.order}{over}:"
                f" that holds {format_bytes(found.device_bytes(workload))}"
            )
    return "no number of chunks makes it fit: allow more, or take a larger card"


def _rings(workload: Workload, config: Config) -> Iterator[Config]:
    """Over two buffers, with as many chunks and then ever more, down to the least room; then over one.

    Two buffers are worth having over two streams.
    """
    most = min(workload.most_chunks, MOST_CHUNKS)
    order = "prefetch" if config.is_prefetch else "depth-first"
    for buffers in BUFFERS:
        streams = 1 if config.is_prefetch else max(buffers, config.streams)
        chunks = max(2, config.chunks)
        while chunks < most:
            yield replace(config, order=order, buffers=buffers, chunks=chunks, streams=streams)
            chunks *= 2
        yield replace(config, order=order, buffers=buffers, chunks=most, streams=min(streams, most))


def _widened(workload: Workload, ring: Config, room_bytes: int) -> Config:
    """With as many buffers for each stream as have room, up to some and fewer than there are chunks."""
    several = range(A_STREAM * ring.streams, ring.buffers or 1, -ring.streams)
    wider = (replace(ring, buffers=buffers) for buffers in several if buffers < ring.chunks)
    return next((one for one in wider if one.device_bytes(workload) <= room_bytes), ring)
