"""Simulations of a schedule without some of the causes that lose it time."""

from collections.abc import Callable, Sequence
from typing import Any

from streamsim.analysis import counterfactual as without
from streamsim.analysis.causes import KEYS, LIMITS, Key
from streamsim.analysis.engine_loads import Load, engines_of, loads_of
from streamsim.compiled import simulate_one_of_many
from streamsim.device import MOST_CONNECTIONS, Device
from streamsim.program import Copy, ResultCache, Schedule
from streamsim.rules import TICKS_PER_S, ticks
from streamsim.timeline import Timeline
from streamsim.transform import Scenario, dependences_of, still_ordered
from streamsim.transform import calls_and_memory as calls
from streamsim.transform import legacy_stream as legacy

SIMULATIONS = 100  # of a schedule without its causes, or about
BUDGET = 20_000  # ops simulated for an exact split; beyond, two orders


class Removals:
    """Simulates a schedule on a device, the ``case``, without some of the causes that are present in it.

    ``is_exact``: over all orders of removal; else over two. Unless it is said, as many as ``BUDGET`` allows.
    """

    def __init__(self, scenario: Scenario, is_exact: bool | None = None) -> None:
        self.case = scenario
        self._ops = len(scenario.schedule.ops)
        self._needs = dependences_of(scenario.schedule)
        self._once = [op for i in sorted(self._needs.common) if isinstance(op := scenario.schedule.ops[i], Copy)]
        self.is_racy = self._needs.is_racy
        self._order = next(iter(self._needs.orders), None)
        self._most = MOST_CONNECTIONS
        self._known: dict[frozenset[Key], int] = {}
        self._programs = ResultCache[Schedule]()  # by causes, order and streams
        self.loads = loads_of(scenario)
        self.simulations = 0
        self.timeline = self._simulate(scenario)
        self.makespan = self._known[frozenset()] = ticks(self.timeline.makespan_s)
        self.present = [key for key in KEYS if key in _IS_PRESENT and self._is_present(key)]
        self._choose()
        self.is_exact = self._ops << len(self.present) <= BUDGET if is_exact is None else is_exact

    def _is_present(self, key: Key) -> bool:
        if key == "needless-order":
            return self._needs.has_needless_order
        if key == "copied-once":
            return bool(self._once)
        return bool(self._needs.orders) if key == "issue-order" else _IS_PRESENT[key](self.case)

    def _choose(self) -> None:
        """Of the orders of issue, and of the numbers of streams, take what helps most alone, then with all removed."""
        everything = frozenset(self.present)
        if len(self._needs.orders) > 1:
            orders = list(self._needs.orders)
            self._order = self._best("_order", orders, frozenset(("issue-order",)), everything)
        connections = self.case.device.connections
        if "needless-order" in self.present and 1 < connections < MOST_CONNECTIONS:
            numbers = [connections, MOST_CONNECTIONS]
            self._most = self._best("_most", numbers, frozenset(("needless-order",)), everything)

    def _best(self, field: str, choices: Sequence[Any], *removed: frozenset[Key]) -> Any:
        times = {}
        for choice in choices:
            setattr(self, field, choice)
            times[choice] = [self.run(self.scenario(keys)) for keys in removed]
        return min(choices, key=times.__getitem__)

    def time(self, removed: frozenset[Key]) -> int:
        """The makespan in ticks without the causes ``removed``."""
        known = self._known.get(removed)
        if known is None:
            known = self._known[removed] = self.run(self.scenario(removed))
        return known

    def best(self) -> int:
        """The shortest makespan that any removal has reached."""
        self.time(frozenset(self.present))
        return min(self._known.values())

    def worth_s(self, key: Key) -> float:
        """By how much the makespan shrinks, in seconds, without a cause."""
        return (self.makespan - self._alone(key)) / TICKS_PER_S

    def _alone(self, key: Key) -> int:
        """The makespan in ticks without one cause, or with its limit out of the way."""
        if key in self.present:
            return self.time(frozenset((key,)))
        if key == "few-blocks":
            return self.with_enough_blocks(self.case)
        return self.run(self._without_limit(key)) if key in LIMITS else self.makespan

    def with_enough_blocks(self, scenario: Scenario) -> int:
        """The makespan in ticks of a scenario whose kernels fill the card."""
        schedule, device = scenario
        return self.run(Scenario(without.with_enough_blocks(schedule), device))

    def scenario(self, removed: frozenset[Key]) -> Scenario:
        """The schedule and the device without the causes ``removed``."""
        schedule, device = self._program(removed), self.case.device
        if "pageable-memory" in removed:
            schedule = calls.pinned(schedule)
        for key, change in _DEVICE_CHANGES.items():
            device = change(device) if key in removed else device
        scenario = Scenario(schedule, device)
        if "host-issue" in removed:
            scenario = without.without_host_costs(scenario)
        return without.without_latencies(scenario) if "small-chunks" in removed else scenario

    def _program(self, removed: frozenset[Key]) -> Schedule:
        """The schedule with other calls, order and streams; made once for all devices."""
        return self._programs.of((removed & _PROGRAM, self._order, self._most), lambda: self._changed(removed))

    def _changed(self, removed: frozenset[Key]) -> tuple[Schedule, int]:
        made = self._reissued(removed)
        made = calls.without_slow_calls(Scenario(made, self.case.device)) if "slow-calls" in removed else made
        made = without.without_once(made, self._once) if "copied-once" in removed else made
        made = without.without_host_work(made) if "host-work" in removed else made
        return made, len(made)

    def _reissued(self, removed: frozenset[Key]) -> Schedule:
        schedule, holds = self.case.schedule, "host-waits" not in removed
        if not removed & {"needless-order", "issue-order"}:
            schedule = schedule if holds else calls.without_host_waits(schedule)
            made = legacy.without_legacy(schedule) if "legacy-stream" in removed else schedule
            return still_ordered(self.case.schedule, made)
        schedule = schedule if holds else calls.unblocked(schedule)
        schedule = legacy.without_legacy(schedule) if "legacy-stream" in removed else schedule
        order = self._order if "issue-order" in removed else None
        if "needless-order" in removed:
            return self._needs.unordered(schedule, order, holds, self._most)
        assert order is not None
        return self._needs.reordered(schedule, order, holds)

    def _without_limit(self, key: Key) -> Scenario:
        if key == "full-kernels":
            return without.without_width(self.case)
        mean = sum(load.busy for load in self.loads.values()) / len(self.loads)
        factors = {}
        for kind, engine in zip(("h2d", "d2h", "kernel"), engines_of(self.case.device), strict=True):
            load = self.loads.get(engine, Load(1.0, 1.0))
            queued = 1.0 if engine == "compute" else load.busiest / load.busy
            factors[kind] = mean / load.busy if key == "unbalanced" else queued
        return Scenario(without.scaled(*self.case, factors), self.case.device)

    def run(self, scenario: Scenario) -> int:
        """The makespan of any scenario, in ticks."""
        return ticks(self._simulate(scenario).makespan_s)

    def _simulate(self, scenario: Scenario) -> Timeline:
        self.simulations += 1
        return simulate_one_of_many(*scenario, many=SIMULATIONS)


def _has_duplex(scenario: Scenario) -> bool:
    directions = {op.direction for op in scenario.schedule.ops if isinstance(op, Copy)}
    return (
        len(directions) == scenario.device.copy_engines.count == 2
        and without.without_duplex_loss(scenario.device) != scenario.device
    )


def _has_host_costs(scenario: Scenario) -> bool:
    return without.without_host_costs(scenario) != scenario


def _has_latencies(scenario: Scenario) -> bool:
    return without.without_latencies(scenario) != scenario


_IS_PRESENT: dict[Key, Callable[[Scenario], bool]] = {
    "pageable-memory": lambda case: calls.has_pageable(case.schedule),
    "legacy-stream": lambda case: legacy.has_legacy(case.schedule),
    "host-waits": lambda case: calls.has_host_waits(case.schedule),
    "issue-order": bool,  # these three are asked of the Dependences
    "needless-order": bool,
    "copied-once": bool,
    "connections": without.has_few_connections,
    "host-work": without.has_host_work,
    "slow-calls": lambda scenario: bool(calls.slow_calls(scenario)),
    "host-issue": _has_host_costs,
    "small-chunks": _has_latencies,
    "duplex": _has_duplex,
}
_PROGRAM: frozenset[Key] = frozenset(
    ("legacy-stream", "host-waits", "issue-order", "needless-order", "copied-once", "host-work", "slow-calls")
)
_DEVICE_CHANGES: dict[Key, Callable[[Device], Device]] = {
    "connections": without.all_connections,
    "duplex": without.without_duplex_loss,
}
