"""The numbers assumed for cards that nobody calibrated: one calibrated card with such numbers of the other.

``cd validate; python -m campaigns.tables shipped`` prints what that is worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from streamsim import Device

LATENCIES = ("latency_s", "duplex_latency_s", "crowded_latency_s", "crowded_duplex_latency_s", "in_flight_bytes")


def with_assumed(card: Device, other: Device) -> Device:
    """``card`` with what its profile would assume if it were not calibrated, of ``other``; no crowd slows its bytes."""
    links = {
        way: replace(
            getattr(card, way),
            crowded_bandwidth_bytes_per_s=getattr(card, way).bandwidth_bytes_per_s,
            **{name: getattr(getattr(other, way), name) for name in LATENCIES},
        )
        for way in ("h2d", "d2h")
    }
    compute = replace(card.compute, floor_s=other.compute.floor_s)
    return replace(card, **links, compute=compute, hand_over=other.hand_over, host=other.host)
