"""A schedule beside its prediction: its times, its errors, and the classes of schedules."""

from operator import attrgetter
from typing import Any

import msgspec

DEVICE_BOUND, HOST_BOUND, BLOCKING, PAGEABLE = CLASSES = ("device-bound", "host-bound", "blocking", "pageable")
NOISE_REACH = 3.0  # half quartile distances: two standard deviations where the samples are normal
PERCENT = 100


def in_percent(one: msgspec.Struct, *properties: str) -> dict[str, Any]:
    """Return the fields of ``one``, then its ``properties``, by name.

    A float without a unit in its name is a share: it is given in percent, and its name ends with ``_percent``.
    """
    found = {name: attrgetter(name)(one) for name in (*one.__struct_fields__, *properties)}
    shares = {name for name, value in found.items() if isinstance(value, float) and not name.endswith("_s")}
    return {f"{k}_percent" if k in shares else k: v * PERCENT if k in shares else v for k, v in found.items()}


class Row(msgspec.Struct, frozen=True):
    """A schedule, measured and predicted. Times in seconds, medians of the samples.

    - ``noise``: half the distance between the quartiles of ``measured_s``, over its median.
    - ``wall_s``, ``issue_s``: the whole program's time on the host's clock, and the part of it that issuing took.
    - ``formulas_s``: the published predictors, by name.
    - ``workload``: the work that is cut into chunks; "" for a user's own schedule.
    - ``simplicity``: the smaller, the simpler.

    All times of a program in a language are wall times, and ``issue_s`` is the time of its calls. ``front_end`` is the
    language. ``speeds``: the times of its calls beside each run, over the calibrated times. ``at_speed_s``: the time
    predicted with calls at the speed at which the program was issued.
    """

    key: str
    connections: int
    klass: str
    pattern: str
    effect: str
    workload: str
    measured_s: float
    noise: float
    predicted_s: float
    wall_s: float
    wall_predicted_s: float
    issue_s: float
    formulas_s: dict[str, float]
    simplicity: tuple[int, ...] = ()
    front_end: str = ""
    speeds: tuple[float, ...] = ()
    at_speed_s: float = 0.0

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted_s / self.measured_s - 1

    @property
    def wall_error(self) -> float:
        """The signed relative error of the predicted time of the whole program."""
        return self.wall_predicted_s / self.wall_s - 1

    @property
    def at_speed_error(self) -> float:
        """The signed relative error of ``at_speed_s``."""
        return self.at_speed_s / self.measured_s - 1

    @property
    def is_noise(self) -> bool:
        """True if the measurement itself scatters by as much as the error."""
        return abs(self.error) <= NOISE_REACH * self.noise

    def formula_error(self, name: str) -> float:
        """Return the signed relative error of a published formula."""
        return self.formulas_s[name] / self.measured_s - 1

    def plain(self) -> dict[str, Any]:
        """Return the row as JSON and CSV hold it: units are in the names, errors in percent."""
        return {
            "key": self.key,
            "connections": self.connections,
            "status": "ok",
            "class": self.klass,
            "pattern": self.pattern,
            "effect": self.effect,
            "measured_s": self.measured_s,
            "predicted_s": self.predicted_s,
            "error_percent": self.error * PERCENT,
            "noise_percent": self.noise * PERCENT,
            "wall_s": self.wall_s,
            "wall_predicted_s": self.wall_predicted_s,
            "wall_error_percent": self.wall_error * PERCENT,
            "issue_s": self.issue_s,
            "formulas_s": self.formulas_s,
            **({"front_end": self.front_end, "at_speed_s": self.at_speed_s} if self.front_end else {}),
        }
