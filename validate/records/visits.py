"""What several visits to a program show together, and which of its runs the host did not slow.

What else runs on a host slows it for tenths of a second to minutes and never hurries it. How long a run took to issue
says how fast the host was in that very run; when it was done says nothing of that, as the card and the model are in it.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamsim_validate.records.record import Entry, Times

WITHIN = 1.1  # times the quietest: as quiet
TENTHS = 10  # the fastest of them is taken for quiet


class Runs(NamedTuple):
    """Runs of a program, in seconds: until all was issued, and until it was done."""

    issue_s: Times
    wall_s: Times


def quiet_limit(seconds: Sequence[float]) -> float:
    """Up to which the host did the same thing quietly: 1.1 times what ends the fastest tenth. At least one is."""
    fast = statistics.quantiles(seconds, n=TENTHS, method="inclusive")[0] if len(seconds) > 1 else seconds[0]
    return WITHIN * fast


def quiet_runs(entry: Entry) -> Runs:
    """The runs of a program that the host issued quietly; all of one that does not say how long issuing took."""
    if entry.program is None or not entry.issue_s:
        return Runs(entry.issue_s, entry.wall_s)
    limit = quiet_limit(entry.issue_s)
    runs = [run for run in zip(entry.issue_s, entry.wall_s, strict=True) if run[0] <= limit]
    issue_s, wall_s = zip(*runs, strict=True)
    return Runs(issue_s, wall_s)


def is_confirmed(entry: Entry) -> bool:
    """Whether another visit issued the program about as quickly as the quietest did, each by its median."""
    assert entry.program is not None
    each = max(1, len(entry.issue_s) // max(1, entry.program.tries))
    visits = [entry.issue_s[first : first + each] for first in range(0, len(entry.issue_s), each)]
    medians = sorted(map(statistics.median, visits))
    return len(medians) > 1 and medians[1] <= WITHIN * medians[0]


def joined(before: Entry, visit: Entry) -> Entry:
    """What was measured in visits before, and in one more.

    Of its kernels alone there is what was measured first.
    """
    own, new = before.program, visit.program
    assert own is not None
    assert new is not None
    kinds = dict.fromkeys((*own.others_s, *new.others_s))
    program = msgspec.structs.replace(
        own,
        tries=own.tries + new.tries,
        rounds_s=own.rounds_s + new.rounds_s,
        links_s=own.links_s + new.links_s,
        others_s={kind: own.others_s.get(kind, ()) + new.others_s.get(kind, ()) for kind in kinds},
    )
    runs = {"issue_s": before.issue_s + visit.issue_s, "wall_s": before.wall_s + visit.wall_s}
    return msgspec.structs.replace(visit, program=program, **runs)
