"""When the ops of a recorded program ran: read off a recording op by op, in its file, and as a time line."""

from itertools import pairwise

import strategies as card
from hypothesis import assume, given
from perfect_profiler import profiled
from strategies import NS, h2d, kernel, make_device, plan

from streamsim import program
from streamsim.device import Device
from streamsim.model import simulate
from streamsim.recorded import program_of, recorded_times
from streamsim.timeline import recorded_timeline


@given(card.schedules(launch="live"), card.devices())
def test_a_recorded_time_line_is_that_of_the_program_that_was_recorded(
    schedule: program.Schedule, device: Device
) -> None:
    """Every call, copy and kernel when it was, from the first call of work on; on every thread one thing at a time.

    What stands in a recording is known by its call, whose correlation is the op's place in the schedule.
    """
    was = simulate(schedule, device)
    assume(any(engine >= 0 for engine in was.engine))
    recording = profiled(was)
    found = program_of(recording)
    line = recorded_timeline(simulate(found.schedule, device), recorded_times(recording, found))
    op_of_call = recording.calls.correlation.tolist()
    for k, (work, call) in enumerate(zip(found.work, found.call, strict=True)):
        if call >= 0:
            op = op_of_call[call]
            assert (line.issued[k], line.returned[k]) == (
                was.issued[op] - found.first_ns,
                was.returned[op] - found.first_ns,
            )
        if work >= 0:
            assert (line.start[k], line.end[k]) == (was.start[op] - found.first_ns, was.end[op] - found.first_ns)
    for thread in {op.thread for op in found.schedule.ops}:
        own = [k for k, op in enumerate(found.schedule.ops) if op.thread == thread]
        assert all(0 <= line.issued[k] <= line.returned[k] for k in own if found.call[k] >= 0)
        assert all(line.returned[a] <= line.issued[b] for a, b in pairwise(own))


def test_what_the_host_does_between_calls_took_the_time_between_them() -> None:
    """A copy's call 0..2, work of 7, a launch 9..12; the synchronisation holds until the kernel has ended, at 17."""
    ops = h2d(1, 5), program.HostWork(7 * NS), kernel(1, 5), program.Synchronize(stream=1)
    was = profiled(simulate(plan(*ops, streams=1), make_device(copy=2, kernel=3)))
    found = program_of(was)
    assert [type(op) for op in found.schedule.ops] == [type(op) for op in ops]
    times = recorded_times(was, found)
    assert times == program.RecordedTimes((0, 2, 9, 12), (2, 9, 12, 17), (2, -1, 12, -1), (7, -1, 17, -1))
