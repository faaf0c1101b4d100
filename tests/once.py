"""What takes seconds and is the same for several tests of a process: a fit of samples, a comparison of a record."""

from collections.abc import Callable
from operator import attrgetter

import msgspec

from streamsim.device import Device, number_names
from streamsim_validate.calibrate import Samples, fits
from streamsim_validate.compare import Comparison, predictions
from streamsim_validate.records import Record

_FITTED: dict[bytes, Device] = {}
_COMPARED: dict[bytes, Comparison] = {}


def fit_once(samples: Samples, fit: Callable[[Samples], Device] = fits.fit) -> Device:
    """``fits.fit``, once for the same samples."""
    content = msgspec.json.encode(samples)
    if content not in _FITTED:
        _FITTED[content] = fit(samples)
    return _FITTED[content]


def compare_once(record: Record, device: Device | None = None) -> Comparison:
    """``compare``, once for the same record and its own profiles."""
    if device is not None:
        return predictions.compare(record, device)
    content = msgspec.json.encode(record)
    if content not in _COMPARED:
        _COMPARED[content] = predictions.compare(record)
    return _COMPARED[content]


def numbers_of(device: Device) -> dict[str, float]:
    """All numbers of a fitted profile, with the times of each kernel at its sizes."""
    found = {name: attrgetter(name)(device) for name in number_names(device) - {"compute.kernels"}}
    for cost in device.compute.kernels:
        for elements, seconds in zip(cost.elements, cost.duration_s, strict=True):
            found[f"{cost.name}({cost.parameter}) of {elements}"] = seconds
    return found
