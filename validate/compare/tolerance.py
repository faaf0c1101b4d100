"""Tolerances: conditions such as ``p95 device-bound > 5%`` under which a comparison has failed.

    STATISTIC [GROUP] > NUMBER%

- ``median``, ``p95`` and ``worst`` are of absolute errors over a group: a class, a pattern, an effect, ``8
  connections``, ``8 connections host-bound``. Without a group, they are over everything except pageable memory.
- ``choice`` is the worst cost of following the model's choices; ``median choice`` and ``p95 choice`` exist too.
- ``unpredicted`` is the share of the measured schedules that the profile could not predict.
"""

import re

import msgspec

from streamsim.cli.fail_if import parse_condition
from streamsim.errors import InputError
from streamsim.text import shown
from streamsim_validate.compare.comparison import EVERYTHING, Comparison, Summary, summarise

CHOICE = "choice"
STATISTICS = ("median", "p95", "worst")
_FORM = re.compile(rf"(?P<statistic>{'|'.join(STATISTICS)}|{CHOICE}|unpredicted)\b\s*(?P<group>.*)", re.ASCII)
_EXPECTED = (
    "expected median, p95 or worst with or without a group, choice, or unpredicted, then > and a percentage, such as"
    " 'p95 host-bound > 12%'"
)


class Tolerance(msgspec.Struct, frozen=True):
    """Fails when ``statistic`` ("median", "p95", "worst", "unpredicted") of ``group`` is above ``limit`` (relative)."""

    text: str
    statistic: str
    group: str
    limit: float


class Verdict(msgspec.Struct, frozen=True):
    """The result of a tolerance; ``value`` and ``limit`` are relative (0.01 is 1 %)."""

    text: str
    value: float
    limit: float

    @property
    def failed(self) -> bool:
        """True if the comparison is beyond the limit."""
        return self.value > self.limit


def parse_tolerance(text: str) -> Tolerance:
    """Return the tolerance of a text such as ``"p95 host-bound > 12%"``. Raises InputError if it cannot be read."""
    condition = parse_condition(text, _EXPECTED)
    found = _FORM.fullmatch(condition.name) if (condition.sign, condition.unit) == (">", "%") else None
    if found is None or (found["group"] and found["statistic"] not in STATISTICS):
        raise InputError(f"--fail-if {shown(text)}: {_EXPECTED}")
    statistic, group = found["statistic"], found["group"]
    if statistic == CHOICE:
        statistic, group = "worst", CHOICE
    return Tolerance(text, statistic, group or EVERYTHING, condition.limit)


def judge(comparison: Comparison, tolerance: Tolerance) -> Verdict:
    """Return the verdict of a tolerance on a comparison. Raises InputError if the comparison has no such group."""
    if tolerance.statistic == "unpredicted":
        absent, present = len(comparison.unpredicted), len(comparison.rows)
        value = absent / (absent + present) if absent else 0.0
    else:
        value = getattr(_group(comparison, tolerance), tolerance.statistic)
    return Verdict(tolerance.text, value, tolerance.limit)


def _group(comparison: Comparison, tolerance: Tolerance) -> Summary:
    groups = {name: summary for kind in comparison.summaries.values() for name, summary in kind.items()}
    choices = comparison.choices
    if choices:
        groups[CHOICE] = summarise([choice.regret for choice in choices])
    if tolerance.group not in groups:
        known = ", ".join(groups) or "nothing that could be predicted"
        raise InputError(f"--fail-if {shown(tolerance.text)}: there is no {tolerance.group!r}; there is {known}")
    return groups[tolerance.group]
