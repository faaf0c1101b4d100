"""The discrete-event model: ``simulate(schedule, device)`` gives the predicted time line."""

from pathlib import Path

from streamsim.device.library import as_device
from streamsim.device.profile import Device
from streamsim.lowering.costs import KERNEL, NOTHING, event_ticks
from streamsim.lowering.lowered import Lowered, lower
from streamsim.model.simulation import Simulation
from streamsim.program.schedule import Schedule
from streamsim.timeline.timeline import Timeline

__all__ = ["simulate"]


def simulate(schedule: Schedule, device: Device | str | Path) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device``: a Device, or the name or file of one.

    Deterministic. Raises InputError for an unknown device, and when it has no cost for a kernel that the schedule
    names.
    """
    program = lower(schedule, as_device(device))
    simulation = Simulation(program)
    simulation.run()
    complete_events(simulation, program)
    return Timeline(
        schedule=schedule,
        engine_names=program.engine_names,
        engine=program.engine(),
        issued=simulation.issued,
        returned=simulation.returned,
        ready=simulation.ready,
        start=simulation.start,
        end=simulation.end,
        program=program,
    )


def complete_events(times: Simulation | Timeline, program: Lowered) -> None:
    """Events and host calls occupy no engine: a call completes on return, an event with what it stands for.

    Like any op an event is not on the card before its call has been submitted, and it hears of another stream's ops
    as late as a kernel that waits for them.
    """
    for op, kind in enumerate(program.kind):
        if kind == NOTHING:
            done = times.returned[op]
            if op in program.frontier:
                done = max(done + program.submit, _heard(times, program, op))
            times.ready[op] = times.start[op] = times.end[op] = done


def _heard(times: Simulation | Timeline, program: Lowered, event: int) -> int:
    """When an event knows of the ends of all that it stands for: no engine has to come to it through other queues."""
    ops, kind, other = program.schedule.ops, program.kind, event_ticks(program.device)
    heard = 0
    for op in program.frontier[event]:
        own = ops[op].stream == ops[event].stream
        heard = max(heard, times.end[op] + (0 if own else program.hand_over[kind[op]][KERNEL] + other))
    return heard
