"""The rates of a recording's own copies, the copies that took longer, and the profile of the recorded card.

Pinned copies run at the pace of the link: alone, and beside the other direction. Pageable copies are staged by the host
and run at its pace. A pageable copy that took much longer held the host for another reason: memory that is touched for
the first time (page faults), a module that is loaded, a lock.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsim.device import (
    AS_SET,
    SLOWEST_BYTES_PER_S,
    Device,
    as_device,
    changed,
    link_limit,
    profile_of_card,
)
from streamsim.recorded.recording import (
    NONE,
    CardWork,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    Recording,
    WorkKind,
)
from streamsim.recorded.times import Covered, latest_before, merged

DIRECTIONS = {"h2d": CopyDirection.H2D, "d2h": CopyDirection.D2H}
PINNED = (CopyMemory.PINNED, CopyMemory.UNKNOWN)  # a replay takes memory that is not recorded to be pinned
OTHER = {"h2d": "d2h", "d2h": "h2d"}
LEAST_BYTES = 256 << 10  # smaller copies are mostly latency and show no rate
SLOW, SLOW_NS = 1.5, 20_000  # a copy is slow from this multiple of the time that its rate explains, and this much more
LEAST_SHARE = 0.02  # the least share of all copies' time, alone or beside the other direction, for a rate of this kind


class Staged(NamedTuple):
    """Copies of pageable memory; each column has shape (copies,).

    - ``rows``: their rows of the work; ``sizes``: bytes.
    - ``from_ns``: when the host could begin; ``took_ns``: from then until all bytes had arrived.
    - ``after_ns``: the part of ``took_ns`` after the copy had ended on the card.
    - ``is_early``: the call had returned before the copy began.
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]
    from_ns: NDArray[np.int64]
    took_ns: NDArray[np.int64]
    after_ns: NDArray[np.int64]
    is_early: NDArray[np.bool_]


def copy_rates(recording: Recording, device: Device) -> dict[str, float]:
    """Return the numbers of a profile that the copies show, by name; ``device`` has the latencies and limits."""
    found: dict[str, float] = {}
    most = link_limit(device.link)
    for direction in DIRECTIONS:
        found |= _pinned(recording, device, direction, most)
        rate = _pageable(recording, device, direction)
        if rate is not None:
            found[f"{direction}.pageable_bandwidth_bytes_per_s"] = min(rate, most)
    slowest = {name: SLOWEST_BYTES_PER_S for name in found if "bandwidth" in name}
    return {name: max(value, slowest.get(name, 0.0)) for name, value in found.items()}


class Held(NamedTuple):
    """The nanoseconds by which a slow pageable copy held the host longer than its rate explains.

    ``before_ns``: until the copy had ended on the card; ``after_ns``: from then until its call returned.
    """

    before_ns: int
    after_ns: int


def held_ns(recording: Recording, device: Device) -> dict[int, Held]:
    """Return the excess time of each slow pageable copy, by its row of the work."""
    found: dict[int, Held] = {}
    for direction in DIRECTIONS:
        link, staged = getattr(device, direction), _staged(recording, direction)
        expected_ns = (link.pageable_latency_s + staged.sizes / link.pageable_bandwidth_bytes_per_s) * 1e9
        excess_ns = np.rint(staged.took_ns - expected_ns).astype(np.int64)
        after_ns = np.minimum(staged.after_ns, excess_ns)
        slow = staged.took_ns > SLOW * expected_ns + SLOW_NS
        slow &= ~(staged.is_early & (staged.sizes <= device.host.pageable_immediate_bytes))  # their calls have the time
        for k in np.flatnonzero(slow).tolist():
            found[int(staged.rows[k])] = Held(int(excess_ns[k] - after_ns[k]), int(after_ns[k]))
    return found


def occupied_ns(recording: Recording, device: Device) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start and end of each row of the work on its engine, as the model counts them; shape (rows,).

    A large or slow pageable copy occupies its engine from the begin of its staging until all bytes have arrived,
    without the time in which something else held the host.
    """
    starts, ends = recording.work.start_ns.copy(), recording.work.end_ns.copy()
    slow = held_ns(recording, device)
    for direction in DIRECTIONS:
        staged = _staged(recording, direction)
        large = ~staged.is_early & (staged.sizes >= LEAST_BYTES)
        chosen = large | np.isin(staged.rows, list(slow))
        rows, from_ns = staged.rows[chosen], staged.from_ns[chosen]
        starts[rows], ends[rows] = from_ns, from_ns + staged.took_ns[chosen]
    for row, held in slow.items():
        ends[row] -= held.before_ns + held.after_ns
    return starts, ends


# Pinned memory


def _pinned(recording: Recording, device: Device, direction: str, most: float) -> dict[str, float]:
    """Return the rates of pinned copies: alone, and beside the other direction if enough copies ran beside it.

    A copy has one rate while it is alone, and another one while the other direction is busy. Both are found by least
    squares over all copies, in which large copies weigh most.
    """
    work, link = recording.work, getattr(device, direction)
    rows = np.flatnonzero(_copies(work, direction, *PINNED))
    large = work.bytes[rows] >= LEAST_BYTES
    if not large.any():
        return {}
    rows = rows[large]
    beside_ns = _beside_ns(work, rows, direction)
    sizes = work.bytes[rows]
    took_ns = (work.end_ns - work.start_ns)[rows] - round(link.latency_s * 1e9)
    alone_ns = np.maximum(took_ns - beside_ns, 1)
    shares = np.array([alone_ns.sum(), beside_ns.sum()]) / (alone_ns.sum() + beside_ns.sum())
    field, shared = f"{direction}.bandwidth_bytes_per_s", f"{direction}.duplex_bandwidth_bytes_per_s"
    loss = link.duplex_bandwidth_bytes_per_s / link.bandwidth_bytes_per_s
    if shares[1] < LEAST_SHARE:
        return {field: min(_rate(sizes, took_ns), most)}
    if shares[0] < LEAST_SHARE:
        together = min(_rate(sizes, took_ns), most)
        return {field: min(together / loss, most), shared: together}
    rates = np.linalg.lstsq(np.stack([alone_ns, beside_ns], axis=1), sizes, rcond=None)[0] * 1e9
    if not 0 < rates[1] <= rates[0]:  # they do not differ, or too few copies tell them apart
        rates = np.full(2, _rate(sizes, took_ns))
    alone = min(float(rates[0]), most)
    return {field: alone, shared: min(float(rates[1]), alone)}


def _beside_ns(work: CardWork, rows: NDArray[np.int64], direction: str) -> NDArray[np.int64]:
    """Return for how long each copy ran beside a copy in the other direction, in nanoseconds."""
    others = _copies(work, OTHER[direction])
    covered = Covered(merged(work.start_ns[others], work.end_ns[others]))
    return np.array([covered.within(work.start_ns[row], work.end_ns[row]) for row in rows.tolist()], np.int64)


def _rate(sizes: NDArray[np.int64], took_ns: NDArray[np.int64]) -> float:
    """Return the bytes a second of copies with these times, without latencies; large copies weigh most."""
    took = np.maximum(took_ns, 1).astype(np.float64)
    return float((sizes * took).sum() / (took * took).sum() * 1e9)


def _copies(work: CardWork, direction: str, *memories: CopyMemory) -> NDArray[np.bool_]:
    """Return True for each copy in a direction, of one of these ``memories`` or, without them, of any."""
    mine = (work.kind == WorkKind.COPY) & (work.direction == DIRECTIONS[direction]) & (work.end_ns > work.start_ns)
    return np.asarray(mine & np.isin(work.memory, memories) if memories else mine)


# Pageable memory


def _pageable(recording: Recording, device: Device, direction: str) -> float | None:
    """Return the bytes a second of large pageable copies, without slow ones; None if there are none."""
    staged = _staged(recording, direction)
    large = staged.sizes >= LEAST_BYTES
    latency_ns = round(getattr(device, direction).pageable_latency_s * 1e9)
    sizes, took_ns = staged.sizes[large], np.maximum(staged.took_ns[large] - latency_ns, 1)
    if not large.any():
        return None
    regular = took_ns <= SLOW * sizes / np.median(sizes / took_ns)
    return _rate(sizes[regular], took_ns[regular])


def _staged(recording: Recording, direction: str) -> Staged:
    """Return the times of pageable copies.

    A copy from the card counts from its begin until its call returned. For a copy to the card, the host begins with the
    call, once its stream is free. If the call returned before the copy began, as for few bytes, all staged bytes were
    still to be copied.
    """
    work = recording.work
    rows = np.flatnonzero(_copies(work, direction, CopyMemory.PAGEABLE) & (work.bytes > 0) & (work.call != NONE))
    call, begun_ns, sizes = work.call[rows], work.start_ns[rows], work.bytes[rows]
    start_ns, end_ns = recording.calls.start_ns[call], recording.calls.end_ns[call]
    is_early = end_ns <= begun_ns
    if direction == "d2h":
        done_ns, from_ns = np.maximum(end_ns, work.end_ns[rows]), begun_ns
    else:
        done_ns = np.where(is_early, work.end_ns[rows], end_ns)
        free_ns = latest_before(work.stream, work.end_ns)[rows]
        from_ns = np.minimum(np.maximum(start_ns, free_ns), done_ns)
    after_ns = np.maximum(done_ns - work.end_ns[rows], 0)
    return Staged(rows, sizes, from_ns, done_ns - from_ns, after_ns, is_early)


OWN = "measured: the recording's own copies"
FOLLOWS = "assumed: in step with the recording's own copies"
PAGEABLE = "pageable"
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
    card = card_of(recording)
    of_card = (card.name, card.multiprocessors, card.memory_bytes, card.copy_engines)
    on = profile_of_card(*of_card) if device is None else as_device(device)
    rates = {name: rate for name, rate in copy_rates(recording, on).items() if device is None or PAGEABLE in name}
    if not rates:
        return on
    found = changed(on, rates)
    which = "pageable copies" if all(PAGEABLE in name for name in rates) else "copies"
    sources = {name: FOLLOWS if text.startswith(AS_SET) else text for name, text in found.sources.items()}
    return msgspec.structs.replace(
        found,
        name=f"{on.name} with the recording's {which}",
        description=f"{card.name or 'the recorded card'}: {which} as fast as recorded, else {on.name}",
        link=on.link,
        sources={**sources, **dict.fromkeys(rates, OWN)},
    )
