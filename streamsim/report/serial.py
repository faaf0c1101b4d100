"""The program that a prediction is compared with: its name and its time line."""

from streamsim.analysis import Prediction, SerialProgram
from streamsim.model import simulate
from streamsim.program import serialized
from streamsim.timeline import Timeline

SERIAL_WORDS: dict[SerialProgram, str] = {
    "unchunked": "not cut, blocking copies",
    "serial": "the same ops without overlap, blocking",
    "given": "the program given to compare with",
}


def serial_timeline(prediction: Prediction) -> Timeline:
    """Simulate the program that ``prediction`` says it was cut from; if it says none, its own ops made serial."""
    device, schedule = prediction.timeline.device, prediction.schedule
    assert device is not None  # it was simulated
    return simulate(schedule.unchunked or serialized(schedule), device)
