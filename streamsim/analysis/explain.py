"""Why a schedule takes longer than its lower bound: the lost time, split over named causes.

A cause is removed by changing the schedule or the device (:mod:`streamsim.analysis.counterfactual`), and the model
says what is left. So every figure is simulated, and none is read off the time line, where one delay hides another.

**Which bound.** Much of what loses time also raises the lower bound of the schedule as it stands (``lower_bound``
counts pageable copies at the pageable rate, and latencies, and host calls). Here the bound is that of the *work*: the
busiest engine's bytes at the rate of pinned memory alone on the link, or its kernels' own time, with nothing else in
the way, or as the schedule stands where that is less: what kernels leave each other of the card as they are launched,
they do not without launches. It is the same whichever causes are removed, so what is lost is always lost against it:
``bound_s``.
What the schedule's own bound lies above it (``own_bound_s``) is lost as well.

**How causes share.** Asynchronous copies help little while pageable memory still holds the host, and the other way
round: what a cause costs depends on which others are still there. Let v(A) be the makespan once the causes A are
removed, or only some of them where that is faster (nobody applies a remedy that hurts; so v never grows with A). Each
cause gets its Shapley value: the mean, over all orders in which the causes that are present can be removed one after
another, of what its own removal gains. That split adds up, treats causes alike and gives nothing to one that never
matters (L. S. Shapley, "A value for n-person games", 1953). Some orders make no sense and are left out (U. Faigle,
W. Kern, "The Shapley value for cooperative games under precedence constraints", 1992), by :data:`BEHIND`: streams and
connections are to blame for what is left once the ops are issued in the best order, which costs nothing to try, and the
cost of calls for what is left without single slow ones. With
k causes it takes at most 2^k simulations: k is 3 to 6, and a hundred ops simulate in two milliseconds. Above ``BUDGET``
ops simulated in all, the mean is over two orders only, that of :data:`CAUSES` (from the program to the device) and its
reverse: 2 k simulations, and the parts still add up.

**Fill and drain** is what is then left above the bound, with every other cause removed: nothing stands between
the chunks but their number. More chunks show their worth only without the costs of an op, so this cause always
goes last.

Parts are whole ticks and add up to the whole gap exactly.

**What to do first** is another question than what has lost most: a remedy may cost what it gains elsewhere. So for
each cause the changes that can be made are made (:mod:`streamsim.analysis.remedies`: other orders, chunks, streams,
buffers), each simulated alone. A remedy stands under the cause whose part it removes most
(:mod:`streamsim.analysis.losses`), the best of them is the remedy of that row, and
:mod:`streamsim.analysis.advice` says which comes first. Where nothing can be done about a cause, its row says what it
would be worth if it were gone. Each such figure is again that of a simulation, of a schedule that can be had
(``Loss.remedied``) or of a counterfactual.

**In the bound itself** lies what no other schedule of the same work on the card avoids: ``limits``, from ``bound_s``
down to ``even_s``, the time that each engine would take if the work were spread evenly over those that it uses and
every stream had engines to itself (what people expect of streams). With W the busy time of each of n engines and U
that of its busiest stream, the bound is max W, the mean of W is what is left without imbalance, and each engine then
gives (W - U) / n to its ops that queue.
"""

from pathlib import Path

from streamsim.analysis.advice import ordered
from streamsim.analysis.causes import KEYS
from streamsim.analysis.engine_loads import limits_of
from streamsim.analysis.explanation import Explanation
from streamsim.analysis.losses import losses_of
from streamsim.analysis.remedies import MADE
from streamsim.analysis.removals import Removals
from streamsim.analysis.shapley import split_of
from streamsim.device import Device, as_device, link_words
from streamsim.errors import InputError
from streamsim.program import Schedule, check_schedule
from streamsim.rules import TICKS_PER_S
from streamsim.transform import Origin, Scenario

MOST_OPS = 300_000  # of a schedule: a minute and a half, and two gigabytes


def explain(schedule: Schedule, device: Device | str | Path, source: Origin | None = None) -> Explanation:
    """Split the time that ``schedule`` on ``device`` loses over its causes, and make the remedies.

    ``source``: what it was made from, if that is known: a workload, or layers, and how they are run. Raises InputError
    for an unknown device, when it has no cost for a kernel that the schedule names, or no room for its buffers, and for
    a schedule of more than ``MOST_OPS`` ops.
    """
    check_schedule("schedule", schedule)
    if len(schedule) > MOST_OPS:
        raise InputError(
            f"the schedule has {len(schedule)} ops: explain simulates it and its remedies some thirty times, and takes"
            f" {MOST_OPS} ops at most; give fewer chunks, or a part of it"
        )
    device = as_device(device)
    device.check_room(schedule.device_bytes)
    removals = Removals(Scenario(schedule, device), source)
    split = split_of(removals)
    losses = {key: 0 for key in KEYS if key in MADE} | split.parts
    even, limits = limits_of(removals.loads, split.floor)
    makespan_s = removals.makespan / TICKS_PER_S
    found = [loss for loss in losses_of(removals, losses) if loss.ticks or loss.helps or loss.assuming]
    inside = [removals.limit(key, ticks) for key, ticks in limits.items() if ticks]
    inside.sort(key=lambda loss: -loss.ticks)
    return Explanation(
        timeline=removals.timeline,
        device=device.name,
        makespan_s=makespan_s,
        bound_s=split.floor / TICKS_PER_S,
        bound_by=split.bound_by,
        own_bound_s=split.own_s,
        even_s=even / TICKS_PER_S,
        losses=ordered(found, inside, makespan_s),
        limits=tuple(inside),
        simulations=removals.simulations,
        is_exact=removals.is_exact,
        is_racy=removals.is_racy,
        link=link_words(device, bool(schedule.pageable_names)),
    )
