"""The profile of the card that a recording is of: by its name, or with the recording's own copy rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from streamsim.device.library import as_device, device_names, load_device
from streamsim.device.variations import changed
from streamsim.recorded.recording import CopyDirection, CopyMemory, WorkKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from streamsim.device.profile import Device
    from streamsim.recorded.recording import CardWork, Recording

BASE = "h100"  # of cards that have no profile: all but the rates of its copies
LEAST_COPIES, LARGE_BYTES = 3, 1 << 20  # from which a rate is told: so many, and those of the larger half or this size
_DIRECTIONS = {"h2d": CopyDirection.H2D, "d2h": CopyDirection.D2H}


def card_name(recording: Recording) -> str:
    """What the recording calls the card that its work is on; "" where it does not say."""
    cards = np.unique(recording.work.card)
    return recording.cards[int(cards[0])].name if len(cards) == 1 else ""


def profile_named(card: str) -> str | None:
    """The shipped profile of a card, by the card's name; None where there is none.

    That of ``"NVIDIA A100-SXM4-40GB"`` is ``a100``: the longest name that stands in it as words or beginnings of them.
    """
    words = re.sub(r"[^a-z0-9]+", " ", card.lower())
    joined = words.replace("rtx ", "rtx")
    names = [name for name in device_names() if not name.startswith("ideal") and "-" not in name]
    found = [name for name in names if re.search(rf"\b{name}\b", joined)]
    return max(found, key=len, default=None)


def profile_of(recording: Recording, device: Device | str | Path | None = None) -> Device:
    """The profile on which to replay a recording: ``device``, or else the shipped one of the recording's card.

    The pace of pageable copies is the recording's own where it has some: they are staged by its host, of which the
    profile of a card knows nothing. A card without a profile gets one with the rates of all of its own copies.
    """
    name = profile_named(card_name(recording))
    if device is None and name is None:
        return with_own_rates(recording, load_device(BASE), (CopyMemory.PINNED, CopyMemory.PAGEABLE))
    known = load_device(name or BASE) if device is None else as_device(device)
    return with_own_rates(recording, known, (CopyMemory.PAGEABLE,))


def with_own_rates(recording: Recording, device: Device, memories: Sequence[CopyMemory]) -> Device:
    """``device`` with the rates at which the recording's own copies of these ``memories`` went.

    A rate is the median over the larger copies of a direction; where there are fewer than three, the device's stays,
    and so does the device where no rate is told.
    """
    rates: dict[str, float] = {}
    for direction in _DIRECTIONS:
        for memory in memories:
            prefix = "pageable_" if memory == CopyMemory.PAGEABLE else ""
            latency_s = getattr(getattr(device, direction), f"{prefix}latency_s")
            rate = _rate(recording, direction, memory, latency_s)
            if rate is not None:
                rates[f"{direction}.{prefix}bandwidth_bytes_per_s"] = rate
    if not rates:
        return device
    found = changed(device, rates)
    which = "copies" if CopyMemory.PINNED in memories else "pageable copies"
    return msgspec.structs.replace(
        found,
        name=f"{device.name} with the recording's {which}",
        description=f"{card_name(recording) or 'the recorded card'}: {which} as fast as recorded, else {device.name}",
        sources={**found.sources, **dict.fromkeys(rates, "measured: the recording's own copies")},
    )


def _rate(recording: Recording, direction: str, memory: CopyMemory, latency_s: float) -> float | None:
    """Bytes a second; of pageable memory, which the host stages, from when that began until all was there."""
    work = recording.work
    rows = np.flatnonzero(
        (work.kind == WorkKind.COPY)
        & (work.direction == _DIRECTIONS[direction])
        & (work.memory == memory)
        & (work.bytes > 0)
        & (work.end_ns > work.start_ns)
    )
    if memory == CopyMemory.PAGEABLE:
        rows = rows[work.call[rows] >= 0]
        took_ns = _staged_ns(recording, direction, rows)
    else:
        took_ns = (work.end_ns - work.start_ns)[rows]
    sizes = work.bytes[rows]
    large = sizes >= min(LARGE_BYTES, float(np.median(sizes)) if len(sizes) else 0)
    took_s = took_ns[large] * 1e-9 - latency_s
    rates = sizes[large][took_s > 0] / took_s[took_s > 0]
    return float(np.median(rates)) if len(rates) >= LEAST_COPIES else None


def _staged_ns(recording: Recording, direction: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """What copies of pageable memory took: those from the card from when they began until their call returned.

    To the card the host begins with the call, once its stream is free; and where the call returned before the copy
    began, as of few bytes, all that it had staged was still to be copied.
    """
    work, call = recording.work, recording.work.call[rows]
    start_ns, end_ns = recording.calls.start_ns[call], recording.calls.end_ns[call]
    if direction == "d2h":
        return end_ns - work.start_ns[rows]
    done_ns = np.where(end_ns <= work.start_ns[rows], work.end_ns[rows], end_ns)
    return done_ns - np.maximum(start_ns, _free_ns(work)[rows])


def _free_ns(work: CardWork) -> NDArray[np.int64]:
    """By row when all that was before it in its stream had ended; 0 where there was nothing."""
    found = np.zeros(len(work), np.int64)
    for stream in np.unique(work.stream):
        rows = np.flatnonzero(work.stream == stream)
        rows = rows[np.argsort(work.start_ns[rows], kind="stable")]
        found[rows[1:]] = np.maximum.accumulate(work.end_ns[rows])[:-1]
    return found
