"""The spread of a link's numbers: the scatter of its chains' runs, and the model's misfit."""

import math
from collections.abc import Sequence

from streamsim.device import Device, LinkDirection
from streamsim.program.schedule import Direction
from streamsim_validate.calibrate.copies import COLD_KINDS, copies
from streamsim_validate.calibrate.probe import DIRECTIONS, MI
from streamsim_validate.calibrate.samples import Samples
from streamsim_validate.calibrate.shared_link import crowded, duplex
from streamsim_validate.calibrate.simulated import Misfit, misfits, rms

FITTED = {copies: 4, duplex: 5, crowded: 6}  # probes: how many numbers were fitted to them
TWO_IN_SERIES = tuple(f"duplex {d}" for d in DIRECTIONS)
LATENCY_BYTES = MI  # copies of at most so much tell of the latency, larger ones of the bandwidth


def link_spread(samples: Samples, device: Device) -> dict[str, float]:
    """Return the spread of the numbers of both directions, each from the chains that show it."""
    missed = [m for probes, numbers in FITTED.items() for m in misfits(samples, list(probes()), device, numbers)]
    found: dict[str, float] = {}
    for d in DIRECTIONS:
        one = _direction_spread(samples, d, getattr(device, d), missed)
        found |= {f"{d}.{name}": value for name, value in one.items()}
    return found


def _direction_spread(
    samples: Samples, d: Direction, link: LinkDirection, missed: Sequence[Misfit]
) -> dict[str, float]:
    kinds = {
        "": (d,),
        "duplex_": (f"duplex {d}", "duplex"),
        "crowded_": (f"crowded {d}",),
        "crowded_duplex_": ("crowded",),
    }
    warm = f"pageable {d}"
    cold = COLD_KINDS[d] if samples.has({COLD_KINDS[d]}) else warm
    found = {
        f"pageable_{name}": samples.scatter(k) for name, k in (("latency_s", warm), ("bandwidth_bytes_per_s", cold))
    }
    for which, chains in kinds.items():
        scatter = rms(samples.scatter(kind) for kind in chains)
        own = [m for m in missed if m.kind in chains]
        name = f"{which}latency_s"
        latency_s = getattr(link, name)
        if latency_s:
            found[name] = math.hypot(scatter, rms(m.missed_s / latency_s for m in own if m.size <= LATENCY_BYTES))
        name = f"{which}bandwidth_bytes_per_s"
        if hasattr(link, name):
            large = [m for m in own if m.size > LATENCY_BYTES]
            found[name] = math.hypot(scatter, rms(_of_copy(m) for m in large or own))
    return found


def _of_copy(misfit: Misfit) -> float:
    """Return the misfit of a copy: in ``duplex h2d`` and ``duplex d2h`` two are in series beside one."""
    return misfit.relative * (2 if misfit.kind in TWO_IN_SERIES else 1)
