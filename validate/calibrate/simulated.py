"""The probes as the model predicts them, and the numbers with which it predicts what was measured."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from streamsim.compiled import simulate_one_of_many
from streamsim.device import Device
from streamsim.program import Schedule
from streamsim_validate.calibrate.probe import Probe
from streamsim_validate.calibrate.samples import Samples

MOST_STEPS, STEP, ENOUGH = 12, 0.1, 0.01  # enough: a step that lowers the sum of the squares by less is the last one
A_LITTLE_S = 50e-9  # so little that no op comes late for it which did not before


def simulated_issue_s(schedule: Schedule, device: Device) -> float:
    """Return the seconds until the host has issued every call except the last, which waits for everything."""
    return simulate_one_of_many(schedule, device).issued[-1] * 1e-9


def simulated_per_link(probes: Iterable[Probe], device: Device) -> dict[tuple[str, int], float]:
    """Return the model's time of one more link of each chain, as ``Samples.per_link`` does of measured ones."""
    ends: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for chain, schedule in probes:
        ends.setdefault((chain.kind, chain.size), []).append(
            (chain.length, simulate_one_of_many(schedule, device).makespan_s)
        )
    return {key: (b - a) / (long - short) for key, ((short, a), (long, b)) in ends.items()}


def nearest_number(samples: Samples, probes: Sequence[Probe], made: Callable[[float], Device]) -> float:
    """Return the number, at least 0, with which the model's chains, linear in it, come closest to the samples."""
    without, some = simulated_per_link(probes, made(0.0)), simulated_per_link(probes, made(A_LITTLE_S))
    more = {key: some[key] - seconds for key, seconds in without.items()}
    missed = sum(more[key] * (samples.per_link(*key) - seconds) for key, seconds in without.items())
    return max(0.0, A_LITTLE_S * missed / sum(m * m for m in more.values()))


def nearest_numbers(
    samples: Samples,
    probes: list[Probe],
    made: Callable[[Sequence[float]], Device],
    starts: Sequence[Sequence[float]],
) -> list[float]:
    """Return the positive numbers with which the model's chains come closest to the samples, by relative errors.

    The method is Levenberg and Marquardt's, in the logarithms, with differences for derivatives. The errors have
    several minima, so the best result of several starts is taken.
    """

    def errors(logarithms: np.ndarray) -> np.ndarray:
        shown = simulated_per_link(probes, made([float(x) for x in np.exp(logarithms)]))
        return np.array([seconds / samples.per_link(*key) - 1 for key, seconds in shown.items()])

    def descend(at: np.ndarray) -> tuple[float, np.ndarray]:
        now, damping = errors(at), 1e-2
        for _ in range(MOST_STEPS):
            slopes = np.array([(errors(at + STEP * axis) - now) / STEP for axis in np.eye(len(at))])
            square = slopes @ slopes.T
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-12), -slopes @ now).clip(-1, 1)
            tried = errors(at + step)
            if tried @ tried < now @ now:
                gain = 1 - (tried @ tried) / (now @ now)
                at, now, damping = at + step, tried, damping / 5
                if gain < ENOUGH:
                    break
            else:
                damping *= 10
        return float(now @ now), at

    _, best = min((descend(np.log(np.array(start))) for start in starts), key=lambda found: found[0])
    return [float(x) for x in np.exp(best)]


class Misfit(NamedTuple):
    """A chain of a profile's probes: the measured seconds of one link, and the seconds that the model misses."""

    kind: str
    size: int
    measured_s: float
    missed_s: float

    @property
    def relative(self) -> float:
        """The misfit over the measured time of a link."""
        return self.missed_s / self.measured_s


def misfits(samples: Samples, probes: Sequence[Probe], device: Device, fitted: int = 0) -> list[Misfit]:
    """Return the model's misfits of probes, as if it had not been fitted to them.

    With ``fitted`` numbers, a fit to n chains reduces their mean square by (n - fitted) / n.
    """
    shown = simulated_per_link(probes, device)
    more = math.sqrt(len(shown) / (len(shown) - fitted))
    measured = {key: samples.per_link(*key) for key in shown}
    return [Misfit(*key, measured[key], (shown[key] - measured[key]) * more) for key in shown]


def rms(values: Iterable[float]) -> float:
    """Return the root of the mean square."""
    found = list(values)
    return math.sqrt(sum(value * value for value in found) / len(found))
