"""The discrete-event model: ``simulate(schedule, device)`` gives the predicted time line."""

from streamsim.device import Device
from streamsim.model.program import NOTHING, Program, compile_schedule
from streamsim.model.simulation import Simulation
from streamsim.schedule import Schedule
from streamsim.timeline import Timeline

__all__ = ["simulate"]


def simulate(schedule: Schedule, device: Device) -> Timeline:
    """Predict when every op of ``schedule`` runs on ``device``.

    Deterministic. Raises InputError when the device has no cost for a kernel that the schedule names.
    """
    program = compile_schedule(schedule, device)
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


def complete_events(times: Simulation | Timeline, program: Program) -> None:
    """Events and host calls occupy no engine: an event completes with what it stands for, a call on return."""
    for op, kind in enumerate(program.kind):
        if kind == NOTHING:
            done = times.returned[op]
            for earlier in program.frontier.get(op, ()):
                done = max(done, times.end[earlier])
            times.ready[op] = times.start[op] = times.end[op] = done
