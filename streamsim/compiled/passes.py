"""The loops of a workload's issue orders as tables of whole numbers, for the compiled layout."""

from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from streamsim.compiled.tables import BODY, BUFFERS, PASS, STEP
from streamsim.program import ISSUE_ORDERS, STAGES, Body, Distance, Issue, Loop, Prepare, Record, Stages, Step, loop_of
from streamsim.program.loops import Order

Array = np.ndarray[Any, Any]
Jobs = tuple[int, int, int, int, int]

PREPARE, ISSUE, RECORD, WAIT, OPEN, JOIN = range(6)


class Passes(NamedTuple):
    """Tables of the loops' passes, bodies and steps; ``of_loop``: the passes of each loop.

    Copies before the first chunk and behind the last one are passes of one round.
    """

    passes: Array
    bodies: Array
    steps: Array
    of_loop: dict[tuple[Order, bool], tuple[int, int]]


@lru_cache(maxsize=16)
def passes_of(stages: Stages, jobs: Jobs, is_run_signal: bool) -> Passes:
    """Return the loops of all issue orders for chunks with these stages.

    ``jobs``: the numbers of copies in, kernels and copies back of a chunk, and of the copies before the first and
    behind the last chunk. ``is_run_signal``: the end of a kernel is signalled with the end of its run.
    """
    tables = _Tables(jobs, is_run_signal)
    of_loop = {
        (order, ring): tables.add(loop_of(order, ring, stages)) for order in ISSUE_ORDERS for ring in (False, True)
    }
    rows = np.array(tables.passes, PASS), np.array(tables.bodies, BODY), np.array(tables.steps, STEP)
    return Passes(*rows, of_loop)


class _Tables:
    """Rows of the tables, while loops are added."""

    def __init__(self, jobs: Jobs, is_run_signal: bool) -> None:
        copies_in, kernels, copies_out, self._once_in, self._once_out = jobs
        self._is_run_signal = is_run_signal
        self._has_kernels = kernels > 0
        kernels += copies_in
        self._jobs = dict(
            zip(STAGES, ((0, copies_in), (copies_in, kernels), (kernels, kernels + copies_out)), strict=True)
        )
        self.passes: list[tuple[int, ...]] = []
        self.bodies: list[tuple[int, ...]] = []
        self.steps: list[tuple[int, ...]] = []

    def add(self, loop: Loop) -> tuple[int, int]:
        """Add a loop; return its first pass, and the pass behind its last."""
        first = len(self.passes)
        opens, joins = ([], []) if loop.roles else ([_step(OPEN)], [_step(JOIN)])
        if self._once_in:
            self._once(_issue(0, 0, self._once_in), *opens)
        for number, bodies in enumerate(loop.passes):
            issued = [step.stage for body in bodies for step in body.steps if isinstance(step, Issue)]
            waits = self._is_run_signal and self._has_kernels and issued[:1] == ["copy out"]
            begins = len(self.bodies)
            for body in bodies:
                self._body(self._steps(body, loop), body.follows)
            follows = any(body.follows for body in bodies)
            self.passes.append((begins, len(self.bodies), False, follows, self._has_kernels and number > 0, waits))
        if self._once_out:
            self._once(
                *joins,
                _issue((loop.ends or (0,))[0], self._once_in, self._once_in + self._once_out),
            )
        return first, len(self.passes)

    def _once(self, *steps: tuple[int, ...]) -> None:
        """Add a pass of one round."""
        self._body(list(steps), False)
        self.passes.append((len(self.bodies) - 1, len(self.bodies), True, False, False, False))

    def _body(self, steps: list[tuple[int, ...]], follows: bool) -> None:
        self.bodies.append((len(self.steps), len(self.steps) + len(steps), follows))
        self.steps += steps

    def _steps(self, body: Body, loop: Loop) -> list[tuple[int, ...]]:
        """Return the steps of a body; stages that follow each other in a stream are one step."""
        found = []
        for stream, some in groupby(body.steps, lambda step: step.stream if isinstance(step, Issue) else None):
            steps = list(some)
            if stream is None:
                found += [self._other(step, loop) for step in steps]
            else:
                jobs = [self._jobs[step.stage] for step in steps if isinstance(step, Issue)]
                found.append(_issue(stream, jobs[0][0], jobs[-1][1]))
        return found

    def _other(self, step: Step, loop: Loop) -> tuple[int, ...]:
        """Return a step that issues no stage."""
        if isinstance(step, Prepare):
            return _step(PREPARE)
        assert not isinstance(step, Issue)
        does, distance = (RECORD, step.awaited or 0) if isinstance(step, Record) else (WAIT, step.before)
        return _step(
            does, step.stream, event=loop.events.index(step.event), distance=distance, between=step.between_streams
        )


def _issue(stream: int, begin: int, end: int) -> tuple[int, ...]:
    return _step(ISSUE, stream, begin, end)


def _step(
    does: int,
    stream: int = 0,
    begin: int = 0,
    end: int = 0,
    event: int = 0,
    distance: Distance = 0,
    between: bool = False,
) -> tuple[int, ...]:
    return does, stream, begin, end, event, BUFFERS if distance == "buffers" else distance, between
