"""What a recording says of its card and its host: rates of copies, slow copies, the profile, the cost of recording.

Pinned copies run at the pace of the link: alone, and beside the other direction. Pageable copies are staged by the host
and run at its pace. A pageable copy that took much longer held the host for another reason: memory that is touched for
the first time (page faults), a module that is loaded, a lock.

The host's cost of recording is known in two ways. Programs make calls that take no time, such as asking for the current
card. A profiler that writes these calls shows the cost of each record. PyTorch's profiler writes few of them; for it,
the ratio of the host's own time, recorded over plain, is measured. For other recordings the cost is unknown, and
nothing is subtracted.
"""

from __future__ import annotations

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
    with_values,
)
from streamsim.recorded.recording import (
    LATEST_NS,
    LOOKUPS,
    NONE,
    QUERIES,
    SIMULATED,
    AnnotationKind,
    CallKind,
    CardWork,
    CopyDirection,
    CopyMemory,
    RecordedCard,
    Recording,
    WorkKind,
    places,
)
from streamsim.recorded.times import Covered, latest_before, merged

DIRECTIONS = {"h2d": CopyDirection.H2D, "d2h": CopyDirection.D2H}
PINNED = (CopyMemory.PINNED, CopyMemory.UNKNOWN)  # a replay takes memory that is not recorded to be pinned
OTHER = {"h2d": "d2h", "d2h": "h2d"}
LEAST_BYTES = 256 << 10  # smaller copies are mostly latency and show no rate
SLOW, SLOW_NS = 1.5, 20_000  # a copy is slow from this multiple of the time that its rate explains, and this much more
FAULTS_BYTES_PER_S = 3e9  # rates below this may be page faults: 0.5 to 2.8 GB/s on six hosts
FAULTS_SHARE = 0.5  # below this share of the profile's rate, all copies back may be page faults
FEW, LATENCIES_S = 3, (0.5e-6, 20e-6)  # the least number of small copies for a latency; its least and largest value
ENOUGH_GAPS = 8  # the least number of copies that waited for another one, to find a time between them
LEAST_SHARE = 0.02  # the least share of all copies' time, alone or beside the other direction, for a rate of this kind


class Staged(NamedTuple):
    """Copies of pageable memory; each column has shape (copies,).

    - ``rows``: their rows of the work; ``sizes``: bytes.
    - ``from_ns``: when the host could begin; ``took_ns``: from then until all bytes had arrived.
    - ``after_ns``: the part of ``took_ns`` after the copy had ended on the card.
    - ``has_waited``: the stream was busy at the call; ``is_early``: the call had returned before the copy began.
    """

    rows: NDArray[np.int64]
    sizes: NDArray[np.int64]
    from_ns: NDArray[np.int64]
    took_ns: NDArray[np.int64]
    after_ns: NDArray[np.int64]
    has_waited: NDArray[np.bool_]
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
    ``has_waited``: its stream was busy when it was called.
    """

    before_ns: int
    after_ns: int
    has_waited: bool


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
            before_ns = int(excess_ns[k] - after_ns[k])
            found[int(staged.rows[k])] = Held(before_ns, int(after_ns[k]), bool(staged.has_waited[k]))
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
        return _latency(work, rows, direction, device)
    rows = rows[large]
    beside_ns = _beside_ns(work, rows, direction)
    sizes = work.bytes[rows]
    latency_ns = link.latency_s * 1e9 - _between_ns(recording, direction, link.latency_s * 1e9)
    took_ns = (work.end_ns - work.start_ns)[rows] - round(latency_ns)
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


def _latency(work: CardWork, rows: NDArray[np.int64], direction: str, device: Device) -> dict[str, float]:
    """Return the latency of pinned copies that are all small: the median of their times less those of their bytes."""
    if len(rows) < FEW:
        return {}
    link = getattr(device, direction)
    took_s = (work.end_ns - work.start_ns)[rows] * 1e-9 - work.bytes[rows] / link.bandwidth_bytes_per_s
    return {f"{direction}.latency_s": float(np.median(took_s).clip(*LATENCIES_S))}


def _between_ns(recording: Recording, direction: str, most_ns: float) -> float:
    """Return the median nanoseconds between copies of a direction that waited for each other, at most ``most_ns``.

    On some cards, a profiler's times of a copy begin with its bytes, and on others with its command.
    """
    work, calls = recording.work, recording.calls
    rows = np.flatnonzero(_copies(work, direction, *PINNED) & (work.call != NONE))
    before, after = rows[:-1], rows[1:]
    has_waited = calls.end_ns[work.call[after]] < work.end_ns[before]
    has_waited &= latest_before(work.stream, work.end_ns)[after] < work.end_ns[before]
    gaps_ns = (work.start_ns[after] - work.end_ns[before])[has_waited]
    return float(np.median(gaps_ns).clip(0, most_ns)) if len(gaps_ns) >= ENOUGH_GAPS else 0.0


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
    """Return the bytes a second of pageable copies, without slow ones; None if no copy is large enough.

    Copies back at the rate of page faults do not count, unless the profile's own rate is about as low: the host copies
    faster once its memory has been touched.
    """
    staged, link = _staged(recording, direction), getattr(device, direction)
    large = staged.sizes >= LEAST_BYTES
    if not large.any():
        return None
    sizes = staged.sizes[large]
    took_ns = np.maximum(staged.took_ns[large] - round(link.pageable_latency_s * 1e9), 1)
    usual = np.median(sizes / took_ns)
    regular = took_ns <= SLOW * sizes / usual
    rate = _rate(sizes[regular], took_ns[regular])
    faults = min(FAULTS_BYTES_PER_S, FAULTS_SHARE * link.pageable_bandwidth_bytes_per_s)
    if direction == "d2h" and rate < faults:
        fast = sizes / took_ns * 1e9 >= faults
        return _rate(sizes[fast], took_ns[fast]) if fast.any() else None
    return rate


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
    free_ns = latest_before(work.stream, work.end_ns)[rows]
    has_waited, is_early = free_ns > start_ns, end_ns <= begun_ns
    if direction == "d2h":
        done_ns, from_ns = np.maximum(end_ns, work.end_ns[rows]), begun_ns
    else:
        done_ns = np.where(is_early, work.end_ns[rows], end_ns)
        from_ns = np.minimum(np.maximum(start_ns, free_ns), done_ns)
    after_ns = np.maximum(done_ns - work.end_ns[rows], 0)
    return Staged(rows, sizes, from_ns, done_ns - from_ns, after_ns, has_waited, is_early)


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


# The cost of recording

# The cost of recording a piece of work, over that of recording its call: 0.8 and 0.2 us. Measured on host-bound
# programs, recorded by CUPTI on an H100 and an H200; docs/evidence.md judges it on another card.
WORK = 4.0
# The time by which recording delays a hand-over to another engine, because each op gets two time stamps. Measured on
# card-bound programs in one stream, with CUPTI and without, on an H100 and two H200; docs/evidence.md judges it on
# others.
STAMPS_S = 1e-6
ENOUGH = 8  # the least number of calls that do nothing, to find the cost of recording
SHORT = 0.1  # the share of the gaps behind such calls in which the host does nothing else
MOST = 0.9  # the share of the calls beside which nothing else ran on the host
ENOUGH_LOOKUPS = 3  # the same for the few such calls of PyTorch's profiler, one for each copy and matrix product
# Calls that a library makes for each call that puts work on the card, recorded but not written by PyTorch's profiler.
# CUPTI shows 12 to 16 of PyTorch, in inference, training and streamed layers, and 3 or 4 of CuPy.
UNWRITTEN_OF_PYTORCH, UNWRITTEN_OF_OTHERS = 14, 3
# The cost behind a call, and of an operation of PyTorch, over the cost in a call: 0.2 and 1.8 us over 0.4 us. Measured
# on a chunk's operations on an H100, one by one, recorded and not; docs/evidence.md judges both on others.
BEHIND, OPERATION = 0.5, 4.0
MOST_S = 10e-6  # the most for one call or operation: up to 3 us on one host, and hosts differ by a factor of three
# The time of PyTorch's profiler in the first copy or launch of a recording: 0.31 to 0.50 ms in nine recordings.
FIRST_S = 0.25e-3, 0.6e-3


class HostCosts(msgspec.Struct, frozen=True):
    """The cost of recording that is taken out of the host's time, in seconds.

    - ``call_s``: for each call; ``between_s``: between two calls.
    - ``work_s``: for each call that puts work on the card, because this work is recorded, too.
    - ``unwritten_s``: before each such call, for calls that were recorded but are not in the recording.
    - ``operation_s``: for each recorded operation of PyTorch.
    - ``share``: of the host's time, in calls and between them, up to ``most_s`` for each call and operation.
    - ``first``: True if the first copy or launch loses the work of PyTorch's profiler in it.
    """

    call_s: float = 0.0
    between_s: float = 0.0
    work_s: float = 0.0
    unwritten_s: float = 0.0
    operation_s: float = 0.0
    share: float = 0.0
    most_s: float = MOST_S
    first: bool = False

    def scaled(self, factor: float) -> HostCosts:
        """Return the costs with all times multiplied by ``factor``."""
        times = (name for name in self.__struct_fields__ if name.endswith("_s") and name != "most_s")
        return msgspec.structs.replace(self, **{name: getattr(self, name) * factor for name in times})


# The host's time while PyTorch's profiler records, over its plain time, without and with a backward pass: calls of
# PyTorch 2.11, 100 of a kind outside and inside a recording in turn. On one host the ratio is the median over the kinds
# of calls that programs make: forward, forward and backward, an optimizer (one fused), autocast, zeroing gradients,
# linear layers, copies. These are the means of the hosts of an H100 and an H200; the two have 1.2 and 1.43 in place of
# 1.32, and with stacks 1.3 and 2.0.
RATIOS = {"stack": (1.53, 1.47), "shapes": (1.4, 1.4), "PyTorch": (1.32, 1.34)}  # by a word of the recording's tool
RATIO_OF_CALLS = 1.1  # if no operation is recorded: on the host of an H100


def costs_of(recording: Recording) -> tuple[HostCosts, str]:
    """Return the cost of a recording, and how it is known."""
    if recording.tool == SIMULATED:
        return HostCosts(), "the program was simulated, and recording took no time"
    notes = recording.annotations
    threads = len(np.unique(notes.thread[notes.kind == AnnotationKind.OP]))  # a backward pass has one of its own
    asked = costs_of_queries(recording) if threads < 2 else None
    if asked is not None:
        return asked, "by calls of the program that do nothing"
    if recording.format != "Kineto":
        return HostCosts(), "not known of this profiler; nothing is taken off"
    ratios = next((ratios for word, ratios in RATIOS.items() if word in recording.tool), RATIOS["PyTorch"])
    ratio = ratios[threads > 1] if threads else RATIO_OF_CALLS
    where = "hosts of an H100 and an H200" if threads else "the host of an H100"
    how = f"recorded, the host takes {ratio:g} times its own time; measured on {where}"
    return HostCosts(share=1.0 - 1.0 / ratio, first=True), how


def while_recorded(device: Device) -> Device:
    """Return the device while a profiler records it: hand-overs to another engine take longer."""
    engines = [name for name in device.hand_over.__struct_fields__ if "_to_" in name and name != "kernel_to_kernel_s"]
    return with_values(device, {f"hand_over.{name}": getattr(device.hand_over, name) + STAMPS_S for name in engines})


def costs_of_queries(recording: Recording) -> HostCosts | None:
    """Return the cost of each record, from calls that do nothing; None for too few of them.

    PyTorch's profiler writes few of them, and its other costs follow. Of other profilers, the shortest gaps behind such
    calls are the cost between records: the host did nothing else in them.
    """
    calls, is_kineto = recording.calls, recording.format == "Kineto"
    wanted, enough = (LOOKUPS, ENOUGH_LOOKUPS) if is_kineto else (QUERIES, ENOUGH)
    asked = np.flatnonzero(np.isin(calls.name, places(recording.names, wanted)) & (calls.kind == CallKind.OTHER))
    if len(asked) < enough:
        return None
    # A mean without the longest tenth: some profilers count whole microseconds, so that most calls take 0.
    took_ns = (calls.end_ns - calls.start_ns)[asked]
    took_s = float(took_ns[took_ns <= np.quantile(took_ns, MOST)].mean()) * 1e-9
    if is_kineto:
        is_pytorch = (recording.annotations.kind == AnnotationKind.OP).any()
        unwritten_s = took_s * (1 + BEHIND) * (UNWRITTEN_OF_PYTORCH if is_pytorch else UNWRITTEN_OF_OTHERS)
        return HostCosts(took_s, took_s * BEHIND, took_s * WORK, unwritten_s, took_s * OPERATION, first=True)
    before = asked[asked < len(calls) - 1]
    behind = before[calls.thread[before] == calls.thread[before + 1]]
    gaps_ns = (calls.start_ns[behind + 1] - calls.end_ns[behind]).clip(0)
    between_s = float(np.quantile(gaps_ns, SHORT)) * 1e-9 if len(gaps_ns) else 0.0
    return HostCosts(min(took_s, MOST_S), min(between_s, MOST_S), min(took_s * WORK, MOST_S))


# Taken out of a program


def unwritten_ns(before_ns: NDArray[np.int64], has_work: NDArray[np.bool_], unwritten_ns: int) -> NDArray[np.int64]:
    """Return the nanoseconds of the gap before each call of a thread that went to calls that were not written.

    ``has_work``: True for the calls that put work on the card. ``unwritten_ns`` is the time of unwritten calls before
    each of these. It is taken from the gaps since the one before it, the same share of each gap.
    """
    turn: NDArray[np.int64] = np.cumsum(has_work) - has_work  # which of those with work is next
    together = np.bincount(turn, before_ns, minlength=1)
    share = np.minimum(unwritten_ns / np.maximum(together, 1), 1.0)
    share[int(has_work.sum()) :] = 0.0  # no work is behind these
    return np.rint(before_ns * share[turn]).astype(np.int64)


def share_ns(took_ns: NDArray[np.int64], costs: HostCosts, records: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the nanoseconds that recording took of the host's times in which it wrote ``records`` records."""
    most_ns = np.minimum(records * (costs.most_s * 1e9), float(LATEST_NS))
    return np.asarray(np.rint(np.minimum(took_ns * costs.share, most_ns)), np.int64)
