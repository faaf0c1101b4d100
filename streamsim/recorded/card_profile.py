"""Profiles of recorded cards: a shipped profile, or one made from the card's name, with the recording's own numbers."""

from pathlib import Path

import msgspec
import numpy as np

from streamsim.device import (
    AS_SET,
    Device,
    as_device,
    as_recorded,
    changed,
    load_device,
    made_profile,
    profile_named,
    with_values,
)
from streamsim.recorded.copy_rates import DIRECTIONS, copy_rates
from streamsim.recorded.recording import CallKind, RecordedCard, Recording

OWN = "measured: the recording's own copies"
FOLLOWS = "assumed: in step with the recording's own copies"
PAGEABLE, WAKE = "pageable", "host.wake_s"
WAITS = (CallKind.SYNCHRONIZE_STREAM, CallKind.SYNCHRONIZE_DEVICE)
ENOUGH, LONGEST_WAKE_NS = 8, 20_000  # waits needed for the wake-up time of a thread, and the longest time accepted
AMD = "AMD card"  # the name of a card without a name in a recording of HIP calls


def card_of(recording: Recording) -> RecordedCard:
    """Return the card that the recording's work is on; one without a name if there are several cards or none."""
    cards = np.unique(recording.work.card)
    card = recording.cards[int(cards[0])] if len(cards) == 1 else RecordedCard(0)
    is_amd = not card.name and any(recording.names[name].startswith("hip") for name in np.unique(recording.calls.name))
    return msgspec.structs.replace(card, name=AMD) if is_amd else card


def profile_of(recording: Recording, device: Device | str | Path | None = None) -> Device:
    """Return the profile for replays of a recording: ``device``, or else the profile of the recording's card.

    The card's profile is the shipped one of its name, or one made from the name. It gets the copy engines, the memory
    and the copy rates that the recording shows. A given ``device`` gets only the recording's rate of pageable copies,
    because the recording's host stages them.
    """
    if device is not None:
        return with_own_rates(recording, as_device(device), only_pageable=True)
    card = card_of(recording)
    name = profile_named(card.name)
    if name is None:
        made = made_profile(card.name, card.multiprocessors, card.memory_bytes, card.copy_engines)
        return with_own_rates(recording, made)
    return with_own_rates(recording, as_recorded(load_device(name), card.memory_bytes, card.copy_engines))


def with_own_rates(recording: Recording, device: Device, only_pageable: bool = False) -> Device:
    """Return ``device`` with the copy rates that the recording shows, or only those of pageable copies."""
    rates = copy_rates(recording, device)
    if only_pageable:
        rates = {name: rate for name, rate in rates.items() if PAGEABLE in name}
    elif device.source(WAKE)[0] == "assumed" and (wake_s := _wake_s(recording)) is not None:
        device = with_values(device, {WAKE: wake_s})
        device = msgspec.structs.replace(
            device, sources={**device.sources, WAKE: "measured: the recording's own waits"}
        )
    if not rates:
        return device
    found = changed(device, {**_other_way(device, rates), **rates})
    which = "pageable copies" if all(PAGEABLE in name for name in rates) else "copies"
    card = card_of(recording).name or "the recorded card"
    sources = {name: FOLLOWS if text.startswith(AS_SET) else text for name, text in found.sources.items()}
    return msgspec.structs.replace(
        found,
        name=f"{device.name} with the recording's {which}",
        description=f"{card}: {which} as fast as recorded, else {device.name}",
        link=device.link,
        sources={**sources, **dict.fromkeys(rates, OWN)},
    )


def _wake_s(recording: Recording) -> float | None:
    """Return the median seconds from the end of work until a call that waited returns; None for too few waits."""
    calls, work = recording.calls, recording.work
    waits = np.flatnonzero(np.isin(calls.kind, WAITS))
    ended = np.sort(work.end_ns)
    at = np.searchsorted(ended, calls.end_ns[waits]) - 1
    known = at >= 0
    last_ns = ended[at[known]]
    has_waited = last_ns > calls.start_ns[waits][known]  # else the work had ended before
    took_ns = (calls.end_ns[waits][known] - last_ns)[has_waited]
    return float(np.median(took_ns).clip(0, LONGEST_WAKE_NS)) * 1e-9 if len(took_ns) >= ENOUGH else None


def _other_way(device: Device, rates: dict[str, float]) -> dict[str, float]:
    """Return the new rate of a direction without recorded copies, if its rate is assumed: it follows the other one."""
    names = [f"{direction}.bandwidth_bytes_per_s" for direction in DIRECTIONS]
    for told, other in (names, names[::-1]):
        if told in rates and other not in rates and device.source(other)[0] == "assumed":
            was_told, was_other = (getattr(device, name[:3]).bandwidth_bytes_per_s for name in (told, other))
            return {other: was_other * rates[told] / was_told}
    return {}
