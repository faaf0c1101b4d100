"""Lower bounds on a schedule's makespan, and the published formulas that people use instead of a model.

A bound holds whatever order the engines choose: the simulated makespan is never below it. The published
predictors take whole stage times and a number of chunks; they stand here so that they can be shown beside
every prediction.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec

from streamsim.device.library import as_device
from streamsim.device.profile import Device, LinkDirection
from streamsim.lowering.costs import D2H, FULL_CARD, H2D, KERNEL, NOTHING, Shape
from streamsim.lowering.lowered import Lowered, lower
from streamsim.program.schedule import Copy, Schedule
from streamsim.rules.clock import S_PER_TICK
from streamsim.text.quantities import format_seconds

ENGINE_WORDS = {
    "h2d": "H2D copy engine",
    "d2h": "D2H copy engine",
    "copy": "copy engine",
    "compute": "compute engine",
    "gpu": "copies and kernels in turn",
}
LINK, HOST, CHAIN = "link, both directions", "host issue", "longest chain"


class Bound(msgspec.Struct, frozen=True):
    """No schedule of these ops with these dependences ends before ``seconds`` on the device.

    ``bound_by``: what sets it, in words for people. ``each``: the bound of every resource by itself, in seconds.
    """

    seconds: float
    bound_by: str
    each: dict[str, float]

    def __repr__(self) -> str:
        return f"Bound({format_seconds(self.seconds)} by {self.bound_by})"


def lower_bound(schedule: Schedule, device: Device | str | Path) -> Bound:
    """Bound the makespan from below: the engines' work, the link's, the host's, and the longest chain.

    ``device``: a Device, or the name or file of one. Linear time. Raises InputError for an unknown device, and when it
    has no cost for a kernel that the schedule names.
    """
    return bound_of(lower(schedule, as_device(device)))


def bound_of(program: Lowered) -> Bound:
    """:func:`lower_bound` of a schedule that is lowered for its device already."""
    counts = Counter(program.shape)
    amounts = [(shape, counts[index]) for index, shape in enumerate(program.shapes)]
    longest = _longest_chain(program)
    ticks = {
        **{ENGINE_WORDS[name]: work for name, work in _engine_work(program, amounts)},
        LINK: _link_work(program, amounts),
        HOST: longest.end if longest.is_calls else _host_work(program),
        CHAIN: longest.end,
    }
    bound_by = max(ticks, key=lambda name: ticks[name])  # the first of equals
    return Bound(ticks[bound_by] * S_PER_TICK, bound_by, {name: tick * S_PER_TICK for name, tick in ticks.items()})


Amounts = Sequence[tuple[Shape, int]]  # shapes of ops, and how many there are of each


class _Chain(msgspec.Struct, frozen=True):
    """The longest chain of dependences ends at the tick ``end``; ``is_calls``: host calls take most of it."""

    end: int
    is_calls: bool


def _longest_chain(program: Lowered) -> _Chain:
    """When the last op could end if every engine were free at once and ran any number of ops.

    One pass in issue order, in which dependences only point forwards; the host issues and waits on the way.
    """
    n, kind = len(program.kind), program.kind
    durations = [shape.duration for shape in program.shapes]
    end, calls_in = [0] * n, [0] * n  # each op's chain: when it ends, and the ticks of host calls in it
    ready, ready_calls = [0] * n, [0] * n  # the same when the ops that it waits for have ended
    followers = _followers(program)
    now = calls = program.launch
    for segment in program.segments:
        for op, call in enumerate(program.calls(segment), segment.first):
            now += call
            calls += call
            if kind[op] == NOTHING:
                continue
            start, in_chain = now + program.submit, calls
            if ready[op] > start:
                start, in_chain = ready[op], ready_calls[op]
            end[op], calls_in[op] = start + durations[program.shape[op]], in_chain
            for follower, latency in followers(op):
                if end[op] + latency > ready[follower]:
                    ready[follower], ready_calls[follower] = end[op] + latency, in_chain
        last = max(segment.waits_for, key=end.__getitem__, default=-1)
        if last >= 0 and end[last] + program.wake > now:
            now, calls = end[last] + program.wake, calls_in[last]
    latest = max(range(n), key=end.__getitem__)
    return _Chain(end[latest], 2 * calls_in[latest] > end[latest])


def _followers(program: Lowered) -> Callable[[int], list[tuple[int, int]]]:
    """For an op, the ops that wait for it and the ticks from its end until they may start."""
    after, also, crossing = program.after, program.also, program.crossing

    def of(op: int) -> list[tuple[int, int]]:
        others = also.get(op, [])
        return [(follower, crossing(op, follower)) for follower in (after[op], *others) if follower >= 0]

    return of


def _calls(program: Lowered) -> Iterator[int]:
    """Ticks of every call."""
    return chain.from_iterable(map(program.calls, program.segments))


def _first_arrival(program: Lowered, *kinds: int) -> int:
    """Add up the host's calls to the first op of these kinds: none of them can be on the card before this tick."""
    now = program.launch + program.submit
    for kind, call in zip(program.kind, _calls(program), strict=True):
        now += call
        if kind in kinds:
            return now
    return now


def _host_work(program: Lowered) -> int:
    """Ticks until the last op is on the card if no call ever waits."""
    last = max((op for op, kind in enumerate(program.kind) if kind != NOTHING), default=-1)
    return program.launch + sum(islice(_calls(program), last + 1)) + program.submit if last >= 0 else 0


def _engine_work(program: Lowered, amounts: Amounts) -> Iterator[tuple[str, int]]:
    """Ticks of each engine's ops one after another, from when the first of them can be on the card.

    While a kernel drains others may work; behind the last to work there is a drain that none hides.
    """
    for engine, name in enumerate(program.engine_names):
        kinds = [kind for kind, its_engine in enumerate(program.engine_of) if its_engine == engine]
        own = [(shape, count) for shape, count in amounts if shape.kind in kinds]
        if own:
            busy = sum(shape.works * count for shape, count in own)
            if name == "compute":
                busy = _side_by_side(program, own, busy) + min(shape.drain for shape, _ in own)
            yield name, _first_arrival(program, *kinds) + busy


def _side_by_side(program: Lowered, kernels: Amounts, one_by_one: int) -> int:
    """Kernels share the card by the part that they fill, and at most ``concurrent_kernels`` of them run at once."""
    most = program.device.compute.concurrent_kernels
    if most == 1:
        return one_by_one
    area = sum(shape.works * shape.width * count for shape, count in kernels)
    return max(-(-area // FULL_CARD), -(-one_by_one // most))


def _link_work(program: Lowered, amounts: Amounts) -> int:
    """Ticks that both directions together need on a link on which they slow each other down."""
    if len(program.engine_names) < 3 or not any(shape.kind in (H2D, D2H) for shape, _ in amounts):
        return 0
    there, back = (_flow([(shape, count) for shape, count in amounts if shape.kind == kind]) for kind in (H2D, D2H))
    return _first_arrival(program, H2D, D2H) + math.floor(duplex_bound(there, back))


class Flow(msgspec.Struct, frozen=True):
    """What one direction of a link has to move, in any unit of time.

    ``latency``: in all, during which no bytes flow. ``alone``: the time its bytes take with the link to
    themselves; ``immune`` of it by copies that the other direction does not slow down. ``loss``: the share of
    its rate (0..1) that it loses while the other direction flows too.
    """

    latency: float
    alone: float
    loss: float
    immune: float = 0.0


def _flow(copies: Amounts) -> Flow:
    latency = sum(shape.rate.latency[0] * count for shape, count in copies)
    times = [(shape.rate, shape.units * count / shape.rate.alone) for shape, count in copies]
    return Flow(
        latency=latency,
        alone=sum(time for _, time in times),
        loss=max((1 - rate.shared / rate.alone for rate, _ in times), default=0.0),
        immune=sum(time for rate, time in times if rate.shared == rate.alone),
    )


def duplex_bound(there: Flow, back: Flow) -> float:
    """Find the shortest time in which both directions can move what they have to.

    Let c be the time during which both directions flow. A direction that moves A units, at the rate r alone
    and s < r while the other flows, needs A = r (t - c) + s c, so it flows for t(c) = A/r + c (1 - s/r); what
    it moves by copies that are not slowed down may lie in c for nothing. Then for every c >= 0

        T >= L1 + t1(c),   T >= L2 + t2(c)       each direction's latencies and bytes take their time in turn
        T >= t1(c) + t2(c) - c                   the time during which at least one direction flows

    The first two grow with c. The third falls with c as long as overlap pays. All are convex and piecewise
    linear, so the smallest of their maximum lies at a corner or where two of them cross: a linear program
    in two unknowns, T and c.
    """

    def lines(c: float) -> tuple[float, float, float]:
        t1, t2 = (f.alone + f.loss * max(0.0, c - f.immune) for f in (there, back))
        return there.latency + t1, back.latency + t2, t1 + t2 - c

    corners = sorted({0.0, there.immune, back.immune})
    beyond = corners[-1] + there.latency + there.alone + back.latency + back.alone + 1.0
    candidates = [0.0]
    for low, high in zip(corners, (*corners[1:], beyond), strict=True):
        candidates += [high, *_crossings(low, high, lines(low), lines(high))]
    return min(max(lines(c)) for c in candidates)


def _crossings(low: float, high: float, at_low: tuple[float, ...], at_high: tuple[float, ...]) -> Iterator[float]:
    """Where the third of three straight lines between ``low`` and ``high`` crosses one of the others."""
    for a, b in zip(at_low[:2], at_high[:2], strict=True):
        gap_low, gap_high = at_low[2] - a, at_high[2] - b
        if gap_low > 0 > gap_high:
            yield low + (high - low) * gap_low / (gap_low - gap_high)


# --- published predictors -------------------------------------------------------------------------------------------


def napkin(h2d_s: float, kernel_s: float, d2h_s: float, chunks: int) -> float:
    """(h + k + d) (n + 2) / (3 n): n equal chunks, three equal stages, two copy engines.

    Half of the serial time at n = 4. Source: the schematic of M. Harris, "How to Overlap Data Transfers in
    CUDA C/C++", NVIDIA, 2012, written out for n chunks.
    """
    return (h2d_s + kernel_s + d2h_s) * (chunks + 2) / (3 * chunks)


def best_practices(transfer_s: float, kernel_s: float, chunks: int) -> float:
    """Add an n-th of the shorter to the longer of the two: max(k + tT/n, tT + k/n).

    Source: NVIDIA, "CUDA C++ Best Practices Guide", Asynchronous and Overlapping Transfers with Computation.
    Its tT is the time of the transfers; here both directions together.
    """
    longer, shorter = max(transfer_s, kernel_s), min(transfer_s, kernel_s)
    return longer + shorter / chunks


def simple_multi_copy(h2d_s: float, kernel_s: float, d2h_s: float, copy_engines: int) -> float:
    """No overlap h + k + d; one copy engine max(h + d, k); two max(h, k, d).

    Source: the theoretical limits that the CUDA sample simpleMultiCopy prints,
    https://github.com/NVIDIA/cuda-samples.
    """
    if copy_engines == 0:
        return h2d_s + kernel_s + d2h_s
    return max(h2d_s + d2h_s, kernel_s) if copy_engines == 1 else max(h2d_s, kernel_s, d2h_s)


def van_werkhoven_transfer(
    latency_s: float, bytes_per_stream: float, s_per_byte: float, gap_s: float, streams: int
) -> float:
    """(L + o) + w G n + g (n - 1): n transfers of w bytes in one direction, in the LogGP model.

    Source: B. van Werkhoven, J. Maassen, F. J. Seinstra, H. E. Bal, "Performance models for CPU-GPU data
    transfers", CCGrid 2014.
    """
    return latency_s + bytes_per_stream * s_per_byte * streams + gap_s * (streams - 1)


def van_werkhoven(h2d_s: float, kernel_s: float, d2h_s: float, chunks: int, copy_engines: int) -> float:
    """Add an n-th of the other stages to the slowest, with both transfer times from the LogGP model.

    One copy engine: the transfers are one stage; none: nothing overlaps. Source: the transfer times as
    :func:`van_werkhoven_transfer`; their overlap with the kernel in the form of the same paper.
    """
    stages = [h2d_s, kernel_s, d2h_s] if copy_engines == 2 else [h2d_s + d2h_s, kernel_s]
    return sum(stages) if copy_engines == 0 else max(stages) + (sum(stages) - max(stages)) / chunks


def gomez_luna(h2d_s: float, kernel_s: float, d2h_s: float, streams: int, per_stream_s: float) -> float:
    """Dominant stage + other / n + n times the cost of a stream; stages: transfers, kernel.

    Source: in the form of J. Gomez-Luna, J. M. Gonzalez-Linares, J. I. Benavides, N. Guil, "Performance models
    for asynchronous data transfers on consumer graphics processing units", JPDC 72(9), 2012.
    """
    transfer_s = h2d_s + d2h_s
    return max(transfer_s, kernel_s) + min(transfer_s, kernel_s) / streams + streams * per_stream_s


def gomez_luna_streams(h2d_s: float, kernel_s: float, d2h_s: float, per_stream_s: float) -> float:
    """Find the number of streams at which :func:`gomez_luna` is smallest: sqrt(other / per-stream cost)."""
    other_s = min(h2d_s + d2h_s, kernel_s)
    return math.sqrt(other_s / per_stream_s) if per_stream_s > 0 else math.inf


def ideal_pipeline(
    h2d_s: float, kernel_s: float, d2h_s: float, chunks: int, streams: int, copy_engines: int = 2
) -> float:
    """Makespan of a depth-first pipeline on the ideal device, from the stage times of *one chunk*; exact.

    With s = h + k + d, m = max(h, k, d) and J = floor((N - 1) / S), two copy engines take
    max(s + (N - 1) m, (J + 1) s + (N - 1 - J S) m): the slowest stage paces the pipeline, or a stream's
    own chunks, one after another, do. One shared copy engine in issue order takes N s, as does none.
    """
    total, slowest, rounds = h2d_s + kernel_s + d2h_s, max(h2d_s, kernel_s, d2h_s), (chunks - 1) // streams
    if copy_engines < 2:
        return chunks * total
    return max(total + (chunks - 1) * slowest, (rounds + 1) * total + (chunks - 1 - rounds * streams) * slowest)


class Stages(msgspec.Struct, frozen=True):
    """A pipeline as the published formulas see it.

    Seconds of each whole stage alone and in one go; ``*_chunks_s``: the transfers cut into ``chunks`` by the
    LogGP formula; ``issue_s``: the host's calls for one more chunk.
    """

    h2d_s: float
    kernel_s: float
    d2h_s: float
    h2d_chunks_s: float
    d2h_chunks_s: float
    chunks: int
    streams: int
    copy_engines: int
    issue_s: float


def stages_of(schedule: Schedule, device: Device, program: Lowered | None = None) -> Stages:
    """Add up the copies and the kernels of a schedule.

    The number of chunks is that of the rarest kind of op, since a chunk may have several copies or kernels.
    Raises InputError as :func:`lower_bound`.
    """
    program = lower(schedule, device) if program is None else program
    counts = [program.kind.count(kind) for kind in (H2D, KERNEL, D2H)]
    chunks = min((count for count in counts if count), default=1)
    pinned = {"h2d": device.h2d, "d2h": device.d2h}
    n_bytes = dict.fromkeys(pinned, 0)
    for op in schedule.ops:
        if isinstance(op, Copy):
            n_bytes[op.direction] += op.bytes
    h2d_s, d2h_s = (_transfer_s(link, n_bytes[name], 1) for name, link in pinned.items())
    h2d_chunks_s, d2h_chunks_s = (_transfer_s(link, n_bytes[name], chunks) for name, link in pinned.items())
    kernels_s = calls_s = 0.0
    for index, count in Counter(program.shape).items():
        shape = program.shapes[index]
        if shape.kind != NOTHING:
            calls_s += shape.call * count * S_PER_TICK
            kernels_s += shape.duration * count * S_PER_TICK * (shape.kind == KERNEL)
    return Stages(
        h2d_s=h2d_s,
        kernel_s=kernels_s,
        d2h_s=d2h_s,
        h2d_chunks_s=h2d_chunks_s,
        d2h_chunks_s=d2h_chunks_s,
        chunks=chunks,
        streams=len({op.stream for op, kind in zip(schedule.ops, program.kind, strict=True) if kind != NOTHING}),
        copy_engines=device.copy_engines.count,
        issue_s=calls_s / chunks,
    )


def _transfer_s(link: LinkDirection, n_bytes: int, pieces: int) -> float:
    if not n_bytes:
        return 0.0
    per_byte = 1 / link.bandwidth_bytes_per_s
    return van_werkhoven_transfer(link.latency_s, n_bytes / pieces, per_byte, link.latency_s, pieces)


def published(schedule: Schedule, device: Device | str | Path) -> dict[str, float]:
    """Seconds that each published formula predicts for ``schedule``, by its name.

    They know no more of it than its stages and how many chunks it is cut into. Raises InputError as
    :func:`lower_bound`.
    """
    return published_of(stages_of(schedule, as_device(device)))


def published_of(stages: Stages) -> dict[str, float]:
    """Seconds that each published formula predicts, by its name."""
    whole = (stages.h2d_s, stages.kernel_s, stages.d2h_s)
    cut = (stages.h2d_chunks_s, stages.kernel_s, stages.d2h_chunks_s)
    return {
        "napkin": napkin(*whole, stages.chunks),
        "CUDA best practices guide": best_practices(stages.h2d_s + stages.d2h_s, stages.kernel_s, stages.chunks),
        "simpleMultiCopy": simple_multi_copy(*whole, stages.copy_engines),
        "van Werkhoven 2014": van_werkhoven(*cut, stages.chunks, stages.copy_engines),
        "Gomez-Luna 2012": gomez_luna(*whole, stages.chunks, stages.issue_s),
    }
