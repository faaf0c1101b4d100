"""No change loses an order that the program may need: named memory shows it needless, or a condition is printed."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from race_oracle import Graph, end, start
from strategies import NS, d2h, h2d, hosted, kernel, make_device, plan

from streamsim.advice import explain, what_if
from streamsim.errors import InputError
from streamsim.model import simulate
from streamsim.program import (
    Buffer,
    Copy,
    HostWork,
    Kernel,
    Op,
    RecordEvent,
    Region,
    Schedule,
    Synchronize,
    WaitEvent,
    WaitThread,
    read_schedule,
    write_schedule,
)
from streamsim.races import check, repaired
from streamsim.search import best_program
from streamsim.transform import (
    INDEPENDENT,
    NEEDS_NO_LEGACY,
    ORDERS_NO_STREAMS,
    Change,
    Changed,
    Work,
    changed_by,
)
from streamsim.transform import changes as make

DEVICE = make_device(copy=2, kernel=3)
UNIT = 1024
CARD = (Buffer("one", 64 * UNIT, "device"), Buffer("two", 64 * UNIT, "device"))
HOST = (Buffer("pinned", 64 * UNIT, "pinned"), Buffer("pageable", 64 * UNIT, "pageable"))


@st.composite
def programs(draw: st.DrawFn) -> Schedule:
    """Programs whose ops name all, half or none of their memory. A kernel is known by its name, a copy by its bytes."""
    kinds: list[Any] = draw(
        st.lists(st.sampled_from(("non-blocking", "non-blocking", "blocking")), min_size=1, max_size=3)
    )
    stream = st.sampled_from((0, *range(1, len(kinds) + 1), *range(1, len(kinds) + 1)))
    how = draw(st.sampled_from(("none", "none", "some", "copies")))  # which ops name their memory
    ops: list[Op] = []
    for k in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(("h2d", "h2d", "kernel", "kernel", "d2h", "record", "wait", "sync", "work")))
        one = draw(stream)
        if kind in ("h2d", "d2h"):
            ops.append(draw(_copies(kind, (2 * k + 1) * UNIT, one, how)))
        elif kind == "kernel":
            name = how == "some" and draw(st.booleans())
            reads, writes = (draw(st.lists(_regions(8 * UNIT), max_size=1)) if name else [] for _ in range(2))
            ops.append(kernel(one, draw(st.sampled_from((1, 100))), name=f"k{k}", reads=(*reads,), writes=(*writes,)))
        elif kind in ("record", "wait"):
            event = draw(st.integers(0, 1))
            ops.append(RecordEvent(event, one) if kind == "record" else WaitEvent(event, one))
        else:
            ops.append(
                Synchronize(stream=draw(st.sampled_from((one, None)))) if kind == "sync" else HostWork(5 * NS, "load")
            )
    if draw(st.sampled_from((False, False, False, True))):
        ops = draw(hosted(ops, st.integers(2, 3)))
    return Schedule((*ops, Synchronize()), tuple(kinds), (*CARD, *HOST), 2)


def _regions(n_bytes: int) -> st.SearchStrategy[Region]:
    return st.builds(Region, st.sampled_from(("one", "two")), st.sampled_from((0, 32 * UNIT)), st.just(n_bytes))


@st.composite
def _copies(draw: st.DrawFn, direction: Any, n_bytes: int, stream: int, how: str) -> Copy:
    blocking = draw(st.sampled_from((False, False, False, True)))
    names = how == "copies" or (how == "some" and draw(st.booleans()))
    device = draw(_regions(n_bytes)) if names else None
    memory = draw(st.sampled_from((None, None, "pinned", "pageable")))
    host = None if memory is None else Region(memory, draw(st.sampled_from((0, 32 * UNIT))), n_bytes)
    return Copy(direction, n_bytes, stream, host, device, blocking)


CHANGES = st.one_of(
    st.sampled_from((make.PIN, make.ASYNC, make.DROP_SYNC, make.OFF_LEGACY, make.DROP_WAITS)),
    st.sampled_from((make.GRAPH, make.STEP_GRAPHS, make.buffers(2), make.buffers(0))),
    st.sampled_from((make.order("depth-first"), make.order("breadth-first"), make.chunks(2), make.chunks(4))),
    st.builds(make.streams, st.integers(1, 4)),
    st.builds(make.prefetch, st.integers(1, 2)),
    st.builds(make.workers, st.integers(1, 3)),
)
MUST_BE_SAID = {INDEPENDENT, NEEDS_NO_LEGACY, make.CAN_BE_CUT}


def lost(before: Schedule, after: Schedule, conditions: tuple[str, ...], ahead: bool) -> Iterator[str]:
    """Yield the orders that are lost, needed for all that named memory shows, and covered by none of ``conditions``.

    ``ahead``: copies to the card without named memory are made ahead, into other buffers.
    """
    was, then, now = (
        Graph(_without(before, conditions)),
        Graph(_without(before, (ORDERS_NO_STREAMS, NEEDS_NO_LEGACY))),
        Graph(after),
    )
    steps, images = _steps(before), [_images(op, after) for op in before.ops]
    works = [i for i, op in enumerate(before.ops) if isinstance(op, Copy | Kernel)]
    for k, i in ((k, i) for i in works for k in works if k < i):
        earlier, later = before.ops[k], before.ops[i]
        is_named = _names_all(earlier) and _names_all(later)
        if is_named or not was.is_behind(end(k), start(i)):
            continue
        in_pieces = steps[k] == steps[i] and len(images[k]) == len(images[i])
        pairs = zip(images[k], images[i], strict=True) if in_pieces else product(images[k], images[i])
        if all(now.is_behind(end(a), start(b)) for a, b in pairs):
            continue
        in_order = then.is_behind(end(k), start(i))  # by streams and events
        if in_order and _uses_again(before, steps, k, i):
            yield f"ops[{i}] overwrites what the step of ops[{k}] copied"
        elif earlier.stream == later.stream and steps[k] == steps[i]:
            yield f"ops[{i}] passes ops[{k}] of its step"
        elif INDEPENDENT in conditions or (make.IN_TIME in conditions and _is_load(later) and not _is_load(earlier)):
            continue
        elif not (ahead and isinstance(earlier, Kernel) and _copies_nothing_but_inputs(before.ops[: i + 1])):
            yield f"ops[{i}] passes ops[{k}]"


def _without(schedule: Schedule, conditions: tuple[str, ...]) -> Schedule:
    """Return the program without the orders that the conditions say to be needless."""
    if ORDERS_NO_STREAMS in conditions:
        idle = HostWork(0.0)
        ops = [idle if isinstance(op, Synchronize | WaitThread) else op for op in schedule.ops]
        ops = [replace(op, blocking=False, host=None) if isinstance(op, Copy) else op for op in ops]
        schedule = replace(schedule, ops=tuple(ops))
    if NEEDS_NO_LEGACY in conditions:
        schedule = replace(schedule, streams=("non-blocking",) * len(schedule.streams))
    return schedule


def _steps(schedule: Schedule) -> list[int]:
    """Return the step of each op: one begins with a copy to the card behind a kernel or a copy back."""
    found, step, has_worked = list[int](), 0, False
    for op in schedule.ops:
        if _is_load(op) and has_worked:
            step, has_worked = step + 1, False
        has_worked = has_worked or (isinstance(op, Copy | Kernel) and not _is_load(op))
        found.append(step)
    return found


def _images(op: Op, after: Schedule) -> list[int]:
    """Return the ops that do this one: kernels of its name, copies of its bytes or of an even part of them."""
    if isinstance(op, Kernel):
        return [i for i, one in enumerate(after.ops) if isinstance(one, Kernel) and one.name == op.name]
    parts = [op.bytes / pieces for pieces in (1, 2, 4, 8, 16)] if isinstance(op, Copy) else []
    return [i for i, one in enumerate(after.ops) if isinstance(one, Copy) and one.bytes in parts]


def _is_load(op: Op) -> bool:
    return isinstance(op, Copy) and op.direction == "h2d"


def _names_all(op: Op) -> bool:
    return op.device is not None if isinstance(op, Copy) else isinstance(op, Kernel) and bool(op.writes)


def _copies_nothing_but_inputs(ops: Sequence[Op]) -> bool:
    """Whether a copy stands last, and all are to the card, without named memory."""
    return isinstance(ops[-1], Copy) and all(_is_load(op) and not _names_all(op) for op in ops if isinstance(op, Copy))


def _uses_again(schedule: Schedule, steps: list[int], k: int, i: int) -> bool:
    """Whether op ``i`` copies over bytes to which the step of kernel ``k`` has copied."""
    kernel, load = schedule.ops[k], schedule.ops[i]
    if not isinstance(kernel, Kernel) or not isinstance(load, Copy) or not _is_load(load) or steps[k] == steps[i]:
        return False
    loads = (
        op
        for op, step in zip(schedule.ops, steps, strict=True)
        if step == steps[k] and isinstance(op, Copy) and _is_load(op)
    )
    return load.device is not None and any(op.device is not None and _overlap(op.device, load.device) for op in loads)


def _overlap(a: Region, b: Region) -> bool:
    return a.buffer == b.buffer and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes


def check_kept(schedule: Schedule, made: Changed) -> None:
    """Check that a changed program has lost no order without a condition for it."""
    ahead = any(option.startswith("--prefetch") for option in made.options)
    assert not list(lost(schedule, made.work.schedule, made.assumes, ahead))


@examples(400)
@given(programs(), st.lists(CHANGES, min_size=1, max_size=2))
def test_no_change_loses_an_order_without_its_condition(schedule: Schedule, changes: list[Change]) -> None:
    with suppress(InputError):  # what cannot be done is refused
        check_kept(schedule, changed_by(changes, Work(schedule, DEVICE)))


@examples(40)
@given(programs(), st.lists(CHANGES, min_size=1, max_size=2))
def test_what_is_not_said_needs_no_condition_that_must_be_said(schedule: Schedule, changes: list[Change]) -> None:
    """`whatif`, and with it `best`, makes without --independent what assumes nothing of it, and only that."""
    made, whole = (_made_or_none(changes, schedule, said) for said in (False, True))
    if made is not None:
        assert made == whole
        assert not MUST_BE_SAID & {*made.assumes}
    elif whole is not None:
        assert MUST_BE_SAID & {*whole.assumes}


def _made_or_none(changes: list[Change], schedule: Schedule, independent: bool) -> Changed | None:
    with suppress(InputError):
        return changed_by(changes, Work(schedule, DEVICE), independent)
    return None


@examples(25)
@given(programs(), st.booleans())
def test_what_best_names_whatif_makes_by_the_same_rule(schedule: Schedule, independent: bool) -> None:
    with suppress(InputError):  # no chunks, or no work
        found = best_program(schedule, DEVICE, independent, most_chunks=4, most_streams=3)
        for trial in (found.simplest.config, found.best.config):
            if not check(schedule):  # else the waits that its races lack are added first
                check_kept(schedule, changed_by(trial.changes, Work(schedule, DEVICE), independent))


@examples(25)
@given(programs())
def test_what_explain_proposes_without_a_condition_loses_no_order(schedule: Schedule) -> None:
    sound = repaired(schedule, check(schedule))
    for loss in explain(schedule, DEVICE).losses:
        if loss.best is not None:
            made = loss.best.work.schedule
            assert not list(lost(sound, made, (), "(a prefetcher)" in loss.remedy)), loss.remedy


@examples(40)
@given(programs(), st.lists(CHANGES, min_size=1, max_size=2))
def test_the_written_file_is_the_program_whose_time_is_promised(schedule: Schedule, changes: list[Change]) -> None:
    with suppress(InputError), TemporaryDirectory() as folder:
        found = what_if(schedule, DEVICE, changes, independent=True)
        write_schedule(found.work.schedule, Path(folder, "after.json"))
        again = read_schedule(Path(folder, "after.json"))
        assert simulate(again, found.work.device).makespan_s == found.together.takes_s


# By hand

IN, BACK = h2d(1, 400), d2h(1, 400)


def _into(buffer: str, k: int) -> Copy:
    return Copy("h2d", 400, 1, Region("pinned", 400 * k, 400), Region(buffer, 0, 400))


ONE_BUFFER = [op for k in range(4) for op in (_into("one", k), kernel(1, 100))]
TWO_BUFFERS = [op for k in range(4) for op in (_into(("one", "two")[k % 2], k), kernel(1, 100))]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("ops", [ONE_BUFFER, TWO_BUFFERS])
def test_a_copy_is_not_made_ahead_into_a_buffer_that_unnamed_kernels_may_read(ops: list[Op], depth: int) -> None:
    """A kernel that names no memory cannot be given a second buffer. Of two by hand, the other one is free."""
    schedule = plan(*ops, Synchronize(), streams=1, buffers=(*CARD, *HOST))
    if (ops, depth) == (TWO_BUFFERS, 1):
        assert what_if(schedule, DEVICE, [make.prefetch(1)]).together.assumes == (make.IN_TIME,)
    else:
        with pytest.raises(InputError, match=r"^--prefetch \d: ops\[\d\] would not wait for ops\[\d\], .*: name "):
            what_if(schedule, DEVICE, [make.prefetch(depth)], independent=True)


def test_copies_of_a_loop_that_copies_nothing_back_are_made_ahead_without_a_condition() -> None:
    """Each step's input comes from the host, and the prefetcher has a buffer for it."""
    ops = [op for _ in range(3) for op in (IN, kernel(1, 100))]
    assert what_if(plan(*ops, Synchronize()), DEVICE, [make.prefetch(1)]).together.assumes == ()
    ops = [op for _ in range(3) for op in (IN, kernel(1, 100), BACK)]
    assert what_if(plan(*ops, Synchronize()), DEVICE, [make.prefetch(1)]).together.assumes == (make.IN_TIME,)


HELD = replace(BACK, blocking=True)


@examples(30)
@given(st.integers(2, 4), CHANGES)
def test_what_is_kept_on_the_card_is_used_in_its_order(steps: int, change: Change) -> None:
    """Each step works on what the step before has left there, if no condition says that the two are independent."""
    ops = [op for k in range(steps) for op in (IN, kernel(1, 100, name=f"k{k}"), HELD)]
    with suppress(InputError):
        made = changed_by([make.KEEP, change], Work(plan(*ops, Synchronize(), streams=1), DEVICE))
        assert "--keep" in made.options
        graph = Graph(made.work.schedule)
        for a, b in pairwise(_images(op, made.work.schedule) for op in ops if isinstance(op, Kernel)):
            assert INDEPENDENT in made.assumes or all(graph.is_behind(end(k), start(i)) for k, i in product(a, b))


LEGACY = (kernel(1, 100), kernel(2, 10), kernel(0, 10), kernel(2, 1))


@pytest.mark.parametrize(
    ("schedule", "change", "assumes"),
    [
        (plan(kernel(1, 10), HELD, kernel(2, 100)), make.order("breadth-first"), {ORDERS_NO_STREAMS}),
        (plan(kernel(2, 100), h2d(1, 100), d2h(1, 101), h2d(2, 102)), make.order("breadth-first"), {INDEPENDENT}),
        (plan(*LEGACY, kind="blocking"), make.streams(2), {NEEDS_NO_LEGACY}),
        (plan(*LEGACY, kind="blocking"), make.OFF_LEGACY, {NEEDS_NO_LEGACY}),
        (plan(kernel(1, 10), HELD, kernel(2, 100)), make.ASYNC, {ORDERS_NO_STREAMS}),
        (
            plan(
                *(replace(IN, blocking=True), kernel(1, 1), kernel(1, 100)),
                *(replace(IN, blocking=True), kernel(1, 10), kernel(2, 10)),
            ),
            make.prefetch(1),
            {ORDERS_NO_STREAMS},
        ),
    ],
)  # fmt: skip
def test_a_condition_says_what_gave_the_order_that_is_lost(
    schedule: Schedule, change: Change, assumes: set[str]
) -> None:
    """A wait of the host, the legacy default stream, or the streams of steps. The latter two must be said before."""
    assert {*changed_by([change], Work(schedule, DEVICE)).assumes} == assumes
    for condition in assumes & MUST_BE_SAID:
        with pytest.raises(
            InputError, match=rf"^{change.option}: nothing in the schedule shows that {condition}; .*--independent"
        ):
            what_if(schedule, DEVICE, [change])
